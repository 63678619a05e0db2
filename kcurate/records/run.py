"""The summary that a command reports when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """One input of a stage and its outcome; `passed`: the stage succeeded with it.

    `why` is a sentence by the judge or the stage, `file` has the details, `next` is the command to run next.
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

    Each inner map adds up to the number of inputs of its kind. `results` lists the inputs; kinds that are
    only counted are not in it. `run` is the run's folder. `summary.json` of a run and the output of `--json`
    are this record.
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
        """The counts, under their name before version 1."""
        return self.counts
