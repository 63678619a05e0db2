"""Idioms of host code: reads of program input, the remainder term of a ceil-division, the size of a type.

Not covered: the values of names (`name_values`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from kcurate.cuda_source.parse.syntax_tree import ancestors, bare
from kcurate.cuda_source.semantics import c_expressions as cexpr
from kcurate.cuda_source.semantics.c_expressions import Node
from kcurate.cuda_source.semantics.code_index import Code
from kcurate.cuda_source.semantics.declarations import Setting
from kcurate.cuda_source.semantics.pointer_paths import path_in
from kcurate.problem import c_types as types

_INPUT_PARSERS = frozenset(
    ("atoi", "atol", "atoll", "strtol", "strtoul", "strtoull", "stoi", "stol", "stoul", "atof")
)
_POINTER_BYTES = 8


def reads_program_input(node: Node) -> bool:
    """Whether a value is parsed from text, such as a command-line argument."""
    parses = node.op == "call" and node.text in _INPUT_PARSERS
    return parses or any(reads_program_input(arg) for arg in node.args)


def literal(node: Node) -> str:
    """The text of a tree that is a literal or a name; empty otherwise."""
    node = cexpr.plain(node)
    return node.text if node.op in ("num", "name") else ""


def remainder_of(condition: Node) -> tuple[Node, bool] | None:
    """The `n % b` of `n % b`, `n % b != 0` or `n % b == 0`; whether that is true if `n % b` is nonzero."""
    node = cexpr.plain(condition)
    if node.op in ("==", "!=", ">") and cexpr.plain(node.args[1]).text == "0":
        remainder = cexpr.plain(node.args[0])
        return (remainder, node.op != "==") if remainder.op == "%" else None
    return (node, True) if node.op == "%" else None


def one_more_if(host: Code, setting: Setting) -> Node | None:
    """The remainder term of a ceil-division: `n % b` of `if (n % b != 0) name++;`, else None."""
    grown = setting.how == "++" or (setting.how == "+=" and setting.value == "1")
    around = ancestors(setting.node) if grown else ()
    branch = next((up for up in around if up.type == "if_statement"), None)
    condition = branch.child_by_field_name("condition") if branch is not None else None
    node = cexpr.parse(host.of(bare(condition))) if condition is not None else None
    remainder = remainder_of(node) if node is not None else None
    return remainder[0] if remainder is not None and remainder[1] else None


def size_of(host: Code, template: Mapping[str, str], text: str, at: int | None) -> int | None:
    """Bytes of a type, or of a variable's type (`*p` and `p[0]` strip one level of pointer)."""
    text = text.strip()
    if text.endswith("*"):
        return _POINTER_BYTES
    names = {**host.types, **host.macros, **template}
    pointee_of = partial(types.pointee, names=names, code=host.text, aligned=host.aligned)
    pointee = pointee_of(text)
    if pointee is not None:
        return pointee.size_bytes
    node = cexpr.parse(text)
    dereferenced = node is not None and node.op in ("unary*", "index")
    name = path_in(text)
    declared, variable = host.type_of(name, at), host.variable(name, at)
    if declared is None:
        return None
    if variable is not None and variable.sizes and not dereferenced and declared == f"{variable.type}*":
        sizes = [host.macros.get(size, size).strip("() ") for size in variable.sizes]
        element = pointee_of(variable.type) if "*" not in variable.type else None
        if element is None or not all(size.isdigit() for size in sizes):
            return None
        return element.size_bytes * math.prod(map(int, sizes))
    if declared.count("*") - dereferenced > 0:
        return _POINTER_BYTES
    pointee = pointee_of(declared)
    return pointee.size_bytes if pointee is not None else None
