"""A launch for a bare kernel, where its code leaves one sensible choice; none where it leaves several."""

from __future__ import annotations

import pytest

from kcurate.cuda_source import whole_file
from kcurate.draft.inferred.launch_guess import Guess, guess
from kcurate.records import Kernel, Source, Span

HEAD = "__global__ void k(const float *x, float *y, int n)"
MATRIX = "__global__ void k(const float *x, float *y, int rows, int cols)"
GUESSED = [
    (f"{HEAD} {{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }}",
     "(n + 255) / 256, 256"),
    (f"{HEAD} {{ int i = threadIdx.x + blockDim.x * blockIdx.x; if (i >= n) return; y[i] = x[i]; }}",
     "(n + 255) / 256, 256"),
    (f"{HEAD} {{ int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x); if (i < n) y[i] = x[i];"
     " if (i + 1 < n) y[i + 1] = x[i + 1]; }",
     "(n + 511) / 512, 256"),
    (f"{HEAD} {{ for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)"
     " y[i] = x[i]; }",
     "(n + 255) / 256, 256"),
    (f"{HEAD} {{ int first = blockIdx.x * 1024 + threadIdx.x;"
     " for (int i = first; i < first + 1024 && i < n; i += 256) y[i] = x[i]; }",
     "(n + 1023) / 1024, 256"),
    (f"{HEAD} {{ if (blockIdx.x * blockDim.x + threadIdx.x < n)"
     " y[blockIdx.x * blockDim.x + threadIdx.x] = 1; }",
     "(n + 255) / 256, 256"),
    (f"{HEAD} {{ int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);"
     " if (i + 1 < n) y[i] = x[i] + x[i + 1]; }",
     "(n + 511) / 512, 256"),
    (f"{HEAD} {{ __shared__ float s[256]; int i = blockIdx.x * blockDim.x + threadIdx.x;"
     " s[threadIdx.x] = i < n ? x[i] : 0.f; __syncthreads(); for (int k = 128; k > 0; k /= 2) {"
     " if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k]; __syncthreads(); }"
     " if (threadIdx.x == 0) atomicAdd(y, s[0]); }",
     "(n + 255) / 256, 256"),
    (f"{HEAD} {{ for (int i = 0; i < n; i++) y[i] = x[i]; }}", "1, 1"),
    (f"{HEAD} {{ for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i]; }}", "1, 256"),
    (f"{HEAD} {{ int i = blockIdx.x * 128 + threadIdx.x; if (i < n) y[i] = x[i]; }}",
     "(n + 127) / 128, 128"),
    (f"__global__ void __launch_bounds__(64) {HEAD[16:]} {{ int i = blockIdx.x * blockDim.x + threadIdx.x;"
     " if (i < n) y[i] = x[i]; }",
     "(n + 63) / 64, 64"),
    (f"{HEAD} {{ __shared__ float s[128]; int i = blockIdx.x * blockDim.x + threadIdx.x;"
     " s[threadIdx.x] = i < n ? x[i] : 0.f; __syncthreads(); if (i < n) y[i] = s[threadIdx.x]; }",
     "(n + 127) / 128, 128"),
    (f"{HEAD} {{ extern __shared__ float s[]; int i = blockIdx.x * blockDim.x + threadIdx.x;"
     " if (i < n) s[threadIdx.x] = x[i]; __syncthreads(); if (i < n) y[i] = s[threadIdx.x]; }",
     "(n + 255) / 256, 256, 1024"),
    (f"{MATRIX} {{ int row = blockIdx.x; if (row >= rows) return;"
     " for (int c = threadIdx.x; c < cols; c += blockDim.x) y[row * cols + c] = x[row * cols + c]; }",
     "rows, 256"),
    (f"{MATRIX} {{ const float *r = x + blockIdx.x * cols;"
     " for (int c = threadIdx.x; c < cols; c += blockDim.x) y[blockIdx.x * cols + c] = r[c]; }",
     "rows, 256"),
    (f"{MATRIX} {{ int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;"
     " if (row < rows) for (int c = lane; c < cols; c += 32) y[row * cols + c] = x[row * cols + c]; }",
     "(rows + 7) / 8, 256"),
    (f"{MATRIX} {{ int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;"
     " if (r < rows && c < cols) y[c * rows + r] = x[r * cols + c]; }",
     "dim3((cols + 15) / 16, (rows + 15) / 16), dim3(16, 16)"),
    (f"#define TILE 32\n{MATRIX} {{ __shared__ float t[TILE][TILE + 1];"
     " int c = blockIdx.x * TILE + threadIdx.x, r = blockIdx.y * TILE + threadIdx.y;"
     " for (int j = 0; j < TILE; j += 8) if (r + j < rows && c < cols) t[threadIdx.y + j][threadIdx.x] ="
     " x[(r + j) * cols + c]; __syncthreads(); c = blockIdx.y * TILE + threadIdx.x;"
     " r = blockIdx.x * TILE + threadIdx.y; if (r < cols && c < rows) for (int j = 0; j < TILE; j += 8)"
     " y[(r + j) * rows + c] = t[threadIdx.x][threadIdx.y + j]; }",
     "dim3((cols + 31) / 32, (rows + 31) / 32), dim3(32, 8)"),
    (f"#define TILE 16\n{MATRIX} {{ __shared__ float t[TILE][TILE];"
     " int c = blockIdx.x * TILE + threadIdx.x, r = blockIdx.y * TILE + threadIdx.y;"
     " float s = 0; for (int k = 0; k < cols; k += TILE) { t[threadIdx.y][threadIdx.x] ="
     " r < rows && k + threadIdx.x < cols ? x[r * cols + k + threadIdx.x] : 0.f; __syncthreads();"
     " for (int j = 0; j < TILE; j++) s += t[threadIdx.y][j]; __syncthreads(); }"
     " if (r < rows && c < cols) y[r * cols + c] = s; }",
     "dim3((cols + 15) / 16, (rows + 15) / 16), dim3(16, 16)"),
    ("template <typename T> __global__ void k(const T *x, T *y, int n) {"
     " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }",
     "(n + 255) / 256, 256"),
    ("__global__ void k(const float *x, float *y, size_t n) {"
     " size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; if (i < n / 4) y[i] = x[i]; }",
     "((n/4) + 255) / 256, 256"),
    (f"{HEAD} {{ int per = (n + gridDim.x * blockDim.x - 1) / (gridDim.x * blockDim.x);"
     " int t = blockIdx.x * blockDim.x + threadIdx.x;"
     " for (int k = 0; k < per; k++) if (t * per + k < n) y[t * per + k] = x[t * per + k]; }",
     "(n + 255) / 256, 256"),
    (f"{MATRIX} {{ __shared__ float t[12][36];"
     " for (int k = threadIdx.y * 32 + threadIdx.x; k < 12 * 36; k += 256)"
     " t[k / 36][k % 36] = x[blockIdx.y * 8 * cols + blockIdx.x * 32 + k]; __syncthreads();"
     " int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;"
     " if (c < cols && r < rows) y[r * cols + c] = t[threadIdx.y + 2][threadIdx.x + 2]; }",
     "dim3((cols + 31) / 32, (rows + 7) / 8), dim3(32, 8)"),
]  # fmt: skip
SEVERAL = [
    # As many blocks as results: nothing says how many.
    f"{HEAD} {{ atomicAdd(y, x[blockIdx.x * blockDim.x + threadIdx.x]); }}",
    # Threads beyond the block would be left out, for a size that the problem chooses.
    f"{HEAD} {{ int i = threadIdx.x; if (i < n) y[i] = x[i]; }}",
    # The block is a template argument.
    "template <int B> __global__ void k(const float *x, float *y, int n) {"
    " int i = blockIdx.x * B + threadIdx.x; if (i < n) y[i] = x[i]; }",
    # Shared memory of a size that depends on the problem's.
    f"{HEAD} {{ extern __shared__ float s[]; int i = blockIdx.x * blockDim.x + threadIdx.x;"
    " if (i < n) { s[i % n] = x[i]; y[i] = s[i % n]; } }",
    # The bound is read from memory.
    "__global__ void k(const int *count, float *y) {"
    " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < count[0]) y[i] = 1.0f; }",
    # Two sizes that it does not read.
    "__global__ void k(float *y, int m, int n, int cols) { y[blockIdx.x * cols + threadIdx.x % 32] = 1; }",
]


