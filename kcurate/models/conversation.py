"""One conversation with a model: its tool calls are run and answered until it submits an answer.

A conversation gives out its next request and takes the exchange, so that single requests and batches run it
alike. What a tool found is saved with the exchange that follows it, so a later run replays a conversation
byte for byte without running a tool. A model without tools answers at once. Not covered: who answers
(`asking`), what the tools do (the caller's `Bench`), what an answer is worth.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcurate.core import codec
from kcurate.core.options import TOOL_CALLS, TOOL_SECONDS
from kcurate.models.asking import Asking
from kcurate.models.client import Request
from kcurate.models.transcripts import next_key
from kcurate.prompts import tools
from kcurate.prompts.replies import Form
from kcurate.records import Exchange, ReplyStatus, Turn

PAUSE = "pause_turn"
# Calls that are answered with a reminder after the last one that is run; then the conversation is over.
REMINDERS = 2


class CannotRun(Exception):  # noqa: N818 - an answer to a model, not an error of ours
    """A tool call cannot be run; the text says why."""


@dataclass(frozen=True)
class Limits:
    """The most tool calls of a conversation, and the most seconds spent in them."""

    calls: int = TOOL_CALLS
    seconds: float = TOOL_SECONDS


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    id: str
    name: str
    arguments: Mapping[str, Any]


class Bench:
    """The tools of a conversation; this base class has none."""

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The definitions of all tools, also of those that submit an answer."""
        return ()

    @property
    def runs(self) -> frozenset[str]:
        """The names of the tools that do not end the conversation."""
        return frozenset()

    def run(self, call: Call, before: Sequence[Exchange]) -> str:
        """The result of a call, in words. `before`: the exchanges of the conversation so far.

        Raises:
            CannotRun: the call makes no sense.
        """
        raise CannotRun("there are no tools")

    def answer(self, call: Call, before: Sequence[Exchange]) -> Mapping[str, Any]:
        """The answer that a call submits: its input, or that of the version that it names.

        Raises:
            CannotRun: there is no such version.
        """
        return numbered(call, before) if call.name == tools.SUBMIT_VERSION else call.arguments


def called(exchange: Exchange) -> Call | None:
    """The first tool call of an exchange."""
    for block in exchange.content:
        if block.get("type") == "tool_use" and isinstance(block.get("input"), Mapping):
            return Call(block["id"], block["name"], block["input"])
    return None


def numbered(call: Call, before: Sequence[Exchange]) -> Mapping[str, Any]:
    """The input of the `compile` call number `version`, from 1.

    Raises:
        CannotRun: there was no such call.
    """
    compiled, number = versions(before), call.arguments.get("version")
    if type(number) is not int or not 1 <= number <= len(compiled):
        raise CannotRun(f"there is no version {number}; {tools.COMPILE} gives the numbers")
    return compiled[number - 1]


def versions(before: Sequence[Exchange]) -> list[Mapping[str, Any]]:
    """The inputs of all `compile` calls so far."""
    calls = (called(exchange) for exchange in before)
    return [call.arguments for call in calls if call is not None and call.name == tools.COMPILE]


def handed_in(bench: Bench, exchange: Exchange, before: Sequence[Exchange]) -> tuple[str, Form]:
    """The answer in the last exchange of a conversation: its text, or the JSON input of its tool call.

    Raises:
        CannotRun: it has none.
    """
    call = called(exchange)
    if call is None or not bench.tools:
        return exchange.reply, exchange.form
    if call.name in bench.runs:
        raise CannotRun("the calls are used up and no answer was handed in")
    return codec.canonical_json(bench.answer(call, before)).decode(), "tool"


class Conversation:
    """A conversation under way: `request` is to be answered next. Not thread-safe."""

    def __init__(self, asking: Asking, request: Request, bench: Bench, limits: Limits) -> None:
        self.asking, self.request, self.bench, self.limits = asking, request, bench, limits
        self.calls, self.seconds = 0, 0.0

    def absorb(self, exchange: Exchange) -> bool:
        """Take the exchange for `request`; True if it ends the conversation, else `request` is the next."""
        call = called(exchange)
        paused = exchange.stop_reason == PAUSE
        runs = call is not None and call.name in self.bench.runs
        if exchange.status is not ReplyStatus.ANSWERED or not (paused or runs):
            return True
        if self.calls >= self.limits.calls + REMINDERS:
            return True
        self.calls += 1
        turn: Turn | None = None
        key = next_key(self.request.key, self.request.sample, call.id if runs and call else PAUSE)
        if runs and call is not None:
            turn = self.asking.transcripts.turn(key) or self._run(call)
        self.request = self.asking.following(self.request, exchange, turn, key)
        return False

    def _run(self, call: Call) -> Turn:
        if self.calls > self.limits.calls or self.seconds >= self.limits.seconds:
            what = "calls" if self.calls > self.limits.calls else "seconds"
            return Turn(f"Not run: no {what} are left. Hand in your answer now.", call.id, failed=True)
        begun = time.monotonic()
        try:
            result, failed = self.bench.run(call, [exchange for exchange, _ in self.request.history]), False
        except CannotRun as error:
            result, failed = f"Not run: {error}.", True
        self.seconds += time.monotonic() - begun
        return Turn(f"{result}\n{self._left()}", call.id, failed)

    def _left(self) -> str:
        seconds = max(0.0, self.limits.seconds - self.seconds)
        # In tens of seconds: an exact number says nothing, and makes equal conversations differ.
        return f"({self.limits.calls - self.calls} calls and {10 * math.ceil(seconds / 10)} s of tools left)"
