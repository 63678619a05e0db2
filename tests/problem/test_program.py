"""Plans bound to sizes: every number right, and every error with its place."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import pytest

from kcurate.errors import ProblemError
from kcurate.problem.ops import (
    BoundPointer,
    BoundScalar,
    CopyOp,
    FillOp,
    LaunchOp,
    Program,
    SwapOp,
    TextureOp,
    UploadOp,
    WhileOp,
)
from kcurate.problem.program import MAX_OPERATIONS, bind
from kcurate.problem.tensor_maps import BoundTensorMap
from kcurate.records import (
    BindTexture,
    Buffer,
    BufferArg,
    Copy,
    Fill,
    For,
    Init,
    Launch,
    Problem,
    Scalar,
    Side,
    Sizes,
    Step,
    StructField,
    Swap,
    TensorMapArg,
    Upload,
    ValueArg,
    View,
    WhileNonzero,
)

SIZES = {"n": 100, "m": 8}
PROBLEM = Problem(
    Sizes((SIZES,), SIZES),
    {
        "a": Buffer("float32", ("n", "m"), pad=("m", 2)),
        "x": Buffer("float32", ("n",), role="inout"),
        "y": Buffer("float32", ("n",), role="out"),
        "z": Buffer("float64", ("n",), role="scratch"),
        "flag": Buffer("int32", (1,), role="scratch"),
    },
    {
        "alpha": Scalar("float32", 1.5),
        "lda": Scalar("int32", "n*m"),
        "box": Scalar((StructField("w", "int32"), StructField("s", "float64")), {"w": "m", "s": 0.5}),
    },
)


def program(*plan: Step, **side: Any) -> Any:
    return bind(PROBLEM, Side("", plan, **side), SIZES)


def launch(**changes: Any) -> Launch:
    return dataclasses.replace(Launch("k", ("n/10", 2), (32,), ("a", "n")), **changes)


def only(*plan: Step, **side: Any) -> Any:
    (op,) = program(*plan, **side).ops
    return op


def int32(value: int) -> BoundScalar:
    return BoundScalar(struct.pack("<i", value))


def test_launches_have_three_axes_and_evaluated_numbers() -> None:
    op = only(launch(template=("float", "{n/4}", "4"), shared_bytes="4*m", cooperative=True))
    assert op == LaunchOp(
        "k", ("float", "25", "4"), (10, 2, 1), (32, 1, 1), 32, True, (BoundPointer("a"), int32(100))
    )


def test_entry_points_are_listed_once() -> None:
    made = program(launch(), launch(block=(64,)), launch(template=("{m}",)), launch(template=("8",)))
    assert made.entry_points == (("k", ()), ("k", ("8",)))


def test_arguments_of_every_kind() -> None:
    args = (
        "x",
        BufferArg("a", "3*m"),
        BufferArg("a", "-m"),
        "alpha",
        "lda",
        "box",
        "m",
        ValueArg("n+1", "int64"),
        ValueArg(0.5, "float16"),
    )
    assert only(launch(args=args)).args == (
        BoundPointer("x"),
        BoundPointer("a", 96),
        BoundPointer("a", -32),
        BoundScalar(struct.pack("<f", 1.5)),
        int32(800),
        BoundScalar(struct.pack("<i4xd", 8, 0.5)),
        int32(8),
        BoundScalar(struct.pack("<q", 101)),
        BoundScalar(struct.pack("<e", 0.5)),
    )


def test_fill_copy_upload_texture_swap() -> None:
    assert only(Fill("x", 2.0, "m", 4)) == FillOp("x", 32, 16, struct.pack("<f", 2.0))
    assert only(Fill("z")) == FillOp("z", 0, 800, bytes(8))
    assert only(Copy("a", "x", offset="n", to_offset=10, count=50)) == CopyOp("a", 400, "x", 40, 200)
    made = program(Upload("table", "x", offset=1, to_offset=2, count=3))
    assert made.ops == (UploadOp("table", 8, "x", 4, 12),)
    assert made.symbols == ("table",)
    assert only(BindTexture("tex", "a", "m", "n")) == TextureOp("tex", "a", 8, 100)
    assert only(BindTexture("tex", "x")) == TextureOp("tex", "x", 100, 0)
    assert only(Swap(("x", "y"))) == SwapOp("x", "y")


def test_counted_loops_are_unrolled_in_either_direction() -> None:
    up = program(For("i", "m/2", (launch(args=("i",)),), from_=1)).ops
    assert [op.args for op in up] == [(int32(i),) for i in (1, 2, 3)]
    down = program(For("i", 0, (launch(args=(ValueArg("i*2"),)),), from_="m", step=-3)).ops
    assert [op.args for op in down] == [(int32(2 * i),) for i in (8, 5, 2)]
    nested = program(For("i", 2, (For("j", "i+1", (Fill("x", 0, "i*10+j", 1),)),))).ops
    assert [op.offset_bytes // 4 for op in nested] == [0, 10, 11]
    assert program(For("i", 0, (launch(),))).ops == ()


def test_loop_variables_end_with_their_loop() -> None:
    with pytest.raises(ProblemError, match="unknown argument 'i'") as error:
        program(For("i", 2, (launch(),)), launch(args=("i",)))
    assert error.value.where == "plan[1].args[0]"


def test_flag_loops_stay_loops() -> None:
    op = only(WhileNonzero("flag", "n", (launch(), Fill("flag"))))
    assert isinstance(op, WhileOp)
    assert (op.flag, op.limit, len(op.body)) == ("flag", 100, 2)


def test_integer_scalars_are_names_in_expressions() -> None:
    assert only(launch(grid=("lda/100",))).grid == (8, 1, 1)


@pytest.mark.parametrize(
    ("step", "where", "what"),
    [
        (launch(args=("a", "q")), "plan[0].args[1]", "unknown argument 'q'"),
        (launch(args=(BufferArg("q"),)), "plan[0].args[0]", "unknown buffer 'q'"),
        (launch(args=(BufferArg("a", "n*m+3"),)), "plan[0].args[0]", "offset is 803, outside -8..802"),
        (launch(args=(BufferArg("x", -1),)), "plan[0].args[0]", "offset is -1"),
        (launch(args=(ValueArg("1<<2"),)), "plan[0].args[0]", "unexpected"),
        (launch(args=(ValueArg(300, "uint8"),)), "plan[0].args[0]", "does not fit"),
        (launch(args=(ValueArg(1, "float128"),)), "plan[0].args[0]", "unknown dtype"),
        (launch(grid=("n-n",)), "plan[0]", "grid.x is 0"),
        (launch(grid=(1, 70000)), "plan[0]", "grid.y is 70000"),
        (launch(grid=()), "plan[0]", "grid takes one to three"),
        (launch(block=(1025,)), "plan[0]", "block.x is 1025"),
        (launch(block=(32, 32, 2)), "plan[0]", "2048 threads"),
        (launch(block=(1, 1, 65)), "plan[0]", "block.z is 65"),
        (launch(block=(1, 1, 1, 1)), "plan[0]", "block takes one to three"),
        (launch(shared_bytes=232449), "plan[0]", "shared_bytes is 232449"),
        (launch(template=("{q}",)), "plan[0]", "unknown name 'q'"),
        (Fill("x", 0, 99, 2), "plan[0]", "elements 99..101 of 'x'"),
        (Fill("x", 0, 101), "plan[0]", "offset is 101"),
        (Fill("a"), "plan[0]", "writes the input 'a'"),
        (Copy("x", "a"), "plan[0]", "writes the input 'a'"),
        (Copy("x", "y", to_offset=1), "plan[0]", "ends past 'y'"),
        (Copy("z", "y"), "plan[0]", "ends past 'y'"),
        (Copy("x", "y", count=-1), "plan[0]", "count is -1"),
        (Upload("t", "x", count=101), "plan[0]", "elements 0..101"),
        (BindTexture("t", "x", 101), "plan[0]", "reads past 'x'"),
        (BindTexture("t", "x", 10, 11), "plan[0]", "reads past 'x'"),
        (Swap(("x", "z")), "plan[0]", "differ in shape, dtype or pad"),
        (For("i", 2, (Fill("q"),)), "plan[0].do[0]", "unknown buffer 'q'"),
        (For("i", 2, (), step=0), "plan[0]", "step of a loop is zero"),
        (For("n", 2, ()), "plan[0]", "shadows another name"),
        (For("i", 1 << 40, ()), "plan[0]", "more than 100000"),
        (For("i", 400, (For("j", 400, (Fill("x"),)),)), None, "more than 100000"),
        (WhileNonzero("x", 3, ()), "plan[0]", "must be int32 or uint32"),
        (WhileNonzero("flag", 0, ()), "plan[0]", "max is 0"),
        (WhileNonzero("flag", 3, (launch(grid=(0,)),)), "plan[0].do[0]", "grid.x is 0"),
    ],
)
def test_errors_name_the_place(step: Step, where: str | None, what: str) -> None:
    with pytest.raises(ProblemError) as error:
        program(step)
    assert what in error.value.what
    assert where is None or error.value.where == where


def test_the_place_starts_where_the_caller_says() -> None:
    with pytest.raises(ProblemError) as error:
        bind(PROBLEM, Side("", (launch(), launch(grid=(0,)))), SIZES, where="fast.plan")
    assert error.value.where == "fast.plan[1]"


def test_the_limit_counts_every_round() -> None:
    assert len(program(For("i", MAX_OPERATIONS // 2 - 1, (Fill("flag"),))).ops) == MAX_OPERATIONS // 2 - 1


def test_deep_loops_are_refused() -> None:
    step: Step = Fill("x")
    for depth in range(40):
        step = For(f"i{depth}", 1, (step,))
    with pytest.raises(ProblemError, match="nested too deeply"):
        program(step)


@pytest.mark.parametrize(
    ("buffer", "view", "what"),
    [
        (Buffer("float32", ("n-n",), role="scratch"), None, "extent below one"),
        (Buffer("float32", (), role="scratch"), None, "extent below one"),
        (Buffer("float32", ("n", "n*n*n*n*n"), role="scratch"), None, "bytes"),
        (Buffer("float99", ("n",), role="scratch"), None, "unknown dtype"),
        (Buffer("float32", ("n",), role="scratch", pad=(-1, 0)), None, "negative pad"),
        (Buffer("float32", ("n",), role="scratch", pad=(0, 1 << 50)), None, "bytes"),
        (Buffer("float32", ("n", 2), role="scratch"), View(permute=(0, 0)), "not a permutation"),
        (Buffer("float32", ("n", 2), role="scratch"), View(permute=(0,)), "not a permutation"),
        (Buffer("float32", ("n", 2), role="scratch"), View(pad=((1, 1),)), "one pair of counts per axis"),
        (Buffer("float32", ("n",), role="scratch"), View(pad=((-1, 1),)), "one pair of counts per axis"),
    ],
)
def test_buffers_that_cannot_be(buffer: Buffer, view: View | None, what: str) -> None:
    with pytest.raises(ProblemError) as error:
        program(launch(), buffers={"own": buffer}, views={"own": view} if view else {})
    assert what in error.value.what
    assert error.value.where == "buffers.own"


def test_buffers_are_limited_together() -> None:
    half = Buffer("uint8", (3 << 34,), role="scratch")
    with pytest.raises(ProblemError, match="all together") as error:
        program(launch(), buffers={"p": half, "q": half})
    assert error.value.where == "buffers"
    with pytest.raises(ProblemError, match="own inputs together"):
        program(launch(), buffers={"p": Buffer("float32", (1 << 27,))})
    large = dataclasses.replace(PROBLEM, buffers={"p": Buffer("float32", (1 << 32,), role="inout")})
    with pytest.raises(ProblemError, match="inputs together"):
        bind(large, Side("", (Launch("k", (1,), (1,)),)), SIZES)
    assert program(launch(), buffers={"p": half}).buffers["p"].size_bytes == 3 << 34


def test_struct_values_may_be_expressions_and_must_fit() -> None:
    problem = dataclasses.replace(
        PROBLEM,
        scalars={"s": Scalar((StructField("v", "uint8"),), {"v": "n*m"}), "t": Scalar("int32", {"v": 1})},
    )
    for name, what in (("s", "800 does not fit uint8"), ("t", "no field list")):
        with pytest.raises(ProblemError, match=what) as error:
            bind(problem, Side("", (launch(args=(name,)),)), SIZES)
        assert error.value.where == "plan[0].args[0]"


MAPPED = Problem(
    Sizes(({"m": 64, "n": 32},), {"m": 64, "n": 32}),
    {"a": Buffer("float16", ("m", "n"), Init("uniform")), "b": Buffer("float16", ("m", "n"), role="out")},
)


def mapped(arg: TensorMapArg, problem: Problem = MAPPED) -> Program:
    launch = Launch("k", (8,), (32,), (arg, "b"), cluster=(2,))
    return bind(problem, Side("", (launch,)), problem.sizes.headline)


def test_a_tensor_map_is_dense_unless_it_says_otherwise() -> None:
    op = mapped(TensorMapArg("a", ("n", "m-1"), (16, 8), offset="n", swizzle="32B")).ops[0]
    assert isinstance(op, LaunchOp)
    assert op.cluster == (2, 1, 1)
    assert op.args[0] == BoundTensorMap(
        "a", 64, "float16", (32, 63), (64,), (16, 8), (1, 1), "32B", "none", "zeros"
    )


MAP = TensorMapArg("a", ("n", "m"), (16, 8))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"shape": ("n",)}, "as many values as shape"),
        ({"shape": (), "box": ()}, "has 1 to 5 axes here, not 0"),
        ({"shape": (0, "m")}, r"shape\[0\] is 0, outside 1..4294967296"),
        ({"box": (512, 8)}, r"box\[0\] is 512, outside 1..256"),
        ({"box": (4, 8)}, "inner row of the box has 8 bytes, not a multiple of 16"),
        ({"box": (32, 8), "swizzle": "32B"}, "64 bytes, more than the swizzle's 32"),
        ({"element_strides": (1, 9)}, r"element_strides\[1\] is 9, outside 1..8"),
        ({"strides": (72,)}, r"strides\[0\] is 72 bytes, not a multiple of 16"),
        ({"offset": 3}, "starts at byte 6, not a multiple of 16"),
        ({"interleave": "16B"}, "has 3 to 5 axes here, not 2"),
        (
            {"shape": (8, 4, "m"), "box": (8, 1, 8), "interleave": "32B", "strides": (32, 64)},
            "interleave 32B needs swizzle 32B",
        ),
        ({"offset": "n"}, None),
        ({"offset": "n", "shape": ("n", "m")}, "spans 4096 bytes of 'a', which has 4032"),
        ({"tensor_map": "c"}, "unknown buffer 'c'"),
    ],
)
def test_tensor_maps_that_the_driver_would_refuse(changed: dict[str, Any], what: str | None) -> None:
    arg = dataclasses.replace(MAP, **changed)
    if what is None:
        arg = dataclasses.replace(arg, shape=("n", "m-1"))
        assert mapped(arg).ops
        return
    with pytest.raises(ProblemError, match=what) as caught:
        mapped(arg)
    assert caught.value.where == "plan[0].args[0]"


def test_a_map_of_integers_has_no_nan_to_fill_with() -> None:
    buffers = {"a": Buffer("int4x2", ("m", "n")), "b": Buffer("int32", (1,), role="out")}
    problem = Problem(MAPPED.sizes, buffers)
    with pytest.raises(ProblemError, match="fill nan needs a floating-point type, not int4x2"):
        mapped(dataclasses.replace(MAP, fill="nan"), problem)


@pytest.mark.parametrize(
    ("cluster", "what"),
    [
        ((0,), r"cluster.x is 0, outside 1..16"),
        ((32,), r"cluster.x is 32, outside 1..16"),
        ((8, 4), "32 blocks per cluster, more than 16"),
        ((3,), r"a grid of \(8, 1, 1\) blocks cannot be divided into clusters of \(3, 1, 1\)"),
    ],
)
def test_clusters_that_cannot_be(cluster: tuple[int, ...], what: str) -> None:
    side = Side("", (Launch("k", (8,), (32,), ("b",), cluster=cluster),))
    with pytest.raises(ProblemError, match=what):
        bind(MAPPED, side, MAPPED.sizes.headline)
