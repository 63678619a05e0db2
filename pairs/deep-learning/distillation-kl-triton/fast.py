import triton
import triton.language as tl


@triton.jit
def divergence(student, teacher, loss, vocab, temperature, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * vocab
    at = tl.arange(0, BLOCK)
    top_s = tl.full([BLOCK], -1e30, tl.float32)
    top_t = tl.full([BLOCK], -1e30, tl.float32)
    sum_s = tl.zeros([BLOCK], tl.float32)
    sum_t = tl.zeros([BLOCK], tl.float32)
    cross = tl.zeros([BLOCK], tl.float32)
    for base in range(0, vocab, BLOCK):
        inside = base + at < vocab
        q = (
            tl.load(student + start + base + at, mask=inside, other=float("-inf")).to(tl.float32)
            / temperature
        )
        p = (
            tl.load(teacher + start + base + at, mask=inside, other=float("-inf")).to(tl.float32)
            / temperature
        )
        new_s = tl.maximum(top_s, q)
        new_t = tl.maximum(top_t, p)
        weight = tl.exp(p - new_t)
        sum_s = sum_s * tl.exp(top_s - new_s) + tl.exp(q - new_s)
        shrink = tl.exp(top_t - new_t)
        sum_t = sum_t * shrink + weight
        cross = cross * shrink + tl.where(inside, weight * (p - q), 0.0)
        top_s = new_s
        top_t = new_t
    most_s = tl.max(top_s, axis=0)
    most_t = tl.max(top_t, axis=0)
    log_s = tl.log(tl.sum(sum_s * tl.exp(top_s - most_s), axis=0)) + most_s
    scale = tl.exp(top_t - most_t)
    total = tl.sum(sum_t * scale, axis=0)
    log_t = tl.log(total) + most_t
    mean = tl.sum(cross * scale, axis=0) / total
    tl.store(loss + tl.program_id(0), (mean - log_t + log_s) * temperature * temperature)
