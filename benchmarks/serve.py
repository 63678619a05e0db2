"""What does HTTP cost? Verdicts a second through `kcurate serve` beside `judge_many`, on the same candidates.

    python benchmarks/serve.py [--backend emulator] [--gpu 0] [--tasks 24] [--rounds 3] [--clients 8]

The candidates are the known answers of built-in tasks. Both ways have warm judges, as many of them, and have
judged nothing yet; a first pass, which is not counted, fills the cache of compiled code. Prints the ratio of
the medians, and fails if an outcome differs.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.client import Answer, Client
from kcurate.judge import JudgeConfig, judge_many, open_referees
from kcurate.reward import pair_tasks
from kcurate.reward.answers import Readable, read
from kcurate.reward.task import Task


def spread(count: int) -> list[Task]:
    """Built-in tasks with a known answer, at most so many, from all over the list."""
    every = [one for one in pair_tasks.load() if one.answer and one.technique is None]
    return every[:: max(1, len(every) // count)][:count]


def direct(tasks: Sequence[Task], backend: str, gpu: int) -> tuple[float, list[str]]:
    """Seconds of `judge_many`, and the outcomes."""
    candidates = []
    for index, task in enumerate(tasks):
        found = read(task, task.answer or "")
        assert isinstance(found, Readable), found
        candidates.append((index, found.candidate))
    with contextlib.closing(open_referees(JudgeConfig(backend=backend), gpus=(gpu,))) as referees:
        referees.environment()
        started = time.perf_counter()
        verdicts = dict(judge_many(candidates, JudgeConfig(backend=backend), referees=referees))
        wall_s = time.perf_counter() - started
    return wall_s, [verdicts[index].outcome.value for index in range(len(tasks))]


def served(tasks: Sequence[Task], backend: str, gpu: int, clients: int) -> tuple[float, list[str]]:
    """Seconds of as many clients, each with one answer at a time, and the outcomes."""
    command = [sys.executable, "-m", "kcurate", "serve", "--backend", backend, "--port", "0"]
    command += ["--gpu", str(gpu)] if backend == "cuda" else []
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([*command, "-w", folder], stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"http://\S+:\d+", line)
            assert found, line
            client = Client(found[0])
            answers = [Answer(task.id, task.answer) for task in tasks]
            with ThreadPoolExecutor(clients) as threads:
                started = time.perf_counter()
                jobs = list(threads.map(lambda one: client.judge([one]), answers))
                wall_s = time.perf_counter() - started
            return wall_s, [job.results[0].outcome for job in jobs]
        finally:
            process.terminate()
            process.wait()
            process.stderr.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--backend", default="emulator")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    tasks = spread(given.tasks)
    _, expected = direct(tasks, given.backend, given.gpu)
    seconds: dict[str, list[float]] = {"direct": [], "served": []}
    for number in range(given.rounds):
        ways = {
            "direct": lambda: direct(tasks, given.backend, given.gpu),
            "served": lambda: served(tasks, given.backend, given.gpu, given.clients),
        }
        for name in sorted(ways, reverse=bool(number % 2)):
            wall_s, outcomes = ways[name]()
            seconds[name].append(wall_s)
            print(f"{name}: {len(tasks) / wall_s:.3f} verdicts/s", flush=True)
            if given.backend == "emulator":  # on a GPU a ratio near 1 may be decided either way
                assert outcomes == expected, (outcomes, expected)
    ratio = statistics.median(seconds["direct"]) / statistics.median(seconds["served"])
    print(f"{len(tasks)} candidates, {given.rounds} rounds: served over direct {ratio:.3f}")


if __name__ == "__main__":
    main()
