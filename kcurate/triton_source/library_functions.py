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

# Each is `own_` and the name of the library's function; `own_maximum` and the like propagate NaN.
# `own_tanh` has a minimax polynomial near 0, where `2 * sigmoid(2 * x) - 1` cancels; its relative error is at
# most 4e-7 (3 million values from 1e-30 to 88, float32 in NumPy).
_TEXT = """
def own_tanh(x):
    x32 = x.to(tl.float32)
    z = x32 * x32
    near_zero = x32 * (1 + z * (-0.33333144 + z * (0.13325879 + z * (-0.0530455 + z * 0.0172415))))
    return tl.where(tl.abs(x32) < 0.5, near_zero, 2 * tl.sigmoid(2 * x32) - 1)

def own_isnan(x):
    return x != x

def own_isinf(x):
    return tl.abs(x) == float("inf")

def own_tan(x):
    return tl.sin(x) / tl.cos(x)

def own_maximum(a, b):
    return tl.where((a > b) | (a != a), a, b)

def own_minimum(a, b):
    return tl.where((a < b) | (a != a), a, b)

def own_either(a, b):
    return a | b

def own_product(a, b):
    return a * b

def own_max2(a, dim):
    return tl.reduce(a, dim, own_maximum)

def own_min2(a, dim):
    return tl.reduce(a, dim, own_minimum)

def own_any(a, dim):
    return tl.reduce(a, dim, own_either)

def own_prod(a, axis):
    return tl.reduce(a, axis, own_product)

def own_promote_to_tensor(x):
    return x + tl.zeros((1,), tl.int1)

def own_div_floor_integer(a, b):
    quotient = a // b
    inexact = (a % b != 0) & ((a < 0) != (b < 0))
    return tl.where(inexact, quotient - 1, quotient)

def own_remainder_integer(a, b):
    remainder = a % b
    return tl.where((remainder != 0) & ((a < 0) != (b < 0)), remainder + b, remainder)

def own_larger_with_index(a, a_index, b, b_index):
    first = (a > b) | ((a != a) & (b == b))
    first = first | (((a == b) | ((a != a) & (b != b))) & (a_index < b_index))
    return tl.where(first, a, b), tl.where(first, a_index, b_index)

def own_smaller_with_index(a, a_index, b, b_index):
    first = (a < b) | ((a != a) & (b == b))
    first = first | (((a == b) | ((a != a) & (b != b))) & (a_index < b_index))
    return tl.where(first, a, b), tl.where(first, a_index, b_index)

def own_max_with_index(value, index, dim):
    return tl.reduce((value, index), dim, own_larger_with_index)

def own_min_with_index(value, index, dim):
    return tl.reduce((value, index), dim, own_smaller_with_index)

def own_welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    weight = weight_1 + weight_2
    share = tl.where(weight == 0.0, 0.0, weight_2 / weight)
    return mean_1 + delta * share, m2_1 + m2_2 + delta * delta * weight_1 * share, weight

def own_welford(mean, m2, weight, dim):
    return tl.reduce((mean, m2, weight), dim, own_welford_combine)

def own_welford_reduce(value, mean, m2, weight, first_iteration):
    if first_iteration:
        new_weight = tl.full(weight.shape, 1, weight.dtype)
        new_mean = value
        new_m2 = tl.zeros_like(m2)
    else:
        delta = value - mean
        new_weight = weight + 1
        new_mean = mean + delta / new_weight
        new_m2 = m2 + delta * (value - new_mean)
    return new_mean, new_m2, new_weight
"""
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
