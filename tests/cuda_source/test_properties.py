"""Whatever the bytes are: no exception, exact spans, and a fixed point."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcurate.cuda_source import extract_unit, kernel_signatures, normalise, whole_file

TEMPLATES = """
template <typename T, int N> __launch_bounds__(N)
__global__ void scale(T *x, T a) { x[threadIdx.x] *= a * N; }
template <class T> void by_type(T *x, int wide) {
  if (wide) scale<T, 64><<<1, 64>>>(x, (T)2); else scale<T, 32><<<1, 32>>>(x, (T)2);
}
void both(double *x, float *y) { by_type<float>(y, 1); by_type<double>(x, 0); }
"""
PIECES = (
    "#define N 16\n", "#define F(x) ((x) * N)\n", "#define EMPTY \n", "#undef N\n", "#if N > 3\n",
    "#else\n", "#endif\n", "#ifdef EMPTY\n", "struct s { float a; int b; };\n",
    "typedef struct s2 { int a; } s2;\n", "enum { RED = 1, BLUE };\n",
    "const float c1 = 1.0f, c2 = 2.0f;\n", "const float c3 = c1 * 2;\n", "__constant__ float table[N];\n",
    "texture<float, 1, cudaReadModeElementType> ref;\n",
    "__device__ float g(float v) { return v + c3 + RED; }\n", "float h(float v) { return g(v); }\n",
    "__global__ void k1(float *o, int n) { o[threadIdx.x] = h(n) + F(2) + tex1Dfetch(ref, n); }\n",
    "__global__ void k2(s *o) { o->a = table[1]; o->b = INT_MAX; }\n", "namespace a {\n", "}\n",
    'extern "C" {\n', "template <class T> __global__ void k3(T *o) { *o = (T)BLUE; }\n",
    "void host() { k3<float><<<1, N>>>(0); }\n", "template <int W> __device__ int w() { return W; }\n",
    "__global__ void k4(s2 *o) { o->a = w<3>(); }\n", "// comment \\\n", "/* open", "*/", '"', "'", "(",
    "{", "\\\n", "\r\n", "\x00", "café\n", TEMPLATES,
)  # fmt: skip


@given(st.binary(max_size=400))
def test_random_bytes_never_raise(data: bytes) -> None:
    whole_file(data)
    normalise(data)
    kernel_signatures(data)


@given(st.lists(st.sampled_from(PIECES), max_size=14))
def test_shuffled_pieces_never_raise_and_spans_cut_their_bytes(pieces: list[str]) -> None:
    source = "".join(pieces).encode("latin-1")
    report = whole_file(source)
    for kernel in report.kernels:
        cut = source[kernel.span.start_byte : kernel.span.end_byte]
        assert cut and kernel.name.encode() in cut
        assert source[: kernel.span.start_byte].count(b"\n") + 1 == kernel.span.start_line


@given(
    st.lists(st.sampled_from([p for p in PIECES if p.endswith("\n") and not p.startswith("//")]), max_size=12)
)
def test_extracting_an_extracted_kernel_is_a_fixed_point(pieces: list[str]) -> None:
    once = whole_file("".join(pieces).encode("latin-1"))
    for kernel in once.kernels:
        again = [k for k in whole_file(kernel.code).kernels if k.name == kernel.name]
        assert again and again[-1].code == kernel.code


@given(st.data())
def test_mutated_source_never_raises(data: st.DataObject) -> None:
    source = bytearray("".join(PIECES[:24]).encode("latin-1"))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(source) - 1))
        length = data.draw(st.integers(0, 30))
        source[at : at + length] = data.draw(st.binary(max_size=8))
    whole_file(bytes(source))


def test_circular_includes_terminate() -> None:
    files = {"a.cu": b'#include "b.cuh"\n__global__ void k() {}\n', "b.cuh": b'#include "a.cu"\n'}
    report = extract_unit("a.cu", files.get, lambda name, includer: name)
    assert [kernel.name for kernel in report.kernels] == ["k"]


def test_deep_nesting_does_not_crash() -> None:
    for text in (b"(" * 50_000, b"{" * 50_000, b"__global__ void k() {" + b"{" * 20_000, b"#if 1\n" * 5_000):
        whole_file(text)


def test_unterminated_declarations_are_parsed_quickly() -> None:
    """The patterns look at a bounded piece each: these texts once took minutes."""
    for text in (b"__shared__ " * 8_000, b"__shared__ float a[" * 4_000, b"__shared__ " + b"a " * 200_000):
        whole_file(b"__global__ void k() {" + text + b"}")
