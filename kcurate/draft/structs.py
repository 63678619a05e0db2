"""Structs of numbers that are passed by value: their members, and the scalar that gives each a value.

Members of structs and arrays inside count as members of their own, with names joined by `_`. Not covered:
structs that hold pointers, records of launches (`arguments`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kcurate.cuda_source.paths import path_in
from kcurate.draft.algebra import Poly, factor
from kcurate.draft.launching import GUESSED_WHOLE, Site
from kcurate.draft.sketch import Remark
from kcurate.problem import c_types as types
from kcurate.problem.dtypes import numpy_dtype, packed
from kcurate.records import Expr, Scalar, StructField

GUESSED_REAL = 0.5
_LANES = "xyzw"
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


@dataclass(frozen=True)
class Inside:
    """A number in a struct: `path` is how code reaches it, such as `box.low[1]`; its offset in bytes."""

    path: str
    field: StructField
    at: int

    @property
    def real(self) -> bool:
        """Whether it is a floating-point number."""
        return self.field.dtype in types.FLOATS


def layout(type_text: str, names: Mapping[str, str], code: str) -> tuple[Inside, ...] | None:
    """Every number in a struct, in order; None: it holds something else, or a plan packs it otherwise."""
    found = _layout(type_text, names, code, "", 0)
    if found is None or not found[0]:
        return None
    inside, size = tuple(found[0]), found[1]
    as_packed = packed([one.field for one in inside])
    return inside if as_packed == ([one.at for one in inside], size) else None


def size_of(inside: tuple[Inside, ...]) -> int:
    """Bytes of a struct, as a plan packs it."""
    return packed([one.field for one in inside])[1]


def _layout(
    type_text: str, names: Mapping[str, str], code: str, path: str, depth: int
) -> tuple[list[Inside], int, int] | None:
    """The numbers from offset 0 on, and size and alignment in bytes."""
    inside = types.members(type_text, names, code)
    if inside is None:
        element = types.element(type_text, names, code)
        if element is None:
            return None
        width = numpy_dtype(element.dtype).itemsize
        lanes = _LANES if element.lanes <= len(_LANES) else [str(lane) for lane in range(element.lanes)]
        paths = [path] if element.lanes == 1 else [_joined(path, lane) for lane in lanes[: element.lanes]]
        parts = [
            Inside(one, StructField(_flat(one), element.dtype), i * width) for i, one in enumerate(paths)
        ]
        size = width * element.lanes
        return parts, size, min(16, size) if element.lanes in (2, 4) else width
    found: list[Inside] = []
    size, alignment = 0, 1
    for member in inside:
        for index in range(member.count):
            own = _joined(path, member.name) + (f"[{index}]" if member.count > 1 else "")
            deep = depth < types.MAX_DEPTH and not set("*&") & set(member.type)
            part = _layout(member.type, names, code, own, depth + 1) if deep else None
            if part is None:
                return None
            size = -(-size // part[2]) * part[2]
            found += [Inside(one.path, one.field, size + one.at) for one in part[0]]
            size, alignment = size + part[1], max(alignment, part[2])
    return found, -(-size // alignment) * alignment, alignment


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _flat(path: str) -> str:
    return "_".join(re.findall(r"\w+", path))


def wholes(name: str, text: str, inside: tuple[Inside, ...], site: Site, code: str) -> dict[str, Poly]:
    """The integers of a struct that the code reads, by their path: what the host gives them, else a size."""
    owner = path_in(text)
    found = {}
    for one in inside:
        if not one.real and _reads(code, one):
            given = (
                site.poly(f"{owner}.{one.path}") if _PATH.fullmatch(owner) and "[" not in one.path else None
            )
            found[f"{name}.{one.path}"] = given if given is not None else factor(f"{name}_{one.field.name}")
    return found


def scalar(
    name: str, text: str, inside: tuple[Inside, ...], values: Mapping[str, Poly], site: Site
) -> tuple[Scalar, list[Remark]]:
    """The struct with a value for each member, and which of them are made up."""
    owner, guessed = path_in(text), []
    given: dict[str, Expr | float] = {}
    for one in inside:
        poly = values.get(f"{name}.{one.path}")
        value: Expr | float | None = poly.expr() if poly is not None else None
        if one.real and _PATH.fullmatch(owner):
            value = site.real(f"{owner}.{one.path}")
        if value is None:
            guessed.append(one.field.name)
            value = GUESSED_REAL if one.real else GUESSED_WHOLE
        given[one.field.name] = value
    remarks = [Remark(f"scalars.{name}", f"guess: {', '.join(guessed)}")] if guessed else []
    return Scalar(tuple(one.field for one in inside), given), remarks


def _reads(code: str, one: Inside) -> bool:
    """Whether the code mentions the innermost name of a member."""
    last = re.findall(r"[A-Za-z_]\w*", one.path)[-1]
    return re.search(rf"[.>]\s*{last}\b", code) is not None