def guessed(code: str, *, several: bool = False) -> str | None:
    """The text of the guess for a file's one kernel."""
    launch = guess_of(code, several=several)
    return launch.text if launch else None


def guess_of(code: str, *, several: bool) -> Guess | None:
    """The guess for a file's one kernel."""
    (source,) = whole_file(code.encode()).kernels
    span = Span("k.cu", 0, 1, 1, 1)
    kernel = Kernel("k", Source("own"), "k", None, source.name, span, "k.cu", source.params)
    return guess(kernel, source.code.decode(), several=several)


@pytest.mark.parametrize(("code", "launch"), GUESSED)
def test_the_one_sensible_launch_is_guessed(code: str, launch: str) -> None:
    assert guessed(code) == launch


def test_a_guard_in_a_device_function_counts() -> None:
    code = "__device__ bool inside(int i, int n) { return i < n; }\n"
    code += f"{HEAD} {{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (inside(i, n)) y[i] = x[i]; }}"
    assert guessed(code) == "(n + 255) / 256, 256"


@pytest.mark.parametrize("code", SEVERAL)
def test_a_draft_gets_one_of_several_launches(code: str) -> None:
    assert guessed(code, several=True) is not None


def test_what_nothing_tells_is_a_size_or_a_usual_amount() -> None:
    code = f"{HEAD} {{ extern __shared__ float s[]; s[n] = x[blockIdx.y]; y[threadIdx.x] = s[n]; }}"
    assert guessed(code, several=True) == "dim3(blocks, blocks_y), 256, 16384"


@pytest.mark.parametrize(
    ("use", "choice"),
    [
        ("if (n == 2) y[0] = 1; else if (n == 3) y[0] = 2;", {"n": "2"}),
        ("switch (n) { case 4: y[0] = 1; }", {"n": "4"}),
        ("if (n == 2) y[n] = 1;", {}),
    ],
)
def test_a_parameter_that_only_chooses_is_no_size(use: str, choice: dict[str, str]) -> None:
    launch = guess_of(f"{HEAD} {{ {use} }}", several=True)
    assert launch is not None
    assert launch.choices == choice


@pytest.mark.parametrize("code", SEVERAL)
def test_where_the_code_leaves_several_none_is_guessed(code: str) -> None:
    assert guessed(code) is None
