"""Example calls with arrays and numbers (NumPy, torch) as recorded launches of a kernel.

From there on a problem is drafted as from a running program (`kcurate.draft.captured`): the values are
described, not kept. Not covered: grids and blocks (`launch_expressions`), the draft.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.capture.describing import described
from kcurate.cuda_source.semantics.code_index import Code
from kcurate.cuda_source.text.demangled_names import Demangled
from kcurate.draft.for_pairs.other_kernel import PairKernel, match
from kcurate.draft.sketch import Draft
from kcurate.errors import InputError, ProblemError
from kcurate.own.launch_expressions import Launching
from kcurate.problem import c_types as types
from kcurate.problem.dtypes import DTYPES, numpy_dtype, scalar_bytes
from kcurate.records import (
    Buffer,
    Capture,
    CapturedArg,
    CapturedBuffer,
    CapturedLaunch,
    CapturedPointer,
    Kernel,
    KnownProblem,
    KnownSide,
    Launch,
    Param,
    Problem,
    Sizes,
)

Values = Mapping[str, Any]
POINTER_BYTES = 8
# Our dtype by NumPy's or torch's name. Reversed, so that of several dtypes that are bytes to NumPy the first
# wins.
_NAMES = {kind.name: name for name, kind in reversed(list(DTYPES.items()))}


@dataclass(frozen=True)
class Array:
    """The elements of one array of an example, in C order; `shape` as the user has it."""

    dtype: str
    shape: tuple[int, ...]
    values: npt.NDArray[Any]
    identity: int


def examples(args: object) -> list[Values | Sequence[Any]]:
    """The example calls in `args`: one, by name or in order, or a list of several.

    Raises:
        InputError: it is something else, or empty.
    """
    several = isinstance(args, list | tuple) and all(
        isinstance(call, Mapping | list | tuple) for call in args
    )
    calls: list[Any] = list(args) if several and args else [args]  # type: ignore[call-overload]
    for call in calls:
        if not isinstance(call, Mapping | list | tuple) or not call:
            is_empty = call is None or isinstance(call, Mapping | list | tuple)
            kind = "no arguments" if is_empty else type(call).__name__
            raise InputError(
                f"takes the arguments of a call by name or in order, not {kind}",
                where="args",
                hint="args={'x': x, 'n': x.size}; several examples: a list of them",
            )
    return calls


def by_kernel(
    call: Values | Sequence[Any], slow: PairKernel, fast: PairKernel
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The values of one call in the order of each kernel's parameters.

    A call by name may use the names of either kernel; other parameters are matched as those of the kernels of
    a pair.

    Raises:
        InputError: a value is missing, or belongs to no parameter; or a parameter has no counterpart.
    """
    named = _named(call, slow.kernel, fast.kernel)
    halves = (slow.kernel, fast.kernel)
    if unused := sorted(named.keys() - {param.name for kernel in halves for param in kernel.params}):
        hint = "; ".join(f"{kernel.name} has {_listed(kernel)}" for kernel in reversed(halves))
        raise InputError(f"no parameter {unused[0]!r}", where="args", hint=hint)
    complete = [kernel for kernel in reversed(halves) if all(param.name in named for param in kernel.params)]
    if not complete:
        missing = [param.name for param in fast.kernel.params if param.name not in named]
        raise InputError(f"no value for {', '.join(missing)} of {fast.kernel.name}", where="args")
    return _values(named, complete[0], slow.kernel), _values(named, complete[0], fast.kernel)


def _named(call: Values | Sequence[Any], slow: Kernel, fast: Kernel) -> dict[str, Any]:
    """The call by the names of parameters."""
    if isinstance(call, Mapping):
        return dict(call)
    for kernel in (fast, slow):
        if len(call) == len(kernel.params):
            return {param.name: value for param, value in zip(kernel.params, call, strict=True)}
    raise InputError(f"{len(call)} values for {_listed(fast)} of {fast.name}", where="args")


def _values(named: Values, complete: Kernel, kernel: Kernel) -> tuple[Any, ...]:
    if all(param.name in named for param in kernel.params):
        return tuple(named[param.name] for param in kernel.params)
    matched = match(complete.params, kernel.params)
    if isinstance(matched, str):
        hint = "give both kernels the same parameters, or name all of them in args"
        raise InputError(f"{kernel.name}: {matched} of {complete.name}", where="args", hint=hint)
    return tuple(named[complete.params[place].name] for place in matched)


def _listed(kernel: Kernel) -> str:
    return f"({', '.join(param.name for param in kernel.params)})"


