"""Products as tiles: matrix products, batched ones, convolutions as implicit products, with their epilogues.

A block computes 64 by 64 elements. In float32 a thread keeps four by four in registers; 16-bit types go to
the tensor cores, a warp 32 by 32. Which loads are coalesced follows from the last axis of each operand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template

from kcurate.mint.naive import C_TYPES, STORES
from kcurate.mint.schedules.choice import Factors, Schedule, factors, has_16_bit_factors
from kcurate.mint.schedules.kernels import Body, Kernel
from kcurate.mint.schedules.writer import names_of

# The CUDA that loads a tile (16 deep, 64 wide), and that of both variants around it.
_TEXTS = dict(
    zip(
        ("load", "registers", "tensor cores"),
        files("kcurate.mint.schedules").joinpath("tiles.cu").read_text("utf-8").split("\n\n"),
        strict=True,
    )
)


def tiles(body: Body) -> Kernel:
    """The kernel of a product of two factors."""
    node, writer = body.group.root, body.writer()
    parts = factors(writer)
    assert parts is not None, "it was chosen for tiles"
    return _Tiles(body, parts, node.dtype if has_16_bit_factors(body.graph, writer) else None).kernel()


class _Tiles:
    def __init__(self, body: Body, parts: Factors, narrow: str | None) -> None:
        self.body, self.parts, self.narrow = body, parts, narrow
        self.operator = body.operator
        (self.fold,) = self.operator.folds

    def kernel(self) -> Kernel:
        """The complete kernel, by either variant."""
        body, parts = self.body, self.parts
        counts = body.writer()
        rows, columns, depth = (counts.bare_count(axes) for axes in (parts.rows, parts.columns, parts.summed))
        lines = [
            f"int rows_here = {rows};",
            f"int columns_here = {columns};",
            f"int depth_here = {depth};",
            "int first_row = blockIdx.y * 64, first_column = blockIdx.x * 64;",
        ]
        batch = counts.existing(parts.batch)
        if batch:
            lines.append("int item = blockIdx.z;")
            for axis in batch:
                counts.index(axis)
            lines += counts.coordinates("item", batch)
        lines += self.tensor_cores() if self.narrow else self.registers()
        extent = {
            name: counts.total(axes) for name, axes in (("x", parts.columns), ("y", parts.rows), ("z", batch))
        }
        grid = (f"ceil_div({extent['x']}, 64)", f"ceil_div({extent['y']}, 64)", extent["z"])
        schedule: Schedule = "tensor-cores" if self.narrow else "tiles"
        return body.kernel(schedule, lines, grid, (128 if self.narrow else 256,))

    def load(
        self, part: str, side: Sequence[str], along: str, bound: str, threads: int, tile: str
    ) -> list[str]:
        """A tile of one factor into shared memory, the summed axes first."""
        writer = self.body.writer()
        value = writer.expression(part)
        before = writer.take()
        contiguous = self._last_axis(part) in self.parts.summed
        deep, wide = ("i % 16", "i / 16") if contiguous else ("i / 64", "i % 64")
        where = [*writer.coordinates("inner", self.parts.summed), *writer.coordinates(along, side)]
        stored = STORES[self.narrow].format("value") if self.narrow else "value"
        words = {"threads": str(threads), "deep": deep, "wide": wide, "along": along, "bound": bound}
        words |= {"kind": self.fold.dtype, "tile": tile, "stored": stored}
        return _filled("load", words, {"element": [*where, *before, f"value = {value};"]})

    def _last_axis(self, part: str) -> str:
        names = names_of(part)
        return next(p.axes[-1] for p in self.operator.parameters if p.name in names)

    def loads(self, threads: int) -> list[str]:
        """Both tiles."""
        parts = self.parts
        return [
            *self.load(parts.left, parts.rows, "row_at", "row", threads, "left"),
            *self.load(parts.right, parts.columns, "column_at", "column", threads, "right"),
        ]

    def store(self, value: str) -> list[str]:
        """The lines that store the element at a row and a column, after the epilogue."""
        writer = self.body.writer()
        # The result's expression and place say which axes are needed.
        place = writer.linear_index(self.operator.out)
        lines = self.body.epilogue(writer, "e")
        return [
            f"{self.fold.dtype} {writer.local(self.fold.name)} = {value};",
            *writer.coordinates("row_at", self.parts.rows),
            *writer.coordinates("column_at", self.parts.columns),
            f"int e = {place};",
            *lines,
        ]

    def registers(self) -> list[str]:
        """The body with 256 threads, each with four rows and four columns in registers."""
        lines = {"loads": self.loads(256), "store": self.store("sums[di][dj]")}
        return _filled("registers", {"kind": self.fold.dtype}, lines)

    def tensor_cores(self) -> list[str]:
        """The body with four warps, each with two by two WMMA fragments of 16 by 16."""
        lines = {"loads": self.loads(128), "store": self.store("block[i / 64][i % 64]")}
        return _filled("tensor cores", {"narrow": C_TYPES[str(self.narrow)]}, lines)


def _filled(name: str, words: Mapping[str, str], lines: Mapping[str, Sequence[str]]) -> list[str]:
    """The lines of a text of `_TEXTS`; a line that is only `$name` stands for the lines of that name."""
    filled: list[str] = []
    for line in Template(_TEXTS[name]).safe_substitute(words).splitlines():
        bare = line.lstrip()
        inside = lines[bare[1:]] if bare.startswith("$") else [bare]
        filled += [line.removesuffix(bare) + text for text in inside]
    return filled
