"""What is read off a cubin agrees with what ptxas printed while it made it."""

import re

import pytest

from kcurate.backends.cuda import cubin, nvrtc
from kcurate.errors import BackendError

CODE = """
__constant__ float table[30];
__device__ int counter = 3;
__device__ float zeroed[100];
template <class T, int N> __global__ __launch_bounds__(256) void mix(T* a, int n) {
  __shared__ T s[N];
  float big[200];
  for (int i = 0; i < 200; i++) big[i] = a[i];
  s[threadIdx.x] = table[n];
  __syncthreads();
  atomicAdd(&counter, 1);
  zeroed[n] = 1;
  a[n] = s[n] + big[n % 200];
}
extern "C" __global__ void one(float* a) { a[0] = 1; }
"""


@pytest.fixture(scope="module")
def made() -> nvrtc.NvrtcResult:
    result = nvrtc.compile_cubin(CODE, name_expressions=["mix<float, 256>"], options=["--ptxas-options=-v"])
    assert result.cubin, result.log
    return result


def test_resources_agree_with_ptxas(made: nvrtc.NvrtcResult) -> None:
    kernels = {kernel.kernel: kernel for kernel in cubin.read_kernels(made.cubin, made.log)}
    mix = kernels[made.lowered["mix<float, 256>"]]
    registers = [int(n) for n in re.findall(r"Used (\d+) registers", made.log)]
    assert sorted(kernel.registers for kernel in kernels.values()) == sorted(registers)
    assert mix.shared_bytes == 1024
    assert mix.local_bytes == 800
    assert kernels["one"].shared_bytes == 0
    assert {kernel.spill_bytes for kernel in kernels.values()} == {0}


def test_a_kernel_that_calls_functions_has_at_least_the_default_stack() -> None:
    code = """
    __device__ __noinline__ int deep(int x, int d) {
        volatile int frame[8];
        frame[d % 8] = x;
        return d > 0 ? frame[d] + deep(x + 1, d - 1) : frame[x % 8];
    }
    extern "C" __global__ void calls(int *out, double *y, int d) {
        out[0] = deep(out[1], d);
        y[0] = pow(y[1], y[2]);
    }
    extern "C" __global__ void alone(double *y) {
        volatile int frame[8];
        frame[(int)y[1]] = 1;
        y[0] = pow(sin(y[1]), y[2]) / y[3] + frame[1];
    }"""
    kernels = cubin.read_kernels(nvrtc.compile_cubin(code).cubin)
    local = {kernel.kernel: kernel.local_bytes or 0 for kernel in kernels}
    assert local["calls"] == cubin.DEFAULT_STACK_BYTES
    assert 32 <= local["alone"] < 200


def test_variables_have_their_initial_bytes(made: nvrtc.NvrtcResult) -> None:
    found = {variable.name: variable for variable in cubin.variables(made.cubin)}
    assert found["counter"].initial == (3).to_bytes(4, "little")
    assert found["zeroed"].initial is None
    assert (found["zeroed"].size_bytes, found["zeroed"].constant) == (400, False)
    assert (found["table"].size_bytes, found["table"].constant) == (120, True)


def test_machine_code_hash_ignores_names_of_files_and_sees_changes(made: nvrtc.NvrtcResult) -> None:
    again = nvrtc.compile_cubin("// a comment\n" + CODE, name_expressions=["mix<float, 256>"])
    other = nvrtc.compile_cubin(CODE.replace("a[0] = 1", "a[0] = 2"), name_expressions=["mix<float, 256>"])
    assert cubin.code_sha256(again.cubin, "one") == cubin.code_sha256(made.cubin, "one")
    assert cubin.code_sha256(other.cubin, "one") != cubin.code_sha256(made.cubin, "one")
    assert cubin.code_sha256(made.cubin, "absent") is None


def test_bytes_that_are_not_a_cubin_raise_a_backend_error() -> None:
    with pytest.raises(BackendError, match="not a cubin"):
        cubin.read_kernels(b"nothing of the kind")


def test_parameters_are_read_with_offset_and_size() -> None:
    code = """struct S { int a[7]; };
extern "C" __global__ void k(float *a, const int *b, int n, S s, double d) { a[0] = b[n] + s.a[2] + d; }
extern "C" __global__ void none() {}
"""
    binary = nvrtc.compile_cubin(code).cubin
    assert binary is not None
    assert cubin.parameters(binary, "k") == ((0, 8), (8, 8), (16, 4), (20, 28), (48, 8))
    assert cubin.parameters(binary, "none") == ()
