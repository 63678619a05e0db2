"""Dividing device memory: pieces never overlap, and what comes back is used again."""

from __future__ import annotations

import itertools
import random

import pytest

from kcurate.backends.base import KernelFault
from kcurate.backends.cuda import slabs
from kcurate.backends.cuda.slabs import MAPPED_BYTES, Slabs, rounded


class Driver:
    """Hands out address ranges that touch, as the driver may; at most `room` bytes at once."""

    def __init__(self, room: int = 1 << 50) -> None:
        self.next, self.room = 1 << 20, room
        self.sizes: list[int] = []
        self.starts: list[int] = []
        self.out: dict[int, int] = {}

    def release(self, address: int) -> None:
        del self.out[address]

    def allocate(self, size_bytes: int) -> int:
        if sum(self.out.values()) + size_bytes > self.room:
            raise KernelFault("out_of_memory", "out of memory")
        start = self.next
        self.out[start] = size_bytes
        self.next += rounded(size_bytes)
        self.sizes.append(size_bytes)
        self.starts.append(start)
        return start


def test_pieces_never_overlap_and_lie_in_slabs() -> None:
    driver, rng = Driver(), random.Random(1)
    memory = Slabs(driver.allocate, driver.release)
    held: dict[int, int] = {}
    for _ in range(2000):
        if held and rng.random() < 0.5:
            address = rng.choice(list(held))
            memory.give_back(address, held.pop(address))
        else:
            size = rng.randrange(1, 40 << 20)
            address = memory.take(size)
            assert address % slabs.ALIGNMENT == 0
            assert all(
                address + rounded(size) <= other or other + rounded(length) <= address
                for other, length in held.items()
            )
            held[address] = size
            slab = max(start for start in driver.starts if start <= address)
            assert address + size <= slab + driver.sizes[driver.starts.index(slab)], "copies stay in one slab"
    assert sum(driver.sizes) < 4 * (40 << 20) * 1000 // 10


def test_a_slab_is_whole_again_when_all_its_pieces_are_back() -> None:
    driver = Driver()
    memory = Slabs(driver.allocate, driver.release)
    sizes = [5 << 20, 1, 9 << 20, 700]
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 0, 3, 1]):
        places = [memory.take(size) for size in sizes]
        for at in order:
            memory.give_back(places[at], sizes[at])
        whole = memory.take(slabs.FIRST_SLAB_BYTES)
        memory.give_back(whole, slabs.FIRST_SLAB_BYTES)
    assert driver.sizes == [slabs.FIRST_SLAB_BYTES]


def test_slabs_grow() -> None:
    driver = Driver()
    memory = Slabs(driver.allocate, driver.release)
    for _ in range(100):
        memory.take(50 << 20)
    first = slabs.FIRST_SLAB_BYTES
    assert driver.sizes[:4] == [first, first, 2 * first, 4 * first]
    assert max(driver.sizes) == slabs.LARGEST_SLAB_BYTES
    memory.take(3 << 30)
    assert driver.sizes[-1] == 3 << 30


def test_used_and_unused_pieces_make_up_all_slabs() -> None:
    """So that whoever clears what is unused leaves nothing out."""
    driver, rng = Driver(), random.Random(2)
    memory = Slabs(driver.allocate, driver.release)
    held: dict[int, int] = {}
    for _ in range(300):
        if held and rng.random() < 0.4:
            address = rng.choice(list(held))
            memory.give_back(address, held.pop(address))
        else:
            size = rng.choice([0, 1, 700, 5 << 20])
            held[memory.take(size)] = size
        pieces = sorted([*memory.unused, *((start, rounded(size)) for start, size in held.items())])
        assert sum(size for _, size in pieces) == sum(driver.sizes)
        assert all(start + size <= after for (start, size), (after, _) in itertools.pairwise(pieces))


def test_slabs_without_taken_pieces_go_back_to_the_driver() -> None:
    driver = Driver()
    memory = Slabs(driver.allocate, driver.release)
    kept, large = memory.take(700), memory.take(3 << 30)
    memory.shrink()
    assert set(driver.out) == {kept, large}
    memory.give_back(large, 3 << 30)
    memory.shrink()
    assert set(driver.out) == {kept} and memory.total_bytes == slabs.FIRST_SLAB_BYTES
    again = memory.take(3 << 30)
    assert driver.out[again] == 3 << 30
    assert sum(size for _, size in memory.unused) == slabs.FIRST_SLAB_BYTES - rounded(700)


def test_short_memory_is_used_to_its_end() -> None:
    driver = Driver(room=230 << 20)
    memory = Slabs(driver.allocate, driver.release)
    first = memory.take(100 << 20)
    memory.take(20 << 20)
    memory.take(70 << 20)  # a whole slab would not fit
    with pytest.raises(KernelFault, match="out of memory"):
        memory.take(60 << 20)
    memory.give_back(first, 100 << 20)
    memory.take(110 << 20)  # needs what `first` held


def test_slabs_end_where_their_mapping_ends() -> None:
    """Behind a slab that is no whole number of mappings there would be memory that nobody clears."""
    driver = Driver(room=330 << 20)
    memory = Slabs(driver.allocate, driver.release)
    for size in (
        1,
        (100 << 20) + 700,
        (150 << 20) + 1,
    ):  # the last is more than what is left of a doubled slab
        memory.take(size)
    assert len(driver.sizes) == 3
    assert all(size % MAPPED_BYTES == 0 for size in driver.sizes)
