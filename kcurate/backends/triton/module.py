"""A Triton module's text executed: only inside a sandboxed worker, and only once the allow-list passed it.

Not covered: the list (`kcurate.triton_source.allowed`).
"""

from __future__ import annotations

import linecache
from typing import Any

from kcurate.errors import ProblemError
from kcurate.triton_source import refusals

FILE = "<side in Triton>"


def executed(code: str) -> dict[str, Any]:
    """The module's names.

    Raises:
        ProblemError: the text has something that is not allowed.
    """
    for refusal in refusals(code):
        raise ProblemError(f"{refusal.what} (line {refusal.line})")
    # Triton reads a function's text where Python's own tools find it.
    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    names: dict[str, Any] = {"__name__": "kcurate_triton_side"}
    exec(compile(code, FILE, "exec", dont_inherit=True), names)
    return names
