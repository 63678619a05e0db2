"""What a standalone file needs beyond its own declarations: headers, names of `std`, template instances.

Each example is the smallest that shows one way in which kernels of real trees did not compile.
"""

from __future__ import annotations

import pytest

from kcurate.cuda_source import extract_unit
from kcurate.cuda_source.standalone import header_names
from tests.cuda_source.test_unit import compiles, only, unit


@pytest.mark.parametrize(
    "source",
    [
        "__global__ void k(long long *o) { int64_t n = o[0]; o[1] = n; }",
        "#include <cuda/std/limits>\n"
        "__global__ void k(uint64_t *o) { o[0] = cuda::std::numeric_limits<int>::max(); }",
        "#include <cublas_v2.h>\n"
        "__global__ void k(__half *o, __nv_bfloat16 *p) { o[0] = __float2half(1.f); }",
        "__global__ void k(float *o) { o[0] = std::numeric_limits<float>::max() + std::sqrt(o[1]); }",
        "__global__ void k(int *o) { o[0] = std::max(o[1], 3) + std::min<int>(o[2], 2L); }",
        "template <class T> __device__ T f(T x) {\n  if constexpr (std::is_same_v<T, float>) return x;\n"
        "  return -x; }\n"
        "__global__ void k(float *o) { o[0] = f(o[1]); }",
        "__global__ void k(int *o) { std::pair<int, int> p(1, 2); std::array<int, 2> a{3, 4};\n"
        "o[0] = std::get<0>(std::make_tuple(p.first, a[1])); }",
        "constexpr int twice(int n) { return 2 * n; }\n__global__ void k(int *o) { o[0] = twice(o[1]); }",
        "struct Point {\n  int x;\n  constexpr Point(int n) : x(n) {}\n"
        "  constexpr int get() const { return x; }\n};\n"
        "__global__ void k(int *o) { o[0] = Point(o[1]).get(); }",
        "int half_of(int n) { constexpr int two = 2; return n / two; }\n"
        "__global__ void k(int *o) { o[0] = half_of(o[1]); }",
        "#include <cub/cub.cuh>\n__global__ void k(int *o) { o[0] = 1; }",
        "#include <cub/cub.cuh>\n__global__ void k(int *o) {\n"
        "  __shared__ typename cub::WarpReduce<int>::TempStorage space;\n"
        "  o[0] = cub::WarpReduce<int>(space).Reduce(o[1], cub::Sum()); }",
        "#include <cub/cub.cuh>\n__global__ void k(int *o) { int h[1], v[1] = {o[0]};\n"
        "  __shared__ typename cub::BlockDiscontinuity<int, 32>::TempStorage space;\n"
        "  cub::BlockDiscontinuity<int, 32>(space).FlagHeads(h, v, cub::Inequality()); o[0] = h[0]; }",
        "#include <cub/cub.cuh>\n__global__ void k(int *o) { int v[4];\n"
        "  cub::LoadDirectStriped<32>(threadIdx.x, o, v); cub::StoreDirectBlocked(threadIdx.x, o, v); }",
        'extern "C" {\n#include <cuda_fp16.h>\nstruct Pair { int a; };\n}\n'
        "__global__ void k(Pair *o, __half *h) { o[0].a = __half2float(h[0]); }",
        "#include <cuda.h>\n__global__ void k(const __grid_constant__ CUtensorMap map, int *o) { o[0] = 1; }",
        "#include <cuda_fp4.h>\n__global__ void k(__nv_fp4_e2m1 *o, float *x) { *o = __nv_fp4_e2m1(*x); }",
        "__global__ void k(__nv_bfloat16_raw *o) { o[0] = __nv_cvt_e8m0_to_bf16raw(127); }",
        "__global__ void k(float *o) { o[0] = M_2_SQRTPI * M_LN2 + M_1_PI * M_LOG2E; }",
        "#include <cufft.h>\n__global__ void k(cufftComplex *o, cufftDoubleReal *p) { o[0].x = p[0]; }",
        "__global__ void k(CUtexObject t, float *o) { o[0] = tex1D<float>(t, 1.f); }",
        "template <int N, class T> static __device__ T f(T x, [[maybe_unused]] T *y) { return x + N; }\n"
        "__global__ void k(int *o) { o[0] = f<2>(o[1], o); }",
        "struct S { __extension__ union { int a; float b; }; };\n__global__ void k(S *o) { o[0].a = 1; }",
        "__global__ void k(int *o) { assert(o[0] > 0); o[1] = 2; }",
        "__global__ void k(int *o) { cudaGridDependencySynchronize(); o[0] = 1; }",
        "__global__ void k(uint *o) { o[0] = 1; }\ntypedef unsigned int uint;",
        "typedef unsigned int uint;\n__global__ void k(uint *o) { o[0] = 1; }",
        "void check(cudaError_t e) { if (e) printf(cudaGetErrorString(e)); }\n"
        "__global__ void k(int *o) { o[0] = 1; }\n"
        "void k(int *o, int n) { k<<<n, 1>>>(o); check(cudaGetLastError()); }",
    ],
)  # fmt: skip
def test_a_kernel_compiles_by_itself(source: str) -> None:
    assert compiles(only(unit({"main.cu": source + "\n"})))


