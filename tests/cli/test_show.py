"""`kcurate show` on a terminal, in a pipe, and as JSON."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from kcurate import cli
from kcurate.core import store
from kcurate.records import (
    Candidate,
    Environment,
    Kernel,
    Launch,
    Origin,
    Outcome,
    Problem,
    Side,
    Sizes,
    Source,
    Span,
    Speedup,
    Verdict,
)

COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    plan = (Launch("scale", ("n",), (1,), args=("x",)),)
    candidate = Candidate(
        "demo/scale",
        "scale",
        "demo",
        None,
        Origin("rule", made="slow", rules=("unroll",)),
        ("unrolling",),
        "x *= 2",
        Problem(Sizes(({"n": 5},), {"n": 100}), {}),
        Side("[bold]slow_code[/bold];\n", plan),
        Side("fast_code;\n", plan),
    )
    folder = tmp_path / "pairs" / "demo" / "scale"
    store.write_candidate(folder, candidate)
    speedup = Speedup(1.5, 1.49, 1.51, 0.98, 20, 0.02)
    environment = Environment("cuda", "NVIDIA H200")
    store.write_verdict(folder, Verdict("demo/scale", "k", Outcome.CONFIRMED, environment, speedup=speedup))
    kernel = Kernel("0123456789abcdef", Source("s"), "b", None, "add", Span("a.cu", 0, 9, 3, 4), "a.cu", ())
    store.write_json(tmp_path / "kernels" / "add" / "kernel.json", kernel)
    store.write_bytes(tmp_path / "kernels" / "add" / "kernel.cu", b"kernel_code;\n")
    return tmp_path


def test_plain_output_has_everything(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["show", "scale", "-w", str(work)]) == 0
    out = capsys.readouterr().out
    for part in (
        "[bold]slow_code[/bold];",
        "fast_code;",
        "plan of both sides",
        '"bench": {"n": 100}',
        "slow side made by unroll",
        "NVIDIA H200  confirmed  1.500x [1.490, 1.510]",
    ):
        assert part in out
    assert "\x1b" not in out


def test_kernel_is_shown(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["show", "add", "-w", str(work)]) == 0
    out = capsys.readouterr().out
    assert "s, a.cu line 3" in out
    assert "kernel_code;" in out


def test_json_is_one_object(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["show", "scale", "-w", str(work), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["pair"]["slow"]["code"] == "[bold]slow_code[/bold];\n"
    assert shown["verdicts"][0]["outcome"] == "confirmed"


@pytest.mark.parametrize(("columns", "beside"), [(140, True), (80, False)])
def test_sides_are_shown_side_by_side_on_a_wide_terminal(work: Path, columns: int, beside: bool) -> None:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    command = [sys.executable, "-m", "kcurate", "show", "scale", "-w", str(work)]
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    environment["TERM"] = "xterm-256color"
    with subprocess.Popen(command, stdout=follower, env=environment, close_fds=True) as process:
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
    lines = COLOUR.sub(b"", shown).decode().splitlines()
    assert any("slow_code" in line and "fast_code" in line for line in lines) is beside
    assert max(map(len, lines)) <= columns
    assert b"\x1b[" in shown
