"""Tiny PyTorch modules of our own in KernelBench's layout, and problems and answers that go with them."""

from __future__ import annotations

from collections.abc import Mapping

from kcurate.records import (
    Buffer,
    Call,
    Candidate,
    Init,
    Launch,
    Origin,
    Problem,
    Scalar,
    Side,
    Sizes,
    Tolerance,
)

SCALED = """\
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(width))

    def forward(self, x, factor):
        return x * self.weight + factor


rows, width = 64, 32
rows = 128
width = 64


def get_inputs():
    return [torch.rand(rows, width), 0.5]


def get_init_inputs():
    return [width]
"""
MATMUL = """\
import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


M = 16 * 4
K = 48
N = 32


def get_inputs():
    return [torch.rand(M, K), torch.rand(K, N)]


def get_init_inputs():
    return []
"""
SOFTMAX = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.softmax(x, dim=self.dim)


batch = 40
shape = (96,)
dim = 1


def get_inputs():
    return [torch.randn(batch, *shape)]


def get_init_inputs():
    return [dim]
"""
TOGETHER = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x, factors):
        return x * factors


rows = 48
columns = 48


def get_inputs():
    return [torch.rand(rows, columns), torch.randint(0, 2, (rows,)).float() * 2 - 1]


def get_init_inputs():
    return []
"""
SCALED_CODE = """\
extern "C" __global__ void scaled(const float* x, const float* weight, float factor, float* out, int rows,
                                  int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * width) out[i] = x[i] * weight[i % width] + factor;
}
"""
MATMUL_CODE = """\
extern "C" __global__ void product(const float* a, const float* b, float* out, int m, int k, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y;
    if (column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    out[row * n + column] = sum;
}
"""
SOFTMAX_CODE = """\
extern "C" __global__ void rows(const float* x, float* out, int width) {
    __shared__ float part[64];
    const float* from = x + blockIdx.x * width;
    float* to = out + blockIdx.x * width;
    float most = -3.4e38f;
    for (int i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, from[i]);
    part[threadIdx.x] = most;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    most = part[0];
    __syncthreads();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += expf(from[i] - most);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    sum = part[0];
    for (int i = threadIdx.x; i < width; i += blockDim.x) to[i] = expf(from[i] - most) / sum;
}
"""
ANSWERS: Mapping[str, Side] = {
    "scaled": Side(
        SCALED_CODE,
        (
            Launch(
                "scaled",
                ("ceil_div(rows * width, 256)",),
                (256,),
                ("x", "weight", "factor", "out", "rows", "width"),
            ),
        ),
    ),
    "matmul": Side(
        MATMUL_CODE,
        (Launch("product", ("ceil_div(N, 32)", "M"), (32,), ("a", "b", "out", "M", "K", "N")),),
    ),
    "softmax": Side(SOFTMAX_CODE, (Launch("rows", ("batch",), (64,), ("x", "out", "shape_0")),)),
}
MODULES: Mapping[str, str] = {
    "scaled": SCALED,
    "matmul": MATMUL,
    "softmax": SOFTMAX,
    "together": TOGETHER,
}


def scaled_candidate(answer: Side | None = None, rows: int = 64, width: int = 32) -> Candidate:
    """`SCALED` against a side of device code, as written by hand."""
    problem = Problem(
        Sizes(({"rows": 5, "width": 7}, {"rows": 33, "width": 18}), {"rows": rows, "width": width}),
        {
            "x": Buffer("float32", ("rows", "width"), Init("normal")),
            "weight": Buffer("float32", ("width",), Init("uniform", {"low": -1, "high": 2})),
            "out": Buffer("float32", ("rows", "width"), role="out", tolerance=Tolerance()),
        },
        {"factor": Scalar("float32", 0.5)},
    )
    call = Call("Model", ("x", "factor"), ("out",), {"weight": "weight"})
    slow = Side(SCALED, (call,), nondeterministic=("out",), language="torch")
    return Candidate(
        "torch/scaled", "scaled", "test", None, Origin("model", made="fast"), (), "", problem, slow,
        answer or ANSWERS["scaled"],
    )  # fmt: skip
