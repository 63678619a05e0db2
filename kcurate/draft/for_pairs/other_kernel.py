"""The other kernel of a pair as a side of one kernel's problem: its arguments, and its launch.

Parameters are matched by name, then in order among those of the same type or kind. The other kernel keeps its
own launch where one is known (its draft) and can be expressed in this problem's sizes; else it is launched
as the first. Not covered: whether both compute the same (`shared_problem`), plans that launch several
kernels.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kcurate.core import codec, own_files, store
from kcurate.cuda_source import Item, parse
from kcurate.draft.algebra import bracketed
from kcurate.errors import KcurateError, ProblemError
from kcurate.problem import c_types as types
from kcurate.problem.answered import loose_outputs
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import evaluate, names_in
from kcurate.records import (
    Arg,
    BindTexture,
    Buffer,
    BufferArg,
    Expr,
    For,
    Kernel,
    KnownProblem,
    KnownSide,
    Launch,
    Param,
    Problem,
    ProblemOrigin,
    Side,
    Step,
    Upload,
    ValueArg,
    WhileNonzero,
    steps,
)
from kcurate.suites.problems import find_problem, own_problem

FORM_NAME = "problem.toml"
# Extents of two kernels' buffers are compared at multiples of this, which has many divisors: divisions are
# exact.
_SAMPLE = 5040
# Lanes of vector types, such as `float4`.
VECTORS = frozenset({2, 4, 8})
_QUALIFIERS = re.compile(r"\b(?:volatile|__restrict(?:__)?|restrict)\b|\s+")


@dataclass(frozen=True)
class PlacedProblem:
    """A problem, how one kernel is launched on it, and where the problem is from."""

    problem: Problem
    side: KnownSide
    origin: ProblemOrigin


@dataclass(frozen=True)
class PairKernel:
    """A kernel that a pair compares: its record, its folder, its side's code (more kernels may be in it).

    `own_launch`: the user gave its launch, so that the other kernel's launch never replaces it.
    """

    kernel: Kernel
    folder: Path
    code: str
    own_launch: bool = False

    def known(self) -> PlacedProblem | None:
        """Its problem and how it is launched: the admitted one beside it, else its suite's."""
        alone = store.read_kernel_code(self.folder)
        variant, kernel = self.kernel.variant or "", self.kernel
        if (by_hand := own_problem(self.folder, alone)) is not None and variant in by_hand.sides:
            return PlacedProblem(by_hand.problem, by_hand.sides[variant], by_hand.source or "drafted")
        suite, codes = kernel.source.suite, {variant: alone}
        problem = find_problem(suite, kernel.benchmark, codes, kernel.span.path)
        return PlacedProblem(problem.problem, problem.sides[variant], "known") if problem else None

    def unfinished_draft(self) -> PlacedProblem | None:
        """The problem and launch in its unfinished draft; None if there is no readable draft."""
        try:
            data = tomllib.loads(own_files.read(self.folder / FORM_NAME).decode())
            data.pop("draft", None)
            known = codec.from_data(KnownProblem, data, where=str(self.folder / FORM_NAME))
        except (OSError, ValueError, KcurateError):
            return None
        side = next(iter(known.sides.values()), KnownSide(()))
        return PlacedProblem(known.problem, side, "drafted")

    def definition(self) -> Item | None:
        """The kernel in its side's code."""
        name = self.kernel.name.encode()
        items = parse(self.code.encode()).items
        return next((item for item in items if item.kernel and item.names and item.names[-1] == name), None)


