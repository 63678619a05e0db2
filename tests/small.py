"""Small candidates of our own: honest ones in every form a plan can take, and sides that go wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kcurate.records import (
    BindTexture,
    Buffer,
    BufferArg,
    Candidate,
    Copy,
    Fill,
    For,
    Init,
    Launch,
    Origin,
    PointersArg,
    Problem,
    Scalar,
    Side,
    Sizes,
    Step,
    StructField,
    Swap,
    Tolerance,
    Upload,
    View,
    WhileNonzero,
)

SCALE = """
extern "C" __global__ void scale(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
"""
SCALE_STRIDED = """
extern "C" __global__ void scale(const float* x, float* y, float a, int n) {
    int threads = gridDim.x * blockDim.x;
    int each = (n + threads - 1) / threads;
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = t * each; i < min(n, (t + 1) * each); ++i) y[i] = a * x[i];
}
"""
EACH = Launch("scale", ("ceil_div(n, 128)",), (128,), ("x", "y", "a", "n"))
CHUNKED = Launch("scale", ("ceil_div(n, 4096)",), (128,), ("x", "y", "a", "n"))
SIZES = Sizes(({"n": 1000}, {"n": 257}, {"n": 5}), {"n": 1 << 22})


def problem(bench: int = 1 << 22, **more: Buffer) -> Problem:
    """y = a * x."""
    return Problem(
        replace(SIZES, bench={"n": bench}),
        {
            "x": Buffer("float32", ("n",), Init("normal", {"mean": 0.5})),
            "y": Buffer("float32", ("n",), role="out"),
            **more,
        },
        {"a": Scalar("float32", 1.25)},
    )


def candidate(name: str, what: Problem, slow: Side, fast: Side) -> Candidate:
    """A curated candidate; its slow side is the reference."""
    return Candidate(
        id=f"test/{name}",
        family=name,
        domain="test",
        license=None,
        origin=Origin("curated"),
        techniques=(),
        description="",
        problem=what,
        slow=slow,
        fast=fast,
    )


def scaled(name: str = "scale", fast: str = SCALE, launch: Launch = EACH, bench: int = 1 << 22) -> Candidate:
    """An honest pair, or one whose fast side is something else."""
    return candidate(name, problem(bench), Side(SCALE_STRIDED, (CHUNKED,)), Side(fast, (launch,)))


def twice(name: str, what: Problem, code: str, plan: tuple[Step, ...], **side: object) -> Candidate:
    """The same plan on both sides, for what only has to be correct."""
    one = Side(code, plan, **side)  # type: ignore[arg-type]
    return candidate(name, what, one, replace(one, code=code + "\n"))


def _template() -> Candidate:
    code = """
template <typename T, int K> __global__ void scale(const T* x, T* y, T a, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * K;
    for (int k = 0; k < K; ++k) if (i + k < n) y[i + k] = a * x[i + k];
}
"""
    launch = Launch("scale", ("ceil_div(n, 512)",), (128,), ("x", "y", "a", "n"), ("float", "4"))
    return scaled("template", code, launch)


def _constant() -> Candidate:
    code = """
__constant__ float factor[4];
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor[i & 3] * x[i];
}
"""
    what = problem(f=Buffer("float32", (4,), Init("normal")))
    launch = Launch("scale", ("ceil_div(n, 128)",), (128,), ("x", "y", "n"))
    return twice("constant", what, code, (Upload("factor", "f"), launch))


def _texture() -> Candidate:
    code = """
template <class T, int Dimensions = 1, int Mode = 0> struct texture { const T* data; int width, height; };
template <class T, int D, int M> __device__ inline T tex1Dfetch(const texture<T, D, M>& t, int i) {
    return t.data[i < 0 ? 0 : i >= t.width ? t.width - 1 : i];
}
__device__ texture<float> image;
extern "C" __global__ void blur(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tex1Dfetch(image, i - 1) + tex1Dfetch(image, i) + tex1Dfetch(image, i + 1);
}
"""
    launch = Launch("blur", ("ceil_div(n, 128)",), (128,), ("y", "n"))
    return twice("texture", problem(), code, (BindTexture("image", "x"), launch))


def _struct() -> Candidate:
    code = """
struct Line { float slope; int offset; double start; };
extern "C" __global__ void line(const float* x, float* y, Line l, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = l.slope * x[i] + l.offset + (float)l.start;
}
"""
    fields = (
        StructField("slope", "float32"),
        StructField("offset", "int32"),
        StructField("start", "float64"),
    )
    what = problem()
    what = replace(what, scalars={"l": Scalar(fields, {"slope": 2.0, "offset": 3, "start": 0.5})})
    launch = Launch("line", ("ceil_div(n, 128)",), (128,), ("x", "y", "l", "n"))
    return twice("struct", what, code, (launch,))


def _pointers() -> Candidate:
    """A struct by value that holds pointers: the problem's buffers, and one into the middle of a buffer."""
    code = """
struct Ends { const float* front; const float* back; float* sum; };
extern "C" __global__ void fold(Ends ends, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) ends.sum[i] = a * ends.front[i] + ends.back[i];
}
"""
    what = problem()
    what = replace(what, buffers={**what.buffers, "x": Buffer("float32", ("2 * n",), Init("normal"))})
    ends = PointersArg((BufferArg("x"), BufferArg("x", "n"), BufferArg("y")))
    launch = Launch("fold", ("ceil_div(n, 128)",), (128,), (ends, "a", "n"))
    return twice("pointers", what, code, (launch,))


