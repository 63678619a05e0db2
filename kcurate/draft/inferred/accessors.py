"""PyTorch's packed accessors as kernel parameters: a buffer, sizes, and a contiguous tensor's strides.

Not covered: tensors that are views of others, whose strides differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kcurate.cuda_source.semantics.code_index import Code
from kcurate.draft.host.name_values import split
from kcurate.problem import c_types as types
from kcurate.records import Expr, StructField

_TYPE = re.compile(
    r"(?:const\s+)?(?:(?:torch|at)::)?(?:Generic)?PackedTensorAccessor(32|64)?\s*<(.*)>\s*(?:const)?\s*&?\s*",
    re.DOTALL,
)
_ACCESSOR_CALL = re.compile(r"(.*?)\s*\.\s*(?:generic_)?packed_accessor(?:32|64)?\s*<.*", re.DOTALL)
MAX_DIMENSIONS = 8
DATA = "data"


def layout(type_text: str, names: Mapping[str, str]) -> tuple[types.PlacedMember, ...] | None:
    """The pointer, sizes and strides of an accessor as they lie in memory; None: it is another type."""
    match = _TYPE.fullmatch(type_text.strip())
    if match is None:
        return None
    element, dimensions, *index_type = (*split(match[2], angles=True), "")
    count = names.get(dimensions.strip(), dimensions.strip())
    if not count.isdigit() or not 0 < int(count) <= MAX_DIMENSIONS:
        return None
    narrow = match[1] == "32" or (match[1] is None and "".join(index_type[1:2]).strip() in ("int", "int32_t"))
    dtype, width = ("int32", 4) if narrow else ("int64", 8)
    fields = [f"{quantity}_{index}" for quantity in ("size", "stride") for index in range(int(count))]
    numbers = (
        types.PlacedMember(field, StructField(field, dtype), 8 + at * width)
        for at, field in enumerate(fields)
    )
    return (types.PlacedMember(DATA, StructField(DATA, types.POINTER), 0, f"{element.strip()} *"), *numbers)


def with_members(body: str, name: str, dimensions: int) -> str:
    """The body of a kernel with an accessor's elements and sizes as its members."""
    body = re.sub(
        rf"\b{re.escape(name)}\s*\.\s*(size|stride)\s*\(\s*(\d+)\s*\)",
        lambda match: (
            f"{name}.size_{match[2]}" if match[1] == "size" else _stride(name, int(match[2]), dimensions)
        ),
        body,
    )
    body = re.sub(rf"\b{re.escape(name)}\s*\.\s*data\s*\(\s*\)", f"{name}.{DATA}", body)
    position = 0
    while match := re.compile(rf"(?<![\w.>])\b{re.escape(name)}\s*(?=\[)").search(body, position):
        position, end = match.end(), match.end()
        indices: list[str] = []
        while len(indices) < dimensions and (opened := re.compile(r"\s*\[").match(body, end)):
            end = _closed(body, opened.end())
            indices.append(body[opened.end() : end - 1])
        if len(indices) == dimensions:
            text = f"({indices[0]})"
            for axis, index in enumerate(indices[1:], 1):
                text = f"({text} * {name}.size_{axis} + ({index}))"
            body = f"{body[: match.start()]}{name}.{DATA}[{text}]{body[end:]}"
    return body


def _stride(name: str, axis: int, dimensions: int) -> str:
    later = [f"{name}.size_{index}" for index in range(axis + 1, dimensions)]
    return f"({' * '.join(later) or '1'})"


def _closed(text: str, at: int) -> int:
    depth = 1
    while depth and at < len(text):
        depth += {"[": 1, "]": -1}.get(text[at], 0)
        at += 1
    return at


def expressions(passed: str, members: Sequence[types.PlacedMember], unit: Code, at: int) -> list[str]:
    """What the host passes for each member; empty if the host code does not show which tensor."""
    settings = [setting.value for setting in unit.settings(passed, at)] if passed.isidentifier() else [passed]
    tensor = _ACCESSOR_CALL.fullmatch(settings[0]) if len(settings) == 1 and settings[0] else None
    if tensor is None:
        return []
    owner = tensor[1]
    return [
        f"{owner}.data_ptr<{member.pointer.rstrip(' *')}>()"
        if member.pointer
        else f"{owner}.size({member.path.rpartition('_')[2]})"
        for member in members
    ]


def with_strides(values: Mapping[str, Expr | float]) -> dict[str, Expr | float]:
    """The members' values with the strides that follow from the sizes."""
    filled = dict(values)
    dimensions = sum(field.startswith("size_") for field in values)
    for axis in range(dimensions):
        later = [values[f"size_{index}"] for index in range(axis + 1, dimensions)]
        filled[f"stride_{axis}"] = " * ".join(f"({value})" for value in later) or 1
    return filled