def counterpart(first_placed: PlacedProblem, first: PairKernel, other: PairKernel) -> Side | str:
    """The other kernel as a side of the same problem; or why it cannot be one."""
    definition, other_definition = first.definition(), other.definition()
    launched = {launch.launch for launch in launches_of(first_placed.side.plan)}
    if definition is None or launched != {_name(definition)}:
        return f"the plan of {first.kernel.name} launches other kernels too"
    if other_definition is None:
        return f"{other.kernel.name} is not in the code of its side"
    matched = match(first.kernel.params, other.kernel.params)
    if isinstance(matched, str):
        return f"{other.kernel.name}: {matched} of {first.kernel.name}"
    other_placed = other.known() or other.unfinished_draft()
    if unfilled := _filled_by(other_placed) - _filled_by(first_placed):
        names = ", ".join(sorted(unfilled))
        return f"{other.kernel.name}: constant memory {names} is not filled for {first.kernel.name}"
    translation = _PlanTranslation(
        first_placed.problem, first.kernel.params, other, other_definition, tuple(matched), other_placed
    )
    try:
        plan = tuple(translation.plan(first_placed.side.plan))
    except ProblemError as error:
        return f"{other.kernel.name}: {error.what}"
    return Side(other.code, plan, nondeterministic=loose_outputs(other.code, first_placed.problem))


def _filled_by(known: PlacedProblem | None) -> set[str]:
    """The constant memory that a plan fills."""
    plan = steps(known.side.plan) if known is not None else ()
    return {step.upload for step in plan if isinstance(step, Upload)}


def match(params: Sequence[Param], others: Sequence[Param]) -> list[int] | str:
    """For each of `others` the index of its counterpart in `params`, or an error naming those without one.

    First by name (two pointers, or two values), then in order among those of the same type, then among values
    that are all integers or all real.
    """
    free = dict(enumerate(params))
    matched: dict[int, int] = {}
    for fits in (_same_name, _same_type, _same_but_const, _same_kind):
        for at, other_param in enumerate(others):
            fitting = (index for index, param in free.items() if fits(param, other_param))
            index = next(fitting, None) if at not in matched else None
            if index is not None:
                matched[at] = index
                del free[index]
    unmatched = [f"{param.type} {param.name}" for at, param in enumerate(others) if at not in matched]
    if unmatched:
        lost = ", ".join(unmatched)
        return f"no parameter for {lost} among the parameters ({', '.join(map(_declared, params))})"
    return [matched[at] for at in range(len(others))]


def _same_name(param: Param, other: Param) -> bool:
    return bool(param.name) and param.name == other.name and param.pointer == other.pointer


def _same_type(param: Param, other: Param) -> bool:
    return _bare(param) == _bare(other)


def _same_but_const(param: Param, other: Param) -> bool:
    return _bare(param).replace("const", "") == _bare(other).replace("const", "")


def _same_kind(param: Param, other: Param) -> bool:
    if param.pointer or other.pointer:
        return False
    elements = [types.element(of.type, {}) for of in (param, other)]
    dtypes = [element.dtype if element and element.lanes == 1 else "" for element in elements]
    return all(dtypes) and len({dtype in types.FLOATS for dtype in dtypes}) == 1


def _bare(param: Param) -> str:
    return _QUALIFIERS.sub("", param.type)


def _declared(param: Param) -> str:
    return f"{param.type} {param.name}"


def launches_of(plan: Sequence[Step]) -> list[Launch]:
    """The launches of a plan, loops included, in order."""
    return [step for step in steps(plan) if isinstance(step, Launch)]


def shown_launch(launch: Launch) -> str:
    """Grid and block as text, such as `rows x 1, 128`."""
    grid, block = (" x ".join(map(str, extent)) for extent in (launch.grid, launch.block))
    return f"{grid}, {block}"


def _name(item: Item) -> str:
    """A kernel's name as a plan writes it."""
    return item.qualified.decode("utf-8", "replace")


