import triton
import triton.language as tl


@triton.jit
def gradients(a, b, c, m, n, k, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr):
    batch = tl.program_id(2).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    at = tl.arange(0, DEPTH)
    left = a + batch * k * m + at[None, :] * m + row[:, None]
    right = b + batch * k * n + at[:, None] * n + col[None, :]
    total = tl.zeros([ROWS, COLS], tl.float32)
    for base in range(0, k, DEPTH):
        p = tl.load(left, mask=(row[:, None] < m) & (base + at[None, :] < k), other=0.0)
        q = tl.load(right, mask=(base + at[:, None] < k) & (col[None, :] < n), other=0.0)
        total = tl.dot(p, q, total)
        left += DEPTH * m
        right += DEPTH * n
    inside = (row[:, None] < m) & (col[None, :] < n)
    place = c + batch * m * n + row[:, None] * n + col[None, :]
    tl.store(place, total.to(tl.bfloat16), mask=inside)
