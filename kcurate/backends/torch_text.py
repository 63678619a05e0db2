"""The text of a PyTorch side: finds its top-level integer constants and replaces their values.

A constant is `NAME = <integer arithmetic>`, one of `NAME, OTHER = <integer>, <integer>`, or an element of
`NAME = (<integers>, ...)`, which is called `NAME_0` and so on; `NAME = OTHER = <integer>` is one constant,
`NAME`. Nothing is run here. Not covered: running the text (`kcurate.backends.torch_module`).
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence

from kcurate.errors import ProblemError

MAX_TEXT_BYTES = 1 << 20
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def parse(code: str) -> ast.Module:
    """The text as a syntax tree.

    Raises:
        ProblemError: it is not Python, or longer than any module needs to be.
    """
    if len(code) > MAX_TEXT_BYTES:
        raise ProblemError(f"{len(code)} characters of Python, more than {MAX_TEXT_BYTES}")
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ProblemError(f"not Python: {error}") from error


def constants(code: str) -> dict[str, int]:
    """Every top-level integer constant by name, in source order.

    Raises:
        ProblemError: it is not Python.
    """
    return {name: value for name, value, _ in _found(parse(code))}


def with_sizes(code: str, sizes: Mapping[str, int]) -> ast.Module:
    """The text with the constants named in `sizes` set to those values.

    Raises:
        ProblemError: it is not Python.
    """
    tree = parse(code)
    for name, _, put in _found(tree):
        if name in sizes:
            put(ast.Constant(sizes[name]))
    return ast.fix_missing_locations(tree)


def joined(code: str, names: Sequence[str]) -> str:
    """The text with several constants merged: the later ones take the value of the first.

    Raises:
        ProblemError: it is not Python.
    """
    tree = parse(code)
    for name, _, put in _found(tree):
        if name in names[1:]:
            put(ast.Name(names[0], ast.Load()))
    return ast.unparse(ast.fix_missing_locations(tree))


def _found(tree: ast.Module) -> Iterator[tuple[str, int, Callable[[ast.expr], None]]]:
    """Name, value, and a function that sets another value, for each constant."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target = statement.target
        else:
            continue
        if statement.value is None:
            continue
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            names = [name.id if isinstance(name, ast.Name) else "" for name in target.elts]
            if all(names) and len(names) == len(statement.value.elts):
                yield from _elements(names, statement.value)
        elif isinstance(target, ast.Name):
            value = _integer(statement.value)
            if value is not None:
                yield target.id, value, _setter(statement)
            elif isinstance(statement.value, ast.Tuple | ast.List):
                count = len(statement.value.elts)
                yield from _elements([f"{target.id}_{i}" for i in range(count)], statement.value)


def _elements(
    names: Sequence[str], sequence: ast.Tuple | ast.List
) -> Iterator[tuple[str, int, Callable[[ast.expr], None]]]:
    for index, element in enumerate(sequence.elts):
        value = _integer(element)
        if value is not None:

            def put(constant: ast.expr, index: int = index) -> None:
                sequence.elts[index] = constant

            yield names[index], value, put


def _setter(statement: ast.Assign | ast.AnnAssign) -> Callable[[ast.expr], None]:
    def put(constant: ast.expr) -> None:
        statement.value = constant

    return put


def _integer(node: ast.expr) -> int | None:
    """The value of integer arithmetic on literals; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _integer(node.left), _integer(node.right)
        if left is None or right is None or (isinstance(node.op, ast.FloorDiv) and right == 0):
            return None
        return _OPERATORS[type(node.op)](left, right)
    return None
