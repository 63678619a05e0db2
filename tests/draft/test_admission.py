"""What is tried before a draft is admitted or refused, and how often."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate import store
from kcurate.draft.admit import MAX_FILLED_RUNS, MAX_PLAIN_RUNS
from kcurate.draft.checking import EmulatorJudge
from kcurate.draft.stage import DraftConfig, draft
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.records import Candidate, Environment, KnownProblem, Outcome, Verdict

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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with the stencil extracted."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "main.cu").write_text(STENCIL)
    extract(ExtractConfig((tmp_path / "tree",), tmp_path / "work", compile=False))
    return tmp_path / "work"


def test_partly_written_output_is_compared_with_its_initial_contents(root: Path) -> None:
    assert draft(DraftConfig(root)).items["kernels"] == {"admitted": 1}
    (record,) = (root / "kernels").rglob("problem.json")
    buffers = store.read_json(record, KnownProblem).problem.buffers
    assert (buffers["out"].role, buffers["out"].shape) == ("inout", ("n",))
    assert "only partly written" in record.with_name("problem.toml").read_text()


def test_hopeless_draft_stops_at_the_run_limits(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roles: list[str] = []

    def mismatch(self: EmulatorJudge, candidate: Candidate) -> Verdict:
        assert candidate.problem is not None
        roles.append(candidate.problem.buffers["out"].role)
        return Verdict(candidate.id, "", Outcome.MISMATCH, Environment("emulator", "none"), side="fast")

    monkeypatch.setattr(EmulatorJudge, "__call__", mismatch)
    assert draft(DraftConfig(root)).items["refused"] == {"mismatch": 1}
    assert roles == ["out"] * MAX_PLAIN_RUNS + ["inout"] * MAX_FILLED_RUNS
