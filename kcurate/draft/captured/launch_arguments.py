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
    """The arguments of all launches. `fields`: by position, the members of structs that hold numbers.

    `nulls`: the positions of null pointers.
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
        """The arguments; what a plan cannot pass becomes an open remark."""
        arguments = Arguments()
        for position, param in enumerate(self.kernel.params):
            name = param.name or f"argument_{position}"
            passed = [launch.args[position] for launch in self.launches]
            size = len(passed[0].hex) // 2
            element = types.element(param.type, self.names, self.code)
            if param.pointer and not any(arg.pointers or arg.hex.strip("0") for arg in passed):
                arguments.nulls.add(position)
            elif param.pointer:
                element = types.pointee(param.type, self.names, self.code, aligned=self.aligned)
                self._pointer(arguments, name, position, param.type, element, passed)
            elif element is not None and element.lanes == 1 and element.size_bytes == size:
                values = tuple(_value(arg, element.dtype, 0) for arg in passed)
                arguments.numbers.append(Number(name, position, element.dtype, values))
            elif size == 1 and types.is_empty_struct(param.type, self.names, self.code):
                arguments.numbers.append(Number(name, position, "uint8", (0,) * len(passed)))
            elif not self._struct(arguments, name, position, param.type, passed):
                reason = Reason.TEXTURE if _TEXTURES.search(param.type) else Reason.STRUCT_ARGUMENT
                arguments.remarks.append(Remark(f"scalars.{name}", f"a {param.type} by value", reason))
        return arguments

    def _pointer(
        self,
        arguments: Arguments,
        name: str,
        position: int,
        type_text: str,
        element: Element | None,
        passed: Sequence[CapturedArg],
        path: str | None = None,
        at: int = 0,
    ) -> None:
        """Add a pointer `at` bytes into its argument."""
        if element is None or type_text.count("*") > 1:
            reason = Reason.STRUCT_ELEMENTS if type_text.count("*") == 1 else Reason.POINTER_TO_POINTERS
            text = f"the element type behind {type_text}"
            arguments.remarks.append(Remark(f"buffers.{name}.dtype", text, reason))
            return
        targets = tuple(pointer for arg in passed for pointer in arg.pointers if pointer.at == at)
        if len(targets) != len(passed):
            text = f"{name} is null in some launches, or points into no allocation; plans cannot pass that"
            arguments.remarks.append(Remark("plan.args", text, Reason.NO_VALUE))
            return
        arguments.pointers.append(Pointer(name, path or name, position, element, targets, at))

    def _struct(
        self, arguments: Arguments, name: str, position: int, type_text: str, passed: Sequence[CapturedArg]
    ) -> bool:
        """Add a struct of numbers and pointers; returns False if it has other members, or another layout."""
        pointer_offsets = {pointer.at for arg in passed for pointer in arg.pointers}
        members = types.layout(type_text, self.names, self.code, pointers=not self.aligned)
        if members is None or types.size_of(members) != len(passed[0].hex) // 2:
            return False
        pointers = [member for member in members if member.pointer and member.at in pointer_offsets]
        if pointer_offsets != {member.at for member in pointers}:
            return False
        nulls = [member for member in members if member.pointer and member.at not in pointer_offsets]
        if any(_value(arg, member.field.dtype, member.at) for arg in passed for member in nulls):
            return False  # it points into no allocation
        for member in members:
            name_of_member, path = f"{name}_{member.field.name}", f"{name}.{member.path}"
            if member in pointers:
                element = types.pointee(member.pointer, self.names, self.code, aligned=self.aligned)
                self._pointer(
                    arguments, name_of_member, position, member.pointer, element, passed, path, member.at
                )
            else:
                dtype = member.field.dtype
                values = tuple(_value(arg, dtype, member.at) for arg in passed)
                arguments.numbers.append(Number(name_of_member, position, dtype, values, member.field.name))
        if len(pointers) < len(members):
            arguments.fields[position] = tuple(member.field for member in members)
        return True


def _value(arg: CapturedArg, dtype: str, at: int) -> int | float:
    kind = numpy_dtype(dtype)
    (value,) = np.frombuffer(bytes.fromhex(arg.hex), kind, 1, at)
    return int(value) if kind.kind in "iub" else float(value)
