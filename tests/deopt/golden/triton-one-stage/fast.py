import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, m, n, k, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr):
    down, across = (tl.cdiv(m, ROWS), tl.cdiv(n, COLS))
    number = tl.program_id(0)
    first = number // (GROUP * across) * GROUP
    height = min(down - first, GROUP)
    row = (first + number % (GROUP * across) % height) * ROWS + tl.arange(0, ROWS)
    col = number % (GROUP * across) // height * COLS + tl.arange(0, COLS)
    at = tl.arange(0, DEPTH)
    total = tl.zeros([ROWS, COLS], tl.float32)
    for base in range(0, k, DEPTH):
        p = tl.load(a + row[:, None] * k + base + at[None, :], mask=(row[:, None] < m) & (base + at[None, :] < k), other=0.0)
        q = tl.load(b + (base + at[:, None]) * n + col[None, :], mask=(base + at[:, None] < k) & (col[None, :] < n), other=0.0)
        total = tl.dot(p, q, total)
    tl.store(c + row[:, None] * n + col[None, :], total, mask=(row[:, None] < m) & (col[None, :] < n))
