"""Does a server under load judge as the command does, as fast, and lose nothing when it is killed?

    python benchmarks/serve_load.py [--backend cuda] [--gpu 0] [--seconds 600] [--rows load.jsonl]

64 clients send answers one at a time: honest ones, wrong ones, ones that never end, hostile ones, each unlike
all before. Three phases judge the same stream from its beginning, each with new judges and an empty cache:

direct: the judges of `kcurate validate` on this machine, as many answers at a time as clients.
served: `kcurate serve`. Every outcome is compared with the one there, as far as both came.
killed: the same, and the server is killed three times and started again. Every second answer
is handed in without waiting, and asked for by its job's id at the end: acknowledged jobs must all be there.

A phase sends for `--seconds`, then waits for the answers under way. Its rate is that of the judgements that
ended while it sent: afterwards fewer and fewer clients are left.

Where only the timing decided otherwise (a speedup near 1), answers are counted apart; so are those of which
the direct judges, asked `AGAIN` times more, do not agree with themselves. What a server judges a second time
(an audit) the direct phase judges again too, so that both rates are of equal work. The machine's calibration
is made before anything is counted, and the clock of the first two phases starts when one answer has been
judged.

`--only` runs one phase, so that on a machine with two equal GPUs `direct` and `served` can run at once, each
with half of the processors (`taskset`). A row per phase is appended to `--rows`; a phase that has its row is
not run again. When all are there they are compared: ends with 1 if an answer was lost or judged differently,
or if the server has less than `--least` of the direct rate.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from serve import spread

from kcurate import prompts
from kcurate.client import Answer, Client, Request, Result
from kcurate.errors import KcurateError
from kcurate.judge import JudgeConfig, open_referees
from kcurate.judge.referees.local import Referees
from kcurate.reward.answers import Readable, read
from kcurate.reward.settled import needs_audit, settle
from kcurate.reward.task import Task

# Outcomes of right answers, of which another timing may give another.
TIMED = {"confirmed", "not_faster", "ambiguous_timing"}
KILLS = 3
AGAIN = 3
HOSTILE = (
    "\n*(volatile int*)0x7f0000000010ull = 1;",
    '\nprintf("%d", 1);',
    '\nasm volatile("exit;");',
)
INSIDE = {
    "wrong": "\nif (blockIdx.x == 0) return;",
    "endless": "\nfor (volatile int load_go = 1; load_go;) {}",
}


def stream(tasks: Sequence[Task], endless: float, seed: int = 0) -> Iterator[tuple[str, Task, str]]:
    """Kind, task and reply, without end; no two replies are equal. A wrong one leaves out its first block."""
    rng = random.Random(seed)
    for number in itertools.count():
        task = rng.choice(tasks)
        kind = rng.choices(("honest", "wrong", "hostile", "endless"), (0.6, 0.3, 0.1 - endless, endless))[0]
        answer = prompts.read_reply(task.answer or "", "text")
        assert isinstance(answer, prompts.Answer)
        first = INSIDE.get(kind, "")
        if kind == "hostile":
            how = rng.randrange(len(HOSTILE) + 2)
            if how == len(HOSTILE):
                yield kind, task, f"```json\n{'[' * 3000}{number}\n```"
                continue
            first = HOSTILE[how] if how < len(HOSTILE) else "\n#include </etc/passwd>\n"
        code = "".join(
            part + first * part.startswith("__global__")
            for part in re.split(r"(__global__[^;{]*\{)", answer.code)
        )
        code += f"\nconstexpr int load_{number} = {number};\n"
        yield kind, task, prompts.write_answer(prompts.Answer(code, answer.plan, answer.buffers))


@dataclass
class Phase:
    """What came of the answers that were sent, by their number in the stream."""

    sends_s: float
    begun_s: float = field(default_factory=time.monotonic)
    outcomes: dict[int, str] = field(default_factory=dict)
    judged: int = 0
    sent: int = 0
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def sends(self) -> bool:
        """Whether answers are still sent."""
        return time.monotonic() - self.begun_s < self.sends_s

    def add(self, number: int, outcome: str, judgements: int) -> None:
        """An answer that came back, after so many judgements (0: refused before judging)."""
        self.outcomes[number] = outcome
        self.judged += judgements if self.sends else 0


def clients(
    own: argparse.Namespace, tasks: Sequence[Task], ask: Callable[[Phase, int, Task, str], None]
) -> Phase:
    """Send the stream from its beginning, by as many clients and for as long as the options say."""
    phase, lock = Phase(own.seconds), threading.Lock()
    answers = enumerate(stream(tasks, own.endless))

    def work() -> None:
        while phase.sends:
            with lock:
                number, (_, task, reply) = next(answers)
                phase.sent += 1
            try:
                ask(phase, number, task, reply)
            except Exception as error:  # noqa: BLE001 - an answer that is lost, whatever the reason
                phase.errors.append(f"{number}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work) for _ in range(own.clients)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    phase.seconds = time.monotonic() - phase.begun_s
    return phase


def settled(referees: Referees, task: Task, reply: str) -> tuple[str, int]:
    """The outcome by judges of this process, and how often they judged."""
    found = read(task, reply)
    if not isinstance(found, Readable):
        return settle(found).earned.outcome, 0
    verdicts = [referees.submit(found.candidate).result()]
    if needs_audit(verdicts):
        verdicts.append(referees.submit(found.candidate).result())
    return settle(found, verdicts).earned.outcome, len(verdicts)


def judges(own: argparse.Namespace, jobs: int = 0) -> contextlib.closing[Referees]:
    return contextlib.closing(open_referees(JudgeConfig(backend=own.backend), gpus=(own.gpu,), jobs=jobs))


def calibrated(own: argparse.Namespace, tasks: Sequence[Task]) -> dict[str, Any]:
    """What this machine is, once it has measured what is measured once."""
    with judges(own, 1) as referees:
        where = referees.environment()
        settled(referees, tasks[0], tasks[0].answer or "")
        return {"device": where.device, "cpus": os.cpu_count()}


def direct(own: argparse.Namespace, tasks: Sequence[Task]) -> Phase:
    def ask(phase: Phase, number: int, task: Task, reply: str) -> None:
        phase.add(number, *settled(referees, task, reply))

    with judges(own) as referees:
        settled(referees, tasks[0], tasks[0].answer or "")
        return clients(own, tasks, ask)


class Served:
    """A server at one address, in a workspace of its own."""

    def __init__(self, own: argparse.Namespace, folder: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.command = [sys.executable, "-m", "kcurate", "serve", "--backend", own.backend]
        self.command += ["--port", str(port), "-w", folder]
        self.command += ["--gpu", str(own.gpu)] if own.backend == "cuda" else []
        self.url = f"http://127.0.0.1:{port}"
        self.log = own.rows.with_suffix(".log")
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stderr=log)
        Client(self.url, retry_s=300).health()

    def kill(self) -> None:
        """End it without warning."""
        self.process.kill()
        self.process.wait()


def counted(phase: Phase, number: int, one: Result) -> None:
    phase.add(number, one.outcome, 0 if one.key is None or one.cached else 1 + one.audit)


def served(own: argparse.Namespace, tasks: Sequence[Task]) -> Phase:
    with tempfile.TemporaryDirectory() as folder:
        server = Served(own, folder)
        client = Client(server.url)

        def ask(phase: Phase, number: int, task: Task, reply: str) -> None:
            counted(phase, number, client.judge([Answer(task.id, reply)]).results[0])

        try:
            client.judge([Answer(tasks[0].id, tasks[0].answer or "")])
            return clients(own, tasks, ask)
        finally:
            server.kill()


def killed(own: argparse.Namespace, tasks: Sequence[Task]) -> tuple[Phase, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        server = Served(own, folder)
        client = Client(server.url)
        jobs: dict[int, str] = {}
        kills: list[float] = []
        over = threading.Event()
        begun = time.monotonic()

        def ask(phase: Phase, number: int, task: Task, reply: str) -> None:
            if number % 2:
                jobs[number] = client.submit(Request([Answer(task.id, reply)], wait=False)).id
            counted(phase, number, client.judge([Answer(task.id, reply)]).results[0])

        def kill() -> None:
            while len(kills) < KILLS and not over.wait(own.seconds / (KILLS + 1)):
                kills.append(round(time.monotonic() - begun, 1))
                server.kill()
                server.start()

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            phase = clients(own, tasks, ask)
            over.set()
            killer.join()
            for number, job_id in jobs.items():
                try:
                    job = client.job(job_id, wait=True)
                    if job.state != "done":
                        phase.errors.append(f"job {job_id} of answer {number}: {job.state} {job.error}")
                except KcurateError as error:
                    phase.errors.append(f"job {job_id} of answer {number}: {error}")
            return phase, {"killed_at_s": kills, "acknowledged": len(jobs)}
        finally:
            over.set()
            killer.join()
            server.kill()


PHASES: dict[str, Callable[[argparse.Namespace, Sequence[Task]], tuple[Phase, dict[str, Any]]]] = {
    "direct": lambda own, tasks: (direct(own, tasks), {}),
    "served": lambda own, tasks: (served(own, tasks), {}),
    "killed": killed,
}


def compared(
    own: argparse.Namespace, tasks: Sequence[Task], expected: list[str], found: list[str]
) -> dict[str, Any]:
    """How many answers both judged, and which were judged differently, and why."""
    both = [n for n in range(min(len(expected), len(found))) if expected[n] and found[n]]
    unequal = [n for n in both if expected[n] != found[n]]
    timing = [n for n in unequal if {expected[n], found[n]} <= TIMED]
    facts: dict[str, list[str]] = {"unsteady": [], "differ": []}
    if len(timing) < len(unequal):
        answers = list(itertools.islice(stream(tasks, own.endless), max(unequal) + 1))
        with judges(own) as referees:
            for n in (one for one in unequal if one not in timing):
                kind, task, reply = answers[n]
                again = {settled(referees, task, reply)[0] for _ in range(AGAIN)}
                what = "unsteady" if again - {expected[n]} else "differ"
                facts[what].append(f"{n} {kind} {task.id}: {expected[n]}, {found[n]}; {sorted(again)}")
    return {"compared": len(both), "timing_differs": len(timing), **facts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=48)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--endless", type=float, default=0.003, help="share; each blocks its GPU for seconds")
    parser.add_argument("--least", type=float, default=0.9)
    parser.add_argument("--rows", type=Path, default=Path("serve-load.jsonl"))
    parser.add_argument("--only", choices=("direct", "served", "killed"))
    own = parser.parse_args()
    tasks = spread(own.tasks)
    about: dict[str, Any] = {name: getattr(own, name) for name in ("clients", "endless", "backend")}
    about["tasks"] = len(tasks)
    rows = recorded(own.rows, about)
    phases = {name: run for name, run in PHASES.items() if name not in rows and own.only in (None, name)}
    if phases:
        about |= calibrated(own, tasks)
    for name, run in phases.items():
        phase, facts = run(own, tasks)
        write(own.rows, {"phase": name, **about, **row(phase), **facts})
    rows = recorded(own.rows, about)
    if rows.keys() >= PHASES.keys():
        sys.exit(int(not holds(own, tasks, rows)))


def recorded(path: Path, about: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The last row of each phase that ran as the options say."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {one["phase"]: one for one in map(json.loads, lines) if about.items() <= one.items()}


def write(path: Path, found: dict[str, Any]) -> None:
    """Append a row, and print what is short in it."""
    print({key: value for key, value in found.items() if key != "outcomes"}, flush=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(found) + "\n")


def row(phase: Phase) -> dict[str, Any]:
    """A phase as its row has it."""
    return {
        "seconds": round(phase.seconds, 1),
        "sent": phase.sent,
        "lost": phase.sent - len(phase.outcomes),
        "verdicts_s": round(phase.judged / phase.sends_s, 3),
        "counts": dict(sorted(Counter(phase.outcomes.values()).items())),
        "errors": phase.errors[:10],
        "outcomes": [phase.outcomes.get(number, "") for number in range(phase.sent)],
    }


def holds(own: argparse.Namespace, tasks: Sequence[Task], rows: dict[str, dict[str, Any]]) -> bool:
    """Compare the phases, append what comes out, and say whether everything is as it must be."""
    direct = rows["direct"]
    ratio = rows["served"]["verdicts_s"] / direct["verdicts_s"]
    found = {
        name: compared(own, tasks, direct["outcomes"], rows[name]["outcomes"])
        for name in ("served", "killed")
    }
    write(own.rows, {"phase": "compared", "served_over_direct": round(ratio, 3), **found})
    wrong = any(one["lost"] or one["errors"] for one in rows.values())
    return not wrong and not any(one["differ"] for one in found.values()) and ratio >= own.least


if __name__ == "__main__":
    main()
