"""Text that is blanked keeps its length, so that a place in one is a place in the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate.cuda_source.text.blanking import (
    blank_comments,
    blank_literals,
    numbered,
    parseable,
    without_comments,
)

PIECES = ("//", "/*", "*/", '"', "'", "\\", "\n", "\r\n", " ", "a", "<<<", "__align__(8)", "#define X")


@pytest.mark.parametrize(
    ("source", "blanked", "commentless"),
    [
        ('f("a // b", 1); // c', 'f("      ", 1);     ', 'f("a // b", 1);  '),
        ("f('\\'', \"\\\"\"); /* d\n*/ g();", "f('  ', \"  \");     \n   g();", "f('\\'', \"\\\"\");   g();"),
        ('"" \'\' "', '"" \'\' "', '"" \'\' "'),
        ("a /* open", "a        ", "a  "),
    ],
)
def test_comments_and_what_literals_hold_are_blanked(source: str, blanked: str, commentless: str) -> None:
    assert blank_literals(source.encode()).decode() == blanked
    assert without_comments(source.encode()).decode() == commentless


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_blanking_moves_nothing(pieces: list[str]) -> None:
    source = "".join(pieces).encode()
    assert len(blank_literals(source)) == len(source)
    for blanked in (blank_comments(source), parseable(source)):
        assert len(blanked) == len(source)
        assert blanked.count(b"\n") == source.count(b"\n")


@pytest.mark.parametrize(
    ("source", "meant"),
    [
        ("x - 'a' + 'z'", "x - 97  + 122"),
        (r"c == '\n' || c == '\\' || c == '\''", "c == 10   || c == 92   || c == 39  "),
        ("1'000'000 + u8'a' + L'b'", "1'000'000 + u8'a' + L'b'"),
        ("\"it's 'a'\" /* 'b' */ + 'c'", "\"it's 'a'\" /* 'b' */ + 99 "),
        (r"'ab' + '\x41'", r"'ab' + '\x41'"),
        ("case'd':", "case'd':"),
    ],
)
def test_characters_become_numbers_of_equal_length(source: str, meant: str) -> None:
    assert numbered(source.encode()).decode() == meant


@given(st.lists(st.sampled_from([" ", "\t", "\r", "\n", "a", "b c"])).map("".join))
def test_trailing_blanks_move_behind_the_line_end(text: str) -> None:
    *lines, last = text.encode().split(b"\n")
    kept = [line.rstrip(b" \t\r") for line in lines]
    moved = [bare + b"\n" + b" " * (len(line) - len(bare)) for bare, line in zip(kept, lines, strict=True)]
    assert parseable(text.encode()) == b"".join(moved) + last
