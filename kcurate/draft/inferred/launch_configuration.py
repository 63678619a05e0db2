"""The launch configuration of a plan: from host code, else from the kernel's guards, else guessed.

Also which host names are sizes. Not covered: buffers (`pointer_parameters`), values of names (`name_values`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain

from kcurate.cuda_source.launches.launch_sites import Launch
from kcurate.cuda_source.semantics import c_expressions as cexpr
from kcurate.cuda_source.semantics.c_expressions import Node
from kcurate.cuda_source.semantics.code_index import Code, Function
from kcurate.draft.algebra import Poly, ceil_div, factor, from_node, number, real
from kcurate.draft.host.allocations import allocation
from kcurate.draft.host.name_values import HostValues, Scope
from kcurate.draft.inferred.index_bounds import Bounds
from kcurate.draft.sketch import Remark
from kcurate.errors import ProblemError
from kcurate.problem.c_types import FLOATS, Element
from kcurate.problem.expressions import evaluate
from kcurate.records import Expr, Kernel, Tolerance

MAX_THREADS = 1024
GUESSED_BLOCKS = ((256,), (16, 16), (8, 8, 4))
GUESSED_WHOLE = 1
# Blocks for a kernel with grid-stride loops: several blocks that interact, yet quick on the emulator.
STRIDING_BLOCKS = 16
# Names of sizes for blocks along each axis, where neither the host code nor a guard determines them.
ANY_BLOCKS = ("blocks", "blocks_y", "blocks_z")
# Dynamic shared memory if it is unknown: every GPU has it, and most kernels use no more.
GUESSED_SHARED_BYTES = 16384
# Steps of all threads of a launch: more take minutes to admit on the emulator.
MAX_WORK = 1 << 27
FUNCTIONS = frozenset(("ceil_div", "min", "max", "align_up", "log2", "pow2"))


@dataclass
class Site:
    """A launch in its scope.

    `frozen`: host names that are replaced by their value instead of becoming sizes; `compiled`: names that
    the kernel's own code defines, replaced likewise. A host name that is also in `taken` (the name of a
    buffer or a scalar) becomes a size with `_size` appended.
    """

    launch: Launch
    host_values: HostValues
    scope: Scope
    frozen: dict[str, int] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    compiled: Mapping[str, int] = field(default_factory=dict)

    def poly(self, text: str) -> Poly | None:
        """A host expression at the launch as a sum of products of sizes."""
        node = self.host_values.resolve_text(text, self.scope)
        return None if node is None else self.poly_of(node)

    def poly_of(self, node: Node) -> Poly | None:
        """The polynomial of a resolved tree, with frozen names replaced."""

        def value(part: Node) -> Node | None:
            size_name = f"{part.text}_size" if part.text in self.taken else part.text
            if part.op != "name":
                return None
            value = self.frozen.get(size_name, self.frozen.get(part.text, self.compiled.get(part.text)))
            return cexpr.number(value) if value is not None else cexpr.name(size_name)

        return from_node(cexpr.substitute(node, value))

    def real(self, text: str) -> float | None:
        """The floating-point value of a host expression."""
        node = self.host_values.resolve_text(text, self.scope)
        if node is None:
            return None
        value, poly = real(node), self.poly(text)
        if value is None and poly is not None and len(poly.terms) == 1:
            ((key, times),) = poly.terms.items()
            default = self.host_values.defaults.get(key[0]) if len(key) == 1 else None
            value = float(default * times) if default is not None else None
        return value

    def default(self, name: str) -> int | None:
        """The value that the host code gives to a size."""
        defaults = self.host_values.defaults
        host = name.removesuffix("_size")
        return defaults.get(host) if host in self.taken else defaults.get(name)

    def freeze(self, names: frozenset[str]) -> None:
        """Freeze these names at the values that the host code gives them."""
        defaults = self.host_values.defaults
        self.frozen.update({name: defaults[name] for name in names if name in defaults})


def names_of(poly: Poly) -> frozenset[str]:
    """Every size used in a sum of products, including inside opaque terms."""
    names: set[str] = set()
    for term in poly.terms:
        for piece in term:
            node = cexpr.parse(piece)
            names |= cexpr.names(node) if node is not None else {piece}
    return frozenset(names)


def _divisors(extents: Sequence[Poly]) -> frozenset[str]:
    """The names that extents are divided by, and that stand nowhere else in them."""

    def split(node: Node) -> tuple[frozenset[str], frozenset[str]]:
        if (node.op == "/" or node.text == "ceil_div") and len(node.args) == 2 and node.args[1].op == "name":
            return frozenset((node.args[1].text,)), cexpr.names(node.args[0])
        parts = [split(arg) for arg in node.args]
        by, other = (frozenset[str]().union(*(part[side] for part in parts)) for side in (0, 1))
        return by, other | ({node.text} if node.op == "name" else set())

    trees = filter(None, (cexpr.parse(extent.text()) for extent in extents))
    pairs = [split(tree) for tree in trees]
    by, other = (frozenset[str]().union(*(pair[side] for pair in pairs)) for side in (0, 1))
    return by - other


def compiled(code: Code) -> dict[str, int]:
    """The named numbers of a file with their values, less those that parameters hide in every function."""
    values = HostValues(code)
    for name in (*code.macros, *code.constants()):
        values.resolve_text(name, Scope(None, 0))
    hidden = [frozenset(param for _, param in function.params) for function in code.functions]
    everywhere = frozenset.intersection(*hidden) if hidden else frozenset()
    return {name: value for name, value in values.defaults.items() if name not in everywhere}


def block_of(site: Site) -> tuple[int, ...] | None:
    """The block's extents as numbers; host names in them are frozen."""
    nodes = site.host_values.extents(site.launch.block, site.scope)
    if nodes is None:
        return None
    for node in nodes:
        site.freeze(cexpr.names(node))
    polys = [site.poly_of(node) for node in nodes]
    values = [poly.constant for poly in polys if poly is not None and poly.constant is not None]
    if len(values) != len(nodes) or not all(0 < value <= MAX_THREADS for value in values):
        return None
    while len(values) > 1 and values[-1] == 1:
        values.pop()
    return tuple(values)


