"""What CUDA adds to C++ means on the emulator what it means on a GPU: indices, memory, templates, types."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import Program, compile_side, refuse, run

from kcurate.backends.base import EntryPoint, Grid, KernelFault, Pointer, ScalarValue
from kcurate.cuda_source.standalone.shim import SHIM


def test_indices_count_as_on_a_gpu() -> None:
    code = """
    extern "C" __global__ void f(int *out) {
        int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        int at = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
        out[at] = at * 1000 + threadIdx.z * 100 + threadIdx.y * 10 + threadIdx.x;
    }"""
    (out,) = run(code, np.zeros(12 * 24, np.int32), grid=(3, 2, 2), block=(4, 3, 2))
    thread = np.arange(24)
    x, y, z = thread % 4, thread // 4 % 3, thread // 12
    expected = np.arange(12 * 24) * 1000 + np.tile(z * 100 + y * 10 + x, 12)
    assert (out == expected).all()


def test_tiled_transpose_through_static_shared_memory() -> None:
    code = """
    #define TILE 16
    extern "C" __global__ void f(const float *in, float *out, int n) {
        __shared__ float tile[TILE][TILE + 1];
        int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
        tile[threadIdx.y][threadIdx.x] = in[y * n + x];
        __syncthreads();
        out[(blockIdx.x * TILE + threadIdx.y) * n + blockIdx.y * TILE + threadIdx.x] =
            tile[threadIdx.x][threadIdx.y];
    }"""
    values = np.arange(48 * 48, dtype=np.float32).reshape(48, 48)
    out = run(code, values, np.zeros_like(values), np.int32(48), grid=(3, 3, 1), block=(16, 16, 1))[1]
    assert (out == values.T).all()


@pytest.mark.parametrize(
    "declaration",
    [
        "extern __shared__ float part[];",
        "extern __shared__ __align__(16) float part[];",
        "extern __shared__\n  volatile float part[ ];",
        "extern float __shared__ part[];",
    ],
)
def test_dynamic_shared_memory_reverses_a_block(declaration: str) -> None:
    code = f"""extern "C" __global__ void f(float *a) {{
        {declaration}
        part[threadIdx.x] = a[threadIdx.x];
        __syncthreads();
        a[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
    }}"""
    values = np.arange(96, dtype=np.float32)
    (out,) = run(code, values, block=96, shared_bytes=96 * 4)
    assert (out == values[::-1]).all()


def test_dynamic_shared_memory_of_the_whole_file_and_of_templates() -> None:
    code = """
    extern __shared__ unsigned char raw[];
    template <class T> __global__ void f(T *a) {
        extern __shared__ T typed[];
        typed[threadIdx.x] = a[threadIdx.x] + 1;
        __syncthreads();
        a[threadIdx.x] = ((T *)raw)[(threadIdx.x + 1) % blockDim.x];
    }"""
    entry = EntryPoint("f", ("double",))
    values = np.arange(64, dtype=np.float64)
    (out,) = Program(code, [entry]).run(values, block=64, shared_bytes=512, kernel=entry)
    assert (out == np.roll(values + 1, -1)).all()


def test_shared_variables_of_templates_and_inline_functions_are_apart() -> None:
    code = """
    template <class T, int N> __device__ T spread(T value) {
        __shared__ T kept[N];
        if (threadIdx.x == 0) for (int i = 0; i < N; i++) kept[i] = value + i;
        __syncthreads();
        return kept[threadIdx.x % N];
    }
    __device__ inline int single() {
        __shared__ int one;
        if (threadIdx.x == 3) one = 7;
        __syncthreads();
        return one;
    }
    extern "C" __global__ void f(float *a) {
        float x = spread<float, 4>(0.5f);
        int y = spread<int, 8>(100);
        a[threadIdx.x] = x + y + single() * 1000;
    }"""
    (out,) = run(code, np.zeros(32, np.float32))
    lane = np.arange(32)
    assert (out == lane % 4 + 0.5 + lane % 8 + 100 + 7000).all()


@pytest.mark.parametrize("inside", ["f", "helper", "template"])
def test_shared_memory_is_poisoned_for_each_block(inside: str) -> None:
    """Also that of templates, whose variables g++ puts elsewhere."""
    body = "__shared__ int word; if (blockIdx.x == 0) word = 5; a[blockIdx.x] = word;"
    code = {
        "f": f'extern "C" __global__ void f(int *a) {{ {body} }}',
        "helper": f"inline __device__ void g(int *a) {{ {body} }} __global__ void f(int *a) {{ g(a); }}",
        "template": f"template <class T> __device__ void g(T *a) {{ {body} }}"
        "__global__ void f(int *a) { g<int>(a); }",
    }[inside]
    (out,) = run(code, np.zeros(4, np.int32), grid=4, block=1)
    assert out[0] == 5
    assert (out[1:] != 5).all()


def test_asynchronous_copies_reach_the_shared_memory_of_a_template() -> None:
    code = """
    template <int N> __device__ void g(const float *from, float *to) {
        __shared__ __align__(16) float room[N];
        unsigned at = (unsigned)__cvta_generic_to_shared(room + 4 * threadIdx.x);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(from + 4 * threadIdx.x));
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
        for (int i = threadIdx.x; i < N; i += blockDim.x) to[i] = room[N - 1 - i];
    }
    __global__ void f(const float *from, float *to) { g<64>(from, to); }"""
    numbers = np.arange(64, dtype=np.float32)
    *_, out = run(code, numbers, np.zeros(64, np.float32), block=16)
    assert (out == numbers[::-1]).all()


def test_constant_memory_is_uploaded_and_reset() -> None:
    program = Program(
        """
        __constant__ float table[4] = {1, 2, 3, 4};
        __device__ int counter = 10;
        extern "C" __global__ void f(float *a) { a[threadIdx.x] = table[threadIdx.x] + counter; counter = 0; }
        """,
        symbols=("table", "counter"),
    )
    source = program.put(np.array([0, 50, 60], np.float32))
    program.device.upload(program.module, "table", 4, source, 4, 8)
    (out,) = program.run(np.zeros(4, np.float32), block=4)
    assert out.tolist() == [11, 50, 60, 4]
    program.device.reset_globals(program.module)
    (out,) = program.run(np.zeros(4, np.float32), block=1)
    assert out[0] == 11
    with pytest.raises(KernelFault, match="table holds 16 bytes"):
        program.device.upload(program.module, "table", 8, source, 0, 12)


def test_templates_are_launched_by_their_name_expression() -> None:
    entries = [EntryPoint("f", ("float", "2")), EntryPoint("ns::g", ("(int)3",))]
    code = """
    template <class T, int N> __global__ void f(T *a) { a[threadIdx.x] = T(N) / 4; }
    namespace ns { template <int N> __global__ void g(float *a) { a[threadIdx.x] += N; } }
    """
    program = Program(code, entries)
    values = np.zeros(8, np.float32)
    (out,) = program.run(values, block=8, kernel=entries[0])
    assert (out == 0.5).all()
    (out,) = program.run(values, block=8, kernel=entries[1])
    assert (out == 3).all()


def test_vector_types_have_cuda_sizes_and_alignments() -> None:
    code = """extern "C" __global__ void f(int *a, const float4 *b) {
        struct mixed { char c; float2 v; };
        int sizes[] = {sizeof(float3), alignof(float3), sizeof(float4), alignof(float4), sizeof(uchar4),
                       alignof(uchar4), sizeof(double2), alignof(short2), sizeof(mixed), alignof(longlong2)};
        for (int i = 0; i < 10; i++) a[i] = sizes[i];
        float4 v = b[1];
        int3 w = make_int3(v.x, v.y, v.z);
        a[10] = w.x + w.y * 10 + w.z * 100 + (int)v.w * 1000;
        uint3 index = threadIdx;
        dim3 shape(4, 5);
        a[11] = index.x + shape.x * shape.y * shape.z;
    }"""
    out = run(code, np.zeros(12, np.int32), np.arange(8, dtype=np.float32), block=1)[0]
    assert out.tolist() == [12, 4, 16, 16, 4, 4, 16, 4, 16, 16, 7654, 20]


def test_structs_and_scalars_go_by_value() -> None:
    code = """
    struct params { float scale; double shift; int n; };
    extern "C" __global__ void f(float *a, params p, long long skip, bool on) {
        if (threadIdx.x < p.n && on) a[threadIdx.x + skip] = threadIdx.x * p.scale + (float)p.shift;
    }"""
    params = np.array([(2.0, 0.25, 5)], np.dtype([("s", "f4"), ("d", "f8"), ("n", "i4")], align=True))[0]
    (out,) = run(code, np.zeros(8, np.float32), params, np.int64(2), np.bool_(True))
    assert out.tolist() == [0, 0, 0.25, 2.25, 4.25, 6.25, 8.25, 0]


def test_textures_of_the_shim_read_what_is_bound() -> None:
    code = (
        SHIM.decode()
        + """
    texture<float, 1> line;
    texture<float, 2> image;
    extern "C" __global__ void f(float *a) {
        a[threadIdx.x] = tex1Dfetch(line, (int)threadIdx.x - 1) +
                         100 * tex2D(image, threadIdx.x + 0.5f, 1.5f);
    }"""
    )
    program = Program(code, symbols=("line", "image"))
    data = program.put(np.arange(6, dtype=np.float32))
    program.device.bind_texture(program.module, "line", data, 4, 3, 0)
    program.device.bind_texture(program.module, "image", data, 0, 3, 2)
    (out,) = program.run(np.zeros(5, np.float32), block=5)
    assert out.tolist() == [301, 401, 502, 503, 503]


def test_lines_of_an_error_are_those_of_the_source() -> None:
    code = (
        "// one\n/* two\nthree */ #define LONG 1 + \\\n 2\n"
        'extern "C" __global__ void f(int *a) {\n  a[0] = missing;\n}'
    )
    log = refuse(code).log
    assert "kernel.cu:6:" in log
    assert "missing" in log


@pytest.mark.parametrize(
    "line",
    [
        '#include "/etc/passwd"',
        "#include <vector>",
        "#define NAME <stdio.h>\n#include NAME",
        '#include "kcurate/../../runtime/state.h"',
        "#include_next <math.h>",
    ],
)
def test_only_headers_of_ours_are_read(line: str) -> None:
    log = refuse(f'{line}\nextern "C" __global__ void f() {{}}').log
    assert "no such header" in log
    assert "root:" not in log


@pytest.mark.parametrize(
    "header",
    [
        "cuda_fp16.h",
        "cuda_bf16.h",
        "mma.h",
        "cuda_pipeline.h",
        "cooperative_groups.h",
        "cooperative_groups/reduce.h",
        "cooperative_groups/scan.h",
        "cooperative_groups/memcpy_async.h",
        "math_constants.h",
        "cuda_runtime.h",
        "stdint.h",
        "float.h",
        "climits",
        "cmath",
        "cuComplex.h",
        "cuda/std/limits",
        "cuda/std/type_traits",
    ],
)
def test_headers_of_device_code_are_there(header: str) -> None:
    compile_side(f'#include <{header}>\nextern "C" __global__ void f(float *a) {{ a[0] = 1; }}')


def test_the_small_standard_library() -> None:
    code = """
    #include <stdint.h>
    #include <cuda/std/array>
    #include <cuda/std/cmath>
    #include <cuda/std/limits>
    #include <cuda/std/type_traits>
    #include <cuComplex.h>
    template <class T> __device__ T top() {
        static_assert(cuda::std::is_floating_point<T>::value && !cuda::std::is_same_v<T, int>, "");
        return cuda::std::numeric_limits<T>::max();
    }
    static_assert(cuda::std::is_same_v<cuda::std::make_unsigned_t<char>, unsigned char>, "");
    static_assert(cuda::std::is_same_v<cuda::std::make_unsigned<long>::type, unsigned long>, "");
    static_assert(cuda::std::is_same_v<cuda::std::make_signed_t<unsigned short>, short>, "");
    static_assert(UINT64_C(1) << 40 == 1099511627776ull && UINT32_C(0) - 1 > 0 && INT64_C(-1) < 0, "");
    extern "C" __global__ void f(float *a) {
        cuda::std::array<float, 3> three{{1, 2, 3}};
        for (float x : three) a[0] += x;
        a[1] = top<float>() == 3.402823466e+38f && cuda::std::numeric_limits<short>::lowest() == -32768;
        a[2] = cuda::std::sqrt(16.0f) + cuda::std::max(1.0f, 2.0f);
        cuComplex z = cuCdivf(make_cuComplex(4, 2), make_cuComplex(1, 1));
        a[3] = z.x * 10 + z.y;
        a[4] = cuCabs(make_cuDoubleComplex(3, 4));
    }"""
    (out,) = run(code, np.zeros(5, np.float32), block=1)
    assert out.tolist() == [6, 1, 6, 29, 5]


def test_comments_and_literals_are_told_apart() -> None:
    code = r"""
    // a comment with 'an apostrophe and "a quote
    extern "C" __global__ void f(int *a) {
        const char *text = "/* no comment */ // none";
        char slash = '/', quote = '"'; /* " */
        int n = 0, big = 1'000;
        while (text[n]) n++;
        a[0] = n + (slash == '/') + (quote == '"') + big;
    }"""
    (out,) = run(code, np.zeros(1, np.int32), block=1)
    assert out[0] == 24 + 1 + 1 + 1000


def test_launches_that_a_gpu_refuses_are_faults() -> None:
    program = Program('extern "C" __global__ void f(float *a, int n) {}')
    memory = program.device.allocate(4)
    good = [Pointer(memory), ScalarValue(b"\0" * 4)]

    def launch(grid: Grid, args: list[Pointer | ScalarValue]) -> None:
        program.device.launch(program.module, EntryPoint("f"), grid, args)

    launch(Grid((1, 1, 1), (1, 1, 1)), good)
    for shape in (
        Grid((1, 1, 1), (1025, 1, 1)),
        Grid((1, 1, 1), (1, 1, 65)),
        Grid((1, 65536, 1), (1, 1, 1)),
        Grid((0, 1, 1), (1, 1, 1)),
        Grid((1, 1, 1), (1, 1, 1), 1 << 20),
    ):
        with pytest.raises(KernelFault) as fault:
            launch(shape, good)
        assert fault.value.reason == "launch_error"
    for args in ([Pointer(memory)], [Pointer(memory), ScalarValue(b"\0" * 8)]):
        with pytest.raises(KernelFault, match="argument"):
            launch(Grid((1, 1, 1), (1, 1, 1)), args)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("pair(next(c), next(c))", 1),
        ("pair(c, next(c))", 0),
        ("pair(c = 3, c)", 33),
        ("pair(sum(c), c)", 33),
        ("Pair(next(c), next(c)).both()", 1),
        ("Pair(0, 0).of(next(c), next(c))", 1),
        ("Pair(0, 0)(next(c), next(c))", 1),
        ("lambda(next(c), pair(next(c), next(c)))", 12),
        ("drawn(c) - drawn(c)", 1),
        ("next(c) * 10 + next(c)", 1),
        ("c + next(c)", 0),
        ("c - (c = 5)", -5),
        ("pair(atomicAdd(out + 1, 1), atomicAdd(out + 1, 1))", 1),
        ("folded()", 1),
        ("PROBE(c)", 1),
        ("two.both()", 1),
        ("written(c, next(c)) + 10 * c", 72),
    ],
)
def test_arguments_and_operands_are_evaluated_from_the_left(expression: str, value: int) -> None:
    """The values are those that NVRTC 13.0 folds these to."""
    code = f"""
    #define PROBE(c) pair(next(c), next(c))
    struct Pair {{
        int a, b;
        __device__ Pair(int x, int y) : a(x), b(y) {{}}
        __device__ int both() const {{ return a * 10 + b; }}
        __device__ int of(int x, int y) const {{ return x * 10 + y; }}
        __device__ int operator()(int x, int y) const {{ return x * 10 + y; }}
    }};
    __device__ constexpr int next(int &c) {{ return c++; }}
    __device__ int sum(int &c) {{ for (int k = 0; k < 3; k++) next(c); return c; }}
    __device__ constexpr int pair(int a, int b) {{ return a * 10 + b; }}
    __device__ int written(int &a, int b) {{ a += 6; return b + 2; }}
    __device__ constexpr int folded() {{ int c = 0; return pair(next(c), next(c)); }}
    __device__ Pair drawn(int &c) {{ int v = next(c); return Pair(v, v); }}
    __device__ int operator-(Pair x, Pair y) {{ return x.a * 10 + y.a; }}
    extern "C" __global__ void f(int *out) {{
        int c = 0, d = 0;
        const Pair two(next(d), next(d));
        auto lambda = [&](int x, int y) {{ return x * 10 + y; }};
        static_assert(pair(folded(), folded()) == 11);
        out[0] = {expression};
    }}"""
    assert run(code, np.zeros(2, np.int32), grid=(1, 1, 1), block=(1, 1, 1))[0][0] == value