@dataclass(frozen=True)
class ExampleCalls:
    """Calls of one kernel: for each the values in the order of its parameters, and how it is launched.

    `instance`: the kernel's name, with template arguments where it is a template.
    """

    kernel: Kernel
    code: str
    instance: str
    calls: Sequence[Sequence[Any]]
    launching: Launching

    @cached_property
    def capture(self) -> Capture:
        """The calls as recorded launches.

        Raises:
            InputError: a value is not of its parameter's type, or differs in kind between examples.
        """
        reading = _Reading.of(self)
        calls = [[reading.value(param, value) for param, value in self._pairs(call)] for call in self.calls]
        for param, values in zip(self.kernel.params, zip(*calls, strict=True), strict=True):
            _same_kind(param, values)
        launches = tuple(
            self._launch(values, sizes) for values, sizes in zip(calls, self.sizes(), strict=True)
        )
        return Capture("examples", self.instance, self.instance, "cudart", "", (), launches)

    def sizes(self) -> list[dict[str, int]]:
        """The integers of each call by the parameter's name."""
        by_value = (
            [(param, value) for param, value in self._pairs(call) if not param.pointer] for call in self.calls
        )
        return [
            {param.name: int(value) for param, value in of_call if _whole(_plain(value))}
            for of_call in by_value
        ]

    def hints(self) -> Draft:
        """A draft with what the calls show beyond numbers: the launch, and the extents of arrays, over
        parameters."""
        kernel, buffers = self.kernel, {}
        for index, param in enumerate(kernel.params):
            arrays = [array_of(call[index], param.name) for call in self.calls] if param.pointer else []
            shapes = [array.shape for array in arrays if array is not None]
            if len(shapes) == len(self.calls) and (extent := self._extent(shapes)):
                buffers[param.name] = Buffer("uint8", (extent,))
        names = tuple(param.name for param in kernel.params)
        grid, block, shared_bytes = self.launching.grid, self.launching.block, self.launching.shared_bytes
        launch = Launch(kernel.name, grid, block, names, shared_bytes=shared_bytes)
        problem = Problem(Sizes((), {}), buffers)
        known = KnownProblem(kernel.source.suite, kernel.benchmark, problem, {"": KnownSide((launch,))})
        return Draft(kernel.id, known)

    def _extent(self, shapes: Sequence[tuple[int, ...]]) -> str | None:
        """The number of elements over parameters, if each axis is that of exactly one of them."""
        sizes = self.sizes()
        if len({len(shape) for shape in shapes}) > 1:
            return None
        names = []
        for axis in zip(*shapes, strict=True):
            if set(axis) == {1}:
                continue
            fitting = [name for name in sizes[0] if [call.get(name) for call in sizes] == list(axis)]
            if len(fitting) != 1:
                return None
            names += fitting
        return "*".join(names) or None

    def _pairs(self, call: Sequence[Any]) -> list[tuple[Param, Any]]:
        return list(zip(self.kernel.params, call, strict=True))

    def _launch(self, values: Sequence[Array | bytes | None], sizes: Mapping[str, int]) -> CapturedLaunch:
        arrays: dict[int, int] = {}
        args: list[CapturedArg] = []
        buffers: list[CapturedBuffer] = []
        for param, value in zip(self.kernel.params, values, strict=True):
            if isinstance(value, bytes):
                args.append(CapturedArg(value.hex()))
                continue
            pointers: tuple[CapturedPointer, ...] = ()
            if value is not None:
                if value.identity not in arrays:
                    arrays[value.identity] = len(buffers)
                    buffers.append(_buffer(param, value))
                pointers = (CapturedPointer(0, arrays[value.identity]),)
            args.append(CapturedArg("00" * POINTER_BYTES, pointers))
        grid, block, shared = self.launching.at(sizes)
        cooperative, passed = self.launching.cooperative, (tuple(args), tuple(buffers))
        return CapturedLaunch(grid, block, *passed, shared_bytes=shared, cooperative=cooperative)


