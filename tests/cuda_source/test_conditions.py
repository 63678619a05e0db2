"""Conditions mean what they mean to g++, whose preprocessor nvcc uses; one without an answer says so."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcurate.cuda_source.preprocess.conditions import evaluate
from kcurate.cuda_source.preprocess.expansion import BUILT_IN, UnevaluatedError
from kcurate.cuda_source.preprocess.splicing import PREDEFINED, Text, local_includes, splice
from kcurate.cuda_source.text.blanking import blank_comments


@cache
def gxx() -> str:
    """A g++ that knows `#elifdef` and `__has_builtin`; the test is skipped without."""
    found = shutil.which("g++")
    version = subprocess.run([found, "-dumpversion"], capture_output=True, text=True).stdout if found else "0"
    if found is None or int(version.partition(".")[0]) < 12:
        pytest.skip("no g++ 12 or newer to compare with")
    return found


def preprocessed(source: str) -> tuple[str, list[tuple[int, str]]]:
    """What g++ leaves of a text, and its errors in their order, each with its line."""
    command = [gxx(), "-E", "-P", "-w", "-std=gnu++17", "-x", "c++", "-"]
    done = subprocess.run(
        command, input=source, capture_output=True, encoding="utf-8", env={**os.environ, "LC_ALL": "C"}
    )
    errors = re.findall(r"^<stdin>:(\d+):\d+: error: (.*)", done.stderr, re.MULTILINE)
    return done.stdout, [(int(line), what) for line, what in errors]


FOLDER = Path(__file__).parent / "conditions"
MACROS = (FOLDER / "macros.h").read_text(encoding="utf-8")
# One condition a line.
CONDITIONS = (FOLDER / "answered.txt").read_text(encoding="utf-8").splitlines()
# What g++ answers and kcurate does not: it is kept as unevaluated, and the branch is left out.
UNANSWERED = (FOLDER / "unanswered.txt").read_text(encoding="utf-8").splitlines()


def by_gxx(conditions: Sequence[str], setup: str) -> list[bool | None]:
    """What g++ makes of each condition; None: an error, which it may report where a macro is defined."""
    parts = (f"#error at {at}\n#if {text}\nyes {at}\n#endif\n" for at, text in enumerate(conditions))
    out, errors = preprocessed(setup + "".join(parts))
    held = {int(at) for at in re.findall(r"^yes (\d+)$", out, re.MULTILINE)}
    answers: list[bool | None] = [at in held for at in range(len(conditions))]
    at = -1
    for _, what in errors:
        if what.startswith("#error at"):
            at = int(what.split()[-1])
        elif at >= 0:
            answers[at] = None
    return answers


def unit(source: str, **files: str) -> Text:
    """A text spliced as a translation unit, with header files `name.h` beside it."""
    data = {"main.cu": source.encode(), **{f"{name}.h": text.encode() for name, text in files.items()}}
    text = splice("main.cu", data.get, lambda name, includer: name if name in data else None)
    assert text is not None
    return text


def by_us(conditions: Sequence[str], setup: str) -> list[bool | None]:
    """What kcurate makes of each condition; None: unevaluated."""
    first = setup.count("\n")
    text = unit(setup + "".join(f"#if {each}\nyes {at}\n#endif\n" for at, each in enumerate(conditions)))
    unknown = {(each.line - first - 1) // 3 for each in text.unevaluated}
    held = {int(at) for at in re.findall(rb"^yes (\d+)$", text.source, re.MULTILINE)}
    return [None if at in unknown else at in held for at in range(len(conditions))]


def differences(conditions: Sequence[str], setup: str) -> list[tuple[str, bool | None, bool | None]]:
    """The conditions on which the two differ, with what g++ says and what kcurate says."""
    both = zip(conditions, by_gxx(conditions, setup), by_us(conditions, setup), strict=True)
    return [(text, theirs, ours) for text, theirs, ours in both if theirs != ours]


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("!defined(X) || 10 / X > 2", True),
        ("1 ? 1 : 1/0", True),
        ("-1 < 0u", False),
        ("1 / 0", None),
        ("1'000u == 0b1111101000", True),
    ],
)
def test_conditions_without_a_compiler_to_ask(condition: str, value: bool | None) -> None:
    assert by_us([condition], "") == [value]


def test_every_condition_of_the_table_means_what_it_means_to_gxx() -> None:
    assert len(CONDITIONS) > 200
    assert differences(CONDITIONS, MACROS) == []


def test_what_only_the_compiler_knows_has_no_answer_here() -> None:
    assert set(by_us(UNANSWERED, "")) == {None}
    assert None not in by_gxx(UNANSWERED, "")


NUMBERS = ("0", "1", "2", "3", "7", "63", "64", "2147483648", "9223372036854775807", "9223372036854775808",
           "18446744073709551615", "0x7fffffffffffffff", "0x8000000000000000", "0xFFFF'FFFF", "0b1'01", "017",
           "'a'", "'\\xff'", "U'b'", "L'c'", "true", "false", "unknown")  # fmt: skip
NAMES = ("X", "SEVEN", "ZERO", "EMPTY", "BIG", "NEGATIVE", "SELF", "NOTHING()", "ASKS")
BINARY = ("+", "-", "*", "/", "%", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "&&", "||",
          ",", "and", "or", "bitand", "bitor", "xor", "not_eq")  # fmt: skip
atoms = st.one_of(
    st.tuples(st.sampled_from(NUMBERS[:16]), st.sampled_from(("", "", "u", "l", "ULL", "z"))).map("".join),
    st.sampled_from((*NUMBERS[16:], *NAMES)),
    st.sampled_from(("defined X", "defined(SEVEN)", "1/0", "defined(ZERO) && 1/ZERO")),
)


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions made of others; without brackets the parts may bind in another way, which is welcome."""
    parts = [
        st.tuples(st.sampled_from(("-", "!", "~", "+", "not", "compl")), inner),
        st.tuples(inner, st.sampled_from(BINARY), inner),
        st.tuples(inner, st.just("?"), inner, st.just(":"), inner),
        st.tuples(st.just("("), inner, st.just(")")),
        st.tuples(st.just("OF("), inner, st.just(")")),
        st.tuples(st.just("MAX("), inner, st.just(","), inner, st.just(")")),
    ]
    return st.one_of(parts).map(" ".join)


