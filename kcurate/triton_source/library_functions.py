"""Library functions that Triton kernels call, rewritten in `triton.language` so that a module stands alone.

`torch.compile` writes kernels that call `torch._inductor.runtime.triton_helpers` and libdevice: in an
extracted module `libdevice.tanh(x)` becomes `own_tanh(x)`, with its text in front. Functions that
`triton.language` has are used from there (`kcurate.triton_source.module_names`). Not covered: functions that
would lose accuracy (`pow`, `log1p`); `tanh` in double precision, which is rounded to float32.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# Each is `own_` and the name of the library's function; `own_maximum` and the like propagate NaN.
# `own_tanh` has a minimax polynomial near 0, where `2 * sigmoid(2 * x) - 1` cancels; its relative error is at
# most 4e-7 (3 million values from 1e-30 to 88, float32 in NumPy).
_TEXT = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
_LIBDEVICE_FUNCTIONS = frozenset({"tanh", "isnan", "isinf", "tan"})


def replacement(member: str) -> str | None:
    """The function here that replaces a library's, such as `own_tanh` for libdevice's `tanh`; or None."""
    module, _, function = member.rpartition(".")
    of_inductor = module.startswith("torch.") and module.endswith("triton_helpers")
    known = function in _LIBDEVICE_FUNCTIONS if module.startswith("triton.language") else of_inductor
    return f"own_{function}" if known and f"own_{function}" in _functions() else None


def with_callees(name: str) -> Iterator[tuple[str, str]]:
    """Names and texts of a function and, before it, of those that it calls."""
    node = _functions()[name]
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and child.id in _functions():
            yield from with_callees(child.id)
    yield name, f"@triton.jit\n{ast.unparse(node)}"


@cache
def _functions() -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(_TEXT).body if isinstance(node, ast.FunctionDef)}
