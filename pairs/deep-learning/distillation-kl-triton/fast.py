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
    # Powers of two: their logarithms are e's times this.
    scale = 1.4426950408889634 / temperature
    for base in range(0, vocab, BLOCK):
        inside = base + at < vocab
        place = start + base + at
        q = tl.load(student + place, mask=inside, other=float("-inf")).to(tl.float32) * scale
        p = tl.load(teacher + place, mask=inside, other=float("-inf")).to(tl.float32) * scale
        # Of the two weights, of what was added and of what is new, the larger is always one.
        weight = tl.exp2(-tl.abs(top_s - q))
        sum_s = tl.where(q > top_s, sum_s * weight + 1.0, sum_s + weight)
        top_s = tl.maximum(top_s, q)
        weight = tl.exp2(-tl.abs(top_t - p))
        apart = tl.where(inside, p - q, 0.0)
        higher = p > top_t
        sum_t = tl.where(higher, sum_t * weight + 1.0, sum_t + weight)
        cross = tl.where(higher, cross * weight + apart, cross + weight * apart)
        top_t = tl.maximum(top_t, p)
    most_s = tl.max(top_s, axis=0)
    most_t = tl.max(top_t, axis=0)
    log_s = tl.log2(tl.sum(sum_s * tl.exp2(top_s - most_s), axis=0)) + most_s
    shrink = tl.exp2(top_t - most_t)
    total = tl.sum(sum_t * shrink, axis=0)
    log_t = tl.log2(total) + most_t
    mean = tl.sum(cross * shrink, axis=0) / total
    result = (mean - log_t + log_s) * 0.6931471805599453 * temperature * temperature
    tl.store(loss + tl.program_id(0), result)
