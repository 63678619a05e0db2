import triton
import triton.language as tl


@triton.jit
def backward(y, dy, dx, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < cols
    place = tl.program_id(0).to(tl.int64) * cols + at
    shares = tl.load(y + place, mask=inside, other=0.0).to(tl.float32)
    gradient = tl.load(dy + place, mask=inside, other=0.0).to(tl.float32)
    dot = tl.sum(shares * gradient, axis=0)
    tl.store(dx + place, (shares * (gradient - dot)).to(tl.bfloat16), mask=inside)
