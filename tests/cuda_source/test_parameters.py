"""Kernel parameters as records have them."""

from __future__ import annotations

import pytest

from kcurate.cuda_source import kernel_signatures

MACROS = b"""#define RESTRICT __restrict__
#define REAL float
  #  define DATA const REAL // of a table
#define EMPTY
#define CALL(x) x
#define EXPRESSION (1 + 2)
"""


@pytest.mark.parametrize(
    ("written", "type_", "restrict"),
    [
        (b"const REAL* RESTRICT a", "const float*", True),
        (b"DATA *a", "const float*", False),
        (b"EMPTY int EMPTY a", "int", False),
        (b"T* __restrict__ a", "T*", True),
        (b"CALL *a", "CALL*", False),
        (b"EXPRESSION a", "EXPRESSION", False),
    ],
)
def test_macros_that_stand_for_words_are_replaced_in_types(
    written: bytes, type_: str, restrict: bool
) -> None:
    code = MACROS + b"template <class T> __global__ void k(" + written + b") { }"
    (param,) = kernel_signatures(code)["k"]
    assert (param.name, param.type, param.restrict) == ("a", type_, restrict)


def test_macros_that_name_each_other_end() -> None:
    code = b"#define A B\n#define B A\n__global__ void k(A x) { }"
    (param,) = kernel_signatures(code)["k"]
    assert param.name == "x"
