"""Does a server under load judge as the command does, as fast, and lose nothing when it is killed?

    python benchmarks/serve_load.py [--backend cuda] [--gpu 0] [--seconds 600] [--rows load.jsonl]

64 clients send answers one at a time: honest ones, wrong ones, ones that never end, hostile ones, each unlike
all before. Three phases judge the same stream from its beginning, each with new judges and an empty cache:

direct: the judges of `kcurate validate` on this machine, as many answers at a time as clients.
served: `kcurate serve`. Every outcome is compared with that of the phase before.
killed: the same, and the server is killed three times and started again. Every second answer is handed in
without waiting, and asked for by its job's id at the end: acknowledged jobs must all be there.

A row per phase is appended to `--rows`, and one of the ratio. Ends with 1 if an answer was lost or judged
differently, or if the server has less than `--least` of the direct rate. Where only the timing decided
otherwise (a speedup near 1), answers are counted apart. A verdict that was audited counts as two, since the
direct phase audits none. Takes three times `--seconds`, and at each end what the answers under way take.
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
from kcurate.train.reward.answers import Readable, read
from kcurate.train.reward.settled import asks_for_audit, settle
from kcurate.train.task import Task

# Outcomes of right answers, of which another timing may give another.
TIMED = {"confirmed", "not_faster", "ambiguous_timing"}
KILLS = 3
HOSTILE = (
    "\n*(volatile int*)0x7f0000000010ull = 1;",
    '\nprintf("%d", 1);',
    '\nasm volatile("exit;");',
)
INSIDE = {
    "wrong": "\nif (blockIdx.x + threadIdx.x == 0) return;",
    "endless": "\nfor (volatile int load_go = 1; load_go;) {}",
}


def stream(tasks: Sequence[Task], endless: float, seed: int = 0) -> Iterator[tuple[str, Task, str]]:
    """Kind, task and reply, without end; no two replies are equal."""
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

    outcomes: dict[int, str] = field(default_factory=dict)
    judged: int = 0
    sent: int = 0
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, number: int, outcome: str, judgements: int) -> None:
        """An answer that came back, after so many judgements (0: refused before judging)."""
        self.outcomes[number] = outcome
        self.judged += judgements


def clients(
    own: argparse.Namespace, tasks: Sequence[Task], ask: Callable[[Phase, int, Task, str], None]
) -> Phase:
    """Send the stream from its beginning, for as long and by as many clients as the options say."""
    phase, lock = Phase(), threading.Lock()
    answers = enumerate(stream(tasks, own.endless))
    begun = time.monotonic()

    def work() -> None:
        while time.monotonic() - begun < own.seconds:
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
    phase.seconds = time.monotonic() - begun
    return phase


def direct(own: argparse.Namespace, tasks: Sequence[Task]) -> tuple[Phase, dict[str, Any]]:
    config = JudgeConfig(backend=own.backend)

    def ask(phase: Phase, number: int, task: Task, reply: str) -> None:
        found = read(task, reply)
        if not isinstance(found, Readable):
            phase.add(number, settle(found).earned.outcome, 0)
            return
        verdict = referees.submit(found.candidate).result()
        again = (verdict,) * (2 if asks_for_audit((verdict,)) else 1)
        phase.add(number, settle(found, again).earned.outcome, 1)

    referees: Referees
    with contextlib.closing(open_referees(config, gpus=(own.gpu,))) as referees:
        where = referees.environment()
        return clients(own, tasks, ask), {"device": where.device, "cpus": os.cpu_count()}


class Served:
    """A server at one address, in a workspace of its own."""

    def __init__(self, own: argparse.Namespace, folder: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.command = [sys.executable, "-m", "kcurate", "serve", "--backend", own.backend]
        self.command += ["--port", str(port), "-w", folder]
        self.command += ["--gpu", str(own.gpu)] if own.backend == "cuda" else []
        self.url = f"http://127.0.0.1:{port}"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)
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
            return clients(own, tasks, ask)
        finally:
            server.kill()


def killed(own: argparse.Namespace, tasks: Sequence[Task]) -> Phase:
    with tempfile.TemporaryDirectory() as folder:
        server = Served(own, folder)
        client = Client(server.url)
        jobs: dict[int, str] = {}
        over = threading.Event()

        def ask(phase: Phase, number: int, task: Task, reply: str) -> None:
            if number % 2:
                jobs[number] = client.submit(Request([Answer(task.id, reply)], wait=False)).id
            counted(phase, number, client.judge([Answer(task.id, reply)]).results[0])

        def kill() -> None:
            while not over.wait(own.seconds / (KILLS + 1)):
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
            return phase
        finally:
            over.set()
            killer.join()
            server.kill()


def compared(expected: Phase, found: Phase) -> tuple[int, int, list[str]]:
    """Answers that both judged, those of which timing decided otherwise, and those that differ."""
    both = sorted(expected.outcomes.keys() & found.outcomes.keys())
    unequal = [n for n in both if expected.outcomes[n] != found.outcomes[n]]
    timing = [n for n in unequal if {expected.outcomes[n], found.outcomes[n]} <= TIMED]
    rest = [n for n in unequal if n not in timing]
    return len(both), len(timing), [f"{n}: {expected.outcomes[n]}, {found.outcomes[n]}" for n in rest]


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
    own = parser.parse_args()
    tasks = spread(own.tasks)
    about: dict[str, Any] = {
        "clients": own.clients,
        "endless": own.endless,
        "tasks": len(tasks),
        "backend": own.backend,
    }

    def write(name: str, **row: Any) -> None:
        line = json.dumps({"phase": name, **about, **row})
        print(line, flush=True)
        with own.rows.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def row(phase: Phase) -> dict[str, Any]:
        return {
            "seconds": round(phase.seconds, 1),
            "sent": phase.sent,
            "lost": phase.sent - len(phase.outcomes),
            "verdicts_s": round(phase.judged / phase.seconds, 3),
            "outcomes": dict(sorted(Counter(phase.outcomes.values()).items())),
            "errors": phase.errors[:10],
        }

    first, machine = direct(own, tasks)
    about |= machine
    write("direct", **row(first))
    wrong = bool(first.errors)
    for name, run in (("served", served), ("killed", killed)):
        found = run(own, tasks)
        both, timing, differ = compared(first, found)
        facts = {"compared": both, "timing_differs": timing, "differ": differ[:20]}
        write(name, **row(found), **facts)
        wrong |= bool(found.errors or differ) or found.sent != len(found.outcomes)
        if name == "served":
            ratio = (found.judged / found.seconds) / (first.judged / first.seconds)
            write("ratio", served_over_direct=round(ratio, 3))
            wrong |= ratio < own.least
    sys.exit(int(wrong))


if __name__ == "__main__":
    main()
