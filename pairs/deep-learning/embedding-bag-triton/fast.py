import triton
import triton.language as tl


@triton.jit
def embedding_bag(table, indices, offsets, out, dim, DIM: tl.constexpr, ITEMS: tl.constexpr):
    bag = tl.program_id(0)
    first, end = tl.load(offsets + bag), tl.load(offsets + bag + 1)
    at = tl.arange(0, DIM)[None, :]
    total = tl.zeros([ITEMS, DIM], tl.float32)
    for base in range(first, end, ITEMS):
        item = base + tl.arange(0, ITEMS)[:, None]
        row = tl.load(indices + item, mask=item < end, other=0)
        total += tl.load(table + row * dim + at, mask=(item < end) & (at < dim), other=0.0)
    col = tl.arange(0, DIM)
    tl.store(out + bag * dim + col, tl.sum(total, axis=0), mask=col < dim)
