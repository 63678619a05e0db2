"""Asks a language model to fill in what a draft leaves open: one conversation, in which each file is tried.

What it proposes is only a text. Not covered: whether the text is admitted (`draft_choice`), clients and
budgets (`kcurate.models`).
"""

from __future__ import annotations

from collections.abc import Callable

from kcurate.errors import KcurateError
from kcurate.models.asking import Asking
from kcurate.models.conversation import called
from kcurate.problem.inputs.contents import GENERATORS
from kcurate.prompts import Unreadable
from kcurate.prompts.problems import PROBLEM_TOOL, complete_problem, not_admitted, read_problem
from kcurate.records import Exchange, KnownProblem, ReplyStatus, Turn

# Kinds of `init` that read what nobody has reviewed.
READ_FILES = frozenset(("file",))
# Files requested in one conversation; each request has the faults of the file before.
MOST_FILES = 4
# Why a text is not admitted; None: it is.
Try = Callable[[str], str | None]


class Proposing:
    """Takes a draft's text and the kernel's code, and tries completed texts of a model until one is admitted.

    After a failure that concerns every request (`failure`), nothing is asked any more.
    """

    def __init__(self, asking: Asking) -> None:
        self.asking = asking
        self.failure: KcurateError | None = None

    def __call__(self, text: str, code: str, attempt: Try) -> None:
        """Ask until `attempt` admits a text, the model gives none, or `MOST_FILES` were tried."""
        if self.failure is not None:
            return
        kinds = sorted(GENERATORS.keys() - READ_FILES)
        prompt = complete_problem(text, code, kinds, self.asking.client.form)
        tools = (PROBLEM_TOOL,) if self.asking.client.form == "tool" else ()
        request = self.asking.request(prompt, 1, tools)
        for number in range(1, MOST_FILES + 1):
            try:
                exchange = self.asking.answer(request)
            except KcurateError as error:
                self.failure = error
                return
            refusal = _refusal(exchange, attempt)
            if refusal is None or number == MOST_FILES:
                return
            is_whole = exchange.status is ReplyStatus.ANSWERED
            call = called(exchange) if is_whole else None
            turn = Turn(not_admitted(refusal), call.id if call else None)
            request = self.asking.going_on(request.key, turn, 1, tools)


def _refusal(exchange: Exchange, attempt: Try) -> str | None:
    """Why an answer is not admitted; None if it is, or if the conversation ends here."""
    if exchange.status is ReplyStatus.TRUNCATED:
        return "the answer was cut off before its end; write a shorter one"
    if exchange.status is not ReplyStatus.ANSWERED:
        return None
    proposal = read_problem(exchange.reply, exchange.form)
    return proposal.reason if isinstance(proposal, Unreadable) else attempt(proposal)


def reads_files(known: KnownProblem) -> bool:
    """Whether any buffer's contents are read from a file on this machine."""
    sides = (buffer for side in known.sides.values() for buffer in side.buffers.values())
    inits = (buffer.init for buffer in (*known.problem.buffers.values(), *sides))
    return any(init is not None and init.kind in READ_FILES for init in inits)
