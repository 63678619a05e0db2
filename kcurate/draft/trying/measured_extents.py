"""Extents that neither an allocation nor a guard gives: an expression is fitted to how far the kernel goes on
the emulator.

Every access is recorded at size settings in which all sizes differ: three with multiples of a tile, five with
a few elements (these first for kernels with more sizes than a matrix product). The simplest expression that
gives the number of elements at each setting is the extent, else the polynomial over the sizes that gives it
at many settings. If none does, because the extent depends on values or on a minimum of sizes, a multiple of a
product or sum of sizes that no setting exceeds may serve. It is a guess, tried like any other (`admit`). Not
covered: recording accesses (`kcurate.judge.counted_runs`), kernels whose sizes are open too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations_with_replacement, permutations

import numpy as np

from kcurate.draft import size_settings
from kcurate.draft.algebra import Poly
from kcurate.draft.captured.candidate_expressions import Names, Values, extents, poly_of
from kcurate.draft.for_pairs.other_kernel import launches_of
from kcurate.draft.inferred.buffer_contents import any_integers
from kcurate.draft.size_settings import Settings
from kcurate.draft.sketch import OPEN, Draft, Reason, Remark
from kcurate.draft.trying.admit import plain_candidate, row_elements, with_problem
from kcurate.errors import ProblemError
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import names_in
from kcurate.records import Buffer, Candidate, Expr, Init, Launch, Problem, Sizes

Reach = Callable[[Candidate], Sequence[Mapping[str, int]] | None]
# Elements given to a buffer whose extent is unknown: for settings of tiles, and of a few elements.
ROOM, ROOM_FOR_FEW = 1 << 22, 1 << 19
SETTINGS = 3
# Small numbers fit more expressions by chance.
SETTINGS_OF_FEW = 5
# A kernel without guards may need multiples of its tile: mostly this, else a number in its grid, up to a
# limit.
TILE, MOST_TILE = 128, 1024
# Sizes for kernels with guards that multiply many sizes.
FEW = (3, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14, 17, 16, 19, 18)
# Kernels with more sizes than this are first run at few elements: most have guards, and many multiply.
MOST_TILED = 3
MOST_FACTORS = 6
# Reasons for an open draft that measuring removes.
FILLED = frozenset((Reason.NO_EXTENT, Reason.ONE_SIZE))
# Sizes of a polynomial at most, and of one with products of three; settings beyond those that determine it.
MOST_IN_POLYNOMIAL, MOST_IN_CUBES, MORE_SETTINGS = 8, 3, 4
# The least share of a covering extent that the kernel must reach at every setting.
LEAST_REACHED = 0.4
# For possible indices: with two values they stay inside any buffer of two or more elements an axis.
FEW_VALUES = Init("integers", {"low": 0, "high": 2})
WHY = "guess: as far as the kernel goes on the emulator"


def reopened(draft: Draft) -> Draft:
    """The draft with every extent open, for a kernel that goes beyond what the host code allocates."""
    problem = draft.known.problem
    buffers = {
        name: replace(buffer, shape=(OPEN, *buffer.shape[1:])) for name, buffer in problem.buffers.items()
    }
    changed = with_problem(draft, replace(problem, buffers=buffers))
    return replace(_remarked(changed, buffers, "shape", "elements", Reason.NO_EXTENT), needs=())


def _remarked(draft: Draft, names: Iterable[str], key: str, text: str, reason: Reason | None = None) -> Draft:
    """The draft with a remark on a field of some buffers, in place of others on it."""
    places = {f"buffers.{name}.{key}" for name in names}
    kept = (remark for remark in draft.remarks if remark.place not in places)
    return replace(draft, remarks=(*kept, *(Remark(place, text, reason) for place in sorted(places))))


def narrowed(draft: Draft) -> Draft | None:
    """The draft with zeros and ones in place of any integers, which may be indices; None: there are none."""
    problem = draft.known.problem
    buffers = {
        name: replace(buffer, init=FEW_VALUES)
        for name, buffer in problem.buffers.items()
        if buffer.role == "in" and buffer.dtype != OPEN and buffer.init == any_integers(buffer.dtype)
    }
    if not buffers:
        return None
    changed = with_problem(draft, replace(problem, buffers={**problem.buffers, **buffers}))
    return _remarked(changed, buffers, "init", "guess: few values, since others lead astray")


def measured(draft: Draft, code: str, reach: Reach, *, enough: bool = False) -> Draft:
    """The draft with its open extents filled in; as it was if more is open, or if nothing fits.

    `reach` runs a kernel and tells how many bytes of each buffer it read or wrote, at each test size.
    `enough`: an extent may be larger than what was accessed.
    """
    if Reason.NO_EXTENT not in draft.reasons or set(draft.reasons) - FILLED:
        return draft
    (side,) = draft.known.sides.values()
    problem, launch = draft.known.problem, next(iter(launches_of(side.plan)), None)
    if launch is None:
        return draft
    block = tuple(extent for extent in launch.block if isinstance(extent, int))
    large = [name for name, default in draft.limits if default is None or default > size_settings.SMALL]
    large = large or [name for name, _ in draft.limits]
    tiled = _settings(dict(draft.limits), large, launch, block)
    few = _few(dict(draft.limits), large)
    # With unknown integers as possible indices, accesses follow no polynomial.
    for_polynomial = _many(dict(draft.limits), large) if narrowed(draft) is None else ()
    orders = (few, for_polynomial, tiled) if len(large) > MOST_TILED else (tiled, few, for_polynomial)
    for settings in orders if draft.limits else (({},),):
        shaped = _measured_at(settings, draft, code, reach, block, enough)
        if shaped is not None:
            found_at = settings is tiled or len(large) > MOST_TILED
            steps = (Settings("as the extents were found", settings[:2]),) if found_at else ()
            return _filled(draft, problem, shaped, steps, launch, block)
    return draft


def _measured_at(
    settings: tuple[Mapping[str, int], ...],
    draft: Draft,
    code: str,
    reach: Reach,
    block: Sequence[int],
    enough: bool,
) -> dict[str, Buffer] | None:
    """The buffers whose extents were open, as far as the kernel goes at these settings; None: no fit."""
    if not settings:
        return None
    problem = draft.known.problem
    largest = max((value for setting in settings for value in setting.values()), default=TILE)
    room = ROOM_FOR_FEW if largest < TILE else ROOM
    roomy = {name: replace(buffer, shape=_roomy(buffer, room)) for name, buffer in problem.buffers.items()}
    problem_with_room = replace(problem, buffers=roomy, sizes=Sizes(settings, settings[0]))
    try:
        runs = reach(plain_candidate(with_problem(draft, problem_with_room).known, code, draft.kernel))
    except ProblemError:
        return None
    if runs is None:
        return None
    sizes = {name: tuple(setting[name] for setting in settings) for name in settings[0]}
    shaped: dict[str, Buffer] = {}
    for name, buffer in problem.buffers.items():
        if buffer.shape[0] == OPEN:
            extent = _reached(buffer, [run[name] for run in runs], sizes, block, enough)
            if extent is None:
                return None
            shaped[name] = replace(buffer, shape=(extent, *buffer.shape[1:]))
    return shaped or None


def _reached(
    buffer: Buffer, accessed_bytes: Sequence[int], sizes: Names, block: Sequence[int], enough: bool
) -> Expr | None:
    """The extent that gives how far the kernel went in each run; None: it ended early, or nothing fits."""
    if buffer.role != "in" and not all(accessed_bytes):
        return None  # it ended before it wrote anything
    unit = numpy_dtype(buffer.dtype).itemsize * row_elements(buffer)
    values = tuple(-(-max(1, accessed) // unit) for accessed in accessed_bytes)
    extent = _fitted(values, sizes, block) or _polynomial(values, sizes)
    return extent or (_covering(values, sizes) if enough else None)


def _roomy(buffer: Buffer, room: int) -> tuple[Expr, ...]:
    return (room // row_elements(buffer), *buffer.shape[1:]) if buffer.shape[0] == OPEN else buffer.shape


def _settings(
    limits: Mapping[str, int | None], large: Sequence[str], launch: Launch, block: Sequence[int]
) -> tuple[Mapping[str, int], ...]:
    """Settings in which all large sizes differ, and each from itself; those of the grid are smallest."""
    in_grid = frozenset[str]().union(*map(names_in, launch.grid))
    grid_sizes = [name for name in large if name in in_grid]
    other_sizes = [name for name in large if name not in in_grid]
    shares = [int(digits) for extent in launch.grid for digits in re.findall(r"\b\d+\b", str(extent))]
    unit = max(
        TILE,
        math.prod(block) if len(large) == len(launch.grid) == 1 else 1,
        *(share for share in shares if share <= MOST_TILE),
    )
    settings = []
    for turn in range(SETTINGS):
        values = {name: default or 1 for name, default in limits.items()}
        for group, base in ((grid_sizes, 1), (other_sizes, 1 + len(grid_sizes))):
            pool = max(len(group) + 1, SETTINGS)
            values |= {name: unit * (base + (i + turn) % pool) for i, name in enumerate(group)}
        settings.append(values)
    return tuple(settings)


def _few(limits: Mapping[str, int | None], large: Sequence[str]) -> tuple[Mapping[str, int], ...]:
    """Settings in which all large sizes differ, and each from itself, of a few elements each.

    No product of them is the same at all settings, because each leaves other numbers out.
    """
    pool = max(len(large) + 2, SETTINGS_OF_FEW)
    return tuple(
        {name: default or 1 for name, default in limits.items()}
        | {name: FEW[(i + turn) % pool % len(FEW)] for i, name in enumerate(large)}
        for turn in range(SETTINGS_OF_FEW)
    )


def _fitted(values: Values, names: Names, block: Sequence[int]) -> Expr | None:
    """The simplest expression that gives the elements at every setting; a number if they are the same."""
    if len(set(values)) == 1:
        return values[0]
    expressions = chain(extents(values, names, block), _strided(values, names), _multiplied(values, names))
    return next(expressions, None)


def _many(limits: Mapping[str, int | None], large: Sequence[str]) -> tuple[Mapping[str, int], ...]:
    """Settings of a few elements, enough to tell any polynomial over the sizes; none for too many sizes."""
    count = len(_monomials(large)) + MORE_SETTINGS
    if not large or len(large) > MOST_IN_POLYNOMIAL:
        return ()
    drawn = np.random.default_rng(0).integers(5, 24, (count, len(large)))
    fixed = {name: default or 1 for name, default in limits.items()}
    return tuple(fixed | dict(zip(large, map(int, row), strict=True)) for row in drawn)


def _monomials(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Products of at most two sizes, three where there are few sizes; the empty one first."""
    degree = 3 if len(names) <= MOST_IN_CUBES else 2
    return [
        factors
        for count in range(degree + 1)
        for factors in combinations_with_replacement(sorted(names), count)
    ]


