import triton
import triton.language as tl


@triton.jit
def partial_sums(values, parts, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for base in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        total += tl.load(values + base + at, mask=base + at < n, other=0.0)
    tl.store(parts + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def sum_parts(parts, out, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(parts + at, mask=at < count, other=0.0), axis=0))
