"""Which prompts GRPO samples for next, by what was earned so far; asked just before each rollout batch.

`PassRate` samples tasks again in proportion to how undecided they are. `Pool` shows a task with an earlier
answer to it, after the search of Mikasa et al. (SQD, arXiv:2602.12049). Each process has its own, and a
resumed run begins anew. Not covered: stages of permitted techniques (`curriculum`), the words of a prompt
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
# Shares of the right answers of a task, the best first: those to go on from, and those to write better.
DEEPENED, IMPROVED = 0.4, 0.3
# Answers that are kept for a task: the best right ones, and the latest failures.
RIGHT, FAILED = 10, 6
# The weight of a task that is always or never solved, beside 1 for one that is solved half the time.
LEAST_WEIGHT = 0.05


class NextPrompts(Protocol):
    """Chooses rows; `saw` is told what every completion earned."""

    def choose(self, rows: Sequence[Row]) -> list[Row]:
        """The rows to sample for instead of these, as many, one for each group."""

    def saw(self, task: Task, reply: str, judged: Judged) -> None:
        """Learn what a completion earned."""


def right(judged: Judged) -> bool:
    """Whether a completion is correct and no copy."""
    standing = schemes.STANDINGS.get(judged.outcome)
    return standing is not None and standing.correct and judged.outcome != Refusal.COPIED


class PassRate:
    """A row that was sampled before gives way to one drawn by pass rate: p(1 - p), so that groups differ."""

    def __init__(self, rows: Sequence[Row], seed: int) -> None:
        self._rows = {str(row["task_id"]): row for row in rows}
        self._tries: dict[str, list[bool]] = defaultdict(list)
        self._rng = random.Random(seed)

    def weight(self, name: str) -> float:
        """How often a task is sampled again, beside the others; a task without tries counts as undecided."""
        tries = self._tries.get(name, ())
        rate = (sum(tries) + 1) / (len(tries) + 2)
        return max(LEAST_WEIGHT, 4 * rate * (1 - rate))

    def choose(self, rows: Sequence[Row]) -> list[Row]:
        """See `NextPrompts`; no task is twice in a rollout batch."""
        names = [str(row["task_id"]) for row in rows]
        taken = {name for name in names if name not in self._tries}
        chosen = []
        for name in names:
            if name in self._tries:
                free = [other for other in self._rows if other in self._tries and other not in taken]
                (name,) = self._rng.choices(free, [self.weight(other) for other in free]) if free else (name,)
                taken.add(name)
            chosen.append(self._rows[name])
        return chosen

    def saw(self, task: Task, reply: str, judged: Judged) -> None:
        """See `NextPrompts`; what the harness failed to judge does not count."""
        if judged.outcome in schemes.STANDINGS:
            self._tries[task.id].append(right(judged))


@dataclass(frozen=True)
class Member:
    """An earlier answer: the reply, what it earned, and its code (empty: it cannot be read)."""

    reply: str
    judged: Judged
    code: str

    @property
    def right(self) -> bool:
        """Whether it is correct."""
        return right(self.judged)


class Pool:
    """The earlier answers of each task and the seed, the task without one, in all its stages.

    `longest`: prompts with more tokens give way to the seed.
    """

    def __init__(self, tasks: Mapping[str, Task], form: Form, longest: int, seed: int) -> None:
        self._tasks = tasks
        self._form = form
        self._longest = longest
        self._members: dict[str, list[Member]] = defaultdict(list)
        self._rng = random.Random(seed)

    def saw(self, task: Task, reply: str, judged: Judged) -> None:
        """See `NextPrompts`; copies, repeated answers and what the harness failed to judge are left out."""
        if judged.outcome not in schemes.STANDINGS or judged.outcome == Refusal.COPIED:
            return
        answer, members = read(task, reply), self._members[_base(task)]
        code = answer.candidate.fast.code if isinstance(answer, Readable) else ""
        if any(code == member.code for member in members):
            return
        ranked = sorted([*members, Member(reply, judged, code)], key=_value, reverse=True)
        failed = [member for member in (*members, Member(reply, judged, code)) if not member.right]
        members[:] = [member for member in ranked if member.right][:RIGHT] + failed[-FAILED:]

    def steps(self, task: Task) -> Iterator[tuple[str, Member]]:
        """What can be done with the earlier answers that the task permits: deepen, improve or repair."""
        inside = [
            member
            for member in self._members[_base(task)]
            if task.permitted is None or not not_permitted(member.code, task.permitted)
        ]
        done = [member for member in inside if member.right]
        deep = math.ceil(DEEPENED * len(done))
        for at, member in enumerate(done[: math.ceil((DEEPENED + IMPROVED) * len(done))]):
            # The last stage asks for no technique by name that one could go on with.
            yield "deepen" if at < deep and task.permitted is not None else "improve", member
        yield from (("repair", member) for member in inside if not member.right)

    def choose(self, rows: Sequence[Row]) -> list[Row]:
        """See `NextPrompts`: for each task the seed or a step, all equally likely."""
        found: list[Row] = []
        for row in rows:
            task = self._tasks[row["task_id"]]
            chosen = self._rng.choice([None, *self.steps(task)])
            shown = {**row, "shown": ""}
            if chosen is not None:
                action, member = chosen
                prompt = again(task, member.reply, member.judged, action)
                if len(self._form.prompt_ids(prompt)) <= self._longest:
                    exact = fingerprint(member.code).exact if member.code else ""
                    shown = {**row, "prompt": self._form.prompt(prompt), "shown": exact}
            found.append(shown)
        return found


def _base(task: Task) -> str:
    """The id of a task without its stage."""
    return task.id.partition("@")[0]


def _value(member: Member) -> float:
    return member.judged.speedup or 1.0