def _polynomial(values: Values, names: Names) -> Expr | None:
    """The sum of products of sizes with whole factors that gives the elements at every setting."""
    monomials = _monomials([name for name, name_values in names.items() if len(set(name_values)) > 1])
    if len(values) < len(monomials) + MORE_SETTINGS:
        return None
    columns = [
        [math.prod(setting) for setting in zip(*(names[name] for name in monomial), strict=True)]
        or [1] * len(values)
        for monomial in monomials
    ]
    table = np.array(columns, dtype=np.float64).T
    coefficients = np.rint(np.linalg.lstsq(table, np.array(values, dtype=np.float64), rcond=None)[0])
    if not np.array_equal(table @ coefficients, values):
        return None
    terms = {
        monomial: int(factor) for monomial, factor in zip(monomials, coefficients, strict=True) if factor
    }
    return Poly(terms).expr()


def _covering(values: Values, names: Names) -> Expr | None:
    """The smallest multiple of a product or sum of sizes that covers every setting, the tightest of them."""
    least = 1 << (max(values) - 1).bit_length()
    best: tuple[float, Expr] = (min(values) / least, least)
    factors = [
        some_names for count in (1, 2, 3) for some_names in combinations_with_replacement(names, count)
    ]
    forms: list[tuple[str, Callable[[Sequence[int]], int], tuple[str, ...]]]
    forms = [("*", math.prod, factor_names) for factor_names in factors]
    forms += [
        ("+", sum, factor_names)
        for factor_names in factors
        if len(set(factor_names)) == 2 == len(factor_names)
    ]
    for operator, joined, factor_names in forms:
        products = [joined(setting) for setting in zip(*(names[name] for name in factor_names), strict=True)]
        times = max(-(-value // number) for value, number in zip(values, products, strict=True))
        share = min(value / (times * number) for value, number in zip(values, products, strict=True))
        if share > best[0]:
            text = operator.join(factor_names) if operator == "*" else f"({operator.join(factor_names)})"
            best = share, f"{times}*{text}" if times > 1 else text
    return best[1] if best[0] >= LEAST_REACHED else None


def _multiplied(values: Values, names: Names) -> Iterator[str]:
    """Products of any names, the fewest first, times a constant."""
    partial: list[tuple[Values, tuple[str, ...]]] = [(values, ())]
    for _ in range(MOST_FACTORS):
        further = []
        for remaining, factors in partial:
            for name, name_values in names.items():
                divides = all(v % k == 0 for v, k in zip(remaining, name_values, strict=True))
                if divides and len(set(name_values)) > 1 and (not factors or name >= factors[-1]):
                    quotient = tuple(v // k for v, k in zip(remaining, name_values, strict=True))
                    further.append((quotient, (*factors, name)))
        for remaining, factors in further:
            if len(set(remaining)) == 1:
                yield "*".join([*([str(remaining[0])] if remaining[0] > 1 else []), *factors])
        partial = further


def _strided(values: Values, names: Names) -> Iterator[str]:
    """`(rows - 1)*step + last`: rows at a distance of `step`, of which the last ends after `last`
    elements."""
    for rows, step, last in permutations(names, 3):
        matrix = (names[rows], names[step], names[last])
        if tuple((r - 1) * s + e for r, s, e in zip(*matrix, strict=True)) == values:
            yield f"({rows} - 1)*{step} + {last}"


def _filled(
    draft: Draft,
    problem: Problem,
    shaped: Mapping[str, Buffer],
    settings: tuple[Settings, ...],
    launch: Launch,
    block: Sequence[int],
) -> Draft:
    """The draft with these buffers, tried at the usual sizes and at what `settings` adds."""
    buffers = {**problem.buffers, **shaped}
    counts = [poly_of(buffer.shape[0]) for buffer in buffers.values()]
    grid = [poly_of(extent) for extent in launch.grid]
    limits = dict(draft.limits)
    steps = size_settings.ladder(limits, [*counts, *grid], block)
    ladder = (*steps[:1], *settings, *steps[1:])
    if not ladder:
        return draft
    bench = size_settings.bench(limits, counts)
    filled = replace(problem, buffers=buffers, sizes=Sizes(ladder[0].test, bench))
    other_remarks = tuple(remark for remark in draft.remarks if remark.reason is not Reason.ONE_SIZE)
    remarks = _remarked(replace(draft, remarks=other_remarks), shaped, "shape", WHY).remarks
    extents_text = " ".join(str(buffer.shape[0]) for buffer in shaped.values())
    loose = tuple(name for name in draft.loose if not re.search(rf"\b{name}\b", extents_text))
    return replace(with_problem(draft, filled), remarks=remarks, ladder=ladder, loose=loose)
