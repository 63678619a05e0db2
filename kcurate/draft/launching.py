"""Reads one launch as a plan: grid, block, shared memory, and which host names are sizes.

Not covered: buffers (`building`), values of names (`meaning`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kcurate.cuda_source.launches import Launch
from kcurate.draft import cexpr
from kcurate.draft.algebra import Poly, from_node
from kcurate.draft.cexpr import Node
from kcurate.draft.meaning import Meaning, Scope
from kcurate.draft.sketch import OPEN, Reason, Remark
from kcurate.errors import ProblemError
from kcurate.problem.expressions import evaluate
from kcurate.records import Expr

MAX_THREADS = 1024
FUNCTIONS = frozenset(("ceil_div", "min", "max", "align_up", "log2", "pow2"))


@dataclass
class Site:
    """A launch in its scope. `frozen` host names are replaced by their value instead of becoming sizes."""

    launch: Launch
    meaning: Meaning
    scope: Scope
    frozen: dict[str, int] = field(default_factory=dict)

    def poly(self, text: str) -> Poly | None:
        """A host expression at the launch as a sum of products of sizes."""
        node = self.meaning.resolve_text(text, self.scope)
        return None if node is None else self.settle(node)

    def settle(self, node: Node) -> Poly | None:
        """The polynomial of a resolved tree, with frozen names replaced."""

        def value(part: Node) -> Node | None:
            if part.op == "name" and part.text in self.frozen:
                return cexpr.number(self.frozen[part.text])
            return None

        return from_node(cexpr.substitute(node, value))

    def freeze(self, names: frozenset[str]) -> None:
        """Freeze these names at the values that the host code gives them."""
        known = self.meaning.defaults
        self.frozen.update({name: known[name] for name in names if name in known})


def names_of(poly: Poly) -> frozenset[str]:
    """Every size used in a sum of products, including inside opaque terms."""
    found: set[str] = set()
    for term in poly.terms:
        for piece in term:
            node = cexpr.parse(piece)
            found |= cexpr.names(node) if node is not None else {piece}
    return frozenset(found)


def block_of(site: Site) -> tuple[int, ...] | None:
    """The block's extents as numbers; host names in them are frozen."""
    nodes = site.meaning.extents(site.launch.block, site.scope)
    if nodes is None:
        return None
    for node in nodes:
        site.freeze(cexpr.names(node))
    polys = [site.settle(node) for node in nodes]
    values = [poly.constant for poly in polys if poly is not None and poly.constant is not None]
    if len(values) != len(nodes) or not all(0 < value <= MAX_THREADS for value in values):
        return None
    while len(values) > 1 and values[-1] == 1:
        values.pop()
    return tuple(values)


def grid_of(site: Site) -> tuple[Poly, ...] | None:
    """The grid's extents over sizes."""
    nodes = site.meaning.extents(site.launch.grid, site.scope)
    polys = [site.settle(node) for node in nodes] if nodes is not None else []
    known = tuple(poly for poly in polys if poly is not None)
    if nodes is None or len(known) != len(nodes):
        return None
    while len(known) > 1 and known[-1].constant == 1:
        known = known[:-1]
    return known


def shared_of(site: Site, code: str) -> tuple[Expr, list[Remark]]:
    """The dynamic shared memory in bytes."""
    text = site.launch.shared_bytes
    if text is None:
        return 0, []
    poly = site.poly(text)
    if poly is not None:
        return poly.expr(), []
    if "extern" not in code:
        return 0, []
    return OPEN, [Remark("plan.shared_bytes", f"bytes; the host passes {text}", Reason.NO_VALUE)]


def at_sample(poly: Poly) -> int:
    """The value with every size set to 64, to compare magnitudes."""
    names = dict.fromkeys(names_of(poly), 64)
    try:
        return evaluate(poly.text(), names)
    except ProblemError:
        return 0
