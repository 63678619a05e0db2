import triton
import triton.language as tl


@triton.jit
def embed(tokens, table, positions, weight, bias, out, length, dim, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < dim
    token = tl.load(tokens + row).to(tl.int64)
    held = tl.load(table + token * dim + at, mask=inside, other=0.0).to(tl.float32)
    held += tl.load(positions + row % length * dim + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(held, axis=0) / dim
    apart = tl.where(inside, held - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(apart * apart, axis=0) / dim + eps)
    scale = tl.load(weight + at, mask=inside, other=0.0)
    shift = tl.load(bias + at, mask=inside, other=0.0)
    tl.store(out + row * dim + at, (apart * rstd * scale + shift).to(tl.bfloat16), mask=inside)
