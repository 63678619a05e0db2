"""kcurate curates slow/fast CUDA kernel pairs: extract, deoptimise, prove, publish, train.

`import kcurate as kc` gives the public Python API (docs/python.md): `kc.judge`, `kc.Judge`, `kc.load`, and
the records that they take and give. A name is loaded when it is first used, never torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcurate.core.resources import pairs_dir
    from kcurate.core.store import read_candidate
    from kcurate.errors import KcurateError
    from kcurate.lookup.show import ShownKernel, ShownPair
    from kcurate.own.judging import Judge, judge, load
    from kcurate.records import (
        Buffer,
        BufferArg,
        Candidate,
        Init,
        Kernel,
        Launch,
        Origin,
        Outcome,
        Problem,
        Scalar,
        Side,
        Sizes,
        Tolerance,
        ValueArg,
        Verdict,
    )

__version__ = "0.2.0"

_HOMES = {
    name: home
    for home, names in {
        "kcurate.core.resources": ("pairs_dir",),
        "kcurate.core.store": ("read_candidate",),
        "kcurate.errors": ("KcurateError",),
        "kcurate.lookup.show": ("ShownKernel", "ShownPair"),
        "kcurate.own.judging": ("Judge", "load"),
        "kcurate.records": (
            "Buffer", "BufferArg", "Candidate", "Init", "Kernel", "Launch", "Origin", "Outcome", "Problem",
            "Scalar", "Side", "Sizes", "Tolerance", "ValueArg", "Verdict",
        ),
    }.items()
    for name in names
}  # fmt: skip
__all__ = [
    "Buffer", "BufferArg", "Candidate", "Init", "Judge", "KcurateError", "Kernel", "Launch", "Origin",
    "Outcome", "Problem", "Scalar", "ShownKernel", "ShownPair", "Side", "Sizes", "Tolerance", "ValueArg",
    "Verdict", "judge", "load", "pairs_dir", "read_candidate",
]  # fmt: skip


if not TYPE_CHECKING:  # with it, a type checker would take any name for one of this module

    def __getattr__(name: str) -> Any:
        if name == "judge":  # the package of that name, which can be called
            return importlib.import_module("kcurate.judge")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
