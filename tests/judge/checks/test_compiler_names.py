"""Names by which a made slow side could tell the emulator from a GPU."""

from __future__ import annotations

import pytest

from kcurate.judge.checks.compiler_names import compiler_names
from kcurate.judge.checks.lexer import Source


@pytest.mark.parametrize(
    "code",
    [
        "#ifdef __KCURATE_EMULATOR__\n#endif",
        "#if defined(__GNUC__) && __GNUC__ > 4\n#endif",
        "int k = __OPTIMIZE__;",
        "#ifndef __x86_64__\n#endif",
        "int k = sizeof(long double);",
        "int k = kcu_lane;",
        "int k = __COUNTER__;",
    ],
)
def test_what_tells_compilers_apart_is_refused(code: str) -> None:
    assert [finding.check for finding in compiler_names(Source(code))][:1] == ["sham"]


@pytest.mark.parametrize(
    "code",
    [
        "#if __CUDA_ARCH__ >= 800\n#endif",
        "__global__ void __launch_bounds__(256) f(float *__restrict__ x) { *x = __FLT_MAX__; }",
        "// __GNUC__\nlong long k = 3; double d = 1; unsigned long x;",
        "float f = __expf(x) + __ldg(p) + __shfl_down_sync(m, v, 1);",
        "#ifdef USE_TILES\n#endif",
    ],
)
def test_what_means_the_same_everywhere_is_allowed(code: str) -> None:
    assert not list(compiler_names(Source(code)))
