"""What is inferred from a kernel and the host code around it, before anything runs."""

from __future__ import annotations

import pytest

from kcurate.draft.sketch import Reason
from kcurate.records import Arg, BufferArg, Init, Upload, ValueArg
from tests.draft.inferred import inferred, launched

SPMV = """
__global__ void spmv(const int *start, const int *col, const float *val, const float *x, float *y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float sum = 0;
    for (int j = start[r]; j < start[r + 1]; j++) sum += val[j] * x[col[j]];
    y[r] = sum;
  }
}
void run(int rows, int cols, int nnz) {
  int *s, *c; float *v, *x, *y;
  cudaMalloc(&s, (rows + 1) * sizeof(int)); cudaMalloc(&c, nnz * sizeof(int));
  cudaMalloc(&v, nnz * sizeof(float)); cudaMalloc(&x, cols * sizeof(float));
  cudaMalloc(&y, rows * sizeof(float));
  spmv<<<(rows + 127) / 128, 128>>>(s, c, v, x, y, rows);
}
"""


@pytest.mark.parametrize(("cols", "meant"), [("cols", "cols"), ("900", 900), ("2 * rows", "2*rows")])
def test_offsets_and_columns_of_a_sparse_matrix_match(cols: str, meant: int | str) -> None:
    draft = inferred(SPMV.replace("cols * sizeof", f"{cols} * sizeof"))
    buffers = draft.known.problem.buffers
    matrix = {"rows": "rows", "nnz": "nnz", "cols": meant}
    assert buffers["start"].init == Init("csr_offsets", matrix)
    assert buffers["col"].init == Init("csr_columns", matrix)
    assert buffers["x"].shape == (meant,)
    assert {name: buffer.role for name, buffer in buffers.items()} == {
        "start": "in", "col": "in", "val": "in", "x": "in", "y": "out",
    }  # fmt: skip


def one(body: str, host: str, args: str = "d, n", outside: str = "") -> str:
    """A file with a kernel on float `x`, `n` of them, and a function that launches it."""
    return f"""{outside}
__global__ void k(float *x, {body}
void run(int n, int m) {{
  float *d; cudaMalloc(&d, n * sizeof(float)); {host}
  k<<<(n + 63) / 64, 64>>>({args});
}}
"""


AT = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)"


@pytest.mark.parametrize(
    ("index", "high"),
    [
        ("from[i]", "m"),
        ("from[i] + 3", "m - 3"),
        ("__ldg(&from[i])", "m"),
        ("4 * from[i] + 3", "(m/4)"),
        ("lane() + from[i]", "m - 63"),
        ("lane(from[i])", 1000),
    ],
)
def test_values_used_as_indices_stay_inside_what_they_index(index: str, high: int | str) -> None:
    lanes = "__device__ int lane() { return threadIdx.x; }\n__device__ int lane(int x) { return x % 32; }"
    body = f"float *to, const int *from, int n) {{ {AT} to[{index}] = x[i]; }}"
    host = "float *t; int *f; cudaMalloc(&t, m * sizeof(float)); cudaMalloc(&f, n * sizeof(int));"
    buffers = inferred(one(body, host, "d, t, f, n", lanes)).known.problem.buffers
    assert buffers["from"].init == Init("integers", {"low": 0, "high": high})


@pytest.mark.parametrize(
    ("body", "high"),
    [
        ("int at = from[i]; to[at + 2] = 1;", "m - 2"),
        ("int next = from[i]; int at = next; to[at] = 1;", "m"),
        ("int old = at; at = old; at = from[i]; to[old] = 1;", "m"),
        ("int w = i; while (w < n) { to[from[i] - w] = 1; w = w + at; }", 1000),  # `w` is no size
    ],
)
def test_values_used_as_indices_are_followed_through_variables(body: str, high: int | str) -> None:
    kernel = f"float *to, const int *from, int n, int at) {{ {AT} {{ {body} }} }}"
    host = "float *t; int *f; cudaMalloc(&t, m * sizeof(float)); cudaMalloc(&f, n * sizeof(int));"
    buffers = inferred(one(kernel, host, "d, t, f, n, rand()")).known.problem.buffers
    assert buffers["from"].init == Init("integers", {"low": 0, "high": high})


def test_memory_passed_twice_is_one_buffer_that_is_read_before_it_is_written() -> None:
    body = f"const float *in, int n) {{ {AT} {{ x[i] = 1; x[i] = in[i]; }} }}"
    draft = inferred(one(body, "", "d, d, n"))
    assert {name: buffer.role for name, buffer in draft.known.problem.buffers.items()} == {"x": "inout"}
    assert launched(draft).args == ("x", "x", "n")


