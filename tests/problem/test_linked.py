"""Generators whose parts belong together: each test puts the parts to the use that a kernel makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from kcurate.errors import ProblemError
from kcurate.problem.inputs.contents import make
from kcurate.records import Buffer, Init


def made(
    kind: str, shape: tuple[int, ...], name: str, **params: int | float | str
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return make(name, Buffer("int64", shape, Init(kind, params)), {}, 5).astype(np.int64)


def test_rows_start_where_the_row_before_ends_and_hold_their_columns() -> None:
    rows = made("csr_rows", (50, 2), "rows", rows=50, nnz=300, skew=1.0)
    offsets = made("csr_offsets", (51,), "offsets", rows=50, nnz=300, skew=1.0)
    assert np.array_equal(rows[:, 0], offsets[:-1])
    assert np.array_equal(rows.sum(axis=1), offsets[1:])


def test_a_frontier_is_visited_and_the_next_one_is_not() -> None:
    parts = {p: made("frontier", (400,), p, part=p) for p in ("frontier", "visited", "next", "cost")}
    assert parts["frontier"].any() and parts["next"].any()
    assert not np.any(parts["frontier"] > parts["visited"])
    assert not np.any(parts["next"] & parts["visited"])
    assert np.array_equal(parts["cost"] >= 0, parts["visited"] > 0)
    assert set(parts["cost"][parts["frontier"] > 0]) == {3}


def test_a_search_from_the_root_finds_nine_keys_of_ten() -> None:
    nodes = made("search_tree", (1 + 6 + 36, 2 * 9 + 3), "nodes", fanout=6, levels=2)
    starts = made("search_tree", (300,), "starts", fanout=6, levels=2, part="starts")
    ends = made("search_tree", (300,), "ends", fanout=6, levels=2, part="ends")
    indices, keys = nodes[:, 1:10], nodes[:, 10:19]
    assert np.array_equal(nodes[:, 0], np.arange(43))

    def find(key: int) -> int | None:
        node = 0
        for _ in range(2):
            (place,) = np.flatnonzero((keys[node][:-1] <= key) & (key < keys[node][1:]))
            node = int(indices[node][place])
        place_of = np.flatnonzero(keys[node] == key)
        return int(indices[node][place_of[0]]) if place_of.size else None

    found = [find(int(key)) for key in starts]
    hits = [record for record in found if record is not None]
    assert 0.8 < len(hits) / len(found) < 0.97
    assert len(set(hits)) > 50
    assert np.mean(ends >= starts) > 0.9


def test_a_prefix_code_is_one_and_gives_frequent_symbols_short_words() -> None:
    words = made("prefix_code", (40,), "words", part="words")
    lengths = made("prefix_code", (40,), "lengths", part="lengths")
    texts = [format(word, f"0{length}b") for word, length in zip(words, lengths, strict=True)]
    assert sum(2.0**-length for length in lengths) == 1.0
    assert not any(a != b and b.startswith(a) for a in texts for b in texts)
    assert lengths[0] < lengths[-1]


def test_bit_strings_are_zero_padded_and_adjacent() -> None:
    common: dict[str, int | float | str] = {"strings": 30, "words": 5, "first": 7}
    bits = made("bit_strings", (30, 5), "bits", **common)
    lengths = made("bit_strings", (30,), "lengths", part="lengths", **common)
    offsets = made("bit_strings", (30,), "offsets", part="offsets", **common)
    assert offsets[0] == 7 and np.array_equal(np.diff(offsets), lengths[:-1])
    for row, length in zip(bits, lengths, strict=True):
        text = "".join(format(word, "032b") for word in row)
        assert "1" not in text[length:] and "1" in text[:length]


def test_bucket_places_send_every_item_to_a_place_of_its_own() -> None:
    common: dict[str, int | float | str] = {"items": 500, "buckets": 16, "blocks": 3, "threads": 8}
    places = made("bucket_places", (500,), "places", **common)
    starts = made("bucket_places", (3, 16), "starts", part="starts", **common)
    counts = made("bucket_places", (3, 16), "counts", part="counts", **common)
    totals = made("bucket_places", (16,), "totals", part="totals", **common)
    block = np.arange(500) // 8 % 3
    bucket, rank = places % 16, places // 16
    target = totals[bucket] + starts[block, bucket] + rank
    assert np.array_equal(np.sort(target), np.arange(500))
    assert np.array_equal(starts[2], counts[:2].sum(axis=0))


def test_padded_lists_hold_all_items_behind_their_holes() -> None:
    common: dict[str, int | float | str] = {"lists": 20, "items": 333, "longest": 40, "skew": 0.7}
    starts = made("padded_lists", (21,), "starts", **common)
    ends = made("padded_lists", (21,), "ends", part="ends", **common)
    holes = made("padded_lists", (20,), "holes", part="holes", **common)
    assert ends[-1] == 333 and set(holes) <= {0, 1, 2, 3} and holes.any()
    assert np.array_equal(4 * np.diff(starts), np.diff(ends) + holes)


def test_a_mesh_has_walls_a_boundary_and_neighbours_inside() -> None:
    mesh = made("mesh_neighbours", (4, 900), "mesh")
    assert mesh.min() == -2 and mesh.max() < 900
    assert np.mean(mesh >= 0) > 0.9 and (mesh == -1).any()


def test_a_gas_has_positive_density_and_pressure() -> None:
    state = make("gas", Buffer("float64", (5, 1000), Init("euler_state")), {}, 5)
    pressure = 0.4 * (state[4] - 0.5 * (state[1:4] ** 2).sum(axis=0) / state[0])
    assert state[0].min() > 0 and pressure.min() > 0


@pytest.mark.parametrize(
    ("kind", "shape", "params"),
    [
        ("frontier", (9,), {"part": "nonsense"}),
        ("search_tree", (43, 13), {"fanout": 6, "levels": 2}),
        ("search_tree", (42, 21), {"fanout": 6, "levels": 2}),
    ],
)
def test_what_does_not_fit_is_refused(
    kind: str, shape: tuple[int, ...], params: dict[str, int | float | str]
) -> None:
    with pytest.raises(ProblemError):
        made(kind, shape, "x", **params)
