"""The maths library's tables are not state; a variable of that name in the source is."""

from __future__ import annotations

from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.cuda.compiler import CudaCompiler
from kcurate.judge.checks import static
from kcurate.records import Launch, Side

WAVES = """extern "C" __global__ void waves(float *x, double *y)
{
    x[threadIdx.x] = sinf(x[threadIdx.x]) + cosf(x[threadIdx.x]);
    y[threadIdx.x] = sin(y[threadIdx.x]) + cos(y[threadIdx.x]);
}
"""


def side(code: str) -> Side:
    return Side(code=code, plan=(Launch("waves", (1,), (32,), ("x", "y")),))


def test_sine_and_cosine_pass_the_binary_checks() -> None:
    compiled = CudaCompiler().compile(WAVES, [EntryPoint("waves", ())])
    assert isinstance(compiled, Compiled)
    assert static.check_binary(compiled, side(WAVES)) == ()


def test_a_variable_named_like_a_library_table_is_state() -> None:
    code = "__device__ unsigned __cudart_i2opi_f[6];\n" + WAVES
    assert [finding.check for finding in static.check_source(side(code))] == ["state"]
