"""Generators for buffers that belong together: `part` selects the buffer, `group` links it to the others.

All parts of a group with the same parameters use one random stream, so each can be made without the others.
Not covered: matrices in compressed rows (`kcurate.problem.inputs.generators`), meshes
(`kcurate.problem.inputs.structured`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

import numpy as np

from kcurate.errors import ProblemError
from kcurate.problem.inputs import csr
from kcurate.problem.inputs.draws import INTEGER, NEEDED, REAL, TEXT, Array, Draw, generator
from kcurate.problem.inputs.generators import csr_lengths

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


def _part(draw: Draw, parts: Mapping[str, Callable[[], Array]]) -> Array:
    """The requested part (the first by default)."""
    name = str(draw.params.get("part", next(iter(parts))))
    if name not in parts:
        raise ProblemError(f"unknown part {name!r}", hint=f"one of {', '.join(parts)}")
    return parts[name]()


def _stream(draw: Draw, default: str) -> np.random.Generator:
    return draw.stream(str(draw.params.get("group", default)))


@generator(rows=NEEDED, cols=INTEGER, nnz=NEEDED, skew=REAL, group=TEXT, varied=("extremes", "path"))
def csr_rows(draw: Draw) -> Array:
    """Start and length of each row, (rows, 2), for the `csr_columns` of the same `group` and parameters."""
    lengths = csr_lengths(draw)
    return np.stack([csr.offsets(lengths)[:-1], lengths], axis=1)


@generator(level=INTEGER, part=TEXT, group=TEXT)
def frontier(draw: Draw) -> Array:
    """State of a breadth-first search before step `level` (default 3): `part` frontier (flags), visited
    (flags), next (flags) or cost (distances, -1: unknown)."""
    level = draw.integer("level", 3)
    distance = _stream(draw, "frontier").integers(0, 2 * level + 1, draw.count)
    return _part(
        draw,
        {
            "frontier": lambda: distance == level,
            "visited": lambda: distance <= level,
            "next": lambda: distance == level + 1,
            "cost": lambda: np.where(distance <= level, distance, -1),
        },
    )


@generator(fanout=INTEGER, levels=NEEDED, part=TEXT, group=TEXT)
def search_tree(draw: Draw) -> Array:
    """A B+ tree of `levels` full inner levels of `fanout` (default 256) above leaves that are at least half
    full: `part` nodes (rows of int32: number, indices, keys, leaf flag, count), starts (keys to look up,
    nine of ten in the tree) or ends (keys slightly above the starts)."""
    fanout, levels = draw.integer("fanout", 256), draw.integer("levels")
    rng = _stream(draw, "tree")
    leaf_sizes = rng.integers(fanout // 2, fanout, fanout**levels, endpoint=True)
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(leaf_sizes)])
    keys = np.cumsum(rng.integers(1, 65, int(firsts[-1]), np.int64))

    def ranks() -> Array:
        return draw.stream("ranks").integers(0, keys.size, draw.count)

    def sought(at: Array) -> Array:
        return keys[at] + (draw.rng.random(draw.count) < 0.1)

    def ends() -> Array:
        return sought(np.minimum(ranks() + draw.rng.integers(0, 1000, draw.count), keys.size - 1))

    return _part(
        draw,
        {
            "nodes": lambda: _tree_nodes(draw, fanout, levels, leaf_sizes, firsts, keys),
            "starts": lambda: sought(ranks()),
            "ends": ends,
        },
    )


def _tree_nodes(draw: Draw, fanout: int, levels: int, leaf_sizes: Array, firsts: Array, keys: Array) -> Array:
    """Level by level from the root: children of a node are contiguous, unused keys are INT32_MAX."""
    width = draw.shape[-1]
    order = (width - 3) // 2  # there is one more index and key than the order
    count = sum(fanout**level for level in range(levels + 1))
    if fanout > order - 1 or draw.count != count * width:
        raise ProblemError(f"a tree of {count} nodes of {fanout} does not fit {draw.shape}")
    nodes = np.zeros((count, width), np.int64)
    nodes[:, 0] = np.arange(count)
    nodes[:, 1 + order : 1 + 2 * order] = INT32_MAX
    begin = 0
    for level in range(levels):
        rows = slice(begin, begin + fanout**level)
        size = fanout ** (levels - level - 1)  # leaves below each child
        nodes[rows, 1 : 1 + fanout] = rows.stop + np.arange(fanout ** (level + 1)).reshape(-1, fanout)
        nodes[rows, 1 + order : 1 + order + fanout] = keys[firsts[:-1:size]].reshape(-1, fanout)
        nodes[rows, 1 + order] = INT32_MIN
        nodes[rows, -1] = fanout
        begin = rows.stop
    leaves = nodes[begin:]
    place = np.arange(fanout)[None, :]
    record = firsts[:-1, None] + place
    used = place < leaf_sizes[:, None]
    leaves[:, 1 : 1 + fanout] = np.where(used, record, 0)
    leaves[:, 1 + order : 1 + order + fanout] = np.where(
        used, keys[np.minimum(record, keys.size - 1)], INT32_MAX
    )
    leaves[:, -2], leaves[:, -1] = 1, leaf_sizes
    return nodes


@generator(part=TEXT)
def prefix_code(draw: Draw) -> Array:
    """The Huffman code for symbols with the frequencies of `text`: `part` words or lengths (bits)."""
    heap: list[tuple[float, int, tuple[int, ...]]] = [
        (1.0 / (symbol + 1), symbol, (symbol,)) for symbol in range(draw.count)
    ]
    heapq.heapify(heap)
    lengths = np.zeros(draw.count, np.int64)
    while len(heap) > 1:
        (a, first, symbols), (b, _, other_symbols) = heapq.heappop(heap), heapq.heappop(heap)
        joined = symbols + other_symbols
        lengths[list(joined)] += 1
        heapq.heappush(heap, (a + b, first, joined))
    words, word, last = np.zeros(draw.count, np.int64), 0, 0
    for symbol in np.argsort(lengths, kind="stable"):
        word <<= int(lengths[symbol]) - last
        words[symbol], last = word, int(lengths[symbol])
        word += 1
    return _part(draw, {"words": lambda: words, "lengths": lambda: lengths})


@generator(strings=NEEDED, words=NEEDED, first=INTEGER, part=TEXT, group=TEXT)
def bit_strings(draw: Draw) -> Array:
    """`strings` bit strings to be packed, each half to fully using 32 x `words` bits: `part` bits (from the
    highest bit of each word, zero-padded: (strings, words)), lengths (in bits, even) or offsets (in bits,
    where each goes, starting at `first`, default 1: never word-aligned)."""
    strings, words = draw.integer("strings"), draw.integer("words")
    rng = _stream(draw, "strings")
    lengths = 2 * rng.integers(8 * words, 16 * words, strings)

    def bits() -> Array:
        values = draw.rng.integers(0, 1 << 32, (strings, words), np.uint64)
        used_bits = np.clip(lengths[:, None] - 32 * np.arange(words)[None, :], 0, 32).astype(np.uint64)
        return np.asarray((values >> (np.uint64(32) - used_bits)) << (np.uint64(32) - used_bits))

    return _part(
        draw,
        {
            "bits": bits,
            "lengths": lambda: lengths,
            "offsets": lambda: draw.integer("first", 1) + csr.offsets(lengths)[:-1],
        },
    )


@generator(items=NEEDED, buckets=NEEDED, blocks=NEEDED, threads=INTEGER, part=TEXT, group=TEXT)
def bucket_places(draw: Draw) -> Array:
    """Bucket sort of `items` by `blocks` blocks of `threads` (default 32), grid-stride: `part` places (rank
    in its block's bucket x `buckets` + bucket), counts or starts (per block and bucket: its items, and those
    of earlier blocks) or totals (the start of each bucket)."""
    items, buckets, blocks = draw.integer("items"), draw.integer("buckets"), draw.integer("blocks")
    rng = _stream(draw, "buckets")
    bucket = np.floor(buckets * rng.random(items) ** 1.5).astype(np.int64)
    block = np.arange(items) // draw.integer("threads", 32) % blocks
    cell = block * buckets + bucket
    counts = np.bincount(cell, minlength=blocks * buckets)

    def places() -> Array:
        order = np.argsort(cell, kind="stable")
        ranks = np.empty(items, np.int64)
        ranks[order] = np.arange(items) - np.repeat(csr.offsets(counts)[:-1], counts)
        return ranks * buckets + bucket

    return _part(
        draw,
        {
            "places": places,
            "counts": lambda: counts,
            "starts": lambda: np.cumsum(counts.reshape(blocks, buckets), axis=0) - counts.reshape(blocks, -1),
            "totals": lambda: csr.offsets(counts.reshape(blocks, buckets).sum(axis=0))[:-1],
        },
    )


@generator(lists=NEEDED, items=NEEDED, longest=NEEDED, skew=REAL, multiple=INTEGER, part=TEXT, group=TEXT)
def padded_lists(draw: Draw) -> Array:
    """`items` items in `lists` lists of up to `longest`, each padded in front to a `multiple` (default 4):
    `part` starts (of each list and the end, in multiples), ends (the same without padding, in items) or
    holes (the padding of each)."""
    rng = _stream(draw, "lists")
    lists, multiple = draw.integer("lists"), draw.integer("multiple", 4)
    lengths = csr.row_lengths(
        rng, lists, draw.integer("longest"), draw.integer("items"), draw.real("skew", 0.0)
    )
    padded = -(-lengths // multiple)
    return _part(
        draw,
        {
            "starts": lambda: csr.offsets(padded),
            "ends": lambda: csr.offsets(lengths),
            "holes": lambda: padded * multiple - lengths,
        },
    )
