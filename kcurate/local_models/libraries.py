"""The packages of the extra `train`: whether they are installed, without importing them; their messages."""

from __future__ import annotations

import contextlib
import importlib.util
import warnings
from collections.abc import Iterator, Sequence

from kcurate.errors import MissingDependencyError, OptionError

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
        raise OptionError(what, where="--report", hint=f"one of {', '.join(REPORTS)}")
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise MissingDependencyError(
                f"not installed: {name}", where=f"--report {name}", hint=f"pip install {name}"
            )


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
