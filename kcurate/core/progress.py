"""Progress bars on stderr: on a terminal only, for work that takes over two seconds, with the time left.

Not covered: messages (`kcurate.core.notes`), which are printed above a visible bar.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

T = TypeVar("T")
# When a bar appears, and how often it is redrawn even if nothing was finished.
DELAY_S = 2.0
EVERY_S = 0.5
# Whether nobody wants to read notes and bars (`--quiet`).
quiet = False


@contextlib.contextmanager
def bar(title: str, total: int | None = None, unit: str = "", *, done: int = 0) -> Iterator[Any]:
    """A bar (`update`, `set_postfix`, `set_description`); `total` None: only the elapsed time."""
    from tqdm import tqdm

    on_terminal = sys.stderr.isatty() and not quiet
    form = None if total is not None else "{desc}: {elapsed}{postfix}"
    with tqdm(
        total=total, initial=done, desc=title, unit=unit, leave=False, disable=not on_terminal, delay=DELAY_S,
        dynamic_ncols=True, bar_format=form,
    ) as tqdm_bar:  # fmt: skip
        ended = threading.Event()
        clock = threading.Thread(target=_redraw, args=(tqdm_bar, ended), daemon=True)
        if on_terminal:
            clock.start()
        try:
            yield tqdm_bar
        finally:
            ended.set()
            if on_terminal:
                clock.join()


def _redraw(tqdm_bar: Any, ended: threading.Event) -> None:
    pause_s = DELAY_S
    while not ended.wait(pause_s):
        tqdm_bar.refresh()
        pause_s = EVERY_S


def each(items: Iterable[T], title: str, total: int | None = None, unit: str = "") -> Iterator[T]:
    """The items, with a bar that advances when the next one is requested."""
    if quiet or not sys.stderr.isatty():
        yield from items
        return
    count = len(items) if total is None and isinstance(items, Sized) else total
    with bar(title, count, unit) as items_bar:
        for item in items:
            yield item
            items_bar.update()


def above(text: str) -> None:
    """Print a line on stderr, above the bar if one is shown."""
    if quiet:
        return
    tqdm = sys.modules.get("tqdm")
    if tqdm is None or not sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
    else:
        tqdm.tqdm.write(text, file=sys.stderr)
