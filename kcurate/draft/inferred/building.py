"""Assembles a draft from one launch and one kernel: buffers, scalars, arguments, launch step, remarks.

Not covered: choosing the launch (`from_code`), buffer contents (`buffer_contents`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kcurate.cuda_source.paths import holder_in, offset_in
from kcurate.cuda_source.statements import Code, Function
from kcurate.cuda_source.usage import Usage, usage
from kcurate.draft import size_settings
from kcurate.draft.algebra import Poly, factor, number, quotient
from kcurate.draft.host import containers
from kcurate.draft.host.allocations import allocation, filled_symbols
from kcurate.draft.inferred import launch_configuration, struct_numbers
from kcurate.draft.inferred.buffer_contents import Extents, contents, role_of
from kcurate.draft.inferred.index_bounds import Bounds
from kcurate.draft.inferred.launch_configuration import GUESSED_WHOLE, Configuration, Site, at_sample
from kcurate.draft.sketch import OPEN, Draft, Reason, Remark
from kcurate.problem import c_types as types
from kcurate.problem.expressions import names_in
from kcurate.records import (
    Arg,
    Buffer,
    BufferArg,
    Expr,
    Init,
    Kernel,
    KnownProblem,
    KnownSide,
    Launch,
    Param,
    Problem,
    Scalar,
    Sizes,
    Step,
    Upload,
    ValueArg,
)

_TEXTURES = re.compile(r"cuda(?:Texture|Surface)Object_t|texture\s*<")


@dataclass
class Builder:
    """Collects one draft. Sizes keep their names from the host code."""

    kernel: Kernel
    device: Code
    function: Function
    site: Site
    template: Mapping[str, str]
    buffers: dict[str, Buffer] = field(default_factory=dict)
    counts: dict[str, Poly] = field(default_factory=dict)
    elements: dict[str, types.Element] = field(default_factory=dict)
    usages: dict[str, Usage] = field(default_factory=dict)
    scalars: dict[str, Scalar] = field(default_factory=dict)
    values: dict[str, Poly] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    offsets: list[Poly] = field(default_factory=list)
    # By buffer: the parameters that point into it, each with its offset in elements.
    pointers: dict[str, list[tuple[str, Poly]]] = field(default_factory=dict)

    def build(self, name: str, template: tuple[str, ...]) -> Draft:
        """The draft for this launch."""
        self.site.taken = frozenset(
            param.name for param in self.kernel.params if param.pointer or self._real_type(param)
        )
        shaping = Configuration(self.kernel, self.device, self.function, self.site, self.remarks, self.values)
        block, grid = shaping.read()
        texts = [argument.expression for argument in self.site.launch.arguments]
        params = self.kernel.params
        for param, text in zip(params, texts, strict=False):
            if not param.pointer:
                self._value(param, text)
        bounds = Bounds(self.device, self.function, self.values, block, grid or ())
        grid = shaping.settled(grid, bounds, block)
        bounds.grid = grid
        args: list[Arg] = [
            self._pointer(param, text, bounds) if param.pointer else self._scalar(param)
            for param, text in zip(params, texts, strict=False)
        ]
        for param, text in zip(params, texts, strict=False):
            if param.name in self.pointers:
                count = self._count(param, text, bounds)
                self.counts[param.name] = count if count is not None else factor(OPEN)
        if len(texts) != len(params):
            self._note("plan.args", f"{len(params)} parameters, {len(texts)} arguments", Reason.NO_VALUE)
        steps = self._uploads()
        self._contents(bounds)
        shared, remarks = launch_configuration.shared_of(self.site, self.device.text)
        self.offsets += [factor(name) for name in names_in(shared)] if shared != OPEN else []
        self.remarks += remarks
        steps.append(
            Launch(name, tuple(extent.expr() for extent in grid), block, tuple(args), template, shared)
        )
        return self._draft(tuple(steps), block, grid, bounds)

    def _note(self, place: str, text: str, reason: Reason | None = None) -> None:
        self.remarks.append(Remark(place, text, reason))

    def _value(self, param: Param, text: str) -> None:
        """Record a scalar's value over sizes, if it has one, or those of the integers in a struct."""
        if self._empty(param):
            return
        inside = self._inside(param)
        if inside is not None:
            self.values |= struct_numbers.wholes(param.name, text, inside, self.site, self.device.text)
        elif not self._real_type(param) and (poly := self.site.poly(text)) is not None:
            self.values[param.name] = poly

    def _inside(self, param: Param) -> tuple[types.Inside, ...] | None:
        """The numbers in a struct by value; None: it is no such struct."""
        known = param.type, self._names, self.device.text
        element = types.element(*known)
        if element is not None and element.lanes == 1 and types.members(*known) is None:
            return None
        return types.layout(*known)

    def _empty(self, param: Param) -> bool:
        return types.empty(param.type, self._names, self.device.text)

    def _real_type(self, param: Param) -> bool:
        element = self._element(param.type)
        return element is not None and element.dtype in types.FLOATS

    def _scalar(self, param: Param) -> Arg:
        element = self._element(param.type)
        place, text = f"scalars.{param.name}", self._text_of(param)
        inside = self._inside(param)
        if inside is not None:
            scalar, remarks = struct_numbers.scalar(param.name, text, inside, self.values, self.site)
            self.scalars[param.name] = scalar
            self.remarks += remarks
            return param.name
        if self._empty(param):
            return ValueArg(0, "uint8")
        if element is None or element.lanes != 1:
            reason = Reason.TEXTURE if _TEXTURES.search(param.type) else Reason.STRUCT_ARGUMENT
            self._note(place, f"a {param.type} by value", reason)
            self.scalars[param.name] = Scalar("int32", OPEN)
            return param.name
        poly = self.values.get(param.name)
        if element.dtype in types.FLOATS:
            known = self.site.real(text)
            if known is None:
                self._note(place, f"guess: the host passes {text}")
            self.scalars[param.name] = Scalar(
                element.dtype, struct_numbers.GUESSED_REAL if known is None else known
            )
            return param.name
        if poly is None:
            self._note(place, f"guess: the host passes {text}")
            return ValueArg(GUESSED_WHOLE, element.dtype)
        poly = self._first_round(param, poly)
        value = poly.expr()
        if isinstance(value, str) and element.dtype == "int32" and re.fullmatch(r"[A-Za-z_]\w*", value):
            return value
        return ValueArg(value, element.dtype)

    def _first_round(self, param: Param, poly: Poly) -> Poly:
        """For a host loop variable, its first value."""
        meaning = self.site.meaning
        counted = launch_configuration.names_of(poly) & meaning.loops
        inside = {
            name
            for name in counted
            if any(re.search(rf"\b{name}\b", loop) for loop in self.site.launch.loops)
        }
        if not inside:
            return poly
        self._note(
            f"scalars.{param.name}",
            f"guess: the host loops over {', '.join(sorted(inside))}; first iteration",
        )
        self.site.frozen.update({name: meaning.defaults.get(name, GUESSED_WHOLE) for name in inside})
        return self.site.poly(self._text_of(param)) or number(GUESSED_WHOLE)

    def _text_of(self, param: Param) -> str:
        index = next(i for i, each in enumerate(self.kernel.params) if each is param)
        return self.site.launch.arguments[index].expression

    def _element(self, type_text: str) -> types.Element | None:
        return types.element(type_text, self._names, self.device.text)

    @property
    def _names(self) -> Mapping[str, str]:
        """What names of types and constants stand for."""
        host = self.site.meaning.host
        return {**host.types, **host.macros, **self.device.types, **self.device.macros, **self.template}

    def _pointer(self, param: Param, text: str, bounds: Bounds) -> Arg:
        place = f"buffers.{param.name}"
        used = usage(self.device, self.function, param.name)
        element = types.pointee(param.type, self._names, self.device.text, aligned=self.device.aligned)
        if param.type.count("*") > 1 or element is None:
            reason = Reason.POINTER_TO_POINTERS if param.type.count("*") > 1 else Reason.STRUCT_ELEMENTS
            self._note(f"{place}.dtype", f"the element type behind {param.type}", reason)
            self.buffers[param.name] = Buffer(OPEN, (OPEN,))
            return param.name
        owner, offset = holder_in(text), self._offset(text)
        first = self.owners.setdefault(owner, param.name)
        if first == param.name or self.elements[first] != element:
            first = param.name
            self.usages[first], self.elements[first] = used, element
        else:
            both = self.usages[first] | used
            self.usages[first] = replace(both, first="read" if both.read else both.first)
        self.pointers.setdefault(first, []).append((param.name, offset or number(0)))
        return first if offset is None else BufferArg(first, (offset * number(element.lanes)).expr())

    def _offset(self, text: str) -> Poly | None:
        """The offset in elements of `a + n` and `&a[n]`."""
        inside = offset_in(text)
        poly = self.site.poly(inside) if inside else None
        if poly is None or poly.constant == 0:
            return None
        self.offsets.append(poly)
        return poly

    def _count(self, param: Param, text: str, bounds: Bounds) -> Poly | None:
        """Number of elements behind a pointer: from its allocation, else from the kernel's guards."""
        element = self.elements[param.name]
        allocated = allocation(self.site.meaning, text, self.site.scope, element.size_bytes)
        poly = self.site.settle(allocated[0]) if allocated is not None else None
        count = quotient(poly, number(element.size_bytes)) if poly is not None else None
        if count is not None and self._related(count, bounds):
            return count
        if count is not None and any(map(containers.is_asked, launch_configuration.names_of(count))):
            count = None
        guessed = bounds.furthest(self.pointers[param.name], at_sample) or count
        place = f"buffers.{param.name}.shape"
        if guessed is not None:
            self._note(place, "guess, from the kernel's indices")
            return guessed
        self._note(place, "elements; neither an allocation nor a guard gives the number", Reason.NO_EXTENT)
        return None

    def _related(self, count: Poly, bounds: Bounds) -> bool:
        """Whether the kernel knows a size used in the allocation; if not, its indices are more reliable."""
        names = launch_configuration.names_of(count)
        known = (*self.values.values(), *bounds.grid)
        return not names or any(launch_configuration.names_of(poly) & names for poly in known)

    def _uploads(self) -> list[Step]:
        """Upload steps for the constant memory that the host fills; if none, for all real numbers in it."""
        steps: list[Step] = []
        filled = filled_symbols(self.site.meaning.host)
        for symbol in self.device.outside("__constant__"):
            element = self._element(symbol.type)
            guessed = not filled and element is not None and "float" in element.dtype
            if symbol.value or not (symbol.name in filled or guessed):
                continue
            count = Bounds(self.device, self.function, {}, (), ()).product(symbol.sizes)
            if element is None or count is None or "*" in symbol.type:
                self._note(f"buffers.{symbol.name}.dtype", "the type of the symbol", Reason.CONSTANT_MEMORY)
                self.buffers[symbol.name] = Buffer(OPEN, (OPEN,))
                continue
            name = f"{symbol.name}_values"
            self.elements[name], self.counts[name] = element, number(count)
            self.usages[name] = Usage(read=True)
            steps.append(Upload(symbol.name, name))
        return steps

    def _contents(self, bounds: Bounds) -> None:
        extents = Extents(self.counts, self.elements)
        for name, element in self.elements.items():
            usage = self.usages[name]
            role = role_of(usage)
            if element.fields and role != "in":
                role = "inout"
                self._note(f"buffers.{name}", "structs are compared byte by byte, padding included")
            shape = (self.counts[name].expr(), *((element.lanes,) if element.lanes > 1 else ()))
            init: Init | None = None
            if role in ("in", "inout"):
                inferred = contents(name, bounds, extents)
                init = inferred.init
                self._note(f"buffers.{name}.init", f"guess: {inferred.why}")
            if usage.unknown:
                self._note(f"buffers.{name}.role", "guess: passed to a function that is not in this file")
            known = self._sizes(()).keys() - {OPEN}
            tolerance = launch_configuration.tolerance(element, bounds, known) if role != "in" else None
            if tolerance is not None:
                self._note(f"buffers.{name}.tolerance", "guess: as many terms as the longest loop")
            self.buffers[name] = Buffer(element.dtype, shape, init, role, tolerance)
        if not any(buffer.role in ("out", "inout") for buffer in self.buffers.values()):
            self._note("buffers", "no pointer is written: nothing to compare", Reason.NO_OUTPUT)

    def _draft(
        self, steps: tuple[Step, ...], block: tuple[int, ...], grid: tuple[Poly, ...], bounds: Bounds
    ) -> Draft:
        limits = self._sizes(grid)
        counts = [count for count in self.counts.values() if OPEN not in count.text()]
        ladder = size_settings.ladder(
            limits, [*counts, *(extent for extent in grid if OPEN not in extent.text())], block
        )
        if not limits and launch_configuration.work(bounds, block, self.site) > launch_configuration.MAX_WORK:
            ladder = ()
        if not ladder:
            why = "sizes of two scales that fit" if limits else "all are constants of the code, and too large"
            self._note("sizes.test", why, Reason.ONE_SIZE)
        test = ladder[0].test if ladder else ({name: value or 64 for name, value in limits.items()},)
        loose = tuple(
            name
            for name, usage in self.usages.items()
            if usage.atomic and self.elements[name].dtype in types.FLOATS
        )
        if "texture" in self.kernel.features:
            self._note("plan", "the texture that the kernel reads is not bound", Reason.TEXTURE)
        bench = size_settings.bench(limits, counts)
        problem = Problem(Sizes(test, bench), self.buffers, self.scalars, single_size=not limits)
        side = KnownSide(steps, nondeterministic=loose)
        known = KnownProblem(
            self.kernel.source.suite,
            self.kernel.benchmark,
            problem,
            {self.kernel.variant or "": side},
            (self.kernel.span.path,),
        )
        followed = frozenset[str]().union(*map(launch_configuration.names_of, (*self.counts.values(), *grid)))
        unfollowed = tuple(name for name, value in limits.items() if value is None and name not in followed)
        return Draft(
            self.kernel.id,
            known,
            tuple(self.remarks),
            ladder,
            self._needs(bounds),
            unfollowed,
            tuple(limits.items()),
        )

    def _needs(self, bounds: Bounds) -> tuple[tuple[str, Expr], ...]:
        """Buffers whose indices end before or after their allocation: name, and elements needed."""
        needs = []
        for name, count in self.counts.items():
            into = self.pointers.get(name, ()) if OPEN not in count.text() else ()
            need = bounds.furthest(into, at_sample)
            known = self._sizes(tuple(bounds.grid)).keys() | launch_configuration.FUNCTIONS
            if need is not None and need != count and launch_configuration.names_of(need) <= known:
                needs.append((name, need.expr()))
        return tuple(needs)

    def _sizes(self, grid: tuple[Poly, ...]) -> dict[str, int | None]:
        """Every name in grid, shapes and arguments, with its host value if known."""
        used: set[str] = set()
        for poly in (*self.counts.values(), *grid, *self.offsets):
            used |= launch_configuration.names_of(poly)
        for poly in self.values.values():
            used |= launch_configuration.names_of(poly)
        return {
            name: self.site.default(name) for name in sorted(used - {OPEN} - launch_configuration.FUNCTIONS)
        }
