"""Loads, stores and atomics of a Triton function through its parameters, found in the text.

Addresses are tracked through sums, names, block pointers and functions of the module. Not covered: the range
of indices.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Literal

from kcurate.core.grouping import grouped

Access = Literal["load", "store", "atomic"]
_KINDS: Mapping[str, Access] = {"load": "load", "store": "store"}
_SAME_MEMORY = ("make_block_ptr", "advance", "to", "multiple_of", "max_contiguous")
# Calls of functions are followed to this depth.
MAX_DEPTH = 6


def accesses(
    node: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef] | None = None, depth: int = 0
) -> Iterator[tuple[str, Access]]:
    """The accesses in program order, each with the parameter from which its address is computed."""
    values = _values(node)
    names = {arg.arg for arg in node.args.args}
    calls = [child for child in ast.walk(node) if isinstance(child, ast.Call)]
    for call in sorted(calls, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0)):
        function_name = _name(call)
        values_in = [*call.args, *(word.value for word in call.keywords)]
        callee = (functions or {}).get(function_name) if isinstance(call.func, ast.Name) else None
        if callee is not None and depth < MAX_DEPTH:
            params = [*(arg.arg for arg in callee.args.args[: len(call.args)]), *_words(call)]
            passed = dict(zip(params, values_in, strict=False))
            for param, kind in accesses(callee, functions, depth + 1):
                for name in sorted(_roots(passed.get(param), values, names, frozenset())):
                    yield name, kind
        elif values_in and (function_name in _KINDS or function_name.startswith("atomic_")):
            for name in sorted(_roots(values_in[0], values, names, frozenset())):
                yield name, _KINDS.get(function_name, "atomic")


def _values(node: ast.FunctionDef) -> Mapping[str, list[ast.expr]]:
    """The values that a function assigns to each name."""
    assigned = [statement for statement in ast.walk(node) if isinstance(statement, ast.Assign)]
    targets = ((target, statement.value) for statement in assigned for target in statement.targets)
    return grouped((target.id, value) for target, value in targets if isinstance(target, ast.Name))


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _words(call: ast.Call) -> Iterator[str]:
    return (word.arg or "" for word in call.keywords)


def _roots(
    node: ast.expr | None, values: Mapping[str, list[ast.expr]], names: set[str], seen: frozenset[str]
) -> frozenset[str]:
    """The parameters from which an address is computed."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return _roots(node.left, values, names, seen) or _roots(node.right, values, names, seen)
    if isinstance(node, ast.IfExp):
        return _roots(node.body, values, names, seen) | _roots(node.orelse, values, names, seen)
    if isinstance(node, ast.Call) and _name(node) in _SAME_MEMORY:
        converts = isinstance(node.func, ast.Attribute) and node.func.attr == "to"
        first = node.func.value if converts and isinstance(node.func, ast.Attribute) else None
        words = [word.value for word in node.keywords if word.arg in ("base", "input")]
        return _roots(first or next(iter([*words, *node.args]), None), values, names, seen)
    if not isinstance(node, ast.Name) or node.id in seen:
        return frozenset()
    if node.id in names:
        return frozenset({node.id})
    roots = (_roots(value, values, names, seen | {node.id}) for value in values.get(node.id, ()))
    return frozenset[str]().union(*roots)
