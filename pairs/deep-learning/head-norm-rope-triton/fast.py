import triton
import triton.language as tl


@triton.jit
def norm_rope(x, weight, cos, sin, heads, count, eps, HEADS: tl.constexpr):
    head = tl.program_id(0) * HEADS + tl.arange(0, HEADS)
    at = tl.arange(0, 64)
    inside = (head < count)[:, None]
    place = x + head.to(tl.int64)[:, None] * 128 + at[None, :]
    first = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(place + 64, mask=inside, other=0.0).to(tl.float32)
    square = tl.sum(first * first + second * second, axis=1) / 128.0
    rstd = (1.0 / tl.sqrt(square + eps))[:, None]
    first = first * rstd * tl.load(weight + at).to(tl.float32)[None, :]
    second = second * rstd * tl.load(weight + 64 + at).to(tl.float32)[None, :]
    angle = (head // heads)[:, None] * 64 + at[None, :]
    c = tl.load(cos + angle, mask=inside, other=0.0)
    s = tl.load(sin + angle, mask=inside, other=0.0)
    tl.store(place, (first * c - second * s).to(tl.bfloat16), mask=inside)
    tl.store(place + 64, (second * c + first * s).to(tl.bfloat16), mask=inside)
