"""A draft from recorded launches, which are exact where host code only suggests.

Sizes are the fewest names over which expressions give every recorded extent, scalar and grid, in every
launch. Where several fit, the host code's own is preferred. Not covered: reading arguments
(`launch_arguments`), finding expressions (`candidate_expressions`), contents of buffers
(`recorded_contents`), whether the draft works (`admit`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kcurate.cuda_source.parse.parameters import qualified_kernel
from kcurate.cuda_source.semantics.code_index import Code, Function
from kcurate.cuda_source.semantics.pointer_usage import Usage, usage
from kcurate.cuda_source.text.demangled_names import Demangled
from kcurate.draft import size_settings
from kcurate.draft.algebra import Poly, number
from kcurate.draft.captured import recorded_contents
from kcurate.draft.captured.buffer_regions import Region, regions
from kcurate.draft.captured.candidate_expressions import poly_of
from kcurate.draft.captured.expression_choice import FittedExpressions, Trust, bare, typical
from kcurate.draft.captured.launch_arguments import Number, Pointer, Reader
from kcurate.draft.inferred.index_bounds import Bounds
from kcurate.draft.inferred.launch_configuration import FUNCTIONS, at_sample, names_of, of_one_sum, tolerance
from kcurate.draft.inferred.struct_numbers import with_pointers
from kcurate.draft.sketch import OPEN, Draft, Reason, Remark, known_problem, nothing
from kcurate.problem import c_types as types
from kcurate.problem.c_types import Element
from kcurate.problem.expressions import names_in
from kcurate.records import (
    Arg,
    Buffer,
    BufferArg,
    Capture,
    CapturedLaunch,
    Expr,
    Init,
    Kernel,
    KnownSide,
    Launch,
    Problem,
    Scalar,
    Sizes,
    Step,
    Upload,
    ValueArg,
)
from kcurate.suites.problems import tied

# How many of the smaller recorded sizes are tested too, beside those of the ladder.
MAX_RECORDED = 2


def recorded(
    kernel: Kernel,
    code: str,
    capture: Capture,
    text: Draft | None = None,
    trust: Trust = "apart",
    most_elements: int = size_settings.MAX_TEST_ELEMENTS,
    most_constant: int = size_settings.SMALL,
) -> Draft:
    """The draft that the recorded launches of a kernel give.

    `code` is the kernel's self-contained file. `text`: the draft read off the host code, whose expressions
    are preferred where they give the recorded numbers. `most_elements`: how many a buffer may have if no size
    varies; `most_constant`: up to where an integer that does not vary is no size. Launches that share buffers
    in another way than the largest one, or have another block, are left out.
    """
    device = Code(code.encode())
    function = device.function(kernel.name)
    launches = _comparable(kernel, capture.launches)
    if function is None or not launches:
        passed = [len(launch.args) for launch in capture.launches]
        mismatch = f"the record has {passed[0]} arguments" if passed else "no launch"
        return nothing(kernel, f"{mismatch}, the kernel {len(kernel.params)} parameters")
    instance = Demangled.of(capture.kernel)
    powers = kernel.language == "triton"
    fitted = FittedExpressions(launches, text, trust, powers=powers, most_constant=most_constant)
    draft = _Reading(kernel, device, function, launches, instance, fitted, most_elements).draft()
    return replace(draft, known=replace(tied(draft.known, code), source="captured"))


def _comparable(kernel: Kernel, launches: Iterable[CapturedLaunch]) -> list[CapturedLaunch]:
    """The launches that one plan can express, the largest first."""

    def size(launch: CapturedLaunch) -> tuple[int, int]:
        return sum(buffer.size_bytes for buffer in launch.buffers), math.prod(launch.grid)

    def form(launch: CapturedLaunch) -> object:
        numbers: dict[int, int] = {}
        shared = [
            (position, pointer.at, numbers.setdefault(pointer.buffer, len(numbers)))
            for position, arg in enumerate(launch.args)
            for pointer in sorted(arg.pointers, key=lambda pointer: pointer.at)
        ]
        return shared, launch.block, launch.cluster, launch.cooperative

    with_all_arguments = [launch for launch in launches if len(launch.args) == len(kernel.params)]
    ordered = sorted(with_all_arguments, key=size, reverse=True)
    return [launch for launch in ordered if form(launch) == form(ordered[0])]


@dataclass(eq=False)
class _Reading:
    """Builds one draft.

    `held`: buffers that the problem does not fill, with what the program's held.
    """

    kernel: Kernel
    device: Code
    function: Function
    launches: list[CapturedLaunch]
    instance: Demangled
    fitted: FittedExpressions
    most_elements: int

    def __post_init__(self) -> None:
        device = self.device
        template = dict(zip(self.function.template, self.instance.template, strict=False))
        self.types = {**device.types, **device.macros, **template}
        self.passed = Reader(self.kernel, self.launches, self.types, device.text, device.aligned).read()
        self.remarks = self.fitted.remarks
        self.held: list[tuple[str, Init]] = []
        self.remarks += self.passed.remarks

    def draft(self) -> Draft:
        """The whole draft."""
        for scalar in self.passed.numbers:
            self.fitted.value(scalar)
        scalars = {
            name: poly for name, value in self.fitted.values.items() if (poly := poly_of(value)) is not None
        }
        bounds = Bounds(self.device, self.function, scalars, self.fitted.block, ())
        grid_so_far = [self.fitted.grid(axis, bounds) for axis in range(3)]
        bounds.grid = [poly_of(extent) for extent in grid_so_far if extent is not None]
        self.scalars: dict[str, Scalar] = {}
        places, offsets = regions(self.passed.pointers, self.launches, self.fitted.offset)
        self.places = places
        self.homes = {pointer.name: region.name for region in places for pointer in region.pointers}
        counts = {region.name: self.fitted.count(region, bounds) for region in places}
        grid = [
            self.fitted.grid(axis, bounds, last=True) if extent is None else extent
            for axis, extent in enumerate(grid_so_far)
        ]
        bounds.grid = [poly_of(extent) for extent in grid if extent is not None]
        shared = self.fitted.shared()
        buffers = self._buffers(places, counts, bounds)
        uploads = self._uploads(buffers)
        self._drop_unused_sizes([*grid, shared, *offsets.values()], buffers)
        launch = Launch(
            qualified_kernel(self.device.text, self.kernel.name),
            bare(extent for extent in grid if extent is not None),
            self.fitted.block,
            tuple(self._args(offsets)),
            self.instance.template,
            shared,
            self.launches[0].cooperative,
            bare(self.launches[0].cluster or ()),
        )
        return self._finished((*uploads, launch), buffers, bounds.grid, bounds)

    def _usage(self, region: Region) -> Usage:
        """How the kernel accesses a buffer, by its code and by the recorded changes."""
        joined = Usage()
        for pointer in region.pointers:
            joined |= usage(self.device, self.function, pointer.path)
        if region.changed and not joined.written:
            joined |= Usage(read=True, written=True, first="read")
        return replace(joined, first="read" if joined.read and len(region.pointers) > 1 else joined.first)

    def _buffers(
        self, places: Sequence[Region], counts: Mapping[str, Expr], bounds: Bounds
    ) -> dict[str, Buffer]:
        draft_buffers = recorded_contents.DraftBuffers(places, counts, self.fitted.names, bounds)
        buffers = {}
        for region in places:
            used = self._usage(region)
            inout = (used.read and used.first != "write") or bool(region.element.fields)
            role = ("inout" if inout else "out") if used.written else "in"
            lanes = region.element.lanes
            shape = (counts[region.name], *((lanes,) if lanes > 1 else ()))
            contents, why = draft_buffers.init(region, written=used.written)
            init = None if role == "out" else contents
            if init is not None:
                self.remarks += [Remark(f"buffers.{region.name}.init", why)] if why else []
            elif not why.startswith("guess"):
                self.held.append((region.name, contents))
            allowed = tolerance(region.element, bounds, self.fitted.names.keys()) if role != "in" else None
            allowed = of_one_sum(allowed, shape)
            buffers[region.name] = Buffer(region.element.dtype, shape, init, role, allowed)  # type: ignore[arg-type]
        if all(buffer.role == "in" for buffer in buffers.values()):
            why = "no pointer is written: nothing to compare"
            self.remarks.append(Remark("buffers", why, Reason.NO_OUTPUT))
        return buffers

    def _uploads(self, buffers: dict[str, Buffer]) -> list[Step]:
        """Upload steps for the variables of the kernel's code that the program wrote."""
        elements = {
            declared.name: self._element(declared.type)
            for declared in self.device.globals_of_type("__constant__")
        }
        steps: list[Step] = []
        for symbol in self.launches[0].symbols:
            short = symbol.name.rpartition("::")[2]
            if not re.search(rf"\b{re.escape(short)}\b", self.device.text):
                continue
            recorded_element = Element(symbol.before.dtype) if symbol.before is not None else None
            element = elements.get(short) or recorded_element
            if element is None or symbol.size_bytes % element.size_bytes:
                why = Remark(f"buffers.{short}.dtype", "the type of the symbol", Reason.CONSTANT_MEMORY)
                self.remarks.append(why)
                continue
            name, lanes = f"{short}_values", element.lanes
            shape = (symbol.size_bytes // element.size_bytes, *((lanes,) if lanes > 1 else ()))
            init, why_init = recorded_contents.plain(symbol.before, element)
            self.remarks += [Remark(f"buffers.{name}.init", why_init)] if why_init else []
            buffers[name] = Buffer(element.dtype, shape, init)
            steps.append(Upload(short, name))
        return steps

    def _drop_unused_sizes(
        self, launch_expressions: Iterable[Expr | None], buffers: dict[str, Buffer]
    ) -> None:
        """Replace sizes that no extent depends on by the recorded numbers, also in tolerances."""
        filled = (buffer.init for buffer in buffers.values() if buffer.init)
        inits = (value for init in filled for value in recorded_contents.values(init))
        shapes = (extent for buffer in buffers.values() for extent in buffer.shape)
        texts = [text for text in (*launch_expressions, *shapes) if isinstance(text, str)]
        size_names = self.fitted.names.keys()
        texts += [text for text in inits if isinstance(text, str) and set(names_in(text)) & size_names]
        needed = frozenset[str]().union(*map(names_in, texts))
        for scalar in self.passed.numbers:
            value = self.fitted.values.get(scalar.name)
            if isinstance(value, str) and not names_in(value) <= needed:
                self.fitted.values[scalar.name] = typical(scalar.whole or (0,))
        constants = {name: str(values[0]) for name, values in self.fitted.names.items() if name not in needed}
        for name, buffer in buffers.items():
            if (allowed := buffer.tolerance) is not None and isinstance(allowed.terms, str):
                text = re.sub(r"[A-Za-z_]\w*", lambda match: constants.get(match[0], match[0]), allowed.terms)
                buffers[name] = replace(buffer, tolerance=replace(allowed, terms=text))
        self.fitted.names = {name: values for name, values in self.fitted.names.items() if name in needed}

    def _args(self, offsets: Mapping[str, Expr]) -> Iterator[Arg]:
        """The launch's arguments, in order."""
        for position, param in enumerate(self.kernel.params):
            into = [pointer for pointer in self.passed.pointers if pointer.param == position]
            pointers = [self._target(pointer, offsets) for pointer in into]
            numbers = [scalar for scalar in self.passed.numbers if scalar.param == position]
            if position in self.passed.fields:
                fields = self.passed.fields[position]
                values: dict[str, Expr | float] = {member.name: 0 for member in fields}
                for scalar in numbers:
                    values[scalar.member or ""] = self.fitted.values.get(scalar.name, scalar.values[0])
                self.scalars[param.name] = Scalar(fields, values)
                yield with_pointers(pointers, tuple(pointer.at for pointer in into), param.name)
            elif numbers:
                yield self._number(numbers[0])
            elif position in self.passed.nulls:
                yield ValueArg(0, "uint64")
            elif pointers:
                yield pointers[0] if param.pointer else with_pointers(pointers)
            else:  # there is a remark on it
                self.scalars[param.name] = Scalar("int32", OPEN)
                yield param.name

    def _target(self, pointer: Pointer, offsets: Mapping[str, Expr]) -> str | BufferArg:
        name, offset = self.homes[pointer.name], offsets.get(pointer.name, 0)
        lanes = number(pointer.element.lanes)
        return name if offset == 0 else BufferArg(name, (poly_of(offset) * lanes).expr())

    def _number(self, scalar: Number) -> Arg:
        value = self.fitted.values.get(scalar.name)
        if value is None:
            recorded = scalar.values[0]
            if scalar.dtype == "bool":
                return ValueArg(int(recorded), "bool")
            if not math.isfinite(recorded):
                why = f"the program passes {recorded}"
                self.remarks.append(Remark(f"scalars.{scalar.name}", why, Reason.NO_VALUE))
            self.scalars[scalar.name] = Scalar(scalar.dtype, recorded if math.isfinite(recorded) else OPEN)
            return scalar.name
        plain = isinstance(value, str) and value in self.fitted.names and scalar.dtype == "int32"
        return str(value) if plain else ValueArg(value, scalar.dtype)

    def _finished(
        self, steps: tuple[Step, ...], buffers: dict[str, Buffer], grid: Sequence[Poly], bounds: Bounds
    ) -> Draft:
        names = self.fitted.names
        limits: dict[str, int | None] = {name: values[0] for name, values in names.items()}
        counts = [poly_of(buffer.shape[0]) for buffer in buffers.values()]
        ladder = size_settings.ladder(limits, [*counts, *grid], self.fitted.block)
        bench = {name: values[0] for name, values in names.items()}
        if not names:
            ladder = (size_settings.Settings("the recorded one", ({},)),)
            if not size_settings.fits(counts, {}, self.most_elements):
                why = f"no size varies, and the recorded one is above {self.most_elements} elements"
                self.remarks.append(Remark("sizes.test", why, Reason.ONE_SIZE))
        elif not ladder:
            self.remarks.append(Remark("sizes.test", "sizes of two scales that fit", Reason.ONE_SIZE))
        small = [
            recorded_sizes
            for at in range(1, len(self.launches))
            if (recorded_sizes := {name: values[at] for name, values in names.items()}) != bench
            and size_settings.fits([*counts, *grid], recorded_sizes, size_settings.COMMON_TEST_ELEMENTS)
        ][-MAX_RECORDED:]
        ladder = tuple(
            replace(step, test=(*step.test, *(setting for setting in small if setting not in step.test)))
            for step in ladder
        )
        test = ladder[0].test if ladder else (bench,)
        reals = (region for region in self.places if region.element.dtype in types.FLOATS)
        loose = tuple(region.name for region in reals if self._usage(region).atomic)
        problem = Problem(Sizes(test, bench), buffers, self.scalars, single_size=not names)
        known = known_problem(self.kernel, problem, KnownSide(steps, nondeterministic=loose))
        needs = self._needs(buffers, bounds)
        return Draft(self.kernel.id, known, tuple(self.remarks), ladder, needs, held=tuple(self.held))

    def _needs(self, buffers: Mapping[str, Buffer], bounds: Bounds) -> tuple[tuple[str, Expr], ...]:
        """Buffers whose indices end before or after their allocation: name, and elements needed."""
        needs = []
        for region in self.places:
            need = bounds.extent(region.path, at_sample)
            if need is None or need.constant is not None or need.expr() == buffers[region.name].shape[0]:
                continue
            if names_of(need) <= self.fitted.names.keys() | FUNCTIONS:
                needs.append((region.name, need.expr()))
        return tuple(needs)

    def _element(self, type_text: str) -> Element | None:
        return types.element(type_text, self.types, self.device.text)
