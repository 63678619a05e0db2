"""A loaded module: which memory is reset with its variables."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("cuda.bindings", reason="the CUDA bindings are not installed")

from kcurate.backends.cuda.loaded import NEIGHBOUR_BYTES, Variable, ranges


def test_neighbouring_variables_are_reset_together() -> None:
    """A library's thousand tags, in whatever order they are found, and no memory far from any variable."""
    tags = [Variable(0x1000 + 8 * i, 1, ".nv.global") for i in range(1000)]
    table = Variable(0x9000, 4096, ".nv.global")
    inside = Variable(0x9000 + 64, 4, ".nv.global")
    random.Random(1).shuffle(tags)
    first, second = ranges([*tags, inside, table])
    assert first == (0x1000, 0x1000 + 8 * 999 + 1)
    assert second == (0x9000, 0x9000 + 4096)
    far = Variable(second[1] + NEIGHBOUR_BYTES + 1, 8, ".nv.global")
    assert ranges([table, far]) == [second, (far.address, far.address + 8)]


def test_variables_of_two_sections_are_reset_apart_even_where_they_touch() -> None:
    """A constant array of whole 256-byte lines, and behind it the table that `sinf` uses."""
    constant = Variable(0x4000, 10240, ".nv.constant3")
    table = Variable(0x4000 + 10240, 24, ".nv.global.init")
    own = Variable(table.address + 32, 16, ".nv.global")
    found = ranges([own, table, constant])
    assert sorted(found) == [(one.address, one.address + one.size_bytes) for one in (constant, table, own)]
