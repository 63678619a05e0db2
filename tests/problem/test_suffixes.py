"""Suffix trees as tables: walking down from the root spells every suffix, and links lead one letter on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from kcurate.errors import ProblemError
from kcurate.problem.inputs.contents import make
from kcurate.records import Buffer, Init

LENGTH, ROWS, WIDTH = 700, 32, 48
Bytes = npt.NDArray[np.uint8]


def part(
    name: str, shape: tuple[int, ...] = (ROWS, WIDTH, 16), seed: int = 1, **params: int | float
) -> Bytes:
    how = Init("suffix_tree", {"length": LENGTH, "part": name, **params})
    return make(name, Buffer("uint8", shape, how), {}, seed)


def address(entry: Bytes) -> tuple[int, int]:
    """Row and column, as the kernel decodes three bytes."""
    x, y, z = (int(byte) for byte in entry)
    return y | (z & 0xF0) << 4, x | (z & 0xF) << 8


def number(entry: Bytes) -> int:
    return int(entry[0]) | int(entry[1]) << 8 | int(entry[2]) << 16


@pytest.fixture(scope="module")
def tables() -> tuple[bytes, Bytes, Bytes]:
    return part("sequence", (LENGTH + 1,)).tobytes(), part("nodes"), part("children")


def test_every_suffix_is_spelled_from_the_root_to_a_leaf(tables: tuple[bytes, Bytes, Bytes]) -> None:
    text, nodes, children = tables
    for begin in range(LENGTH + 1):
        at, place = (1, 0), begin
        while place <= LENGTH:
            slot = b"ACGT$".index(text[place])
            at = address(children[at][3 * slot : 3 * slot + 3])
            assert at != (0, 0)
            start, end = number(nodes[at][6:9]), number(nodes[at][9:12])
            assert text[start : end + 1] == text[place : place + end + 1 - start]
            place += end + 1 - start
        assert place == LENGTH + 1
        assert number(children[at][0:3]) == begin + 1
        assert children[at][15] == (text[begin - 1] if begin else ord("s"))


def test_a_suffix_link_leads_to_the_same_letters_without_the_first(
    tables: tuple[bytes, Bytes, Bytes],
) -> None:
    text, nodes, children = tables
    inner = 0
    for at in np.argwhere(nodes[:, :, 12:15].any(axis=-1) & ~children[:, :, 15].astype(bool))[1:]:
        node = nodes[tuple(at)]
        depth, end = number(node[12:15]) - 1, number(node[9:12])
        link = nodes[address(node[3:6]) if depth > 1 else (1, 0)]
        assert number(link[12:15]) == depth
        spelled = text[number(link[9:12]) + 2 - depth : number(link[9:12]) + 1]
        assert depth == 1 or spelled == text[end + 2 - depth : end + 1]
        inner += 1
    assert inner > LENGTH / 4


def test_queries_are_nearly_stretches_of_the_sequence(tables: tuple[bytes, Bytes, Bytes]) -> None:
    queries = part("queries", (50, 42))
    assert (queries[:, 0] == ord("q")).all()
    assert not queries[:, -1].any()
    found = sum(row[1:-1].tobytes() in tables[0] for row in queries)
    assert 10 < found < 50


def test_a_match_names_the_node_where_its_query_ends(tables: tuple[bytes, Bytes, Bytes]) -> None:
    text, nodes, _ = tables
    queries = part("queries", (90, 22), errors=0)
    rows = part("matches", (90, 20), width=WIDTH, letters=20, shortest=5, slots=3)
    kept = 0
    for query, row in zip(queries, rows, strict=True):
        at, _, node, leaves, edge = (int(word) for word in [*row.view("<u4")[:4], row.view("<u2")[8]])
        first = int(row.view("<u2")[9])
        letters = query[1 + first : -1].tobytes()
        place = (node >> 16, node & 0xFFFF)
        assert at % 3 == 0
        if place == (1, 0):
            assert text.count(letters[:5]) > 3 or leaves == 0
            continue
        above = nodes[address(nodes[place][0:3])]
        assert number(above[12:15]) - 1 + edge == len(letters)
        end = number(nodes[place][6:9]) + edge
        assert text[end - len(letters) : end] == letters
        assert 1 <= leaves <= 3
        kept += 1
    assert kept > 45


def test_parts_of_one_seed_fit_and_seeds_differ() -> None:
    assert part("sequence", (LENGTH + 1,), 2).tobytes() != part("sequence", (LENGTH + 1,), 1).tobytes()
    assert part("nodes", seed=2).tobytes() != part("nodes", seed=1).tobytes()


@pytest.mark.parametrize(
    ("name", "shape"), [("nodes", (8, 48, 16)), ("queries", (2, 800)), ("roots", (2, 2))]
)
def test_what_does_not_fit_is_an_error(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ProblemError):
        part(name, shape)
