"""Declares the option of a settings field: its name, help and limits, in one place.

A stage's `settings.py` annotates the fields of its class with `Option` or `Argument`. From these
`kcurate.cli.signatures` makes the command's options, their environment variables, their keys in
`kcurate.toml` (`kcurate.core.config`) and their lines in docs/cli.md. Fields without an annotation can be set
from Python only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal


class Default(Enum):
    """`SAME`: the command has the default of the field."""

    SAME = "same"


@dataclass(frozen=True)
class Option:
    """An option of a command; without `flags` it is named after the field.

    `flags`: as typed, separated by spaces. `min`, `max`: limits of a number, inclusive. `default`: the
    command's default if it differs from the field's; None: the field's default, not shown in the help.
    `read`: makes the field's value from the texts of an option that may be repeated. `completes`: the
    function of `kcurate.cli.completing` that gives a shell's completions. `check`: MODULE:FUNCTION that
    raises `InputError` for a value that the option cannot have; it runs before the command does anything.
    """

    help: str
    flags: str = ""
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    default: Any = Default.SAME
    read: Callable[[list[str]], Any] | None = None
    completes: str = ""
    check: str = ""

    def name(self, field: str) -> str:
        """The name of the setting that `field` declares: the first long flag, else the field's name."""
        long = [flag for flag in self.flags.split() if flag.startswith("--")]
        return long[0].split("/")[0][2:].replace("-", "_") if long else field


@dataclass(frozen=True)
class Overrides:
    """Annotates a command's parameter whose values override settings of this class from a file.

    The command gets the options of the class; the parameter receives the values that were typed, as a dict
    nested like the class. An option with its default value counts as not typed.
    """

    settings: type[Any]


@dataclass(frozen=True)
class Argument(Option):
    """A positional argument of a command, which is not a setting."""

    show_default: bool = False


WorkspaceOption = Annotated[
    Path, Option("The folder to work in; created if missing.", "--workspace -w", "DIR")
]
# Called from Python, a stage uses the default of its own field.
JobsOption = Annotated[int, Option("Worker processes; 0: one per core.", "--jobs -j", "N", min=0, default=0)]
PackOption = Annotated[
    bool, Option("Make the workspace a packed one: records in Parquet shards (kcurate pack).")
]
RAY = Option("A Ray cluster that judges instead of this machine.", metavar="ADDRESS", default=None)
RayOption = Annotated[str | None, RAY]
RayWorkersOption = Annotated[
    str | None,
    Option(
        "A Ray cluster whose cores work instead of this machine's; all its nodes share the folders.",
        "--ray",
        "ADDRESS",
        default=None,
    ),
]
JsonOption = Annotated[bool, Option("Print one JSON object and nothing else.")]
Backend = Literal["auto", "cuda", "emulator"]
BackendOption = Annotated[
    Backend, Option("cuda, emulator, or auto: the GPU if there is one, else the emulator.", metavar="NAME")
]
GpuOption = Annotated[
    str,
    Option(
        "GPUs to judge on: 0, or 0,1, or all, which must be there; auto: the first, if there is one.",
        metavar="LIST",
        check="kcurate.backends.choice:check_gpus",
    ),
]
DatasetOption = Annotated[
    tuple[str, ...],
    Option(
        "Pairs: builtin, a folder, or USER/NAME on the Hub; may be repeated.  [default: builtin]",
        metavar="NAME",
    ),
]
LicenceOption = Annotated[
    str | None,
    Option(
        "Licence of your own code, such as MIT, where nothing states one; a contradiction refuses a kernel.",
        "--licence --license",
        "SPDX",
    ),
]
DefineOption = Annotated[
    tuple[str, ...],
    Option(
        "Define a macro; may be repeated.",
        "-D --define",
        "NAME[=VALUE]",
        check="kcurate.extract.flags:check_defines",
    ),
]
IncludeDirsOption = Annotated[
    tuple[Path, ...], Option("A folder of headers; may be repeated.", "-I --include-dir", "DIR")
]
PriceOption = Annotated[
    str | None,
    Option(
        "Price in USD per million tokens.  [default: the built-in table]",
        metavar="IN,OUT",
        check="kcurate.models.prices:parse_price",
    ),
]
MAX_USD = Option("Models: spend at most this many USD in this run.", metavar="X", min=0)
MaxUsdOption = Annotated[float | None, MAX_USD]
# The longest answer of a model behind an API, thinking included.
MAX_TOKENS = 32_000
# What a model with tools may use of them before it hands in an answer.
TOOL_CALLS, TOOL_SECONDS = 24, 600.0
MaxTokensOption = Annotated[int, Option("Models: longest reply, thinking included.", metavar="N", min=256)]
EffortOption = Annotated[
    Literal["low", "medium", "high", "xhigh", "max"] | None,
    Option("How much the model thinks.  [default: the server's own]", metavar="LEVEL"),
]
ToolCallsOption = Annotated[
    int,
    Option(
        "Claude: tool calls (compile, run_tests, time, profile) for an answer.", metavar="N", min=0, max=200
    ),
]
ToolSecondsOption = Annotated[
    float, Option("Claude: seconds that these calls may take for an answer.", metavar="S", min=0)
]
TimeoutOption = Annotated[
    float | None,
    Option(
        "Seconds without a byte after which a request is given up and sent again.  [default: claude 180, "
        "others 600]",
        "--timeout",
        "S",
        min=0.1,
    ),
]
PairsArgument = Annotated[
    tuple[Path, ...],
    Argument(
        "Pairs: paths, folders, ids, or unique prefixes of ids; default: the workspace's.",
        metavar="[PAIR...]",
        completes="pairs",
    ),
]
