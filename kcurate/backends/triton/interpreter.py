"""Triton modules run by Triton's interpreter on host memory; only in a sandboxed worker of the emulator.

Shows correctness without a GPU: one program after the other, with NumPy for the arithmetic, so no races and
no rounding of tensor cores. Not covered: memory (`kcurate.backends.emulator`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter
from triton.runtime.interpreter import (
    InterpreterError,
    TensorHandle,
    _patch_lang,
    interpreter_builder,
)

from kcurate.backends.base import (
    Compiled,
    EntryPoint,
    Grid,
    KernelArg,
    KernelFault,
    argument_bytes,
)
from kcurate.backends.triton import module
from kcurate.errors import ProblemError
from kcurate.problem.ops import POINTER_BYTES
from kcurate.triton_source import Specialised

_NUMPY = {
    "i32": np.int32, "i64": np.int64, "u32": np.uint32, "u64": np.uint64, "fp32": np.float32,
    "fp64": np.float64,
}  # fmt: skip

_FLOATS = {
    tl.float32: np.dtype(np.float32),
    tl.float16: np.dtype(np.float16),
    tl.bfloat16: np.dtype(ml_dtypes.bfloat16),
    tl.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
    tl.float8e5: np.dtype(ml_dtypes.float8_e5m2),
}


def _patched_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
    """Triton keeps bfloat16 as the bits of uint16, and multiplies these (3.6)."""
    return _DOT(self, *map(_widened, (a, b)), *rest)


def _widened(handle: Any) -> Any:
    if handle.dtype.scalar != tl.bfloat16:
        return handle
    return TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


def _patched_convert(data: Any, source: Any, target: Any, rounding: Any) -> Any:
    """Triton cuts bits off for bfloat16, and a value that rounds up to a power of two becomes half of it.

    A GPU rounds to the nearest, and to the largest 8-bit float beyond it.
    """
    narrow = _FLOATS.get(target)
    if rounding == ir.ROUNDING_MODE.RTZ or narrow is None or source not in _FLOATS:
        return _CONVERT(data, source, target, rounding)
    values = data.view(_FLOATS[source])
    if narrow.itemsize == 1:
        largest = values.dtype.type(ml_dtypes.finfo(narrow).max)  # type: ignore[no-untyped-call]
        values = np.clip(values, -largest, largest)
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(narrow).view(f"u{narrow.itemsize}")


def _patched_tensor(tensor: Any, scope: Any) -> None:
    """Triton makes an index of an array of one element, which NumPy 2.4 refuses."""
    _TENSOR(tensor, scope)
    tensor.__index__ = lambda self: int(self.handle.data.item())


_DOT = interpreter.InterpreterBuilder.create_dot
_CONVERT = interpreter._convert_float
_TENSOR = interpreter._patch_lang_tensor
interpreter.InterpreterBuilder.create_dot = _patched_dot
interpreter._convert_float = _patched_convert
interpreter._patch_lang_tensor = _patched_tensor


class Interpreted:
    """A module that was executed, as a loaded binary.

    Raises:
        KernelFault: the text does not run.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        try:
            self._names = module.executed(compiled.binary.decode())
        except ProblemError as error:
            raise KernelFault("launch_error", error.what) from error

    def launch(self, entry: EntryPoint, grid: Grid, args: Sequence[KernelArg]) -> None:
        """Run every program of a launch.

        Raises:
            KernelFault: the function raised.
        """
        wanted, function = Specialised.of(entry.template), self._names[entry.name]
        sizes = [
            POINTER_BYTES if one.type.startswith("*") else np.dtype(_NUMPY[one.type]).itemsize
            for one in wanted.parameters
            if not one.one
        ]
        data = iter(argument_bytes(args, sizes))
        try:
            values = {name: module.constant(value) for name, value in wanted.constants.items()}
        except ProblemError as error:
            raise KernelFault("launch_error", error.what) from error
        fixed = _constexprs(function) | wanted.constants.keys()
        names = [name for name in function.arg_names if name not in fixed]
        for name, one in zip(names, wanted.parameters, strict=True):
            values[name] = 1 if one.one else _value(one.type, next(data))
        scope = _patch_lang(function.fn)
        try:
            interpreter_builder.set_grid_dim(*grid.grid)
            run = function.rewrite()
            with np.errstate(all="ignore"):
                for place in itertools.product(*map(range, grid.grid)):
                    interpreter_builder.set_grid_idx(*place)
                    run(**values)
        except Exception as error:
            raise KernelFault("launch_error", f"{entry.name}: {_told(error)}") from error
        finally:
            scope.restore()


def _constexprs(function: Any) -> frozenset[str]:
    return frozenset(name for name, kind in function.fn.__annotations__.items() if kind is tl.constexpr)


def _value(kind: str, data: bytes) -> Any:
    """An argument as the interpreter's tensor of one element."""
    numpy = np.uint64 if kind.startswith("*") else _NUMPY[kind]
    known = tl.str_to_ty(kind, None)
    return tl.tensor(TensorHandle(np.frombuffer(data, numpy).copy(), known), known)


def _told(error: BaseException) -> str:
    """The first cause in one line."""
    while isinstance(error, InterpreterError) and error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