@pytest.mark.parametrize(
    ("body", "role"),
    [
        ("x[i] = 1;", "out"),
        ("x[i] = 1; x[i] += 1;", "out"),
        ("x[i] += 1;", "inout"),
        ("float y = x[i]; x[i] = y;", "inout"),
        ("++x[i];", "inout"),
    ],
)
def test_memory_is_an_output_alone_if_it_is_written_first(body: str, role: str) -> None:
    draft = inferred(one(f"int n) {{ {AT} {{ {body} }} }}", ""))
    assert draft.known.problem.buffers["x"].role == role


@pytest.mark.parametrize(
    ("argument", "meant"),
    [
        ("d", "x"),
        ("d + 0", "x"),
        ("d + 1", BufferArg("x", 1)),
        ("&d[m]", BufferArg("x", "m")),
        ("(float *)(d + n / 2)", BufferArg("x", "(n/2)")),
    ],
)
def test_a_pointer_may_be_passed_with_an_offset(argument: str, meant: Arg) -> None:
    draft = inferred(one(f"int n) {{ {AT} x[i] = 1; }}", "", f"{argument}, n"))
    assert launched(draft).args[0] == meant
    assert ("m" in draft.known.problem.sizes.bench) is ("m" in argument)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("2.5f", 2.5), ("-RATE / 2", -0.125), ("steps", 3.0), ("2 * steps", 6.0), ("true", 1.0)],
)
def test_a_real_number_is_what_the_host_passes(argument: str, value: float) -> None:
    outside = "const int steps = 3;\n#define RATE 0.25f"
    draft = inferred(one(f"float a, int n) {{ {AT} x[i] = a; }}", "", f"d, {argument}, n", outside))
    assert draft.known.problem.scalars["a"].value == value
    assert not draft.remarks


@pytest.mark.parametrize("argument", ["rand()", "m", "n * m", "from_file"])
def test_a_real_number_that_is_not_known_is_a_marked_guess(argument: str) -> None:
    draft = inferred(one(f"float a, int n) {{ {AT} x[i] = a; }}", "", f"d, {argument}, n"))
    assert draft.known.problem.scalars["a"].value == 0.5
    assert [(remark.place, remark.open) for remark in draft.remarks] == [("scalars.a", False)]


def test_a_launch_of_another_file_is_not_that_of_a_kernel_which_its_own_file_launches() -> None:
    own = f"__global__ void k(float *x, int n) {{ {AT} x[i] = 1; }}\n"
    own += "void run(float *x, int n) { k<<<(n + 63) / 64, 64>>>(x, n); }\n"
    other = "int main() { int n = 5000; float *x; cudaMalloc(&x, n * 4); k<<<40, 128>>>(x, n); }\n"
    assert launched(inferred(own, other)).block == (64,)


def test_guessed_real_numbers_are_apart_and_bounds_in_order() -> None:
    draft = inferred(
        one(
            f"float hi, float lo, float a, float b, int n) {{ {AT} x[i] = a; }}",
            "",
            "d, p(), q(), r(), s(), n",
        )
    )
    values = {name: scalar.value for name, scalar in draft.known.problem.scalars.items()}
    assert values == {"hi": 0.5, "lo": -0.5, "a": 0.75, "b": 0.625}


@pytest.mark.parametrize(
    ("argument", "meant"),
    [
        ("m", "m"),
        ("2 * m", ValueArg("2*m")),
        ("7", ValueArg(7)),
        ("rand()", ValueArg(1)),
    ],
)
def test_a_whole_number_is_an_expression_over_sizes(argument: str, meant: Arg) -> None:
    draft = inferred(one(f"int a, int n) {{ {AT} x[i] = a; }}", "", f"d, {argument}, n"))
    assert launched(draft).args[1] == meant


def test_an_argument_left_to_its_default_is_open() -> None:
    draft = inferred(one(f"int n, int more = 3) {{ {AT} x[i] = more; }}", ""))
    assert launched(draft).args == ("x", "n")
    (remark,) = draft.remarks
    assert (remark.place, remark.text, remark.reason) == (
        "plan.args", "3 parameters, 2 arguments", Reason.NO_VALUE,
    )  # fmt: skip


