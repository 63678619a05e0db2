"""Expressions over size names that give recorded numbers, simplest first.

A number has a value in each recorded launch, and so has a name; an expression fits if it is right in all of
them. Not covered: which names there are, and which of several expressions to take (`from_launches`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, product

from kcurate.draft.algebra import Poly, factor, number, of_text
from kcurate.errors import ProblemError
from kcurate.problem.expressions import evaluate
from kcurate.records import Expr

Values = tuple[int, ...]
Names = Mapping[str, Values]
# The largest constant factor; the largest one where a match may be chance, since a number has one value in
# all launches; and the largest constant summand.
MOST_FACTOR, MOST_OF_ONE = 64, 4
MOST_SUMMAND = 4
# Elements of a thread, or threads of an element, in launch configurations: usual numbers, and rare ones.
SHARES = (1, 2, 4, 8, 16, 32)
ODD_SHARES = (3, 5, 6, 7, 9, 10, 12, 24)
# How many elements a word may pack.
PACKED = (2, 3, 4, 8, 16, 32, 64)
WARP = 32
# With more names than this, no products of names are tried.
MAX_NAMES = 10


def poly_of(value: Expr) -> Poly:
    """An expression as a sum of products."""
    return number(value) if isinstance(value, int) else of_text(value) or factor(value)


def value_in(expression: Expr, names: Names, launch: int) -> int | None:
    """The expression's value in one launch; None: it has none."""
    try:
        return evaluate(expression, {name: values[launch] for name, values in names.items()})
    except ProblemError:
        return None


def holds(expression: Expr, values: Values, names: Names) -> bool:
    """Whether an expression gives the value in every launch."""
    return all(value_in(expression, names, launch) == value for launch, value in enumerate(values))


def alike(values: Values, names: Names, powers: bool = False) -> Iterator[str]:
    """Expressions for a scalar argument: another name, twice it, one more, a product of two.

    `powers`: also the power of two that is not below another name, such as a block in Triton.
    """
    for text, name_values in names.items():
        yield from _near(values, text, name_values, most_factor=4)
        if powers and tuple(1 << (number - 1).bit_length() for number in name_values if number > 0) == values:
            yield f"pow2(log2({text} - 1) + 1)"
    yield from (text for text, name_values in _products(names, 2) if name_values == values)


def extents(values: Values, names: Names, block: Sequence[int]) -> Iterator[str]:
    """Expressions for a number of elements or bytes, or for an offset."""
    singles = list(names.items())
    yield from _equal(values, singles)
    pairs, triples = list(_products(names, 2)), list(_products(names, 3))
    yield from _equal(values, pairs)
    for text, base in singles:
        yield from _near(values, text, base, MOST_FACTOR)
    yield from _with_margins(values, singles)
    yield from _equal(values, triples)
    for text, base in (*pairs, *(triples if len(set(values)) > 1 else ())):
        yield from _near(values, text, base, MOST_FACTOR)
    yield from _packed(values, singles)
    for unit, (text, base) in product(_units(block), (*singles, *pairs)):
        yield from _in_blocks(values, text, base, unit, singles)


def _equal(values: Values, candidates: Iterable[tuple[str, Values]]) -> Iterator[str]:
    return (text for text, numbers in candidates if numbers == values)


def _with_margins(values: Values, singles: Sequence[tuple[str, Values]]) -> Iterator[str]:
    """Products of two sizes with a border around one or both: `(n + 2)*(m + 2)`."""
    for (left, a), (right, b) in product(singles, singles):
        for left_margin, right_margin in ((1, 0), (2, 2), (-1, 0), (1, 1), (2, 0), (-1, -1), (-2, -2)):
            if tuple((x + left_margin) * (y + right_margin) for x, y in zip(a, b, strict=True)) == values:
                yield f"{_plus(left, left_margin)}*{_plus(right, right_margin)}"


