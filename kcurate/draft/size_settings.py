"""Size settings to try a draft on, from hardest to easiest, and a bench setting.

A kernel with guards gets odd, distinct sizes; one without gets multiples of its block, or only equal
extents. Each step has settings of at least two scales, unless every extent is a constant in the code. Not
covered: whether a setting works (`admit`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kcurate.cuda_source.semantics.c_expressions import names, parse
from kcurate.draft.algebra import Poly
from kcurate.errors import ProblemError
from kcurate.problem.expressions import evaluate

# A size that the host sets to this or less is a constant of the computation, not its extent.
SMALL = 32
# Sizes by `degree`, how many sizes the largest buffer multiplies: a few thousand elements keep runs short.
_ODD: Mapping[int, tuple[int, ...]] = {
    1: (1009, 997, 1013, 991),
    2: (61, 53, 67, 47),
    3: (19, 17, 23, 13),
    4: (7, 9, 5, 11),
}
_SMALL_ODD: Mapping[int, tuple[int, ...]] = {
    1: (77, 71, 79, 67),
    2: (19, 23, 17, 29),
    3: (7, 9, 5, 11),
    4: (3, 5, 2, 4),
}
# 16 million elements: a GPU that reads 5 TB/s takes over 5 us for them, the least that is timed. For degree 1
# a quarter of that, since the work of a kernel may be quadratic.
_BENCH: Mapping[int, int] = {1: 1 << 22, 2: 4096, 3: 256, 4: 64}
# Rows of a matrix that a warp reads four elements at a time, and the tiles of many products.
WIDE = 128
MAX_BENCH_ELEMENTS = 1 << 28
MAX_TEST_ELEMENTS = 1 << 22
# The limit for a draft without sizes, which cannot be tried at smaller ones.
MAX_OWN_ELEMENTS = 1 << 24
# Larger buffers make runs long if every thread loops over the whole buffer.
COMMON_TEST_ELEMENTS = 1 << 15


@dataclass(frozen=True)
class Settings:
    """One step of the ladder; `what` describes for people what the sizes have in common."""

    what: str
    test: tuple[Mapping[str, int], ...]


def degree(counts: Sequence[Poly], sizes: Mapping[str, int | None]) -> int:
    """The maximum number of large sizes multiplied in a buffer's extent, 1 to 4."""
    large = {name for name, value in sizes.items() if value is None or value > SMALL}
    most = 1
    for poly in counts:
        for term in poly.terms:
            factors = 0
            for piece in term:
                node = parse(piece)
                factors += bool((names(node) if node is not None else {piece}) & large)
            most = max(most, factors)
    return min(most, 4)


def ladder(
    sizes: Mapping[str, int | None], counts: Sequence[Poly], block: Sequence[int]
) -> tuple[Settings, ...]:
    """Settings to try in order; with no sizes the one that the code has. Empty if none fits."""
    if not sizes:
        return (Settings("those of the code", ({},)),) if fits(counts, {}, MAX_OWN_ELEMENTS) else ()
    large = [name for name, value in sizes.items() if value is None or value > SMALL] or list(sizes)
    test_settings: list[tuple[Mapping[str, int], ...]] = []
    steps = []
    for step in _steps(sizes, large, degree(counts, sizes), block):
        most = MAX_TEST_ELEMENTS if step.what.startswith("multiples") else COMMON_TEST_ELEMENTS
        grown = [_grown(counts, _spaced(counts, setting), large, most) for setting in step.test]
        test = tuple(
            setting for i, setting in enumerate(grown) if setting is not None and setting not in grown[:i]
        )
        if len(test) > 1 and test not in test_settings:
            test_settings.append(test)
            steps.append(Settings(step.what, test))
    return tuple(steps)


