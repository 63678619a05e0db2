"""The command line: options in, one stage call, exit code out. `main` is the only error boundary.

Exit codes: 0 done, 1 a known error (one line), 2 usage error, 130 interrupted, 141 stdout was closed. Heavy
imports happen inside the commands, so that `kcurate --help` stays fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from kcurate.errors import KcurateError

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


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

    try:
        code = typer.main.get_command(build(rich=sys.stdout.isatty()))(
            list(args), prog_name="kcurate", standalone_mode=False
        )
        if code == EXIT_INTERRUPTED:
            _complain("interrupted")
        return code if isinstance(code, int) else 0
    except UsageError as error:
        error.show()  # type: ignore[attr-defined]
        return EXIT_USAGE
    except KcurateError as error:
        return _complain(str(error))
    except StdoutClosedError:
        return _close_stdout()
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}")
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted")
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
