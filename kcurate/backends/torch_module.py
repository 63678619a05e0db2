"""A PyTorch module as a side: trusted code, run in a worker on the device's own buffers, without copies.

Inputs and parameters are tensors over the side's memory; the forward pass is queued on the device's stream.
`finish` copies its results into the output buffers, outside the timed run. Arithmetic is that of eager
PyTorch in full precision, without tf32. torch is imported when the first such side is loaded, and in no other
process of the judge. Not covered: parsing the text (`torch_text`), code written by a model.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcurate.backends import torch_text
from kcurate.backends.base import Compiled, CompileFailure, Device, Memory
from kcurate.errors import MissingDependencyError, ProblemError

if TYPE_CHECKING:
    import torch

# Exceptions that a module's code can raise; any other is a bug of ours.
RAISED = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, OSError,
    RuntimeError, TypeError, ValueError,
)  # fmt: skip
# Assumed upper bound on kernels per operator; a recurrent layer may queue any number.
KERNELS_PER_OPERATOR = 8
UNBOUNDED = ("rnn", "lstm", "gru")


@dataclass(frozen=True)
class Place:
    """Part of an allocation, read or written as an array (C order)."""

    memory: Memory
    offset_bytes: int
    size_bytes: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class TorchModule:
    """The text of a side, as a loaded binary."""

    compiled: Compiled

    @property
    def code(self) -> str:
        """The text."""
        return self.compiled.binary.decode()


def compile_text(code: str) -> Compiled | CompileFailure:
    """The text in the form sent to a worker; nothing is run, and torch is not imported.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError as error:
        what, hint = "a side is in PyTorch, and torch is not installed", "pip install 'kcurate[train]'"
        raise MissingDependencyError(what, hint=hint) from error
    try:
        torch_text.parse(code)
    except ProblemError as error:
        return CompileFailure("error", error.what)
    binary = code.encode()
    return Compiled("torch", binary, hashlib.sha256(binary).hexdigest(), {}, (), f"torch {version}")


def build(code: str, name: str, sizes: Mapping[str, int]) -> tuple[Any, dict[str, Any]]:
    """An instance of the module class `name`, made with `get_init_inputs`, and the names of the text.

    Raises:
        ProblemError: the text does not run at these sizes.
    """
    tree = torch_text.with_sizes(code, sizes)
    names: dict[str, Any] = {"__name__": "kcurate_torch_side"}
    with module_errors(name):
        exec(compile(tree, "<PyTorch side>", "exec"), names)
        init_inputs = names["get_init_inputs"]() if "get_init_inputs" in names else []
        if isinstance(init_inputs, Mapping):
            return names[name](**init_inputs), names
        return names[name](*init_inputs), names


@contextmanager
def module_errors(name: str) -> Iterator[None]:
    """A context that turns exceptions of the module's code into an error in the problem.

    Raises:
        ProblemError: the code raised.
    """
    try:
        yield
    except RAISED as error:
        text = " ".join(str(error).split())[:300]
        raise ProblemError(f"the PyTorch module {name}: {type(error).__name__}: {text}") from error


class Forward:
    """One forward pass bound to device memory. Results stay in torch's memory until `finish`."""

    def __init__(
        self,
        device: Device,
        module: TorchModule,
        name: str,
        sizes: Mapping[str, int],
        args: Sequence[Place | float],
        state: Mapping[str, Place],
        to: Sequence[Place],
    ) -> None:
        self._name = name
        self._where = _Where(device)
        self._model, _ = build(module.code, name, sizes)
        with module_errors(name), self._where.inside():
            self._model = self._model.to(self._where.device)
            self._args = [self._where.tensor(arg) if isinstance(arg, Place) else arg for arg in args]
            for path, place in state.items():
                put_state(self._model, path, self._where.tensor(place))
        self._to = [self._where.tensor(place) for place in to]
        self._results: list[Any] | None = None
        self._looked = False
        self.pieces: int | None = None

    def run(self) -> None:
        """Queue the forward pass.

        Raises:
            ProblemError: it failed. NotCapturable: a graph is being recorded.
        """
        self._results = None
        with module_errors(self._name), self._where.inside():
            self._where.refuse_capture()
            if self._where.stream is not None and not self._looked:
                self._looked = True
                self.pieces = self._look()
            self._results = flat(self._model(*self._args))

    def _look(self) -> int | None:
        """Run once to bound the number of kernels queued; None if it waits for the device."""
        counter = operator_counter()
        try:
            with self._where.never_waiting(), counter:
                self._model(*self._args)
        except RuntimeError:
            return None  # if this was another error, the real run raises it too
        if any(part in name for name in counter.names for part in UNBOUNDED):
            return None
        return KERNELS_PER_OPERATOR * len(counter.names)

    def finish(self) -> None:
        """Queue the copy of the results into the output buffers, and release torch's memory.

        Raises:
            ProblemError: the number, shape or dtype of the results is wrong.
        """
        results, self._results = self._results, None
        if results is None:
            return
        returned, expected = ([(tuple(t.shape), t.dtype) for t in tensors] for tensors in (results, self._to))
        if [(shape or (1,), dtype) for shape, dtype in returned] != expected:
            what = f"gives {returned}, the problem has {expected}"
            raise ProblemError(f"the PyTorch module {self._name} {what}")
        with module_errors(self._name), self._where.inside():
            for target, result in zip(self._to, results, strict=True):
                target.copy_(result.reshape(target.shape))