def _steps(
    sizes: Mapping[str, int | None], large: Sequence[str], level: int, block: Sequence[int]
) -> Iterator[Settings]:
    """The steps of the ladder, whether they fit or not; `level` is how many sizes a buffer multiplies."""
    unit = _unit(block, level)
    rounds = _multiples(sizes, large, unit)
    odd = _odd(sizes, large, _ODD[level]), rounds[0], _odd(sizes, large, _SMALL_ODD[level])
    if (distinct := _distinct_small(sizes)) != sizes:
        yield Settings(
            "odd and different, small ones too", tuple({**setting, **_small(distinct)} for setting in odd)
        )
    yield Settings("odd and different", odd)
    yield Settings(f"multiples of {unit}", rounds)
    for side in (64, 256, 1024) if level == 1 else (64,):
        extents = (2 * side, side) if level <= 2 else (side // 2, side // 4)
        values = tuple(_set(sizes, large, lambda *_, extent=extent: extent) for extent in extents)
        yield Settings("equal powers of two", values)
    if level == 2 and unit < WIDE:
        yield Settings(f"multiples of {WIDE}", _multiples(sizes, large, WIDE))
    defaults = {name: value for name, value in sizes.items() if value is not None}
    if len(defaults) == len(sizes):
        yield Settings("the host's own and half of them", (defaults, _half(defaults)))


def _distinct_small(sizes: Mapping[str, int | None]) -> Mapping[str, int | None]:
    """The sizes with small ones made different: a window and a step of equal size would hide swapped uses."""
    small_values: list[int | None] = []
    distinct = dict(sizes)
    for name, value in sizes.items():
        if value is not None and 1 < value < SMALL:
            distinct[name] = value + small_values.count(value)
            small_values.append(value)
    return distinct


def _small(sizes: Mapping[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in sizes.items() if value is not None and value <= SMALL}


def _multiples(
    sizes: Mapping[str, int | None], large: Sequence[str], unit: int
) -> tuple[Mapping[str, int], ...]:
    """Two scales of multiples of a unit; neighbouring sizes differ."""
    return tuple(
        _set(sizes, large, lambda number, _, by=by: unit * (by + number % 2))  # type: ignore[misc]
        for by in (2, 1)
    )


def _spaced(counts: Sequence[Poly], sizes: Mapping[str, int]) -> Mapping[str, int]:
    """The setting with `step >= length` wherever an extent is `(rows - 1)*step + length`, so that rows do not
    overlap."""
    spaced = dict(sizes)
    for terms in (count.terms for count in counts):
        alone = {term[0]: count for term, count in terms.items() if len(term) == 1}
        for step in (name for name, count in alone.items() if count == -1):
            rows = any(len(term) == 2 and step in term and count == 1 for term, count in terms.items())
            length = [name for name, count in alone.items() if count == 1]
            if rows and len(length) == 1 and {step, *length} <= spaced.keys():
                spaced[step] = max(spaced[step], spaced[length[0]])
    return spaced


def _grown(
    counts: Sequence[Poly], sizes: Mapping[str, int], large: Sequence[str], most: int
) -> Mapping[str, int] | None:
    """The setting scaled so that every buffer fits; None if no scale does."""
    for by, least in ((1, 0), (4, 2), (16, 2), (64, 2), (256, 0)):  # at last, sizes that count millions each
        if by == 1 or all(sizes[name] // by > least for name in large):
            shrunk = {n: v // by // 2 * 2 + v % 2 if by > 1 and n in large else v for n, v in sizes.items()}
            if fits(counts, shrunk, most):
                return shrunk
    for times in (1, 4, 16, 64, 256, 1024, 4096):
        grown = {n: v * times + (times > 1 and v % 2) if n in large else v for n, v in sizes.items()}
        if fits(counts, grown):
            return grown
    return None


def fits(counts: Sequence[Poly], sizes: Mapping[str, int], most: int = MAX_TEST_ELEMENTS) -> bool:
    """Whether every buffer is non-empty and within the limit at these sizes."""
    for poly in counts:
        try:
            if not 1 <= evaluate(poly.text(), sizes) <= most:
                return False
        except ProblemError:
            return False
    return True


def bench(sizes: Mapping[str, int | None], counts: Sequence[Poly]) -> dict[str, int]:
    """The setting to time: the host's values where known, within this package's limits."""
    level = degree(counts, sizes)
    # An unknown length most likely equals a known one.
    lengths = [value for value in sizes.values() if value is not None and value > SMALL and level == 1]
    default = max(lengths, default=_BENCH[level])
    setting = _spaced(counts, {name: default if value is None else value for name, value in sizes.items()})
    while not fits(counts, setting, MAX_BENCH_ELEMENTS) and any(
        value > 2 * SMALL for value in setting.values()
    ):
        setting = _spaced(counts, _half(setting))
    return dict(setting)


def _unit(block: Sequence[int], level: int) -> int:
    """What a kernel without guards may need its sizes to be multiples of."""
    widest = math.prod(block) if level == 1 else max(block, default=32)
    return max(widest, 32 if level < 3 else 8)


def _set(
    sizes: Mapping[str, int | None], large: Sequence[str], value: Callable[[int, int | None], int]
) -> dict[str, int]:
    """Every large size at `value`, given its number and the host's own value; others as the host has them."""
    numbers = {name: number for number, name in enumerate(name for name in sizes if name in large)}
    return {
        name: value(numbers[name], default) if name in numbers else default or 1
        for name, default in sizes.items()
    }


def _odd(sizes: Mapping[str, int | None], large: Sequence[str], values: Sequence[int]) -> dict[str, int]:
    def odd(number: int, default: int | None) -> int:
        value = values[number % len(values)]
        return value if default is None or default >= value else max(1, default - (default + 1) % 2)

    return _set(sizes, large, odd)


def _half(sizes: Mapping[str, int]) -> dict[str, int]:
    return {name: value // 2 if value > SMALL else value for name, value in sizes.items()}