def _loops() -> Candidate:
    """A for loop over swapped buffers, fills and copies."""
    code = """
extern "C" __global__ void step(const float* x, float* y, int i, int n) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) y[k] = 0.5f * x[k] + i;
}
"""
    what = problem(t=Buffer("float32", ("n",), role="scratch"))
    loop = For("i", 3, (Launch("step", ("ceil_div(n, 64)",), (64,), ("t", "y", "i", "n")), Swap(("t", "y"))))
    plan = (Fill("y", 1.0), Copy("x", "t"), loop, Copy("t", "y"))
    return twice("loops", what, code, plan)


def _while() -> Candidate:
    """Halve until all are below one; the plan reads a flag."""
    code = """
extern "C" __global__ void halve(float* y, int* more, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && fabsf(y[i]) >= 1.0f) { y[i] *= 0.5f; if (fabsf(y[i]) >= 1.0f) *more = 1; }
}
"""
    what = Problem(
        SIZES,
        {
            "y": Buffer("float32", ("n",), Init("uniform", {"low": 1, "high": 100}), "inout"),
            "more": Buffer("int32", (1,), role="scratch"),
        },
    )
    launch = Launch("halve", ("ceil_div(n, 128)",), (128,), ("y", "more", "n"))
    return twice("while", what, code, (WhileNonzero("more", 20, (Fill("more", 0), launch)),))


def _view() -> Candidate:
    """The fast side sees a matrix by columns, with padded rows."""
    code = """
extern "C" __global__ void rows(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float s = 0; for (int k = 0; k < 8; ++k) s += x[i * 8 + k]; y[i] = s; }
}
"""
    columns = code.replace("x[i * 8 + k]", "x[k * (n + 3) + i]")
    what = Problem(
        SIZES,
        {
            "x": Buffer("float32", ("n", 8), Init("normal")),
            "y": Buffer("float32", ("n",), role="out", tolerance=Tolerance(terms=8)),
        },
    )
    launch = Launch("rows", ("ceil_div(n, 128)",), (128,), ("x", "y", "n"))
    seen = {"x": View((1, 0), ((0, 0), (1, 2)))}
    fast = Side(columns.replace("+ i]", "+ i + 1]"), (launch,), views=seen)
    return candidate("view", what, Side(code, (launch,)), fast)


def _atomics() -> Candidate:
    """A sum by atomics, whose rounding may differ from run to run, and is said to."""
    slow = """
extern "C" __global__ void total(const float* x, float* s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(s, x[i]);
}
"""
    fast = """
extern "C" __global__ void total(const float* x, float* s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
    if (!(threadIdx.x & 31)) atomicAdd(s, v);
}
"""
    what = Problem(
        replace(SIZES, bench={"n": 1 << 20}),
        {
            "x": Buffer("float32", ("n",), Init("uniform")),
            "s": Buffer("float32", (1,), role="out", tolerance=Tolerance(terms="n")),
        },
    )
    plan = (Fill("s", 0.0), Launch("total", ("ceil_div(n, 128)",), (128,), ("x", "s", "n")))
    one, other = (Side(code, plan, nondeterministic=("s",)) for code in (slow, fast))
    return candidate("atomics", what, one, other)


def honest() -> Mapping[str, Candidate]:
    """Everything here is correct."""
    made = (
        scaled(), _template(), _constant(), _texture(), _struct(), _pointers(), _loops(), _while(), _view(),
        _atomics(),
    )  # fmt: skip
    return {one.family: one for one in made}


def wrong() -> Mapping[str, tuple[Candidate, tuple[str, ...]]]:
    """Sides that go wrong, with the outcomes that say so."""
    body = "y[i] = a * x[i];"

    def spoiled(name: str, instead: str) -> Candidate:
        return scaled(name, SCALE.replace(f"if (i < n) {body}", instead))

    racing = "if (i < n) y[i] = a * x[i]; if (i < n) y[n - 1 - i] = a * x[n - 1 - i] + (i & 1 ? 0.5f : 0.0f);"
    return {
        "unwritten_tail": (spoiled("tail", f"if (i < n - 1) {body}"), ("mismatch", "nondeterministic")),
        "written_past_the_end": (spoiled("past", f"if (i <= n) {body}"), ("mismatch",)),
        "changed_input": (
            scaled(
                "input",
                SCALE.replace("const float* x", "float* x").replace(body, f"{{ {body} x[i] = 0.0f; }}"),
            ),
            ("mismatch",),
        ),
        "wrong_everywhere": (spoiled("wrong", "if (i < n) y[i] = a + x[i];"), ("mismatch",)),
        "racing": (spoiled("racing", racing), ("mismatch", "nondeterministic")),
        "no_such_function": (spoiled("compile", "if (i < n) y[i] = nothing(x[i]);"), ("compile_error",)),
    }
