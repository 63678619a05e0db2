import triton
import triton.language as tl


@triton.jit
def rows_backward(x, dy, weight, dx, parts, rows, cols, programs, eps, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < cols
    scale = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    place = tl.program_id(0).to(tl.int64) * cols + at
    for _ in range(tl.program_id(0), rows, programs):
        held = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        above = tl.load(dy + place, mask=inside, other=0.0).to(tl.float32)
        rstd = 1.0 / tl.sqrt(tl.sum(held * held, axis=0) / cols + eps)
        normal = held * rstd
        total += above * normal
        slope = above * scale
        mean = tl.sum(slope * normal, axis=0) / cols
        tl.store(dx + place, (rstd * (slope - normal * mean)).to(tl.float16), mask=inside)
        place += programs * cols
    tl.store(parts + tl.program_id(0) * cols + at, total, mask=inside)


@triton.jit
def columns(parts, dweight, count, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    total = tl.zeros([ROWS, COLS], tl.float32)
    for base in range(0, count, ROWS):
        row = base + tl.arange(0, ROWS)
        inside = (row[:, None] < count) & (col[None, :] < cols)
        total += tl.load(parts + row[:, None] * cols + col[None, :], mask=inside, other=0.0)
    tl.store(dweight + col, tl.sum(total, axis=0), mask=col < cols)
