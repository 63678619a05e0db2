"""Output of commands: one JSON object or a table on stdout; notes and progress on stderr.

On a terminal, rich draws tables; in a pipe they are plain columns, never truncated.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kcurate.records import Summary

if TYPE_CHECKING:
    from rich.console import Console


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def console() -> Console:
    """A rich console on stdout that passes a closed pipe on to the error boundary."""
    from rich.console import Console

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return PipeConsole(highlight=False)


def note(text: str) -> None:
    """Print a message for the user to stderr."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def on_stderr() -> Iterator[None]:
    """Print to stderr, since stdout belongs to a program that the command ran."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def print_json(data: Any) -> None:
    """Print one JSON object on one line."""
    print(json.dumps(data, ensure_ascii=False))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; numbers are right-aligned."""
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    right = [bool(cells) and all(_numeric(row[i]) for row in cells) for i in range(len(columns))]
    if on_terminal():
        _rich_table(title, columns, cells, right)
    else:
        _plain_table(title, columns, cells, right)


def _numeric(text: str) -> bool:
    return text.replace(".", "", 1).replace(",", "").removesuffix("x").isdigit()


def _rich_table(
    title: str, columns: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name, to_right in zip(columns, right, strict=True):
        shown.add_column(name, justify="right" if to_right else "left", overflow="fold")
    for row in cells:
        shown.add_row(*(Text(cell) for cell in row))
    console().print(shown)


def _plain_table(
    title: str, columns: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]
) -> None:
    rows = [list(columns), *cells]
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    print(title)
    for row in rows:
        parts = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        print("  " + "  ".join(parts).rstrip())


def report(summary: Summary, *, as_json: bool) -> None:
    """Print a stage's summary, as one JSON object or as a table of counts."""
    if as_json:
        from kcurate import codec

        print_json(codec.to_data(summary))
        return
    where = f", workspace {summary.workspace}" if summary.workspace else ""
    rows: list[tuple[str, str, int]] = []
    for kind, outcomes in summary.items.items():
        rows += [(kind, outcome, count) for outcome, count in outcomes.items()]
        rows.append((kind, "total", sum(outcomes.values())))
    table(f"{summary.stage}: {summary.wall_s:.1f} s{where}", ("kind", "outcome", "count"), rows)
