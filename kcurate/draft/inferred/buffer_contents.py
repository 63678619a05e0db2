"""Initial buffer contents, inferred from how the kernel uses the values.

Values used as indices into other buffers stay in range; row offsets and columns of a sparse matrix match;
floating-point values are positive where roots or logarithms are taken. All of it is a guess. Not covered:
the generators (`kcurate.problem.inputs.contents`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from kcurate.cuda_source.semantics import c_expressions as cexpr
from kcurate.cuda_source.semantics.c_expressions import Node
from kcurate.cuda_source.semantics.pointer_usage import Usage
from kcurate.draft.algebra import Poly, from_node, number, quotient
from kcurate.draft.inferred.index_bounds import Bounds
from kcurate.draft.inferred.launch_configuration import FUNCTIONS, at_sample, names_of
from kcurate.problem import c_types as types
from kcurate.records import Init, Role

_POSITIVE = frozenset(
    f"{before}{name}{after}"
    for name in ("rsqrt", "sqrt", "log", "log2", "log10", "log1p", "pow", "acos", "asin", "rsqrt_rn")
    for before in ("", "__", "__f", "h")
    for after in ("", "f", "_rn", "_rz", "_ru", "_rd")
)
_RANGES = {"bool": 2, "uint8": 256, "int8": 128, "uint16": 1000, "int16": 1000}
COMMON_RANGE = 1000


@dataclass(frozen=True)
class Contents:
    """How a buffer is initialised, and why."""

    init: Init
    why: str


@dataclass(frozen=True)
class Extents:
    """A kernel's buffers: element counts by name (a vector counts as one element), and element types."""

    counts: Mapping[str, Poly]
    elements: Mapping[str, types.Element]


def contents(name: str, bounds: Bounds, buffers: Extents) -> Contents:
    """The initial contents of buffer `name`."""
    element = buffers.elements[name]
    if element.fields:
        return _members(name, bounds, buffers)
    if element.dtype in types.FLOATS:
        return _reals(bounds)
    return (
        _row_starts(name, bounds, buffers)
        or _columns(name, bounds, buffers)
        or _as_indices(name, bounds, buffers)
        or _any(name, element.dtype, bounds)
    )


def _reals(bounds: Bounds) -> Contents:
    roots = any(
        call.strip("_").removesuffix("f").removeprefix("f") in _POSITIVE for call in bounds.code.calls
    )
    if roots:
        return Contents(
            Init("uniform", {"low": 0.1, "high": 1}), "positive: the code takes roots or logarithms"
        )
    return Contents(Init("uniform", {"low": -1, "high": 1}), "any reals")


def _members(name: str, bounds: Bounds, buffers: Extents) -> Contents:
    """Structs of several types: each member as a buffer of its own would be filled."""
    fields, why = [], []
    for path, dtype in buffers.elements[name].fields:
        if not path:
            fields.append(f"{dtype} zeros")
            continue
        values = _reals(bounds) if dtype in types.FLOATS else _as_indices(f"{name}.{path}", bounds, buffers)
        values = values or _any(f"{name}.{path}", dtype, bounds)
        params = (f"{key}={str(value).replace(' ', '')}" for key, value in values.init.params.items())
        fields.append(" ".join([dtype, values.init.kind, *params]))
        why.append(f"{path} {values.why}")
    return Contents(Init("records", {"fields": "; ".join(fields)}), ", ".join(why))


def any_integers(dtype: str, *, signed: bool = False) -> Init:
    """The generator for integers with unknown use; `signed`: the range includes as many negative values."""
    high = _RANGES.get(dtype, COMMON_RANGE)
    return Init("integers", {"low": -high if signed else 0, "high": high})


def _any(name: str, dtype: str, bounds: Bounds) -> Contents:
    init = any_integers(dtype)
    if any(_occurs(divisor, name, bounds) for divisor in bounds.divisors()):
        return Contents(Init("integers", {**init.params, "low": 1}), "not zero: something is divided by them")
    return Contents(init, "any integers")


