import triton
import triton.language as tl


@triton.jit
def merge(parts, logs, out, whole, splits, heads, DIM: tl.constexpr, BLOCK: tl.constexpr):
    head = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    dim = tl.arange(0, DIM)
    log = tl.load(logs + at * heads + head, mask=at < splits, other=float("-inf"))
    largest = tl.max(log, axis=0)
    weight = tl.exp(log - largest)
    total = tl.sum(weight, axis=0)
    place = (at[:, None].to(tl.int64) * heads + head) * DIM + dim[None, :]
    held = tl.load(parts + place, mask=at[:, None] < splits, other=0.0)
    value = tl.sum(held * weight[:, None], axis=0) / total
    tl.store(out + head * DIM + dim, value.to(tl.bfloat16))
    tl.store(whole + head, largest + tl.log(total))
