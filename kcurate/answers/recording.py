"""Runs a published answer once on CPU tensors, in a sandboxed process, and records what it would launch.

The answer believes that it has a GPU: `torch.cuda` answers for one, tensors say that they are on it, and
`load_inline` gives host code whose launches are recorded and not run (`answers.building`). Contents of
tensors are therefore meaningless; the sequence of launches, their arguments and the operators of PyTorch
between them are real. Not covered: the process (`answers.worker`), what a recording means (`answers.plans`).
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kcurate.backends import torch_module, torch_text
from kcurate.errors import ProblemError

CLASS = "ModelNew"
# The arguments of `load_inline` to a library (None: none), and the first error of what was published.
Build = Callable[[Mapping[str, Any]], tuple[bytes | None, str]]
# A GPU of the generation that judges: an H200 has as many multiprocessors as an H100.
MULTIPROCESSORS = 132
# Operators that compute nothing: they allocate, or look at the same memory in another way.
_FREE = frozenset(
    """
    empty empty_like empty_strided new_empty new_empty_strided view _unsafe_view reshape _reshape_alias
    expand squeeze unsqueeze permute transpose t select slice as_strided detach alias _to_copy lift_fresh
    split unbind chunk resize_ set_ is_same_size view_as_real flatten unfold diagonal squeeze_ unsqueeze_
    requires_grad_ detach_ split_with_sizes narrow contiguous is_pinned
    """.split()  # noqa: SIM905
)
_ZERO = frozenset({"zeros", "zeros_like", "new_zeros", "zero_", "zero"})
_FILL = frozenset({"fill_", "fill", "full", "full_like", "new_full", "ones", "ones_like", "new_ones"})
_COPY = frozenset({"clone", "copy_", "copy"})
_READ = frozenset({"_local_scalar_dense", "item", "is_nonzero", "equal"})


class Ended(BaseException):
    """The answer did what ends its recording; `why` is one of `stage.Outcome`.

    `first`: the first one in this process. Host code in C++, or a bare `except`, may swallow the exception
    and continue.
    """

    first: Ended | None = None

    def __init__(self, why: str, detail: str) -> None:
        super().__init__(f"{why}: {detail}")
        self.why, self.detail = why, detail
        Ended.first = Ended.first or self


@dataclass
class Tape:
    """The events of a run in order, and the memory of every tensor: address, bytes, element type.

    `earlier` has the addresses of memory whose values PyTorch made before the call that is recorded.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[int, tuple[int, str]] = field(default_factory=dict)
    earlier: set[int] = field(default_factory=set)
    kept: list[Any] = field(default_factory=list)
    on: bool = False
    last: bool = False

    def tensor(self, tensor: Any) -> None:
        """Record a tensor's memory, and keep it allocated so that its address is not reused."""
        storage = tensor.untyped_storage()
        dtype = str(tensor.dtype).removeprefix("torch.")
        if storage.nbytes():
            self.memory.setdefault(storage.data_ptr(), (storage.nbytes(), dtype))
            self.kept.append(tensor)

    def record_event(self, kind: str, *parts: Any) -> None:
        """Append one event of the host code (`native/answer.h`)."""
        if kind == "symbol":
            self.events.append({"kind": kind, "name": parts[0], "at": parts[1]})
        elif kind == "launch" and self.on:
            names = ("name", "instance", "grid", "block", "shared_bytes", "args")
            self.events.append({"kind": kind, **dict(zip(names, parts, strict=True))})
        elif kind == "memset" and self.on:
            self.events.append({"kind": "fill", "to": parts[0], "value": parts[1], "bytes": parts[2]})
        elif kind == "memcpy" and self.on:
            self.events.append({"kind": "copy", "to": parts[0], "from": parts[1], "bytes": parts[2]})


