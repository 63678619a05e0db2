"""Tasks, replies and a judge of our own for the tests of training."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from small import EACH, SCALE, SCALE_STRIDED, scaled

from kcurate import prompts
from kcurate.core import codec
from kcurate.prompts import Answer
from kcurate.records import Candidate, Environment, Outcome, SideName, Speedup, Verdict
from kcurate.train.pair_tasks import task_of
from kcurate.train.task import Task

GPU = Environment("cuda", "Some GPU")
PLAN = [codec.to_data(EACH)]


def task(name: str = "scale", bench: int = 4096) -> Task:
    """y = a * x, given with a chunk a thread."""
    return task_of(scaled(name, bench=bench))


def reply(code: str = SCALE, plan: object = PLAN) -> str:
    """A reply with this code and plan (None: none)."""
    return prompts.write_answer(Answer(code, plan))  # type: ignore[arg-type]


COPY = reply(SCALE_STRIDED, None)
WRONG = reply(SCALE.replace("a * x[i]", "a + x[i]"))
BROKEN = reply(SCALE.replace("a * x[i]", "nothing(x[i])"))
EMPTY = reply(SCALE.replace("if (i < n) y[i] = a * x[i];", ""))
CHEAT = reply(SCALE.replace("if (i < n)", 'printf("%d", i); if (i < n)'))
ENDLESS = reply(SCALE.replace("if (i < n)", "while (n) if (i < n)"))


def verdict(
    candidate: Candidate,
    outcome: Outcome = Outcome.CONFIRMED,
    ratio: float | None = None,
    side: SideName | None = None,
    checks: tuple[str, ...] = ("plan",),
) -> Verdict:
    """A verdict of a GPU that is not there."""
    speedup = None if ratio is None else Speedup(ratio, ratio * 0.99, ratio * 1.01, 0.98, 20, 0.02)
    made = Verdict(candidate.id, "key", outcome, GPU, "said", side, checks=checks, wall_s=0.5)
    return replace(made, speedup=speedup)


class RuleJudge:
    """Judges by a function, at once: for ratios, which need a GPU. `asked` are the candidates."""

    def __init__(self, rule: Callable[[Candidate, int], Verdict], device: str = "Some GPU") -> None:
        self.rule = rule
        self.asked: list[Candidate] = []
        self.device = device

    def submit(self, candidate: Candidate) -> Future[Verdict]:
        """What the rule says of the candidate, and of how often candidates were asked about before."""
        future: Future[Verdict] = Future()
        self.asked.append(candidate)
        made = self.rule(candidate, len(self.asked) - 1)
        future.set_result(replace(made, environment=replace(GPU, device=self.device)))
        return future

    def environment(self) -> Environment:
        """A GPU that is not there."""
        return replace(GPU, device=self.device)

    def close(self) -> None:
        """Nothing to end."""
