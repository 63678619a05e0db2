import triton
import triton.language as t


@triton.jit
def scale_add(a, b, out, t, BLOCK: t.constexpr):
    at = t.program_id(0) * BLOCK + t.arange(0, BLOCK)
    inside = at < n
    x = t.load(a + at, mask=inside)
    y = t.load(b + at, mask=inside)
    t.store(out + at, 2.0 * x + y, mask=inside)
