"""Functions that modules take from libraries beside Triton's language, written anew in it.

`torch.compile` writes kernels that call `torch._inductor.runtime.triton_helpers` and libdevice. Those of the
same meaning in `triton.language` are used by name (`kcurate.triton_source.module_names`). Not covered:
functions that the language cannot state as exactly (`pow`, `log1p`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

# Each is named for its library's function, after `own_`; comparisons let NaN win, as those of Inductor do.
_TEXT = """
def own_tanh(x):
    return 2 * tl.sigmoid(2 * x.to(tl.float32)) - 1

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
_OF_LIBRARY = frozenset({"tanh", "isnan", "isinf", "tan"})


def own_name(member: str) -> str | None:
    """The function here that stands for a member of a library; None: there is none."""
    module, _, last = member.rpartition(".")
    helpers = module.startswith("torch.") and module.endswith("triton_helpers")
    known = last in _OF_LIBRARY if module.startswith("triton.language") else helpers
    return f"own_{last}" if known and f"own_{last}" in _functions() else None


def with_used(name: str) -> Iterator[tuple[str, str]]:
    """A function and before it those that it calls: names and texts."""
    node = _functions()[name]
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and child.id in _functions():
            yield from with_used(child.id)
    yield name, f"@triton.jit\n{ast.unparse(node)}"


@cache
def _functions() -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(_TEXT).body if isinstance(node, ast.FunctionDef)}
