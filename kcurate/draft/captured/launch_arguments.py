"""What recorded launches passed, by the kernel's parameters: numbers, structs, and pointers into allocations.

Structs by value are split into members, by their layout in the kernel's text. Not covered: expressions for
the numbers (`candidate_expressions`), the problem (`from_launches`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kcurate.draft.sketch import Reason, Remark
from kcurate.problem import c_types as types
from kcurate.problem.c_types import Element
from kcurate.problem.dtypes import numpy_dtype
from kcurate.records import CapturedArg, CapturedLaunch, CapturedPointer, Kernel, StructField

_TEXTURES = re.compile(r"cuda(?:Texture|Surface)Object_t|texture\s*<")


@dataclass(frozen=True)
class Pointer:
    """A pointer argument, or a pointer in a struct: `path` is how the kernel writes it, such as `p.x`.

    It is `at` bytes into its argument.
    """

    name: str
    path: str
    param: int
    element: Element
    targets: tuple[CapturedPointer, ...]
    at: int = 0


@dataclass(frozen=True)
class Number:
    """A scalar argument, or a `member` of a struct, with its value in each launch."""

    name: str
    param: int
    dtype: str
    values: tuple[int | float, ...]
    member: str | None = None

    @property
    def whole(self) -> tuple[int, ...] | None:
        """The values if they are integers that may be sizes, else None."""
        integer = numpy_dtype(self.dtype).kind in "iu"
        return tuple(int(value) for value in self.values) if integer else None


@dataclass
class Arguments:
    """All arguments; by the parameter's place, `fields` are the members of structs with numbers in them.

    `nulls`: the places of null pointers.
    """

    pointers: list[Pointer] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    fields: dict[int, tuple[StructField, ...]] = field(default_factory=dict)
    nulls: set[int] = field(default_factory=set)
    remarks: list[Remark] = field(default_factory=list)


@dataclass(frozen=True)
class Reader:
    """Reads the arguments of launches of one kernel; `names` are typedefs, macros and template arguments.

    `aligned`: structs in the code are aligned or packed by hand.
    """

    kernel: Kernel
    launches: Sequence[CapturedLaunch]
    names: Mapping[str, str]
    code: str
    aligned: bool = False

    def read(self) -> Arguments:
        """The arguments; what cannot be passed on by a plan is an open remark."""
        found = Arguments()
        for place, param in enumerate(self.kernel.params):
            name = param.name or f"argument_{place}"
            given = [launch.args[place] for launch in self.launches]
            size = len(given[0].hex) // 2
            element = types.element(param.type, self.names, self.code)
            if param.pointer and not any(arg.pointers or arg.hex.strip("0") for arg in given):
                found.nulls.add(place)
            elif param.pointer:
                element = types.pointee(param.type, self.names, self.code, aligned=self.aligned)
                self._pointer(found, name, place, param.type, element, given)
            elif element is not None and element.lanes == 1 and element.size_bytes == size:
                values = tuple(_value(arg, element.dtype, 0) for arg in given)
                found.numbers.append(Number(name, place, element.dtype, values))
            elif size == 1 and types.empty(param.type, self.names, self.code):
                found.numbers.append(Number(name, place, "uint8", (0,) * len(given)))
            elif not self._struct(found, name, place, param.type, given):
                reason = Reason.TEXTURE if _TEXTURES.search(param.type) else Reason.STRUCT_ARGUMENT
                found.remarks.append(Remark(f"scalars.{name}", f"a {param.type} by value", reason))
        return found

    def _pointer(
        self,
        found: Arguments,
        name: str,
        place: int,
        type_text: str,
        element: Element | None,
        given: Sequence[CapturedArg],
        path: str | None = None,
        at: int = 0,
    ) -> None:
        """Add a pointer `at` bytes into its argument."""
        if element is None or type_text.count("*") > 1:
            reason = Reason.STRUCT_ELEMENTS if type_text.count("*") == 1 else Reason.POINTER_TO_POINTERS
            text = f"the element type behind {type_text}"
            found.remarks.append(Remark(f"buffers.{name}.dtype", text, reason))
            return
        targets = tuple(one for arg in given for one in arg.pointers if one.at == at)
        if len(targets) != len(given):
            text = f"{name} is null in some launches, or points into no allocation; plans cannot pass that"
            found.remarks.append(Remark("plan.args", text, Reason.NO_VALUE))
            return
        found.pointers.append(Pointer(name, path or name, place, element, targets, at))

    def _struct(
        self, found: Arguments, name: str, place: int, type_text: str, given: Sequence[CapturedArg]
    ) -> bool:
        """Add a struct of numbers and pointers; False: it holds something else, or is laid out otherwise."""
        held = {one.at for arg in given for one in arg.pointers}
        inside = types.layout(type_text, self.names, self.code, pointers=not self.aligned)
        if inside is None or types.size_of(inside) != len(given[0].hex) // 2:
            return False
        pointers = [one for one in inside if one.pointer and one.at in held]
        if held != {one.at for one in pointers}:
            return False
        nulls = [one for one in inside if one.pointer and one.at not in held]
        if any(_value(arg, one.field.dtype, one.at) for arg in given for one in nulls):
            return False  # it points into no allocation
        for one in inside:
            own, path = f"{name}_{one.field.name}", f"{name}.{one.path}"
            if one in pointers:
                element = types.pointee(one.pointer, self.names, self.code, aligned=self.aligned)
                self._pointer(found, own, place, one.pointer, element, given, path, one.at)
            else:
                dtype = one.field.dtype
                values = tuple(_value(arg, dtype, one.at) for arg in given)
                found.numbers.append(Number(own, place, dtype, values, one.field.name))
        if len(pointers) < len(inside):
            found.fields[place] = tuple(one.field for one in inside)
        return True


def _value(arg: CapturedArg, dtype: str, at: int) -> int | float:
    kind = numpy_dtype(dtype)
    (value,) = np.frombuffer(bytes.fromhex(arg.hex), kind, 1, at)
    return int(value) if kind.kind in "iub" else float(value)
