import triton
import triton.language as tl


@triton.jit
def bias_gelu(x, bias, residual, out, cols, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < cols
    place = tl.program_id(0).to(tl.int64) * cols + at
    held = tl.load(x + place, mask=inside) + tl.load(bias + at, mask=inside)
    active = 0.5 * held * (1.0 + tl.erf(held * 0.70710678))
    tl.store(out + place, active + tl.load(residual + place, mask=inside), mask=inside)
