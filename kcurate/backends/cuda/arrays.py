"""Arrays in device memory: created, compared and hidden there by our own kernels.

Every method queues work on the device's stream, unless its docstring says that it waits. The same kernels run
on the emulator, where the tests compare them with NumPy. Not covered: the kernels
(`kcurate.backends.cuda.helpers`), timing (`kcurate.backends.cuda.timer`).
"""

from __future__ import annotations

import math
import secrets
import struct
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from kcurate.backends.base import Device, EntryPoint, Grid, Memory, Module, ScalarValue
from kcurate.backends.cuda.helpers import MAX_RANK
from kcurate.backends.noise import Held
from kcurate.problem.compare import Bound, Magnitudes
from kcurate.problem.dtypes import is_float, numpy_dtype
from kcurate.problem.groups import CLASSES
from kcurate.problem.inputs import counter_based
from kcurate.problem.inputs.spoiled import NARROWER, hole_value

THREADS = 512
# Size of a fingerprint, and of a sum of fingerprints.
WORD_BYTES = 8
# How many ranges are tested at once.
TALLIES = 256
# The numbers of the floating types in `helpers.cu`.
FLOAT_KINDS = {
    "float64": 0, "float32": 1, "float16": 2, "bfloat16": 3, "float8_e4m3": 4, "float8_e5m2": 5,
}  # fmt: skip


@dataclass(frozen=True)
class Region:
    """The part of an allocation that holds a buffer's contents, and which of its elements are compared.

    `layout`: rank, base, extents and strides of the logical array's axes, in bytes (empty: contiguous).
    `counted_by`: where only leading elements are compared, the device address of their number, its size in
    bytes, and whether it is signed. `ordered` False: the elements may come in any order.
    """

    memory: Memory
    offset_bytes: int
    count: int
    dtype: str
    itemsize: int
    layout: tuple[int, ...] = ()
    counted_by: tuple[int, int, bool] | None = None
    ordered: bool = True

    @property
    def size_bytes(self) -> int:
        """Bytes of the logical array."""
        return self.count * self.itemsize

    @property
    def plain(self) -> bool:
        """Whether every byte of the range is compared, in order."""
        return not self.layout and self.counted_by is None and self.ordered


def _shape(region: Region) -> list[tuple[int, int]]:
    """The parameters of `kc_fingerprint` and `kc_close` for the count and the layout."""
    address, itemsize, signed = region.counted_by or (0, 0, False)
    return [(address, 8), (itemsize, 4), (signed, 4), _layout(region)]


