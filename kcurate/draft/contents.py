"""Initial buffer contents, inferred from how the kernel uses the values.

Values used as indices into other buffers stay in range; row offsets and columns of a sparse matrix match;
floating-point values are positive where roots or logarithms are taken. All of it is a guess. Not covered:
the generators (`kcurate.problem.inputs.contents`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kcurate.cuda_source import expressions as cexpr
from kcurate.cuda_source.expressions import Node
from kcurate.cuda_source.usage import Usage
from kcurate.draft.algebra import Poly, from_node, number, quotient
from kcurate.draft.bounds import Bounds
from kcurate.draft.launching import at_sample
from kcurate.problem import c_types as types
from kcurate.records import Init, Role

_POSITIVE = frozenset(
    f"{before}{name}{after}"
    for name in ("rsqrt", "sqrt", "log", "log2", "log10", "log1p", "pow", "acos", "asin", "rsqrt_rn")
    for before in ("", "__", "__f", "h")
    for after in ("", "f", "_rn", "_rz", "_ru", "_rd")
)
_RANGES = {"bool": 2, "uint8": 256, "int8": 100, "uint16": 1000, "int16": 1000}
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


def contents(name: str, bounds: Bounds, known: Extents) -> Contents:
    """The initial contents of buffer `name`."""
    element = known.elements[name]
    if element.fields:
        return _members(name, bounds, known)
    if element.dtype in types.FLOATS:
        return _reals(bounds)
    return (
        _row_starts(name, bounds, known)
        or _columns(name, bounds, known)
        or _places(name, bounds, known)
        or _any(element.dtype)
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


def _members(name: str, bounds: Bounds, known: Extents) -> Contents:
    """Structs of several types: each member as a buffer of its own would be filled."""
    fields, why = [], []
    for path, dtype in known.elements[name].fields:
        if not path:
            fields.append(f"{dtype} zeros")
            continue
        found = _reals(bounds) if dtype in types.FLOATS else _places(f"{name}.{path}", bounds, known)
        found = found or _any(dtype)
        params = (f"{key}={str(value).replace(' ', '')}" for key, value in found.init.params.items())
        fields.append(" ".join([dtype, found.init.kind, *params]))
        why.append(f"{path} {found.why}")
    return Contents(Init("records", {"fields": "; ".join(fields)}), ", ".join(why))


def any_integers(dtype: str, *, signed: bool = False) -> Init:
    """For integers of which nothing is known; `signed`: as many of them below zero."""
    high = _RANGES.get(dtype, COMMON_RANGE)
    return Init("integers", {"low": -high if signed else 0, "high": high})


def _any(dtype: str) -> Contents:
    return Contents(any_integers(dtype), "any integers")


def role_of(used: Usage) -> Role:
    """Whether the kernel reads a buffer, writes it, or updates it."""
    if not used.written:
        return "in"
    return "inout" if used.read and used.first != "write" else "out"


def _places(name: str, bounds: Bounds, known: Extents) -> Contents | None:
    """For values used in an index: integers that stay within the smallest buffer they index."""
    for other, count in known.counts.items():
        for node in bounds.indices(other):
            share = _coefficient(node, name, bounds)
            if share is None or (other == name.partition(".")[0] and _loads(node, name)):
                continue
            high = _room(node, name, share, count, bounds)
            if high is not None and at_sample(high) > 0:
                return Contents(Init("integers", {"low": 0, "high": high.expr()}), f"indices into {other}")
    return None


def _room(node: Node, name: str, share: Poly, count: Poly, bounds: Bounds) -> Poly | None:
    """The exclusive upper limit of `v` such that `rest + share * v` stays below `count`."""
    rest = bounds.upper(_without(node, name, bounds))
    if rest is None:
        return None
    return quotient(count - rest - number(1) + share, share) if share != number(1) else count - rest


def _without(node: Node, name: str, bounds: Bounds, followed: frozenset[str] = frozenset()) -> Node:
    """An index with the values loaded from buffer `name` replaced by zero; no name is followed twice."""
    zero = cexpr.number(0)

    def meaning(part: Node) -> Node | None:
        if _loads(part, name) or any(_loads(one, name) for one in _copied(part, bounds)):
            return zero
        if part.op == "name" and part.text not in followed:
            for found in bounds.definitions(part.text):
                if part.text not in cexpr.names(found) and _coefficient(found, name, bounds) is not None:
                    return _without(found, name, bounds, followed | {part.text})
        return None

    return cexpr.substitute(node, meaning)


def _coefficient(node: Node, name: str, bounds: Bounds, depth: int = 0) -> Poly | None:
    """The coefficient of a value loaded from buffer `name` in an index; None if it does not occur."""
    node = cexpr.plain(node)
    if _loads(node, name) or any(_loads(one, name) for one in _copied(node, bounds)):
        return number(1)
    if node.op == "name" and depth < 6:
        for found in bounds.definitions(node.text):
            if node.text in cexpr.names(found):
                continue
            inside = _coefficient(found, name, bounds, depth + 1)
            if inside is not None:
                return inside
        return None
    if node.op in ("+", "-") and len(node.args) == 2:
        for arg in node.args:
            inside = _coefficient(arg, name, bounds, depth + 1)
            if inside is not None:
                return inside
    if node.op == "*":
        for one, other in (node.args, node.args[::-1]):
            inside = _coefficient(one, name, bounds, depth + 1)
            by = bounds.exact(other) if inside is not None else None
            if inside is not None and by is not None:
                return inside * by
    return None


def _copied(node: Node, bounds: Bounds) -> Iterator[Node]:
    """A member of a local struct as the same member of what the struct was copied from."""
    owner = cexpr.plain(node.args[0]) if node.op == "member" else node
    if node.op == "member" and owner.op == "name":
        for found in bounds.definitions(owner.text):
            yield Node("member", (found,), node.text)


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


def _steps(name: str, bounds: Bounds) -> bool:
    """Whether a buffer is read both at an index and at the next one."""
    polys = [from_node(node) for node in bounds.indices(name)]
    return any(
        one is not None and other is not None and (one - other).constant == 1
        for one in polys
        for other in polys
    )


def _walks(name: str, bounds: Bounds) -> tuple[str, ...]:
    """Loop variables whose bounds are values of a buffer."""
    found = []
    for variable, start, end in bounds.loops():
        if _coefficient(start, name, bounds) is not None or _coefficient(end, name, bounds) is not None:
            found.append(variable)
    return tuple(found)


def _matrix(starts: str, bounds: Bounds, known: Extents) -> tuple[Poly, Poly, tuple[str, ...]] | None:
    """Rows, nonzeros and per-nonzero buffers of the sparse matrix whose row offsets are in `starts`."""
    variables = _walks(starts, bounds) if _steps(starts, bounds) else ()
    entries = tuple(
        other
        for other in known.counts
        if other != starts
        and any(cexpr.plain(node) == cexpr.name(v) for node in bounds.indices(other) for v in variables)
    )
    if not entries:
        return None
    return known.counts[starts] - number(1), known.counts[entries[0]], entries


def _row_starts(name: str, bounds: Bounds, known: Extents) -> Contents | None:
    matrix = _matrix(name, bounds, known)
    if matrix is None:
        return None
    rows, entries, others = matrix
    widths = [_width(other, bounds, known) for other in others]
    columns = next((width for width in widths if width is not None), None)
    params = {"rows": rows.expr(), "nnz": entries.expr(), **({} if columns is None else {"cols": columns})}
    return Contents(Init("csr_offsets", params), f"row offsets into {', '.join(others)}")


def _width(name: str, bounds: Bounds, known: Extents) -> int | float | str | None:
    """The exclusive upper limit of the values in a buffer of column indices."""
    if known.elements[name].dtype in types.FLOATS:
        return None
    places = _places(name, bounds, known)
    return places.init.params["high"] if places else None


def _columns(name: str, bounds: Bounds, known: Extents) -> Contents | None:
    for starts, element in known.elements.items():
        if starts == name or element.dtype in types.FLOATS:
            continue
        matrix = _matrix(starts, bounds, known)
        if matrix is None or name not in matrix[2]:
            continue
        columns = _width(name, bounds, known)
        if columns is None:
            return None
        params = {"rows": matrix[0].expr(), "nnz": matrix[1].expr(), "cols": columns}
        return Contents(Init("csr_columns", params), f"column indices that match {starts}")
    return None
