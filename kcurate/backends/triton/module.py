"""Executes the text of a Triton module: only in a sandboxed worker, and only if the allow-list permits it.

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
    """The value of a compile-time constant in a plan; `tl.float32`, or `tl.fp32`, is a type.

    Raises:
        ProblemError: Triton has no such type.
    """
    if not isinstance(value, str) or not value.startswith("tl."):
        return value
    types = {name: dtype for name, dtype in vars(tl).items() if isinstance(dtype, tl.dtype)}
    types |= {str(dtype): dtype for dtype in types.values()}
    named = types.get(value.removeprefix("tl."))
    if named is None:
        raise ProblemError(f"Triton has no type {value!r}")
    return named


def executed(code: str) -> dict[str, Any]:
    """Execute a module; returns its names.

    Raises:
        ProblemError: the allow-list refuses the text.
    """
    for refusal in refusals(code):
        raise ProblemError(f"{refusal.what} (line {refusal.line})")
    # Triton reads a function's source through `inspect`, which looks here.
    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    names: dict[str, Any] = {"__name__": "kcurate_triton_side"}
    exec(compile(code, FILE, "exec", dont_inherit=True), names)
    return names
