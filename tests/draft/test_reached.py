"""Extents that only a run tells: indices behind moved pointers and in device functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate.core import store
from kcurate.draft.stage import DraftConfig, draft
from kcurate.draft.trying.measured_extents import FEW_VALUES
from kcurate.extract.stage import ExtractConfig, run
from kcurate.records import KnownProblem

LAUNCHER = """
#define TILE 16
__device__ float inside(const float *m, int rows, int cols, int row, int col, int step)
{
    return row < rows && col < cols ? m[row * step + col] : 0.0f;
}

__global__ void columns(const float *left, const float *right, float *sum, int width, int depth)
{
    left += blockIdx.y * TILE * depth;
    right += blockIdx.x * TILE;
    sum += blockIdx.y * TILE * width + blockIdx.x * TILE;
    float own = 0.0f;
    for (int k = 0; k < depth; k++)
        own += left[threadIdx.y * depth + k] * right[k * width + threadIdx.x];
    sum[threadIdx.y * width + threadIdx.x] = own;
}

__global__ void clipped(const float *in, float *out, int rows, int cols, int step)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    float own = inside(in, rows, cols, row, col, step);
    if (row < rows && col < cols)
        out[row * cols + col] = own + inside(in, rows, cols, row, col + 1, step);
}

__global__ void triangle(const float *in, float *out, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    const float *own = in + row * (row + 1) / 2;
    float sum = 0.0f;
    for (int i = 0; i <= row; i++)
        sum += own[i];
    out[row] = sum;
}

__device__ int place(int n, int c, int y, int x, int channels, int height, int width)
{
    return x + (y + (c + n * channels) * height) * width;
}

__global__ void patches(const float *in, const float *scale, float *out, int all, int channels, int height,
                        int width, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= all)
        return;
    int x = i % width, y = i / width % height, c = i / width / height % channels;
    int n = i / width / height / channels;
    float sum = 0.0f;
    for (int row = y - size / 2; row <= y + size / 2; row++)
        if (row >= 0 && row < height)
            sum += in[place(n, c, row, x, channels, height, width)]
                   * scale[place(n, 0, row, x, 1, height, width)];
    out[i] = sum;
}

__global__ void neighbours(const float *in, const int *index, float *out, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * cols || index[i] >= -1)
        return;
    out[place(i / cols, 0, 0, i % cols, 1, 1, cols)] = in[place(i / cols, 0, 0, 0, 1, 1, cols)];
}

__global__ void valid(const float *in, const float *mask, float *out, int rows, int cols, int radius)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows || col >= cols)
        return;
    int step = cols + 2 * radius, width = 2 * radius + 1;
    const float *corner = in + row * step + col;
    float sum = 0.0f;
    for (int i = 0; i < width * width; i++)
        sum += corner[i / width * step + i % width] * mask[i];
    out[row * cols + col] = sum;
}

__global__ void square(const float *in, float *out, int width)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    out += row * width;
    out[col] = in[col * width + row];
}

__global__ void chosen(const float *in, const int *table, float *out, int rows, int cols)
{
    const int *entry = table + 3 * blockIdx.x;
    const float *from = in + entry[1] * cols;
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        out[blockIdx.x * cols + i] = from[i];
}

void launch(const float *a, const float *b, float *c, int *d, int m, int n, int k, int step, int size)
{
    neighbours<<<(m * n + 127) / 128, 128>>>(a, d, c, m, n);
    patches<<<(m * n * k * step + 127) / 128, 128>>>(a, b, c, m * n * k * step, n, k, step, size);
    columns<<<dim3(n / TILE, m / TILE), dim3(TILE, TILE)>>>(a, b, c, n, k);
    clipped<<<dim3((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), dim3(TILE, TILE)>>>(a, c, m, n, step);
    triangle<<<m / 64, 64>>>(a, c, m);
    square<<<dim3(n / 32, n / 32), dim3(32, 32)>>>(a, c, n);
}
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reached")
    tree = folder / "tree"
    tree.mkdir()
    (tree / "kernels.cu").write_text(LAUNCHER)
    run(ExtractConfig((tree,), folder / "work", compile=False))
    return folder / "work"


def drafted(workspace: Path, kernel: str) -> Path:
    """The kernel's folder, after it was drafted."""
    (folder,) = (path.parent for path in workspace.rglob(f"{kernel}/kernel.json"))
    draft(DraftConfig(workspace, (str(folder),)))
    return folder


def shapes(workspace: Path, kernel: str) -> dict[str, tuple[int | str, ...]]:
    known = store.read_json(drafted(workspace, kernel) / "problem.json", KnownProblem)
    return {name: buffer.shape for name, buffer in known.problem.buffers.items()}


@pytest.mark.slow
def test_pointers_that_move_are_followed(workspace: Path) -> None:
    assert shapes(workspace, "columns") == {"left": ("k*m",), "right": ("k*n",), "sum": ("m*n",)}


def test_device_functions_are_followed_and_a_last_row_may_be_shorter(workspace: Path) -> None:
    assert shapes(workspace, "clipped")["in"] == ("m*step + n - step + 1",)


def test_kernels_that_multiply_many_sizes_run_at_few_elements(workspace: Path) -> None:
    found = shapes(workspace, "patches")
    assert found == {"in": ("k*m*n*step",), "scale": ("k*m*step",), "out": ("k*m*n*step",)}


@pytest.mark.slow
def test_a_kernel_that_nothing_launches_has_extents_that_are_polynomials(workspace: Path) -> None:
    found = shapes(workspace, "valid")
    assert found["mask"] == ("4*radius*radius + 4*radius + 1",)
    assert found["out"] == ("cols*rows",)


def test_a_block_of_two_axes_asks_for_no_more_than_its_longest(workspace: Path) -> None:
    assert shapes(workspace, "square")["out"] == ("n*n",)


@pytest.mark.slow
def test_indices_in_a_table_stay_inside_what_they_index(workspace: Path) -> None:
    known = store.read_json(drafted(workspace, "chosen") / "problem.json", KnownProblem)
    assert known.problem.buffers["in"].shape == ("2*cols",)
    assert known.problem.buffers["table"].init == FEW_VALUES


def test_an_extent_that_no_expression_gives_may_be_larger(workspace: Path) -> None:
    assert shapes(workspace, "triangle")["in"] == ("m*m",)


@pytest.mark.slow
def test_outputs_that_nothing_reaches_are_refused(workspace: Path) -> None:
    folder = drafted(workspace, "neighbours")
    assert not (folder / "problem.json").exists()
    assert "NOT admitted" in (folder / "problem.toml").read_text()
