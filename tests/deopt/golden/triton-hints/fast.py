import triton
import triton.language as tl


@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.max_contiguous(tl.multiple_of(tl.arange(0, BLOCK), 8), BLOCK)
    held = tl.load(x + at, mask=at < n, eviction_policy="evict_first")
    tl.store(y + at, held + 1.0, mask=at < n)
