"""Which prompts GRPO samples for next, depending on earlier rewards; chosen just before each rollout batch.

`PassRate` prefers tasks that are solved about half the time. `Pool` adds an earlier answer to a prompt, as in
the search of Mikasa et al. (SQD, arXiv:2602.12049). Each process keeps its own records, and a resumed run
starts without any. Not covered: stages of permitted techniques (`curriculum`), the wording of a prompt
(`kcurate.prompts`).
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kcurate.cuda_source.compare.similarity import fingerprint
from kcurate.local_models.form import Form
from kcurate.problem.techniques import not_permitted
from kcurate.reward import schemes
from kcurate.reward.answers import Readable, Refusal, read
from kcurate.reward.feedback import again
from kcurate.reward.task import Judged, Task

Row = Mapping[str, Any]
# Of a task's right answers, best first: the share to go on from, and the share after that to improve.
DEEPENED, IMPROVED = 0.4, 0.3
# How many answers are kept for a task: the best right ones, and the latest failures.
RIGHT, FAILED = 10, 6
# The weight of a task that is always or never solved; one that is solved half the time has weight 1.
LEAST_WEIGHT = 0.05


class NextPrompts(Protocol):
    """Chooses rows; `saw` is called with every judged completion."""

    def choose(self, rows: Sequence[Row]) -> list[Row]:
        """As many rows to sample for instead of these, one for each group of completions."""

    def saw(self, task: Task, reply: str, judged: Judged) -> None:
        """Record what a completion earned."""


def right(judged: Judged) -> bool:
    """Whether a completion is correct and not a copy."""
    standing = schemes.STANDINGS.get(judged.outcome)
    return standing is not None and standing.correct and judged.outcome != Refusal.COPIED


class PassRate:
    """Replaces a row that was sampled before by one drawn with weight p(1 - p), p being its pass rate.

    A group whose completions all pass, or all fail, has no advantage to learn from.
    """

    def __init__(self, rows: Sequence[Row], seed: int) -> None:
        self._rows = {str(row["task_id"]): row for row in rows}
        self._tries: dict[str, list[bool]] = defaultdict(list)
        self._rng = random.Random(seed)

    def weight(self, name: str) -> float:
        """How often a task is sampled again, relative to others; an untried one counts as undecided."""
        tries = self._tries.get(name, ())
        rate = (sum(tries) + 1) / (len(tries) + 2)
        return max(LEAST_WEIGHT, 4 * rate * (1 - rate))

    def choose(self, rows: Sequence[Row]) -> list[Row]:
        """See `NextPrompts`; no task is twice in a rollout batch."""
        names = [str(row["task_id"]) for row in rows]
        in_batch = {name for name in names if name not in self._tries}
        chosen = []
        for name in names:
            if name in self._tries:
                free = [other for other in self._rows if other in self._tries and other not in in_batch]
                (name,) = self._rng.choices(free, [self.weight(other) for other in free]) if free else (name,)
                in_batch.add(name)
            chosen.append(self._rows[name])
        return chosen

    def saw(self, task: Task, reply: str, judged: Judged) -> None:
        """See `NextPrompts`; completions that the harness failed to judge do not count."""
        if judged.outcome in schemes.STANDINGS:
            self._tries[task.id].append(right(judged))


@dataclass(frozen=True)
class Member:
    """An earlier answer: the reply, what it earned, and its code (empty if the reply is unreadable)."""

    reply: str
    judged: Judged
    code: str

    @property
    def right(self) -> bool:
        """Whether it is correct."""
        return right(self.judged)


class Pool:
    """Each task's earlier answers, shared by all its stages. The seed is the task's prompt without any.

    `longest`: if a prompt with an earlier answer has more tokens than this, the seed is used.
    """

    def __init__(self, tasks: Mapping[str, Task], form: Form, longest: int, seed: int) -> None:
        self._tasks = tasks
        self._form = form
        self._longest = longest
        self._members: dict[str, list[Member]] = defaultdict(list)
        self._rng = random.Random(seed)

    def saw(self, task: Task, reply: str, judged: Judged) -> None:
        """See `NextPrompts`; leaves out copies, repeated answers, and what the harness failed to judge."""
        if judged.outcome not in schemes.STANDINGS or judged.outcome == Refusal.COPIED:
            return
        answer, members = read(task, reply), self._members[_base(task)]
        code = answer.candidate.fast.code if isinstance(answer, Readable) else ""
        if any(code == member.code for member in members):
            return
        members.append(Member(reply, judged, code))
        ranked = sorted(members, key=lambda member: member.judged.speedup or 1.0, reverse=True)
        failed = [member for member in members if not member.right]
        members[:] = [member for member in ranked if member.right][:RIGHT] + failed[-FAILED:]

    def steps(self, task: Task) -> Iterator[tuple[str, Member]]:
        """The earlier answers with only permitted techniques, and for each: deepen, improve or repair."""
        usable = [
            member
            for member in self._members[_base(task)]
            if task.permitted is None or not not_permitted(member.code, task.permitted)
        ]
        solved = [member for member in usable if member.right]
        deepened = math.ceil(DEEPENED * len(solved))
        for rank, member in enumerate(solved[: math.ceil((DEEPENED + IMPROVED) * len(solved))]):
            # The last stage names no technique to add, so its answers can only be improved.
            yield "deepen" if rank < deepened and task.permitted is not None else "improve", member
        yield from (("repair", member) for member in usable if not member.right)

    def choose(self, rows: Sequence[Row]) -> list[Row]:
        """See `NextPrompts`: for each task the seed or one of its steps, all equally likely."""
        chosen: list[Row] = []
        for row in rows:
            task = self._tasks[row["task_id"]]
            step = self._rng.choice([None, *self.steps(task)])
            seed_or_step = {**row, "shown": ""}
            if step is not None:
                action, member = step
                prompt = again(task, member.reply, member.judged, action)
                if len(self._form.prompt_ids(prompt)) <= self._longest:
                    exact = fingerprint(member.code).exact if member.code else ""
                    seed_or_step = {**row, "prompt": self._form.prompt(prompt), "shown": exact}
            chosen.append(seed_or_step)
        return chosen


def _base(task: Task) -> str:
    """The id of a task without its stage."""
    return task.id.partition("@")[0]
