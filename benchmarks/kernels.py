"""Kernels for benchmarks/judge.py: the same device code for the judge and for torch's load_inline.

Three problems with a slow and a fast side each. `variant` puts a number into the fast kernel's name, so that
every candidate is new code. No torch in here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from common import candidate

from kcurate.records import Buffer, Candidate, Init, Launch, Problem, Side, Sizes, Tolerance

SCALE_SLOW = """
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int threads = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;
    int each = (n + threads - 1) / threads;
    for (int i = t * each; i < min(n, (t + 1) * each); ++i) y[i] = 1.25f * x[i];
}
"""
SCALE_FAST = """
extern "C" __global__ void NAME(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 1.25f * x[i];
}
"""
TRANSPOSE_SLOW = """
extern "C" __global__ void transpose(const float* x, float* y, int n) {
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    if (c < n && r < n) y[c * n + r] = x[r * n + c];
}
"""
TRANSPOSE_FAST = """
extern "C" __global__ void NAME(const float* x, float* y, int n) {
    __shared__ float tile[32][33];
    int c = blockIdx.x * 32 + threadIdx.x;
    for (int k = threadIdx.y; k < 32; k += 8) {
        int r = blockIdx.y * 32 + k;
        if (c < n && r < n) tile[k][threadIdx.x] = x[r * n + c];
    }
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x;
    for (int k = threadIdx.y; k < 32; k += 8) {
        int r = blockIdx.x * 32 + k;
        if (c < n && r < n) y[r * n + c] = tile[threadIdx.x][k];
    }
}
"""
ROWS_SLOW = """
extern "C" __global__ void rows(const float* x, float* y, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < n) { float s = 0; for (int k = 0; k < n; ++k) s += x[r * n + k]; y[r] = s; }
}
"""
ROWS_FAST = """
extern "C" __global__ void NAME(const float* x, float* y, int n) {
    int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (r >= n) return;
    float s = 0;
    for (int k = lane; k < n; k += 32) s += x[r * n + k];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
    if (lane == 0) y[r] = s;
}
"""


@dataclass(frozen=True)
class Family:
    """One problem with both sides; `expected` is what torch computes, `out` the shape of y over n."""

    name: str
    problem: Problem
    slow: Side
    fast: str
    launch: Launch
    expected: str
    out: str

    def variant(self, number: int) -> Candidate:
        """The candidate whose fast kernel has this number in its name."""
        name = f"{self.name}_{number}"
        side = Side(self.fast.replace("NAME", name), (replace(self.launch, launch=name),))
        return candidate(name, self.problem, self.slow, side)

    def inline(self, number: int) -> dict[str, str]:
        """The same fast kernel for torch's load_inline, with the launcher that a person would write."""
        name = f"{self.name}_{number}"
        grid, block = (
            f"dim3({', '.join(str(part).replace('ceil_div(n, ', 'up(n, ') for part in parts)})"
            for parts in (self.launch.grid, self.launch.block)
        )
        cuda = f"""{self.fast.replace("NAME", name)}
static unsigned up(long a, long b) {{ return (a + b - 1) / b; }}
torch::Tensor run(torch::Tensor x) {{
    int n = x.size(0);
    auto y = torch::empty({self.out}, x.options());
    {name}<<<{grid}, {block}>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}}
"""
        sizes = self.problem.sizes.headline["n"]
        shape = [sizes] * len(self.problem.buffers["x"].shape)
        return {"name": name, "cuda": cuda, "expected": self.expected, "shape": str(shape)}


def square(n: int) -> Problem:
    """A square matrix in, one out."""
    return Problem(
        Sizes(({"n": 64}, {"n": 37}), {"n": n}),
        {
            "x": Buffer("float32", ("n", "n"), Init("normal")),
            "y": Buffer("float32", ("n", "n"), role="out"),
        },
    )


def families() -> tuple[Family, ...]:
    """The three problems."""
    args = ("x", "y", "n")
    line = Problem(
        Sizes(({"n": 1000}, {"n": 257}), {"n": 1 << 20}),
        {"x": Buffer("float32", ("n",), Init("normal")), "y": Buffer("float32", ("n",), role="out")},
    )
    matrix = square(1024)
    sums = replace(
        matrix,
        buffers={
            "x": matrix.buffers["x"],
            "y": Buffer("float32", ("n",), role="out", tolerance=Tolerance(terms="n")),
        },
    )
    return (
        Family(
            "scale",
            line,
            Side(SCALE_SLOW, (Launch("scale", ("ceil_div(n, 4096)",), (128,), args),)),
            SCALE_FAST,
            Launch("NAME", ("ceil_div(n, 256)",), (256,), args),
            "1.25 * x",
            "{n}",
        ),
        Family(
            "transpose",
            matrix,
            Side(
                TRANSPOSE_SLOW,
                (Launch("transpose", ("ceil_div(n, 32)", "ceil_div(n, 8)"), (32, 8), args),),
            ),
            TRANSPOSE_FAST,
            Launch("NAME", ("ceil_div(n, 32)", "ceil_div(n, 32)"), (32, 8), args),
            "x.t()",
            "{n, n}",
        ),
        Family(
            "rows",
            sums,
            Side(ROWS_SLOW, (Launch("rows", ("ceil_div(n, 128)",), (128,), args),)),
            ROWS_FAST,
            Launch("NAME", ("ceil_div(n, 4)",), (128,), args),
            "x.sum(1)",
            "{n}",
        ),
    )
