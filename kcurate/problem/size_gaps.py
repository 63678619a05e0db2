"""Finds what the test sizes of a problem leave untested, and test sizes that cover it.

A gap is a grid axis that never has two blocks, or never has a partial last block; a size that has one value
in all tests; two sizes that are equal in all tests. If a division has no remainder at any size (`n / 16`),
that counts as a requirement, and no size with a remainder is requested. Not covered: paths that depend on
data, or that only the bench size takes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, combinations
from typing import Any

from kcurate.errors import ProblemError
from kcurate.problem.expressions import FUNCTIONS, OPERATORS, compiled, evaluate, names_in
from kcurate.problem.inputs.contents import check_fit, check_init
from kcurate.problem.ops import LaunchOp, flat
from kcurate.problem.outputs import elements
from kcurate.problem.program import bind, loop_values, names_of
from kcurate.records import For, Launch, Problem, Side, Sizes, Step, ValueArg, WhileNonzero, steps

Setting = Mapping[str, int]
# Settings with a buffer of so many elements are not proposed: the bench size covers them, faster.
MOST_ELEMENTS = 1 << 17
# Nor are settings whose sizes multiply to more than this, which is how many steps a kernel may take.
MOST_STEPS = 1 << 21
# Nor settings with more threads in a launch: these take about 0.3 s on the emulator.
MOST_THREADS = 1 << 17
# Settings whose sizes multiply to less are equally quick; of them those of at least `SMALL` are preferred.
QUICK = 1 << 13
SMALL = 8
# Values tried for a size: all below `DENSE`, then multiples of `STRIDE` below `NEAR`, then powers of two;
# each with its successor.
DENSE = 320
STRIDE = 32
NEAR = 4096
COARSE = tuple((1 << bits) + more for bits in range(17) for more in (0, 1))
# The most settings that are bound in a search: plans may have many launches.
MOST_BINDS = 100
# The most iterations of a loop around launches that are evaluated.
TRIPS = 64


@dataclass(frozen=True)
class SizeGap:
    """A description of what no test size covers, and a setting that would cover it (None: not found)."""

    what: str
    mend: Setting | None = None


def size_gaps(problem: Problem, sides: Mapping[str, Side]) -> tuple[SizeGap, ...]:
    """Everything that the test sizes leave untested; at most one gap for each axis, size and pair of sizes.

    Raises:
        ProblemError: an expression of a plan cannot be evaluated.
    """
    if problem.single_size or not problem.sizes.headline or not problem.sizes.test:
        return ()
    trials = _Trials(problem, sides)
    return (*_gaps_of_axes(trials), *_gaps_of_sizes(trials))


def mended(problem: Problem, sides: Mapping[str, Side]) -> Problem:
    """The problem with additional test settings that close its gaps, if such settings were found."""
    while mends := [gap.mend for gap in size_gaps(problem, sides) if gap.mend is not None]:
        # A setting that covers the largest tile often covers smaller ones too.
        largest = max(mends, key=lambda setting: math.prod(setting.values()))
        if largest in problem.sizes.test:
            break
        problem = replace(problem, sizes=replace(problem.sizes, test=(*problem.sizes.test, largest)))
    return problem


def advice(problem: Problem, sides: Mapping[str, Side]) -> str | None:
    """One line on what the test sizes leave untested and which sizes to add; None if there is no gap."""
    gaps = size_gaps(problem, sides)
    if not gaps:
        return None
    further = f" (and {len(gaps) - 1} more)" if len(gaps) > 1 else ""
    settings = mended(problem, sides).sizes.test[len(problem.sizes.test) :]
    added = "; ".join(", ".join(f"{name}={value}" for name, value in setting.items()) for setting in settings)
    return f"{gaps[0].what}{further}{f': add the test size {added}' if added else ''}"


def divisible(problem: Problem, sides: Mapping[str, Side]) -> Problem:
    """The problem with sizes raised until the divisions in grids and arguments are exact.

    For example, `n / 4` is the argument of a `float4` kernel, and a grid of `n / 32` skips a remainder that
    the other side computes.
    """
    launches = [step for side in sides.values() for step in steps(side.plan) if isinstance(step, Launch)]
    values = [arg.value for launch in launches for arg in launch.args if isinstance(arg, ValueArg)]
    values += [axis for launch in launches for axis in launch.grid]
    expressions = [value for value in values if isinstance(value, str) and _names(value)]

    def divided(expression: str, index: int, setting: Setting) -> _Division:
        return _divided(expression, names_of(problem, setting))[1][index]

    def raised(setting: Setting) -> Setting:
        for expression in expressions:
            with contextlib.suppress(ProblemError):  # over a loop's variable
                for index in range(len(_divided(expression, names_of(problem, setting))[1])):
                    division = divided(expression, index, setting)
                    if not division.remainder or division.up:
                        continue
                    used = _names(expression) & setting.keys()
                    larger = {name: {**setting, name: setting[name] + 1} for name in used}
                    # `rows` is nothing to the division of `cols / 4 * rows`.
                    moving = {name for name in used if divided(expression, index, larger[name]) != division}
                    by = division.by
                    setting = {
                        name: value + (-value % by if name in (moving or used) else 0)
                        for name, value in setting.items()
                    }
        return setting

    bench = problem.sizes.bench
    return replace(
        problem,
        sizes=Sizes(
            tuple(map(raised, problem.sizes.test)),
            raised(bench)
            if isinstance(bench, Mapping)
            else tuple(replace(size, sizes=raised(size.sizes)) for size in bench),
        ),
    )


@dataclass(frozen=True)
class _Axis:
    """A grid axis of a launch: its path in the plan, its expression, and the loops around it, outermost
    first."""

    path: str
    expression: str
    loops: tuple[For, ...]


class _Trials:
    """A problem's test settings, the axes that depend on a size, and those whose divisions must be exact."""

    def __init__(self, problem: Problem, sides: Mapping[str, Side]) -> None:
        self.problem, self.sides = problem, sides
        self.test, self.binds = problem.sizes.test, 0
        self.reach = {
            name: names_in(scalar.value) if isinstance(scalar.value, int | str) else frozenset[str]()
            for name, scalar in problem.scalars.items()
        }
        axes = (axis for name, side in sides.items() for axis in _axes(side.plan, f"{name}.plan"))
        self.axes = [axis for axis in axes if self.sizes(axis)]
        every = problem.sizes.all
        self.exact = [axis for axis in self.axes if all(self._divides(axis, setting) for setting in every)]

    def sizes(self, axis: _Axis) -> frozenset[str]:
        """The sizes that an axis depends on."""
        reach = dict(self.reach)
        for loop in axis.loops:
            bounds = names_in(loop.from_) | names_in(loop.to) | names_in(loop.step)
            reach[loop.for_] = frozenset().union(*(reach.get(name, {name}) for name in bounds))
        used = frozenset[str]().union(*(reach.get(name, {name}) for name in names_in(axis.expression)))
        return used & self.problem.sizes.headline.keys()

    def shows(self, axis: _Axis, setting: Setting) -> tuple[bool, bool]:
        """Whether an axis has several blocks at a setting, and whether the last of them is partial."""
        several = ragged = False
        with contextlib.suppress(ProblemError):  # the plan cannot be bound at this setting
            for names in _scopes(axis.loops, names_of(self.problem, setting)):
                blocks, divisions = _divided(axis.expression, names)
                several |= blocks > 1
                ragged |= blocks > 1 and all(division.remainder for division in divisions if division.up)
        return several, ragged

    def has_end(self, axis: _Axis) -> bool:
        """Whether the axis can have a partial last block: its expression divides and rounds up."""
        return any(division.up and division.by > 1 for division in self._divisions(axis, self.test[0]))

    def fits(self, setting: Setting) -> bool:
        """Whether a test at a setting is quick."""
        if math.prod(setting.values()) > MOST_STEPS:
            return False
        try:
            counts = (elements(buffer, setting) for buffer in self.problem.buffers.values())
            return all(0 < count < MOST_ELEMENTS for count in counts)
        except ProblemError:
            return False

    def possible(self, setting: Setting) -> bool:
        """Whether a setting can be bound, runs quickly, and keeps exact divisions exact."""
        self.binds += 1
        try:
            if self.binds > MOST_BINDS or not all(self._divides(axis, setting) for axis in self.exact):
                return False
            for buffer in self.problem.buffers.values():
                if buffer.init is not None:
                    check_init(buffer.init, setting)
                    check_fit(buffer, setting)
            programs = [bind(self.problem, side, setting) for side in self.sides.values()]
        except ProblemError:
            return False
        launches = (op for program in programs for op in flat(program.ops) if isinstance(op, LaunchOp))
        return all(math.prod((*op.grid, *op.block)) <= MOST_THREADS for op in launches)

    def _divides(self, axis: _Axis, setting: Setting) -> bool:
        return not any(part.remainder and not part.up for part in self._divisions(axis, setting))

    def _divisions(self, axis: _Axis, setting: Setting) -> Iterator[_Division]:
        """The divisions in an axis at a setting, in each iteration of the loops around it."""
        for names in _scopes(axis.loops, names_of(self.problem, setting)):
            yield from _divided(axis.expression, names)[1]


