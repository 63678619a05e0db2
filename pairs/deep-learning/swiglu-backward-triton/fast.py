import triton
import triton.language as tl


@triton.jit
def backward(gate, up, dy, dgate, dup, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(gate + at, mask=inside).to(tl.float32)
    u = tl.load(up + at, mask=inside).to(tl.float32)
    d = tl.load(dy + at, mask=inside).to(tl.float32)
    s = 1.0 / (1.0 + tl.exp(-g))
    tl.store(dgate + at, (d * u * s * (1.0 + g * (1.0 - s))).to(tl.bfloat16), mask=inside)
    tl.store(dup + at, (d * g * s).to(tl.bfloat16), mask=inside)
