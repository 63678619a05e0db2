import triton
import triton.language as tl

@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    held = tl.load(x + at, mask=at < n)
    tl.store(y + at, held + 1.0, mask=at < n)
