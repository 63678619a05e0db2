"""Real servers on loopback, with two tasks of our own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from small import EACH, SCALE, SCALE_STRIDED, scaled

from kcurate.client import Client
from kcurate.core import store
from kcurate.records import Environment, Outcome, Verdict
from kcurate.verdicts.keys import verdict_key

# Nobody writes this but the pair's author: an answer that leaks shows it.
SECRET = "float only_in_the_answer"
# Too short to tie the families together (`kcurate.cuda_source.containment`).
SERIAL = """
extern "C" __global__ void scale(const float* x, float* y, float a, int n) {
    for (int i = threadIdx.x; i < n; i += 128) y[i] = a + x[i];
}
"""
SHIFT = SCALE.replace("a * x[i]", "a + x[i]")


class Server:
    """`kcurate serve` in a process of its own, killed at the end."""

    def __init__(self, dataset: Path, workspace: Path, *options: str, token: str | None = None) -> None:
        self.command = [sys.executable, "-m", "kcurate", "serve", "--backend", "emulator", "--port", "0"]
        self.command += ["-w", str(workspace), "--dataset", str(dataset), *options]
        self._token = token
        self.start()

    def start(self) -> None:
        """Start it, and wait until it says where it listens."""
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"http://\S+:\d+", line)
        assert found, line + self.process.stderr.read()
        self.url = found[0]
        self.client = Client(self.url, token=self._token, retry_s=20)

    def kill(self) -> None:
        """End it without warning."""
        self.process.kill()
        self._ended()

    def stop(self) -> int:
        """End it as a person or a service manager does; its exit code."""
        os.kill(self.process.pid, signal.SIGTERM)
        return self._ended()

    def _ended(self) -> int:
        assert self.process.stderr is not None
        self.process.stderr.close()
        return self.process.wait(timeout=60)


def write_pairs(root: Path, scale: str) -> Path:
    """Two correct pairs; `scale`: the known answer of the first."""
    for name, slow, fast in (("scale", SCALE_STRIDED, scale), ("shift", SERIAL, SHIFT)):
        base = scaled(name, bench=1 << 12)
        made = replace(
            base,
            slow=replace(base.slow, code=slow, plan=(EACH,)),
            fast=replace(base.fast, code=fast),
        )
        store.write_candidate(root / name, made)
        verdict = Verdict(
            made.id, verdict_key(made), Outcome.CORRECT, Environment("emulator", "CPU"), checks=("plan",)
        )
        store.write_verdict(root / name, verdict)
    return root


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    hidden = SCALE.replace("if (i < n)", f"{SECRET} = 0.0f; if (i < n)")
    return write_pairs(tmp_path_factory.mktemp("tasks"), hidden)


@pytest.fixture(scope="module")
def server(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(dataset, tmp_path_factory.mktemp("work"), "--max-body", "200000")
    yield made
    made.kill()
