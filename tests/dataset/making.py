"""Pairs, verdicts and workspaces of our own for the dataset's tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from small import scaled

from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.dataset.rows import row
from kcurate.records import (
    Candidate,
    Environment,
    Origin,
    Outcome,
    Resources,
    SideReport,
    Speedup,
    Verdict,
)
from kcurate.verdicts.keys import PROTOCOL, verdict_key

H200 = Environment("cuda", "NVIDIA H200", driver="580.1", details={"fast_copy_fraction": 0.8})


def pair(name: str, factor: int = 1, **changes: Any) -> Candidate:
    """An honest pair; those of different `factor` have little code in common."""
    base = scaled(name)
    steps = "".join(f"    v = v * {factor}.{k}f + {k + factor}.5f;\n" for k in range(12))
    helper = f"__device__ float polynomial(float v) {{\n{steps}    return v;\n}}\n"
    slow, fast = (replace(side, code=f"// A remark.\n{helper}{side.code}") for side in (base.slow, base.fast))
    rule = Origin("rule", suite="demo", made="slow", rules=("unroll",))
    made = replace(
        base, id=name, license="MIT", origin=rule, slow=slow, fast=fast, techniques=("loop-unrolling",)
    )
    made = replace(made, description="Multiplies by a factor; the fast side has other code.")
    return replace(made, **changes)


def verdict(candidate: Candidate, outcome: Outcome = Outcome.CONFIRMED, ratio: float = 1.5) -> Verdict:
    """A verdict on exactly this candidate."""
    key = verdict_key(candidate)
    if outcome is not Outcome.CONFIRMED:
        return Verdict(candidate.id, key, outcome, Environment("emulator", "CPU"))
    slow = SideReport(
        (Resources("scale", 20), Resources("other", 32)), "aa" + key, 30.0, ((30.0, 30.5), (29.5,))
    )
    fast = SideReport((), "bb" + key, 30.0 / ratio, ((20.0,), (20.0,)))
    speedup = Speedup(ratio, ratio - 0.01, ratio + 0.01, 0.98, 20, 0.02)
    return Verdict(
        candidate.id,
        key,
        outcome,
        H200,
        checks=("plan",),
        slow=slow,
        fast=fast,
        speedup=speedup,
        seeds=(7,),
        protocol=PROTOCOL,
    )


def a_row(candidate: Candidate, **changes: Any) -> dict[str, Any]:
    """The row of a confirmed candidate."""
    return {**row(candidate, verdict(candidate)), **changes}


def workspace(root: Path, pairs: Iterable[tuple[Candidate, Outcome | None]]) -> Workspace:
    """A workspace with these pairs and, where an outcome is given, their verdicts."""
    made = Workspace(root)
    for candidate, outcome in pairs:
        store.write_candidate(made.pairs / candidate.id, candidate)
        if outcome is not None:
            store.append_jsonl(made.verdicts / "device.jsonl", verdict(candidate, outcome))
    return made
