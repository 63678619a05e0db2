import triton
import triton.language as tl


@triton.jit
def groupnorm(x, weight, bias, out, groups, per, space, count, eps, BLOCK: tl.constexpr):
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
    for base in range(0, count, BLOCK):
        inside = base + at < count
        channel = first + (base + at) // space
        w = tl.load(weight + channel, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(bias + channel, mask=inside, other=0.0).to(tl.float32)
        held = tl.load(x + start + base + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + start + base + at, ((held - mean) * scale * w + b).to(tl.bfloat16), mask=inside)
