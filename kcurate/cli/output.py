"""Output of commands: one JSON object or a table on stdout; notes and progress on stderr.

On a terminal, rich draws tables; in a pipe they are plain columns, never truncated.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcurate.core import progress

if TYPE_CHECKING:
    from rich.console import Console

    from kcurate.records import Item, Summary

# Items that did not pass and are printed, and characters of the reason of one.
MAX_ITEMS = 10
MAX_WHY = 300


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
    progress.above(text)


def speak(verbose: int, *, quiet: bool) -> None:
    """Set the log level on stderr: `verbose` 1: messages of kcurate; 2: also of libraries."""
    progress.quiet = quiet
    if not verbose and "logging" not in sys.modules:
        return
    import logging

    if verbose:
        logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s", force=True)
    # Set each time: several commands may run in one process.
    logging.getLogger().setLevel(logging.DEBUG if verbose > 1 else logging.WARNING)
    for name in ("kcurate", "httpx"):
        level = logging.DEBUG if verbose > 1 else logging.INFO if verbose else logging.NOTSET
        logging.getLogger(name).setLevel(level)


@contextlib.contextmanager
def on_stderr() -> Iterator[None]:
    """Print to stderr, since stdout belongs to a program that the command ran."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


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


def report(
    summary: Summary, *, as_json: bool, fail_on: Sequence[str] = (), more: Mapping[str, Any] | None = None
) -> None:
    """Print a stage's summary, then check whether it failed.

    Raises:
        FailedError: an outcome of `fail_on` occurred, or by the stage's own rule it failed.
    """
    from kcurate.cli import failing

    show(summary, as_json=as_json, more=more)
    failing.check(summary, fail_on)


def show(summary: Summary, *, as_json: bool, more: Mapping[str, Any] | None = None) -> None:
    """Print a stage's summary: one JSON object, or a table of counts and items that did not pass."""
    if as_json:
        from kcurate.cli import ending

        ending.will_print(summary, more or {})
    else:
        _counts(summary)
        _not_passed(summary)


def _counts(summary: Summary) -> None:
    where = f", workspace {summary.workspace}" if summary.workspace else ""
    rows: list[tuple[str, str, int]] = []
    for kind, outcomes in summary.counts.items():
        rows += [(kind, outcome, count) for outcome, count in outcomes.items()]
        rows.append((kind, "total", sum(outcomes.values())))
    table(f"{summary.stage}: {summary.wall_s:.1f} s{where}", ("kind", "outcome", "count"), rows)


def _not_passed(summary: Summary) -> None:
    """Up to ten items that did not pass, covering as many different outcomes as possible."""
    failed = [item for item in summary.results if not item.passed]
    if not failed:
        return
    print(f"\nnot passed: {len(failed)} of {len(summary.results)}")
    shown = _mixed(failed)[:MAX_ITEMS]
    for item in shown:
        print(f"  {item.id}  {item.outcome}")
        if item.why:
            why = " ".join(item.why.split())
            print(f"      {why if len(why) <= MAX_WHY else why[:MAX_WHY] + ' ...'}")
        places = (item.file and f"see {item.file}", item.next and f"next: {item.next}")
        if any(places):
            print(f"      {'; '.join(place for place in places if place)}")
    if len(failed) > len(shown):
        from kcurate.core.runs import SUMMARY

        rest = f"{summary.run}/{SUMMARY}" if summary.run else "--json"
        print(f"  {len(failed) - len(shown)} more: {rest}")


def _mixed(items: Sequence[Item]) -> list[Item]:
    """The first of every outcome, then the second of every outcome, and so on."""
    seen: Counter[tuple[str, str]] = Counter()
    places = []
    for at, item in enumerate(items):
        places.append((seen[item.kind, item.outcome], at))
        seen[item.kind, item.outcome] += 1
    return [items[at] for _, at in sorted(places)]
