"""Structs of numbers that a kernel takes by value."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kcurate.cuda_source.semantics.code_index import Code
from kcurate.draft.inferred import struct_numbers
from kcurate.draft.sketch import Reason
from kcurate.draft.stage import FORM_NAME, DraftConfig, draft
from kcurate.extract.stage import ExtractConfig, run
from kcurate.problem import c_types as types
from kcurate.problem.dtypes import pack_struct
from kcurate.records import BufferArg, Init, PointersArg, Scalar, StructField, ValueArg
from tests.draft.inferred import inferred, launched

GRID = """
#include <cstdlib>
struct Box { int nx, ny; };
struct Params { Box box; double gain; float shift[2]; bool wrap; int seed; };
__device__ int at(const Params &q, int x, int y) { return y * q.box.nx + x; }
__global__ void blend(Params p, const double *in, double *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= p.box.nx || y >= p.box.ny) return;
  out[at(p, x, y)] = p.gain * in[y * p.box.nx + x] + p.shift[0] + (p.wrap ? 1 : 2);
}
int main(int argc, char **argv) {
  Params params;
  params.box.nx = atoi(argv[1]);
  params.box.ny = atoi(argv[2]);
  params.gain = 1.25;
  double *a, *b;
  cudaMalloc(&a, params.box.nx * params.box.ny * sizeof(double));
  cudaMalloc(&b, params.box.nx * params.box.ny * sizeof(double));
  blend<<<dim3((params.box.nx + 127) / 128, params.box.ny), 128>>>(params, a, b);
}
"""


def test_members_become_sizes_and_values() -> None:
    draft = inferred(GRID)
    problem = draft.known.problem
    scalar = problem.scalars["p"]
    assert isinstance(scalar, Scalar)
    assert scalar.dtype == (
        StructField("box_nx", "int32"), StructField("box_ny", "int32"), StructField("gain", "float64"),
        StructField("shift_0", "float32"), StructField("shift_1", "float32"), StructField("wrap", "bool"),
        StructField("seed", "int32"),
    )  # fmt: skip
    assert isinstance(scalar.value, dict)
    assert {name: scalar.value[name] for name in ("gain", "shift_0", "seed")} == {
        "gain": 1.25, "shift_0": struct_numbers.GUESSED_REALS[0], "seed": 1,
    }  # fmt: skip
    names = {scalar.value["box_nx"], scalar.value["box_ny"]}
    assert names <= problem.sizes.test[0].keys(), "they count elements"
    assert not any(remark.open for remark in draft.remarks)
    (guess,) = (remark.text for remark in draft.remarks if remark.place == "scalars.p")
    assert guess == "guess: shift_0, shift_1, seed"


@pytest.mark.parametrize(
    "declared",
    [
        "struct A { double d; int i; }; struct P { A a; int n; };",
        "struct A { int i; }; struct P : A { int n; };",
        "struct P { int n : 4; int m : 28; };",
        "struct P { int n; virtual int f(); };",
        "struct P { float4 a; float b; };",
        "struct P { int n; Other o; };",
        "struct P { union { int a; float b; }; int n; };",
        "struct P;",
    ],
)
def test_what_a_plan_cannot_pack_stays_open(declared: str) -> None:
    draft = inferred(
        f"{declared}\n__global__ void k(P p, float *x) {{ x[threadIdx.x] = 1; }}\n"
        "void run(P p) { float *x; cudaMalloc(&x, 256); k<<<1, 64>>>(p, x); }"
    )
    assert [one.reason for one in draft.remarks if one.place == "scalars.p"] == [Reason.STRUCT_ARGUMENT]


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        ("struct P { int n; __device__ int twice() const { return 2 * n; } };", {"n": "p_n"}),
        ("struct __align__(16) P { float x, y; int n; };", {"x": 0.5, "y": 0.75, "n": "p_n"}),
        ("enum E { A, B }; struct P { struct In { int a; }; E e; int n; };", {"e": 1, "n": "p_n"}),
    ],
)
def test_a_member_named_like_a_component_or_alone_is_a_member(declared: str, given: object) -> None:
    draft = inferred(
        f"{declared}\n__global__ void k(P p, float *x) {{ if (threadIdx.x < p.n) x[threadIdx.x] = 1; }}\n"
        "void run(P p) { float *x; cudaMalloc(&x, p.n * 4); k<<<1, 64>>>(p, x); }"
    )
    assert draft.known.problem.scalars["p"].value == given


LAYOUTS = {
    "Plain": "struct Plain { char c; double d; short s; int i; };",
    "Nested": "struct In { short s[3]; char c; }; struct Nested { In a[2]; long long n; In b; };",
    "Vectors": "struct Vectors { float3 a; int i; float2 b; };",
    "Statics": "struct Statics { static const int N = 4; int a[N]; int f(int x) { return x; } float b; };",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_offsets_are_those_of_a_compiler(name: str, tmp_path: Path) -> None:
    code = LAYOUTS[name]
    inside = types.layout(name, {"N": "4"}, code)
    assert inside is not None
    lines = [f'  printf("%zu ", (size_t)&((({name} *)0)->{one.path}));' for one in inside]
    vectors = "struct float3 { float x, y, z; }; struct alignas(8) float2 { float x, y; };"
    (tmp_path / "main.cpp").write_text(
        "\n".join(
            [
                "#include <cstdio>",
                vectors,
                code,
                "int main() {",
                *lines,
                f'  printf("%zu", sizeof({name}));',
                "}",
            ]
        )
    )
    subprocess.run(["g++", "main.cpp", "-o", "main", "-w"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    *offsets, size = map(int, said.split())
    assert [one.at for one in inside] == offsets
    assert types.size_of(inside) == size
    assert len(pack_struct([one.field for one in inside], {one.field.name: 1 for one in inside})) == size


EDGES = """
#include <cstdlib>
struct Edge { int to; float weight; };
__global__ void gather(const Edge *edges, const float *value, float *out, int n, int nodes) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = 0; k < 4; k++) {
    Edge edge = edges[4 * i + k];
    sum += value[edge.to] * edge.weight;
  }
  out[i] = sum;
}
int main(int argc, char **argv) {
  int n = atoi(argv[1]), nodes = atoi(argv[2]);
  Edge *e; float *v, *o;
  cudaMalloc(&e, 4 * n * sizeof(Edge));
  cudaMalloc(&v, nodes * sizeof(float)); cudaMalloc(&o, n * sizeof(float));
  gather<<<(n + 127) / 128, 128>>>(e, v, o, n, nodes);
}
"""
BODIES = """
#include <cstdlib>
struct Where { int cell; double since; char kind; };
struct Body { float at[3]; Where last; double mass; };
__global__ void move(Body *bodies, const float *field, int n, int cells) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) bodies[i].at[1] += field[bodies[i].last.cell] / bodies[i].mass;
}
int main(int argc, char **argv) {
  int n = atoi(argv[1]), cells = atoi(argv[2]);
  Body *b; float *f;
  cudaMalloc(&b, n * sizeof(Body)); cudaMalloc(&f, cells * sizeof(float));
  move<<<(n + 127) / 128, 128>>>(b, f, n, cells);
}
"""


def test_elements_that_are_structs_are_rows_of_bytes_with_a_generator_a_member() -> None:
    """A member that indexes another buffer stays inside it, also by way of a copy of the struct."""
    edges = inferred(EDGES).known.problem.buffers["edges"]
    assert (edges.dtype, edges.shape, edges.role) == ("uint8", ("4*n", 8), "in")
    fields = "int32 integers low=0 high=nodes; float32 uniform low=-1 high=1"
    assert edges.init == Init("records", {"fields": fields})
    moved = inferred(BODIES)
    bodies = moved.known.problem.buffers["bodies"]
    assert (bodies.shape, bodies.role) == (("n", 48), "inout")
    assert bodies.init is not None
    kinds = [field.split(" low")[0] for field in str(bodies.init.params["fields"]).split("; ")]
    assert kinds == [
        *["float32 uniform"] * 3, "uint8*4 zeros", "int32 integers", "uint8*4 zeros", "float64 uniform",
        "int8 integers", "uint8*7 zeros", "float64 uniform",
    ]  # fmt: skip
    assert "int32 integers low=0 high=cells" in str(bodies.init.params["fields"])
    assert any("byte by byte" in remark.text for remark in moved.remarks)


def test_kernels_over_structs_are_admitted(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    for name, code in (("edges", EDGES), ("bodies", BODIES)):
        (tmp_path / f"tree/{name}.cu").write_text(code)
    run(ExtractConfig((tmp_path / "tree",), tmp_path / "work"))
    assert draft(DraftConfig(tmp_path / "work")).counts["kernels"] == {"admitted": 2}


@pytest.mark.parametrize(
    "declared",
    [
        "struct __align__(16) P { float x; int n; };",
        "struct P { float x; int n; } __attribute__((packed));",
        "struct P { float x; int *n; };",
    ],
)
def test_elements_whose_size_or_content_no_plan_makes_stay_open(declared: str) -> None:
    found = inferred(
        f"{declared}\n__global__ void k(const P *p, char *x) {{ x[threadIdx.x] = ((char *)p)[0]; }}\n"
        "void run(P *p) { char *x; cudaMalloc(&x, 64); k<<<1, 64>>>(p, x); }"
    )
    assert [one.reason for one in found.remarks if one.place == "buffers.p.dtype"] == [Reason.STRUCT_ELEMENTS]


@pytest.mark.parametrize(
    "own",
    [
        "struct Add { __device__ double operator()(double a, double b) { return a + b; } };",
        "template <typename T> struct Add { __device__ T operator()(T a, T b) { return a + b; } };",
    ],
)
def test_functor_without_data_is_a_byte(own: str) -> None:
    name = "Add<double>" if "template" in own else "Add"
    code = f"""{own}
