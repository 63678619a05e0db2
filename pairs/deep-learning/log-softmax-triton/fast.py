import triton
import triton.language as tl


@triton.jit
def log_sum(row, cols, scale, BLOCK: tl.constexpr):
    """The logarithm of the sum of the exponentials of a row that is scaled."""
    at = tl.arange(0, BLOCK)
    largest = tl.full([BLOCK], -3.0e38, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for base in range(0, cols, BLOCK):
        held = tl.load(row + base + at, mask=base + at < cols, other=float("-inf")).to(tl.float32) * scale
        new = tl.maximum(largest, held)
        total = total * tl.exp(largest - new) + tl.exp(held - new)
        largest = new
    top = tl.max(largest, axis=0)
    return top + tl.log(tl.sum(total * tl.exp(largest - top), axis=0))


@triton.jit
def log_softmax(x, out, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    shift = log_sum(x + start, cols, 1.0, BLOCK)
    at = tl.arange(0, BLOCK)
    for base in range(0, cols, BLOCK):
        inside = base + at < cols
        held = tl.load(x + start + base + at, mask=inside).to(tl.float32)
        tl.store(out + start + base + at, (held - shift).to(tl.bfloat16), mask=inside)
