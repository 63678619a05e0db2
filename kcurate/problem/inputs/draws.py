"""The input of a generator, and the registry of generators by name.

Not covered: the generators (`kcurate.problem.inputs.generators`), a problem's inputs
(`kcurate.problem.inputs.contents`).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kcurate.errors import ProblemError
from kcurate.problem.expressions import evaluate
from kcurate.problem.inputs.counter_based import Recipe
from kcurate.records import Promise

Array = npt.NDArray[Any]
Params = Mapping[str, int | float | str | bool]


@dataclass(frozen=True)
class Draw:
    """The input of a generator: its random stream, the shape and dtype to fill, and its parameters.

    `density`: the share of elements that `structured` inputs leave large if zero is in their range.
    `rounded_down`: make floats that narrower types all round in one direction. `promises`: properties that
    the values must have in every variation.
    """

    rng: np.random.Generator
    shape: tuple[int, ...]
    dtype: str
    params: Params
    sizes: Mapping[str, int]
    seed: int
    variation: str
    density: float = 1.0
    rounded_down: bool = True
    promises: tuple[Promise, ...] = ()

    @property
    def count(self) -> int:
        """Total number of elements."""
        return math.prod(self.shape)

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer parameter, evaluated over the sizes."""
        value = self.params.get(name, default)
        if value is None:
            raise ProblemError(f"init needs the parameter {name!r}")
        return evaluate(value, self.sizes) if isinstance(value, str) else int(value)

    def real(self, name: str, default: float) -> float:
        """A floating-point parameter."""
        value = self.params.get(name, default)
        return float(evaluate(value, self.sizes)) if isinstance(value, str) else float(value)

    def key(self) -> int:
        """The key of a new counter-based stream."""
        return word(self.rng)

    def stream(self, group: str) -> np.random.Generator:
        """The random stream shared by a group."""
        return np.random.default_rng([self.seed, zlib.crc32(group.encode())])


Generator = Callable[[Draw], Array | Recipe]
G = TypeVar("G", bound=Generator)


def word(rng: np.random.Generator) -> int:
    """Sixty-four random bits."""
    return int(rng.integers(0, 1 << 64, dtype=np.uint64, endpoint=False))


def array_of(values: Array | Recipe) -> Array:
    """The result of a generator as an array."""
    return values.values() if isinstance(values, Recipe) else values


class Parameter(Enum):
    """The type of a generator's parameter."""

    REAL = "a number"
    INTEGER = "an integer or an expression"
    NEEDED = "an integer or an expression, needed"
    TEXT = "text"
    PATH = "a file's path, needed"
    WORDS = "text, needed"


REAL, INTEGER, NEEDED, TEXT, PATH, WORDS = Parameter
GENERATORS: dict[str, Generator] = {}
PARAMETERS: dict[str, Mapping[str, Parameter]] = {}
# The variations of each generator other than `nominal`.
VARIED: dict[str, tuple[str, ...]] = {}


def generator(*, varied: tuple[str, ...] = (), **parameters: Parameter) -> Callable[[G], G]:
    """Register a generator under its function's name, with its variations and its parameters."""

    def register(function: G) -> G:
        name = function.__name__.rstrip("_")
        GENERATORS[name], PARAMETERS[name], VARIED[name] = function, parameters, varied
        return function

    return register
