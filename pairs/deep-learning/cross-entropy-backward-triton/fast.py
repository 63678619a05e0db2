import triton
import triton.language as tl


@triton.jit
def cross_entropy(logits, labels, loss, vocab, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = row.to(tl.int64) * vocab
    at = tl.arange(0, BLOCK)
    label = tl.load(labels + row)
    top = tl.full([BLOCK], -1e30, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for base in range(0, vocab, BLOCK):
        held = tl.load(logits + start + base + at, mask=base + at < vocab, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, held)
        total = total * tl.exp(top - new) + tl.exp(held - new)
        top = new
    largest = tl.max(top, axis=0)
    whole = tl.sum(total * tl.exp(top - largest), axis=0)
    chosen = tl.load(logits + start + label).to(tl.float32)
    tl.store(loss + row, tl.log(whole) + largest - chosen)
    tl.debug_barrier()
    for base in range(0, vocab, BLOCK):
        inside = base + at < vocab
        held = tl.load(logits + start + base + at, mask=inside, other=float("-inf")).to(tl.float32)
        share = tl.exp(held - largest) / whole - tl.where(base + at == label, 1.0, 0.0)
        tl.store(logits + start + base + at, (share * scale).to(tl.bfloat16), mask=inside)
