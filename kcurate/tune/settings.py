"""The settings of `kcurate tune`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import Argument, BackendOption, GpuOption, Option, WorkspaceOption
from kcurate.errors import OptionError


def read_values(texts: Sequence[str]) -> dict[str, list[int]]:
    """The values of each constant, from texts such as `THREADS=64,128`.

    Raises:
        InputError: a text of another form.
    """
    values = {}
    for text in texts:
        name, _, numbers = text.partition("=")
        parts = numbers.split(",")
        if not name or not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise OptionError(f"not NAME=N,N: {text!r}", where="--value", hint="such as THREADS=64,128")
        values[name] = [int(part) for part in parts]
    return values


@dataclass(frozen=True)
class TuneConfig:
    """What to tune, and how. `values`: the knobs to vary and at what; empty: all that are found."""

    pair: Annotated[
        str, Argument("A path, an id, or a unique prefix of one.", metavar="PAIR", completes="pairs")
    ]
    side: Annotated[Literal["slow", "fast"], Option("Which side.")] = "fast"
    values: Annotated[
        Mapping[str, Sequence[int]],
        Option(
            "Vary this constant (`block`: the block size) at these values; may be repeated.  "
            "[default: every named constant, halved and doubled]",
            "--value",
            "NAME=N,N...",
            read=read_values,
        ),
    ] = field(default_factory=dict)
    strategy: Annotated[
        Literal["greedy", "random", "listed"] | None,
        Option(
            "greedy hill climbing, random, or listed: the configs of @triton.autotune.  "
            "[default: listed if the kernel has any, else greedy]"
        ),
    ] = None
    trials: Annotated[int, Option("At most N trials, counting those on file.", metavar="N", min=1)] = 40
    seed: Annotated[int, Option("Seed for the order of trials.", "--search-seed", "N")] = 0
    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    backend: BackendOption = "auto"
    gpu: GpuOption = "auto"
