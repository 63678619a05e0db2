import triton
import triton.language as tl


@triton.jit
def triplet(anchor, positive, negative, loss, rows, dim, margin, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, COLS)
    near = tl.zeros([ROWS, COLS], tl.float32)
    far = tl.zeros([ROWS, COLS], tl.float32)
    for base in range(0, dim, COLS):
        inside = (row[:, None] < rows) & (base + at[None, :] < dim)
        place = row[:, None].to(tl.int64) * dim + base + at[None, :]
        a = tl.load(anchor + place, mask=inside, other=0.0).to(tl.float32)
        p = a - tl.load(positive + place, mask=inside, other=0.0).to(tl.float32)
        n = a - tl.load(negative + place, mask=inside, other=0.0).to(tl.float32)
        near += p * p
        far += n * n
    gap = tl.sqrt(tl.sum(near, axis=1)) - tl.sqrt(tl.sum(far, axis=1)) + margin
    tl.store(loss + row, tl.maximum(gap, 0.0), mask=row < rows)
