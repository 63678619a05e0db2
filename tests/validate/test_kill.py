"""`kcurate validate` with random processes of it killed at random: nothing is lost, nothing is half."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import small

from kcurate.core import store
from kcurate.records import Outcome

EXPECTED = {
    "scale": {"correct"},
    "atomics": {"correct"},
    "loops": {"correct"},
    "view": {"correct"},
    "past": {"mismatch"},
    "wrong": {"mismatch"},
    "tail": {"mismatch", "nondeterministic"},
    "compile": {"compile_error"},
}
DEADLINE_S = 240.0


def pairs(folder: Path) -> Path:
    """The candidates as pair folders."""
    good, bad = small.honest().values(), [one for one, _ in small.wrong().values()]
    for candidate in (*good, *bad):
        if candidate.family in EXPECTED:
            store.write_candidate(folder / candidate.family, candidate)
    return folder


def descendants(pid: int) -> list[int]:
    """A process and everything below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, at = [pid], 0
    while at < len(found):
        found += children.get(found[at], [])
        at += 1
    return found


def start(given: Path, workspace: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kcurate", "validate", str(given), "-w", str(workspace)]
    return subprocess.Popen(
        [*command, "--backend", "emulator", "-j", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def lines(workspace: Path) -> list[bytes]:
    return [line for path in workspace.glob("verdicts/*.jsonl") for line in path.read_bytes().splitlines()]


def check(workspace: Path, before: list[bytes]) -> list[bytes]:
    """Every file is whole, and every verdict that was there is there."""
    now = lines(workspace)
    assert now[: len(before)] == before
    for line in now:
        assert json.loads(line)["outcome"]
    for path in workspace.rglob("*.json"):
        assert json.loads(path.read_bytes())
    return now


def finish(given: Path, workspace: Path) -> None:
    """Run to the end: every candidate has one final verdict, the right one."""
    process = start(given, workspace)
    assert process.wait(DEADLINE_S) == 1  # some candidates are wrong
    verdicts = [json.loads(line) for line in check(workspace, [])]
    final = [one for one in verdicts if Outcome(one["outcome"]).final]
    assert Counter(one["candidate"] for one in final) == Counter(f"test/{name}" for name in EXPECTED)
    for one in final:
        assert one["outcome"] in EXPECTED[one["candidate"].removeprefix("test/")], one


def run_with_kills(tmp_path: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    given = pairs(tmp_path / "pairs")
    number, done, before = 0, 0, list[bytes]()
    process, ended_at = start(given, tmp_path / "w0"), time.monotonic() + DEADLINE_S
    family: set[int] = set()
    while done < kills:
        assert time.monotonic() < ended_at, f"only {done} kills, {len(before)} verdicts"
        time.sleep(rng.uniform(0.05, 0.6))
        if process.poll() is None:
            alive = descendants(process.pid)
            family |= set(alive)
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(alive), signal.SIGKILL)
                done += 1
            continue
        before = check(tmp_path / f"w{number}", before)
        if process.returncode == 1 and len(before) >= len(EXPECTED):
            number, before = number + 1, []
        process = start(given, tmp_path / f"w{number}")
    process.kill()
    process.wait()
    check(tmp_path / f"w{number}", before)
    for one in range(number + 1):
        finish(given, tmp_path / f"w{one}")
    for _ in range(100):
        left = [pid for pid in family if is_ours(pid)]
        if not left:
            return
        time.sleep(0.05)
    raise AssertionError(f"processes left behind: {left}")


def is_ours(pid: int) -> bool:
    """Whether a process is one that validate started (its number may belong to another by now)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return b"kcurate" in Path(f"/proc/{pid}/cmdline").read_bytes() and ") Z" not in stat
    except OSError:
        return False


@pytest.mark.slow
def test_random_kills_lose_no_verdict(tmp_path: Path) -> None:
    run_with_kills(tmp_path, kills=4, seed=1)


@pytest.mark.slow
def test_fifty_random_kills_lose_no_verdict(tmp_path: Path) -> None:
    run_with_kills(tmp_path, kills=50, seed=2)