def _gaps_of_axes(trials: _Trials) -> Iterator[SizeGap]:
    distinct: dict[tuple[str, tuple[For, ...]], _Axis] = {}
    for axis in trials.axes:
        distinct.setdefault((axis.expression, axis.loops), axis)
    for axis in distinct.values():
        covered_at = [trials.shows(axis, setting) for setting in trials.test]
        never_several = not any(several for several, _ in covered_at)
        problem = "one block" if never_several else "no ragged end"
        for ragged in (True, False) if trials.has_end(axis) else (False,):
            if any(covered[ragged] for covered in covered_at):
                break
            mend = _mend(trials, axis, ragged=ragged)
            if mend is not None:
                yield SizeGap(f"{axis.path} ({axis.expression}) has {problem} at every test size", mend)
                break


def _mend(trials: _Trials, axis: _Axis, *, ragged: bool) -> Setting | None:
    """A small setting near a test setting that covers the axis; None: no small setting does."""
    sizes = sorted(trials.sizes(axis))
    near = (_values(trials.problem, name, multiple=multiple) for multiple in (True, False) for name in sizes)
    nearby = [({name: value} for value in values) for name, values in zip(sizes * 2, near, strict=True)]
    far = ({first: a, second: b} for first, second in combinations(sizes, 2) for a in COARSE for b in COARSE)
    for changes in ([*chain(*nearby[: len(sizes)])], [*chain(*nearby[len(sizes) :])], [*far]):
        settings = [{**setting, **change} for setting in trials.test for change in changes]
        for setting in sorted(settings, key=_preference):
            if trials.fits(setting) and trials.shows(axis, setting)[ragged] and trials.possible(setting):
                return setting
    return None


