"""Which nodes of a graph share a kernel.

Every kernel has a root. Elementwise nodes that read its result at their own index are its epilogue;
elementwise nodes that feed it are computed where they are read. Not covered: how a kernel runs (`templates`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kcurate.mint.graph import OPERATORS, Graph, Node, Operator
from kcurate.mint.scalar_text import parsed

# A value that is computed where it is read is computed again for every reader.
MOST_READERS = 2
# Kinds that read each element of an operand many times, so that it is worth a kernel of its own.
READ_OFTEN = frozenset({"gemm", "convolution", "attention", "pooling", "sort"})


@dataclass
class Group:
    """One kernel: its root node, the epilogue nodes in order, and the name of the value that it stores."""

    root: Node
    epilogue: list[Node] = field(default_factory=list)

    @property
    def result(self) -> Node:
        """The node whose value is stored."""
        return self.epilogue[-1] if self.epilogue else self.root


def groups(graph: Graph) -> tuple[list[Group], frozenset[str]]:
    """The kernels in order, and the names of nodes that are computed where they are read."""
    inlined = frozenset(node.name for node in graph.nodes if _is_inlined(graph, node))
    joined = dict[str, Group]()
    kernels: list[Group] = []
    for node in graph.nodes:
        if node.name in inlined:
            continue
        group = _joinable(graph, node, joined)
        if group is None:
            kernels.append(group := Group(node))
        else:
            group.epilogue.append(node)
        joined[node.name] = group
    # A kernel runs where its last node stands: by then all that it reads is there.
    order = {node.name: position for position, node in enumerate(graph.nodes)}
    return sorted(kernels, key=lambda group: order[group.result.name]), inlined


def is_free(operator: Operator) -> bool:
    """Whether the node is elementwise or a gather: no folds, and each thread stores its own element."""
    return not operator.folds and not operator.to


def _is_inlined(graph: Graph, node: Node) -> bool:
    readers = graph.uses(node.name)
    if node.name in graph.outputs or not is_free(OPERATORS[node.operator]) or not readers:
        return False
    kinds = {OPERATORS[reader.operator].kind for reader in readers}
    if kinds & READ_OFTEN or len(readers) > MOST_READERS:
        return False
    # What reads it must not be an epilogue that waits for a later kernel than its other operands: a free
    # node below a root is taken by the root's kernel instead.
    return _root_above(graph, node) is None


def _root_above(graph: Graph, node: Node) -> Node | None:
    """The node whose kernel this one can join, going up through free nodes."""
    for operand in node.operands:
        above = graph.values[operand]
        if isinstance(above, Node) and follows(graph, node, above):
            operator = OPERATORS[above.operator]
            if not is_free(operator):
                return above
            root = _root_above(graph, above)
            if root is not None:
                return root
    return None


def _joinable(graph: Graph, node: Node, joined: Mapping[str, Group]) -> Group | None:
    for operand in node.operands:
        group = joined.get(operand)
        if group is not None and group.result.name == operand and not is_free(OPERATORS[group.root.operator]):
            above = graph.values[operand]
            if isinstance(above, Node) and follows(graph, node, above):
                return group
    return None


def follows(graph: Graph, node: Node, above: Node) -> bool:
    """Whether a free node is the only reader of the one above, element by element."""
    operator = OPERATORS[node.operator]
    if not is_free(operator) or OPERATORS[above.operator].to:
        return False
    if above.name in graph.outputs or len(graph.uses(above.name)) != 1 or above.shape != node.shape:
        return False
    reads = [p for p, name in zip(operator.parameters, node.operands, strict=True) if name == above.name]
    elsewhere = set(_subscripted(operator.result))
    return all(p.axes == operator.out and p.name not in elsewhere and p.element != "index" for p in reads)


def _subscripted(expression: str) -> Iterator[str]:
    for part in ast.walk(parsed(expression)):
        if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name):
            yield part.value.id
