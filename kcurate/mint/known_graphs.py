"""Graphs that must not leak into training data as new: KernelBench's tasks, and those of built-in families.

Graphs are compared by their operators in order; variants of one operator count as equal. A graph of
KernelBench gets a family that no dataset takes (`KERNELBENCH`); one of a built-in family gets that family, so
that both are on the same side of a split.
"""

from __future__ import annotations

from kcurate.core import resources
from kcurate.mint.graph import Graph
from kcurate.reward.splits import KERNELBENCH

_KNOWN = resources.table("kcurate.mint", "known_graphs.toml")


def family_of(graph: Graph) -> str:
    """The family of a graph's problem."""
    names = " ".join(_KNOWN["same"].get(node.operator, node.operator) for node in graph.nodes)
    if names in _KNOWN["level_1"] or names in _KNOWN["level_2"]:
        return f"{KERNELBENCH}{names.replace(' ', '-')}"
    return str(_KNOWN["families"].get(names, f"minted-{graph.key[:12]}"))
