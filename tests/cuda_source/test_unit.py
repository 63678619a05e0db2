"""What comes out of a translation unit: closures that compile, exact spans, and the traps of real trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from kcurate.backends.cuda import cubin, nvrtc
from kcurate.cuda_source import KernelSource, UnitReport, extract_unit, techniques, whole_file
from kcurate.cuda_source.parse.items import Item
from kcurate.cuda_source.standalone.closure import Unit
from kcurate.cuda_source.standalone.unit import Mark
from kcurate.cuda_source.text.features import features


def unit(files: Mapping[str, str | bytes], root: str = "main.cu") -> UnitReport:
    """The report of a unit of a few files that lie side by side."""
    data = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    return extract_unit(root, data.get, lambda name, includer: name if name in data else None)


def only(report: UnitReport) -> KernelSource:
    """The one kernel of a unit."""
    (kernel,) = report.kernels
    return kernel


def compiles(kernel: KernelSource) -> bool:
    """Whether the file compiles by itself and the kernel is in the cubin."""
    result = nvrtc.compile_cubin(kernel.code)
    assert result.cubin is not None, result.log + kernel.code.decode()
    return any(kernel.name in found.kernel for found in cubin.read_kernels(result.cubin))


def test_a_closure_has_what_the_kernel_needs_and_no_host_code() -> None:
    kernel = only(
        unit(
            {
                "main.cu": """#include <stdio.h>
#include "part.h"
#define WIDTH 16
#define UNUSED 3
struct host_only { FILE *f; };
typedef struct { float x, y; } point;
__constant__ float table[WIDTH];
__device__ float length(point p) { return sqrtf(square(p.x) + square(p.y)); }
__global__ void norm(const point *in, float *out, int n) {
  int i = blockIdx.x * WIDTH + threadIdx.x;
  if (i < n) out[i] = length(in[i]) * table[threadIdx.x];
}
int main() { printf("hello"); norm<<<4, WIDTH>>>(0, 0, 0); return 0; }
""",
                "part.h": "__device__ float square(float v) { return v * v; }\nvoid host_part(void);\n",
            }
        )
    )
    assert compiles(kernel)
    for word in (b"square", b"length", b"table", b"WIDTH", b"point"):
        assert word in kernel.code
    for word in (b"printf", b"main", b"UNUSED", b"host", b"stdio", b"part.h"):
        assert word not in kernel.code


def test_launch_sites_tell_arguments_loops_and_configuration() -> None:
    kernel = only(
        unit(
            {
                "main.cu": """#define N 1024
