"""A Triton module's text executed: only inside a sandboxed worker, and only once the allow-list passed it.

Not covered: the list (`kcurate.triton_source.allowed`).
"""

from __future__ import annotations

import linecache
from typing import Any

import triton.language as tl

from kcurate.errors import ProblemError
from kcurate.triton_source import refusals
from kcurate.triton_source.specialised import Constant

FILE = "<side in Triton>"


def constant(value: Constant) -> Any:
    """What a compile-time constant of a plan stands for; `tl.float32`, or `tl.fp32`, is a type.

    Raises:
        ProblemError: Triton has no such type.
    """
    if not isinstance(value, str) or not value.startswith("tl."):
        return value
    types = {name: one for name, one in vars(tl).items() if isinstance(one, tl.dtype)}
    types |= {str(one): one for one in types.values()}
    found = types.get(value.removeprefix("tl."))
    if found is None:
        raise ProblemError(f"Triton has no type {value!r}")
    return found


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