def recorded(answer: str, reference: str, sizes: Mapping[str, int], build: Build) -> dict[str, Any]:
    """Run an answer at these sizes: `events` of its second call, `inputs`, `state`, `outputs`, `memory`.

    `build` makes a library from `load_inline`'s arguments, or returns why it cannot (text). `ended` in the
    result: why there is no recording.
    """
    import torch

    tape = Tape()
    failed: list[str] = []
    repaired: list[str] = []
    sys.kcurate_event = tape.record_event  # type: ignore[attr-defined]
    try:
        with _Watched(tape).on(), _pretended(torch, build, failed, repaired):
            recording = _of_second_call(torch, tape, answer, reference, sizes)
        end = Ended.first  # the answer may have swallowed it
    except Ended:
        end = Ended.first
    except ProblemError as error:
        end = Ended("unreadable", error.what)
    except Exception as error:  # noqa: BLE001 - an answer may raise anything
        end = Ended("unreadable", f"it fails: {_one_line(error, 300)}")
    finally:
        Ended.first = None
    outcome = recording if end is None else {"ended": end.why, "detail": end.detail}
    return {**outcome, "failed": failed, "repaired": repaired}


def _of_second_call(
    torch: Any, tape: Tape, answer: str, reference: str, sizes: Mapping[str, int]
) -> dict[str, Any]:
    """The recording of the second call of an answer's module: the first one may allocate buffers and
    autotune."""
    torch.manual_seed(0)
    reference_model, names = torch_module.build(reference, "Model", sizes)
    inputs = [value.detach() if hasattr(value, "detach") else value for value in names["get_inputs"]()]
    start = names.get("get_init_inputs", list)()
    torch.manual_seed(0)
    text = torch_text.with_sizes(answer, sizes)
    scope: dict[str, Any] = {"__name__": "answer", "__file__": "answer.py"}
    exec(compile(text, "<answer>", "exec"), scope)
    if CLASS not in scope:
        raise Ended("unreadable", f"it has no class {CLASS}")
    model = scope[CLASS](**start) if isinstance(start, Mapping) else scope[CLASS](*start)
    if not reference_model.training:
        model.eval()
    with torch.no_grad():
        for tape.last in (False, True):
            tape.events[:] = [event for event in tape.events if event["kind"] == "symbol"]
            tape.on = True
            results = model(*inputs)
            tape.on = False
    results = torch_module.flat(results)
    return {} if Ended.first else _plain_data(tape, inputs, model, reference_model, results)


