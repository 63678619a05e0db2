"""C expressions as trees: enough of the language for sizes, grids and launch arguments.

Casts are dropped, except for whether a division is floating-point (`ceil((float)n / 256)`). An expression
that is not understood has no tree. Not covered: the meaning of names (`code_index`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kcurate.cuda_source.parse import syntax_tree

# What the grammar takes for a cast, `(n) + 1`, and for a template, `a < b && c > (d)`.
_NAME_IN_BRACKETS = re.compile(r"(?<![\w)\]>])(?<![\w)\]] )\(\s*(\w+)\s*\)(?=\s*[-+*&])")
_NAME_COMPARED = re.compile(r"(?<![\w.>:])([A-Za-z_]\w*)(?=\s*<(?![<=]|[\w\s:*]*>\s*\())")
_FUNCTION_POINTER = re.compile(rb"\(\s*\*\s*\w*\s*\)")
# Stands for what is in brackets while the rest is read.
_VALUE = "_kcurate_value"
# The arithmetic types whose names may stand before a value: `uint(n)`, `(half) + x`.
_TYPE = re.compile(
    r"bool|float|double|(?:__)?half|(?:__)?nv_bfloat16|s?size_t|ptrdiff_t|u?int\d+_t|u_char|"
    r"u?(?:char|short|int|long|longlong)|(?:(?:un)?signed\s*)?(?:char|short|int|long|\s)*"
)
_NUMBER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)([a-zA-Z]*)")
_NAMES = frozenset(("identifier", "qualified_identifier", "true", "false", "null", "this"))
_CASTS = frozenset(("static_cast", "reinterpret_cast", "const_cast"))
_REAL_CALLS = ("ceil", "ceilf", "floor", "floorf", "sqrt", "sqrtf", "pow", "powf")
_REAL_TYPE = re.compile(r"\b(?:float|double)\b")
MAX_LENGTH = 2000


@dataclass(frozen=True)
class Node:
    """`op` is `num` (digits in `text`), `name`, `call`, `member`, `index`, `sizeof`, `?`, or an operator.

    `real` marks floating-point literals and casts; for a call, `text` is the function.
    """

    op: str
    args: tuple[Node, ...] = ()
    text: str = ""
    real: bool = False


def number(value: int | float) -> Node:
    """A node for a literal."""
    return Node("num", text=repr(value), real=isinstance(value, float))


def name(text: str) -> Node:
    """A node for a variable."""
    return Node("name", text=text)


def path(node: Node) -> str:
    """`p.grid.nx` of a variable's members, also of `p->grid.nx`; empty for anything else."""
    if node.op != "member":
        return node.text if node.op == "name" else ""
    outer = path(node.args[0])
    return f"{outer}.{node.text}" if outer else ""


def flat(node: Node) -> str:
    """`groups_0_count` for `groups[0].count`: one name for a member or element; empty for anything else."""
    node = plain(node)
    if node.op == "name" or (node.op == "num" and node.text.isdigit()):
        return node.text
    parts = [flat(arg) for arg in node.args] if node.op in ("member", "index") else [""]
    if node.op == "member":
        parts.append(node.text)
    return "_".join(part for part in parts if part != "this") if all(parts) else ""


class _Product(Exception):  # noqa: N818 - an event inside this module
    """Raised for `(a * (b * c)) - d`, parsed as a cast of `-d`: the parentheses' text `inside` is a value."""

    def __init__(self, inside: syntax_tree.Node) -> None:
        self.inside = inside


class _Refused(Exception):  # noqa: N818 - an event inside this module
    """Raised for an expression that is not understood here."""


def parse(text: str) -> Node | None:
    """The tree of an expression; None if it is not understood."""
    if len(text) > MAX_LENGTH:
        return None
    text = _NAME_IN_BRACKETS.sub(
        lambda match: match[0] if _TYPE.fullmatch(match[1]) else f" {match[1]} ", text
    )
    syntax = syntax_tree.expression(_NAME_COMPARED.sub(r"(\1)", text).encode())
    try:
        return _tree(syntax) if syntax is not None else None
    except _Product as product:
        return _with_product(syntax, product.inside)
    except (_Refused, ValueError, RecursionError):
        return None


def _with_product(whole: syntax_tree.Node, inside: syntax_tree.Node) -> Node | None:
    """The tree, with the text in parentheses read as a value instead of a type."""
    text, begin = whole.text, whole.start_byte
    stand_in = _VALUE
    while stand_in.encode() in text:
        stand_in += "_"
    value = parse(inside.text.decode())
    before, after = text[: inside.start_byte - begin], text[inside.end_byte - begin :]
    around = parse((before + stand_in.encode() + after).decode())
    if value is None or around is None:
        return None
    return substitute(around, lambda node: value if node == name(stand_in) else None)