def _packed(values: Values, singles: Sequence[tuple[str, Values]]) -> Iterator[str]:
    """Counts of words that hold several elements each: `ceil_div(n, 4)`, or a small multiple of it."""
    for unit, (text, base) in product(PACKED, singles):
        if any(x % unit for x in base):  # else it is any fraction
            yield from _times(values, text, tuple(-(-x // unit) for x in base), unit, MOST_OF_ONE)


def _times(values: Values, text: str, rounds: Values, unit: int, most: int) -> Iterator[str]:
    """A multiple, at most `most`, of a size divided by `unit`; `rounds` is the quotient, rounded up."""
    by = values[0] // rounds[0] if rounds[0] else 0
    if 0 < by <= most and tuple(x * by for x in rounds) == values:
        yield f"{by}*ceil_div({text}, {unit})" if by > 1 else f"ceil_div({text}, {unit})"


def _in_blocks(
    values: Values, text: str, base: Values, unit: int, singles: Sequence[tuple[str, Values]]
) -> Iterator[str]:
    """A size rounded up to whole blocks, or something for each block of it."""
    several = len(set(values)) > 1
    blocks = tuple(-(-x // unit) for x in base)
    if tuple(x * unit for x in blocks) == values:
        yield f"align_up({text}, {unit})"
    yield from _times(values, text, blocks, unit, MOST_FACTOR if several else MOST_OF_ONE)
    for other, times in singles if several or any(x % unit for x in base) else ():
        if tuple(x * y for x, y in zip(blocks, times, strict=True)) == values:
            yield f"ceil_div({text}, {unit})*{other}"


def grids(values: Values, names: Names, width: int, block: Sequence[int]) -> Iterator[str]:
    """Expressions for a grid's extent along an axis where a block has `width` threads."""
    singles, pairs = list(names.items()), list(_products(names, 2))
    for texts in (singles, pairs):
        for share in SHARES:
            yield from _blocks(values, texts, width * share)
        yield from _equal(values, texts)
        for text, base in texts:  # a warp, or another part of a block, for each
            for threads in (WARP, 2, 4, 8, 16):
                if tuple(-(-x * threads // width) for x in base) == values:
                    yield f"ceil_div({threads}*{text}, {width})"
    tiles = {
        f"ceil_div({text}, {unit})": tuple(-(-x // unit) for x in base)
        for unit in dict.fromkeys(extent for extent in block if extent > 1)
        for text, base in pairs
    }
    yield from _equal(values, tiles.items())
    yield from _equal(values, _products(tiles | dict(singles), 2))
    for share in ODD_SHARES:
        yield from _blocks(values, singles, width * share)
    yield from extents(values, names, block)


def _blocks(values: Values, candidates: Iterable[tuple[str, Values]], unit: int) -> Iterator[str]:
    """The blocks of `unit` elements that a size takes."""
    for text, numbers in candidates:
        if tuple(-(-x // unit) for x in numbers) == values:
            yield f"ceil_div({text}, {unit})" if unit > 1 else text


def _near(values: Values, text: str, base: Values, most_factor: int) -> Iterator[str]:
    """The text itself, or the text plus, times or divided by a constant."""
    if base == values:
        yield text
        return
    summand = values[0] - base[0]
    if abs(summand) <= MOST_SUMMAND and all(v - k == summand for v, k in zip(values, base, strict=True)):
        yield _plus(text, summand)[1:-1]
    times = values[0] // base[0] if base[0] else 0
    if 1 < times <= most_factor and all(v == k * times for v, k in zip(values, base, strict=True)):
        yield f"{times}*{text}"
    parts = base[0] // values[0] if values[0] else 0
    usual = parts <= MOST_OF_ONE or parts.bit_count() == 1 or len(set(values)) > 1
    if 1 < parts <= most_factor and usual and all(k == v * parts for v, k in zip(values, base, strict=True)):
        yield f"{text}/{parts}" if text.isidentifier() else f"({text})/{parts}"


def _plus(text: str, summand: int) -> str:
    return f"({text} {'+' if summand > 0 else '-'} {abs(summand)})" if summand else text


def _products(names: Names, count: int) -> Iterator[tuple[str, Values]]:
    """Products of `count` names; those of different names first."""
    if len(names) > MAX_NAMES:
        return
    combinations = combinations_with_replacement(names, count)
    for product_names in sorted(combinations, key=lambda factors: -len(set(factors))):
        values = [1] * len(names[product_names[0]])
        for name in product_names:
            values = [x * y for x, y in zip(values, names[name], strict=True)]
        yield "*".join(product_names), tuple(values)


def _units(block: Sequence[int]) -> tuple[int, ...]:
    """What a launch may round up to: the extents of its block and their product, times each of `SHARES`."""
    units = dict.fromkeys(extent * share for extent in (math.prod(block), *block) for share in SHARES)
    return tuple(unit for unit in units if unit > 1)
