"""Sizes of a module: which of its constants are sizes, small values for them, and shapes as formulas in them.

Works on the numbers in a module's facts (`Facts.numbers`), and runs nothing itself. A constant is a size if
changing it changes the shape of an input, and only numbers among the facts. Not covered: the facts
(`kernelbench.meta_shapes`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from kcurate.errors import ProblemError
from kcurate.problem.expressions import evaluate
from kcurate.records import Expr

Values = Mapping[str, int]
# The numbers in the facts for these values of the constants; None if the module does not run.
Numbers = Callable[[Values], tuple[int, ...] | None]
Samples = Sequence[tuple[Values, int]]

# Largest |a| tried in a formula `(x + a) / b`; a dilated convolution can need so large a shift.
FARTHEST_SHIFT = 256
# Just above the number of threads in a block, in a few warps, in one warp.
LONGEST = (1031, 263, 67, 33)


def other_values(value: int) -> Iterator[int]:
    """Other values to try; some have the same divisors."""
    yielded = {value}
    for other in (value + 1, value - 1, 2 * value, value // 2, value + 8, value // 4, value + 16, 3 * value):
        if other >= 1 and other not in yielded:
            yielded.add(other)
            yield other


def size_names(constants: Values, numbers: Numbers, inputs: int) -> tuple[str, ...]:
    """The constants that are sizes: another value is valid and changes one of the first `inputs` numbers."""
    base = numbers(constants)
    if base is None:
        return ()
    sizes = []
    for name, value in constants.items():
        for other in other_values(value):
            changed = numbers({**constants, name: other})
            if changed is None:
                continue
            if changed[:inputs] != base[:inputs]:
                sizes.append(name)
            break
    return tuple(sizes)


def first_fitting(
    names: Sequence[str], start: Values, choices: Mapping[str, Iterable[int]], fits: Callable[[Values], bool]
) -> dict[str, int]:
    """Set each size in turn to the first of its choices at which the module still runs; else keep it."""
    sizes = dict(start)
    for name in names:
        for value in choices[name]:
            if fits({**sizes, name: value}):
                sizes[name] = value
                break
    return sizes


def settings(
    names: Sequence[str], bench: Values, fits: Callable[[Values], bool], light: Callable[[Values], bool]
) -> tuple[dict[str, int], ...]:
    """Small sizes to verify at: odd and all different, one with a long last size, and tiny ones.

    `fits`: the module runs; `light`: it is small enough for an emulator.
    """
    tiny = {name: range(2 if i == 0 else 3, 130) for i, name in enumerate(names)}
    candidates: list[dict[str, int]] = []
    for first, step in ((5, 2), (3, 2), (3, 1)):
        odd = first_fitting(names, bench, _ascending(names, first, step), fits)
        if light(odd):
            candidates.append(odd)
            break
    for last in LONGEST:
        ends = {names[-1]: [last, *range(last // 8 * 8, last + 129, 8)]}
        long = first_fitting(names, bench, _ascending(names, 3, 1) | ends, fits)
        if light(long):
            candidates.append(long)
            break
    candidates.append(first_fitting(names, bench, tiny, fits))
    return tuple(s for i, s in enumerate(candidates) if s not in candidates[:i])


def _ascending(names: Sequence[str], first: int, step: int) -> dict[str, Iterable[int]]:
    """Ascending values to try, different for each size; then multiples of eight."""
    return {name: [*range(first + step * i, 131, 2), *range(8, 129, 8)] for i, name in enumerate(names)}


def equal_sizes(
    names: Sequence[str], bench: Values, side: int, fits: Callable[[Values], bool]
) -> dict[str, int]:
    """Every size at about `side`, if the module runs there."""
    return first_fitting(names, bench, {name: range(side, 4 * side + 130) for name in names}, fits)


def samples(
    names: Sequence[str], centres: Sequence[Values], numbers: Numbers
) -> list[tuple[Values, tuple[int, ...]]]:
    """The numbers around each centre, one size changed at a time, where the module runs."""
    shapes: list[tuple[Values, tuple[int, ...]]] = []
    least = {name: min(centre[name] for centre in centres) for name in names}
    for centre in centres:
        for name in names:
            for value in (
                *range(max(least[name], centre[name] - 6), centre[name] + 7),
                2 * centre[name],
                3 * centre[name],
            ):
                sizes = {**centre, name: value}
                at_sizes = numbers(sizes)
                if at_sizes is not None:
                    shapes.append((sizes, at_sizes))
    return shapes


def formula(names: Sequence[str], observed: Samples) -> Expr | None:
    """An expression in the sizes that fits every observed number; None if none is found.

    Candidates: a constant, a product of sizes with a factor, one size shifted, divided and multiplied, or a
    product of these.
    """
    return next((guess for guess in _guesses(names, observed) if _holds(guess, observed)), None)


def _guesses(names: Sequence[str], observed: Samples) -> Iterator[Expr]:
    yield observed[0][1]
    yield from names
    yield from _product(names, observed)
    for name in names:
        yield from _shifted(name, observed)
    yield from _separable(names, observed)


def _product(names: Sequence[str], observed: Samples) -> Iterator[Expr]:
    """c * x * y * y: a size is a factor if the number is proportional to it or to its square."""
    factors = [name for name in names for _ in range(_power(name, observed))]
    if not factors:
        return
    values, number = observed[0]
    factor = Fraction(number)
    for name in factors:
        factor /= values[name]
    text = " * ".join(factors)
    if factor.numerator != 1:
        text = f"{text} * {factor.numerator}"
    yield text if factor.denominator == 1 else f"{text} / {factor.denominator}"


def _power(name: str, observed: Samples) -> int:
    """1 or 2 if the number is proportional to that power of a size, the other sizes being fixed; else 0."""
    baselines: dict[tuple[int, ...], tuple[int, int]] = {}
    powers, varies = {1, 2}, False
    for values, number in observed:
        fixed = tuple(value for key, value in values.items() if key != name)
        first_size, first_number = baselines.setdefault(fixed, (values[name], number))
        powers = {p for p in powers if number * first_size**p == first_number * values[name] ** p}
        varies = varies or values[name] != first_size
    return min(powers) if varies and powers else 0


def _shifted(name: str, observed: Samples) -> Iterator[Expr]:
    """(x + a) / b with b >= 1, x * m + a, or a multiple of these."""
    points = sorted({(values[name], number) for values, number in observed})
    yield from _line(name, points)
    common = math.gcd(*(number for _, number in points))
    if common > 1:
        for part in _line(name, [(x, number // common) for x, number in points]):
            yield f"({part}) * {common}"


def _line(name: str, points: Sequence[tuple[int, int]]) -> Iterator[Expr]:
    (low, first), (high, last) = points[0], points[-1]
    if high == low or last <= first:
        return
    slope = Fraction(last - first, high - low)
    if slope >= 1:
        times = round(slope)
        yield _sum(f"{name} * {times}" if times > 1 else name, first - times * low)
        return
    by = round(1 / slope)
    for shift in range(-FARTHEST_SHIFT, FARTHEST_SHIFT + 1):
        if all((x + shift) // by == number for x, number in points):
            yield f"({_sum(name, shift)}) / {by}"
            return


def _separable(names: Sequence[str], observed: Samples) -> Iterator[Expr]:
    """f(x) * g(y) / c, each fitted with the other sizes fixed, at the setting with the most neighbours.

    A neighbour differs in one size.
    """
    neighbours = [
        [(other, n) for other, n in observed if sum(values[name] != other[name] for name in values) == 1]
        for values, _ in observed
    ]
    centre = max(range(len(observed)), key=lambda i: len(neighbours[i]))
    values, number = observed[centre]
    parts: list[Expr] = []
    for name in names:
        line = [(values, number), *((o, n) for o, n in neighbours[centre] if o[name] != values[name])]
        if all(n == number for _, n in line):
            continue
        guesses = (*_product([name], line), *_shifted(name, line))
        parts += itertools.islice((guess for guess in guesses if _holds(guess, line)), 1)
    if len(parts) > 1 and number:
        product = " * ".join(f"({part})" for part in parts)
        yield f"{product} / {number ** (len(parts) - 1)}"


def _holds(guess: Expr, observed: Samples) -> bool:
    try:
        return all(evaluate(guess, values) == number for values, number in observed)
    except ProblemError:  # overflows at some size
        return False


def _sum(text: str, number: int) -> str:
    if number == 0:
        return text
    return f"{text} + {number}" if number > 0 else f"{text} - {-number}"
