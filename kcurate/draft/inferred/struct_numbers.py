"""Structs that are passed by value: values for their numeric members, and the pointers among them.

For `struct Grid { int nx; float dx; float *cells; }`, passed as `grid`: `nx` is what the host sets it to,
else a new size `grid_nx`; `dx` is the host's number, else guessed; `cells` is a pointer at byte 8.
Not covered: where members lie (`kcurate.problem.c_types`), records of launches (`launch_arguments`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kcurate.cuda_source.semantics.pointer_paths import path_in
from kcurate.draft.algebra import Poly, factor
from kcurate.draft.inferred.launch_configuration import GUESSED_WHOLE, Site
from kcurate.draft.sketch import Remark
from kcurate.problem import c_types as types
from kcurate.records import BufferArg, Expr, PointersArg, Scalar

# Different, since equal ones hide swapped arguments, and make an empty range of a lower and an upper bound.
GUESSED_REALS = (0.5, 0.75, 0.625, 0.875, 0.6875, 0.8125)
GUESSED_LOWER = -0.5
_LOWER = re.compile(r"(?:\A|_)(?:lo|low|lower|min|minimum)(?:\Z|_|[A-Z\d])|(?:Min|Low|Lower)\Z")
PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def guessed_real(name: str, others: Iterable[Expr | float]) -> float:
    """A value for a real number of which only the name is known, and the values of others."""
    used = list(others)
    free = (value for value in GUESSED_REALS if value not in used)
    return GUESSED_LOWER if _LOWER.search(name) else next(free, GUESSED_REALS[0])


def integers_over_sizes(
    name: str, text: str, members: tuple[types.PlacedMember, ...], site: Site, code: str
) -> dict[str, Poly]:
    """Expressions of the integer members that the code reads, by path: the host's value, else a size."""
    owner = path_in(text)
    values = {}
    for member in members:
        if not member.real and _reads(code, member):
            plain = PATH.fullmatch(owner) and "[" not in member.path
            host_value = site.poly(f"{owner}.{member.path}") if plain else None
            values[f"{name}.{member.path}"] = (
                host_value if host_value is not None else factor(f"{name}_{member.field.name}")
            )
    return values


def scalar_of(
    name: str, text: str, members: tuple[types.PlacedMember, ...], values: Mapping[str, Poly], site: Site
) -> tuple[Scalar, list[Remark]]:
    """The struct as a scalar with a value for each member, and a remark on the guessed ones."""
    owner, guessed = path_in(text), []
    values_by_field: dict[str, Expr | float] = {}
    for member in members:
        poly = values.get(f"{name}.{member.path}")
        value: Expr | float | None = poly.expr() if poly is not None else None
        if member.real and PATH.fullmatch(owner):
            value = site.real(f"{owner}.{member.path}")
        if value is None:
            guessed.append(member.field.name)
            others = values_by_field.values()
            value = guessed_real(member.field.name, others) if member.real else GUESSED_WHOLE
        values_by_field[member.field.name] = value
    remarks = [Remark(f"scalars.{name}", f"guess: {', '.join(guessed)}")] if guessed else []
    return Scalar(tuple(member.field for member in members), values_by_field), remarks


def with_pointers(
    pointers: Sequence[str | BufferArg], at: tuple[int, ...] = (), scalar: str | None = None
) -> PointersArg | str:
    """The argument for a struct: its scalar, if it has numbers, with pointers at these byte offsets."""
    if scalar is not None and not pointers:
        return scalar
    return PointersArg(tuple(BufferArg(x) if isinstance(x, str) else x for x in pointers), at, scalar)


def _reads(code: str, member: types.PlacedMember) -> bool:
    """Whether the code mentions the innermost name of a member."""
    last = re.findall(r"[A-Za-z_]\w*", member.path)[-1]
    return re.search(rf"[.>]\s*{last}\b", code) is not None