def _tree(syntax: syntax_tree.Node) -> Node:
    kind, text = syntax.type, syntax.text.decode()
    if kind == "number_literal":
        return _literal(text)
    if kind in _NAMES:
        return name(_unqualified(text))
    if kind == "sizeof_expression":
        inside = syntax.named_children[0]
        return Node("sizeof", text=syntax_tree.bare(inside).text.decode())
    if kind == "cast_expression":
        type_ = syntax.child_by_field_name("type")
        if b"(" in type_.text and not _FUNCTION_POINTER.search(type_.text):
            raise _Product(type_)
        return _cast(type_.text.decode(), _tree(syntax.named_children[-1]))
    if kind == "call_expression":
        return _call(syntax)
    if kind == "field_expression":
        owner, member = syntax.named_children
        return Node("member", (_tree(owner),), member.text.decode())
    parts = tuple(_tree(child) for child in syntax.named_children)
    if kind == "binary_expression":
        return Node(syntax.children[1].type, parts)
    if kind in ("unary_expression", "pointer_expression"):
        operator = syntax.children[0].type
        return parts[0] if operator == "+" else Node(f"unary{operator}", parts)
    if kind == "conditional_expression":
        return _choice(parts)
    if kind == "subscript_expression":
        return Node("index", parts)
    if kind in ("parenthesized_expression", "subscript_argument_list") and len(parts) == 1:
        return parts[0]
    raise _Refused


def _choice(parts: tuple[Node, ...]) -> Node:
    """The tree of `c ? a : b`; that of `min` or `max` for `a < b ? a : b` and similar ones."""
    condition, yes, no = (plain(part) for part in parts)
    if condition.op in ("<", "<=", ">", ">="):
        left, right = (plain(arg) for arg in condition.args)
        if (yes, no) in ((left, right), (right, left)):
            least = ((yes, no) == (left, right)) == (condition.op in ("<", "<="))
            return Node("call", (left, right), "min" if least else "max")
    return Node("?", parts)


def _call(syntax: syntax_tree.Node) -> Node:
    function, arguments = syntax_tree.bare(syntax.named_children[0]), syntax.named_children[-1]
    args = tuple(_tree(child) for child in arguments.named_children)
    text = function.text.decode()
    if function.type == "field_expression":
        called = _tree(function)
        return Node("call", (*called.args, *args), called.text, real=True)
    if function.type == "template_function" and function.named_children[0].text.decode() in _CASTS:
        return _cast(function.named_children[1].text.decode(), *args)
    if _TYPE.fullmatch(text):
        return _cast(text, *args)
    if function.type not in _NAMES and function.type != "template_function":
        raise _Refused
    return Node("call", args, _unqualified(text))


def _cast(type_text: str, *value: Node) -> Node:
    if len(value) != 1:
        raise _Refused
    if "*" in type_text:
        return Node("pointer_cast", value)
    return Node("cast", value, real=_REAL_TYPE.search(type_text) is not None)


def _literal(text: str) -> Node:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise _Refused
    sign, digits, suffix = match[1], match[2].lower(), match[3].lower()
    if digits.startswith("0x"):
        node = number(int(digits, 16))
    elif suffix == "f" or re.search(r"[.e]", digits):
        node = number(float(digits))
    else:
        node = number(int(digits, 8 if re.fullmatch("0[0-7]+", digits) else 10))
    return Node("unary-", (node,)) if sign else node


def _unqualified(text: str) -> str:
    """The name without its scopes and template arguments."""
    return text.partition("<")[0].rpartition("::")[2].strip()


def substitute(node: Node, meaning: Callable[[Node], Node | None]) -> Node:
    """The tree with every part known to `meaning` replaced, outermost first.

    Replacements are not searched again.
    """
    replacement = meaning(node)
    if replacement is not None:
        return replacement
    if not node.args:
        return node
    return Node(node.op, tuple(substitute(arg, meaning) for arg in node.args), node.text, node.real)


def plain(node: Node) -> Node:
    """The tree without enclosing casts."""
    while node.op in ("cast", "pointer_cast"):
        node = node.args[0]
    return node


def names(node: Node) -> frozenset[str]:
    """Every variable in a tree."""
    own_name = frozenset((node.text,)) if node.op == "name" else frozenset()
    return own_name.union(*(names(arg) for arg in node.args))


def is_real(node: Node) -> bool:
    """Whether C evaluates the expression in floating point, judged by literals and casts."""
    if node.op in ("num", "cast"):
        return node.real
    if node.op in ("+", "-", "*", "/", "unary-"):
        return any(is_real(arg) for arg in node.args)
    return node.op == "call" and node.text in _REAL_CALLS
