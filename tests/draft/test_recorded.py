"""Drafts from recorded launches: sizes, buffers and contents; each is admitted on the emulator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from kcurate.capture.describing import described
from kcurate.cuda_source import whole_file
from kcurate.draft.captured.from_launches import recorded
from kcurate.draft.captured.recorded_contents import plain
from kcurate.draft.sketch import Draft, Reason
from kcurate.draft.trying.admit import Admission, admit
from kcurate.draft.trying.completed_files import AdmittingJudge
from kcurate.problem.c_types import Element
from kcurate.problem.dtypes import DTYPES
from kcurate.records import (
    BufferArg,
    Capture,
    CapturedArg,
    CapturedBuffer,
    CapturedLaunch,
    CapturedPointer,
    CapturedSymbol,
    Contents,
    Init,
    Kernel,
    Launch,
    PointersArg,
    Source,
    Span,
    Upload,
    ValueArg,
)

RNG = np.random.default_rng(3)
NAMES = {kind: name for name, kind in reversed(DTYPES.items())}
Extents = tuple[int, int, int]


@dataclass(frozen=True)
class At:
    """A pointer `offset` elements into the array of this name; `Whole.arrays` has the arrays."""

    name: str
    offset: int = 0


def launch(
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    arrays: Mapping[str, np.ndarray[Any, Any]],
    changed: Sequence[str],
    **more: Any,
) -> CapturedLaunch:
    """A launch as it would be recorded: arrays described, numbers as bytes, structs as tuples."""
    numbers = {name: at for at, name in enumerate(arrays)}

    def packed(arg: Any) -> CapturedArg:
        parts, pointers = b"", []
        for one in arg if isinstance(arg, tuple) else (arg,):
            if isinstance(one, At):
                offset = one.offset * arrays[one.name].itemsize
                pointers.append(CapturedPointer(len(parts), numbers[one.name], offset))
                parts += bytes(8)
            else:
                parts += one.tobytes()
        return CapturedArg(parts.hex(), tuple(pointers))

    buffers = tuple(
        CapturedBuffer(one.nbytes, changed=name in changed, before=described(one, NAMES[one.dtype]))
        for name, one in arrays.items()
    )
    three = [(*some, 1, 1)[:3] for some in (grid, block)]
    return CapturedLaunch(three[0], three[1], tuple(map(packed, args)), buffers, **more)  # type: ignore[arg-type]


def captured(name: str, *launches: CapturedLaunch) -> Capture:
    return Capture("app", name, f"_Z{name}", "cudart", "none", (), launches)


def kernel_of(code: str) -> Kernel:
    (found,) = whole_file(code.encode()).kernels
    span = Span("main.cu", 0, 1, 1, 1)
    return Kernel(found.name, Source("suite"), "app", None, found.name, span, "main.cu", found.params)


@pytest.fixture(scope="module")
def judge() -> Iterator[AdmittingJudge]:
    with contextlib.closing(AdmittingJudge()) as judging:
        yield judging


def drafted(code: str, capture: Capture, trust: Any = "apart") -> Draft:
    return recorded(kernel_of(code), code, capture, trust=trust)


def admitted(draft: Draft, code: str, judge: AdmittingJudge) -> Admission:
    assert draft.reasons == ()
    assert not any("guess" in remark.text for remark in draft.remarks)
    result = admit(draft, code, judge, draft.ladder)
    assert result.admitted, (*result.attempts, result.verdict)
    return result


def step_of(draft: Draft) -> Launch:
    (side,) = draft.known.sides.values()
    return next(step for step in side.plan if isinstance(step, Launch))


def shapes(draft: Draft) -> dict[str, tuple[int | str, ...]]:
    return {name: buffer.shape for name, buffer in draft.known.problem.buffers.items()}


def i32(value: int) -> np.int32:
    return np.int32(value)


def reals(count: int) -> np.ndarray[Any, Any]:
    return RNG.random(count, np.float32)


SAXPY = """
__global__ void saxpy(int n, float a, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""


def saxpy(n: int) -> CapturedLaunch:
    args = (i32(n), np.float32(2.5), At("x"), At("y"))
    return launch([-(-n // 256)], [256], args, {"x": reals(n), "y": reals(n)}, ["y"])


def test_one_launch_of_a_guarded_kernel_gives_its_size(judge: AdmittingJudge) -> None:
    draft = drafted(SAXPY, captured("saxpy", saxpy(100_000)))
    assert shapes(draft) == {"x": ("n",), "y": ("n",)}
    assert (step_of(draft).grid, step_of(draft).args[0]) == (("ceil_div(n, 256)",), "n")
    assert draft.known.problem.scalars["a"].value == 2.5
    assert draft.known.problem.buffers["y"].role == "inout"
    assert draft.known.problem.buffers["x"].init.params == {"low": 0.0, "high": 1.0}  # type: ignore[union-attr]
    assert draft.known.problem.sizes.headline == {"n": 100_000}
    assert admitted(draft, SAXPY, judge).sizes == "odd and different"
    assert draft.known.source == "captured"


def test_small_recorded_sizes_are_tried_too(judge: AdmittingJudge) -> None:
    draft = drafted(SAXPY, captured("saxpy", saxpy(777), saxpy(100_000)))
    result = admitted(draft, SAXPY, judge)
    assert {"n": 777} in result.draft.known.problem.sizes.test


GEMM = """
__global__ void gemm(int m, int n, int k, const float *a, const float *b, float *c) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || col >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
  c[row * n + col] = sum;
}
"""


@pytest.mark.parametrize("sides", [(120, 200, 70), (128, 128, 128)])
def test_matrices_have_two_sizes_even_if_the_program_ran_square_ones(
    sides: Extents, judge: AdmittingJudge
) -> None:
    m, n, k = sides
    arrays = {"a": reals(m * k), "b": reals(k * n), "c": reals(m * n)}
    args = (i32(m), i32(n), i32(k), At("a"), At("b"), At("c"))
    made = launch([-(-n // 16), -(-m // 16)], [16, 16], args, arrays, ["c"])
    draft = drafted(GEMM, captured("gemm", made))
    assert step_of(draft).grid == ("ceil_div(n, 16)", "ceil_div(m, 16)")
    assert draft.known.problem.buffers["c"].role == "out"
    assert admitted(draft, GEMM, judge).sizes == "odd and different"
    assert draft.known.problem.buffers["c"].tolerance.terms == "k"  # type: ignore[union-attr]


SPMV = """
__global__ void spmv(int rows, const int *starts, const int *cols, const float *vals, const float *x,
                     float *y) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float sum = 0;
  for (int i = starts[r]; i < starts[r + 1]; ++i) sum += vals[i] * x[cols[i]];
  y[r] = sum;
}
"""


def test_sparse_matrix_keeps_its_structure_at_other_sizes(judge: AdmittingJudge) -> None:
    rows, width = 3000, 2000
    starts = np.concatenate([[0], np.cumsum(RNG.integers(1, 12, rows))]).astype(np.int32)
    entries = int(starts[-1])
    arrays = {
        "starts": starts,
        "cols": RNG.integers(0, width, entries, dtype=np.int32),
        "vals": reals(entries),
        "x": reals(width),
        "y": np.zeros(rows, np.float32),
    }
    args = (i32(rows), *map(At, arrays))
    draft = drafted(SPMV, captured("spmv", launch([-(-rows // 128)], [128], args, arrays, ["y"])))
    assert shapes(draft) == {
        "starts": ("rows + 1",),
        "cols": ("cols_count",),
        "vals": ("cols_count",),
        "x": ("x_count",),
        "y": ("rows",),
    }
    params = {"rows": "rows", "nnz": "cols_count", "cols": "x_count"}
    inits = {name: buffer.init for name, buffer in draft.known.problem.buffers.items()}
    assert (inits["starts"].kind, inits["starts"].params) == ("csr_offsets", params)  # type: ignore[union-attr]
    assert (inits["cols"].kind, inits["cols"].params) == ("csr_columns", params)  # type: ignore[union-attr]
    admitted(draft, SPMV, judge)


HISTOGRAM = """
__global__ void histogram(const unsigned char *data, unsigned *bins, int n) {
  __shared__ unsigned own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&own[data[i]], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}
"""


def test_bins_stay_a_constant_and_the_grid_stays_within_the_recorded_one(judge: AdmittingJudge) -> None:
    arrays = {"data": RNG.integers(0, 256, 500_000).astype(np.uint8), "bins": np.zeros(256, np.uint32)}
    args = (At("data"), At("bins"), i32(500_000))
    draft = drafted(HISTOGRAM, captured("histogram", launch([120], [256], args, arrays, ["bins"])))
    assert shapes(draft) == {"data": ("n",), "bins": (256,)}
    assert step_of(draft).grid == ("min(120, ceil_div(n, 256))",)
    assert draft.known.problem.buffers["bins"].init.kind == "zeros"  # type: ignore[union-attr]
    admitted(draft, HISTOGRAM, judge)


def test_inputs_that_nothing_is_recorded_of_are_what_the_text_allows() -> None:
    """Not zeros, with which a kernel that never reads its input would be right."""
    arrays = {"data": np.zeros(500_000, np.uint8), "bins": np.zeros(256, np.uint32)}
    made = launch([120], [256], (At("data"), At("bins"), i32(500_000)), arrays, ["bins"])
    unseen = replace(made.buffers[0], before=Contents("uint8", 500_000))
    draft = drafted(HISTOGRAM, captured("histogram", replace(made, buffers=(unseen, made.buffers[1]))))
    assert draft.known.problem.buffers["data"].init == Init("integers", {"low": 0, "high": 256})
    (remark,) = (one for one in draft.remarks if one.place == "buffers.data.init")
    assert remark.text == "guess: nothing is recorded of its values; indices into own"


@pytest.mark.parametrize("value", [0, 7, 255])
def test_one_value_everywhere_in_an_input_is_not_taken_for_what_it_holds(value: int) -> None:
    """Memory that was allocated and never filled, since an earlier kernel was not run."""
    arrays = {"data": np.full(500_000, value, np.uint8), "bins": np.zeros(256, np.uint32)}
    run = launch([120], [256], (At("data"), At("bins"), i32(500_000)), arrays, ["bins"])
    draft = drafted(HISTOGRAM, captured("histogram", run))
    assert draft.known.problem.buffers["data"].init == Init("integers", {"low": 0, "high": 256})
    assert draft.known.problem.buffers["bins"].init == Init("zeros")
    (remark,) = (each for each in draft.remarks if each.place == "buffers.data.init")
    assert remark.text == "guess: recorded, all its values are one; indices into own"


STENCIL = """
__global__ void blur(const double *in, double *out, int width, int height, int pitch) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  double up = y > 0 ? in[(y - 1) * pitch + x] : 0, down = y < height - 1 ? in[(y + 1) * pitch + x] : 0;
  out[y * pitch + x] = 0.5 * in[y * pitch + x] + 0.25 * (up + down);
}
"""


def test_pitch_is_a_size_of_its_own(judge: AdmittingJudge) -> None:
    def run(width: int, height: int, pitch: int) -> CapturedLaunch:
        arrays = {"in": RNG.random(height * pitch), "out": RNG.random(height * pitch)}
        grid = [-(-width // 32), -(-height // 8)]
        args = (At("in"), At("out"), i32(width), i32(height), i32(pitch))
        return launch(grid, [32, 8], args, arrays, ["out"])

    draft = drafted(STENCIL, captured("blur", run(1000, 700, 1024), run(100, 70, 128)))
    assert shapes(draft) == {"in": ("height*pitch",), "out": ("height*pitch",)}
    assert step_of(draft).grid == ("ceil_div(width, 32)", "ceil_div(height, 8)")
    assert set(draft.known.problem.sizes.headline) == {"width", "height", "pitch"}
    assert admitted(draft, STENCIL, judge).draft.known.problem.buffers["out"].role == "inout"


BY_VALUE = """
struct Box { int width, height; float scale[2]; double shift; };
__global__ void fill(Box box, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < box.width * box.height) out[i] = box.scale[i % 2] * (i / box.width) + (float)box.shift;
}
"""


def test_struct_by_value_holds_sizes(judge: AdmittingJudge) -> None:
    box = (i32(300), i32(170), np.float32([0.5, 0.25]), np.float64(3.0))
    arrays = {"out": reals(300 * 170)}
    made = launch([-(-300 * 170 // 192)], [192], (box, At("out")), arrays, ["out"])
    draft = drafted(BY_VALUE, captured("fill", made))
    assert shapes(draft) == {"out": ("box_width*box_height",)}
    assert step_of(draft).args == ("box", "out")
    assert draft.known.problem.scalars["box"].value == {
        "width": "box_width",
        "height": "box_height",
        "scale_0": 0.5,
        "scale_1": 0.25,
        "shift": 3.0,
    }
    admitted(draft, BY_VALUE, judge)


POINTERS = """
struct Arrays { const float *x, *y; float *sum; };
__global__ void add(Arrays p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p.sum[i] = p.x[i] + p.y[i];
}
"""


def test_struct_of_pointers_is_passed_with_its_buffers(judge: AdmittingJudge) -> None:
    arrays = {"x": reals(5000), "y": reals(5000), "sum": reals(5000)}
    args = ((At("x"), At("y"), At("sum")), i32(5000))
    draft = drafted(POINTERS, captured("add", launch([40], [128], args, arrays, ["sum"])))
    assert shapes(draft) == {"p_x": ("n",), "p_y": ("n",), "p_sum": ("n",)}
    assert step_of(draft).args[0] == PointersArg(tuple(map(BufferArg, ("p_x", "p_y", "p_sum"))))
    assert [one.role for one in draft.known.problem.buffers.values()] == ["in", "in", "out"]
    admitted(draft, POINTERS, judge)


VIEWS = """
struct Grid { int width; float *cells; int height, rest; };
struct View { const float *x; Grid out; float scale; const float *none; };
__global__ void fill(View v) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (col < v.out.width && row < v.out.height)
    v.out.cells[row * v.out.width + col] = v.scale * v.x[col] + (v.none ? v.none[0] : 0.0f);
}
"""


def test_struct_of_pointers_and_numbers_is_passed_with_both(judge: AdmittingJudge) -> None:
    arrays = {"x": reals(300), "cells": reals(300 * 170)}
    view = (At("x"), i32(300), i32(0), At("cells"), i32(170), i32(9), np.float32(0.5), i32(0), np.uint64(0))
    draft = drafted(VIEWS, captured("fill", launch([3, 170], [128], (view,), arrays, ["cells"])))
    assert shapes(draft) == {"v_x": ("v_out_width",), "v_out_cells": ("v_out_width*v_out_height",)}
    meant = PointersArg((BufferArg("v_x"), BufferArg("v_out_cells")), (0, 16), "v")
    assert step_of(draft).args == (meant,)
    values = draft.known.problem.scalars["v"].value
    assert values == {
        "x": 0, "out_width": "v_out_width", "out_cells": 0, "out_height": "v_out_height", "out_rest": 9,
        "scale": 0.5, "none": 0,
    }  # fmt: skip
    admitted(draft, VIEWS, judge)


OFFSET = """
__global__ void next(const float *row, float *below, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) below[i] = row[i] * 2.0f;
}
"""


def test_pointers_into_one_allocation_share_a_buffer(judge: AdmittingJudge) -> None:
    args = (At("all"), At("all", 6000), i32(6000))
    draft = drafted(OFFSET, captured("next", launch([47], [128], args, {"all": reals(12_000)}, ["all"])))
    assert shapes(draft) == {"row": ("2*n",)}
    assert step_of(draft).args == ("row", BufferArg("row", "n"), "n")
    admitted(draft, OFFSET, judge)


def test_allocation_of_several_types_is_split_where_the_pointers_point(judge: AdmittingJudge) -> None:
    code = OFFSET.replace("const float *row", "const int *row")
    args = (At("pool", 64), At("pool", 64 + 4096), i32(3000))
    draft = drafted(code, captured("next", launch([24], [128], args, {"pool": reals(9000)}, ["pool"])))
    problem = draft.known.problem
    assert {name: buffer.dtype for name, buffer in problem.buffers.items()} == {
        "row": "int32",
        "below": "float32",
    }
    assert shapes(draft) == {"row": ("n",), "below": ("n",)}
    assert admit(draft, code, judge, draft.ladder).admitted


TEMPLATE = """
template <typename T, int PER> __global__ void scale(T *x, T by, long n) {
  long i = (long)(blockIdx.x * blockDim.x + threadIdx.x) * PER;
  for (int j = 0; j < PER; ++j) if (i + j < n) x[i + j] *= by;
}
"""


def test_template_arguments_are_those_of_the_recorded_instance(judge: AdmittingJudge) -> None:
    args = (At("x"), np.float64(1.5), np.int64(40_000))
    made = launch([79], [128], args, {"x": RNG.standard_normal(40_000)}, ["x"])
    name = "void scale<double, (int)4>(T1*, T1, long)"
    draft = drafted(TEMPLATE, captured(name, made))
    step = step_of(draft)
    assert step.template == ("double", "(int)4")
    assert (step.grid, step.args[2]) == (("ceil_div(n, 512)",), ValueArg("n", "int64"))
    assert draft.known.problem.buffers["x"].dtype == "float64"
    admitted(draft, TEMPLATE, judge)


SYMBOL = """
__constant__ float weights[9];
__global__ void convolve(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int j = 0; j < 9; ++j) { int at = i + j - 4; sum += at < 0 || at >= n ? 0 : weights[j] * in[at]; }
  out[i] = sum;
}
"""


def test_symbol_that_the_program_wrote_is_uploaded(judge: AdmittingJudge) -> None:
    symbol = CapturedSymbol("weights", 36, described(reals(9), "float32"))
    arrays = {"in": reals(9000), "out": reals(9000)}
    args = (At("in"), At("out"), i32(9000))
    made = launch([71], [128], args, arrays, ["out"], symbols=(symbol,))
    draft = drafted(SYMBOL, captured("convolve", made))
    (side,) = draft.known.sides.values()
    assert side.plan[0] == Upload("weights", "weights_values")
    assert shapes(draft)["weights_values"] == (9,)
    admitted(draft, SYMBOL, judge)


REDUCTION = """
__global__ void sums(const int *x, int *out, unsigned n) {
  extern __shared__ int own[];
  unsigned i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
  own[threadIdx.x] = (i < n ? x[i] : 0) + (i + blockDim.x < n ? x[i + blockDim.x] : 0);
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) own[threadIdx.x] += own[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = own[0];
}
"""


def test_partial_sums_have_one_element_for_each_block(judge: AdmittingJudge) -> None:
    n, block = 70_000, 128
    blocks = -(-n // 256)
    arrays = {"x": RNG.integers(-9, 90, n, dtype=np.int32), "out": np.zeros(blocks, np.int32)}
    args = (At("x"), At("out"), np.uint32(n))
    made = launch([blocks], [block], args, arrays, ["out"], shared_bytes=4 * block)
    draft = drafted(REDUCTION, captured("sums", made))
    assert (step_of(draft).grid, step_of(draft).shared_bytes) == (("ceil_div(n, 256)",), 512)
    assert shapes(draft) == {"x": ("n",), "out": ("ceil_div(n, 256)",)}
    admitted(draft, REDUCTION, judge)


FIXED = """
#define SIDE 48
__global__ void transpose(const float *in, float *out) {
  __shared__ float tile[SIDE][SIDE + 1];
  for (int row = threadIdx.y; row < SIDE; row += 8) tile[row][threadIdx.x] = in[row * SIDE + threadIdx.x];
  __syncthreads();
  for (int row = threadIdx.y; row < SIDE; row += 8) out[row * SIDE + threadIdx.x] = tile[threadIdx.x][row];
}
"""


def test_kernel_of_one_size_is_admitted_and_marked(judge: AdmittingJudge) -> None:
    arrays = {"in": reals(48 * 48), "out": reals(48 * 48)}
    made = captured("transpose", launch([1], [48, 8], (At("in"), At("out")), arrays, ["out"]))
    draft = drafted(FIXED, made, "fixed")
    assert draft.known.problem.single_size
    assert shapes(draft) == {"in": (2304,), "out": (2304,)}
    assert admitted(draft, FIXED, judge).sizes == "the recorded one"


def test_single_size_too_large_for_the_emulator_stays_open() -> None:
    code = FIXED.replace("48", "4096")
    arrays = {"in": np.zeros(1 << 24, np.float32), "out": np.zeros(1 << 24, np.float32)}
    made = captured("transpose", launch([1], [48, 8], (At("in"), At("out")), arrays, ["out"]))
    assert drafted(code, made, "fixed").reasons == (Reason.ONE_SIZE,)


ROWED = """
#define WIDTH 4
typedef float row_t[WIDTH * 2][3];
typedef struct { row_t left, right[WIDTH + 1]; } rows_t;
__global__ void sums(const row_t *x, rows_t *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int k = 0; k < WIDTH * 2; ++k)
    for (int j = 0; j < 3; ++j) {
      y[i].left[k][j] = 2 * x[i][k][j];
      for (int m = 0; m < WIDTH + 1; ++m) y[i].right[m][k][j] = m + x[i][k][j];
    }
}
"""


def test_array_types_have_the_extents_of_their_typedef(judge: AdmittingJudge) -> None:
    arrays = {"x": reals(1000 * 24), "y": reals(1000 * 144)}
    made = launch([8], [128], (At("x"), At("y"), i32(1000)), arrays, ["y"])
    draft = drafted(ROWED, captured("sums", made))
    assert shapes(draft) == {"x": ("n", 24), "y": ("n", 144)}
    admitted(draft, ROWED, judge)


OPTIONAL = """
typedef enum { PLAIN = 0, TWICE = 1 } mode_t;
enum class Sign : signed char { minus = -1, plus = 1 };
struct point { float x, y; };
struct segment { point ends[2]; };
__global__ void length(const int *chosen, const segment *all, float *out, mode_t mode, Sign sign, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int at = chosen != nullptr ? chosen[i] : i;
  float x = all[at].ends[1].x - all[at].ends[0].x, y = all[at].ends[1].y - all[at].ends[0].y;
  out[i] = hypotf(x, y) * (mode == TWICE ? 2 : 1) * (int)sign;
}
"""


def test_null_pointer_enumerations_and_structs_in_structs(judge: AdmittingJudge) -> None:
    arrays = {"all": reals(20_000), "out": reals(5000)}
    args = (np.uint64(0), At("all"), At("out"), i32(1), np.int8(-1), i32(5000))
    made = launch([40], [128], args, arrays, ["out"])
    draft = drafted(OPTIONAL, captured("length", made))
    assert shapes(draft) == {"all": ("n", 4), "out": ("n",)}
    null, mode, sign = ValueArg(0, "uint64"), ValueArg(1, "int32"), ValueArg(-1, "int8")
    assert step_of(draft).args == (null, "all", "out", mode, sign, "n")
    admitted(draft, OPTIONAL, judge)


FUNCTOR = """
template <typename T> struct Twice { __device__ T operator()(T x) const { return x + x; } };
template <typename T, typename F> __global__ void map(const T *in, T *out, int n, F f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = f(in[i]);
}
template __global__ void map<float, Twice<float>>(const float *, float *, int, Twice<float>);
"""


def test_functor_without_data_is_a_byte(judge: AdmittingJudge) -> None:
    arrays = {"in": reals(5000), "out": reals(5000)}
    made = launch([40], [128], (At("in"), At("out"), i32(5000), np.uint8(0)), arrays, ["out"])
    draft = drafted(FUNCTOR, captured("void map<float, Twice<float> >(T1 const*, T1*, int, T2)", made))
    assert step_of(draft).args == ("in", "out", "n", ValueArg(0, "uint8"))
    admitted(draft, FUNCTOR, judge)


PICKED = """
struct item { int place; double share; };
__global__ void pick(const item *items, const float *from, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = from[items[i].place] * items[i].share;
}
"""


def test_elements_that_are_structs_of_several_types(judge: AdmittingJudge) -> None:
    """Nothing is recorded of their values: they are made from the kernel's text."""
    arrays = {"items": np.zeros(16 * 3000, np.uint8), "from": reals(700), "out": reals(3000)}
    made = launch([24], [128], (At("items"), At("from"), At("out"), i32(3000)), arrays, ["out"])
    made = replace(made, buffers=(replace(made.buffers[0], before=None), *made.buffers[1:]))
    draft = drafted(PICKED, captured("pick", made))
    assert shapes(draft)["items"] == ("n", 16)
    items = draft.known.problem.buffers["items"]
    assert items.init is not None
    assert str(items.init.params["fields"]).startswith("int32 integers low=0 high=")
    assert admit(draft, PICKED, judge, draft.ladder).admitted


def test_pointer_that_is_null_in_some_launches_and_other_arguments_stay_open() -> None:
    made = saxpy(1000)
    null = replace(made, args=(*made.args[:2], CapturedArg("00" * 8), made.args[3]))
    wild = replace(made, args=(*made.args[:2], CapturedArg("70" * 8), made.args[3]))
    assert drafted(SAXPY, captured("saxpy", null, wild)).reasons == (Reason.NO_VALUE,)
    fewer = replace(made, args=made.args[:3])
    assert drafted(SAXPY, captured("saxpy", fewer)).reasons == (Reason.NO_VALUE,)


ROWS = """
__global__ void normalise(const float *x, float *y, int width) {
  __shared__ float sum;
  const float *own = x + (size_t)blockIdx.x * width;
  if (threadIdx.x == 0) {
    sum = 0;
    for (int i = 0; i < width; ++i) sum += own[i];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < width; i += blockDim.x) y[(size_t)blockIdx.x * width + i] = own[i] / sum;
}
"""


def test_rows_that_no_argument_counts_are_those_of_the_grid(judge: AdmittingJudge) -> None:
    arrays = {"x": reals(50 * 300), "y": reals(50 * 300)}
    made = launch([50], [128], (At("x"), At("y"), i32(300)), arrays, ["y"])
    draft = drafted(ROWS, captured("normalise", made))
    assert shapes(draft) == {"x": ("width*blocks_x",), "y": ("width*blocks_x",)}
    assert step_of(draft).grid == ("blocks_x",)
    admitted(draft, ROWS, judge)


def test_grid_of_clusters_stays_a_multiple_of_them() -> None:
    arrays = {"x": reals(5000), "y": reals(5000)}
    args = (i32(5000), np.float32(2.5), At("x"), At("y"))
    made = launch([20], [128], args, arrays, ["y"], cluster=(2, 1, 1))
    step = step_of(drafted(SAXPY.replace("blockDim.x +", "256 / 2 +"), captured("saxpy", made)))
    assert (step.grid, step.cluster) == (("2*(ceil_div(n, 512))",), (2,))


BATCH = """
__global__ void add(const float *x, const float *bias, float *y, int batch, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float *from = x + blockIdx.y * n;
  float *to = y + (batch - 1 - blockIdx.y) * n;
  to[i] = from[i] + bias[blockIdx.y];
}
"""


def test_small_argument_is_a_size_where_it_explains_an_extent(judge: AdmittingJudge) -> None:
    arrays = {"x": reals(6 * 400), "bias": reals(6), "y": reals(6 * 400)}
    args = (*map(At, arrays), i32(6), i32(400))
    draft = drafted(BATCH, captured("add", launch([2, 6], [256], args, arrays, ["y"])))
    assert shapes(draft) == {"x": ("n*batch",), "bias": (6,), "y": ("n*batch",)}
    assert step_of(draft).grid == ("ceil_div(n, 256)", "batch")
    assert draft.known.problem.sizes.headline == {"n": 400, "batch": 6}
    admitted(draft, BATCH, judge)


BITONIC = """
__global__ void step(int *a, int j, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ j;
  if (other > i && ((i & k) == 0) == (a[i] > a[other])) { int t = a[i]; a[i] = a[other]; a[other] = t; }
}
"""


def test_arguments_of_a_loop_of_launches_are_no_sizes(judge: AdmittingJudge) -> None:
    values = RNG.integers(0, 1000, 1 << 15, dtype=np.int32)
    steps = [(j, k) for k in (2, 4, 8) for j in (1, 2, 4) if j < k]
    made = [launch([128], [256], (At("a"), i32(j), i32(k)), {"a": values}, ["a"]) for j, k in steps]
    draft = drafted(BITONIC, captured("step", *made))
    assert shapes(draft) == {"a": ("a_count",)}
    assert step_of(draft).grid == ("ceil_div(a_count, 256)",)
    admitted(draft, BITONIC, judge)


STEPPED = """
__global__ void decay(float *x, const float *rate, int steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = x[i];
  for (int k = 0; k < steps; ++k) sum += sum * rate[i] * 0.01f;
  x[i] = sum;
}
"""


def test_tolerance_has_the_number_that_the_program_passed(judge: AdmittingJudge) -> None:
    arrays = {"x": reals(5000), "rate": reals(5000)}
    made = launch([40], [128], (At("x"), At("rate"), i32(200), i32(5000)), arrays, ["x"])
    draft = drafted(STEPPED, captured("decay", made))
    assert step_of(draft).args == ("x", "rate", ValueArg(200, "int32"), "n")
    tolerance = draft.known.problem.buffers["x"].tolerance
    assert tolerance is not None and tolerance.terms == "200"
    admitted(draft, STEPPED, judge)


PARTLY = """
__global__ void relax(const unsigned *next, int *cost, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && next[i] % 2) cost[i] = (int)next[i];
}
"""


def test_output_that_is_partly_written_starts_with_what_it_held(judge: AdmittingJudge) -> None:
    arrays = {"next": RNG.integers(0, 1000, 4000).astype(np.uint32), "cost": np.full(4000, -1, np.int32)}
    made = launch([32], [128], (At("next"), At("cost"), i32(4000)), arrays, ["cost"])
    draft = drafted(PARTLY, captured("relax", made))
    cost = admitted(draft, PARTLY, judge).draft.known.problem.buffers["cost"]
    assert cost.role == "inout"
    assert cost.init is not None
    assert (cost.init.kind, cost.init.params) == ("constant", {"value": -1})


def test_memory_that_nothing_was_written_to_holds_a_guess() -> None:
    empty = np.frombuffer(b"\x71\x3c\x9f\x74", np.float32)  # 1e32, which is a whole number
    made, comment = plain(described(empty, "float32"), Element("float32"))
    assert made == Init("uniform", {"low": -1, "high": 1}) and "nothing was written" in comment
    whole = described(np.array([3.0, 9.0, 1.0, 1.0], np.float32), "float32")
    assert plain(replace(whole, init=None), Element("float32"))[0] == Init("integers", {"low": 1, "high": 10})
