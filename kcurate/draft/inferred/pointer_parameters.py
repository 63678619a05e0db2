"""Buffers: those behind a kernel's pointers, and those uploaded to its constant memory.

Not covered: which values a buffer holds (`buffer_contents`), parameters passed by value
(`scalar_parameters`).
"""

from __future__ import annotations

from dataclasses import replace

from kcurate.cuda_source.semantics.pointer_paths import holder_in, offset_in
from kcurate.cuda_source.semantics.pointer_usage import Usage, usage
from kcurate.draft.algebra import Poly, number, quotient
from kcurate.draft.host import containers
from kcurate.draft.host.allocations import allocation, filled_symbols
from kcurate.draft.inferred import launch_configuration
from kcurate.draft.inferred.buffer_contents import Extents, contents, role_of
from kcurate.draft.inferred.draft_parts import Parts
from kcurate.draft.inferred.index_bounds import Bounds
from kcurate.draft.inferred.launch_configuration import at_sample
from kcurate.draft.sketch import OPEN, Reason
from kcurate.problem import c_types as types
from kcurate.records import Arg, Buffer, BufferArg, Expr, Init, Param, Step, Tolerance, Upload


def buffer_argument(parts: Parts, param: Param, text: str) -> Arg:
    """What the launch step passes for a pointer: a buffer, or an offset into one that other pointers
    share."""
    place = f"buffers.{param.name}"
    used = usage(parts.device, parts.function, param.name)
    element = types.pointee(param.type, parts.names, parts.device.text, aligned=parts.device.aligned)
    if param.type.count("*") > 1 or element is None:
        reason = Reason.POINTER_TO_POINTERS if param.type.count("*") > 1 else Reason.STRUCT_ELEMENTS
        parts.note(f"{place}.dtype", f"the element type behind {param.type}", reason)
        parts.buffers[param.name] = Buffer(OPEN, (OPEN,))
        return param.name
    owner, offset = holder_in(text), _offset(parts, text)
    first = parts.owners.setdefault(owner, param.name)
    if first == param.name or parts.elements[first] != element:
        first = param.name
        parts.usages[first], parts.elements[first] = used, element
    else:
        joined_usage = parts.usages[first] | used
        parts.usages[first] = replace(joined_usage, first="read" if joined_usage.read else joined_usage.first)
    parts.pointers.setdefault(first, []).append((param.name, offset or number(0)))
    return first if offset is None else BufferArg(first, (offset * number(element.lanes)).expr())


def _offset(parts: Parts, text: str) -> Poly | None:
    """The offset in elements of `a + n` and `&a[n]`."""
    inside = offset_in(text)
    poly = parts.site.poly(inside) if inside else None
    if poly is None or poly.constant == 0:
        return None
    parts.offsets.append(poly)
    return poly


def element_count(parts: Parts, param: Param, text: str, bounds: Bounds) -> Poly | None:
    """Number of elements behind a pointer: from its allocation, else from the kernel's guards."""
    element = parts.elements[param.name]
    allocated = allocation(parts.site.host_values, text, parts.site.scope, element.size_bytes)
    poly = parts.site.poly_of(allocated[0]) if allocated is not None else None
    count = quotient(poly, number(element.size_bytes)) if poly is not None else None
    if count is not None and _related(parts, count, bounds):
        return count
    if count is not None and any(map(containers.is_queried, launch_configuration.names_of(count))):
        count = None
    guessed = bounds.furthest(parts.pointers[param.name], at_sample) or count
    place = f"buffers.{param.name}.shape"
    if guessed is not None:
        parts.note(place, "guess, from the kernel's indices")
        return guessed
    parts.note(place, "elements; neither an allocation nor a guard gives the number", Reason.NO_EXTENT)
    return None


def _related(parts: Parts, count: Poly, bounds: Bounds) -> bool:
    """Whether the kernel uses a size of the allocation; if not, its indices are more reliable."""
    names = launch_configuration.names_of(count)
    kernel_values = (*parts.values.values(), *bounds.grid)
    return not names or any(launch_configuration.names_of(poly) & names for poly in kernel_values)


