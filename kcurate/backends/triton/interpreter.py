"""Runs Triton modules with Triton's interpreter on host memory; only in a sandboxed worker of the emulator.

Checks correctness without a GPU. Programs run one after the other with NumPy arithmetic, so races and the
rounding of tensor cores do not show. Not covered: memory (`kcurate.backends.emulator`).
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
from triton.runtime.interpreter import InterpreterError, TensorHandle, _patch_lang, interpreter_builder

from kcurate.backends import base
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


def _patched_dot(self: Any, a: Any, b: Any, *options: Any) -> Any:
    """Work around Triton 3.6: it stores bfloat16 as uint16, and multiplies these as integers."""
    return _DOT(self, *map(_widened, (a, b)), *options)


def _widened(handle: Any) -> Any:
    if handle.dtype.scalar != tl.bfloat16:
        return handle
    return TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


def _patched_convert(data: Any, source: Any, target: Any, rounding: Any) -> Any:
    """Round as a GPU does: to nearest, and to the largest 8-bit float beyond its range.

    Triton's interpreter truncates to bfloat16, and halves a value that rounds up to a power of two.
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
    """Work around NumPy 2.4, which refuses an array of one element as an index."""
    _TENSOR(tensor, scope)
    tensor.__index__ = lambda self: int(self.handle.data.item())


_DOT = interpreter.InterpreterBuilder.create_dot
_CONVERT = interpreter._convert_float
_TENSOR = interpreter._patch_lang_tensor
interpreter.InterpreterBuilder.create_dot = _patched_dot
interpreter._convert_float = _patched_convert
interpreter._patch_lang_tensor = _patched_tensor


class Interpreted:
    """An executed module in the role of a loaded binary.

    Raises:
        KernelFault: the text does not run.
    """

    def __init__(self, compiled: base.Compiled) -> None:
        self.compiled = compiled
        try:
            self._names = module.executed(compiled.binary.decode())
        except ProblemError as error:
            raise base.KernelFault("launch_error", error.what) from error

    def launch(self, entry: base.EntryPoint, grid: base.Grid, args: Sequence[base.KernelArg]) -> None:
        """Run every program of a launch.

        Raises:
            KernelFault: the function raised.
        """
        specialised, function = Specialised.of(entry.template), self._names[entry.name]
        sizes = [
            POINTER_BYTES if parameter.type.startswith("*") else np.dtype(_NUMPY[parameter.type]).itemsize
            for parameter in specialised.parameters
            if not parameter.one
        ]
        data = iter(base.argument_bytes(args, sizes))
        try:
            values = {name: module.constant(value) for name, value in specialised.constants.items()}
        except ProblemError as error:
            raise base.KernelFault("launch_error", error.what) from error
        fixed = _constexprs(function) | specialised.constants.keys()
        names = [name for name in function.arg_names if name not in fixed]
        for name, parameter in zip(names, specialised.parameters, strict=True):
            values[name] = 1 if parameter.one else _value(parameter.type, next(data))
        scope = _patch_lang(function.fn)
        try:
            interpreter_builder.set_grid_dim(*grid.grid)
            run = function.rewrite()
            with np.errstate(all="ignore"):
                for place in itertools.product(*map(range, grid.grid)):
                    interpreter_builder.set_grid_idx(*place)
                    run(**values)
        except Exception as error:
            raise base.KernelFault("launch_error", f"{entry.name}: {_message(error)}") from error
        finally:
            scope.restore()


def _constexprs(function: Any) -> frozenset[str]:
    return frozenset(name for name, kind in function.fn.__annotations__.items() if kind is tl.constexpr)


def _value(kind: str, data: bytes) -> Any:
    """An argument as a one-element tensor of the interpreter."""
    numpy = np.uint64 if kind.startswith("*") else _NUMPY[kind]
    dtype = tl.str_to_ty(kind, None)
    return tl.tensor(TensorHandle(np.frombuffer(data, numpy).copy(), dtype), dtype)


def _message(error: BaseException) -> str:
    """The first cause of an error, on one line."""
    while isinstance(error, InterpreterError) and error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
