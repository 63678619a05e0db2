"""The variable that an expression starts from, and the casts, members and offsets between the two.

Not covered: what a name means (`code_index`).
"""

from __future__ import annotations

from functools import lru_cache

from kcurate.cuda_source.parse.syntax_tree import Node, bare, expression

_OF_AN_ARGUMENT = frozenset((
    "pointer_expression", "subscript_expression", "field_expression", "unary_expression",
))  # fmt: skip
_NAMED_CASTS = frozenset(("static_cast", "reinterpret_cast", "const_cast", "raw_pointer_cast"))


def without_casts(node: Node) -> Node:
    """The expression inside parentheses, casts and `raw_pointer_cast`."""
    while True:
        inner = bare(node)
        if inner.type == "cast_expression":
            inner = inner.child_by_field_name("value")
        elif inner.type == "call_expression":
            function, arguments = (inner.child_by_field_name(field) for field in ("function", "arguments"))
            text = function.text.decode().partition("<")[0].rpartition("::")[2].strip() if function else ""
            if text in _NAMED_CASTS and arguments is not None and arguments.named_child_count == 1:
                inner = arguments.named_children[0]
        if inner == node:
            return node
        node = inner


def cast_type(node: Node) -> str:
    """The type of a cast; empty: the expression is no cast."""
    kind = node.child_by_field_name("type" if node.type == "cast_expression" else "function")
    if kind is None or (node.type == "call_expression" and without_casts(node) == node):
        return ""
    return str(kind.text.decode("latin-1"))


def path_of(node: Node) -> str:
    """The variable that an expression starts from, behind casts, `&`, `*`, indices and offsets.

    `(void**)&d->a` and `d.a + n` are `d.a`, `&a[0]` and `a.data()` are `a`; empty where there is none.
    """
    while True:
        node = without_casts(node)
        if node.type in _OF_AN_ARGUMENT:
            owner = node.child_by_field_name("argument")
            if node.type == "field_expression" and owner is not None:
                outer, member = path_of(owner), node.child_by_field_name("field").text.decode()
                return member if outer == "this" else f"{outer}.{member}" if outer else ""
        elif node.type == "binary_expression":
            owner = node.child_by_field_name("left")
        elif node.type == "call_expression":
            called = node.child_by_field_name("function")
            methods = called is not None and called.type == "field_expression"
            owner = called.child_by_field_name("argument") if methods else None
        else:
            return node.text.decode() if node.type in ("identifier", "this") else ""
        if owner is None:
            return ""
        node = owner


@lru_cache(maxsize=4096)
def path_in(text: str) -> str:
    """`path_of` for an expression given as text; the text itself if it is not understood."""
    node = expression(text.encode("latin-1", "replace"))
    return (path_of(node) if node is not None else "") or text.strip()


def offset_in(text: str) -> str | None:
    """The offset added to the pointer that an expression starts from: `n` in `(T *)a + n` and `&a[n]`."""
    node = expression(text.encode("latin-1", "replace"))
    node = without_casts(node) if node is not None else None
    if node is not None and node.type == "binary_expression" and node.children[1].type == "+":
        return str(node.child_by_field_name("right").text.decode())
    behind = _element(node) if node is not None else None
    return str(behind.child_by_field_name("indices").text.decode()[1:-1]) if behind is not None else None


def holder_in(text: str) -> str:
    """The variable, member or array element that holds a pointer: `a[i]` for `a[i] + n`, `a` for `&a[n]`."""
    node = expression(text.encode("latin-1", "replace"))
    while node is not None:
        node = without_casts(node)
        behind, called = _element(node), node.child_by_field_name("function")
        if behind is not None:
            node = behind.child_by_field_name("argument")
        elif node.type == "binary_expression":
            node = node.child_by_field_name("left")
        elif called is not None and called.type == "field_expression":
            node = called.child_by_field_name("argument")
        else:
            return "".join(node.text.decode().split()).replace("->", ".").removeprefix("this.")
    return text.strip()


def _element(node: Node) -> Node | None:
    """`a[n]` in `&a[n]`; None for anything else."""
    if node.type != "pointer_expression" or node.children[0].type != "&":
        return None
    inner = without_casts(node.child_by_field_name("argument"))
    return inner if inner.type == "subscript_expression" else None


def is_path(node: Node) -> bool:
    """Whether an expression is a variable or a member of one, without an index or dereference."""
    while node.type in ("field_expression", "parenthesized_expression"):
        node = node.named_children[0]
    return node.type in ("identifier", "this")
