"""Kernels in Triton and their launches: a row sum in two sizes, and a tuned scaling of some rows."""

import sys

import numpy as np
import triton
import triton.language as tl
from tensors import Tensor


@triton.jit
def row_sum(x, out, bias, cols, stride, BLOCK: tl.constexpr, KIND: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < cols, other=0.0).to(KIND)
    total = tl.sum(values)
    if bias is not None:
        total += tl.load(bias + row)
    tl.store(out + row, total)


def first_of(call, quantiles):
    call()
    return [1.0, 1.0, 1.0]


@triton.autotune(
    [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128})], key=["n"], do_bench=first_of
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def scale(x, n, factor, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


def main():
    rng = np.random.default_rng(0)
    for rows, cols in ((67, 100), (40, 300)):
        x, out = Tensor(rng.random((rows, cols), np.float32)), Tensor(np.empty(rows, np.float32))
        block = triton.next_power_of_2(cols)
        for _ in range(3):
            given = {"BLOCK": block, "KIND": tl.float32, "num_warps": 8 if block > 128 else 4}
            row_sum[(rows,)](x, out, None, cols, x.stride()[0], **given)
        print(np.allclose(out.numpy(), x.numpy().reshape(rows, cols).sum(1)))
    y = Tensor(rng.random((50, 40), np.float32))
    n = 48 * 40
    scale[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](y.rows(2), n, 0.5)
    print(sys.argv[1:])
    sys.exit(3)


if __name__ == "__main__":
    main()
