"""The launch configuration of a plan: from host code, else from the kernel's guards, else guessed.

Not covered: the arguments (`building`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcurate.cuda_source.statements import Code, Function
from kcurate.draft import launching
from kcurate.draft.algebra import Poly, ceil_div, factor, number
from kcurate.draft.bounds import Bounds
from kcurate.draft.launching import Site
from kcurate.draft.memory import allocation
from kcurate.draft.sketch import OPEN, Reason, Remark
from kcurate.records import Kernel

GUESSED_BLOCKS = ((256,), (16, 16), (8, 8, 4))
GUESSED_WHOLE = 1
# Blocks for a kernel with grid-stride loops: several blocks that interact, yet quick on the emulator.
STRIDING_BLOCKS = 16


@dataclass
class Configuration:
    """One launch's grid and block; `values` are the scalar arguments over sizes, `remarks` is appended to."""

    kernel: Kernel
    device: Code
    function: Function
    site: Site
    remarks: list[Remark]
    values: Mapping[str, Poly]

    def _note(self, place: str, text: str, reason: Reason | None = None) -> None:
        self.remarks.append(Remark(place, text, reason))

    def read(self) -> tuple[tuple[int, ...], tuple[Poly, ...] | None]:
        """The block's extents, and the grid's if the host code tells."""
        code = self.device
        constants = {*code.macros, *code.constants()}
        known = launching.block_of(self.site)
        block = known or self._guessed_block()
        for argument in self.site.launch.arguments:
            self.site.meaning.resolve_text(argument.expression, self.site.scope)
        grid = launching.grid_of(self.site)
        self.site.freeze(frozenset(constants))
        grid = launching.grid_of(self.site) if grid is not None else None
        if known is None:
            self._note("plan.block", f"guess: the host passes {self.site.launch.block}")
        return block, grid

    def settled(
        self, grid: tuple[Poly, ...] | None, bounds: Bounds, block: tuple[int, ...]
    ) -> tuple[Poly, ...]:
        """The grid, from the kernel's guards if the host code does not tell."""
        return (self._striding(grid) if grid else None) or self._guarded_grid(bounds, block)

    def _guessed_block(self) -> tuple[int, ...]:
        """A block with as many axes as the kernel uses; host names in it are frozen."""
        body = self.device.text[self.function.body : self.function.end]
        axes = 3 if "threadIdx.z" in body else 2 if "threadIdx.y" in body else 1
        block = GUESSED_BLOCKS[axes - 1]
        nodes = self.site.meaning.extents(self.site.launch.block, self.site.scope) or ()
        for node, extent in zip(nodes, block, strict=False):
            if node.op == "name":
                self.site.frozen.setdefault(node.text, extent)
        return block

    def _striding(self, grid: tuple[Poly, ...]) -> tuple[Poly, ...] | None:
        """The grid with host names unrelated to any size frozen: with grid-stride loops any value works."""
        host = self.site.meaning
        own = frozenset[str]().union(*map(launching.names_of, grid))
        texts = [argument.expression for argument in self.site.launch.arguments]
        used: set[str] = set()
        for param, text in zip(self.kernel.params, texts, strict=False):
            found = allocation(host, text, self.site.scope) if param.pointer else None
            poly = self.site.settle(found[0]) if found else self.values.get(param.name)
            used |= launching.names_of(poly) if poly is not None else set()
        free = own - used
        if not free:
            return grid
        if "gridDim" not in self.device.text:
            return grid if all(name in host.defaults for name in free) else None
        self.site.frozen.update(
            {name: min(host.defaults.get(name, STRIDING_BLOCKS), STRIDING_BLOCKS) for name in free}
        )
        self._note(
            "plan.grid",
            f"guess: grid-stride loops, so any number of blocks works ({', '.join(sorted(free))})",
        )
        return launching.grid_of(self.site)

    def _guarded_grid(self, bounds: Bounds, block: tuple[int, ...]) -> tuple[Poly, ...]:
        """One thread for each index that passes the guard."""
        if "gridDim" in self.device.text:
            self._note("plan.grid", "guess: grid-stride loops, so any number of blocks works")
            return (number(STRIDING_BLOCKS),)
        found = [bounds.guard(axis) for axis in range(max(len(block), 2))]
        while found and found[-1] is None:
            found.pop()
        if not found or any(one is None for one in found):
            self._note("plan.grid", f"blocks; the host passes {self.site.launch.grid}", Reason.NO_GRID)
            return (factor(OPEN),)
        self._note("plan.grid", f"guess, from the guard: the host passes {self.site.launch.grid}")
        return tuple(
            ceil_div(one, number(block[axis] if axis < len(block) else 1))
            for axis, one in enumerate(found)
            if one is not None
        )