@pytest.mark.parametrize(
    "source",
    [
        "enum class Host { a };\nconstexpr operator Host() const noexcept { return Host::a; }\n"
        "__global__ void k(const int *x, int *o) { o[0] = x[0]; }",
        "enum part { key, other };\nbool operator<(Host a, int key) { return key; }\n"
        "__global__ void k(int *o, part p) { o[0] = p; }",
        "constexpr int size() const { return Host(); }\n"
        "struct Box { __device__ int size() { return 1; } };\n"
        "__global__ void k(int *o, Box b) { o[0] = b.size(); }",
        "int size(Host h) { return 1; }\nstruct Box { __device__ int size() { return 1; } };\n"
        "__global__ void k(int *o, Box b) { o[0] = b.size(); }",
        "struct Range { int last; };\n__global__ void k(int *o, Range r) { o[0] = r.last; }\n"
        "enum Host { first, last };",
        "template <class T> struct Box { __device__ int at() { return at(1); }\n"
        "  __device__ int at(int x) { return x; } };\nint at(Host h) { return 1; }\n"
        "__global__ void k(int *o, Box<int> b) { o[0] = b.at(); }",
    ],
    ids=["conversion", "enumerator", "misread member", "declaration", "behind", "behind a class"],
)  # fmt: skip
def test_what_only_shares_a_name_stays_away(source: str) -> None:
    kernel = only(unit({"main.cu": source + "\n"}))
    assert compiles(kernel) and b"Host" not in kernel.code


@pytest.mark.parametrize(
    "source",
    [
        "struct node { struct leaf *l; };\nstruct leaf { int x; };\n"
        "__global__ void k(node *n, int *o) { o[0] = n->l->x; }",
        "struct Box { int end; };\nstruct end { int x; };\n"
        "__global__ void k(Box b, end e, int *o) { o[0] = b.end + e.x; }",
        "struct late;\nstruct Box { late *l; };\nstruct late { int x; };\n"
        "__global__ void k(Box b, int *o) { o[0] = b.l->x; }",
        "template <class T> __device__ int f(T x) { return g(x); }\nstruct S { int x; };\n"
        "constexpr int g(S s) { return s.x; }\n__global__ void k(S s, int *o) { o[0] = f(s); }",
        "#define ONE one()\n__device__ int one() { return 1; }\n__global__ void k(int *o) { o[0] = ONE; }",
    ],
    ids=["tagged", "of another user", "declared before", "of a template", "in a macro"],
)  # fmt: skip
def test_what_stands_behind_its_user_comes_along_where_it_is_meant(source: str) -> None:
    assert compiles(only(unit({"main.cu": source + "\n"})))


def test_types_of_other_libraries_are_named_as_a_repair() -> None:
    source = "#include <cufft.h>\n__global__ void k(cufftComplex *o, uint n) { o[n].x = 1; }\n"
    assert only(unit({"main.cu": source})).shims == ("integer-type", "library-type")


def test_headers_that_no_name_needs_are_dropped() -> None:
    source = (
        "#include <cub/cub.cuh>\n#include <cooperative_groups.h>\n#include <cuda/atomic>\n#include <mma.h>\n"
        "__global__ void k(int *o) { cooperative_groups::this_thread_block().sync(); o[0] = 1; }\n"
    )
    code = only(unit({"main.cu": source})).code
    assert b"cooperative_groups.h" in code and b"cub" not in code and b"cuda/atomic" not in code


def test_a_name_of_std_without_a_counterpart_stays() -> None:
    assert header_names.std_names(b"std::vector<int> v; my::std::max(1); std::sort(a);") == (
        b"std::vector<int> v; my::std::max(1); std::sort(a);"
    )


