import triton
import triton.language as tl


@triton.jit
def add_norm(x, weight, residual, out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    place = row * cols + at
    old = tl.load(residual + place, mask=inside, other=0.0).to(tl.float32)
    added = (old + tl.load(x + place, mask=inside, other=0.0).to(tl.float32)).to(tl.float16)
    tl.store(residual + place, added, mask=inside)
    held = added.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(held * held, axis=0) / cols + eps)
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + place, (held * scale * w).to(tl.float16), mask=inside)
