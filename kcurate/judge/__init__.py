"""Candidate in, `Verdict` out: the only package that decides whether a pair is correct and faster.

| where | what |
|---|---|
| `judging` | `judge()` and `Judge`: the stages of one judgement, in order |
| `case` | the state of one candidate while it is judged |
| `admission`, `verifying`, `agreement`, `negative_controls`, `sanitizer` | the stages before timing |
| `trials` | the sizes and inputs that both sides run on |
| `reference_runs` | further runs of the reference: with wider accumulation, and for negative controls |
| `gpu_lock` | shared or exclusive use of a GPU |
| `checks/` | static checks of a side's source, plan and binary |
| `timing/` | from samples to a speedup and an outcome |
| `workers/` | worker processes: the judge's end |
| `workers/inside/` | worker processes: the code that runs beside a candidate's code |
| `referees/` | many candidates at once, on this machine or on a Ray cluster |

Other packages import from this module only; names are loaded on first use.
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
    name: home
    for home, names in {
        "case": ("Case", "Ruling"),
        "checks.repeated_launches": ("repeated_steps",),
        "checks.static": ("check_source", "hints"),
        "judging": ("Judge", "JudgeConfig", "judge", "reference_side"),
        "referees.batch": ("default_jobs", "describe_environment", "judge_many", "open_referees"),
        "workers.compiling": ("compile_side",),
        "workers.nursery": ("Nursery",),
    }.items()
    for name in names
}
__all__ = [
    "Case", "Judge", "JudgeConfig", "Nursery", "Ruling", "check_source", "compile_side", "default_jobs",
    "describe_environment", "hints", "judge", "judge_many", "open_referees", "reference_side",
    "repeated_steps",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
