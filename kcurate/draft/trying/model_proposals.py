"""Asks a language model to fill in what a draft leaves open. What it proposes is only a text.

Not covered: whether the text is admitted (`stage`), clients and budgets (`kcurate.models`).
"""

from __future__ import annotations

from kcurate.errors import KcurateError
from kcurate.models.asking import Asking
from kcurate.problem.inputs.contents import GENERATORS
from kcurate.prompts import Unreadable
from kcurate.prompts.problems import PROBLEM_TOOL, complete_problem, read_problem
from kcurate.records import KnownProblem, ReplyStatus

# Kinds of `init` that read what nobody has reviewed.
READ_FILES = frozenset(("file",))


class Proposing:
    """Takes a draft's text and the kernel's code, and returns the text that a model makes of it.

    After a failure that concerns every request (`failure`), nothing is asked any more.
    """

    def __init__(self, asking: Asking) -> None:
        self.asking = asking
        self.failure: KcurateError | None = None

    def __call__(self, text: str, code: str) -> str | None:
        """The completed text; None if there is none."""
        if self.failure is not None:
            return None
        kinds = sorted(GENERATORS.keys() - READ_FILES)
        prompt = complete_problem(text, code, kinds, self.asking.client.form)
        try:
            exchange = self.asking.answer(self.asking.request(prompt, 1, (PROBLEM_TOOL,)))
        except KcurateError as error:
            self.failure = error
            return None
        if exchange.status is not ReplyStatus.ANSWERED:
            return None
        proposal = read_problem(exchange.reply, exchange.form)
        return None if isinstance(proposal, Unreadable) else proposal


def reads_files(known: KnownProblem) -> bool:
    """Whether any buffer's contents are read from a file on this machine."""
    sides = (buffer for side in known.sides.values() for buffer in side.buffers.values())
    inits = (buffer.init for buffer in (*known.problem.buffers.values(), *sides))
    return any(init is not None and init.kind in READ_FILES for init in inits)
