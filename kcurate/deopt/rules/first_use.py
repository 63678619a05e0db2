"""Whether statements set a local before they use it, on every path through them.

`uses_first(statements, uses)` is True if an earlier value may be read; when in doubt it is True. Not covered:
`goto` and `switch` (any use inside counts as a read).
"""

from __future__ import annotations

from collections.abc import Sequence

from kcurate.cuda_source.parse.syntax_tree import Node, bare

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
