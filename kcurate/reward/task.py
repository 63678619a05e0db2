"""A task for a model, and what a completion of it earned: the records shared by reward, evaluation and train.

Not covered: where tasks come from (`pair_tasks`, `kernelbench.tasks`), how a completion is judged
(`reward.pool`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kcurate.core import codec, store
from kcurate.prompts import Answer
from kcurate.records import Candidate, Prompt, Verdict


@dataclass(frozen=True)
class Task:
    """A slow side is given, a faster one is asked for.

    `template` is the candidate whose fast side a completion replaces (its `origin.made` is `fast`: the slow
    side is the reference). `answer` is the known answer, the target of SFT, in the form of
    `prompts.write_answer`; None if no good one is known. A `family` is never both trained on and held out.
    `permitted`: the only techniques that a completion may use (None: any). `technique`: the technique that
    the prompt asks for by name; its known answer need not be the fastest, so the task is for SFT only.
    `local_edit`: the answer is mostly the given code, which is too easy to score on. `known`: the speedup of
    the known answer. `shown`: the fingerprint of an earlier answer in the prompt; repeating it is a copy too.
    """

    id: str
    family: str
    prompt: Prompt
    template: Candidate
    answer: str | None = None
    permitted: frozenset[str] | None = None
    technique: str | None = None
    local_edit: bool = False
    known: float | None = None
    shown: str = ""


@dataclass(frozen=True)
class Judged:
    """What one completion earned.

    `outcome`: its verdict's outcome (`records.Outcome`), or why it was not judged (`unreadable`, `copied`,
    ...). `speedup`: slow time over fast time, None if not measured. `components`: the reward's terms by name;
    `reward` is their sum. `audit`: its speedup was high enough for a second judgement. `cheat`: rejected by
    the static checks, or the second judgement did not reproduce the speedup. `judge_s`: seconds of judging
    (0 if cached). `verdict`: the last verdict that decided it, None if it was not judged here; `key`: its key
    in the cache of verdicts. `feedback`: the server's feedback; empty if judged here, where it is made from
    the verdict. `truncated`: it was cut at the length limit.
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
    key: str = ""
    truncated: bool = False
    feedback: str = field(default="", repr=False)
    verdict: Verdict | None = field(default=None, repr=False)


class Pool(Protocol):
    """Scores completions: `reward.pool.RewardPool`, or `reward.remote.RemotePool`."""

    async def score(self, tasks: Sequence[Task], replies: Sequence[str | Answer]) -> list[Judged]:
        """One `Judged` per completion, in order."""


def given_hash(task: Task) -> str:
    """A hash of the problem and the given side: equal for tasks that ask the same."""
    template = task.template
    parts = (codec.to_data(part) for part in (template.problem, template.slow))
    return store.content_id("given", *(codec.canonical_json(part) for part in parts))
