"""A Triton module's syntax tree, and the parameters of its functions; nothing is run.

Not covered: what a module may contain (`kcurate.triton_source.allowed`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from kcurate.errors import ProblemError

MAX_TEXT_BYTES = 1 << 18
# Python's parser and our walk recurse; no module needs more.
MAX_NESTING = 120


@dataclass(frozen=True)
class Kernel:
    """The parameters of a function in order: those that a launch passes, and compile-time constants.

    `optional`: the parameters with a default.
    """

    name: str
    passed: tuple[str, ...]
    constants: tuple[str, ...]
    optional: frozenset[str]


@lru_cache(maxsize=64)
def parsed(code: str) -> ast.Module:
    """The syntax tree of the text, which callers must not change.

    Raises:
        ProblemError: it is not Python, or larger or more deeply nested than any module needs to be.
    """
    if len(code) > MAX_TEXT_BYTES:
        raise ProblemError(f"{len(code)} characters of Triton, more than {MAX_TEXT_BYTES}")
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = getattr(error, "msg", None) or type(error).__name__
        raise ProblemError(f"not Python: {message} (line {getattr(error, 'lineno', 1)})") from error
    level: list[ast.AST] = [tree]
    for _ in range(MAX_NESTING):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise ProblemError(f"Triton nested more than {MAX_NESTING} levels deep")


@lru_cache(maxsize=16)
def respelled(code: str) -> str:
    """The module's text regenerated from its syntax tree, so that exactly what was checked is compiled.

    Raises:
        ProblemError: as `parsed`, or the new text has another syntax tree.
    """
    tree = parsed(code)
    text = ast.unparse(tree)
    if ast.dump(parsed(text)) != ast.dump(tree):
        raise ProblemError("Python that cannot be written anew from its syntax tree")
    return f"{text}\n"


def kernels(code: str) -> Mapping[str, Kernel]:
    """Every function of the module by name.

    Raises:
        ProblemError: as `parsed`.
    """
    by_name = {}
    for node in parsed(code).body:
        if isinstance(node, ast.FunctionDef):
            constants = [arg.arg for arg in node.args.args if is_constexpr(arg.annotation)]
            names = [arg.arg for arg in node.args.args]
            defaulted = names[len(names) - len(node.args.defaults) :]
            passed = tuple(name for name in names if name not in constants)
            by_name[node.name] = Kernel(node.name, passed, tuple(constants), frozenset(defaulted))
    return by_name


def bare_python(code: str, renames: Mapping[str, str] | None = None) -> str:
    """Python without comments and docstrings, in a fixed layout, with the names in `renames` replaced.

    Raises:
        SyntaxError: it is not Python.
    """
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    text = ast.unparse(tree)
    return re.sub(r"[A-Za-z_]\w*", lambda word: renames.get(word[0], word[0]), text) if renames else text


def is_constexpr(annotation: ast.expr | None) -> bool:
    """Whether an annotation is `tl.constexpr`."""
    return isinstance(annotation, ast.Attribute) and annotation.attr == "constexpr"


def parts_of(node: ast.expr) -> tuple[str, ...] | None:
    """`a.b.c` as its parts; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else None


def calls(node: ast.AST, name: str) -> Iterator[ast.Call]:
    """The calls of a member `name` of a module, such as `tl.load`, at or below a node."""
    for child in ast.walk(node):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr == name:
            yield child