expressions = st.recursive(atoms, larger, max_leaves=8)


@given(st.lists(expressions, min_size=1, max_size=40))
def test_random_expressions_mean_what_they_mean_to_gxx(conditions: list[str]) -> None:
    assert differences(conditions, MACROS) == []


DIRECTIVES = (FOLDER / "directives.h").read_text(encoding="utf-8")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the host of PREDEFINED is x86-64")
def test_predefined_macros_are_those_of_gxx() -> None:
    names = [name.decode() for name in PREDEFINED if name not in BUILT_IN and b"CUDA" not in name]
    names = [name for name in names if name != "__NVCC__" and not name.startswith("__GNU")]  # its version
    conditions = [f"{name} == {PREDEFINED[name.encode()].decode()} && {name}" for name in names]
    assert len(names) > 30
    assert dict(zip(names, by_gxx(conditions, ""), strict=True)) == dict.fromkeys(names, True)


def marks(text: str) -> list[str]:
    return re.findall(r"^(?:yes|no|m)\d+$", text, re.MULTILINE)


def test_directives_choose_the_branches_that_gxx_chooses() -> None:
    text = unit(DIRECTIVES)
    left, errors = preprocessed(DIRECTIVES)
    assert marks(text.source.decode()) == marks(left) == [f"yes{number}" for number in range(1, 15)]
    assert {each.line for each in text.unevaluated} == {line for line, _ in errors}
    assert b"again" not in text.source


names = st.sampled_from("ABC")
questions = st.one_of(
    st.tuples(st.just("if"), st.sampled_from(("1", "0", "A", "A > B", "defined B", "B || A(B", "C(2) == 2"))),
    st.tuples(st.sampled_from(("ifdef", "ifndef")), names),
)
statements = st.one_of(
    st.just(["mark"]),
    st.tuples(names, st.sampled_from(("", "0", "1", "A", "B + 1", "C"))).map(
        lambda p: [f"#define {p[0]} {p[1]}"]
    ),
    st.just(["#define C(x) x"]),
    names.map(lambda name: [f"#undef {name}"]),
)


