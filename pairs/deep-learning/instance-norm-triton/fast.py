import triton
import triton.language as tl


@triton.jit
def instance_norm(x, weight, bias, out, channels, space, eps, slope, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    start = plane.to(tl.int64) * space
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for base in range(0, space, BLOCK):
        total += tl.load(x + start + base + at, mask=base + at < space, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / space
    total = tl.zeros([BLOCK], tl.float32)
    for base in range(0, space, BLOCK):
        inside = base + at < space
        held = tl.load(x + start + base + at, mask=inside).to(tl.float32)
        total += tl.where(inside, (held - mean) * (held - mean), 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(total, axis=0) / space + eps)
    w = tl.load(weight + plane % channels).to(tl.float32) * scale
    b = tl.load(bias + plane % channels).to(tl.float32)
    for base in range(0, space, BLOCK):
        inside = base + at < space
        held = tl.load(x + start + base + at, mask=inside).to(tl.float32)
        y = (held - mean) * w + b
        tl.store(out + start + base + at, tl.where(y > 0.0, y, slope * y).to(tl.float16), mask=inside)
