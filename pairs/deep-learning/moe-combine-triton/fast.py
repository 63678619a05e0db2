import triton
import triton.language as tl


@triton.jit
def combine(rows, place, weights, out, choices, dim, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < dim
    total = tl.zeros([BLOCK], tl.float32)
    for choice in range(choices):
        entry = token * choices + choice
        row = tl.load(place + entry).to(tl.int64)
        total += tl.load(weights + entry) * tl.load(rows + row * dim + at, mask=inside).to(tl.float32)
    tl.store(out + token.to(tl.int64) * dim + at, total.to(tl.bfloat16), mask=inside)
