"""The specialisation of a Triton function for one launch: the types of its arguments, and facts about them.

As in Triton's own launcher, an integer argument of 1 becomes a constant that is not passed, and pointers and
integers divisible by 16 are marked. A specialisation is the template of an entry point in a bound plan, so
each one is compiled separately. Not covered: binding (`kcurate.problem.triton_launch`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

Constant = int | float | bool | str | None
DIVISOR = 16


@dataclass(frozen=True)
class Parameter:
    """An argument as Triton sees it: its type (`*fp32`, `i32`), or the constant 1 (`one`)."""

    type: str
    divisible: bool = False
    one: bool = False

    def __str__(self) -> str:
        return "=1" if self.one else f"{self.type}:{DIVISOR}" if self.divisible else self.type


@dataclass(frozen=True)
class Specialised:
    """The passed parameters in order, the constants by name, and the two options of a compilation."""

    parameters: tuple[Parameter, ...]
    constants: Mapping[str, Constant]
    num_warps: int
    num_stages: int

    @property
    def template(self) -> tuple[str, ...]:
        """The specialisation as text, for an entry point."""
        constants = (f"{name}={json.dumps(value)}" for name, value in sorted(self.constants.items()))
        options = (f"@num_warps={self.num_warps}", f"@num_stages={self.num_stages}")
        return (*map(str, self.parameters), *constants, *options)

    @classmethod
    def of(cls, template: tuple[str, ...]) -> Specialised:
        """The specialisation that `template` describes."""
        parameters: list[Parameter] = []
        constants: dict[str, Constant] = {}
        for text in template:
            name, equals, value = text.partition("=")
            if equals and name:
                constants[name] = json.loads(value)
            elif equals:
                parameters.append(Parameter("i32", one=True))
            else:
                kind, _, divisor = text.partition(":")
                parameters.append(Parameter(kind, bool(divisor)))
        options = [int(constants.pop(name) or 0) for name in ("@num_warps", "@num_stages")]
        return cls(tuple(parameters), constants, *options)