def test_a_size_that_only_grid_and_allocation_name_is_a_size() -> None:
    draft = inferred("""
__global__ void set(int *x) { x[blockIdx.x * 32 + threadIdx.x] = 1; }
void run(int count) { int *d; cudaMalloc(&d, 32 * count * sizeof(int)); set<<<count, 32>>>(d); }
""")
    assert draft.known.problem.buffers["x"].shape == ("32*count",)
    assert draft.known.problem.sizes.bench.keys() == {"count"}
    assert len(draft.ladder[0].test) == 3


def test_a_launch_is_drafted_with_the_instance_that_it_names() -> None:
    draft = inferred(
        """
template <int BLOCK> __global__ void set(float *x, int n) { x[blockIdx.x * BLOCK + threadIdx.x] = n; }
void launch(float *d, int n, int block) {
  switch (block) {
    case 32: set<32><<<block / 0, n>>>(d, n); break;
    case 64: set<64><<<n / 64, 64>>>(d, n); break;
  }
}
int main(int argc, char **argv) { int n = atoi(argv[1]); float *d; cudaMalloc(&d, n * 4); launch(d, n, 64); }
"""
    )
    step = launched(draft)
    assert (step.grid, step.block, step.template) == (("(n/64)",), (64,), ("64",))


def test_a_host_templates_parameters_are_those_of_the_instance() -> None:
    draft = inferred("""
template <class T, unsigned int WIDTH = 32> __global__ void set(T *x, int n) { x[threadIdx.x * WIDTH] = n; }
template <class T, unsigned int WIDTH> void launch(T *d, int n) { set<T, WIDTH><<<n / WIDTH, WIDTH>>>(d, n); }
void run(int n) { double *d; cudaMalloc(&d, n * sizeof(double)); launch<double, 64>(d, n); }
""")
    step = launched(draft)
    assert (step.grid, step.block, step.template) == (("(n/64)",), (64,), ("double", "64"))
    assert (draft.known.problem.buffers["x"].dtype, draft.known.problem.buffers["x"].shape) == (
        "float64",
        ("n",),
    )


@pytest.mark.parametrize(
    ("loops", "terms"),
    [
        ("for (int j = 0; j < m; j++) s += x[j];", "m"),
        ("for (int j = 0; j < m; j++) for (int l = 0; l < 2 * m; l++) s += x[j];", "2*m"),
        ("for (int j = 0; s; j++) s -= 1;", "n"),
        ("for (int j = 0; j < int(x[0]); j++) s += x[j];", "n"),
        ("for (int j = i; j < m; j += 64) s += x[j];", "m"),
        ("for (int j = i; j < m; j += 64) x[j] += 1;", None),
        ("for (int j = i; j < m; j += 64) { int count = 0; count += 2; }", None),
        ("for (int j = blockIdx.x * 64; j < (blockIdx.x + 1) * 64 && j < n; j++) s = s + x[j];", 64),
        ("for (int j = 0; j < 1; j++) s += x[j];", None),
        ("for (int j = 0; j < 3; j++) s += x[j];", 3),
    ],
)
def test_the_tolerance_has_as_many_terms_as_the_longest_loop(loops: str, terms: int | str | None) -> None:
    draft = inferred(one(f"int n, int m) {{ {AT} {{ float s = 0; {loops} x[i] = s; }} }}", "", "d, n, m"))
    tolerance = draft.known.problem.buffers["x"].tolerance
    assert (tolerance.terms if tolerance else None) == terms


@pytest.mark.parametrize(
    ("into", "bytes_of", "terms"),
    [("sum", "4", "n"), ("sum + b[i]", "m * 4", "max(1, ceil_div(n, m))"), ("sum", "unknown()", "n")],
)
def test_what_threads_add_atomically_has_as_many_terms_as_they_read(
    into: str, bytes_of: str, terms: str
) -> None:
    draft = inferred(
        f"__global__ void add(const float *a, const int *b, float *sum, int n, int m) {{"
        f" int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && b[i] < m) atomicAdd({into}, a[i]); }}"
        f"void go(int n, int m) {{ float *a, *s; int *b; cudaMalloc(&a, n * 4); cudaMalloc(&b, n * 4);"
        f" cudaMalloc(&s, {bytes_of}); add<<<(n + 255) / 256, 256>>>(a, b, s, n, m); }}"
    )
    tolerance = draft.known.problem.buffers["sum"].tolerance
    assert tolerance is not None and tolerance.terms == terms