def _preference(setting: Setting) -> tuple[int, int, int]:
    """A sort key: quick settings first, among them those without very small sizes, then the quickest."""
    product = math.prod(setting.values())
    return max(product, QUICK), -min(*setting.values(), SMALL), product


def _values(problem: Problem, name: str, *, multiple: bool) -> Iterator[int]:
    """Values to try for a size; `multiple`: only multiples of the greatest common divisor of its values."""
    unit = math.gcd(*(setting[name] for setting in problem.sizes.all)) if multiple else 1
    if unit < 1 or (multiple and unit == 1):
        return
    bases = (*range(unit, DENSE, unit), *range(DENSE, NEAR, STRIDE), *COARSE)
    yield from sorted({up - up % unit + offset for up in bases for offset in (0, unit)} - {0})


def _gaps_of_sizes(trials: _Trials) -> Iterator[SizeGap]:
    sizes = trials.problem.sizes
    single_valued = {name for name in sizes.headline if len({setting[name] for setting in sizes.test}) < 2}
    for name in sorted(single_valued - _constants(trials)):
        problem = f"test sizes leave {name} at {sizes.test[0][name]}"
        yield SizeGap(problem, _other(trials, name, ()))
    for first, second in combinations([name for name in sizes.headline if name not in single_valued], 2):
        if all(setting[first] == setting[second] for setting in sizes.test):
            mend = _other(trials, second, (first,)) or _other(trials, first, (second,))
            yield SizeGap(f"test sizes leave {first} and {second} equal", mend)


