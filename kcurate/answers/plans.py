"""The plan of an answer's device code, from recordings at several sizes.

Every number in a recording (an extent of a grid, an argument, a buffer's elements) becomes an expression over
the problem's sizes that gives it at all recorded sizes. If launches differ in form between sizes, the plan is
that of the bench size, and the problem keeps only the test sizes with the same form. Not covered: recording
(`answers.recording`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcurate.answers import host_text
from kcurate.cuda_source import kernel_signatures
from kcurate.kernelbench import sizes as sizing
from kcurate.problem import c_types
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.problem.outputs import elements
from kcurate.records import Buffer, BufferArg, Call, Copy, Expr, Fill, Launch, Problem, Side, Step, ValueArg
from kcurate.records.problem import Arg, Upload

Sizes = Mapping[str, int]
Recording = Mapping[str, Any]
# A grid has no more blocks.
MAX_BLOCKS = 1 << 31


class NoPlan(Exception):  # noqa: N818 - an outcome of an answer, not an error of ours
    """Why recordings give no plan."""


@dataclass(frozen=True)
class Region:
    """The buffer that a recorded address points into (of the problem, or scratch), and the offset."""

    name: str
    offset_bytes: int
    dtype: str
    size_bytes: int


class Places:
    """Maps the addresses of one recording to buffers, by their names in the problem."""

    def __init__(self, recording: Recording, call: Call, problem: Problem) -> None:
        self.memory = sorted(map(tuple, recording["memory"]))
        self.names: dict[int, str] = {}
        self.symbols = {
            event["at"]: event["name"] for event in recording["events"] if event["kind"] == "symbol"
        }
        for name, position in zip(call.args, recording["inputs"], strict=True):
            if position.get("at"):
                self._name(position["at"], name)
        for path, position in recording["state"].items():
            if position["at"] and path in call.state:
                self._name(position["at"], call.state[path])
            elif position["at"]:
                self._name(position["at"], f"?the module's {path}")
        if len(recording["outputs"]) != len(call.to):
            raise NoPlan(f"it returns {len(recording['outputs'])} tensors, the module {len(call.to)}")
        for name, position in zip(call.to, recording["outputs"], strict=True):
            if not position["contiguous"]:
                raise NoPlan("its result is not contiguous")
            start = self._storage(position["at"])[0]
            if start in self.names:
                raise NoPlan(f"its result is its input {self.names[start]}")
            if start != position["at"]:
                raise NoPlan("its result is a part of a tensor")
            self.names[start] = name
        written = [event["to"] for event in recording["events"] if "to" in event]
        for start, size, _ in self.memory:
            if start in recording["earlier"] and not any(start <= at < start + size for at in written):
                self.names.setdefault(start, "?a tensor that it made before")
        self.problem, self.scratch = problem, dict[str, Region]()

    def _storage(self, at: int) -> tuple[int, int, str]:
        for start, size, dtype in self.memory:
            if start <= at < start + size:
                return start, size, dtype
        raise NoPlan("a pointer into memory that no tensor has")

    def _name(self, at: int, name: str) -> None:
        self.names.setdefault(self._storage(at)[0], name)

    def region(self, at: int) -> Region:
        """The region that an address points into."""
        start, size, dtype = self._storage(at)
        name = self.names.get(start)
        if name is None:
            name = self.names[start] = f"scratch{len(self.scratch)}"
            self.scratch[name] = Region(name, 0, dtype, size)
        if name.startswith("?"):
            raise NoPlan(f"it uses {name[1:]}, whose values no buffer of the problem has")
        return Region(name, at - start, dtype, size)


def form(recording: Recording) -> object:
    """The form of a recording: everything but numbers that may depend on sizes. Recordings of one form share
    a plan."""
    return [
        (event["kind"], event.get("name"), event.get("instance"), tuple(event.get("block") or ()),
         [kind for kind, _ in event.get("args", ())])
        for event in recording["events"]
    ]  # fmt: skip


class _Fitting:
    """Expressions for the numbers of recordings at these sizes."""

    def __init__(self, settings: Sequence[Sizes]) -> None:
        self.settings = settings
        self.names = tuple(settings[0])
        self.atoms: dict[str, tuple[int, ...]] = {
            name: tuple(sizes[name] for sizes in settings) for name in self.names
        }

    def expression(self, numbers: Sequence[int], what: str) -> Expr:
        """The expression for one number at every setting."""
        if len(set(numbers)) == 1:
            return numbers[0]
        observed = list(zip(self.settings, numbers, strict=True))
        formula = sizing.formula(self.names, observed) or self._quotient(numbers) or self._capped(observed)
        if formula is None:
            raise NoPlan(f"no expression in {', '.join(self.names)} gives {what}: {list(numbers)[:6]}")
        self.atoms.setdefault(f"({formula})", tuple(numbers))
        return formula

    def _capped(self, observed: Sequence[tuple[Sizes, int]]) -> Expr | None:
        """A formula capped at the largest number: `min(formula, largest)`."""
        most = max(number for _, number in observed)
        below = [(sizes, number) for sizes, number in observed if number < most]
        formula = sizing.formula(self.names, below) if len(below) > 1 else None
        capped = f"min({formula}, {most})"
        right = formula is not None and all(evaluate(capped, sizes) == number for sizes, number in observed)
        return capped if right else None

    def _quotient(self, numbers: Sequence[int]) -> Expr | None:
        """`ceil_div(a, b)` of a known quantity, at most a limit, times another known quantity."""
        for factor, values in ((None, None), *self.atoms.items()):
            if values is not None and any(
                value == 0 or number % value for number, value in zip(numbers, values, strict=True)
            ):
                continue
            rest = numbers if values is None else [n // v for n, v in zip(numbers, values, strict=True)]
            text = next(self._ceilings(rest), None)
            if text is not None:
                return text if factor is None else f"{text} * {factor}"
        return None

    def _ceilings(self, numbers: Sequence[int]) -> Iterator[str]:
        most = max(numbers)
        products = {**self.atoms, **{f"{a} * {b}": tuple(map(math.prod, zip(x, y, strict=True)))
                    for a, x in self.atoms.items() for b, y in self.atoms.items() if a < b}}  # fmt: skip
        for name, values in products.items():
            limits = [most] if numbers.count(most) > 1 else []
            for limit in (None, *limits):
                for up in (True, False):
                    by = _divisor(values, numbers, limit, up)
                    if by is not None:
                        text = f"ceil_div({name}, {by})" if up else f"({name}) / {by}"
                        text = name if by == 1 else text
                        yield text if limit is None else f"min({text}, {limit})"


def _divisor(values: Sequence[int], numbers: Sequence[int], limit: int | None, up: bool) -> int | None:
    """The b with a / b (rounded up or down) equal to every number; a power of two if several fit."""
    low, high = 1, MAX_BLOCKS
    for value, number in zip(values, numbers, strict=True):
        if value < 0 or number < 0:
            return None
        if up:
            least, most = (
                (1, high)
                if number == 0
                else (-(-value // number), (value - 1) // (number - 1) if number > 1 else high)
            )
        else:
            least, most = value // (number + 1) + 1, value // number if number else high
        if limit is not None and number == limit:
            least = 1
        low, high = max(low, least), min(high, most)
    if low > high:
        return None
    power = 1 << (low - 1).bit_length()
    return power if power <= high else low


def plan(code: str, recordings: Sequence[tuple[Sizes, Recording]], problem: Problem, call: Call) -> Side:
    """The side of an answer's device code, from recordings of one form; the first is that of the bench size.

    Raises:
        NoPlan: no plan fits them.
    """
    settings = [sizes for sizes, _ in recordings]
    fit = _Fitting(settings)
    for buffer in problem.buffers.values():
        extents = [
            extent if extent.isidentifier() or extent.isdigit() else f"({extent})"
            for extent in map(str, buffer.shape)
        ]
        fit.atoms.setdefault(f"({' * '.join(extents)})", tuple(elements(buffer, s) for s in settings))
    places = [Places(recording, call, problem) for _, recording in recordings]
    lanes = [
        [event for event in recording["events"] if event["kind"] != "symbol"] for _, recording in recordings
    ]
    if not lanes[0]:
        raise NoPlan("it launches nothing")
    signatures = kernel_signatures(code.encode())
    steps = tuple(_step(events, places, fit, signatures) for events in zip(*lanes, strict=True))
    buffers = {
        name: Buffer(
            region.dtype,
            (
                fit.expression(
                    [position.scratch[name].size_bytes // _width(region.dtype) for position in places], name
                ),
            ),
            role="scratch",
        )
        for name, region in places[0].scratch.items()
    }
    loose = tuple(
        name for name in call.to if "atomic" in code and problem.buffers[name].dtype.startswith("float")
    )
    return Side(code, steps, buffers, nondeterministic=loose)


def _width(dtype: str) -> int:
    return int(numpy_dtype(dtype).itemsize)


def _step(
    events: Sequence[Mapping[str, Any]],
    places: Sequence[Places],
    fit: _Fitting,
    signatures: Mapping[str, Any],
) -> Step:
    kind = events[0]["kind"]
    if kind == "launch":
        return _launch(events, places, fit, signatures)
    target = _pointer([event["to"] for event in events], places, fit, upload=kind == "copy")
    counts = [event["bytes"] for event in events]
    if kind == "fill":
        return _fill(events, target, counts, fit)
    source = _pointer([event["from"] for event in events], places, fit)
    assert isinstance(source, BufferArg)
    width = _width(places[0].region(events[0]["from"]).dtype)
    count = fit.expression([number // width for number in counts], "a copy")
    if isinstance(target, str):
        return Upload(target, source.buffer, source.offset, 0, count)
    return Copy(source.buffer, target.buffer, source.offset, target.offset, count)


def _fill(events: Sequence[Mapping[str, Any]], target: Any, counts: Sequence[int], fit: _Fitting) -> Step:
    value = events[0]["value"]
    if not events[0].get("float") and value:
        raise NoPlan(f"cudaMemset with byte {value}")
    count = fit.expression([number // target.width for number in counts], "a fill")
    return Fill(target.buffer, value, target.offset, count)


@dataclass(frozen=True)
class _Pointed(BufferArg):
    width: int = 4


def _pointer(addresses: Sequence[int], places: Sequence[Places], fit: _Fitting, upload: bool = False) -> Any:
    """A pointer argument as a buffer and an offset; with `upload`, the name of a symbol if it points to
    one."""
    symbols = {position.symbols.get(at) for at, position in zip(addresses, places, strict=True)}
    if upload and symbols != {None} and len(symbols) == 1:
        return symbols.pop()
    regions = [position.region(at) for at, position in zip(addresses, places, strict=True)]
    if len({region.name for region in regions}) > 1:
        raise NoPlan("a pointer into other buffers at other sizes")
    width = _width(regions[0].dtype)
    if any(region.offset_bytes % width for region in regions):
        raise NoPlan("a pointer between two elements")
    offset = fit.expression(
        [region.offset_bytes // width for region in regions], f"an offset into {regions[0].name}"
    )
    return _Pointed(regions[0].name, offset, width)


def _launch(
    events: Sequence[Mapping[str, Any]],
    places: Sequence[Places],
    fit: _Fitting,
    signatures: Mapping[str, Any],
) -> Launch:
    first = events[0]
    name = first["name"]
    kernel = next((kernel for kernel in signatures if kernel.split("::")[-1] == name), None)
    params = signatures[kernel] if kernel is not None else ()
    if kernel is None or len(params) != len(first["args"]):
        raise NoPlan(f"{name} is not in its device code")
    args = tuple(
        _argument([event["args"][index] for event in events], param, places, fit)
        for index, param in enumerate(params)
    )
    grid, block = (
        [fit.expression([event[extents][axis] for event in events], f"the {extents} of {name}")
         for axis in range(3)]
        for extents in ("grid", "block")
    )  # fmt: skip
    shared = fit.expression([event["shared_bytes"] for event in events], f"the shared memory of {name}")
    template = host_text.template_arguments(first["instance"])
    return Launch(kernel, _bare(grid), _bare(block), args, template, shared)


def _bare(extents: Sequence[Expr]) -> tuple[Expr, ...]:
    """Extents without trailing ones."""
    kept = list(extents)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return tuple(kept)


def _argument(values: Sequence[Sequence[Any]], param: Any, places: Sequence[Places], fit: _Fitting) -> Arg:
    kind = values[0][0]
    if kind == "any":  # of CuPy, which takes the type from the signature
        kind = "pointer" if param.pointer else _plain(param)
    numbers = [value for _, value in values]
    if kind == "pointer":
        if not any(numbers):
            return ValueArg(0, "uint64")
        target = _pointer(numbers, places, fit)
        return target.buffer if target.offset == 0 else BufferArg(target.buffer, target.offset)
    if kind == "struct":
        raise NoPlan(f"a struct by value: {param.type} {param.name}")
    if kind == "bool":
        return ValueArg(int(numbers[0]), "bool")
    if kind.startswith("float"):
        if len(set(numbers)) == 1 and math.isfinite(numbers[0]):
            return ValueArg(float(numbers[0]), kind)
        raise NoPlan(f"{param.name} is a number that depends on sizes: {numbers[:4]}")
    expression = fit.expression([int(number) for number in numbers], param.name)
    return ValueArg(expression, kind)


def _plain(param: Any) -> str:
    element = c_types.element(param.type, {}, "")
    if element is None:
        raise NoPlan(f"the type of {param.name}, {param.type}")
    return element.dtype