def flat(results: Any) -> list[Any]:
    """The tensors that a module returned.

    Raises:
        TypeError: it returned something else.
    """
    import torch

    tensors = list(results) if isinstance(results, tuple | list) else [results]
    if not tensors or not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise TypeError("forward returns something other than tensors")
    return tensors


def put_state(model: Any, path: str, tensor: Any) -> None:
    """Replace a parameter or registered buffer of a model by this tensor.

    Raises:
        AttributeError: the model has no such parameter or buffer. ValueError: the shape or dtype differs.
    """
    import torch

    owner, _, leaf = path.rpartition(".")
    module = model.get_submodule(owner)
    old = getattr(module, leaf)
    if (tuple(old.shape) or (1,), old.dtype) != (tuple(tensor.shape), tensor.dtype):
        shapes = f"{tuple(old.shape)} {old.dtype}, not {tuple(tensor.shape)} {tensor.dtype}"
        raise ValueError(f"{path} is {shapes}")
    tensor = tensor.reshape(old.shape)
    if leaf in module._parameters:
        module._parameters[leaf] = torch.nn.Parameter(tensor, requires_grad=False)
    else:
        setattr(module, leaf, tensor)


def operator_counter() -> Any:
    """A context in which `names` lists every operator called."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    return Counter()


def preload(backend: str) -> None:
    """Import what a sandboxed worker cannot; opens no GPU and starts no thread."""
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # a driver initialised before a fork is unusable
    import torch

    plain_arithmetic()
    torch.zeros(4, 4).softmax(0)  # probes the CPU
    if backend == "cuda":
        import torch._dynamo  # imported when operators are counted; takes seconds


def plain_arithmetic() -> None:
    """Turn off tf32, and use one CPU thread (workers must not start threads)."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(1)


class _Where:
    """torch's view of a device: its tensors over our memory, its stream."""

    def __init__(self, device: Device) -> None:
        import torch

        plain_arithmetic()
        self._torch = torch
        self._cuda = device.name == "cuda"
        self.stream: torch.cuda.Stream | None = None
        self.device = torch.device("cpu")
        if self._cuda:
            from kcurate.backends.cuda.device import CudaDevice

            assert isinstance(device, CudaDevice)
            self.device = torch.device("cuda", device.index)
            torch.cuda.set_device(self.device)
            self.stream = torch.cuda.ExternalStream(int(device.stream), device=self.device)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Queue work on the device's stream, without gradients."""
        with self._torch.no_grad():
            if self.stream is None:
                yield
            else:
                with self._torch.cuda.stream(self.stream):
                    yield

    def tensor(self, place: Place) -> Any:
        """A tensor over part of an allocation."""
        if self._cuda:
            whole = self._torch.as_tensor(_Span(place), device=self.device)
        else:
            from kcurate.backends.emulator.memory import view

            whole = self._torch.from_numpy(view(place.memory, place.offset_bytes, place.size_bytes))
        return whole.view(getattr(self._torch, place.dtype)).view(place.shape)

    def refuse_capture(self) -> None:
        """Raise NotCapturable while a graph is recorded."""
        if self._cuda and self._torch.cuda.is_current_stream_capturing():
            from kcurate.backends.cuda.driver import NotCapturable

            raise NotCapturable("PyTorch allocates memory as it goes")

    @contextmanager
    def never_waiting(self) -> Iterator[None]:
        """Make work that waits for the GPU raise RuntimeError."""
        if not self._cuda:
            yield
            return
        self._torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            self._torch.cuda.set_sync_debug_mode("default")


class _Span:
    """Device memory for torch (CUDA Array Interface, version 3: numba's documentation)."""

    def __init__(self, place: Place) -> None:
        self.__cuda_array_interface__ = {
            "shape": (place.size_bytes,),
            "typestr": "|u1",
            "data": (place.memory.address + place.offset_bytes, False),
            "version": 3,
        }