def _other(trials: _Trials, name: str, unlike: Sequence[str]) -> Setting | None:
    """The first test setting with another value of one size, if all plans can be bound at it.

    The value differs from those of the sizes `unlike`.
    """
    setting = trials.test[0]
    used = {tested[name] for tested in trials.test} | {setting[other_name] for other_name in unlike}
    for multiple in (True, False):
        values = {*_values(trials.problem, name, multiple=multiple)} - used
        for value in sorted(values, key=lambda value: (value < setting[name], abs(value - setting[name]))):
            if trials.possible(changed := {**setting, name: value}):
                return changed
    return None


def _constants(trials: _Trials) -> set[str]:
    """Sizes with a single value that are compile-time constants or are passed to no launch."""
    sizes = trials.problem.sizes
    launches = [
        step for side in trials.sides.values() for step in steps(side.plan) if isinstance(step, Launch)
    ]
    compiled_for, passed = set[str](), set[str]()
    for launch in launches:
        braced = (argument[1:-1] for argument in launch.template if argument.startswith("{"))
        fixed: list[Any] = [*braced, *launch.block, *launch.constexprs.values()]
        for expression in fixed:
            compiled_for |= _names(expression)
        for arg in launch.args:
            name = arg.value if isinstance(arg, ValueArg) else arg
            passed |= trials.reach.get(name, _names(name)) if isinstance(name, str) else set()
    single_valued = {name for name in sizes.headline if len({setting[name] for setting in sizes.all}) == 1}
    return {name for name in single_valued if name in compiled_for or name not in passed}


def _names(expression: Any) -> frozenset[str]:
    try:
        return names_in(expression)
    except ProblemError:  # not an expression: a type or a quoted constant
        return frozenset()


def _axes(plan: Sequence[Step], plan_path: str, loops: tuple[For, ...] = ()) -> Iterator[_Axis]:
    for index, step in enumerate(plan):
        step_path = f"{plan_path}[{index}]"
        if isinstance(step, Launch):
            for axis, extent in enumerate(step.grid):
                if isinstance(extent, str):
                    yield _Axis(f"{step_path}.grid[{axis}]", extent, loops)
        elif isinstance(step, For):
            yield from _axes(step.do, f"{step_path}.do", (*loops, step))
        elif isinstance(step, WhileNonzero):
            yield from _axes(step.do, f"{step_path}.do", loops)


def _scopes(loops: Sequence[For], names: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """The names in scope in each iteration of the loops, at most about `TRIPS` per loop."""
    if not loops:
        yield names
        return
    trips = loop_values(loops[0], names)
    for value in trips[:: -(-len(trips) // TRIPS) or 1]:
        yield from _scopes(loops[1:], {**names, loops[0].for_: value})


@dataclass(frozen=True)
class _Division:
    """A division in an expression; `up`: it rounds up, as `ceil_div(n, b)` and `(n + b - 1) / b` do."""

    up: bool
    by: int
    remainder: int


def _divided(expression: str, names: Mapping[str, int]) -> tuple[int, list[_Division]]:
    """The value of an expression, and every division in it."""
    value = evaluate(expression, names)  # with the limits and errors of the language
    recorder = _recorder(expression)
    plain = recorder.divisions(names)
    try:
        constants = [above for _, above, _ in recorder.divisions(dict.fromkeys(names, 0))]
    except ProblemError:  # a logarithm of zero
        constants = [0] * len(plain)
    divisions = []
    for (up, above, by), constant in zip(plain, constants, strict=True):
        padded = not up and by > 1 and constant in (by - 1, -1)
        divisions.append(_Division(up or padded, by, (above + padded) % by))
    return value, divisions


class _Recorder:
    """An expression that records its divisions while it is evaluated."""

    def __init__(self, expression: str) -> None:
        self._noted: list[tuple[bool, int, int]] = []
        functions = {**FUNCTIONS, "ceil_div": (2, lambda a, b: -self._divide(-a, b, up=True))}
        self._node = compiled(expression, functions, {**OPERATORS, "/": self._divide})

    def divisions(self, names: Mapping[str, int]) -> list[tuple[bool, int, int]]:
        """For each division from left to right: whether it rounds up, its dividend and its divisor."""
        self._noted.clear()
        self._node(names)
        return [*self._noted]

    def _divide(self, above: int, by: int, *, up: bool = False) -> int:
        by = by or 1  # zero when all names are set to zero
        self._noted.append((up, -above if up else above, by))
        return above // by


_recorder = lru_cache(maxsize=1024)(_Recorder)
