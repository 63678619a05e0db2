import triton
import triton.language as tl

@triton.jit
def norm_first(x, w, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    held = tl.load(x + row * cols + at, mask=inside, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(held * held, axis=0) + 1.0)
    tl.store(y + row * cols + at, held * scale, mask=inside)

@triton.jit
def norm_rest(x, w, y, y_between, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    tl.store(y + row * cols + at, tl.load(y_between + row * cols + at, mask=inside) * tl.load(w + at, mask=inside), mask=inside)
