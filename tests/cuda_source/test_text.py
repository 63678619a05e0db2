"""Text that is blanked keeps its length, so that a place in one is a place in the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate.cuda_source.text import blank_comments, blank_literals, parseable, without_comments

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