def grid_of(site: Site) -> tuple[Poly, ...] | None:
    """The grid's extents over sizes."""
    nodes = site.host_values.extents(site.launch.grid, site.scope)
    polys = [site.poly_of(node) for node in nodes] if nodes is not None else []
    extents = tuple(poly for poly in polys if poly is not None)
    if nodes is None or len(extents) != len(nodes):
        return None
    while len(extents) > 1 and extents[-1].constant == 1:
        extents = extents[:-1]
    return extents


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
    return GUESSED_SHARED_BYTES, [Remark("plan.shared_bytes", f"guess: the host passes {text}")]


def at_sample(poly: Poly) -> int:
    """The value with every size set to 64, to compare magnitudes."""
    names = dict.fromkeys(names_of(poly), 64)
    try:
        return evaluate(poly.text(), names)
    except ProblemError:
        return 0


def tolerance(
    element: Element, bounds: Bounds, sizes: Set[str], extents: Sequence[Poly] = ()
) -> Tolerance | None:
    """A tolerance for as many terms as the longest loop over `sizes` has iterations; None without such a
    loop.

    An accumulating loop with unknown iterations counts as the largest of `extents`.
    """
    if element.dtype not in FLOATS:
        return None
    ends = (bounds.exact(end) for _, start, end in bounds.loops() if bounds.exact(start) is not None)
    sums = [*bounds.sums()]
    unknown = max(extents, key=at_sample, default=None) if None in sums else None
    rounds = [
        end for end in (*ends, *sums, unknown) if end is not None and names_of(end) <= FUNCTIONS | sizes
    ]
    best = max(rounds, key=at_sample, default=None)
    return Tolerance(terms=best.expr()) if best is not None and at_sample(best) >= 2 else None


def of_one_sum(allowed: Tolerance | None, shape: Sequence[Expr]) -> Tolerance | None:
    """The tolerance, with a scale of 1 for an output of one element: a sum that cancels has its terms'
    rounding.

    No other element shows how large these terms are; inputs of drafts are near 1.
    """
    return replace(allowed, scale=1.0) if allowed is not None and shape[0] == 1 else allowed


def work(bounds: Bounds, block: tuple[int, ...], site: Site) -> int:
    """About how many steps all threads take: the rounds of the loops whose ends are constants, multiplied."""
    ends = [end for _, start, end in bounds.loops() if bounds.exact(start) is not None]
    counts = (site.poly_of(cexpr.parse(exact.text()) or end) for end in ends if (exact := bounds.exact(end)))
    rounds = (count.constant or 1 for count in counts if count is not None)
    blocks = (extent.constant or 1 for extent in bounds.grid)
    return math.prod(chain(rounds, blocks, block))


