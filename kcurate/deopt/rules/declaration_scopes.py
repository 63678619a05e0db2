"""Finds the declaration that a name refers to, and the loops around it.

Not covered: file-level names and parameters.
"""

from __future__ import annotations

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, ancestors, encloses

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