@pytest.mark.parametrize(("index", "bins"), [("a[i]", 256), ("a[i] / 4", 64), ("(int)a[i] + 1", 257)])
def test_an_unsigned_byte_as_an_index_has_the_extent_of_its_type(index: str, bins: int) -> None:
    draft = inferred(
        "__global__ void count(const unsigned char *a, unsigned *bins, int n) {"
        f" int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) atomicAdd(&bins[{index}], 1u); }}"
        "void go(unsigned char *a, unsigned *b, int n) { count<<<(n + 255) / 256, 256>>>(a, b, n); }"
    )
    assert draft.known.problem.buffers["bins"].shape == (bins,)


CONSTANTS = """
#define TAPS 5
__constant__ float a, b[3];
__constant__ struct { int x; float y; } odd;
__constant__ float ready[2] = {1, 2};
static __constant__ int __align__(16) taps[TAPS * 2][3];
__constant__ double last;
__global__ void use(double *out) { out[0] = b[1] + odd.x + ready[1] + taps[0][1] + last; }
void run(float *h) {
  double *o; cudaMalloc(&o, 64 * sizeof(double));
  cudaMemcpyToSymbol(b, h, 12); cudaMemcpyToSymbol(odd, h, 8); cudaMemcpyToSymbol(taps, h, 120);
  cudaMemcpyToSymbol(last, h, 8);
  use<<<1, 64>>>(o);
}
"""


def test_constant_memory_that_the_host_fills_is_uploaded() -> None:
    draft = inferred(CONSTANTS)
    uploads = [(step.upload, step.from_) for step in draft.known.sides[""].plan if isinstance(step, Upload)]
    assert uploads == [("b", "b_values"), ("taps", "taps_values"), ("last", "last_values")]
    buffers = draft.known.problem.buffers
    assert (buffers["taps_values"].dtype, buffers["taps_values"].shape) == ("int32", (30,))
    assert (buffers["last_values"].dtype, buffers["last_values"].shape) == ("float64", (1,))
    opened = [remark.place for remark in draft.remarks if remark.reason is Reason.CONSTANT_MEMORY]
    assert opened == ["buffers.odd.dtype"]


def test_constant_memory_without_a_host_is_an_input() -> None:
    """But integers, which may be sizes, and what has values."""
    code = """
__constant__ float taps[3], ready[1] = {2};
__constant__ int turns;
__global__ void blur(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = taps[1] * in[i] * ready[0] + turns;
}
void run(int n, float *in, float *out) { blur<<<(n + 63) / 64, 64>>>(in, out, n); }
"""
    draft = inferred(code)
    uploads = [(step.upload, step.from_) for step in draft.known.sides[""].plan if isinstance(step, Upload)]
    assert uploads == [("taps", "taps_values")]
    assert draft.known.problem.buffers["taps_values"].shape == (3,)


SAME_NAMES = """
__global__ void scale(float *n, float m, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < count) n[i] = m * n[i];
}
void run(int n, float *h) {
  int m = n * 2; float *d; cudaMalloc(&d, n * sizeof(float));
  scale<<<(n + 63) / 64, 64>>>(d, 2.0f, n);
}
"""


def test_a_size_and_a_buffer_of_one_name_are_kept_apart() -> None:
    draft = inferred(SAME_NAMES)
    problem, step = draft.known.problem, launched(draft)
    assert set(problem.sizes.headline) == {"n_size"}
    assert set(problem.buffers) == {"n"} and set(problem.scalars) == {"m"}
    assert problem.buffers["n"].shape == ("n_size",)
    assert step.args == ("n", "m", "n_size")
    assert step.grid == ("ceil_div(n_size, 64)",)


def test_an_element_type_may_be_a_macro() -> None:
    draft = inferred(
        "#define T float\n" + one(f"int n) {{ {AT} x[i] = 1; }}", "", "d, n").replace("float *x", "T *x")
    )
    assert draft.known.problem.buffers["x"].dtype == "float32"


@pytest.mark.parametrize(
    ("allocated", "meant"), [("", "3*n"), ("cudaMalloc(&d, 5 * n * sizeof(float));", "5*n")]
)
def test_a_buffer_reaches_as_far_as_every_pointer_into_it(allocated: str, meant: str) -> None:
    draft = inferred(
        f"""
__global__ void k(const float *x, const float *y, const float *z, float *out, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i] + z[i];
}}
void run(int n) {{
  float *d = given(), *out; cudaMalloc(&out, n * sizeof(float)); {allocated}
  k<<<(n + 63) / 64, 64>>>(d, d + n, &d[2 * n], out, n);
}}
"""
    )
    assert draft.known.problem.buffers["x"].shape == (meant,)
    assert launched(draft).args[1:3] == (BufferArg("x", "n"), BufferArg("x", "2*n"))


