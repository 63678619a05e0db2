"""A workspace with one pair to start from, answers for it, and a judge that follows a script."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kcurate.core import store
from kcurate.deopt.models.run import ModelConfig, Seams
from kcurate.models.client import Patience
from kcurate.records import (
    Buffer,
    Candidate,
    Environment,
    Init,
    Launch,
    Origin,
    Outcome,
    Problem,
    Scalar,
    Side,
    SideReport,
    Sizes,
    Speedup,
    Verdict,
)

QUICK = Patience(tries=4, unreachable_tries=2, first_s=0.01, most_s=0.02)
FAST = """\
__global__ void scale(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int k = 0; k < 4; ++k) {
    int at = 4 * i + k;
    if (at < n) y[at] = 2.0f * __ldg(x + at);
  }
}
"""
NO_UNROLL = FAST.replace("#pragma unroll 4\n", "")
NO_LDG = FAST.replace("__ldg(x + at)", "x[at]")


def side(code: str = FAST) -> Side:
    return Side(code, (Launch("scale", ("ceil_div(n, 1024)",), (256,), args=("x", "y", "n")),))


def problem() -> Problem:
    buffers = {
        "x": Buffer("float32", ("n",), Init("uniform", {"low": -1, "high": 2})),
        "y": Buffer("float32", ("n",), role="out"),
    }
    return Problem(Sizes(({"n": 1000}, {"n": 37}), {"n": 1 << 20}), buffers, {"n": Scalar("int32", "n")})


SLOW = "__global__ void scale(const float *x, float *y, int n) { y[0] = x[0]; }\n"


def start(folder: Path, *, name: str = "scale", slow: str = SLOW) -> Path:
    """A pair to start from; the folder that it is in. A pair that is there already stays."""
    given = folder / "given" / name
    if given.exists():
        return folder / "given"
    pair = Candidate(
        f"own/{name}", name, "elementwise", "MIT", Origin("curated"), (), "", problem(), side(slow), side()
    )
    store.write_candidate(given, pair)
    return folder / "given"


# What the fast side shows.
BOTH = ("loop-unrolling", "read-only-cache")


def config(folder: Path, model: str, **options: Any) -> ModelConfig:
    given = options.pop("paths", (folder / "given",))
    return ModelConfig(
        folder / "work", model, given, max_tokens=1000, **{"techniques": ("loop-unrolling",), **options}
    )


class ScriptedJudge:
    """Verdicts by what stands in a candidate's made side: the first pattern that fits."""

    def __init__(self, script: Mapping[str, Outcome | Verdict] | None = None, ratio: float = 1.5) -> None:
        self.script = dict(script or {})
        self.ratio = ratio
        self.judged: list[Candidate] = []
        self._lock = threading.Lock()

    def __call__(self, candidate: Candidate) -> Verdict:
        with self._lock:
            self.judged.append(candidate)
        made = getattr(candidate, candidate.origin.made or "slow")
        for pattern, found in self.script.items():
            if re.search(pattern, made.code):
                return found if isinstance(found, Verdict) else verdict(candidate, found, ratio=self.ratio)
        return verdict(candidate, Outcome.CONFIRMED, ratio=self.ratio)


def verdict(candidate: Candidate, outcome: Outcome, *, ratio: float = 1.5, **more: Any) -> Verdict:
    timed = outcome in (Outcome.CONFIRMED, Outcome.NOT_FASTER, Outcome.AMBIGUOUS_TIMING)
    hashes = {
        name: SideReport(binary_sha256=store.content_id(getattr(candidate, name).code))
        for name in ("slow", "fast")
    }
    return Verdict(
        candidate.id,
        store.candidate_key(candidate, protocol="test"),
        outcome,
        Environment("cuda", "Test GPU"),
        speedup=Speedup(ratio, ratio - 0.1, ratio + 0.1, 0.98, 20, 0.02) if timed else None,
        **{**hashes, "detail": f"scripted {outcome}", **more},
    )


def seams(judge: Any) -> Seams:
    device = Environment("cuda", "Test GPU")
    return Seams(judge=judge, device=device, patience=QUICK, timeout_s=30.0, poll_s=0.05)