def nested(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    body = st.lists(inner, max_size=3).map(lambda parts: [line for part in parts for line in part])
    more = st.lists(st.tuples(questions, body), min_size=1, max_size=3)

    def render(branches: list[tuple[tuple[str, str], list[str]]], last: list[str] | None) -> list[str]:
        lines = []
        for prefix, (question, inside) in zip(("#", "#el", "#el"), branches, strict=False):
            lines += [prefix + " ".join(question), *inside]
        return [*lines, *(["#else", *last] if last is not None else []), "#endif"]

    return st.builds(render, more, st.none() | body)


@given(st.lists(st.recursive(statements, nested, max_leaves=12), min_size=1, max_size=8))
def test_random_nests_of_directives_leave_what_gxx_leaves(parts: list[list[str]]) -> None:
    lines = [line for part in parts for line in part]
    source = "".join(f"m{at}\n" if line == "mark" else f"{line}\n" for at, line in enumerate(lines))
    text, (left, errors) = unit(source), preprocessed(source)
    assert marks(text.source.decode()) == marks(left)
    assert {each.line for each in text.unevaluated} == {line for line, _ in errors}


def test_a_condition_without_an_answer_is_kept_once_with_its_place_and_reason() -> None:
    header = "\n#if VERSION_OF( x ) > /* ? */ 3\nint newer;\n#else\nint older;\n#endif\n"
    text = unit('#include "old.h"\n#include "old.h"\n#if 1 / 0\n#endif\n#ifdef\n#endif\n', old=header)
    found = [(each.path, each.line, each.text, each.why) for each in text.unevaluated]
    assert found == [
        ("old.h", 2, "#if VERSION_OF( x ) > 3", "expected the end, found ("),
        ("main.cu", 3, "#if 1 / 0", "division by zero"),
        ("main.cu", 5, "#ifdef", "no macro name"),
    ]
    assert text.conditions == 3
    assert b"newer" not in text.source and text.source.count(b"older") == 2


def test_a_header_of_the_tree_is_there() -> None:
    own = '#if __has_include("own.h") && __has_include(<own.h>)\nyes1\n#endif\n'
    text = unit(own + '#if __has_include("other.h")\n#endif\n', own="")
    assert b"yes1" in text.source
    assert [each.why for each in text.unevaluated] == ['__has_include("other.h") depends on the machine']


def test_a_macro_may_put_the_quotes_around_a_headers_name() -> None:
    source = "#define QUOTED(name) #name\n#if __has_include(QUOTED(own.h))\nyes1\n#endif\n"
    text = unit(source, own="")
    assert b"yes1" in text.source and not text.unevaluated


@pytest.mark.parametrize("end", ["", "\n", "\nint a;", "  // last"])
def test_the_last_include_counts_wherever_the_file_ends(end: str) -> None:
    source = '#include <stdio.h>\n#include "a.h"\n#if X\n#include <own/b.h>\n#endif\n#include "c.h"' + end
    assert local_includes(source.encode()) == ("a.h", "own/b.h", "c.h")


DOUBLING = "#define D0 1\n" + "".join(f"#define D{i + 1} D{i} + D{i}\n" for i in range(40))


@pytest.mark.parametrize(
    ("setup", "condition"),
    [
        (DOUBLING, "D40"),
        ("#define F(x) x x x x x x x x\n", "F(" * 12 + "1" + ")" * 12),
        ("", "(" * 5000 + "1" + ")" * 5000),
        ("", "!" * 5000 + "1"),
        ("", "1 ? " * 5000 + "1" + " : 1" * 5000),
        ("#define F(x) x\n", "F(" * 5000 + "1" + ")" * 5000),
        ("", "9" * 100_000),
    ],
)  # fmt: skip
def test_conditions_that_grow_without_bound_are_given_up_soon(setup: str, condition: str) -> None:
    start_s = time.monotonic()
    assert by_us([condition], setup) == [None]
    assert time.monotonic() - start_s < 5


@settings(max_examples=100)
@given(st.text(alphabet="01aX_()?:+-*/%<>=!&|^~,'\"#\\.u x\n", max_size=40))
def test_no_text_raises_another_error(text: str) -> None:
    macros = {b"X": b"(a) a##1 #a", b"a": text.encode(), b"x": b" X"}
    try:
        assert evaluate(blank_comments(text.encode()), macros, lambda name: False) in (True, False)
    except UnevaluatedError as error:
        assert str(error)