KERNEL = "template <typename T, int N> __global__ void k(T *o, int n) { o[n] = N; }\n"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("void run(float *x) { constexpr int width = 8; k<float, width><<<1, 1>>>(x, 1); }", {"k<float, 8>"}),
        ("void run(float *x) { const int w{4 * 2}; using T = double; k<T, w><<<1, 1>>>((T *)x, 1); }",
         {"k<double, (4 * 2)>"}),
        ("template <int N> void run(float *x) { k<float, N><<<1, 1>>>(x, 1); }\n"
         "void all(float *x) { run<2>(x); run<3>(x); }", {"k<float, 2>", "k<float, 3>"}),
        ("template <class T> void run(T *x) { k<T, 4><<<1, 1>>>(x, 1); }\n"
         "void all(double *x, int *y) { run(x); run(y); }", {"k<double, 4>", "k<int, 4>"}),
        ("template <class T> struct Runner { static void go(T *x) { k<T, 4><<<1, 1>>>(x, 1); } };\n"
         "void all(float *x) { Runner<float>::go(x); }", {"k<float, 4>"}),
        ("template <class T> class Runner { T go(); };\n"
         "template <class T> T Runner<T>::go() { T *x = 0; k<T, 4><<<1, 1>>>(x, 1); return 0; }\n"
         "template class Runner<float>;\ntemplate struct Runner<double>;", {"k<float, 4>", "k<double, 4>"}),
        ("void run(float *x) {\n  auto go = [&](auto width) { k<float, width.value><<<1, 1>>>(x, 1); };\n"
         "  go(std::integral_constant<int, 16>{});\n}", {"k<float, 16>"}),
        ("template <class F> void choose(F f, int n) { if (n) f(std::integral_constant<int, 32>{}); }\n"
         "void run(float *x, int n) {\n  auto go = [&](auto width) {\n    constexpr int w = width.value;\n"
         "    k<float, w><<<1, 1>>>(x, 1);\n  };\n  choose(go, n);\n}", {"k<float, 32>"}),
        ("#define RUN(T, width) k<T, (width)><<<1, 1>>>(reinterpret_cast<T *>(x), 1)\n"
         "void run(void *x, int n) { if (n) RUN(float, 64); else RUN(int, 64); }",
         {"k<float, (64)>", "k<int, (64)>"}),
        ("#define MAKE(T) void run_##T(T *x) { k<T, 2><<<1, 1>>>(x, 1); }\nMAKE(float)\nMAKE(double)\n",
         {"k<float, 2>", "k<double, 2>"}),
        ("void run(float *x) { auto chosen = &k<float, 128>; chosen<<<1, 1>>>(x, 1); }", {"k<float, 128>"}),
    ],
)  # fmt: skip
def test_the_instances_that_launches_use_are_found(host: str, expected: set[str]) -> None:
    kernel = only(unit({"main.cu": KERNEL + host + "\n"}))
    assert {
        " ".join(each.replace("( ", "(").replace(" )", ")").split()) for each in kernel.instantiations
    } == expected
    assert compiles(kernel)


def test_one_instance_written_in_two_ways_is_stated_once() -> None:
    run = "void run(float *x) { k<float, W><<<1, 1>>>(x, 1); k<float, (4 + 4)><<<1, 1>>>(x, 2); }\n"
    host = "#define W 8\n" + run
    kernel = only(unit({"main.cu": KERNEL + host}))
    assert len(kernel.instantiations) == 1 and compiles(kernel)


def test_of_many_instances_the_first_few_are_stated() -> None:
    host = "".join(f"void run{n}(float *x) {{ k<float, {n}><<<1, 1>>>(x, 1); }}\n" for n in range(1, 30))
    kernel = only(unit({"main.cu": KERNEL + host}))
    assert kernel.instantiations == tuple(f"k<float, {n}>" for n in range(1, 9))


def test_names_that_only_the_host_function_has_are_no_instance() -> None:
    host = "void run(float *x, int unknown) { k<float, unknown><<<1, 1>>>(x, 1); }\n"
    assert only(unit({"main.cu": KERNEL + host})).instantiations == ()


def test_each_overload_gets_its_own_launches() -> None:
    source = (
        "template <class T> __global__ void k(T *o) { o[0] = 1; }\n"
        "template <class T> __global__ void k(T *o, int n, int m) { o[n] = m; }\n"
        "void run(float *x, double *y) { k<float><<<1, 1>>>(x); k<<<1, 1>>>(y, 1, 2); }\n"
    )
    one, two = unit({"main.cu": source}).kernels
    assert two.instantiations == ("k<double>",) and "k<float>" in one.instantiations
    assert compiles(one) and compiles(two)


def test_kernels_of_one_name_in_several_namespaces_compile() -> None:
    source = (
        "namespace {\ntemplate <class T> __global__ void k(T *o) { o[0] = 1; }\n}\n"
        "namespace b {\nnamespace {\n__global__ void k(int *o, int n) { o[n] = 2; }\n}\n"
        "void run(int *x) { k<<<1, 1>>>(x, 1); }\n}\nvoid run(float *x) { k<float><<<1, 1>>>(x); }\n"
    )
    assert all(compiles(kernel) for kernel in unit({"main.cu": source}).kernels)


def test_a_macro_of_the_flags_is_defined_in_the_file() -> None:
    source = b"__global__ void k(TYPE *o) {\n#if WIDTH > 4\n  o[0] = WIDTH;\n#endif\n}\n"
    macros = {b"TYPE": b"float", b"WIDTH": b"8", b"OTHER": b"1"}
    report = extract_unit("k.cu", {"k.cu": source}.get, lambda name, by: None, macros)
    kernel = only(report)
    assert compiles(kernel) and b"#define WIDTH 8" in kernel.code and b"OTHER" not in kernel.code
    assert kernel.shims == ()