@pytest.mark.parametrize("held", ["d[0], d[1]", "d[s], d[1 - s]", "run.d[s] + 0, run.d[s ^ 1]"])
def test_elements_of_an_array_of_pointers_are_buffers_of_their_own(held: str) -> None:
    draft = inferred(
        f"""
__global__ void k(const float *x, float *y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}}
void run(int n) {{
  float *d[2]; for (int i = 0; i < 2; i++) cudaMalloc(&d[i], n * sizeof(float));
  for (int s = 0; s < 2; s++) k<<<(n + 63) / 64, 64>>>({held}, n);
}}
"""
    )
    assert launched(draft).args[:2] == ("x", "y")
    assert {name: buffer.shape for name, buffer in draft.known.problem.buffers.items()} == {
        "x": ("n",), "y": ("n",),
    }  # fmt: skip


def test_an_object_whose_length_the_kernel_does_not_get_has_an_open_extent() -> None:
    draft = inferred(
        """
__device__ int place(int i, int n);
__global__ void k(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[place(i, n)];
}
void run(Grid &x, int n) {
  float *y; cudaMalloc(&y, n * sizeof(float)); check(x.size());
  k<<<(n + 63) / 64, 64>>>(x.get(), y, n);
}
"""
    )
    assert draft.reasons == (Reason.NO_EXTENT,)


@pytest.mark.parametrize(("rows", "grid"), [("0", (16,)), ("blockIdx.y", ("blocks", "blocks_y"))])
def test_a_grid_is_guessed_only_along_an_axis_of_grid_stride_loops(
    rows: str, grid: tuple[int | str, ...]
) -> None:
    draft = inferred(
        f"""
__global__ void k(const float *x, float *y, int n) {{
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    y[{rows} * n + i] = x[i];
}}
void run(const float *x, float *y, int n) {{ k<<<chosen(n), 64>>>(x, y, n); }}
"""
    )
    assert launched(draft).grid == grid


@pytest.mark.parametrize(("use", "low"), [("x[i] / by[i]", 1), ("n % (by[i] + 0)", 1), ("by[i] / n", 0)])
def test_integers_that_something_is_divided_by_are_not_zero(use: str, low: int) -> None:
    body = f"const int *by, int n) {{ {AT} x[i] = {use}; }}"
    buffers = inferred(one(body, "int *b; cudaMalloc(&b, n * 4);", "d, b, n")).known.problem.buffers
    assert buffers["by"].init == Init("integers", {"low": low, "high": 1000})


def test_a_long_chain_of_sums_takes_no_time() -> None:
    chain = "int q0 = i + 1;" + "".join(f"int q{k + 1} = q{k} + q{k};" for k in range(40))
    body = f"const int *y, int n) {{ {AT} {{ {chain} x[i] = y[i] / q40; }} }}"
    buffers = inferred(one(body, "int *b; cudaMalloc(&b, n * 4);", "d, b, n")).known.problem.buffers
    assert buffers["y"].init == Init("integers", {"low": 0, "high": 1000})


CONST = "constexpr int ROWS = (1 << 9) + 7;\n#define COLS 1000\nconstexpr int ALL = ROWS * COLS;\n"


def test_names_that_the_kernels_file_defines_are_no_sizes() -> None:
    body = f"int *to, int n) {{ {AT} {{ x[i] = COLS; to[i % ALL] = 1; }} }}"
    draft = inferred(one(body, "int *t; cudaMalloc(&t, 4 * ALL);", "d, t, n", CONST))
    assert draft.known.problem.buffers["to"].shape == (519_000,)
    assert set(draft.known.problem.sizes.headline) == {"n"}


def test_a_constant_that_a_parameter_hides_is_a_size() -> None:
    kernel = "__global__ void k(float *x, int COUNT) { int i = blockIdx.x * 64 + threadIdx.x;"
    kernel += "if (i < COUNT) x[i] = 1; }"
    host = "int main() { float *d; cudaMalloc(&d, COUNT * sizeof(float)); k<<<COUNT / 64, 64>>>(d, COUNT); }"
    draft = inferred(f"const int COUNT = 4096;\n{kernel}\n{host}\n")
    assert draft.known.problem.sizes.headline == {"COUNT": 4096}


