"""Progress on stderr: on a terminal only, for what takes over two seconds, with an estimate of what is left.

Not covered: messages (`kcurate.core.notes`), which are printed above a bar that is shown.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

T = TypeVar("T")
# A bar appears after so long, and is drawn again so often, whether or not something was finished.
DELAY_S = 2.0
EVERY_S = 0.5
# Whether nobody wants to read notes and bars (`--quiet`).
quiet = False


@contextlib.contextmanager
def bar(what: str, total: int | None = None, unit: str = "", *, done: int = 0) -> Iterator[Any]:
    """A bar (`update`, `set_postfix`, `set_description`); `total` None: only the time that passed."""
    from tqdm import tqdm

    shown = sys.stderr.isatty() and not quiet
    form = None if total is not None else "{desc}: {elapsed}{postfix}"
    with tqdm(
        total=total, initial=done, desc=what, unit=unit, leave=False, disable=not shown, delay=DELAY_S,
        dynamic_ncols=True, bar_format=form,
    ) as drawn:  # fmt: skip
        ended = threading.Event()
        clock = threading.Thread(target=_draw, args=(drawn, ended), daemon=True)
        if shown:
            clock.start()
        try:
            yield drawn
        finally:
            ended.set()
            if shown:
                clock.join()


def _draw(drawn: Any, ended: threading.Event) -> None:
    pause_s = DELAY_S
    while not ended.wait(pause_s):
        drawn.refresh()
        pause_s = EVERY_S


def each(items: Iterable[T], what: str, total: int | None = None, unit: str = "") -> Iterator[T]:
    """The items, with a bar that moves on when the next one is asked for."""
    known = len(items) if total is None and isinstance(items, Sized) else total
    with bar(what, known, unit) as shown:
        for item in items:
            yield item
            shown.update()


def above(text: str) -> None:
    """Print a line on stderr, above the bar if one is shown."""
    if quiet:
        return
    tqdm = sys.modules.get("tqdm")
    if tqdm is None or not sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
    else:
        tqdm.tqdm.write(text, file=sys.stderr)
