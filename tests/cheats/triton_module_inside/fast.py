import triton
import triton.language as tl


@triton.jit
def scale_add(a, b, out, n, BLOCK: tl.constexpr):
    tl.core.os.fork()
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(a + at, mask=inside)
    y = tl.load(b + at, mask=inside)
    tl.store(out + at, 2.0 * x + y, mask=inside)
