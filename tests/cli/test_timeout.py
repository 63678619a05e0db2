"""`--timeout` reaches the client of every command that asks a model; a server that stalls is given up."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from deopt.models import server
from deopt.models.server import serving

from kcurate import cli
from kcurate.errors import RemoteError
from kcurate.models import asking, opening
from kcurate.models.client import Patience, with_patience

CODE = """
__global__ void k(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}
"""
COMMANDS = [
    "deopt reduction-scan/reduce-sum-shuffle --techniques loop-unrolling",
    "problem draft",
    "eval generate --limit 1 --out scores",
    "optimize k.cu",
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("setting", ["option", "variable"])
def test_every_command_hands_it_to_its_client(
    command: str,
    setting: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def open_client(_: Any, timeout_s: float | None = None) -> Any:
        raise RemoteError(f"waits for {timeout_s} s")

    monkeypatch.setattr(opening, "open_client", open_client)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(CODE)
    if command == "problem draft":
        assert cli.run(["extract", "k.cu", "--no-compile"]) == 0
    words = [*command.split(), "--model", "claude-opus-4-8"]
    if setting == "variable":
        name = "PROBLEM_DRAFT" if command == "problem draft" else command.split()[0].upper()
        monkeypatch.setenv(f"KCURATE_{name}_TIMEOUT", "7")
    else:
        words += ["--timeout", "7"]
    assert cli.run([*words, "--backend", "emulator"] if "draft" not in command else words) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "error: waits for 7.0 s"


def test_a_server_that_says_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    quick = Patience(tries=2, first_s=0.01)
    monkeypatch.setattr(
        asking, "with_patience", lambda one_try, _, **options: with_patience(one_try, quick, **options)
    )
    woken = threading.Event()
    with serving(server.sleep(woken)) as (url, _):
        words = ["deopt", "reduction-scan/reduce-sum-shuffle", "--techniques", "loop-unrolling"]
        model = f"openai:m@{url}/v1"
        code = cli.run([*words, "--model", model, "--backend", "emulator", "--timeout", "0.3"])
        woken.set()
    assert code == 1
    assert "the server took too long, 2 times" in capsys.readouterr().err
