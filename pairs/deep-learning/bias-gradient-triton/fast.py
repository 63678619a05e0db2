import triton
import triton.language as tl


@triton.jit
def partial(gradient, parts, rows, cols, CHUNK: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    first = tl.program_id(1) * CHUNK
    total = tl.zeros([ROWS, COLS], tl.float32)
    for base in range(0, CHUNK, ROWS):
        row = first + base + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (col[None, :] < cols)
        total += tl.load(gradient + row[:, None] * cols + col[None, :], mask=inside, other=0.0)
    tl.store(parts + tl.program_id(1) * cols + col, tl.sum(total, axis=0), mask=col < cols)


@triton.jit
def combine(parts, bias, count, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    total = tl.zeros([ROWS, COLS], tl.float32)
    for base in range(0, count, ROWS):
        row = base + tl.arange(0, ROWS)
        inside = (row[:, None] < count) & (col[None, :] < cols)
        total += tl.load(parts + row[:, None] * cols + col[None, :], mask=inside, other=0.0)
    tl.store(bias + col, tl.sum(total, axis=0), mask=col < cols)
