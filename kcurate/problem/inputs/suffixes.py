"""A generator of suffix trees of a sequence, and of queries to look up in them.

A tree is two tables of 16 bytes per node, as MUMmerGPU keeps them in textures. All parts of a group come
from one sequence. Not covered: other linked structures (`kcurate.problem.inputs.linked`).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kcurate.errors import ProblemError
from kcurate.problem.inputs.draws import INTEGER, NEEDED, REAL, TEXT, Array, Draw, generator

LETTERS = np.frombuffer(b"ACGT", np.uint8)
END = ord("$")
NODE_BYTES = 16
# The most rows or columns of a table: an address has twelve bits for each.
MAX_SIDE = 4096
# Fraction of the sequence that repeats an earlier stretch, and the length of one repeat.
REPEATS, REPEAT_LENGTH = 0.1, 200


@dataclass(frozen=True)
class Tree:
    """Nodes ordered by level, the root first.

    `start` and `end` delimit the edge into a node, as positions in the sequence; `depth` is the string depth;
    `suffix` is the suffix link of an inner node, `leaf` the start of a leaf's suffix (else -1).
    """

    sequence: Array
    parent: Array
    suffix: Array
    start: Array
    end: Array
    depth: Array
    leaf: Array


def sequence(rng: np.random.Generator, length: int) -> Array:
    """Letters with some repeated stretches, and the terminator: (length + 1) bytes."""
    letters = LETTERS[rng.integers(0, 4, length)]
    for _ in range(int(REPEATS * length / REPEAT_LENGTH)):
        source, to = rng.integers(0, length - REPEAT_LENGTH, 2)
        letters[to : to + REPEAT_LENGTH] = letters[source : source + REPEAT_LENGTH].copy()
    return np.append(letters, np.uint8(END))


def _sorted_suffixes(letters: Array) -> tuple[Array, Array]:
    """The sorted suffixes, and how much of a prefix each shares with the previous one (prefix doubling)."""
    size = letters.size
    ranks = [np.unique(letters, return_inverse=True)[1].astype(np.int64)]
    step = 1
    while True:
        following = np.full(size, -1, np.int64)
        following[: size - step] = ranks[-1][step:] if step < size else []
        order = np.lexsort((following, ranks[-1]))
        first, second = ranks[-1][order], following[order]
        new = np.concatenate([[0], (first[1:] != first[:-1]) | (second[1:] != second[:-1])])
        rank = np.empty(size, np.int64)
        rank[order] = np.cumsum(new)
        ranks.append(rank)
        step *= 2
        if rank[order[-1]] == size - 1:
            break
    first_suffix, second_suffix = order[:-1].copy(), order[1:].copy()
    shared = np.zeros(size, np.int64)
    for level in range(len(ranks) - 1, -1, -1):
        inside = (first_suffix < size) & (second_suffix < size)
        same = inside & (
            ranks[level][np.minimum(first_suffix, size - 1)]
            == ranks[level][np.minimum(second_suffix, size - 1)]
        )
        shared[1:] += np.where(same, 1 << level, 0)
        first_suffix, second_suffix = first_suffix + (same << level), second_suffix + (same << level)
    return order, shared


def _joined(order: Array, shared: Array) -> tuple[list[int], list[int], list[int]]:
    """The parent, depth and one suffix of each node (root, leaves in order, inner nodes)."""
    size = len(order)
    parent, depth = [0] * (size + 1), [0, *(size - order).tolist()]
    suffix = [0, *order.tolist()]
    stack = [0]
    for leaf, common in enumerate(shared.tolist(), start=1):
        last = -1
        while depth[stack[-1]] > common:
            last = stack.pop()
            parent[last] = stack[-1]
        if depth[stack[-1]] < common:
            parent.append(stack[-1])
            depth.append(common)
            suffix.append(suffix[last])
            parent[last] = len(parent) - 1
            stack.append(len(parent) - 1)
        stack.append(leaf)
    while len(stack) > 1:
        last = stack.pop()
        parent[last] = stack[-1]
    return parent, depth, suffix


@lru_cache(maxsize=1)
def tree(seed: tuple[int, int], length: int) -> Tree:
    """The suffix tree of the sequence drawn from a seed."""
    letters = sequence(np.random.default_rng(list(seed)), length)
    order, shared = _sorted_suffixes(letters)
    parent, depth, begin = (np.array(values) for values in _joined(order, shared))
    inner = np.ones(parent.size, bool)
    inner[1 : letters.size + 1] = False
    leaf_of = np.empty(letters.size + 1, np.int64)
    leaf_of[order] = np.arange(1, letters.size + 1)
    link = np.where(inner & (depth > 1), parent[leaf_of[np.minimum(begin + 1, length)]], 0)
    level = np.zeros(parent.size, np.int64)
    above = parent.copy()
    while above.any():
        level += above > 0
        link = np.where(depth[link] > np.maximum(depth - 1, 0), parent[link], link)
        above = parent[above]
    level[1:] += 1
    by_level = np.argsort(level, kind="stable")
    number = np.empty_like(by_level)
    number[by_level] = np.arange(by_level.size)
    start = begin + depth[parent]
    parts = (number[parent], number[link], start, begin + depth - 1, depth, np.where(inner, -1, begin))
    return Tree(letters, *(values[by_level] for values in parts))


def _address(node: Array, width: int) -> Array:
    """Three bytes: twelve bits of the column, twelve of the row; the root is at the start of row one."""
    column, row = node % width, node // width + 1
    return np.stack([column & 255, row & 255, column >> 8 | row >> 8 << 4], axis=-1).astype(np.uint8)


def _three(values: Array) -> Array:
    return np.stack([values & 255, values >> 8 & 255, values >> 16], axis=-1).astype(np.uint8)


def _nodes(tree: Tree, width: int) -> Array:
    table = np.zeros((tree.parent.size, NODE_BYTES), np.uint8)
    inside = np.arange(tree.parent.size) > 0
    linked = inside & (tree.leaf < 0)
    table[:, 0:3] = np.where(inside[:, None], _address(tree.parent, width), 0)
    table[:, 3:6] = np.where(linked[:, None], _address(tree.suffix, width), 0)
    table[:, 6:9], table[:, 9:12] = _three(tree.start), _three(np.maximum(tree.end, 0))
    table[:, 12:15] = _three(tree.depth + 1)
    return table


def _children(tree: Tree, width: int) -> Array:
    table = np.zeros((tree.parent.size, NODE_BYTES), np.uint8)
    nodes = np.arange(1, tree.parent.size)
    slot = np.zeros(256, np.int64)
    slot[LETTERS], slot[END] = np.arange(4), 4
    place = slot[tree.sequence[tree.start[1:]]]
    for byte in range(3):
        table[tree.parent[1:], 3 * place + byte] = _address(nodes, width)[:, byte]
    leaves = np.flatnonzero(tree.leaf >= 0)
    table[leaves, 0:3] = _three(tree.leaf[leaves] + 1)
    table[leaves, 15] = np.where(tree.leaf[leaves] > 0, tree.sequence[tree.leaf[leaves] - 1], ord("s"))
    return table


def _begins(draw: Draw, group: str, letters: int) -> Array:
    """The position in the sequence that each query is copied from; queries and matches draw the same
    positions."""
    length = draw.integer("length")
    if letters >= length:
        raise ProblemError("queries must be shorter than the sequence")
    return draw.stream(f"{group} queries").integers(0, length - letters, draw.shape[0])


def _queries(draw: Draw, group: str, text: Array) -> Array:
    """Rows of "q", a stretch of the sequence with some letters replaced, and a zero."""
    rows, size = draw.shape[0], draw.shape[1] - 2
    out = np.zeros((rows, size + 2), np.uint8)
    out[:, 0] = ord("q")
    copied = text[_begins(draw, group, size)[:, None] + np.arange(size)]
    wrong = draw.rng.random((rows, size)) < draw.real("errors", 0.02)
    out[:, 1:-1] = np.where(wrong, LETTERS[draw.rng.integers(0, 4, (rows, size))], copied)
    return out


def _climbed(tree: Tree, nodes: Array, depth: Array) -> Array:
    """The highest ancestors with a depth of at least `depth`."""
    while (above := (nodes > 0) & (tree.depth[tree.parent[nodes]] >= depth)).any():
        nodes = np.where(above, tree.parent[nodes], nodes)
    return nodes


def _matches(draw: Draw, group: str, tree: Tree, width: int) -> Array:
    """The result of looking up the queries: one match for each, from somewhere in the query to its end.

    A row of 20 bytes: offset of its results, query, node, number of leaves below, letters on the node's edge,
    start. A match with more leaves than `slots` gets the root, which has no results.
    """
    size, shortest, slots = (draw.integer(name) for name in ("letters", "shortest", "slots"))
    rows = np.arange(draw.shape[0])
    first = draw.rng.integers(0, max(1, size - shortest), rows.size)
    leaf_of = np.empty(tree.sequence.size, np.int64)
    leaves = np.flatnonzero(tree.leaf >= 0)
    leaf_of[tree.leaf[leaves]] = leaves
    nodes = _climbed(tree, leaf_of[_begins(draw, group, size) + first], size - first)
    top = _climbed(tree, nodes, np.full(rows.size, shortest))
    below = (tree.leaf >= 0).astype(np.int64)
    for node in range(below.size - 1, 0, -1):
        below[tree.parent[node]] += below[node]
    fits = below[top] <= slots
    nodes = np.where(fits, nodes, 0)
    edge = np.where(fits, size - first - tree.depth[tree.parent[nodes]], 0)
    kind = np.dtype([("at", "<u4"), ("query", "<u4"), ("node", "<u4"), ("leaves", "<u4"), ("e", "<u2", 2)])
    out = np.zeros(rows.size, kind)
    out["at"], out["query"], out["leaves"] = rows * slots, rows, np.where(fits, below[top], 0)
    out["node"] = nodes % width | (nodes // width + 1) << 16
    out["e"] = np.stack([edge, first], axis=1)
    return out.view(np.uint8).reshape(rows.size, kind.itemsize)


@generator(
    length=NEEDED,
    part=TEXT,
    errors=REAL,
    group=TEXT,
    width=INTEGER,
    letters=INTEGER,
    shortest=INTEGER,
    slots=INTEGER,
)
def suffix_tree(draw: Draw) -> Array:
    """The suffix tree of a sequence of `length` letters ACGT, as bytes: `part` sequence (with "$"), nodes or
    children ((rows, width, 16), row 0 unused), queries (rows of "q", letters with a fraction `errors` wrong,
    and a zero), or matches (rows of 20 bytes: where queries of `letters` without errors end in a table of
    `width`, each with at least `shortest` letters and at most `slots` occurrences)."""
    part, length = str(draw.params.get("part", "sequence")), draw.integer("length")
    if length <= REPEAT_LENGTH:
        raise ProblemError(f"a sequence needs more than {REPEAT_LENGTH} letters")
    group = str(draw.params.get("group", "suffix_tree"))
    stream = (draw.seed, zlib.crc32(group.encode()))
    if part == "sequence":
        return sequence(np.random.default_rng(list(stream)), length)
    if part == "queries":
        return _queries(draw, group, sequence(np.random.default_rng(list(stream)), length))
    built = tree(stream, length)
    if part == "matches":
        return _matches(draw, group, built, draw.integer("width"))
    if part not in ("nodes", "children"):
        raise ProblemError(f"unknown part {part!r}")
    return _table(draw, built, part)


def _table(draw: Draw, tree: Tree, part: str) -> Array:
    rows, width = draw.shape[0], draw.shape[1]
    table = _nodes(tree, width) if part == "nodes" else _children(tree, width)
    if max(rows, width) > MAX_SIDE or len(table) > (rows - 1) * width:
        raise ProblemError(f"{len(table)} nodes do not fit {rows - 1} rows of {width}")
    out = np.zeros(draw.shape, np.uint8)
    out[1:].reshape(-1, NODE_BYTES)[: len(table)] = table
    return out
