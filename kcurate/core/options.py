"""How a field of a settings class is set: the one declaration of an option, its help and its limits.

A stage's `settings.py` annotates the fields of its class with `Option` or `Argument`. From them
`kcurate.cli.signatures` makes the command's options, and so their variables, their keys in `kcurate.toml`
(`kcurate.core.config`) and their lines in docs/cli.md. A field without a declaration is set from Python only.
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

    `flags`: as they are typed, with spaces between them. `min`, `max`: limits of a number, both included.
    `default`: that of the command, where the field has another one for Python; None: the field's, not shown.
    `read`: makes the field's value of the texts that an option that may be repeated collects. `completes`:
    what a shell offers for it, a name of `kcurate.cli.completing`.
    """

    help: str
    flags: str = ""
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    default: Any = Default.SAME
    read: Callable[[list[str]], Any] | None = None
    completes: str = ""

    def name(self, field: str) -> str:
        """The name of the setting, for an option that `field` declares: the first long flag."""
        long = [flag for flag in self.flags.split() if flag.startswith("--")]
        return long[0].split("/")[0][2:].replace("-", "_") if long else field


@dataclass(frozen=True)
class Overrides:
    """Annotates a command's parameter that overrides settings of this class, which may stand in a file.

    It stands for the options of the class, and receives what was given, nested like the class. An option
    that has its default counts as not given.
    """

    settings: type[Any]


@dataclass(frozen=True)
class Argument(Option):
    """An argument of a command, which is no setting."""

    show_default: bool = False


WorkspaceOption = Annotated[
    Path, Option("The folder to work in; created if missing.", "--workspace -w", "DIR")
]
# A stage that is called from Python takes one process.
JobsOption = Annotated[int, Option("Worker processes; 0: one per core.", "--jobs -j", "N", min=0, default=0)]
RAY = Option("A Ray cluster that judges instead of this machine.", metavar="ADDRESS", default=None)
RayOption = Annotated[str | None, RAY]
JsonOption = Annotated[bool, Option("Print one JSON object and nothing else.")]
Backend = Literal["auto", "cuda", "emulator"]
BackendOption = Annotated[
    Backend,
    Option("cuda, emulator, or auto: the GPU if there is one, else the emulator.", metavar="NAME"),
]
GpuOption = Annotated[
    str,
    Option(
        "GPUs to judge on: 0, or 0,1, or all, which must be there; auto: the first, if there is one.",
        metavar="LIST",
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
        "Licence of your own code, such as MIT, where no manifest says one; a dataset needs one.",
        metavar="SPDX",
    ),
]
PriceOption = Annotated[
    str | None,
    Option("Price in USD per million tokens.  [default: the built-in table]", metavar="IN,OUT"),
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
