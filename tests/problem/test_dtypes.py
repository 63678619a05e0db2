"""Element types and by-value structs come out as the bytes that a C compiler would lay down."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate.errors import ProblemError
from kcurate.problem.dtypes import DTYPES, UNIT_ROUNDOFF, is_float, numpy_dtype, pack_struct, scalar_bytes
from kcurate.records import StructField

CODES = {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
         "uint64": "Q", "float32": "f", "float64": "d", "float16": "e", "bool": "?"}  # fmt: skip


def test_every_dtype_has_its_size() -> None:
    sizes = {name: numpy_dtype(name).itemsize for name in DTYPES}
    assert sizes == {
        **{name: struct.calcsize(f"<{code}") for name, code in CODES.items()},
        "bfloat16": 2,
        **dict.fromkeys(("float8_e4m3", "float8_e5m2", "float8_e8m0"), 1),
        **dict.fromkeys(("int4x2", "uint4x2", "float4_e2m1x2"), 1),
    }


def test_eight_bit_floats_round_as_cuda_does() -> None:
    values = np.array([448.0, 1.0625, 2.0**-9, 0.3])
    assert values.astype(numpy_dtype("float8_e4m3")).view(np.uint8).tolist() == [0x7E, 0x38, 0x01, 0x2A]
    assert values[1:].astype(numpy_dtype("float8_e5m2")).view(np.uint8).tolist() == [0x3C, 0x18, 0x35]
    assert np.array([0.25, 1, 2]).astype(numpy_dtype("float8_e8m0")).view(np.uint8).tolist() == [
        125,
        127,
        128,
    ]


def test_an_unknown_dtype_lists_the_known_ones() -> None:
    with pytest.raises(ProblemError, match="float8") as error:
        numpy_dtype("float8")
    assert "bfloat16" in str(error.value.hint)


@pytest.mark.parametrize("name", sorted(UNIT_ROUNDOFF))
def test_unit_roundoffs_are_half_the_spacing_at_one(name: str) -> None:
    assert is_float(name)
    info = ml_dtypes.finfo(numpy_dtype(name))
    assert UNIT_ROUNDOFF[name] == float(info.eps) / 2


@given(st.sampled_from(sorted(CODES)), st.data())
def test_scalars_are_little_endian_c_values(name: str, data: st.DataObject) -> None:
    if is_float(name):
        width = {"float16": 16, "float32": 32, "float64": 64}[name]
        value = data.draw(st.floats(width=width, allow_nan=False, allow_infinity=False))  # type: ignore[arg-type]
    elif name == "bool":
        value = data.draw(st.booleans())
    else:
        info = np.iinfo(name)
        value = data.draw(st.integers(int(info.min), int(info.max)))
    assert scalar_bytes(name, value) == struct.pack(f"<{CODES[name]}", value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("float32", 10**400),
        ("int32", 10**400),
        ("uint8", 256),
        ("uint8", -1),
        ("int32", 1 << 31),
        ("int32", 0.5),
        ("uint64", -1),
        ("int32", float("nan")),
        ("int8", float("inf")),
        ("float16", 1e5),
        ("float32", 1e39),
    ],
)
def test_values_that_do_not_fit_are_refused(name: str, value: float) -> None:
    with pytest.raises(ProblemError, match="does not fit"):
        scalar_bytes(name, value)


def test_structs_are_aligned_as_in_c() -> None:
    fields = (
        StructField("flag", "int8"),
        StructField("x", "float64"),
        StructField("dims", "int32", 3),
        StructField("half", "float16"),
    )
    values = {"flag": 1, "x": 2.5, "dims": [4, 5, 6], "half": 0.5}
    assert pack_struct(fields, values) == struct.pack("<b7xd3ie2x", 1, 2.5, 4, 5, 6, 0.5)


def test_one_value_fills_an_array_member() -> None:
    assert pack_struct((StructField("v", "int32", 3),), {"v": 7}) == struct.pack("<3i", 7, 7, 7)


def test_structs_need_every_member() -> None:
    fields = (StructField("a", "int32"), StructField("b", "int32", 2))
    with pytest.raises(ProblemError, match="'b' has no value"):
        pack_struct(fields, {"a": 1})
    with pytest.raises(ProblemError, match="takes 2 values, not 3"):
        pack_struct(fields, {"a": 1, "b": [1, 2, 3]})
    with pytest.raises(ProblemError, match="no member 'c'"):
        pack_struct(fields, {"a": 1, "b": 2, "c": 3})