__global__ void step(float *a, const float *b, int n) { a[0] = b[0] * n; }
void go(float *host) {
  float *d_a, *d_b;
  cudaMalloc((void **)&d_a, N * sizeof(float));
  cudaMalloc(&d_b, N * 4);
  cudaMemcpy(d_b, host, N * 4, cudaMemcpyHostToDevice);
  for (int t = 0; t < 10; t++)
    step<<<dim3(N / 256, 1), 256, 64, stream>>>(d_a, d_b + t, N);
  cudaMemcpy(host, d_a, N * 4, cudaMemcpyDeviceToHost);
}
"""
            }
        )
    )
    (site,) = kernel.launch_sites
    assert (site.grid, site.block, site.shared_bytes, site.stream) == (
        "dim3(N / 256, 1)",
        "256",
        "64",
        "stream",
    )
    assert site.loops == ("for (int t = 0; t < 10; t++)",)
    assert [(a.expression, a.role) for a in site.arguments] == [
        ("d_a", "out"),
        ("d_b + t", "in"),
        ("N", None),
    ]
    assert [a.allocation for a in site.arguments] == ["N * sizeof(float)", "N * 4", None]
    assert [(p.name, p.type, p.const, p.pointer) for p in kernel.params] == [
        ("a", "float*", False, True),
        ("b", "const float*", True, True),
        ("n", "int", False, False),
    ]


@pytest.mark.parametrize(
    ("source", "repair"),
    [
        (
            "texture<float, 1, cudaReadModeElementType> ref;\n"
            "__global__ void k(float *o) { o[0] = tex1Dfetch(ref, 3); }\n",
            "texture-reference",
        ),
        ("__global__ void k(int *o) { o[0] = INT_MAX; }\n", "constant"),
        ("__global__ void k(uint *o) { o[0] = 1; }\n", "integer-type"),
        ("__global__ void k(uint8_t *o) { o[0] = 1; }\n", "header"),
        ("__global__ void k(float *o) { o[0] = std::sqrt(o[1]); }\n", "std-name"),
        (
            "struct v { float x; };\nv operator+(v a, v b) { v c; c.x = a.x + b.x; return c; }\n"
            "__global__ void k(v *o) { o[0] = o[1] + o[2]; }\n",
            "device-annotation",
        ),
        (
            "const float base = 1.5f;\nconst float twice = 2 * base;\n"
            "__global__ void k(float *o) { o[0] = twice; }\n",
            "constexpr",
        ),
        (
            "struct pair { int a, b; };\n"
            "__global__ void k(struct pair *o, int i) { o[0] = (struct pair) {i, 2}; }\n",
            "compound-literal",
        ),
    ],
)
def test_legacy_code_compiles_with_the_recorded_repair(source: str, repair: str) -> None:
    kernel = only(unit({"main.cu": source}))
    assert kernel.shims == (repair,)
    assert compiles(kernel)


def test_constants_become_constexpr_only_where_one_is_computed_from_another() -> None:
    constants = "const float base = 1.5f;\nconst float twice = 2 * base;\nconst float alone = 3.0f;\n"
    kernel = only(unit({"main.cu": constants + "__global__ void k(float *o) { o[0] = twice + alone; }\n"}))
    changed = b"constexpr float base = 1.5f;\n\nconstexpr float twice = 2 * base;\n\nconst float alone"
    assert changed in kernel.code
    assert compiles(kernel)


@pytest.mark.parametrize(
    "source",
    [
        "#define EMPTY \nstruct __align__(8) cell { int a; };\n__global__ void k(cell *c) { c->a = 1; }\n",
        "#define LIMIT 16//two to the fourth\n__global__ void k(int *c) { if (c[0] > LIMIT) c[0] = 1; }\n",
        "#define LIMIT 16 /* it\n goes on */\n__global__ void k(int *c) { if (c[0] > LIMIT) c[0] = 1; }\n",
        "#if CUDART_VERSION < 3000\nstruct double3 { double x, y, z; };\n#endif\n"
        "__global__ void k(double3 *c) { c->x = 1; }\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n__global__ void k(int *c) { *c = 1; }\n'
        "#ifdef __cplusplus\n}\n#endif\n",
        "__global__ void k(int *c,\n#if WIDE\n  long n\n#else\n  int n\n#endif\n) { *c = n; }\n",
        "namespace deep { namespace er { __device__ int f() { return 2; }\n"
        "__global__ void k(int *c) { *c = f(); } } }\n",
        "__global__ void k(int *c);\n__global__ void k(int *c) { *c = 1; }\n",
        "#include <inner.cuh>\n__global__ void k(int *c) { *c = INNER; }\n",
        "__global__ void\nk(int *c) { c[0] = __mul24(c[1], c[2]); } // caf\xe9\n",
        "#define FLT_MAX 3.0e38f\n__global__ void k(float *c) { *c = FLT_MAX; }\n",
    ],
)
def test_a_trap_leaves_one_kernel_that_compiles(source: str) -> None:
    for text in (source, source.replace("\n", "\r\n")):
        report = unit({"main.cu": text.encode("latin-1"), "inner.cuh": "#define INNER 5\n"})
        kernel = only(report)
        assert kernel.name == "k"
        assert compiles(kernel)
        assert only(whole_file(kernel.code)).code == kernel.code


TEMPLATES = """
template <typename T, int N> __launch_bounds__(N)
__global__ void scale(T *x, T a) { x[threadIdx.x] *= a * N; }
template <class T> void by_type(T *x, int wide) {
  if (wide) scale<T, 64><<<1, 64>>>(x, (T)2); else scale<T, 32><<<1, 32>>>(x, (T)2);
}
void both(double *x, float *y) { by_type<float>(y, 1); by_type<double>(x, 0); }
"""


def test_a_template_takes_the_arguments_of_the_host_templates_that_launch_it() -> None:
    kernel = only(unit({"main.cu": TEMPLATES}))
    assert set(kernel.instantiations) == {f"scale<{t}, {n}>" for t in ("float", "double") for n in (32, 64)}
    result = nvrtc.compile_cubin(kernel.code, name_expressions=kernel.instantiations)
    assert result.cubin is not None, result.log
    assert len(cubin.read_kernels(result.cubin)) == 4


def test_deduced_template_arguments_come_from_the_launch_arguments() -> None:
    source = """namespace wave {
template <typename T> __global__ void copy(T *to, const T *from, int n) { to[0] = from[n]; }
template <typename T> void run(T *a, T *b) { copy<<<1, 1>>>(a, b, 3); }
template void run<float>(float *a, float *b);
}
void more(int *p) { wave::copy<<<1, 1>>>((int *)p, p, 4); }
"""
    kernel = only(unit({"main.cu": source}))
    assert kernel.instantiations == ("wave::copy<float>", "wave::copy<int>")
    assert compiles(kernel)
    assert only(whole_file(kernel.code)).code == kernel.code


@pytest.mark.parametrize(
    ("host", "instances", "guessed"),
    [
        ("template <class T> void run(T* x, int n) { take<T, int><<<1, n>>>(x, nullptr, n); }",
         ("take<float, int>",), True),
        ("", ("take<float, int>",), True),
        ("template <class T> void run(T* x, int n) { take<T, short><<<1, n>>>(x, nullptr, n); }\n"
         "void all(double* x) { run(x, 4); }", ("take<double, short>",), False),
    ],
)  # fmt: skip
def test_a_template_that_nothing_instantiates_gets_the_usual_types(
    host: str, instances: tuple[str, ...], guessed: bool
) -> None:
    code = (
        "template <typename T, typename IdType> __global__ void take(T* x, const IdType* at, int n) {\n"
        "  if (threadIdx.x < n) x[at[threadIdx.x]] = n;\n}\n"
    )
    kernel = only(whole_file((code + host).encode()))
    assert kernel.instantiations == instances
    assert ("template-argument" in kernel.shims) is guessed
    assert compiles(kernel)


def test_a_number_that_a_template_takes_is_not_guessed() -> None:
    code = b"template <int N> __global__ void set(float* x) { x[N] = 1; }\n"
    assert only(whole_file(code)).instantiations == ()


def test_a_macro_before_a_launch_without_a_semicolon_does_not_hide_it() -> None:
    source = "__global__ void k(int n) {}\nvoid f() { START_TIMER(2)\n k<<<1, 2>>>(3); }\n"
    assert only(unit({"main.cu": source})).launch_sites[0].grid == "1"


@pytest.mark.parametrize(
    ("namespace", "directive"),
    [
        ("namespace geo", "using namespace geo;"),
        ("namespace math::geo", "using namespace ::math::geo;"),
        ("namespace math { namespace geo", "using namespace math; using namespace geo;"),
    ],
)
def test_a_using_directive_of_the_users_own_namespace_stays(namespace: str, directive: str) -> None:
    header = "struct vec { float x; };\n__device__ float twice(vec a) { return 2 * a.x; }\n"
    close = "}" * namespace.count("namespace ")
    kernel = only(
        unit(
            {
                "main.cu": f'#include "geo.cuh"\nusing namespace std;\n{directive}\n'
                "__global__ void k(float *o) { vec v{o[1]}; o[0] = twice(v); }\n"
                "namespace late { struct other {}; }\nusing namespace late;\n",
                "geo.cuh": namespace + " {\n" + header + close + "\n",
            }
        )
    )
    assert compiles(kernel)
    assert b"namespace std" not in kernel.code
    assert b"late" not in kernel.code


@pytest.mark.parametrize(
    "head",
    [
        "template <typename T>",
        "template <typename T, typename U = box<T>>",
        "template <typename T, template <typename> class Box = box>",
    ],
)
def test_a_host_template_that_a_kernel_calls_is_marked_behind_its_head(head: str) -> None:
    source = (
        "template <typename T> struct box { T held; };\n"
        + head
        + " T twice(T x) { return x + x; }\n__global__ void k(float *o) { o[0] = twice(o[1]); }\n"
    )
    kernel = only(unit({"main.cu": source}))
    assert kernel.shims == ("device-annotation",)
    assert f"{head} __device__ T twice(T x)".encode() in kernel.code
    assert compiles(kernel)


def test_operators_of_a_users_type_come_along_even_if_cuda_has_a_type_of_that_name() -> None:
    source = """namespace own {
struct float2 { float x, y; };
__device__ float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
__global__ void k(float2 *o) { o[0] = o[1] + o[2]; }
}
"""
    kernel = only(unit({"main.cu": source}))
    assert b"operator+" in kernel.code
    assert compiles(kernel)


def test_the_prototype_of_a_host_function_stays_behind_though_it_returns_a_pointer_to_const() -> None:
    source = "const char *unit(int n);\n__global__ void k(int *o) { int unit = 3; o[0] = unit; }\n"
    kernel = only(unit({"main.cu": source}))
    assert b"char" not in kernel.code


def test_textual_spans_cut_the_exact_bytes() -> None:
    header = "/* h */\r\n__device__ int one() { return 1; }\r\n"
    main = '#include "h.h"\n\n__global__ void k(int *o)\n{\n  *o = one();\n}\n'
    kernel = only(unit({"main.cu": main, "h.h": header}))
    files = {"main.cu": main.encode(), "h.h": header.encode()}
    cut = [files[span.path][span.start_byte : span.end_byte] for span in (*kernel.closure, kernel.span)]
    assert b"__device__ int one() { return 1; }" in cut
    assert cut[-1] == main[main.index("__global__") :].rstrip("\n").encode()
    assert (kernel.span.start_line, kernel.span.end_line) == (3, 6)


@pytest.mark.parametrize(
    ("statement", "technique"),
    [
        ('asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 ...");', "tensor-cores"),
        ('asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 ...");', "warpgroup-mma"),
        ('asm("cp.async.bulk.tensor.2d.shared::cluster.global.tile ...");', "tensor-maps"),
        ('asm("ld.global.nc.f32 %0, [%1];" : "=f"(y) : "l"(p));', "read-only-cache"),
        ('asm("mapa.shared::cluster.u32 %0, %1, %2;");', "thread-block-clusters"),
        ("auto all = cg::this_cluster();", "thread-block-clusters"),
        ("y = __vimax_s32_relu(a, b);", "dpx"),
    ],
)
def test_techniques_of_ptx_and_of_hopper_are_seen(statement: str, technique: str) -> None:
    code = "__global__ void k(float *p) { %s }"
    assert technique in techniques((code % statement).encode())
    assert technique not in techniques((code % f"/* {statement} */ const char *s = 0;").encode())


@pytest.mark.parametrize(
    ("statement", "seen"),
    [
        ("for (int half = 16; half > 0; half /= 2) *p += half;", False),
        ("unsigned n = 8, half = n / 2; *p += half;", False),
        ("half h = *p; *p = h;", True),
        ("int n = sizeof(half) == 2; *p = n;", True),
    ],
)
def test_a_variable_called_half_is_no_half_precision(statement: str, seen: bool) -> None:
    code = f"__global__ void k(float *p) {{ {statement} }}".encode()
    assert ("mixed-precision" in techniques(code), "half-precision" in features(code)) == (seen, seen)


def test_kernels_on_one_line_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[int] = Counter()
    around: list[int] = []
    plain_header, plain_around = Unit._device_header, Unit.marked_around

    def header(unit: Unit, item: Item) -> bool:
        asked[item.start] += 1
        return plain_header(unit, item)

    def marked(unit: Unit, at: int) -> list[Item]:
        around.append(len(plain_around(unit, at)))
        return plain_around(unit, at)

    monkeypatch.setattr(Unit, "_device_header", header)
    monkeypatch.setattr(Unit, "marked_around", marked)
    text = " ".join(f"__global__ void k{n}(float *x) {{ x[0] *= {n}.0f; }}" for n in range(60)).encode()
    report = extract_unit("a.cu", lambda path: text, lambda name, by: None)
    assert len(report.kernels) == 60 and report.marks == {"a.cu": {Mark.KERNEL: 60}}
    assert max(asked.values(), default=0) <= 1 and around == [1] * 60