@dataclass(frozen=True)
class _Reading:
    """Reads values as the kernel's parameters take them; `names` are typedefs, macros, template arguments."""

    device: Code
    names: Mapping[str, str]

    @classmethod
    def of(cls, calls: ExampleCalls) -> _Reading:
        device = Code(calls.code.encode())
        functions = [function for function in device.functions if function.name == calls.kernel.name]
        params = functions[0].template if functions else ()
        template = Demangled.of(calls.instance).template
        if len(params) > len(template):
            raise InputError(
                f"{calls.kernel.name} is a template over {', '.join(params)}",
                hint=f"say which instance: kernel='{calls.kernel.name}<float>'",
            )
        return cls(device, {**device.types, **device.macros, **dict(zip(params, template, strict=False))})

    def value(self, param: Param, value: Any) -> Array | bytes | None:
        """An array, the bytes of a value, or None for a null pointer."""
        return self._array(param, value) if param.pointer else self._bytes(param, value)

    def _array(self, param: Param, value: Any) -> Array | None:
        if value is None:
            return None
        array = array_of(value, param.name)
        if array is None:
            raise InputError(f"takes an array, not {_kind(value)}", where=_place(param))
        element = types.pointee(param.type, self.names, self.device.text, aligned=self.device.aligned)
        if not array.values.size:
            raise InputError("is empty", where=_place(param), hint="examples need at least one element")
        if element is None:
            raise InputError(f"the element type behind {param.type} is not known", where=_place(param))
        if not element.fields and element.dtype != array.dtype:
            raise InputError(f"takes {element.dtype}, not {array.dtype}", where=_place(param))
        if array.values.nbytes % element.size_bytes:
            what = f"{array.values.nbytes} bytes are no multiple of the element's {element.size_bytes}"
            raise InputError(what, where=_place(param))
        return array

    def _bytes(self, param: Param, value: Any) -> bytes:
        element = types.element(param.type, self.names, self.device.text)
        if isinstance(value, bytes | np.void):
            return value if isinstance(value, bytes) else value.tobytes()
        if element is None or element.lanes != 1:
            hint = "give its bytes, or a value of a structured NumPy type"
            raise InputError(f"a {param.type} by value, not {_kind(value)}", where=_place(param), hint=hint)
        number = _plain(value)
        real = element.dtype in types.FLOATS
        if not isinstance(number, int | float) or (isinstance(number, float) and not real):
            raise InputError(f"takes {element.dtype}, not {_kind(value)}", where=_place(param))
        try:
            return scalar_bytes(element.dtype, number)
        except ProblemError as error:
            raise InputError(error.what, where=_place(param)) from error


def array_of(value: Any, name: str) -> Array | None:
    """A NumPy array or torch tensor; None: it is neither.

    Raises:
        InputError: its element type is unknown, or its elements are not in C order.
    """
    shape = tuple(getattr(value, "shape", ()))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        contiguous, kind = value.is_contiguous(), str(value.dtype).removeprefix("torch.")
    elif isinstance(value, np.ndarray):
        contiguous, kind = bool(value.flags.c_contiguous), value.dtype.name
        kind = "uint8" if value.dtype.kind == "V" and kind not in _NAMES else kind
    else:
        return None
    if not contiguous:
        raise InputError("is not contiguous", where=f"args[{name!r}]", hint="pass a copy in C order")
    if kind not in _NAMES:
        hint = f"one of {', '.join(DTYPES)}"
        raise InputError(f"no buffer holds {kind}", where=f"args[{name!r}]", hint=hint)
    if isinstance(value, np.ndarray):
        flat = value.reshape(-1).view(np.uint8)
    else:
        assert torch is not None
        flat = value.detach().cpu().reshape(-1).view(torch.uint8).numpy()
    dtype = _NAMES[kind]
    return Array(dtype, shape, flat.view(numpy_dtype(dtype)), id(value))


def _buffer(param: Param, array: Array) -> CapturedBuffer:
    """A recorded allocation, without contents for an input whose elements are all equal (a placeholder)."""
    contents = described(array.values, array.dtype)
    placeholder = "const" in param.type and contents.init is not None and contents.init.kind in _ALL_EQUAL
    return CapturedBuffer(array.values.nbytes, before=None if placeholder else contents)


_ALL_EQUAL = frozenset({"zeros", "ones", "constant"})


def _same_kind(param: Param, values: Sequence[Array | bytes | None]) -> None:
    """Refuse examples that pass different kinds of values, or arrays of different element types."""
    kinds = [value.dtype if isinstance(value, Array) else type(value).__name__ for value in values]
    if len(set(kinds)) > 1:
        kinds_text = " and ".join(dict.fromkeys("None" if kind == "NoneType" else kind for kind in kinds))
        raise InputError(f"the examples disagree: {kinds_text}", where=_place(param))


def _plain(value: Any) -> Any:
    """A number of Python from one of NumPy or torch."""
    return value.item() if getattr(value, "shape", None) == () else value


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _place(param: Param) -> str:
    return f"args[{param.name!r}]"


def _kind(value: Any) -> str:
    array = array_of(value, "")
    return f"an array of {array.dtype}" if array is not None else type(value).__name__
