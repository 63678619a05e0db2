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
# The sizes at which the extents of two kernels' buffers are compared are multiples: divisions are exact.
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

    `own_launch`: it has to be launched as its draft says, never as the other kernel.
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
        """The same from an unfinished draft, for its launch; None if there is none."""
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


def counterpart(known: PlacedProblem, first: PairKernel, other: PairKernel) -> Side | str:
    """The other kernel as a side of the same problem; or why it cannot be one."""
    definition, other_definition = first.definition(), other.definition()
    launched = {launch.launch for launch in launches_of(known.side.plan)}
    if definition is None or launched != {_name(definition)}:
        return f"the plan of {first.kernel.name} launches other kernels too"
    if other_definition is None:
        return f"{other.kernel.name} is not in the code of its side"
    places = match(first.kernel.params, other.kernel.params)
    if isinstance(places, str):
        return f"{other.kernel.name}: {places} of {first.kernel.name}"
    own = other.known() or other.unfinished_draft()
    if unfilled := _filled_by(own) - _filled_by(known):
        names = ", ".join(sorted(unfilled))
        return f"{other.kernel.name}: constant memory {names} is not filled for {first.kernel.name}"
    translation = _PlanTranslation(
        known.problem, first.kernel.params, other, other_definition, tuple(places), own
    )
    try:
        plan = tuple(translation.plan(known.side.plan))
    except ProblemError as error:
        return f"{other.kernel.name}: {error.what}"
    return Side(other.code, plan, nondeterministic=loose_outputs(other.code, known.problem))


def _filled_by(known: PlacedProblem | None) -> set[str]:
    """The constant memory that a plan fills."""
    plan = steps(known.side.plan) if known is not None else ()
    return {step.upload for step in plan if isinstance(step, Upload)}


def match(params: Sequence[Param], other: Sequence[Param]) -> list[int] | str:
    """For each of `other` the index of its counterpart in `params`, or an error naming those without one.

    First by name (two pointers, or two values), then in order among those of the same type, then among values
    that are all integers or all real.
    """
    free = dict(enumerate(params))
    places: dict[int, int] = {}
    for fits in (_same_name, _same_type, _same_but_const, _same_kind):
        for at, other_param in enumerate(other):
            fitting = (place for place, param in free.items() if fits(param, other_param))
            place = next(fitting, None) if at not in places else None
            if place is not None:
                places[at] = place
                del free[place]
    lost = [f"{param.type} {param.name}" for at, param in enumerate(other) if at not in places]
    if lost:
        return f"no parameter for {', '.join(lost)} among the parameters ({', '.join(map(_spelled, params))})"
    return [places[at] for at in range(len(other))]


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


def _spelled(param: Param) -> str:
    return f"{param.type} {param.name}"


def launches_of(plan: Sequence[Step]) -> list[Launch]:
    """The launches of a plan, loops included, in order."""
    return [step for step in steps(plan) if isinstance(step, Launch)]


def shown_launch(launch: Launch) -> str:
    """Grid and block, as in `rows x 1, 128`."""
    grid, block = (" x ".join(map(str, extent)) for extent in (launch.grid, launch.block))
    return f"{grid}, {block}"


def _name(item: Item) -> str:
    """A kernel's name as a plan writes it."""
    return item.qualified.decode("utf-8", "replace")