template <typename F> __global__ void sum(const double *in, double *out, int n, F op) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = op(in[i], 1.0);
}}
void run(int n, double *in, double *out) {{
  sum<{name}><<<(n + 63) / 64, 64>>>(in, out, n, {name}());
}}
"""
    draft = inferred(code)
    assert launched(draft).args == ("in", "out", "n", ValueArg(0, "uint8"))
    assert set(draft.known.problem.sizes.headline) == {"n"} and not draft.known.problem.scalars


VIEW = """
struct Grid { int width; float *cells; int height, rest; };
struct View { const float *x; Grid out; float scale; const int *unread; };
__global__ void fill(View v, int from) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (col < v.out.width && row < v . out.height)
    v.out.cells[row * v.out.width + col] = v.scale * v.x[col] + from;
}
int main(int argc, char **argv) {
  View view;
  view.out.width = atoi(argv[1]);
  view.out.height = atoi(argv[2]);
  view.scale = 0.25f;
  cudaMalloc(&view.x, view.out.width * sizeof(float));
  cudaMalloc((void **)&view.out.cells, view.out.width * view.out.height * sizeof(float));
  fill<<<dim3((view.out.width + 127) / 128, view.out.height), 128>>>(view, 3);
}
"""


def test_a_struct_may_hold_pointers_and_numbers() -> None:
    draft = inferred(VIEW)
    problem = draft.known.problem
    assert {name: one.role for name, one in problem.buffers.items()} == {"v_x": "in", "v_out_cells": "out"}
    assert launched(draft).args == (
        PointersArg((BufferArg("v_x"), BufferArg("v_out_cells")), (0, 16), "v"),
        ValueArg(3, "int32"),
    )
    assert problem.scalars.keys() == {"v"}
    scalar = problem.scalars["v"]
    assert isinstance(scalar.dtype, tuple) and pack_struct(
        scalar.dtype, dict.fromkeys(scalar.value, 0)
    ) == bytes(48)
    assert isinstance(scalar.value, dict)
    assert {scalar.value["out_width"], scalar.value["out_height"]} <= set(problem.sizes.headline)
    assert (scalar.value["scale"], scalar.value["x"], scalar.value["unread"]) == (0.25, 0, 0)
    assert not draft.reasons


SOA = """
struct Arrays { int *up; int *down; };
__global__ void shift(Arrays a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a.up[i] = a.down[i] + 1;
}
void run(Arrays arrays, int n) { shift<<<(n + 63) / 64, 64>>>(arrays, n); }
"""


def test_a_struct_of_pointers_alone_has_no_scalar() -> None:
    draft = inferred(SOA)
    assert launched(draft).args == (PointersArg((BufferArg("a_up"), BufferArg("a_down"))), "n")
    assert not draft.known.problem.scalars and not draft.reasons


MATRIX = """
struct Matrix { int width, height, stride; float *elements; };
__device__ float get(const Matrix A, int row, int col) { return A.elements[row * A.stride + col]; }
__device__ Matrix below(Matrix A, int row) {
  Matrix part = A;
  part.elements = &A.elements[row * A.stride];
  return part;
}
__global__ void doubled(Matrix A, Matrix C) {
  int row = blockIdx.x, col = blockIdx.y * blockDim.x + threadIdx.x;
  if (col < A.width) below(C, row).elements[col] = 2 * get(A, row, col) + col;
}
void run(const Matrix A, Matrix C) {
  Matrix d_A, d_C;
  d_A.width = d_A.stride = A.width; d_A.height = A.height;
  d_C.width = d_C.stride = C.width; d_C.height = C.height;
  cudaMalloc(&d_A.elements, A.width * A.height * sizeof(float));
  cudaMalloc(&d_C.elements, C.width * C.height * sizeof(float));
  doubled<<<dim3(A.height, (A.width + 63) / 64), 64>>>(d_A, d_C);
}
"""


@pytest.mark.parametrize("source", [GRID, VIEW, SOA, MATRIX])
def test_a_kernel_with_a_struct_is_admitted(source: str, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/main.cu").write_text(source)
    run(ExtractConfig((tmp_path / "tree",), tmp_path / "work"))
    summary = draft(DraftConfig(tmp_path / "work"))
    assert summary.counts["kernels"] == {"admitted": 1}, next(
        (tmp_path / "work").rglob(FORM_NAME)
    ).read_text()


def test_pointers_of_a_struct_that_is_passed_on_may_be_read_and_written() -> None:
    draft = inferred(MATRIX)
    roles = {name: (one.role, one.shape) for name, one in draft.known.problem.buffers.items()}
    assert roles == {
        "A_elements": ("inout", ("A_height*A_width",)), "C_elements": ("inout", ("C_height*C_width",))
    }  # fmt: skip
    scalar = draft.known.problem.scalars["A"].value
    assert scalar == {"width": "A_width", "height": "A_height", "stride": "A_width", "elements": 0}


def test_a_struct_one_of_whose_members_has_a_name_that_is_taken_stays_open() -> None:
    source = SOA.replace("a.up[i] = a.down[i] + 1;", "{ int a_up = 3; a.up[i] = a_up; }")
    assert Reason.STRUCT_ARGUMENT in inferred(source).reasons


HELD = """
struct S { float *x; const float *y; int n; float **rows; float a; };
__global__ void k(const __grid_constant__ S v) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < v.n) v.x[i] = v.a * v.y[i] + 1;
}
int main() {
  int n = 1 << 20;
  float *x, *y;
  cudaMalloc(&x, 2 * n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  GIVEN
  k<<<(n + 255) / 256, 256>>>(v);
}
"""


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("S v; v.x = x; v.y = y; v.n = n; v.a = 2.5f;", ("v_x", "v_y")),
        ("S v = {x, y, n, nullptr, 2.5f};", ("v_x", "v_y")),
        ("S v{.x = x, .y = y, .n = n, .a = 2.5f};", ("v_x", "v_y")),
        ("S v; v.x = x; v.y = x; v.n = n; v.a = 2.5f;", ("v_x", "v_x")),
        ("S v; v.x = x + n; v.y = y; v.n = n; v.a = 2.5f;", (BufferArg("v_x", "n"), "v_y")),
    ],
)
def test_what_the_host_puts_into_a_struct_is_what_the_members_are(
    given: str, meant: tuple[object, ...]
) -> None:
    draft = inferred(HELD.replace("GIVEN", given))
    (arg,) = launched(draft).args
    wanted = tuple(BufferArg(one) if isinstance(one, str) else one for one in meant)
    assert isinstance(arg, PointersArg) and (arg.pointers, arg.at) == (wanted, (0, 8))
    problem = draft.known.problem
    scalar = problem.scalars["v"]
    assert isinstance(scalar.dtype, tuple) and [one.dtype for one in scalar.dtype] == [
        "uint64", "uint64", "int32", "uint64", "float32"
    ]  # fmt: skip
    assert scalar.value == {"x": 0, "y": 0, "n": "n", "rows": 0, "a": 2.5}
    assert problem.buffers["v_x"].shape == ("2*n",) and problem.sizes.headline == {"n": 1 << 20}


@pytest.mark.parametrize("alias", ["using Fp = float *;", "#define Fp float *"])
def test_a_name_for_a_pointer_is_a_pointer(alias: str) -> None:
    code = f"{alias}\nstruct S {{ int n; Fp z; float a; }};"
    host = Code(code.encode())
    names = {**host.types, **host.macros}
    found = types.layout("S", names, host.text, pointers=True)
    assert found is not None and [(one.at, bool(one.pointer)) for one in found] == [
        (0, False),
        (8, True),
        (16, False),
    ]
    assert types.layout("S", names, host.text) is None


@pytest.mark.parametrize(
    "declared",
    [
        "struct S { double u[200][200][200]; int n; };",
        "struct S { int n; float (*f)(float, int); float *x; };",
        "struct S { int n; float (*x)[4]; };",
        "struct S { struct In { int a; float *x; } in; int n; };",
        "struct S { char c; char d __attribute__((aligned(2))); };",
        "struct A { struct In { int a; }; In q; }; struct S { struct In { float b; }; In q; };",
    ],
)
def test_what_a_plan_does_not_pack_has_no_layout(declared: str) -> None:
    assert types.layout("S", {}, declared, pointers=True) is None


def test_a_member_of_an_array_typedef_is_laid_out_as_an_array_is() -> None:
    """Not as `float2`, which has an alignment of its own and members `x` and `y`."""
    code = "typedef float v2[2]; struct S { int a; v2 b; };"
    struct = types.pointee("S*", {"v2": "float[2]"}, code)
    assert struct is not None
    assert struct.lanes == 12
    assert struct.fields == (("a", "int32"), ("b[0]", "float32"), ("b[1]", "float32"))