def test_a_kernel_whose_extents_are_all_constants_has_one_size() -> None:
    kernel = (
        "__global__ void k(float *x) { int i = blockIdx.x * 64 + threadIdx.x; if (i < COUNT) x[i] += 1; }"
    )
    host = "int main() { float *d; cudaMalloc(&d, COUNT * 4); k<<<(COUNT + 63) / 64, 64>>>(d); }"
    draft = inferred(f"#define COUNT 5000\n{kernel}\n{host}\n")
    assert draft.known.problem.single_size and draft.known.problem.sizes.test == ({},)
    assert not draft.reasons and launched(draft).grid == (79,)


@pytest.mark.parametrize("rounds", ["4096", "SIDE"])
def test_a_kernel_of_one_size_that_takes_minutes_on_the_emulator_stays_open(rounds: str) -> None:
    kernel = (
        "__global__ void k(float *x, const float *a) { int i = blockIdx.x * 64 + threadIdx.x; float s = 0; "
        f"for (int j = 0; j < {rounds}; j++) s += a[j]; if (i < SIDE * SIDE / 8) x[i] = s; }}"
    )
    host = "int main() { float *d, *a; cudaMalloc(&d, SIDE * SIDE / 2); cudaMalloc(&a, SIDE * 4);"
    host += "k<<<SIDE * SIDE / 8 / 64, 64>>>(d, a); }"
    assert inferred(f"#define SIDE 4096\n{kernel}\n{host}\n").reasons == (Reason.ONE_SIZE,)


@pytest.mark.parametrize(
    ("index", "low", "high"),
    [
        ("(from[i] - 'a') / WIDTH", 97, 125),
        ("from[i] >> 3", 0, 56),
        ("from[i] / 2 + 1", 0, 12),
        ("(from[i] - 5) * 2", 5, 9),
    ],
)
def test_values_used_as_indices_of_shared_arrays_stay_inside_them(index: str, low: int, high: int) -> None:
    body = f"const char *from, int n) {{ __shared__ int bins[BINS]; {AT} atomicAdd(&bins[{index}], 1); "
    body += "x[i] = 1; }"
    host = "char *f; cudaMalloc(&f, n);"
    known = "constexpr int BINS = 7;\nconstexpr int WIDTH = (26 + BINS - 1) / BINS;"
    buffers = inferred(one(body, host, "d, f, n", known)).known.problem.buffers
    assert buffers["from"].init == Init("integers", {"low": low, "high": high})


TILED = """
__global__ void set(int *x, int n) {{ int i = blockIdx.x * 512 + threadIdx.x; {body} }}
void run(int n) {{
  int tile = 128 * 4, *d; {host}
  set<<<{grid}, 128>>>(d, n);
}}
"""


@pytest.mark.parametrize(
    ("grid", "host", "meant"),
    [
        ("(n + tile - 1) / tile", "", "ceil_div(n, 512)"),
        ("ceil_div(n, tile)", "cudaMalloc(&d, n * sizeof(int));", "ceil_div(n, 512)"),
        ("n / tile", "cudaMalloc(&d, n * sizeof(int));", "n/512"),
        # A size that something else depends on is one.
        ("n / tile", "cudaMalloc(&d, n * tile * sizeof(int));", "n/tile"),
    ],
)
def test_what_a_block_computes_is_no_size(grid: str, host: str, meant: str) -> None:
    draft = inferred(TILED.format(grid=grid, host=host, body="for (; i < n; i += 128) x[i] = 1;"))
    [extent] = launched(draft).grid
    assert str(extent).replace(" ", "").replace("(", "").replace(")", "") == meant.replace(" ", "").replace(
        "(", ""
    ).replace(")", "")


@pytest.mark.parametrize(
    ("types", "element", "dtype", "lanes"),
    [
        ("template <class T> struct Pair { T a, b; };", "Pair<float>", "float32", 2),
        ("template <class T, int N> struct Row { T v[N]; };", "Row<double, 3>", "float64", 3),
        (
            "template <class T> struct Pair { T a, b; };\n"
            "template <class U> struct Box { Pair<U> low, high; };",
            "Box<int>", "int32", 4,
        ),
    ],
)  # fmt: skip
def test_elements_of_a_class_template_are_lanes(types: str, element: str, dtype: str, lanes: int) -> None:
    draft = inferred(f"""
{types}
__global__ void copy(const {element} *x, {element} *y, int n) {{
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) y[i] = x[i];
}}
void run({element} *x, {element} *y, int n) {{ copy<<<(n + 63) / 64, 64>>>(x, y, n); }}
""")
    buffer = draft.known.problem.buffers["x"]
    assert (buffer.dtype, buffer.shape) == (dtype, ("n", lanes))
