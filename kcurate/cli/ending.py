"""How a command ends: the one JSON object of `--json`, with the error if there was one, and its exit code.

The object is printed when the command ends, so that an error after the summary is part of it. Not covered:
tables (`kcurate.cli.output`).
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from kcurate.records import Failure, Item, Summary

# Commands that keep what they have finished: the same command goes on.
RESUMED = frozenset(
    (
        "extract", "capture", "problem draft", "problem check", "deopt", "pair", "optimize", "validate",
        "profile", "build", "push", "report", "verify-dataset", "demo", "eval",
    )
)  # fmt: skip


@dataclass
class _Command:
    """The running command, as far as it is parsed."""

    args: tuple[str, ...] = ()
    name: str = ""
    json: bool = False
    started_s: float = field(default_factory=time.monotonic)
    printed: tuple[dict[str, Any], TextIO] | None = None
    resume: str | None = None


_now = _Command()


def begin(args: Sequence[str]) -> None:
    """Remember the command line; whether it asks for JSON must be known even if it cannot be parsed."""
    global _now
    before_program = [*args[: args.index("--")]] if "--" in args else [*args]
    words = [word for word in before_program[:2] if not word.startswith("-")]
    name = " ".join(words if words[:1] in (["problem"], ["config"]) else words[:1])
    of_environment = os.environ.get("KCURATE_JSON", "").lower()
    wanted = "--json" in before_program or of_environment in ("1", "true", "yes", "on", "t", "y")
    _now = _Command(tuple(args), name, wanted)


def parsed(name: str, *, as_json: bool) -> None:
    """Record the parsed command, and whether it prints JSON."""
    _now.name, _now.json = name, as_json


def resumed_by(command: str | None) -> None:
    """After an interrupt, name this command as the one that continues."""
    _now.resume = command


def will_print(summary: Summary, more: Mapping[str, Any]) -> None:
    """Print this when the command ends; `more`: keys that only this command has."""
    from kcurate.core.runs import plain

    _now.printed = {**plain(summary), **more}, sys.stdout


def listed(stage: str, items: Sequence[Item], more: Mapping[str, Any], workspace: str | None = None) -> None:
    """Print these items as JSON when the command ends; for commands that only read."""
    from kcurate.records import Summary

    counts: dict[str, dict[str, int]] = {}
    for item in items:
        of_kind = counts.setdefault(item.kind, {})
        of_kind[item.outcome] = of_kind.get(item.outcome, 0) + 1
    wall_s = round(time.monotonic() - _now.started_s, 3)
    will_print(Summary(stage, counts, wall_s, workspace, tuple(items)), more)


def failed(kind: str, what: str, where: str | None = None, hint: str | None = None) -> None:
    """Print the JSON object, if one was asked for, with the error that ended the command."""
    if _now.printed is not None or _now.json:
        from kcurate.records import Failure

        finish(Failure(kind, " ".join(what.split()), where, hint))


def finish(failure: Failure | None = None) -> None:
    """Print the JSON object, if one was asked for."""
    if _now.printed is None and failure is not None and _now.json:
        from kcurate.records import Summary

        will_print(Summary(_now.name, {}, round(time.monotonic() - _now.started_s, 3)), {})
    if _now.printed is None:
        return
    (data, stream), _now.printed = _now.printed, None
    if failure is not None:
        from kcurate.core import codec

        data["error"] = codec.to_data(failure)
    print(json.dumps(data, ensure_ascii=False), file=stream, flush=True)


def goes_on() -> str | None:
    """The command that goes on after an interrupt; None if there is nothing to go on with."""
    if _now.resume is not None:
        return _now.resume
    return shlex.join(["kcurate", *_now.args]) if _now.name in RESUMED else None