def _one_line(error: Exception, most: int = 200) -> str:
    """The type of an error, and its message on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:most]}"


def _plain_data(
    tape: Tape, inputs: Sequence[Any], model: Any, reference: Any, results: Sequence[Any]
) -> dict[str, Any]:
    """A recording as plain data."""
    theirs = dict(model.named_parameters()) | dict(model.named_buffers())
    ours = dict(reference.named_parameters()) | dict(reference.named_buffers())
    for tensor in (*inputs, *results):
        if hasattr(tensor, "untyped_storage"):
            tape.tensor(tensor)
    return {
        "events": tape.events,
        "inputs": [_place(value) if hasattr(value, "shape") else {"value": value} for value in inputs],
        "state": {
            path: {**_place(theirs[name]), "name": name} for path, name in _matched(theirs, ours).items()
        },
        "outputs": [{**_place(value), "contiguous": bool(value.is_contiguous())} for value in results],
        "memory": [[at, size, dtype] for at, (size, dtype) in tape.memory.items()],
        "earlier": sorted(tape.earlier),
    }


def _matched(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, str]:
    """For each parameter of the module the answer's parameter: of the same name, else with equal values.

    Both modules are initialised from the same seed, as KernelBench does.
    """
    import torch

    names: dict[str, str] = {}
    for path, tensor in ours.items():
        same = theirs.get(path)
        if same is not None and same.shape == tensor.shape:
            names[path] = path
            continue
        equal = [
            name
            for name, other in theirs.items()
            if other.shape == tensor.shape and other.dtype == tensor.dtype and torch.equal(other, tensor)
        ]
        if len(equal) == 1:
            names[path] = equal[0]
    return names


def _place(tensor: Any) -> dict[str, Any]:
    return {"at": tensor.data_ptr() if tensor.numel() else 0, "shape": list(tensor.shape)}


class _Watched:
    """Watches every operator of PyTorch that runs."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def on(self) -> Any:
        """A context in which operators are recorded."""
        from torch.utils._python_dispatch import TorchDispatchMode

        note = self._note

        class Watch(TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return note(func, args, kwargs or {})

        return Watch()

    def _note(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        name = func.overloadpacket.__name__
        if self.tape.on and name not in _FREE | _ZERO | _FILL | _COPY:
            if name in _READ:
                raise Ended("host_reads", f"the host reads a result ({name})")
            if name != "_pin_memory":
                raise Ended("library", f"it calls {name} of PyTorch")
        outcome = func(*args, **kwargs)
        result = outcome[0] if isinstance(outcome, tuple | list) and outcome else outcome
        if not hasattr(result, "untyped_storage"):
            return outcome
        self.tape.tensor(result)
        if not self.tape.last and (name not in _FREE or name == "_to_copy"):
            self.tape.earlier.add(result.untyped_storage().data_ptr())
        if self.tape.on:
            self._event(name, args, result)
        return outcome

    def _event(self, name: str, args: Sequence[Any], result: Any) -> None:
        place = {"to": result.data_ptr(), "bytes": result.numel() * result.element_size()}
        if not result.numel():
            return
        if name in _ZERO | _FILL:
            numbers = [arg for arg in args if isinstance(arg, int | float) and not isinstance(arg, bool)]
            filled = 0 if name in _ZERO else (numbers[-1] if numbers else 1)
            if not result.is_contiguous():
                raise Ended("library", f"it calls {name} on part of a tensor")
            self.tape.events.append({"kind": "fill", "value": filled, "float": True, **place})
        elif name in _COPY:
            source = args[1] if name == "copy_" else args[0]
            same = source.shape == result.shape and source.dtype == result.dtype
            if not (same and source.is_contiguous() and result.is_contiguous()):
                raise Ended("library", f"it calls {name} of PyTorch to change a layout or a type")
            self.tape.events.append({"kind": "copy", "from": source.data_ptr(), **place})


@contextlib.contextmanager
def _pretended(torch: Any, build: Build, failed: list[str], repaired: list[str]) -> Any:
    """A context in which PyTorch behaves as on a machine with a GPU, as far as answers can tell."""
    from torch.utils import cpp_extension

    def load_inline(
        name: str, cpp_sources: Any = "", cuda_sources: Any = "", functions: Any = None, **_: Any
    ) -> Any:
        bound = None if functions is None else _texts(functions)
        library, why = build(
            {"name": str(name), "cpp": _texts(cpp_sources), "cuda": _texts(cuda_sources), "functions": bound}
        )
        if library is None:
            failed.append(why)
            raise RuntimeError(f"Error building extension {name!r}: {why}")
        if why:
            repaired.append(why)
        try:
            return _loaded(str(name), library, failed)
        except Exception as error:  # passed on as it is: its initialisation is the answer's own code
            failed.append(f"loading it: {' '.join(str(error).split())[:200]}")
            raise

    def load(*_: Any, **__: Any) -> Any:
        failed.append("it writes its sources into files, which nothing may here")
        raise RuntimeError("no files")

    def graph(*_: Any, **__: Any) -> Any:
        raise Ended("graph", "it replays a CUDA graph")

    def compiled(*_: Any, **__: Any) -> Any:
        raise Ended("library", "it calls torch.compile")

    cuda = torch.cuda
    replaced: list[tuple[Any, str, Any]] = [
        (cpp_extension, "load_inline", load_inline),
        (cpp_extension, "load", load),
        (cpp_extension, "CUDA_HOME", "/usr/local/cuda"),
        (cuda, "CUDAGraph", graph),
        (cuda, "graph", graph),
        (cuda, "make_graphed_callables", graph),
        (torch, "compile", compiled),
        (torch.nn.Module, "cuda", lambda self, *_: self),
        (torch.nn.Module, "to", _moved(torch)),
        *((cuda, name, value) for name, value in _gpu(torch).items()),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    modules = {"cupy": _cupy(torch)}
    sys.modules.update(modules)
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        with _tensors_on_a_gpu(torch):
            yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
        for name in modules:
            sys.modules.pop(name, None)


def _tensors_on_a_gpu(torch: Any) -> Any:
    """A context in which tensors say that they are on a GPU, and are made on the CPU."""
    from torch.overrides import TorchFunctionMode

    class Pretend(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func == torch.Tensor.is_cuda.__get__:
                return True
            if func == torch.Tensor.device.__get__:
                return torch.device("cuda", 0)
            if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):
                return args[0]
            if func is torch.Tensor.get_device:
                return 0
            moved = {name: _on_cpu(torch, value) for name, value in (kwargs or {}).items()}
            if func is torch.Tensor.to:
                args = (args[0], *(_on_cpu(torch, value) for value in args[1:]))
            return func(*args, **moved)

    return Pretend()


def _gpu(torch: Any) -> dict[str, Any]:
    """Replacements for `torch.cuda`: the properties of a GPU, and functions that do nothing."""
    about = types.SimpleNamespace(
        multi_processor_count=MULTIPROCESSORS, name="NVIDIA H100", major=9, minor=0, total_memory=80 << 30,
        max_threads_per_multi_processor=2048, warp_size=32, shared_memory_per_block=48 << 10,
        max_threads_per_block=1024, L2_cache_size=50 << 20,
    )  # fmt: skip

    class Nothing:
        cuda_stream = 0

        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *_, **__: Nothing()

    ignored = "synchronize empty_cache init set_device manual_seed manual_seed_all _lazy_init".split()  # noqa: SIM905
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_capability": lambda *_: (9, 0),
        "get_device_name": lambda *_: about.name,
        "get_device_properties": lambda *_: about,
        "current_stream": Nothing,
        "default_stream": Nothing,
        "Stream": Nothing,
        "Event": Nothing,
        "stream": Nothing,
        "device": Nothing,
        **dict.fromkeys(ignored, lambda *_, **__: None),
    }


def _on_cpu(torch: Any, value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and value.split(":")[0] == "cuda" else value


def _moved(torch: Any) -> Callable[..., Any]:
    moving = torch.nn.Module.to

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        on_cpu = {name: _on_cpu(torch, value) for name, value in kwargs.items()}
        return moving(self, *(_on_cpu(torch, value) for value in args), **on_cpu)

    return to


def _texts(sources: Any) -> list[str]:
    return [sources] if isinstance(sources, str) else [str(source) for source in sources or ()]


def _loaded(name: str, library: bytes, failed: list[str]) -> Any:
    """The extension module in a library that exists in memory only."""
    import importlib.machinery
    import importlib.util
    import os

    memory = os.memfd_create(name)
    with os.fdopen(memory, "wb", closefd=False) as file:
        file.write(library)
    loader = importlib.machinery.ExtensionFileLoader(name, f"/proc/self/fd/{memory}")
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return _Watching(module, failed)


class _Watching:
    """An extension module; `failed` gets what its functions raise, which an answer may swallow."""

    def __init__(self, module: Any, failed: list[str]) -> None:
        self._module, self._failed = module, failed

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._module, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception as error:  # passed on as it is
                self._failed.append(f"{name} raises {_one_line(error)}")
                raise

        return watched if callable(function) else function


def _cupy(torch: Any) -> types.ModuleType:
    """The part of CuPy that answers use: kernels from text, launched on the addresses of tensors."""
    cupy = types.ModuleType("cupy")

    class RawKernel:
        def __init__(self, code: str, name: str, *_: Any, **__: Any) -> None:
            self.code, self.name = code, name

        def __call__(self, grid: Any, block: Any, args: Any, **options: Any) -> None:
            shared = int(options.get("shared_mem", 0))
            passed = [("any", value.item() if hasattr(value, "item") else value) for value in args]
            event = sys.kcurate_event  # type: ignore[attr-defined]
            event("launch", self.name, "", _three(grid), _three(block), shared, passed)

    class RawModule:
        def __init__(self, code: str = "", *_: Any, **__: Any) -> None:
            self.code = code

        def get_function(self, name: str) -> RawKernel:
            return RawKernel(self.code, name)

    numbers = {name: getattr(np, name) for name in ("float32", "int32", "int64", "uint32", "float64")}
    vars(cupy).update(numbers, RawKernel=RawKernel, RawModule=RawModule)
    return cupy


def _three(extent: Any) -> tuple[int, ...]:
    numbers = tuple(extent) if isinstance(extent, tuple | list) else (extent,)
    return (*map(int, numbers), *(1,) * (3 - len(numbers)))
