"""What host code tells by its text alone, without looking up names.

The remainder in a rounded-up count, whether a call may set a variable, the size of a type. Not covered: the
values of names (`meaning`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kcurate.draft import cexpr
from kcurate.draft.cexpr import Node
from kcurate.draft.host import Function, Host
from kcurate.problem import c_types as types

_READ_IN = frozenset(
    ("atoi", "atol", "atoll", "strtol", "strtoul", "strtoull", "stoi", "stol", "stoul", "atof")
)
_POINTER_BYTES = 8


def asks(node: Node) -> bool:
    """Whether a value comes from outside the program."""
    return (node.op == "call" and node.text in _READ_IN) or any(asks(arg) for arg in node.args)


def literal(node: Node) -> str:
    """The text of a tree that is a literal or a name; empty otherwise."""
    node = cexpr.plain(node)
    return node.text if node.op in ("num", "name") else ""


def rest_of(choice: Node) -> Node | None:
    """The remainder in `n % b == 0 ? 0 : 1` and equivalents; None for any other choice."""
    condition = cexpr.plain(choice.args[0])
    yes, no = (cexpr.plain(arg).text for arg in choice.args[1:])
    wanted = {"==": ("0", "1"), "!=": ("1", "0"), ">": ("1", "0"), "%": ("1", "0")}.get(condition.op)
    rest = condition if condition.op == "%" else cexpr.plain(condition.args[0]) if condition.args else choice
    if wanted != (yes, no) or rest.op != "%":
        return None
    if condition.op != "%" and cexpr.plain(condition.args[1]).text != "0":
        return None
    return rest


def one_more_if(host: Host, name: str, function: Function | None) -> Node | None:
    """The remainder in `if (n % b != 0) name++;`; None if the function has no such line."""
    low, high = host.span(function)
    one = re.escape(name)
    match = re.search(
        rf"\bif\s*\(([^;{{}}]*?%[^;{{}}]*?)(?:!=|>)\s*0\s*\)\s*\{{?\s*{one}\s*(?:\+\+|\+=\s*1|=\s*{one}\s*\+\s*1)\s*;",
        host.text[low:high],
    )
    rest = cexpr.parse(match[1]) if match else None
    return rest if rest is not None and rest.op == "%" else None


def handed_on(host: Host, name: str, function: Function | None) -> bool:
    """Whether a call may set the variable: it receives `&name`."""
    low, high = host.span(function)
    return re.search(rf"[(,]\s*&\s*{re.escape(name)}\b", host.text[low:high]) is not None


def size_of(host: Host, template: Mapping[str, str], text: str, function: Function | None) -> int | None:
    """Bytes of a type, or of a variable's type (`sizeof(*p)`, `sizeof(p[0])` remove a star)."""
    text = text.strip()
    if text.endswith("*"):
        return _POINTER_BYTES
    names = {**host.types, **{k: v[1] for k, v in host.macros.items() if v[0] is None}, **template}
    found = types.element(text, names, host.text)
    if found is not None:
        return found.size_bytes
    variable = re.match(r"(\*)?\s*([A-Za-z_]\w*)\s*(\[)?", text)
    declared = host.declared_type(variable[2], function) if variable else None
    if variable is None or declared is None:
        return None
    if declared.count("*") - bool(variable[1]) - bool(variable[3]) > 0:
        return _POINTER_BYTES
    found = types.element(declared, names, host.text)
    return found.size_bytes if found is not None else None
