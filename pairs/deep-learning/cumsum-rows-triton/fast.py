import triton
import triton.language as tl


@triton.jit
def cumsum(x, out, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    at = tl.arange(0, BLOCK)
    before = 0.0
    for base in range(0, cols, BLOCK):
        inside = base + at < cols
        held = tl.load(x + start + base + at, mask=inside, other=0.0)
        tl.store(out + start + base + at, before + tl.cumsum(held, axis=0), mask=inside)
        before += tl.sum(held, axis=0)
