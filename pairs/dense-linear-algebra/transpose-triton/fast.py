import triton
import triton.language as tl


@triton.jit
def transpose(x, out, rows, cols, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    col = tl.program_id(1) * TILE + tl.arange(0, TILE)
    held = tl.load(x + row[:, None] * cols + col[None, :], mask=(row[:, None] < rows) & (col[None, :] < cols))
    inside = (col[:, None] < cols) & (row[None, :] < rows)
    tl.store(out + col[:, None] * rows + row[None, :], tl.trans(held), mask=inside)
