"""Products as tiles: matrix products, batched ones, convolutions as implicit products, with their epilogues.

A block computes 64 by 64 elements. In float32 a thread keeps four by four in registers; 16-bit types go to
the tensor cores, a warp 32 by 32. Which loads are coalesced follows from the last axis of each operand.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcurate.mint.naive import C_TYPES, STORES, indented
from kcurate.mint.schedules.choice import Factors, Schedule, factors, has_16_bit_factors
from kcurate.mint.schedules.kernels import Body, Kernel
from kcurate.mint.schedules.writer import names_of

TILE, DEPTH = 64, 16


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
        """The kernel around its two variants."""
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
        """A tile of one factor into shared memory: DEPTH by 64, the summed axes first."""
        writer = self.body.writer()
        value = writer.expression(part)
        before = writer.take()
        contiguous = self._last_axis(part) in self.parts.summed
        split = ("i % 16", "i / 16") if contiguous else ("i / 64", "i % 64")
        where = [
            *writer.coordinates("inner", self.parts.summed),
            *(line for line in writer.coordinates(along, side)),
        ]
        stored = STORES[self.narrow].format("value") if self.narrow else "value"
        return [
            "#pragma unroll",
            f"for (int i = threadIdx.x; i < {TILE * DEPTH}; i += {threads}) {{",
            *indented(
                [
                    f"int deep = {split[0]}, wide = {split[1]};",
                    "int inner = start + deep;",
                    f"int {along} = first_{bound} + wide;",
                    f"{self.fold.dtype} value = 0;",
                    f"if (inner < depth_here && {along} < {bound}s_here) {{",
                    *indented([*where, *before, f"value = {value};"]),
                    "}",
                    f"{tile}[deep][wide] = {stored};",
                ]
            ),
            "}",
        ]

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
        """The element of a row and a column, through the epilogue."""
        writer = self.body.writer()
        # The result's expression and place say which axes are needed.
        place = writer.place(self.operator.out)
        lines = self.body.epilogue(writer, "e")
        return [
            f"{self.fold.dtype} {writer.local(self.fold.name)} = {value};",
            *writer.coordinates("row_at", self.parts.rows),
            *writer.coordinates("column_at", self.parts.columns),
            f"int e = {place};",
            *lines,
        ]

    def registers(self) -> list[str]:
        """256 threads, each with four rows and four columns."""
        kind = self.fold.dtype
        return [
            f"__shared__ {kind} left[{DEPTH}][{TILE + 4}], right[{DEPTH}][{TILE + 4}];",
            "int across = threadIdx.x % 16, down = threadIdx.x / 16;",
            f"{kind} sums[4][4] = {{}};",
            f"for (int start = 0; start < depth_here; start += {DEPTH}) {{",
            *indented(
                [
                    *self.loads(256),
                    "__syncthreads();",
                    "#pragma unroll",
                    f"for (int step = 0; step < {DEPTH}; ++step) {{",
                    *indented(
                        [
                            f"{kind} a[4], b[4];",
                            "#pragma unroll",
                            "for (int di = 0; di < 4; ++di) {",
                            "    a[di] = left[step][down * 4 + di];",
                            "    b[di] = right[step][across + 16 * di];",
                            "}",
                            "#pragma unroll",
                            "for (int di = 0; di < 4; ++di)",
                            "    #pragma unroll",
                            "    for (int dj = 0; dj < 4; ++dj) sums[di][dj] += a[di] * b[dj];",
                        ]
                    ),
                    "}",
                    "__syncthreads();",
                ]
            ),
            "}",
            "#pragma unroll",
            "for (int di = 0; di < 4; ++di) {",
            *indented(
                [
                    "#pragma unroll",
                    "for (int dj = 0; dj < 4; ++dj) {",
                    *indented(
                        [
                            "int row_at = first_row + down * 4 + di;",
                            "int column_at = first_column + across + 16 * dj;",
                            "if (row_at < rows_here && column_at < columns_here) {",
                            *indented(self.store("sums[di][dj]")),
                            "}",
                        ]
                    ),
                    "}",
                ]
            ),
            "}",
        ]

    def tensor_cores(self) -> list[str]:
        """Four warps, each with two by two fragments of 16 by 16."""
        kind = C_TYPES[str(self.narrow)]
        fragment = "nvcuda::wmma::fragment<nvcuda::wmma"
        return [
            f"__shared__ __align__(16) {kind} left[{DEPTH}][{TILE + 8}], right[{DEPTH}][{TILE + 8}];",
            f"__shared__ __align__(16) float block[{TILE}][{TILE + 4}];",
            "int warp = threadIdx.x / 32, down = warp / 2 * 32, across = warp % 2 * 32;",
            f"{fragment}::accumulator, 16, 16, 16, float> sums[2][2];",
            "for (int i = 0; i < 2; ++i)",
            "    for (int j = 0; j < 2; ++j) nvcuda::wmma::fill_fragment(sums[i][j], 0.0f);",
            f"for (int start = 0; start < depth_here; start += {DEPTH}) {{",
            *indented(
                [
                    *self.loads(128),
                    "__syncthreads();",
                    f"{fragment}::matrix_a, 16, 16, 16, {kind}, nvcuda::wmma::col_major> a[2];",
                    f"{fragment}::matrix_b, 16, 16, 16, {kind}, nvcuda::wmma::row_major> b[2];",
                    "for (int i = 0; i < 2; ++i) {",
                    f"    nvcuda::wmma::load_matrix_sync(a[i], &left[0][down + 16 * i], {TILE + 8});",
                    f"    nvcuda::wmma::load_matrix_sync(b[i], &right[0][across + 16 * i], {TILE + 8});",
                    "}",
                    "for (int i = 0; i < 2; ++i)",
                    "    for (int j = 0; j < 2; ++j)",
                    "        nvcuda::wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);",
                    "__syncthreads();",
                ]
            ),
            "}",
            "for (int i = 0; i < 2; ++i)",
            "    for (int j = 0; j < 2; ++j)",
            "        nvcuda::wmma::store_matrix_sync(&block[down + 16 * i][across + 16 * j], sums[i][j],",
            f"                                        {TILE + 4}, nvcuda::wmma::mem_row_major);",
            "__syncthreads();",
            f"for (int i = threadIdx.x; i < {TILE * TILE}; i += 128) {{",
            *indented(
                [
                    f"int row_at = first_row + i / {TILE};",
                    f"int column_at = first_column + i % {TILE};",
                    "if (row_at < rows_here && column_at < columns_here) {",
                    *indented(self.store(f"block[i / {TILE}][i % {TILE}]")),
                    "}",
                ]
            ),
            "}",
        ]
