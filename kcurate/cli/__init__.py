"""The command line: options in, one stage call, exit code out. `main` is the only error boundary.

`EXIT_CODES` has every exit code; `failing.FAILS` says when a command that ran to its end failed. Heavy
imports happen inside the commands, so that `kcurate --help` stays fast.

| module | what |
|---|---|
| `app` | the commands and their order in the help |
| `signatures` | a command's options from the settings classes among its parameters |
| `settings` | values of options from the environment and from `kcurate.toml` |
| `stages` | commands that run one stage and print its summary |
| `capture`, `deopt`, `own`, `problem`, `tune` | commands on kernels |
| `train`, `evaluate` | commands on models |
| `listing`, `show`, `doctor`, `configuration` | commands that only read |
| `demo` | the whole pipeline on what ships with kcurate |
| `packing` | commands that pack a workspace into shards and back |
| `completing` | what a shell offers for ids, outcomes and suites |
| `output` | tables, summaries and notes |
| `ending` | the object of `--json`, and the command that goes on after an interrupt |
| `failing` | when a command failed: its rule, and `--fail-on` |
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kcurate.cli import ending
from kcurate.core import progress
from kcurate.errors import KcurateError, OptionError

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
EXIT_CODES: Mapping[int, str] = {
    0: "done",
    EXIT_ERROR: "failed, in one line: what was named cannot be used, this machine lacks something, or the "
    "work did not come to what the command is for (next table)",
    EXIT_USAGE: "usage: no such command or option, a value that it cannot have, or one that has no effect "
    "here; likewise in the environment and in `kcurate.toml`",
    EXIT_INTERRUPTED: "interrupted",
    EXIT_BROKEN_PIPE: "the reader of stdout is gone",
    143: "`train` was told to stop, or its minutes are over; `--resume` goes on",
}


def main(args: Sequence[str] | None = None) -> None:
    """Run `kcurate ARGS` and end the process with its exit code."""
    code = run(sys.argv[1:] if args is None else args)
    raise SystemExit(code)


def run(args: Sequence[str]) -> int:
    """Run one command; every known failure becomes one line on stderr and an exit code.

    An unknown exception is a bug of ours and keeps its traceback.
    """
    if sys.stdout is None:
        return _complain("stdout: is closed (redirect it to /dev/null if nobody reads it)")
    import typer

    from kcurate.cli.app import build
    from kcurate.cli.settings import StdoutClosedError, UsageError

    ending.begin(args)
    try:
        try:
            code = typer.main.get_command(build(args))(list(args), prog_name="kcurate", standalone_mode=False)
            if code == EXIT_INTERRUPTED:
                return _interrupted()
            ending.finish()
        except UsageError as error:
            _explain(error, args)
            error.show()  # type: ignore[attr-defined]
            ending.failed("usage", error.format_message())  # type: ignore[attr-defined]
            return EXIT_USAGE
        except KcurateError as error:
            return _failed(error)
        except (KeyboardInterrupt, typer.Abort):
            return _interrupted()
        return code if isinstance(code, int) else 0
    except (StdoutClosedError, BrokenPipeError):
        return _close_stdout()
    except RuntimeError as error:
        loop = error.__context__  # of Path.resolve, up to Python 3.12
        if not isinstance(loop, OSError) or loop.errno != errno.ELOOP:
            raise
        return _failed(KcurateError("a symbolic link to itself", where=os.fsdecode(loop.filename)))
    except OSError as error:
        where = os.fsdecode(error.filename) if error.filename else None
        return _failed(KcurateError(str(error.strerror or error), where=where))
    finally:
        progress.quiet = False  # of this command alone: others may follow in this process


def _explain(error: Any, args: Sequence[str]) -> None:
    """Print the parser's error in plain words, with a hint on a misplaced option before the command."""
    error.message = error.message.removeprefix("Value error, ")
    if getattr(error, "option_name", None) and error.ctx is not None and error.ctx.parent is None:
        commands = error.ctx.command.list_commands(error.ctx)
        if command := next((word for word in args if word in commands), None):
            error.message += f" (put it after {command})"


def _failed(error: KcurateError) -> int:
    """A known error: one line, and an object if JSON was asked for."""
    code = _complain(str(error))
    kind = type(error).__name__.removesuffix("Error").lower()
    with contextlib.suppress(OSError):  # such as a full disk, which may be the error
        ending.failed(kind, error.what, error.where, error.hint)
    return EXIT_USAGE if isinstance(error, OptionError) else code


def _interrupted() -> int:
    """Print the command that continues."""
    following = ending.goes_on()
    _complain(f"interrupted; what is finished is kept, to go on: {following}" if following else "interrupted")
    ending.failed("interrupted", "interrupted", None, following and f"to go on: {following}")
    return EXIT_INTERRUPTED


def _complain(line: str) -> int:
    print(f"error: {' '.join(line.split())}", file=sys.stderr)
    return EXIT_ERROR


def _close_stdout() -> int:
    """Redirect stdout to /dev/null, so that the interpreter's final flush does not fail too."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    return EXIT_BROKEN_PIPE
