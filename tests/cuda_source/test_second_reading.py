"""What a second reading of a unit changes, and what it only reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcurate.cuda_source import Reading, UnitReport, extract_unit
from kcurate.cuda_source.launches.instantiations import MAX_FOUND
from kcurate.cuda_source.launches.second_reading import SeenInstance, SeenKernel

UNUSED = "template <class T, int N> __global__ void k(T *x) { x[0] = N; }\n"
GUESSED = "struct S { int n; };\ntemplate <class T> __global__ void k(T *x) { x[0] = 1; }\n"
USED = (
    "template <class T> __global__ void k(T *x) { x[0] = 1; }\nvoid f(float *x) { k<float><<<1, 1>>>(x); }\n"
)


def report(text: str, **fields: Any) -> UnitReport:
    """The report of a file that a second reader reads too, as in `fields`."""

    def second(read: bytes, _: Sequence[str]) -> Reading:
        assert read.decode() == text
        return Reading(**fields)

    return extract_unit("a.cu", {"a.cu": text.encode()}.get, lambda *_: None, {}, second)


def template(text: str, *arguments: str) -> dict[str, Any]:
    """The reading of a text with a kernel template `k` and instances of it, each with its arguments as id."""
    at = text.index("template")
    seen = (SeenInstance("k", text.index("__global__"), each, each) for each in arguments)
    return {"kernels": (SeenKernel("k", at, text.index("}", at) + 1, True),), "instances": tuple(seen)}


def stated(seen: UnitReport) -> tuple[str, ...]:
    [kernel] = seen.kernels
    return kernel.instantiations


def findings(seen: UnitReport) -> list[tuple[str, str]]:
    return [(str(each.seen), each.what) for each in seen.second if each.seen != "kernel"]


def test_instances_are_taken_where_none_was_found() -> None:
    seen = report(UNUSED, **template(UNUSED, "float, 4", "(anonymous namespace)::S, 2", "Unknown, 1"))
    # A type that the unit does not declare cannot be stated.
    assert stated(seen) == ("k<float, 4>",)
    assert findings(seen) == [("instance_taken", "k<float, 4>")]


def test_a_guess_gives_way() -> None:
    seen = report(GUESSED, **template(GUESSED, "S"))
    [kernel] = seen.kernels
    assert stated(report(GUESSED)) == ("k<float>",)
    assert kernel.instantiations == ("k<S>",) and "template-argument" not in kernel.shims
    assert b"struct S" in kernel.code and b"k<float>" not in kernel.code


def test_what_is_found_is_asked_about_and_a_guess_is_not() -> None:
    asked: list[str] = []

    def second(_: bytes, expressions: Sequence[str]) -> Reading:
        asked.extend(expressions)
        return Reading()

    for text in (GUESSED, USED):
        extract_unit("a.cu", {"a.cu": text.encode()}.get, lambda *_: None, {}, second)
    assert asked == ["k<float>"]  # of `USED`


def test_arguments_of_a_pack_are_stated_one_by_one() -> None:
    text = "template <class T, class... U> __global__ void k(U... x) {}\n"
    assert stated(report(text, **template(text, "float, <double, unsigned int>"))) == (
        "k<float, double, unsigned int>",
    )


SURE = {"k<float, 2>", "k<unsigned int, true>"}


@pytest.mark.parametrize(
    "more, at_error, taken",
    [
        ("", None, {"k<int, 1>", *SURE}),
        # An unknown type may have become `int` or `void`; what depends on an unknown value is unknown.
        ("void f() { missing(); }", "missing", SURE),
        ("struct S { missing x; };", "missing", SURE),
        ("MISSING(4)", "MISSING", SURE),
        # But numbers may be wrong too behind these.
        ("struct S { missing x; }; void f() { g(sizeof(struct S)); }", "missing", set()),
        ("typedef missing real;", "missing", set()),
        ("enum E { A = 1, B = MISSING };", "MISSING", set()),
        ("struct S { enum { A = MISSING }; };", "MISSING", set()),
        ("", "", set()),
        ("#include <lib.h>", "<lib", {"k<int, 1>", *SURE}),
    ],
)
def test_in_a_text_with_errors_only_what_cannot_come_of_one_is_taken(
    more: str, at_error: str | None, taken: set[str]
) -> None:
    text = UNUSED + more + "\n"
    why = "'lib.h' file not found" if at_error == "<lib" else "no such name"
    # Without a byte of the text, the error is in a header.
    errors = () if at_error is None else ((text.index(at_error) if at_error else -1, why),)
    fields = template(text, "int, 1", "float, 2", "unsigned int, true")
    assert set(stated(report(text, **fields, errors=errors))) == taken


def test_found_instances_stay_and_others_are_reported() -> None:
    fields = template(USED, "float", "double")
    seen = report(USED, **fields, stated=((0, "float"),))
    assert stated(seen) == ("k<float>",)
    assert findings(seen) == [("instance", "k<float>"), ("instance_only_compiler", "double")]
    seen = report(USED, **template(USED, "double"), stated=((0, "float"),))
    assert findings(seen) == [("instance_only_here", "k<float>"), ("instance_only_compiler", "double")]


def test_an_instance_that_is_none_gives_way() -> None:
    fields = template(USED, "double")
    assert stated(report(USED, **fields, refused=((0, "no matching template"),))) == ("k<double>",)
    # But a header that is missing may have it.
    missing = report(USED, **fields, refused=((0, "no such name"),), errors=((0, "'lib.h' file not found"),))
    assert stated(missing) == ("k<float>",)
    overloaded = report(
        USED, **fields, refused=((0, "reference to overloaded function could not be resolved"),)
    )
    assert stated(overloaded) == ("k<float>",) and findings(overloaded) == []


def test_as_many_instances_as_are_stated_say_nothing_of_others() -> None:
    launches = "".join(f"k<{number}><<<1, 1>>>();" for number in range(MAX_FOUND + 2))
    text = f"template <int N> __global__ void k() {{}}\nvoid f() {{ {launches} }}\n"
    fields = template(text, *map(str, range(MAX_FOUND + 2)))
    seen = report(text, **fields, stated=tuple((number, str(number)) for number in range(MAX_FOUND)))
    assert findings(seen) == [("instance", f"k<{number}>") for number in range(MAX_FOUND)]


def test_kernels_are_compared_at_their_places() -> None:
    text = "__global__ void a() {}\n__global__ void b() {}\n"
    seen = report(text, kernels=(SeenKernel("a", 0, 22, False), SeenKernel("c", 30, 40, False)))
    assert [(str(each.seen), each.kernel, each.path, each.line) for each in seen.second] == [
        ("kernel", "a", "a.cu", 1),
        ("kernel_only_here", "b", "a.cu", 2),
        ("kernel_only_compiler", "c", "a.cu", 2),
    ]


def test_a_reading_that_failed_changes_nothing() -> None:
    seen = report(USED, failed="too long")
    assert seen.kernels == report(USED).kernels
    assert findings(seen) == [("not_read", "too long")]