def role_of(used: Usage) -> Role:
    """Whether the kernel reads a buffer, writes it, or updates it."""
    if not used.written:
        return "in"
    return "inout" if used.read and used.first != "write" else "out"


def _as_indices(name: str, bounds: Bounds, buffers: Extents) -> Contents | None:
    """For values used in an index: integers that stay within the first array, or buffer, that they index."""
    owner, _, member = name.partition(".")
    element = buffers.elements[owner]
    most = _RANGES.get(dict(element.fields).get(member, element.dtype), 0)
    polys = (*bounds.scalars.values(), *bounds.grid, *buffers.counts.values())
    sizes = frozenset[str]().union(*map(names_of, polys))
    for other, count in chain(buffers.counts.items(), bounds.arrays()):
        for node in bounds.indices(other):
            if other == owner and _loads(node, name):
                continue
            allowed = _allowed(node, name, bounds, (number(0), count))
            if allowed is None:
                continue
            low, high = allowed
            low = number(max(0, low.constant or 0)) if low.constant is not None else low
            high = number(min(high.constant, most)) if high.constant is not None and most else high
            if not names_of(low) | names_of(high) <= sizes | FUNCTIONS:
                continue  # a variable of the kernel has no value here
            if at_sample(high) > max(0, at_sample(low)):
                init = Init("integers", {"low": low.expr(), "high": high.expr()})
                return Contents(init, f"indices into {other}")
    return None


def _allowed(
    node: Node, name: str, bounds: Bounds, range_: tuple[Poly, Poly], followed: frozenset[str] = frozenset()
) -> tuple[Poly, Poly] | None:
    """The range (least, exclusive end) of a value loaded from buffer `name` for which an index stays in
    `operand_range`.

    None if the index does not use such a value, or if the range of its other operands is unknown. `followed`:
    names whose definitions were entered already.
    """
    node = cexpr.plain(node)
    low, high = range_
    if _is_value_of(node, name, bounds):
        return range_
    if node.op == "name" and node.text not in followed:
        for definition in bounds.definitions(node.text):
            if node.text not in cexpr.names(definition):
                known = _allowed(definition, name, bounds, range_, followed | {node.text})
                if known is not None:
                    return known
        return None
    if len(node.args) != 2:
        return None
    for at in (0, 1) if node.op in ("+", "*") else (0,):
        side, other = node.args[at], node.args[1 - at]
        least = bounds.exact(other)
        most = bounds.upper(other) if node.op in ("+", "-") else least
        if most is None:
            continue
        if node.op == "+":
            operand_range = low - (least or number(0)), high - most
        elif node.op == "-":
            operand_range = low + most, high + (least or number(0))
        elif node.op == "*":
            operand_range = _rounded_up(low, most), _rounded_up(high, most)
        elif node.op == "/":
            operand_range = low * most, high * most
        elif node.op == ">>" and most.constant is not None:
            times = number(1 << max(0, min(most.constant, 40)))
            operand_range = low * times, high * times
        else:
            continue
        known = _allowed(side, name, bounds, operand_range, followed)
        if known is not None:
            return known
    return None


def _rounded_up(value: Poly, by: Poly) -> Poly:
    """`value / by`, rounded up."""
    if value.constant == 0 or by == number(1):
        return value
    return quotient(value - number(1) + by, by) or value


def _occurs(node: Node, name: str, bounds: Bounds, followed: set[str] | None = None) -> bool:
    """Whether an expression is computed from a value loaded from buffer `name`, by sums and products.

    `followed`: variables whose definitions were entered already.
    """
    followed = set() if followed is None else followed
    node = cexpr.plain(node)
    if _is_value_of(node, name, bounds):
        return True
    if node.op == "name" and node.text not in followed:
        definitions = (
            definition
            for definition in bounds.definitions(node.text)
            if node.text not in cexpr.names(definition)
        )
        followed.add(node.text)
        return any(_occurs(definition, name, bounds, followed) for definition in definitions)
    return node.op in ("+", "-", "*") and any(_occurs(arg, name, bounds, followed) for arg in node.args)


