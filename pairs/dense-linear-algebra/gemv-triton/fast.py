import triton
import triton.language as tl


@triton.jit
def gemv(a, x, y, m, n, alpha, beta, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, COLS)
    total = tl.zeros([ROWS, COLS], tl.float32)
    for base in range(0, n, COLS):
        col = base + at
        held = tl.load(
            a + row[:, None].to(tl.int64) * n + col[None, :],
            mask=(row[:, None] < m) & (col[None, :] < n),
            other=0.0,
        )
        total += held * tl.load(x + col, mask=col < n, other=0.0)[None, :]
    old = tl.load(y + row, mask=row < m)
    tl.store(y + row, alpha * tl.sum(total, axis=1) + beta * old, mask=row < m)