class DeviceArrays:
    """Arrays in one device's memory. `module` is `helpers.SOURCE`, loaded there."""

    def __init__(self, device: Device, module: Module, multiprocessors: int) -> None:
        self.device = device
        self._module = module
        self._multiprocessors = multiprocessors
        self.key = secrets.randbits(64)
        self.word = device.allocate(256)
        self._tallies = device.allocate(8 * TALLIES)
        table = counter_based.quantiles()
        self.quantiles = device.allocate(table.nbytes)
        device.write(self.quantiles, 0, table.view(np.uint8))

    def _run(
        self,
        name: str,
        blocks: int,
        values: Sequence[tuple[int, int]],
        threads: int = THREADS,
        shared_bytes: int = 0,
    ) -> None:
        """Launch a helper kernel; `values` are (value, size in bytes) of its parameters."""
        args = [ScalarValue(value.to_bytes(size, "little")) for value, size in values]
        self.device.launch(
            self._module, EntryPoint(name), Grid((blocks, 1, 1), (threads, 1, 1), shared_bytes), args
        )

    def clear(self) -> None:
        """Clear memory of ours that is not in use, so that a kernel finds no data there."""
        self.device.clear_unused()
        self.device.fill(self.word, 0, self.word.size_bytes, b"\0")
        self.device.fill(self._tallies, 0, self._tallies.size_bytes, b"\0")

    def noise(self, memory: Memory, offset: int, size_bytes: int, salt: int) -> None:
        """Fill a range with noise."""
        if size_bytes > 0:
            noised = self._noise_range(memory, offset, size_bytes, salt)
            self._run("kc_noise", self._blocks(size_bytes), noised)

    def changed(self, ranges: Sequence[Held]) -> list[bool]:
        """For each range, whether its contents changed; waits for all of them."""
        differs: list[bool] = []
        for start in range(0, len(ranges), TALLIES):
            differs += self._changed(ranges[start : start + TALLIES])
        return differs

    def _changed(self, ranges: Sequence[Held]) -> list[bool]:
        self.device.fill(self._tallies, 0, 8 * len(ranges), b"\0")
        for at, held_range in enumerate(ranges):
            begin, slot = held_range.memory.address + held_range.offset, (self._tallies.address + 8 * at, 8)
            if isinstance(held_range.what, Memory):
                values = [(begin, 8), (held_range.what.address, 8), (held_range.size_bytes, 8), slot]
                self._run("kc_differs", self._blocks(held_range.size_bytes), values)
            elif held_range.size_bytes > 0:
                place = held_range.memory, held_range.offset, held_range.size_bytes
                values = [*self._noise_range(*place, held_range.what), slot]
                self._run("kc_noise_changed", self._blocks(held_range.size_bytes), values)
        counts = self.device.read(self._tallies, 0, 8 * len(ranges)).view(np.uint64)
        return [bool(count) for count in counts]

    def _noise_range(self, memory: Memory, offset: int, size_bytes: int, salt: int) -> list[tuple[int, int]]:
        begin = memory.address + offset
        return [(begin, 8), (begin + size_bytes, 8), (salt, 8), (self.key, 8)]

    def _blocks(self, size_bytes: int) -> int:
        return max(1, min(self._multiprocessors * 4, size_bytes // (8 * THREADS)))

    def sum_of(self, add: Callable[[int], None]) -> int:
        """The sum that `add` accumulates in the word at the device address that it is given; waits."""
        self.device.fill(self.word, 0, WORD_BYTES, b"\0")
        add(self.word.address)
        return int(self.device.read(self.word, 0, WORD_BYTES).view(np.uint64)[0])

    def checksum(self, memory: Memory, offset: int, size_bytes: int, salt: int, slot: int) -> None:
        """Add a 64-bit checksum of a range to the word at device address `slot`."""
        values = [(memory.address + offset, 8), (size_bytes, 8), (salt, 8), (slot, 8)]
        self._run("kc_checksum", self._blocks(size_bytes), values)

    def fingerprint(self, region: Region, salt: int, slot: int) -> None:
        """Add a 64-bit fingerprint of an output's elements to the word at device address `slot`.

        Unordered regions have the same fingerprint in any order; elements past the count are ignored.
        """
        if region.plain:
            return self.checksum(region.memory, region.offset_bytes, region.size_bytes, salt, slot)
        head = [*_elements(region), (region.ordered, 4), (salt, 8), (slot, 8)]
        return self._run("kc_fingerprint", self._blocks(8 * region.count), [*head, *_shape(region)])

    def record_fingerprint(self, members: Sequence[Region], count: int, salt: int, slot: int) -> None:
        """As `fingerprint`, of `count` records in any order.

        Record i is element i (or row i) of each region.
        """
        words = self.device.allocate(8 * count)
        self.device.fill(words, 0, words.size_bytes, b"\0")
        for region in members:
            start, _, itemsize = _elements(region)
            width = region.count // max(1, count)
            values = [start, (count, 8), (width, 8), itemsize, (salt, 8), (words.address, 8), *_shape(region)]
            self._run("kc_fold", self._blocks(8 * region.count), values)
        counted_by = members[0].counted_by
        self.fingerprint(Region(words, 0, count, "uint64", 8, (), counted_by, ordered=False), salt, slot)
        self.device.free(words)

    def close(
        self, region: Region, expected: Memory, bound: Bound, hiding: tuple[int, int], slot: int
    ) -> None:
        """Compare an output with `expected`, which is encrypted with `hiding` (salt, key).

        Adds to the words at device address `slot`: the number of elements outside their bound, the sum of the
        squares of all differences (float64), and the number of groups outside their bound.
        """
        rows = -(-region.count // bound.row) if bound.row else 0
        sums = self.device.allocate(8 * (3 * rows + 4 * CLASSES))
        self.device.fill(sums, 0, sums.size_bytes, b"\0")
        by_row, scales, off_by_row, classes = ((sums.address + 8 * rows * part, 8) for part in range(4))
        kind, packed, blocks = (FLOAT_KINDS[region.dtype], 4), _packed(bound), self._blocks(8 * region.count)
        hidden = [kind, (expected.address, 8), *((word, 8) for word in hiding)]
        start, count, itemsize = _elements(region)
        if rows:
            self._run("kc_rows", blocks, [count, itemsize, *hidden, packed, by_row, *_shape(region)])
            self._run("kc_scales", self._blocks(8 * rows), [count, packed, by_row, scales, *_shape(region)])
        groups = [scales, off_by_row, classes]
        compared = [packed, *groups, (secrets.randbits(64), 8), (slot, 8), *_shape(region)]
        self._run("kc_close", blocks, [start, count, itemsize, *hidden, *compared])
        values = [count, packed, by_row, *groups, (slot, 8), *_shape(region)]
        self._run("kc_groups", self._blocks(8 * rows), values)
        self.device.free(sums)

    def make(self, region: Region, recipe: counter_based.Recipe) -> None:
        """Write the values of a recipe, bit for bit those of `Recipe.values`; waits if it has a table."""
        packed = _pack(recipe)
        table = self._upload(recipe.table)
        values = [
            *_elements(region),
            (self.quantiles.address, 8),
            (table.address if table else 0, 8),
            (int.from_bytes(packed, "little"), len(packed)),
            _layout(region),
        ]
        self._run("kc_make", self._blocks(8 * region.count), values)
        if table is not None:
            self.device.synchronize()
            self.device.free(table)

    def _upload(self, table: counter_based.Array | None) -> Memory | None:
        """A recipe's table on the device; each word holds the bits of one element."""
        if table is None:
            return None
        flat = np.ascontiguousarray(table).reshape(-1)
        words = flat.view(f"u{flat.itemsize}").astype(np.uint64)
        memory = self.device.allocate(words.nbytes)
        self.device.write(memory, 0, words.view(np.uint8))
        return memory

    def narrow(self, region: Region) -> None:
        """Round values to the next narrower type, except where that would leave their range. Waits."""
        narrower = NARROWER.get(region.dtype)
        if narrower is not None:
            least = self._range(region)
            kinds = [(FLOAT_KINDS[region.dtype], 4), (FLOAT_KINDS[narrower], 4), (least, 8)]
            values = [*_elements(region), *kinds, _layout(region)]
            self._run("kc_narrow", self._blocks(8 * region.count), values)

    def hole(self, region: Region, start: int, count: int) -> None:
        """Set `count` elements from `start` on to `hole_value`. Waits."""
        self._range(region)
        words = self.device.read(self.word, 0, 16).view(np.uint64)
        raw = np.asarray(hole_value(*(_unordered(int(word)) for word in words)), numpy_dtype(region.dtype))
        begin, _, itemsize = _elements(region)
        word = (int.from_bytes(raw.tobytes(), "little"), 8)
        values = [begin, (start, 8), (count, 8), itemsize, word, _layout(region)]
        self._run("kc_put", self._blocks(8 * count), values)

    def _range(self, region: Region) -> int:
        """Queue the search for the least and the greatest value of a region; the address of the two.

        They are stored as words whose unsigned order is that of the values.
        """
        self.device.write(self.word, 0, np.array([2**64 - 1, 0], np.uint64).view(np.uint8))
        kind = (FLOAT_KINDS[region.dtype], 4)
        values = [*_elements(region), kind, (self.word.address, 8), _layout(region)]
        self._run("kc_range", self._blocks(8 * region.count), values)
        return self.word.address

    def magnitudes(self, region: Region) -> tuple[Magnitudes, int]:
        """`Magnitudes` of a floating region, and how many of its elements are compared; waits."""
        self.device.fill(self.word, 0, 24, b"\0")
        head = [*_elements(region), (FLOAT_KINDS[region.dtype], 4), (self.word.address, 8)]
        for name in ("kc_largest", "kc_squares"):
            self._run(name, self._blocks(8 * region.count), [*head, *_shape(region)])
        count, bits, squares = struct.unpack("<Qdd", self.device.read(self.word, 0, 24).tobytes())
        rms = bits * math.sqrt(squares / count) if count else 0.0
        return Magnitudes(bits, rms), count

    def hide(self, region: Region, to: Memory, salt: int, key: int) -> None:
        """Write the region's elements in logical order to `to`, encrypted as `close` expects them."""
        values = [*_elements(region), (to.address, 8), (salt, 8), (key, 8), _layout(region)]
        self._run("kc_hide", self._blocks(8 * region.count), values)


def _elements(region: Region) -> list[tuple[int, int]]:
    """The address, number and size of a region's elements, as kernel parameters."""
    return [(region.memory.address + region.offset_bytes, 8), (region.count, 8), (region.itemsize, 4)]


def _layout(region: Region) -> tuple[int, int]:
    """A region's layout as a kernel parameter."""
    layout = struct.pack(f"<{2 + 2 * MAX_RANK}Q", *(region.layout or (0,) * (2 + 2 * MAX_RANK)))
    return int.from_bytes(layout, "little"), len(layout)


def _packed(bound: Bound) -> tuple[int, int]:
    """A bound as a kernel parameter."""
    *numbers, _, rounding, row = astuple(bound)  # `whole` is checked on the host
    numbers.append(rounding)
    data = struct.pack("<9dQ", *numbers, bound.room, row)
    return int.from_bytes(data, "little"), len(data)


def _pack(recipe: counter_based.Recipe) -> bytes:
    """A recipe as the struct `Recipe` of `helpers.cu`."""
    thin, shaping = recipe.thinned, recipe.shaping
    allowed = shaping.allowed if shaping else ()
    floats = is_float(recipe.dtype)
    return struct.pack(
        "<17Qq4d2f12I",
        recipe.key,
        thin.kept_key if thin else 0,
        thin.small_key if thin else 0,
        recipe.extent,
        thin.below if thin else 0,
        thin.always if thin else 0,
        counter_based.RUN,
        -(-recipe.count // counter_based.RUN) or 1,
        recipe.width,
        0 if recipe.table is None else recipe.table.size - 1,
        counter_based.PERIOD,
        counter_based.PIECES[1],
        shaping.key if shaping else 0,
        shaping.width if shaping else 1,
        recipe.cleared,
        recipe.share,
        counter_based.BELOW_THREE.get(recipe.dtype, 0),
        recipe.first,
        recipe.low,
        recipe.span,
        recipe.least,
        recipe.most,
        thin.small if thin else 0.0,
        recipe.top,
        counter_based.FORMS.index(recipe.form),
        FLOAT_KINDS[recipe.dtype] if floats else 0,
        floats if recipe.form == "sorted" else thin is not None,
        recipe.dtype == "bool",
        counter_based.PATCHED,
        counter_based.PIECE,
        0 if shaping is None else 1 if shaping.whole is None else 2,
        shaping.whole or 0 if shaping else 0,
        sum(number << 4 * at for at, number in enumerate(allowed)),
        len(allowed),
        shaping.shift if shaping else 0,
        shaping.near if shaping else 0,
    )


def _unordered(word: int) -> float:
    """A double from a word whose unsigned order is that of doubles."""
    bits = word ^ (1 << 63) if word >> 63 else word ^ (2**64 - 1)
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value
