"""C++ cut into tokens."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate.cuda_source.preprocess.expansion import without_macros
from kcurate.cuda_source.semantics.code_index import Code
from kcurate.cuda_source.text.tokens import DIRECTIVE, comment_or_literal, directives, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a+=b<<2", b"a += b << 2"),
        (b"k<<<g,b>>>(x)", b"k <<< g , b >>> ( x )"),
        (b"x<<=1'000;", b"x <<= 1'000 ;"),
        (b"1e-5f+.5+0x1p-3", b"1e-5f + .5 + 0x1p-3"),
        (b"u8\"a b\"L'c'", b"u8\"a b\" L'c'"),
        (b"a##b...", b"a ## b ..."),
        (b"p->q::r--", b"p -> q :: r --"),
        (b"'", b"'"),
    ],
)
def test_longest_token_first(text: bytes, expected: bytes) -> None:
    assert b" ".join(tokens(text)) == expected


@given(st.text("ab1.'\"\\/*+-<>=&|#:!%^~()[]{};,?@$ \n").map(str.encode))
def test_tokens_hold_every_byte_but_blanks(text: bytes) -> None:
    assert b"".join(b"".join(tokens(text)).split()) == b"".join(text.split())


# As the grammar of C++ says it, one character a step.
_SLOW = re.compile(
    rb"""//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
    rb"""|R(?:(?<!\wR)|(?<=[uUL]R)|(?<=u8R))"(?P<end>[^()\\\s"]{0,16})\(.*?\)(?P=end)\""""
    rb"""|[0-9](?<!\w[0-9])[\w.]*(?:'\w[\w.]*)+""",
    re.DOTALL,
)
_SLOW_DIRECTIVE = re.compile(rb"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_PIECES = [
    "//",
    "/*",
    "*/",
    "*",
    '"',
    "'",
    "\\",
    "\n",
    "\r\n",
    "#",
    " ",
    "don't",
    'R"(',
    ')"',
    "0xF'F",
    "1",
    "a.",
    "L'",
]


@given(st.lists(st.sampled_from(_PIECES), max_size=24).map("".join).map(str.encode))
def test_the_quick_patterns_find_what_the_plain_ones_do(text: bytes) -> None:
    def spans(pattern: re.Pattern[bytes]) -> list[tuple[int, int]]:
        return [match.span() for match in pattern.finditer(text) if not match[0][:1].isdigit()]

    assert spans(comment_or_literal(text)) == spans(_SLOW)
    assert spans(DIRECTIVE) == spans(_SLOW_DIRECTIVE)


def test_a_sign_of_several_characters_survives_the_expansion_of_a_macro() -> None:
    text, _ = without_macros(b"#define ADD(x, n) x += n; x <<= 1;\nvoid f(int a) { ADD(a, 2) }\n")
    assert b"a += 2" in text and b"a <<= 1" in text
    code = Code(b"#define ADD(x, n) x += n;\nvoid f(int a) { int b = 0; ADD(b, 2) }\n")
    (function,) = code.functions
    assert [setting.how for setting in code.settings_in("b", function)] == ["=", "+="]


@given(st.lists(st.sampled_from(["#", " ", "\t", "\n", "\\", "\\\n", "\r\n", "a", "#define"])).map("".join))
def test_directives_are_those_that_the_pattern_finds(text: str) -> None:
    found = [match.span() for match in directives(text.encode())]
    assert found == [match.span() for match in DIRECTIVE.finditer(text.encode())]


def test_a_long_line_of_signs_takes_linear_time() -> None:
    begun = time.process_time()
    assert not list(directives(b"a" + b"#" * 1_000_000))
    assert time.process_time() - begun < 1.0
