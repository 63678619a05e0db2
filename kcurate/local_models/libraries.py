"""Checks that optional packages are installed without importing them; those of the extra `train`."""

from __future__ import annotations

import contextlib
import importlib.util
import warnings
from collections.abc import Iterator, Sequence

from kcurate.errors import MissingDependencyError, OptionError

PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate")
# What the trainers can log to; each is a package of the same name.
REPORTS = ("trackio", "wandb", "tensorboard")


def require(packages: Sequence[str], where: str, hint: str) -> None:
    """Check that packages are installed.

    Raises:
        MissingDependencyError: one is not.
    """
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        raise MissingDependencyError(f"not installed: {', '.join(missing)}", where=where, hint=hint)


def require_extra(command: str = "kcurate train") -> None:
    """Check that the packages of the extra `train` are installed.

    Raises:
        MissingDependencyError: one is not.
    """
    require(PACKAGES, command, "pip install 'kcurate[train]'")


def require_reports(names: Sequence[str]) -> None:
    """Check the names of `--report`.

    Raises:
        InputError: not one of `REPORTS`. MissingDependencyError: its package is not installed.
    """
    if unknown := [name for name in names if name not in REPORTS]:
        why = f"cannot log to {unknown[0]!r}"
        raise OptionError(why, where="--report", hint=f"one of {', '.join(REPORTS)}")
    for name in names:
        require([name], f"--report {name}", f"pip install {name}")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide progress bars and deprecation warnings that the libraries raise about each other."""
    import datasets
    from transformers.utils import logging

    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*gradient_checkpointing.* is deprecated")
        warnings.filterwarnings("ignore", message=r".*which is an experimental feature")
        yield
