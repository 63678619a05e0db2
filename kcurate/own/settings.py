"""The settings of `kcurate pair` and `kcurate optimize`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kcurate.backends.choice import EMULATED, Place
from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import (
    MAX_TOKENS,
    TOOL_CALLS,
    TOOL_SECONDS,
    Argument,
    DefineOption,
    EffortOption,
    IncludeDirsOption,
    LicenceOption,
    MaxTokensOption,
    MaxUsdOption,
    Option,
    PriceOption,
    TimeoutOption,
    ToolCallsOption,
    ToolSecondsOption,
    WorkspaceOption,
)

_FORM = "'<<<GRID, BLOCK>>>' over its parameters, 'KERNEL<4, float><<<GRID, BLOCK>>>' of a template."
_LAUNCH = f"if nothing launches it: {_FORM}  [default: as before, else guessed; printed]"
_OVERRULING = f"{_FORM}  [default: as before, else as host code says, else guessed; printed]"


@dataclass(frozen=True)
class PairConfig:
    """Two kernels as `FILE.cu[:KERNEL]`. `licence` None: the one that the files or their folder state."""

    slow: Annotated[
        str, Argument("The slow kernel; :KERNEL where its file has several.", metavar="SLOW.cu[:KERNEL]")
    ]
    fast: Annotated[str, Argument("The fast kernel; both may be in one file.", metavar="FAST.cu[:KERNEL]")]
    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    licence: LicenceOption = None
    define: DefineOption = ()
    include_dirs: IncludeDirsOption = ()
    name: Annotated[
        str | None,
        Option(
            "The pair's folder in pairs/own/.  [default: the kernels' names; the files' if these are equal]",
            metavar="NAME",
        ),
    ] = None
    slow_launch: Annotated[str | None, Option(f"How SLOW is launched: {_OVERRULING}", metavar="LAUNCH")] = (
        None
    )
    fast_launch: Annotated[str | None, Option(f"How FAST is launched: {_OVERRULING}", metavar="LAUNCH")] = (
        None
    )


@dataclass(frozen=True)
class OptimizeConfig:
    """A kernel as `FILE.cu[:KERNEL]`, and the model that writes faster ones."""

    kernel: Annotated[
        str, Argument("The kernel; :KERNEL where the file has several.", metavar="FILE.cu[:KERNEL]")
    ]
    model: Annotated[
        str,
        Option(
            "Who writes: claude, claude-<version>, openai:<model>@<base-url>, or FILE.gguf.", metavar="NAME"
        ),
    ]
    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    launch: Annotated[str | None, Option(f"How the kernel is launched, {_LAUNCH}", metavar="LAUNCH")] = None
    define: DefineOption = ()
    include_dirs: IncludeDirsOption = ()
    rounds: Annotated[
        int, Option("Rounds at most, each from the fastest answer so far.", metavar="R", min=1)
    ] = 3
    candidates: Annotated[
        int, Option("For a fast side: answers asked for in a round.", metavar="K", min=1)
    ] = 1
    max_usd: MaxUsdOption = None
    price: PriceOption = None
    max_tokens: MaxTokensOption = MAX_TOKENS
    effort: EffortOption = None
    tool_calls: ToolCallsOption = TOOL_CALLS
    tool_seconds: ToolSecondsOption = TOOL_SECONDS
    timeout_s: TimeoutOption = None
    place: Place = EMULATED


def flag_words(config: PairConfig | OptimizeConfig) -> tuple[str, ...]:
    """The other options of a command, as words, for a hint to run it again; launches are stored with the
    draft."""
    pair_options = (
        (("--licence", config.licence), ("--name", config.name)) if isinstance(config, PairConfig) else ()
    )
    return (
        *(word for option, value in pair_options if value is not None for word in (option, value)),
        *(word for define in config.define for word in ("-D", define)),
        *(word for folder in config.include_dirs for word in ("-I", str(folder))),
    )
