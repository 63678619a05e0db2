"""Turns grids, blocks and shared memory from Python into expressions over a kernel's integers.

A function of sizes is called once with symbols, which record its arithmetic as text. Not covered: what
expressions mean (`kcurate.problem.expressions`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcurate.errors import InputError, ProblemError
from kcurate.problem.expressions import evaluate, names_in
from kcurate.records import Expr

AXES = 3
# An axis: a number, text over the kernel's integer parameters, or a function of them; or one for each axis.
Extent = int | str | Callable[..., Any]
Extents = Extent | Sequence[Extent]
_FORMS = "a number, text such as '(n + 255) / 256', a function of sizes, or up to three of these"


@dataclass(frozen=True)
class Launching:
    """How a kernel is launched; expressions over its integer parameters."""

    grid: tuple[Expr, ...]
    block: tuple[Expr, ...]
    shared_bytes: Expr = 0
    cooperative: bool = False

    @classmethod
    def of(cls, grid: Any, block: Any, shared_bytes: Any = 0, cooperative: bool = False) -> Launching:
        """The launch configuration from Python values (see `Extents`).

        Raises:
            InputError: not a launch configuration.
        """
        (shared,) = expressions(shared_bytes, "shared_bytes", most=1)
        return cls(expressions(grid, "grid"), expressions(block, "block"), shared, cooperative)

    def at(self, sizes: Mapping[str, int]) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
        """Grid, block and shared bytes of one call.

        Raises:
            InputError: an unknown name, or a number out of range.
        """
        grid, block = _extents(self.grid, sizes, "grid"), _extents(self.block, sizes, "block")
        return grid, block, _value(self.shared_bytes, sizes, "shared_bytes", least=0)


class Symbol:
    """Stands for an integer, and records as text what is computed from it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def __neg__(self) -> Symbol:
        return Symbol(f"(0 - {self.text})")

    def _refuse(self, *_: object) -> Any:
        raise InputError(
            f"computes something from {self.text} that is not + - * // or %",
            hint="write // for a division, and min and max in text: 'min(n, 1024)'",
        )

    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __index__ = __int__ = __float__ = _refuse


def _operator(sign: str) -> tuple[Callable[[Symbol, object], Symbol], Callable[[Symbol, object], Symbol]]:
    def text_of(value: object) -> str:
        if isinstance(value, Symbol):
            return value.text
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            return str(int(value)) if value >= 0 else f"(0 - {-int(value)})"
        raise InputError(f"computes with {value!r}, which is no whole number")

    def left(self: Symbol, other: object) -> Symbol:
        return Symbol(f"({self.text} {sign} {text_of(other)})")

    def right(self: Symbol, other: object) -> Symbol:
        return Symbol(f"({text_of(other)} {sign} {self.text})")

    return left, right


for _name, _sign in {"add": "+", "sub": "-", "mul": "*", "floordiv": "/", "mod": "%"}.items():
    _left, _right = _operator(_sign)
    setattr(Symbol, f"__{_name}__", _left)
    setattr(Symbol, f"__r{_name}__", _right)


def expressions(value: Any, where: str, most: int = AXES) -> tuple[Expr, ...]:
    """One expression for each axis: from a number, text, a function of sizes, or a sequence of these.

    Raises:
        InputError: not one of these.
    """
    if callable(value):
        value = _traced(value, where)
    axes = value if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(axes) <= most:
        raise InputError(f"has {len(axes)} axes", where=where, hint=_FORMS)
    return tuple(_expression(axis, where) for axis in axes)


def _expression(axis: Any, where: str) -> Expr:
    if callable(axis):
        axis = _traced(axis, where)
    if isinstance(axis, Symbol):
        return axis.text
    if isinstance(axis, str) and axis.strip():
        text = axis.replace("//", "/").strip()
        try:
            names_in(text)
        except ProblemError as error:
            raise InputError(f"{axis!r}: {error.what}", where=where, hint=_FORMS) from error
        return text
    if isinstance(axis, int | np.integer) and not isinstance(axis, bool):
        return int(axis)
    raise InputError(f"{axis!r} is no launch configuration", where=where, hint=_FORMS)


def _traced(function: Callable[..., Any], where: str) -> Any:
    """What a function of sizes returns when it is called with a symbol for each of its parameters."""
    try:
        return function(*map(Symbol, inspect.signature(function).parameters))
    except InputError as error:
        raise InputError(error.what, where=where, hint=error.hint) from error
    except Exception as error:  # the function is the user's code, which may raise anything
        raise InputError(f"the function of sizes failed: {error}", where=where, hint=_FORMS) from error


def _extents(axes: tuple[Expr, ...], sizes: Mapping[str, int], where: str) -> tuple[int, int, int]:
    values = [_value(axis, sizes, where, least=1) for axis in axes]
    x, y, z = [*values, *[1] * (AXES - len(values))]
    return x, y, z


def _value(expression: Expr, sizes: Mapping[str, int], where: str, least: int) -> int:
    try:
        number = evaluate(expression, sizes)
    except ProblemError as error:
        known = f"the sizes are {', '.join(sizes)}" if sizes else "there is no integer among the arguments"
        raise InputError(f"{expression}: {error.what}", where=where, hint=known) from error
    if number < least:
        raise InputError(f"{expression} is {number} for these arguments", where=where)
    return number
