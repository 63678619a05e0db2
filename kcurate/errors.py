"""The exception tree, and nothing else.

A kernel that fails is data: it becomes a `Verdict` or an `Outcome`. An exception means that the user's input,
the machine or kcurate itself is at fault. Each message says what failed, where, and what to do next.

    KcurateError                    exit 1, one line, no traceback
    |-- FailedError                 a command did its work, which did not come to what the command is for
    |-- InputError                  unusable user input (path, option, file)
    |   |-- OptionError             an option, or a setting for one, that cannot be used: exit 2
    |   |-- RecordError             a record file that is not JSON or does not match its schema
    |   `-- ProblemError            a problem or plan that cannot be evaluated; `where` names the place
    |-- MissingDependencyError      something that this machine lacks (compiler, GPU, token, package)
    |-- BackendError                a backend failure that no kernel should be able to cause
    `-- RemoteError                 a model API or the Hub refused or could not be reached

`kcurate.cli.main` is the only place that turns them into an exit code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


class KcurateError(Exception):
    """A known error: `what` happened, `where`, and what to do about it (`hint`)."""

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__(what, where, hint)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle keyword arguments, for errors that cross processes."""
        return partial(type(self), where=self.where, hint=self.hint), (self.what,)

    def __str__(self) -> str:
        """One line: ``where: what (hint)``."""
        line = f"{self.where}: {self.what}" if self.where else self.what
        return f"{line} ({self.hint})" if self.hint else line


class FailedError(KcurateError):
    """A command did its work to the end, and it did not come to what the command is for."""


class InputError(KcurateError):
    """The user gave something that cannot be used."""


class OptionError(InputError):
    """An option has a value that it cannot have, or has no effect where it is given."""


class RecordError(InputError):
    """A record file that is not JSON, or does not match its schema."""


class ProblemError(InputError):
    """A problem, plan or expression that cannot be evaluated."""


class MissingDependencyError(KcurateError):
    """This machine lacks something: a compiler, a GPU, a token, a package."""


class BackendError(KcurateError):
    """A backend broke in a way that no kernel should be able to cause."""


class RemoteError(KcurateError):
    """A model API or the Hub refused, or could not be reached."""


@contextmanager
def at(where: str) -> Iterator[None]:
    """Add `where` to a `ProblemError` that has none."""
    try:
        yield
    except ProblemError as error:
        if error.where is not None:
            raise
        raise ProblemError(error.what, where=where, hint=error.hint) from error