@dataclass(frozen=True)
class _PlanTranslation:
    """Translates a plan of the first kernel into one of the other.

    `params`: the first kernel's parameters. `definition`: the other kernel. `matched`: as from `match`.
    `other_placed`: the other kernel's own problem and launch, if known.
    """

    problem: Problem
    params: tuple[Param, ...]
    other: PairKernel
    definition: Item
    matched: tuple[int, ...]
    other_placed: PlacedProblem | None

    def plan(self, plan: Sequence[Step]) -> Iterator[Step]:
        """The plan with the other kernel; uploads to symbols that it does not declare are dropped."""
        for step in plan:
            if isinstance(step, For | WhileNonzero):
                yield replace(step, do=tuple(self.plan(step.do)))
            elif isinstance(step, Upload | BindTexture):
                symbol = step.upload if isinstance(step, Upload) else step.bind_texture
                if re.search(rf"\b{re.escape(symbol)}\b", self.other.code):
                    yield step
            else:
                yield self.launch(step) if isinstance(step, Launch) else step

    def launch(self, step: Launch) -> Launch:
        """The other kernel's own launch if it can be expressed in this problem's sizes, else as `step`.

        Raises:
            ProblemError: it cannot be expressed, and the kernel must have its own launch.
        """
        passed = [step.args[place] for place in self.matched]
        params = [self.params[place] for place in self.matched]
        args = tuple(
            _typed(arg, self.problem, param, other_param)
            for arg, param, other_param in zip(passed, params, self.other.kernel.params, strict=True)
        )
        template = step.template if self.definition.template else ()
        plain = replace(step, launch=_name(self.definition), args=args, template=template)
        launches = launches_of(self.other_placed.side.plan) if self.other_placed else []
        if self.other_placed is None or len(launches) != 1 or len(launches[0].args) != len(args):
            return self._as_the_first(plain)
        (launch,) = launches
        names, agree = self._naming(passed, launch.args)
        try:
            return replace(
                launch,
                launch=plain.launch,
                args=tuple(map(partial(_own_arg, names), args, passed, launch.args)) if agree else args,
                grid=tuple(renamed(extent, names) for extent in launch.grid),
                block=tuple(renamed(extent, names) for extent in launch.block),
                shared_bytes=renamed(launch.shared_bytes, names),
                cluster=tuple(renamed(extent, names) for extent in launch.cluster),
            )
        except ProblemError:
            return self._as_the_first(plain)

    def _naming(self, passed: Sequence[Arg], own_args: Sequence[Arg]) -> tuple[dict[str, Expr], bool]:
        """What the names in the other kernel's launch stand for, and whether any of its buffers then matches
        in bytes.

        A name is the argument in its place, or the same name here (`n` for `n`, where one of the kernels is
        passed `n/4`), or it counts vectors (`cols4` for `cols / 4`). The reading with the most matching
        buffers is taken.
        """
        assert self.other_placed is not None
        other_problem = self.other_placed.problem
        by_place = _names(passed, own_args, self.problem, other_problem)
        by_name = {**by_place, **{name: name for name in self.problem.sizes.headline}}
        lanes = {buffer.shape[-1] for buffer in other_problem.buffers.values() if buffer.shape} & VECTORS
        by_vectors = [
            {**by_place, name: f"{bracketed(str(by_place[name]))}/{count}"}
            for count in sorted(lanes)
            for name in other_problem.sizes.headline
            if name in by_place
        ]
        pairs = [
            (self.problem.buffers[arg], other_problem.buffers[own_arg])
            for arg, own_arg in zip(passed, own_args, strict=True)
            if isinstance(arg, str) and isinstance(own_arg, str)
            if arg in self.problem.buffers and own_arg in other_problem.buffers
        ]
        sample = {name: _SAMPLE * at for at, name in enumerate(self.problem.sizes.headline, start=1)}

        def agreeing(names: Mapping[str, Expr]) -> int:
            return sum(_same_bytes(buffer, other_buffer, names, sample) for buffer, other_buffer in pairs)

        best = max((by_place, by_name, *by_vectors), key=agreeing)
        return best, agreeing(best) > 0

    def _as_the_first(self, launch: Launch) -> Launch:
        if self.other.own_launch:
            raise ProblemError("its launch cannot be expressed in the sizes of the other kernel's problem")
        return launch


