"""Everything that can be wrong with a candidate before it runs is found, each with its place."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import small

from kcurate.problem.check import Issue, check, scalar_bytes_of
from kcurate.records import (
    BenchSize,
    Buffer,
    BufferArg,
    Candidate,
    For,
    Init,
    Launch,
    Origin,
    Problem,
    Scalar,
    Side,
    Sizes,
    StructField,
    Tolerance,
    ValueArg,
    View,
    WhileNonzero,
)

CODE = """
struct Box { int w; float h; };
template <typename T> __global__ void scale(const T *a, T *b, float s, int n, Box box) {}
__global__ void plain(const float *a, float *b) {}
"""
ARGS = ("a", "b", "s", "n", "box")
LAUNCH = Launch("scale", ("ceil_div(n, 32)",), (32,), ARGS, ("float",))
SIDE = Side(CODE, (LAUNCH,))
PROBLEM = Problem(
    Sizes(({"n": 10}, {"n": 33}), {"n": 4096}),
    {
        "a": Buffer("float32", ("n",), Init("uniform")),
        "b": Buffer("float32", ("n",), role="out", tolerance=Tolerance(terms="n")),
        "count": Buffer("int32", (1,), role="out"),
    },
    {
        "s": Scalar("float32", 2.0),
        "box": Scalar((StructField("w", "int32"), StructField("h", "float32")), {"w": "n", "h": 1.0}),
    },
)
CANDIDATE = Candidate("x", "scale", "d", None, Origin("curated"), (), "", PROBLEM, SIDE, SIDE)


def issues(candidate: Candidate) -> list[tuple[str, str]]:
    return [(issue.where, issue.what) for issue in check(candidate)]


ANY = Tolerance(order="any")


def _records(*records: tuple[str, ...], **buffers: Buffer) -> list[tuple[str, str]]:
    """The issues of a problem with these records, over keys and values in any order."""
    more = {
        "keys": Buffer("int32", ("n",), role="out", tolerance=ANY),
        "values": Buffer("float32", ("n", 3), role="out", tolerance=ANY),
        **buffers,
    }
    return issues(with_problem(buffers={**PROBLEM.buffers, **more}, records=records))


def test_records_name_outputs_that_belong_together() -> None:
    assert _records(("keys", "values")) == []
    where = "problem.records[0]"
    assert _records(("keys",)) == [(where, "names fewer than two outputs")]
    assert _records(("keys", "a")) == [(where, "'a' is not an output")]
    assert _records(("keys", "nobody")) == [(where, "'nobody' is not an output")]
    twice = [(f"problem.records[{index}]", "'keys' is named 2 times in records") for index in (0, 1)]
    more = Buffer("int32", ("n",), role="out", tolerance=ANY)
    assert _records(("keys", "values"), ("keys", "more"), more=more) == twice
    short = Buffer("int32", ("n / 2",), role="out", tolerance=ANY)
    text = "'keys' has 10 rows and 'short' 5 at sizes {'n': 10}"
    assert _records(("keys", "short"), short=short) == [(where, text)]
    single = Buffer("int32", (), role="out", tolerance=ANY)
    assert (where, "'keys' or 'single' has no axes") in _records(("keys", "single"), single=single)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Tolerance(), "order 'any' and 'exact'"),
        (Tolerance(order="any", valid="count"), "valid None and 'count'"),
    ],
)
def test_members_of_a_record_are_counted_and_ordered_alike(rule: Tolerance, text: str) -> None:
    other = Buffer("int32", ("n",), role="out", tolerance=rule)
    expected = f"'keys' and 'other' have different tolerances: {text}"
    assert _records(("keys", "other"), other=other) == [("problem.records[0]", expected)]


def with_problem(**changes: Any) -> Candidate:
    return dataclasses.replace(CANDIDATE, problem=dataclasses.replace(PROBLEM, **changes))


def with_buffer(name: str, **changes: Any) -> Candidate:
    known = PROBLEM.buffers.get(name, Buffer("float32", ("n",)))
    return with_problem(buffers={**PROBLEM.buffers, name: dataclasses.replace(known, **changes)})


def with_fast(**changes: Any) -> Candidate:
    return dataclasses.replace(CANDIDATE, fast=dataclasses.replace(SIDE, **changes))


def with_args(*args: Any, kernel: str = "scale") -> Candidate:
    template = ("float",) if kernel == "scale" else ()
    return with_fast(plan=(dataclasses.replace(LAUNCH, launch=kernel, args=args, template=template),))


def test_a_whole_candidate_has_no_issue() -> None:
    assert check(CANDIDATE) == ()


def test_eight_bytes_of_zeros_are_a_null_pointer() -> None:
    assert check(with_args("a", ValueArg(0, "uint64"), "s", "n", "box")) == ()


def test_a_candidate_without_a_problem() -> None:
    assert check(dataclasses.replace(CANDIDATE, problem=None)) == (
        Issue("problem", "the candidate has no problem"),
    )


def test_an_issue_reads_as_a_line() -> None:
    assert str(Issue("slow.plan[0]", "launches nothing")) == "slow.plan[0]: launches nothing"


@pytest.mark.parametrize(
    ("candidate", "where", "what"),
    [
        (with_problem(buffers={"a": PROBLEM.buffers["a"]}), "problem.buffers", "none has the role out"),
        (with_problem(sizes=Sizes((), {"n": 9})), "problem.sizes.test", "is empty"),
        (
            with_problem(sizes=Sizes(({"m": 1},), {"n": 9})),
            "problem.sizes.test[0]",
            "sizes as the headline",
        ),
        (with_buffer("b", tolerance=Tolerance(valid="a")), "problem.buffers.b.tolerance.valid", "'a' is not"),
        (with_buffer("b", tolerance=Tolerance(valid="b")), "problem.buffers.b.tolerance.valid", "'b' is not"),
        (
            with_buffer("b", tolerance=Tolerance(terms="q")),
            "problem.buffers.b.tolerance.terms",
            "unknown name",
        ),
        (with_buffer("a", init=Init("gauss")), "problem.buffers.a.init", "unknown init 'gauss'"),
        (with_buffer("a", init=Init("uniform", {"hi": 1})), "problem.buffers.a.init", "no parameter 'hi'"),
        (with_buffer("a", init=Init("integers", {"high": "n-10"})), "problem.buffers.a.init", "low < high"),
        (
            with_buffer("a", init=Init("csr_offsets", {"rows": "n", "nnz": 5})),
            "problem.buffers.a.init",
            "gives 11 elements, the shape has 10",
        ),
        (
            with_buffer("a", init=Init("csr_columns", {"rows": 2, "nnz": "n"})),
            "problem.buffers.a.init",
            "10 entries do not fit 2 rows of 2 columns",
        ),
        (with_buffer("b", init=Init("zeros")), "problem.buffers.b.init", "has no initial values"),
        (with_buffer("s"), "problem.scalars.s", "a buffer has the same name"),
        (with_buffer("n"), "problem.sizes.n", "a buffer has the same name"),
        (with_buffer("b", shape=("n-n",)), "problem.buffers.b", "extent below one"),
        (with_fast(plan=()), "fast.plan", "launches nothing"),
        (with_fast(plan=(For("i", 0, (LAUNCH,)),)), "fast.plan", "launches nothing"),
        (with_fast(views={"q": View()}), "fast.views.q", "no such buffer"),
        (
            with_fast(buffers={"a": Buffer("int8", (1,))}),
            "fast.buffers.a",
            "the problem has a buffer of that",
        ),
        (with_fast(buffers={"o": Buffer("int8", (1,), role="out")}), "fast.buffers.o.role", "`in` or `scr"),
        (with_fast(buffers={"o": Buffer("int8", (1,), role="inout")}), "fast.buffers.o.role", "`in` or `s"),
        (with_fast(buffers={"o": Buffer("int8", ("q",))}), "fast.buffers.o", "unknown name 'q'"),
        (with_fast(buffers={"o": Buffer("int8", (1,), Init("x"))}), "fast.buffers.o.init", "unknown init"),
        (
            with_fast(buffers={"o": Buffer("int8", (1,), Init("file", {"path": "/x"}))}),
            "fast.buffers.o.init",
            "must not come from a file",
        ),
        (
            with_fast(buffers={"o": Buffer("int8", (4,), Init("sorted", {"high": 9}))}),
            "fast.buffers.o.init",
            "must not hold random numbers",
        ),
        (with_fast(code="int x;"), "fast.plan", "no kernel 'scale'"),
        (with_args("a", "b", kernel="other"), "fast.plan", "no kernel 'other'"),
        (with_args("a", "b"), "fast.plan.scale", "2 arguments for 5 parameters"),
        (with_args("a", "s", "s", "n", "box"), "fast.plan.scale.args[1]", "takes a pointer"),
        (
            with_args("a", ValueArg(1, "uint64"), "s", "n", "box"),
            "fast.plan.scale.args[1]",
            "takes a pointer",
        ),
        (with_args("a", ValueArg(0, "int32"), "s", "n", "box"), "fast.plan.scale.args[1]", "takes a pointer"),
        (with_args("a", "b", ValueArg(0, "uint64"), "n", "box"), "fast.plan.scale.args[2]", "not 8"),
        (with_args("a", "b", "a", "n", "box"), "fast.plan.scale.args[2]", "takes a value"),
        (
            with_args("a", "b", "s", ValueArg("n", "int64"), "box"),
            "fast.plan.scale.args[3]",
            "takes 4 bytes, not 8",
        ),
        (
            with_args("a", "b", ValueArg(1.0, "float64"), "n", "box"),
            "fast.plan.scale.args[2]",
            "4 bytes, not 8",
        ),
        (with_args("a", BufferArg("b", "n+1"), kernel="plain"), "fast.plan[0].args[1]", "offset is 11"),
        (with_args("a", "c", kernel="plain"), "fast.plan[0].args[1]", "unknown argument 'c'"),
    ],
)
def test_each_fault_is_found_at_its_place(candidate: Candidate, where: str, what: str) -> None:
    found = issues(candidate)
    assert [place for place, text in found if what in text] == [where]


def test_a_promise_must_be_kept_by_the_generator() -> None:
    kept = dataclasses.replace(PROBLEM.buffers["a"], promises=("nonnegative", "varied"))
    assert issues(with_problem(buffers={**PROBLEM.buffers, "a": kept})) == []
    broken = dataclasses.replace(kept, promises=("sorted",))
    found = issues(with_problem(buffers={**PROBLEM.buffers, "a": broken}))
    what = "init uniform does not keep the promise 'sorted' at sizes {'n': 10}"
    assert found == [("problem.buffers.a.promises", what)]
    output = dataclasses.replace(PROBLEM.buffers["b"], promises=("finite",))
    found = issues(with_problem(buffers={**PROBLEM.buffers, "b": output}))
    assert [where for where, _ in found] == ["problem.buffers.b.promises"]


def test_launches_inside_flag_loops_are_checked() -> None:
    loop = WhileNonzero("count", 3, (dataclasses.replace(LAUNCH, args=("a",)),))
    assert ("fast.plan.scale", "1 arguments for 5 parameters") in issues(with_fast(plan=(loop,)))


def test_a_plan_that_fits_some_sizes_alone_says_which() -> None:
    candidate = with_fast(plan=(dataclasses.replace(LAUNCH, grid=("n-10",)),))
    assert issues(candidate) == [("fast.plan[0]", "grid.x is 0, outside 1..2147483647 at sizes {'n': 10}")]


@pytest.mark.parametrize(("made", "found"), [("fast", ["fast.views"]), ("slow", []), (None, [])])
def test_a_side_made_by_a_model_may_not_have_views(made: Any, found: list[str]) -> None:
    candidate = dataclasses.replace(
        with_fast(views={"b": View(permute=(0,))}), origin=Origin("model" if made else "curated", made=made)
    )
    assert [where for where, _ in issues(candidate)] == found


@pytest.mark.parametrize("kind", ["rule", "model"])
def test_a_record_of_made_code_says_which_side_was_made(kind: Any) -> None:
    one = dataclasses.replace(small.scaled(), origin=Origin(kind))
    assert [issue.where for issue in check(one)] == ["origin.made"]
    assert check(dataclasses.replace(one, origin=Origin(kind, made="slow"))) == ()


def test_both_sides_are_checked() -> None:
    broken = dataclasses.replace(SIDE, plan=())
    candidate = dataclasses.replace(CANDIDATE, slow=broken, fast=broken)
    assert [where for where, _ in issues(candidate)] == ["slow.plan", "fast.plan"]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("int", 4),
        ("const int", 4),
        ("unsigned", 4),
        ("unsigned int", 4),
        ("unsigned char", 1),
        ("unsigned long", 8),
        ("unsigned long long", 8),
        ("long long int", 8),
        ("long int", 8),
        ("short int", 2),
        ("size_t", 8),
        ("double", 8),
        ("__half", 2),
        ("bool", 1),
        ("float4", 16),
        ("int2", 8),
        ("double2", 16),
        ("uint3", 12),
        ("uchar4", 4),
        ("__nv_bfloat16", 2),
        ("T", None),
        ("Box", None),
    ],
)
def test_sizes_of_value_parameters(text: str, size: int | None) -> None:
    assert scalar_bytes_of(text) == size


NAMED = (BenchSize("large", {"n": 4096}), BenchSize("decode", {"n": 64}, headline=True))


def test_one_of_several_bench_sizes_is_the_headline() -> None:
    assert Sizes((), NAMED).headline == {"n": 64}
    assert Sizes((), NAMED[:1]).headline == {"n": 4096}
    assert Sizes((), NAMED).others == NAMED[:1]
    assert Sizes((), {"n": 8}).others == ()
    assert issues(with_problem(sizes=Sizes(({"n": 10},), NAMED))) == []


@pytest.mark.parametrize(
    ("bench", "what"),
    [
        ((*NAMED, BenchSize("large", {"n": 1})), "2 sizes are named 'large'"),
        ((*NAMED, BenchSize("other", {"n": 1}, headline=True)), "more than one size is the headline"),
        ((*NAMED, BenchSize("other", {"m": 1})), "does not name the same sizes as the headline"),
    ],
)
def test_bench_sizes_that_contradict_each_other(bench: tuple[BenchSize, ...], what: str) -> None:
    assert ("problem.sizes.bench", what) in issues(with_problem(sizes=Sizes(({"n": 10},), bench)))


def test_a_plan_must_fit_every_bench_size() -> None:
    bench = (*NAMED, BenchSize("huge", {"n": 2**40}))
    ((where, what),) = set(issues(with_problem(sizes=Sizes(({"n": 10},), bench))))
    assert where.startswith("problem.buffers")
    assert "'n': 1099511627776" in what
