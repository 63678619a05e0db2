"""The summary that a command reports when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """The result of one stage: counts per outcome for each kind of input, and the wall time.

    Each inner map adds up to the number of inputs of its kind. The same object is the run's `summary.json`
    and the output of `--json`.
    """

    stage: str
    items: Mapping[str, Mapping[str, int]]
    wall_s: float
    workspace: str | None = None
