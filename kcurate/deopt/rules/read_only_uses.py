"""Whether an expression, or the memory behind a pointer, is only read; which accesses store to an element."""

from __future__ import annotations

from kcurate.cuda_source.parse.syntax_tree import Function, Node, Tree

# Nodes that only read the expressions in them.
_READERS = frozenset(
    """binary_expression conditional_expression return_statement unary_expression cast_expression
    initializer_list subscript_argument_list""".split()  # noqa: SIM905
)


def is_only_read(tree: Tree, node: Node) -> bool:
    """Whether the value is only read: not assigned, not incremented, its address not taken."""
    parent, child = node.parent, node
    while parent.type in ("parenthesized_expression", "field_expression"):
        parent, child = parent.parent, parent
    if parent.type == "assignment_expression":
        return bool(parent.child_by_field_name("right") == child)
    if parent.type == "update_expression":
        return False
    if parent.type == "pointer_expression":
        return tree.text(parent)[:1] == b"*"
    if parent.type == "argument_list":
        return takes_values(tree, parent.parent)
    if parent.type == "init_declarator":
        return b"&" not in tree.source[parent.start_byte : child.start_byte]
    return parent.type in _READERS


def takes_values(tree: Tree, call: Node) -> bool:
    """Whether a call cannot change its arguments: no function of that name in the file takes a reference."""
    function = call.child_by_field_name("function")
    if function is None or function.type != "identifier":
        return False
    return not any(
        other.name == tree.text(function) and any(param.reference for param in other.params)
        for other in tree.functions()
    )


def element_of(use: Node) -> Node | None:
    """The subscript expression that indexes this node, or None."""
    parent = use.parent
    array = parent.child_by_field_name("argument") if parent.type == "subscript_expression" else None
    return parent if array == use else None


def assignment_to(node: Node) -> Node | None:
    """The assignment to this node, or None."""
    parent = node.parent
    target = parent.child_by_field_name("left") if parent.type == "assignment_expression" else None
    return parent if target == node else None


def elements_only_read(tree: Tree, function: Function, pointer: bytes) -> bool:
    """Whether a pointer is only used to read its elements."""
    places = (element_of(use) for use in tree.uses(pointer, within=function.body))
    return all(place is not None and is_only_read(tree, place) for place in places)
