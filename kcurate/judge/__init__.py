"""Candidate in, `Verdict` out: the one place that decides.

| where | what |
|---|---|
| `judging` | `judge()` and `Judge`: the stages of one judgement, in order |
| `case`, `admission`, `verifying`, `agreement`, `negative_controls`, `sanitizer` | one stage each |
| `gpu_lock` | who may use a GPU when |
| `checks/` | what a side may not contain, read off its text and its binary: nothing runs |
| `timing/` | from samples to a speedup and a decision |
| `workers/` | worker processes as the judge sees them |
| `workers/inside/` | what runs in them, beside a candidate's code |
| `referees/` | many candidates at once, here or on a Ray cluster |

Others import from this module alone; names are loaded when they are first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcurate.judge.case import Case, Ruling
    from kcurate.judge.checks.repeated_launches import repeated_steps
    from kcurate.judge.checks.static import check_source, hints
    from kcurate.judge.judging import Judge, JudgeConfig, judge, reference_side
    from kcurate.judge.referees.batch import default_jobs, describe_environment, judge_many, open_referees
    from kcurate.judge.workers.compiling import compile_side
    from kcurate.judge.workers.nursery import Nursery

_HOMES = {
    "Case": "case",
    "Ruling": "case",
    "check_source": "checks.static",
    "hints": "checks.static",
    "repeated_steps": "checks.repeated_launches",
    "Judge": "judging",
    "JudgeConfig": "judging",
    "judge": "judging",
    "reference_side": "judging",
    "default_jobs": "referees.batch",
    "describe_environment": "referees.batch",
    "judge_many": "referees.batch",
    "open_referees": "referees.batch",
    "compile_side": "workers.compiling",
    "Nursery": "workers.nursery",
}
__all__ = [
    "Case",
    "Judge",
    "JudgeConfig",
    "Nursery",
    "Ruling",
    "check_source",
    "compile_side",
    "default_jobs",
    "describe_environment",
    "hints",
    "judge",
    "judge_many",
    "open_referees",
    "reference_side",
    "repeated_steps",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
