import triton
import triton.language as tl


@triton.jit
def ger(a, x, y, m, n, alpha, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    inside = (row[:, None] < m) & (col[None, :] < n)
    place = a + row[:, None] * n + col[None, :]
    outer = tl.load(x + row, mask=row < m)[:, None] * tl.load(y + col, mask=col < n)[None, :]
    tl.store(place, tl.load(place, mask=inside) + alpha * outer, mask=inside)
