"""Removes statements, and code that thereby becomes empty, for rules that eliminate a shared array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree
from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.cuda_source.semantics.builtin_effects import only_reads


def removals(
    tree: Tree, function: Function, gone: Sequence[Node], arrays: Sequence[Declared], *, barriers: bool
) -> Iterator[Edit]:
    """Remove statements, enclosing code that becomes empty, array declarations and optionally barriers."""
    stores = {node.id for node in gone}
    removed: dict[int, Node] = {}
    for store in gone:
        top = store
        while (outer := _around(tree, top, stores)) is not None:
            top = outer
        removed[top.id] = top
    for array in arrays:
        if len(list(tree.declared_by(array.declaration))) == 1:
            removed[array.declaration.id] = array.declaration
    if barriers:
        for node, _, _ in tree.calls(b"__syncthreads", within=function.body):
            if node.parent.type == "expression_statement":
                removed[node.parent.id] = node.parent
    for node in removed.values():
        in_block = node.parent.type == "compound_statement"
        inside = any(
            other is not node and other.start_byte <= node.start_byte and node.end_byte <= other.end_byte
            for other in removed.values()
        )
        if not inside:
            whole_line = Edit(*line_of(tree.source, node))
            yield whole_line if in_block else Edit(node.start_byte, node.end_byte, b";")


def _around(tree: Tree, node: Node, stores: set[int]) -> Node | None:
    """The enclosing statement, if all else in it only declares values that are no longer used."""
    parent = node.parent
    if parent.type == "compound_statement":
        others = [child for child in parent.named_children if child != node and child.id not in stores]
        others = [child for child in others if child.type != "preproc_call"]
        empty = _only_values(tree, others) and parent.parent.type in ("for_statement", "if_statement")
        return parent if empty else None
    if parent.type == "for_statement":
        return parent if parent.child_by_field_name("body") == node else None
    whole = parent.type == "if_statement" and parent.child_by_field_name("alternative") is None
    return parent if whole and parent.child_by_field_name("consequence") == node else None


def _only_values(tree: Tree, statements: Sequence[Node]) -> bool:
    """Whether statements only declare variables from pure expressions (nothing shared)."""
    return all(
        node.type == "declaration"
        and b"__shared__" not in node.text
        and not any(True for _ in tree.nodes("assignment_expression", "update_expression", within=node))
        and all(only_reads(name) for _, name, _ in tree.calls(within=node))
        for node in statements
        if node.type != "comment"
    )


def line_of(code: bytes, node: Node) -> tuple[int, int]:
    """A statement's span, including indentation and line end if nothing else is on its lines."""
    start, end = node.start_byte, node.end_byte
    before = code.rfind(b"\n", 0, start) + 1
    after = code.find(b"\n", end)
    alone = not code[before:start].strip() and after >= 0 and not code[end:after].strip()
    return (before, after + 1) if alone else (start, end)
