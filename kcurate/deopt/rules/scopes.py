"""Finds the declaration that a name refers to. Not covered: file-level names and parameters."""

from __future__ import annotations

from kcurate.cuda_source.edit import Declared, Function, Node, Tree


def declaration_of(tree: Tree, function: Function, use: Node) -> Declared | None:
    """The local declaration that a name refers to at its position; None if it is not a local."""
    found, best = None, -1
    for one in tree.declared(function.body):
        scope = one.declaration.parent
        around = scope.start_byte <= use.start_byte < scope.end_byte and one.node.start_byte < use.start_byte
        if one.name == use.text and around and scope.start_byte >= best:
            found, best = one, scope.start_byte
    return found
