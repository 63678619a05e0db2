"""The summary that a command reports when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """One input of a stage and its outcome; `passed`: the stage did with it what the stage is for.

    `why` is the sentence of the judge or the stage, `file` has the rest, `next` is the command that follows.
    """

    kind: str
    id: str
    outcome: str
    passed: bool
    why: str = ""
    file: str | None = None
    next: str | None = None


@dataclass(frozen=True)
class Failure:
    """The known error that ended a command: its kind, what failed, where, and what to do about it."""

    kind: str
    what: str
    where: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class Summary:
    """The result of one stage: counts per outcome for each kind of input, and the wall time.

    Each inner map adds up to the number of inputs of its kind. `results` are the inputs one by one; kinds
    that are only counted have none. `run` is the run's folder. The same object is the run's `summary.json`
    and the output of `--json`.
    """

    stage: str
    counts: Mapping[str, Mapping[str, int]]
    wall_s: float
    workspace: str | None = None
    results: tuple[Item, ...] = ()
    run: str | None = None
    error: Failure | None = None

    @property
    def items(self) -> Mapping[str, Mapping[str, int]]:
        """The counts, under the name that they had before version 1."""
        return self.counts
