"""What is tried before a draft is admitted or refused, and how often."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from kcurate.core import store
from kcurate.draft import checking
from kcurate.draft.admit import MAX_FILLED_RUNS, MAX_PLAIN_RUNS
from kcurate.draft.checking import AdmittingJudge
from kcurate.draft.sizes import MAX_TEST_ELEMENTS
from kcurate.draft.stage import DraftConfig, draft
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.judge import JudgeConfig
from kcurate.records import (
    Buffer,
    Candidate,
    Environment,
    Init,
    KnownProblem,
    Origin,
    Outcome,
    Problem,
    Side,
    Sizes,
    Verdict,
)

# The ends of `out` are not written, at any size; its indices end before its allocation.
STENCIL = """
#include <cstdlib>
__global__ void smooth(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) out[i] = 0.25f * in[i - 1] + 0.5f * in[i] + 0.25f * in[i + 1];
}
int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 100000;
  float *d_in, *d_out;
  cudaMalloc(&d_in, n * sizeof(float));
  cudaMalloc(&d_out, n * sizeof(float));
  smooth<<<(n + 255) / 256, 256>>>(d_in, d_out, n);
}
"""


@dataclass
class Asked:
    """Stands for the judge: answers by backend, and remembers who was asked."""

    config: JudgeConfig
    usable: bool = True
    answers: ClassVar[dict[str, Outcome]] = {}
    asked: ClassVar[list[str]] = []

    def judge(self, candidate: Candidate) -> Verdict:
        self.asked.append(self.config.backend)
        environment = Environment(self.config.backend, "none")
        return Verdict(candidate.id, "", self.answers[self.config.backend], environment)

    def close(self) -> None:
        self.asked.append("closed")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> type[Asked]:
    monkeypatch.setattr(checking, "Judge", Asked)
    monkeypatch.setattr(Asked, "asked", [])
    return Asked


def sized(elements: int) -> Candidate:
    """A candidate whose only buffer has so many elements."""
    problem = Problem(Sizes(({"n": elements},), {}), {"x": Buffer("float32", ("n",))})
    side = Side("", ())
    return Candidate("a", "a", "a", None, Origin("curated"), (), "", problem, side, side)


@pytest.mark.parametrize(
    ("emulated", "elements", "order"),
    [
        (Outcome.CORRECT, 1000, ["emulator"]),
        (Outcome.MISMATCH, 1000, ["emulator"]),
        (Outcome.TIMEOUT, 1000, ["emulator", "cuda"]),
        (Outcome.UNSUPPORTED, 1000, ["emulator", "cuda"]),
        (Outcome.CORRECT, MAX_TEST_ELEMENTS + 1, ["cuda"]),
    ],
)
def test_a_gpu_decides_what_the_emulator_cannot(
    asked: type[Asked], emulated: Outcome, elements: int, order: list[str]
) -> None:
    asked.answers = {"emulator": emulated, "cuda": Outcome.CORRECT}
    with contextlib.closing(AdmittingJudge(0)) as judge:
        verdict = judge(sized(elements))
    assert asked.asked == [*order, *["closed"] * len(order)]
    assert verdict.environment.backend == order[-1]


def test_without_a_gpu_the_emulator_decides_alone(asked: type[Asked]) -> None:
    asked.answers = {"emulator": Outcome.TIMEOUT}
    assert AdmittingJudge()(sized(1000)).outcome is Outcome.TIMEOUT
    assert asked.asked == ["emulator"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with the stencil extracted."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "main.cu").write_text(STENCIL)
    extract(ExtractConfig((tmp_path / "tree",), tmp_path / "work", compile=False))
    return tmp_path / "work"


@pytest.mark.slow
def test_partly_written_output_is_compared_with_its_initial_contents(root: Path) -> None:
    assert draft(DraftConfig(root)).items["kernels"] == {"admitted": 1}
    (record,) = (root / "kernels").rglob("problem.json")
    buffers = store.read_json(record, KnownProblem).problem.buffers
    assert (buffers["out"].role, buffers["out"].shape) == ("inout", ("n",))
    assert "only partly written" in record.with_name("problem.toml").read_text()


# Zeros everywhere, unless a number is negative.
SIGNS = """
__global__ void below(const int *in, bool *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] < 0;
}
void run(int n, int *in, bool *out) { below<<<(n + 127) / 128, 128>>>(in, out, n); }
"""


def test_integers_of_both_signs_are_tried_where_others_prove_nothing(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "main.cu").write_text(SIGNS)
    extract(ExtractConfig((tmp_path / "tree",), tmp_path / "work", compile=False))
    assert draft(DraftConfig(tmp_path / "work")).items["kernels"] == {"admitted": 1}
    (record,) = (tmp_path / "work/kernels").rglob("problem.json")
    init = store.read_json(record, KnownProblem).problem.buffers["in"].init
    assert init == Init("integers", {"low": -1000, "high": 1000})


# No number between 0 and 1 is that large.
RARE = """
__global__ void above(const float *in, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] > 1e9f;
}
void run(int n, float *in, int *out) { above<<<(n + 127) / 128, 128>>>(in, out, n); }
"""


def test_a_problem_that_is_too_weak_keeps_its_kernel_and_says_what_would_mend_it(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "main.cu").write_text(RARE)
    extract(ExtractConfig((tmp_path / "tree",), tmp_path / "work", compile=False))
    assert draft(DraftConfig(tmp_path / "work")).items["refused"] == {"malformed": 1}
    (kernel,) = (tmp_path / "work/kernels").rglob("kernel.json")
    text = kernel.with_name("problem.toml").read_text()
    assert "too weak for zeros; no input changes the outputs: give these wider ranges" in text


def test_hopeless_draft_stops_at_the_run_limits(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roles: list[str] = []

    def mismatch(self: AdmittingJudge, candidate: Candidate) -> Verdict:
        assert candidate.problem is not None
        roles.append(candidate.problem.buffers["out"].role)
        return Verdict(candidate.id, "", Outcome.MISMATCH, Environment("emulator", "none"), side="fast")

    monkeypatch.setattr(AdmittingJudge, "__call__", mismatch)
    assert draft(DraftConfig(root)).items["refused"] == {"mismatch": 1}
    assert roles == ["out"] * MAX_PLAIN_RUNS + ["inout"] * MAX_FILLED_RUNS