def _typed(arg: Arg, problem: Problem, param: Param, other: Param) -> Arg:
    """The argument in the type of the other kernel's parameter (`size_t n` for `int n`)."""
    if other.pointer or _same_but_const(param, other) or not isinstance(arg, str | ValueArg):
        return arg
    element = types.element(other.type, {})
    if element is None or element.lanes != 1:
        return arg
    if isinstance(arg, ValueArg):
        return replace(arg, dtype=element.dtype)
    scalar = problem.scalars.get(arg)
    value, dtype = (scalar.value, scalar.dtype) if scalar is not None else (arg, "int32")
    if dtype == element.dtype:
        return arg
    return arg if isinstance(value, Mapping) else ValueArg(value, element.dtype)


def _names(
    passed: Sequence[Arg], own_args: Sequence[Arg], problem: Problem, other_problem: Problem
) -> dict[str, Expr]:
    """What the names in the other kernel's own launch stand for, as expressions of this problem."""
    names: dict[str, Expr] = {}
    shapes: dict[str, Expr] = {}
    for value, own_value in zip(map(_value, passed), map(_value, own_args), strict=True):
        if isinstance(value, BufferArg) or isinstance(own_value, BufferArg):
            continue
        buffer, other_buffer = problem.buffers.get(str(value)), other_problem.buffers.get(str(own_value))
        if buffer is not None and other_buffer is not None:
            shapes |= {
                str(own_extent): extent
                for extent, own_extent in zip(buffer.shape, other_buffer.shape, strict=False)
            }
        elif buffer is None and other_buffer is None and isinstance(own_value, str):
            names[own_value] = value
    numbers = {name: scalar.value for name, scalar in other_problem.scalars.items()}
    integers = {name: value for name, value in numbers.items() if isinstance(value, int)}
    unchanged = {name: name for name in problem.sizes.headline}
    return {**unchanged, **integers, **shapes, **names}


def _same_bytes(
    buffer: Buffer, other_buffer: Buffer, names: Mapping[str, Expr], sample: Mapping[str, int]
) -> bool:
    """Whether two buffers have as many bytes, the second with its sizes renamed."""
    try:
        count = math.prod(evaluate(extent, sample) for extent in buffer.shape)
        other_count = math.prod(evaluate(renamed(extent, names), sample) for extent in other_buffer.shape)
    except ProblemError:
        return False
    return (
        count * numpy_dtype(buffer.dtype).itemsize == other_count * numpy_dtype(other_buffer.dtype).itemsize
    )


def _own_arg(names: Mapping[str, Expr], arg: Arg, passed: Arg, own_arg: Arg) -> Arg:
    """The expression that the other kernel's own launch passes, in these names; else `arg`, as matched."""
    value = _value(own_arg)
    try:
        if isinstance(value, BufferArg) or not names_in(value):
            return arg
        expression = renamed(value, names)
    except ProblemError:
        return arg
    if expression == _value(passed):
        return arg
    if isinstance(own_arg, ValueArg):
        return replace(own_arg, value=expression)
    return expression if isinstance(expression, str) and expression.isidentifier() else ValueArg(expression)


def _value(arg: Arg) -> Expr | BufferArg:
    """A scalar argument's value, or the name of a buffer; anything else counts as a buffer with an offset."""
    if isinstance(arg, ValueArg):
        return arg.value if isinstance(arg.value, str | int) else str(arg.value)
    return arg if isinstance(arg, str | BufferArg) else BufferArg("")


def renamed(expression: Expr, names: Mapping[str, Expr]) -> Expr:
    """The expression in other names.

    Raises:
        ProblemError: it uses a name without a counterpart.
    """
    used = names_in(expression)
    if not used:
        return evaluate(expression, {}) if isinstance(expression, str) else expression
    if unknown := used - names.keys():
        raise ProblemError(f"unknown name {min(unknown)!r}")
    pattern = rf"\b(?:{'|'.join(map(re.escape, sorted(used)))})\b"
    return re.sub(pattern, lambda name: bracketed(str(names[name[0]])), str(expression))
