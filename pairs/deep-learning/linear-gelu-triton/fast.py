import triton
import triton.language as tl


@triton.jit
def linear_gelu(
    x, w, bias, y, m, n, k, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr
):
    down, across = tl.cdiv(m, ROWS), tl.cdiv(n, COLS)
    number = tl.program_id(0)
    first = number // (GROUP * across) * GROUP
    height = min(down - first, GROUP)
    row = (first + number % (GROUP * across) % height) * ROWS + tl.arange(0, ROWS)
    col = number % (GROUP * across) // height * COLS + tl.arange(0, COLS)
    at = tl.arange(0, DEPTH)
    left = x + (row % m)[:, None] * k + at[None, :]
    right = w + (col % n)[None, :] * k + at[:, None]
    total = tl.zeros([ROWS, COLS], tl.float32)
    for base in range(0, k, DEPTH):
        p = tl.load(left, mask=base + at[None, :] < k, other=0.0)
        q = tl.load(right, mask=base + at[:, None] < k, other=0.0)
        total = tl.dot(p, q, total)
        left += DEPTH
        right += DEPTH
    total += tl.load(bias + col, mask=col < n, other=0.0)[None, :]
    inside = (row[:, None] < m) & (col[None, :] < n)
    place = row[:, None] * n + col[None, :]
    bent = 1.5957691216 * (total + 0.044715 * total * total * total)
    tl.store(y + place, (total / (1.0 + tl.exp(-bent))).to(tl.float16), mask=inside)