def _is_value_of(node: Node, name: str, bounds: Bounds) -> bool:
    """Whether a tree is a load from buffer `name`, or a member of a local struct that was copied from it."""
    if _loads(node, name):
        return True
    owner = cexpr.plain(node.args[0]) if node.op == "member" else node
    copied = bounds.definitions(owner.text) if node.op == "member" and owner.op == "name" else ()
    return any(_loads(Node("member", (definition,), node.text), name) for definition in copied)


def _loads(node: Node, name: str) -> bool:
    """Whether a tree is `name[...]`, optionally with a member access, or a cached load of it.

    A name such as `edges.to` asks for that member of the buffer's structs.
    """
    node = cexpr.plain(node)
    if node.op == "member":
        owner, dot, member = name.rpartition(".")
        if dot and node.text != member:
            return False
        return _loads(node.args[0], owner if dot else name)
    if node.op == "call" and node.text.startswith("__ld") and node.args:
        inner = node.args[0]
        return _loads(inner.args[0], name) if inner.op == "unary&" else False
    return node.op == "index" and cexpr.plain(node.args[0]) == cexpr.name(name)


def _reads_next(name: str, bounds: Bounds) -> bool:
    """Whether a buffer is read both at an index and at the next one."""
    polys = [from_node(node) for node in bounds.indices(name)]
    return any(
        poly is not None and other is not None and (poly - other).constant == 1
        for poly in polys
        for other in polys
    )


def _loop_variables(name: str, bounds: Bounds) -> tuple[str, ...]:
    """Loop variables whose bounds are values of a buffer."""
    walks = []
    for variable, start, end in bounds.loops():
        if _occurs(start, name, bounds) or _occurs(end, name, bounds):
            walks.append(variable)
    return tuple(walks)


def _matrix(starts: str, bounds: Bounds, buffers: Extents) -> tuple[Poly, Poly, tuple[str, ...]] | None:
    """Rows, nonzeros and per-nonzero buffers of the sparse matrix whose row offsets are in `starts`."""
    variables = _loop_variables(starts, bounds) if _reads_next(starts, bounds) else ()
    entries = tuple(
        other
        for other in buffers.counts
        if other != starts
        and any(cexpr.plain(node) == cexpr.name(v) for node in bounds.indices(other) for v in variables)
    )
    if not entries:
        return None
    return buffers.counts[starts] - number(1), buffers.counts[entries[0]], entries


def _row_starts(name: str, bounds: Bounds, buffers: Extents) -> Contents | None:
    matrix = _matrix(name, bounds, buffers)
    if matrix is None:
        return None
    rows, entries, others = matrix
    widths = [_width(other, bounds, buffers) for other in others]
    columns = next((width for width in widths if width is not None), None)
    params = {"rows": rows.expr(), "nnz": entries.expr(), **({} if columns is None else {"cols": columns})}
    return Contents(Init("csr_offsets", params), f"row offsets into {', '.join(others)}")


def _width(name: str, bounds: Bounds, buffers: Extents) -> int | float | str | None:
    """The exclusive upper limit of the values in a buffer of column indices."""
    if buffers.elements[name].dtype in types.FLOATS:
        return None
    indices = _as_indices(name, bounds, buffers)
    return indices.init.params["high"] if indices else None


def _columns(name: str, bounds: Bounds, buffers: Extents) -> Contents | None:
    for starts, element in buffers.elements.items():
        if starts == name or element.dtype in types.FLOATS:
            continue
        matrix = _matrix(starts, bounds, buffers)
        if matrix is None or name not in matrix[2]:
            continue
        columns = _width(name, bounds, buffers)
        if columns is None:
            return None
        params = {"rows": matrix[0].expr(), "nnz": matrix[1].expr(), "cols": columns}
        return Contents(Init("csr_columns", params), f"column indices that match {starts}")
    return None
