import triton
import triton.language as tl


@triton.jit
def layernorm(x, weight, bias, out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    held = tl.load(x + row * cols + at, mask=inside, other=0.0)
    centred = tl.where(inside, held - tl.sum(held, axis=0) / cols, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / cols + eps)
    w = tl.load(weight + at, mask=inside)
    b = tl.load(bias + at, mask=inside)
    tl.store(out + row * cols + at, centred * scale * w + b, mask=inside)
