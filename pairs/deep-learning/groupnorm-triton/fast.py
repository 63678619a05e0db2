import triton
import triton.language as tl


@triton.jit
def groupnorm(x, weight, bias, out, groups, per, space, count, eps, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    number = tl.program_id(0)
    start = number.to(tl.int64) * count
    first = number % groups * per
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for base in range(0, count, BLOCK):
        total += tl.load(x + start + base + at, mask=base + at < count, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / count
    total = tl.zeros([BLOCK], tl.float32)
    for base in range(0, count, BLOCK):
        inside = base + at < count
        off = tl.load(x + start + base + at, mask=inside, other=0.0).to(tl.float32) - mean
        total += tl.where(inside, off * off, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(total, axis=0) / count + eps)
    CHANNELS: tl.constexpr = BLOCK // WIDTH
    step = tl.arange(0, WIDTH)[None, :]
    for top in range(0, per, CHANNELS):
        channel = top + tl.arange(0, CHANNELS)
        w = tl.load(weight + first + channel, mask=channel < per, other=0.0).to(tl.float32)[:, None] * scale
        b = tl.load(bias + first + channel, mask=channel < per, other=0.0).to(tl.float32)[:, None]
        for base in range(0, space, WIDTH):
            inside = (channel[:, None] < per) & (base + step < space)
            place = start + channel[:, None] * space + base + step
            held = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
            tl.store(out + place, ((held - mean) * w + b).to(tl.bfloat16), mask=inside)