@dataclass
class Configuration:
    """One launch's grid and block; `values` are the scalar arguments over sizes, `remarks` is appended to."""

    kernel: Kernel
    device: Code
    function: Function
    site: Site
    remarks: list[Remark]
    values: Mapping[str, Poly]

    def _note(self, place: str, text: str) -> None:
        self.remarks.append(Remark(place, text))

    def read(self) -> tuple[tuple[int, ...], tuple[Poly, ...] | None]:
        """The block's extents, and the grid's if the host code gives them."""
        block_in_host = block_of(self.site)
        block = block_in_host or self._guessed_block()
        self.site.compiled = compiled(self.device)
        grid = grid_of(self.site)
        if block_in_host is None:
            self._note("plan.block", f"guess: the host passes {self.site.launch.block}")
        return block, grid

    def settled(
        self, grid: tuple[Poly, ...] | None, bounds: Bounds, block: tuple[int, ...]
    ) -> tuple[Poly, ...]:
        """The grid, from the kernel's guards if the host code does not give it."""
        return (self._striding(grid) if grid else None) or self._guarded_grid(bounds, block)

    def _guessed_block(self) -> tuple[int, ...]:
        """A block with as many axes as the kernel uses; host names in it are frozen."""
        body = self.device.text[self.function.body : self.function.end]
        axes = 3 if "threadIdx.z" in body else 2 if "threadIdx.y" in body else 1
        block = GUESSED_BLOCKS[axes - 1]
        nodes = self.site.host_values.extents(self.site.launch.block, self.site.scope) or ()
        for node, extent in zip(nodes, block, strict=False):
            if node.op == "name":
                self.site.frozen.setdefault(node.text, extent)
        return block

    def _striding(self, grid: tuple[Poly, ...]) -> tuple[Poly, ...] | None:
        """The grid with host names unrelated to any size frozen: with grid-stride loops any value works.

        A name that only the grid has may be a size of a buffer whose allocation is not found.
        """
        host = self.site.host_values
        sizes = frozenset[str]().union(*map(names_of, grid))
        texts = [argument.expression for argument in self.site.launch.arguments]
        buffer_sizes: set[str] = set()
        has_unknown_buffer = False
        for param, text in zip(self.kernel.params, texts, strict=False):
            allocated = allocation(host, text, self.site.scope, 1) if param.pointer else None
            poly = self.site.poly_of(allocated[0]) if allocated else self.values.get(param.name)
            buffer_sizes |= names_of(poly) if poly is not None else set()
            has_unknown_buffer |= param.pointer and allocated is None
        free = sizes - buffer_sizes
        # What a block computes: the kernel's code has it as a constant of its own.
        tiles = {name for name in free & _divisors(grid) if name in host.defaults}
        if tiles:
            self.site.freeze(frozenset(tiles))
            return self._striding(grid_of(self.site) or grid)
        if not free:
            return grid
        if "gridDim" not in self.device.text:
            return grid if has_unknown_buffer or all(name in host.defaults for name in free) else None
        for name in free:
            self.site.frozen[name] = min(host.defaults.get(name, STRIDING_BLOCKS), STRIDING_BLOCKS)
        why = f"guess: grid-stride loops, so any number of blocks works ({', '.join(sorted(free))})"
        self._note("plan.grid", why)
        return grid_of(self.site)

    def _guarded_grid(self, bounds: Bounds, block: tuple[int, ...]) -> tuple[Poly, ...]:
        """One thread for each index that passes the guard."""
        rows = "blockIdx.y" in self.device.text and "gridDim.y" not in self.device.text
        if "gridDim" in self.device.text and not rows:
            self._note("plan.grid", "guess: grid-stride loops, so any number of blocks works")
            return (number(STRIDING_BLOCKS),)
        guards = [bounds.guard(axis) for axis in range(max(len(block), 2))]
        while guards and guards[-1] is None:
            guards.pop()
        if len(guards) < 1 + rows or any(guard is None for guard in guards):
            self._note("plan.grid", f"guess: any number; the host passes {self.site.launch.grid}")
            axes = [axis for axis in range(3) if f"blockIdx.{'xyz'[axis]}" in self.device.text]
            return tuple(map(factor, ANY_BLOCKS[: axes[-1] + 1])) if axes else (number(1),)
        self._note("plan.grid", f"guess, from the guard: the host passes {self.site.launch.grid}")
        return tuple(
            ceil_div(guard, number(block[axis] if axis < len(block) else 1))
            for axis, guard in enumerate(guards)
            if guard is not None
        )