@dataclass(frozen=True)
class _PlanTranslation:
    """Translates a plan of the first kernel into one of the other.

    `params`: the first one's. `definition`: the other one. `places`: as from `match`. `own`: the other
    kernel's own problem and launch.
    """

    problem: Problem
    params: tuple[Param, ...]
    other: PairKernel
    definition: Item
    places: tuple[int, ...]
    own: PlacedProblem | None

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
            ProblemError: it cannot, and the kernel has to be launched so.
        """
        passed = [step.args[place] for place in self.places]
        params = [self.params[place] for place in self.places]
        args = tuple(
            _typed(arg, self.problem, param, other_param)
            for arg, param, other_param in zip(passed, params, self.other.kernel.params, strict=True)
        )
        template = step.template if self.definition.template else ()
        plain = replace(step, launch=_name(self.definition), args=args, template=template)
        launches = launches_of(self.own.side.plan) if self.own else []
        if self.own is None or len(launches) != 1 or len(launches[0].args) != len(args):
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
        """What the names in the other kernel's launch stand for; whether its buffers then have these sizes.

        A name is the argument in its place, or the same name here: `n` for `n`, where one of the two kernels
        is passed `n/4`; or it counts vectors: `cols4` for `cols / 4`. The buffers tell.
        """
        assert self.own is not None
        its_problem = self.own.problem
        by_place = _names(passed, own_args, self.problem, its_problem)
        by_name = {**by_place, **{name: name for name in self.problem.sizes.headline}}
        lanes = {buffer.shape[-1] for buffer in its_problem.buffers.values() if buffer.shape} & VECTORS
        by_vectors = [
            {**by_place, name: f"{bracketed(str(by_place[name]))}/{count}"}
            for count in sorted(lanes)
            for name in its_problem.sizes.headline
            if name in by_place
        ]
        pairs = [
            (self.problem.buffers[arg], its_problem.buffers[own_arg])
            for arg, own_arg in zip(passed, own_args, strict=True)
            if isinstance(arg, str) and isinstance(own_arg, str)
            if arg in self.problem.buffers and own_arg in its_problem.buffers
        ]
        sample = {name: _SAMPLE * at for at, name in enumerate(self.problem.sizes.headline, start=1)}

        def agreeing(names: Mapping[str, Expr]) -> int:
            return sum(_same_bytes(buffer, its_buffer, names, sample) for buffer, its_buffer in pairs)

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
    passed: Sequence[Arg], own_args: Sequence[Arg], problem: Problem, its_problem: Problem
) -> dict[str, Expr]:
    """What the names in the other kernel's own launch stand for, as expressions of this problem."""
    names: dict[str, Expr] = {}
    shapes: dict[str, Expr] = {}
    for value, own_value in zip(map(_value, passed), map(_value, own_args), strict=True):
        if isinstance(value, BufferArg) or isinstance(own_value, BufferArg):
            continue
        buffer, its_buffer = problem.buffers.get(str(value)), its_problem.buffers.get(str(own_value))
        if buffer is not None and its_buffer is not None:
            shapes |= {str(own): extent for extent, own in zip(buffer.shape, its_buffer.shape, strict=False)}
        elif buffer is None and its_buffer is None and isinstance(own_value, str):
            names[own_value] = value
    numbers = {name: scalar.value for name, scalar in its_problem.scalars.items()}
    whole = {name: value for name, value in numbers.items() if isinstance(value, int)}
    same = {name: name for name in problem.sizes.headline}
    return {**same, **whole, **shapes, **names}


def _same_bytes(
    buffer: Buffer, its_buffer: Buffer, names: Mapping[str, Expr], sample: Mapping[str, int]
) -> bool:
    """Whether two buffers have as many bytes, the second with its sizes renamed."""
    try:
        count = math.prod(evaluate(extent, sample) for extent in buffer.shape)
        its_count = math.prod(evaluate(renamed(extent, names), sample) for extent in its_buffer.shape)
    except ProblemError:
        return False
    return count * numpy_dtype(buffer.dtype).itemsize == its_count * numpy_dtype(its_buffer.dtype).itemsize


def _own_arg(names: Mapping[str, Expr], arg: Arg, passed: Arg, own: Arg) -> Arg:
    """The expression that the other kernel's own launch passes, in these names; else `arg`, as matched."""
    value = _value(own)
    try:
        if isinstance(value, BufferArg) or not names_in(value):
            return arg
        expression = renamed(value, names)
    except ProblemError:
        return arg
    if expression == _value(passed):
        return arg
    if isinstance(own, ValueArg):
        return replace(own, value=expression)
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
    if lost := used - names.keys():
        raise ProblemError(f"unknown name {min(lost)!r}")
    pattern = rf"\b(?:{'|'.join(map(re.escape, sorted(used)))})\b"
    return re.sub(pattern, lambda name: bracketed(str(names[name[0]])), str(expression))
