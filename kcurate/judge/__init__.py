"""Candidate in, `Verdict` out: the only package that decides whether a pair is correct and faster.

| where | what |
|---|---|
| `judging` | `judge()` and `Judge`: the stages of one judgement, in order |
| `case` | the state of one candidate while it is judged |
| `admission`, `verifying`, `agreement`, `negative_controls`, `sanitizer` | the stages before timing |
| `thread_orders` | further runs on the emulator, with threads in random orders |
| `planted_answers` | wrong answers that some trial must refuse |
| `trials` | the sizes and inputs that both sides run on |
| `reference_runs` | further runs of the reference: with wider accumulation, and for negative controls |
| `gpu_lock` | shared or exclusive use of a GPU |
| `checks/` | static checks of a side's source, plan and binary |
| `timing/` | from samples to a speedup and an outcome |
| `workers/` | worker processes: the judge's end |
| `workers/inside/` | worker processes: the code that runs beside a candidate's code |
| `referees/` | many candidates at once, on this machine or on a Ray cluster |
| `at_bench` | trials at a bench size; random parts of outputs, copied to the host by the driver |
| `counted_runs` | both sides on the emulator, compiled to count what they do |
| `explained` | an upper bound on a side's GPU time, from the work that it was counted to do |
| `made_slow` | evidence on whether a slow side that a rule or a model wrote is slow on purpose |
| `made_slow_limits` | the limits of such a side: of code, threads, shared memory, times |
| `needless` | which part of a slow side is needless |
| `ablated_runs` | runs of a slow side without some of its parts, within a time budget |
| `timing_job` | the timed trials of a bench size |

The public Python API is `__all__` (docs/python.md). Other packages import from this module only; the
other names here are for them. Names are loaded on first use.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcurate.core.resources import pairs_dir
    from kcurate.core.store import read_candidate
    from kcurate.judge.checks.repeated_launches import repeated_steps as repeated_steps
    from kcurate.judge.checks.static import check_source as check_source
    from kcurate.judge.checks.static import hints as hints
    from kcurate.judge.judging import Judge, JudgeConfig, judge
    from kcurate.judge.judging import reference_side as reference_side
    from kcurate.judge.referees.batch import describe_environment as describe_environment
    from kcurate.judge.referees.batch import judge_many
    from kcurate.judge.referees.batch import open_referees as open_referees
    from kcurate.judge.workers.compiling import compile_side as compile_side
    from kcurate.records import Candidate, Outcome, Verdict

_HOMES = {
    name: home
    for home, names in {
        "kcurate.judge.checks.repeated_launches": ("repeated_steps",),
        "kcurate.judge.checks.static": ("check_source", "hints"),
        "kcurate.judge.judging": ("Judge", "JudgeConfig", "judge", "reference_side"),
        "kcurate.judge.referees.batch": ("describe_environment", "judge_many", "open_referees"),
        "kcurate.judge.workers.compiling": ("compile_side",),
        "kcurate.records": ("Candidate", "Outcome", "Verdict"),
        "kcurate.core.resources": ("pairs_dir",),
        "kcurate.core.store": ("read_candidate",),
    }.items()
    for name in names
}
__all__ = [
    "Candidate", "Judge", "JudgeConfig", "Outcome", "Verdict", "judge", "judge_many", "pairs_dir",
    "read_candidate",
]  # fmt: skip


if not TYPE_CHECKING:  # with it, a type checker would take any name for one of this module

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        member = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = member
        return member


def __dir__() -> list[str]:
    return sorted(__all__)


class _Callable(ModuleType):
    """`kcurate.judge(slow, fast, ...)`: the import of this package takes the name of that function.

    The function is above this package (`kcurate.own.judging`), so it is looked up by name when it is called.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Verdict:
        verdict: Verdict = _function()(*args, **kwargs)
        return verdict

    @property
    def __signature__(self) -> Any:
        import inspect

        return inspect.signature(_function())


def _function() -> Any:
    return importlib.import_module("kcurate.own.judging").judge


sys.modules[__name__].__class__ = _Callable
