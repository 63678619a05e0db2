import triton
import triton.language as tl


@triton.jit
def standardize(values, out, cols, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for base in range(0, cols, BLOCK):
        total += tl.load(values + start + base + at, mask=base + at < cols, other=0.0)
    mean = tl.sum(total, axis=0) / cols
    total = tl.zeros([BLOCK], tl.float32)
    for base in range(0, cols, BLOCK):
        inside = base + at < cols
        off = tl.load(values + start + base + at, mask=inside, other=0.0) - mean
        total += tl.where(inside, off * off, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(total, axis=0) / cols + eps)
    for base in range(0, cols, BLOCK):
        inside = base + at < cols
        held = tl.load(values + start + base + at, mask=inside, other=0.0)
        tl.store(out + start + base + at, (held - mean) * scale, mask=inside)
