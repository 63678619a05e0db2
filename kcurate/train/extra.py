"""Checks, without importing them, that the packages of the extra `train` are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from kcurate.errors import InputError, MissingDependencyError

PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate")
# What the trainers can log to; each is a package of the same name.
REPORTS = ("trackio", "wandb", "tensorboard")


def require_extra(command: str = "kcurate train") -> None:
    """Raise one line that says what to install.

    Raises:
        MissingDependencyError: a package of the extra `train` is not installed.
    """
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"not installed: {', '.join(missing)}", where=command, hint="pip install 'kcurate[train]'"
        )


def require_reports(names: Sequence[str]) -> None:
    """Check what a run is to log to.

    Raises:
        InputError: not one of `REPORTS`. MissingDependencyError: its package is not installed.
    """
    if unknown := [name for name in names if name not in REPORTS]:
        what = f"cannot log to {unknown[0]!r}"
        raise InputError(what, where="--report", hint=f"one of {', '.join(REPORTS)}")
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise MissingDependencyError(
                f"not installed: {name}", where=f"--report {name}", hint=f"pip install {name}"
            )
