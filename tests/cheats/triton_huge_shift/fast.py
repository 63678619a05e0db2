import triton
import triton.language as tl

TWICE = tl.constexpr(2.0)


@triton.jit
def scaled(x, scale: tl.constexpr = 2.0):
    """A helper."""
    return x * scale * (TWICE / 2.0)


@triton.jit
def scale_add(a, b, out, n, BLOCK: tl.constexpr):
    large = 3 << (1 << 36)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(a + at, mask=inside)
    y = tl.load(b + at, mask=inside)
    tl.store(out + at, scaled(x) + y, mask=inside)
