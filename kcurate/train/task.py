"""One question to a model, and what an answer to it earned: what every module of training shares.

Not covered: where tasks come from (`pair_tasks`, `kernelbench.tasks`), how an answer is judged
(`reward.schemes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcurate.records import Candidate, Prompt


@dataclass(frozen=True)
class Task:
    """A slow side is given, a faster one is asked for.

    `template` is the candidate whose fast side an answer replaces (its `origin.made` is `fast`: the slow side
    is the reference). `answer` is the reply that supervised training teaches, in the form of
    `prompts.write_answer`; None where nobody knows a good one. `family` never straddles train and held-out.
    `permitted`: the only techniques that an answer may show (None: no such rule).
    """

    id: str
    family: str
    prompt: Prompt
    template: Candidate
    answer: str | None = None
    permitted: frozenset[str] | None = None


@dataclass(frozen=True)
class Judged:
    """What one completion earned.

    `outcome`: a verdict's (`records.Outcome`), or what kept it from the judge (`unreadable`, `copied`,
    ...). `speedup`: slow time over fast time, None when none was measured. `components`: the reward's
    terms by name; `reward` is their sum. `audit`: a ratio that asked for a second look. `cheat`: refused by
    the static checks, or not borne out by that look. `judge_s`: seconds of judging (0 when cached).
    """

    task_id: str
    outcome: str
    reward: float
    components: Mapping[str, float]
    speedup: float | None = None
    detail: str = ""
    audit: bool = False
    cheat: bool = False
    cached: bool = False
    judge_s: float = 0.0
