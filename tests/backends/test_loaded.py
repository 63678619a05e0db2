"""A loaded module: which memory is reset with its variables."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("cuda.bindings", reason="the CUDA bindings are not installed")

from kcurate.backends.cuda.loaded import NEIGHBOUR_BYTES, Variable, ranges


def test_neighbouring_variables_are_reset_together() -> None:
    """A library's thousand tags, in whatever order they are found, and no memory far from any variable."""
    tags = [Variable(0x1000 + 8 * i, 1) for i in range(1000)]
    table = Variable(0x9000, 4096)
    inside = Variable(0x9000 + 64, 4)
    random.Random(1).shuffle(tags)
    first, second = ranges([*tags, inside, table])
    assert first == (0x1000, 0x1000 + 8 * 999 + 1)
    assert second == (0x9000, 0x9000 + 4096)
    far = Variable(second[1] + NEIGHBOUR_BYTES + 1, 8)
    assert ranges([table, far]) == [second, (far.address, far.address + 8)]
