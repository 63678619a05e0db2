"""Checks, without importing them, that the packages of the extra `train` are installed."""

from __future__ import annotations

import importlib.util

from kcurate.errors import MissingDependencyError

PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate")


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
