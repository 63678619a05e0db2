import triton
import triton.language as tl


@triton.jit
def rope(q, cosines, sines, heads, half, HEADS: tl.constexpr, HALF: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, HEADS)[:, None]
    at = tl.arange(0, HALF)[None, :]
    inside = (head < heads) & (at < half)
    c = tl.load(cosines + token * half + at, mask=at < half)
    s = tl.load(sines + token * half + at, mask=at < half)
    place = q + (token * heads + head) * half * 2 + at
    first = tl.load(place, mask=inside)
    second = tl.load(place + half, mask=inside)
    tl.store(place, first * c - second * s, mask=inside)
    tl.store(place + half, second * c + first * s, mask=inside)
