"""Which declaration a name refers to, and what is done to it: only read, stored to, or set before it is used.

`uses_first(statements, uses)` is True if an earlier value may be read; when in doubt it is True. Not covered:
file-level names and parameters, `goto` and `switch` (any use inside counts as a read).
"""

from __future__ import annotations

from collections.abc import Sequence

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, ancestors, bare, encloses

# A statement's first effect on a local: it reads it, sets it on every path, or does neither on some path.
_READS, _SETS, _NEITHER = "reads", "sets", "neither"
_IN_ORDER = ("compound_statement", "else_clause", "expression_statement")


def uses_first(statements: Sequence[Node], uses: Sequence[Node]) -> bool:
    """Whether statements may read the value that a local had before them; `uses` are the local's uses."""
    return _in_order(statements, [use.start_byte for use in uses]) == _READS


def _in_order(nodes: Sequence[Node | None], at: list[int]) -> str:
    for node in nodes:
        effect = _first(node, at) if node is not None else _NEITHER
        if effect != _NEITHER:
            return effect
    return _NEITHER


def _first(node: Node, at: list[int]) -> str:
    """The first effect of a statement or expression on the local."""
    if not _touches(node, at):
        return _NEITHER
    if node.type in _IN_ORDER:
        return _in_order(node.named_children, at)
    if node.type == "assignment_expression":
        return _assignment(node, at)
    if node.type == "if_statement":
        return _branches(node, at)
    if node.type in ("for_statement", "while_statement"):
        return _loop(node, at)
    return _READS


def _assignment(node: Node, at: list[int]) -> str:
    left, right = bare(node.child_by_field_name("left")), node.child_by_field_name("right")
    inside = _first(right, at)
    if inside != _NEITHER:
        return inside
    plain = node.children[1].type == "=" and left.type == "identifier" and left.start_byte in at
    return _SETS if plain else _READS


def _branches(node: Node, at: list[int]) -> str:
    condition = _first(node.child_by_field_name("condition"), at)
    if condition != _NEITHER:
        return condition
    sides = [node.child_by_field_name(name) for name in ("consequence", "alternative")]
    effects = [_first(side, at) if side is not None else _NEITHER for side in sides]
    if _READS in effects:
        return _READS
    return _SETS if effects == [_SETS, _SETS] else _NEITHER


def _loop(node: Node, at: list[int]) -> str:
    """A loop may have no iteration: only its initializer certainly sets anything."""
    start = node.child_by_field_name("initializer")
    first = _first(start, at) if start is not None and start.type != "declaration" else _NEITHER
    if first != _NEITHER:
        return first
    declared = start is not None and start.type == "declaration" and _touches(start, at)
    rest = [node.child_by_field_name(name) for name in ("condition", "body", "update")]
    return _READS if declared or _in_order(rest, at) == _READS else _NEITHER


def _touches(node: Node, at: list[int]) -> bool:
    return any(node.start_byte <= place < node.end_byte for place in at)


LOOPS = ("for_statement", "while_statement", "do_statement")


def declaration_of(tree: Tree, function: Function, use: Node) -> Declared | None:
    """The local declaration that a name refers to at its position; None if it is not a local."""
    nearest, best = None, -1
    for declaration in tree.declared(function.body):
        scope = declaration.declaration.parent
        around = encloses(scope, use) and declaration.node.start_byte < use.start_byte
        if declaration.name == use.text and around and scope.start_byte >= best:
            nearest, best = declaration, scope.start_byte
    return nearest


def in_loop_with(node: Node, other: Node) -> bool:
    """Whether both nodes are inside one loop, so that either may run before the other."""
    return any(outer.type in LOOPS and encloses(outer, other) for outer in ancestors(node))


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