def uploads(parts: Parts) -> list[Step]:
    """Upload steps for the constant memory that the host fills; if none, for all real numbers in it."""
    steps: list[Step] = []
    host_fills = filled_symbols(parts.site.host_values.host)
    for symbol in parts.device.globals_of_type("__constant__"):
        element = parts.element(symbol.type)
        guessed = not host_fills and element is not None and "float" in element.dtype
        if symbol.value or not (symbol.name in host_fills or guessed):
            continue
        count = Bounds(parts.device, parts.function, {}, (), ()).product(symbol.sizes)
        if element is None or count is None or "*" in symbol.type:
            parts.note(f"buffers.{symbol.name}.dtype", "the type of the symbol", Reason.CONSTANT_MEMORY)
            parts.buffers[symbol.name] = Buffer(OPEN, (OPEN,))
            continue
        name = f"{symbol.name}_values"
        parts.elements[name], parts.counts[name] = element, number(count)
        parts.usages[name] = Usage(read=True)
        steps.append(Upload(symbol.name, name))
    return steps


def add_buffers(parts: Parts, bounds: Bounds) -> None:
    """Add every buffer to the draft, once its elements are counted: contents, role, tolerance."""
    extents = Extents(parts.counts, parts.elements)
    for name, element in parts.elements.items():
        usage = parts.usages[name]
        role = role_of(usage)
        if element.fields and role != "in":
            role = "inout"
            parts.note(f"buffers.{name}", "structs are compared byte by byte, padding included")
        shape = (parts.counts[name].expr(), *((element.lanes,) if element.lanes > 1 else ()))
        init: Init | None = None
        if role in ("in", "inout"):
            inferred = contents(name, bounds, extents)
            init = inferred.init
            parts.note(f"buffers.{name}.init", f"guess: {inferred.why}")
        if usage.unknown:
            parts.note(f"buffers.{name}.role", "guess: passed to a function that is not in this file")
        size_names = parts.sizes(()).keys() - {OPEN}
        tolerance = None
        if role != "in":
            tolerance = launch_configuration.tolerance(element, bounds, size_names, [*parts.counts.values()])
        why = "guess: as many terms as the longest loop"
        if tolerance is None and usage.atomic and (terms := _added(parts, name)) is not None:
            tolerance, why = Tolerance(terms=terms), "guess: every element that is read is added atomically"
        if tolerance is not None:
            parts.note(f"buffers.{name}.tolerance", why)
        tolerance = launch_configuration.of_one_sum(tolerance, shape)
        parts.buffers[name] = Buffer(element.dtype, shape, init, role, tolerance)
    if not any(buffer.role in ("out", "inout") for buffer in parts.buffers.values()):
        parts.note("buffers", "no pointer is written: nothing to compare", Reason.NO_OUTPUT)


def _added(parts: Parts, name: str) -> Expr | None:
    """How many terms threads add to one element of a floating-point buffer: the elements of the largest
    buffer read, shared among its elements."""
    counts_read = [
        count
        for other, count in parts.counts.items()
        if other != name and parts.usages[other].read and OPEN not in count.text()
    ]
    if parts.elements[name].dtype not in types.FLOATS or not counts_read:
        return None
    terms, elements = max(counts_read, key=at_sample), parts.counts[name]
    if OPEN in elements.text() or elements.constant == 1:
        return terms.expr()
    return f"max(1, ceil_div({terms.text()}, {elements.text()}))"


def needed_elements(parts: Parts, bounds: Bounds) -> tuple[tuple[str, Expr], ...]:
    """Buffers whose indices end before or after their allocation: name, and elements needed."""
    needs = []
    for name, count in parts.counts.items():
        pointers = parts.pointers.get(name, ()) if OPEN not in count.text() else ()
        need = bounds.furthest(pointers, at_sample)
        size_names = parts.sizes(tuple(bounds.grid)).keys() | launch_configuration.FUNCTIONS
        if need is not None and need != count and launch_configuration.names_of(need) <= size_names:
            needs.append((name, need.expr()))
    return tuple(needs)
