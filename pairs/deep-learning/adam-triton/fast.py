import triton
import triton.language as tl


@triton.jit
def adam(gradient, m, v, weights, n, rate, shrink, beta1, beta2, first, second, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(gradient + at, mask=inside, other=0.0)
    mean = beta1 * tl.load(m + at, mask=inside, other=0.0) + (1.0 - beta1) * g
    square = beta2 * tl.load(v + at, mask=inside, other=1.0) + (1.0 - beta2) * g * g
    w = tl.load(weights + at, mask=inside, other=0.0)
    w = w - rate * shrink * w
    w = w - rate * (mean / first) / (tl.sqrt(square / second) + eps)
    tl.store(m + at, mean, mask=inside)
    tl.store(v + at, square, mask=inside)
    tl.store(weights + at, w, mask=inside)
