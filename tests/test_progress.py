"""Progress: quiet in a pipe, a bar with an estimate on a terminal, and lines above it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from kcurate.core import progress

SLOW = """
import time
from kcurate.core import progress
progress.DELAY_S = 0.05
progress.EVERY_S = 0.02
for number in progress.each(range(4), "validate on NVIDIA H200", unit="pair"):
    time.sleep(0.15)
    progress.above(f"note {number}")
with progress.bar("write the page"):
    time.sleep(0.2)
"""
QUICK = "from kcurate import progress\nassert list(progress.each([1, 2], 'read')) == [1, 2]"


def on_terminal(code: str) -> str:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    with subprocess.Popen([sys.executable, "-c", code], stderr=follower, close_fds=True) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:  # Linux ends a terminal whose other side is closed with an error
                break
            if not part:
                break
            shown += part
        assert process.wait(timeout=30) == 0
    os.close(leader)
    return shown.decode()


def test_a_bar_has_an_estimate_and_notes_stand_above_it() -> None:
    shown = on_terminal(SLOW)
    assert "validate on NVIDIA H200" in shown
    assert "2/4 [00:00<00:0" in shown, "time passed, time left"
    assert "write the page: 00:00" in shown
    lines = [line.rpartition("\r")[2] for line in shown.replace("\r\n", "\n").split("\n")]
    assert {f"note {number}" for number in range(4)} <= {line.strip() for line in lines}


def test_what_is_quick_shows_nothing() -> None:
    assert on_terminal(QUICK).strip() == ""


def test_nothing_is_shown_in_a_pipe() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SLOW], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == ""
    assert done.stderr == "note 0\nnote 1\nnote 2\nnote 3\n"


def test_an_error_ends_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), progress.bar("divide", 2):
        raise ZeroDivisionError
    assert capsys.readouterr().err == ""
