"""A constant that CUDA's headers leave in a binary is not state; a variable of that name in the source is."""

from __future__ import annotations

import pytest

from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.cuda.compiler import CudaCompiler
from kcurate.judge.checks import static
from kcurate.records import Launch, Side

CLAIM = 'extern "C" __global__ void claim(%s *x) { x[0] = atomicCAS(x + 1, %s, %s); }\n'


def side(code: str) -> Side:
    return Side(code=code, plan=(Launch("claim", (1,), (32,), ("x",)),))


@pytest.mark.parametrize("kind", ["int", "unsigned", "unsigned long long"])
def test_atomic_cas_passes_the_binary_checks(kind: str) -> None:
    code = CLAIM % (kind, f"({kind})0", f"({kind})3")
    compiled = CudaCompiler().compile(code, [EntryPoint("claim", ())])
    assert isinstance(compiled, Compiled)
    assert static.check_binary(compiled, side(code)) == ()


def test_a_writable_variable_named_like_the_header_constant_is_state() -> None:
    code = CLAIM % ("int", "0", "3") + "struct Mine;\n"
    code += "template <> struct __nv_atomic_triv_cp_helper<Mine> { static __device__ bool __val; };\n"
    assert [finding.check for finding in static.check_source(side(code))] == ["state"]
