"""Locks are found from a process with a temporary folder of its own, and released when it dies."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcurate.core.lock_files import held, is_free, open_lock
from kcurate.judge.workers.nursery import worker_environment

HOLD = """
import fcntl, sys, time
from kcurate.core.lock_files import open_lock
fcntl.flock(open_lock("test"), fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def test_a_workers_lock_is_ours_and_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    own = tmp_path / "own"
    own.mkdir()
    env = {**worker_environment(str(own)), "PYTHONPATH": os.pathsep.join(sys.path)}
    worker = subprocess.Popen([sys.executable, "-c", HOLD], env=env, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "held\n"
    handle = open_lock("test")
    assert not is_free(handle)
    assert not list(own.iterdir())
    worker.kill()
    worker.communicate()
    with held(handle, fcntl.LOCK_EX):
        assert not is_free(open_lock("test"))
    assert is_free(handle)
    os.close(handle)
