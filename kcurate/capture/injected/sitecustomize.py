"""Records a Python program's Triton launches: found through PYTHONPATH, writes the lines of `FORMAT.md`.

It wraps Triton's two launchers, compiled and interpreted, because Triton's own launch hooks do not get the
arguments. It runs in the program's process, so it uses only the standard library, and its own errors become
notes. Not covered: launches that bypass `JITFunction.run`, such as those of torch.compile.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
FOLDER = os.environ.get("KCURATE_CAPTURE_DIR")
MAX_FORMS, ORDERED, EVERY = 256, 4096, 4096
FREE_BYTES = 64 << 20
USUAL = {"num_warps": 4, "num_stages": 3}
# Element types by the last word of a tensor's dtype, as Triton names them.
TYPES = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "float16": "fp16", "bfloat16": "bf16",
    "float32": "fp32", "float64": "fp64", "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
}  # fmt: skip


class Launching:
    """A launch of a new form, between its start and its end."""

    def __init__(self, line: dict[str, Any], storages: Sequence[Any], device: str) -> None:
        self.line, self.storages, self.device = line, storages, device
        self.before: list[bytes | None] = [None] * len(storages)


class Recorder:
    """Records what one process launches."""

    def __init__(self, folder: str) -> None:
        def limit(name: str, usual: float) -> float:
            return float(os.environ.get(f"KCURATE_CAPTURE_{name}", usual))

        self.folder = Path(folder)
        self.per_kernel = int(limit("PER_KERNEL", 4))
        self.left_bytes = limit("BYTES", 4 << 30)
        self.buffer_bytes = limit("BUFFER_BYTES", 256 << 20)
        self.after, self.until = bool(limit("AFTER", 1)), time.monotonic() + limit("SECONDS", 600)
        only = os.environ.get("KCURATE_CAPTURE_ONLY")
        self.only = set(Path(only).read_text(encoding="utf-8").split("\n")) if only else None
        self.begin()

    def begin(self) -> None:
        """Start from scratch, in this process or a forked child, whose lock a parent's thread may hold."""
        self.lock, self.tuning = threading.RLock(), threading.local()
        self.pid, self.number, self.seen = os.getpid(), 0, 0
        self.file: Any = None
        self.forms: dict[str, int] = {}
        self.times: dict[int, int] = {}
        self.others: dict[str, int] = {}
        self.of_kernel: dict[str, int] = {}
        self.order: list[int] = []
        self.noted: set[str] = set()

    def write(self, line: Mapping[str, Any], device: str = "unknown") -> None:
        """Write a line, after a start line if it is the first."""
        if self.file is None:
            self.file = (self.folder / f"{self.pid}-{time.time_ns()}.jsonl").open("w", encoding="utf-8")
            script = sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c", "-m") else sys.executable
            start = {"event": "start", "version": 1, "pid": self.pid, "source": "triton"}
            self.write({**start, "program": str(Path(script).absolute()), "device": device})
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def note(self, what: str, text: str = "") -> None:
        """Note something that is not recorded, once."""
        if what not in self.noted:
            self.noted.add(what)
            self.write({"event": "note", "what": what, "text": text})

    def counted(self) -> None:
        """Write the number of launches so far."""
        self.write({"event": "times", "forms": self.times, "others": self.others})

    def end(self) -> None:
        """Write the last lines; the process exits normally."""
        if self.pid == os.getpid() and (self.file is not None or self.others):
            self.counted()
            self.write({"event": "order", "forms": self.order})
            self.write({"event": "end"})

    def launch(
        self, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], grid: Sequence[Any]
    ) -> Launching | None:
        """Count a launch before it starts; returns what `done` needs if the launch has a new form, else
        None."""
        key = f"{fn.__module__}.{fn.__qualname__}"
        if getattr(self.tuning, "on", 0):
            return None
        self.seen += 1
        if self.seen % EVERY == 0:
            self.counted()
        if self.only is not None and fn.__name__ not in self.only:
            self.others[key] = self.others.get(key, 0) + 1
            return None
        storages: dict[int, Any] = {}
        line, device = self._line(fn, args, kwargs, storages)
        line["grid"] = ([int(extent) for extent in grid] + [1, 1])[:3]
        text = json.dumps([key, line, [int(storage.nbytes()) for storage in storages.values()]])
        known = self.forms.get(text)
        if known is None and self.of_kernel.get(key, 0) >= MAX_FORMS:
            self.others[key] = self.others.get(key, 0) + 1
            return None
        form = self.forms.setdefault(text, len(self.forms))
        self.times[form] = self.times.get(form, 0) + 1
        if len(self.order) < ORDERED:
            self.order.append(form)
        if known is not None:
            return None
        self.of_kernel[key] = self.of_kernel.get(key, 0) + 1
        path = str(Path(inspect.getsourcefile(fn) or fn.__code__.co_filename).absolute())
        more = {"event": "launch", "form": form, "kernel": key, "file": path, "cluster": None}
        launching = Launching({**more, **line, "cooperative": False}, list(storages.values()), device)
        if self.of_kernel[key] <= self.per_kernel:
            launching.before = [self.contents(storage) for storage in launching.storages]
        return launching

    def _line(
        self, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], storages: dict[int, Any]
    ) -> tuple[dict[str, Any], str]:
        """The form of a launch, and its device; adds the tensors' storages to `storages`, by address."""
        params = _params(fn)
        values = {name: default for name, (_, default) in params.items()}
        values.update(zip(params, args))  # noqa: B905 - options may follow the parameters
        values.update((name, value) for name, value in kwargs.items() if name in params)
        line: dict[str, Any] = {"types": [], "args": [], "constexprs": {}}
        device = "Triton's interpreter"
        for name, (fixed, _) in params.items():
            value = values[name]
            if fixed or type(value).__name__ == "constexpr":
                value = getattr(value, "value", value)
                plain = value is None or isinstance(value, (bool, int, float, str))
                place = "tl." * hasattr(value, "primitive_bitwidth")  # of a type
                line["constexprs"][name] = value if plain else f"{place}{value}"
                line["types"].append("constexpr")
                continue
            kind, arg = _argument(value, storages)
            line["types"].append(kind)
            line["args"].append(arg)
            if getattr(getattr(value, "device", None), "type", "") == "cuda":
                device = str(sys.modules["torch"].cuda.get_device_name(value.device))
        return {**line, **{name: int(kwargs.get(name) or usual) for name, usual in USUAL.items()}}, device

    def contents(self, storage: Any) -> bytes | None:
        """The bytes of a storage, if limits allow."""
        size = int(storage.nbytes())
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized() and cuda.is_current_stream_capturing():
            self.note("graph")
            return None
        disk = os.statvfs(self.folder)
        room = min(self.left_bytes, self.buffer_bytes, disk.f_bavail * disk.f_frsize - FREE_BYTES)
        if size > room or time.monotonic() > self.until:
            self.note("limit", "buffers too large, too many, or too late were not looked at")
            return None
        self.left_bytes -= size
        host = storage.cpu()
        return ctypes.string_at(host.data_ptr(), size) if size else b""

    def done(self, launching: Launching, kernel: Any) -> None:
        """Write the line of a launch after it ran, with the changes to its buffers."""
        metadata = getattr(kernel, "metadata", None)
        for name in USUAL:
            launching.line[name] = int(getattr(metadata, name, launching.line[name]))
        launching.line["block"] = [32 * launching.line["num_warps"], 1, 1]
        launching.line["shared"] = int(getattr(metadata, "shared", 0))
        launching.line["buffers"] = []
        for storage, old in zip(launching.storages, launching.before):  # noqa: B905 - Python 3.9 has no `strict`
            new = None if old is None else self.contents(storage)
            changed = None if new is None else old != new
            line = {"bytes": int(storage.nbytes()), "memory": "device", "changed": changed}
            after = self._kept(new) if changed and self.after else None
            launching.line["buffers"].append({**line, "before": self._kept(old), "after": after})
        self.write(launching.line, launching.device)

    def _kept(self, data: bytes | None) -> str | None:
        """Write the bytes to a new file; returns its name."""
        if data is None:
            return None
        self.number += 1
        (self.folder / f"{self.pid}-{self.number}.bin").write_bytes(data)
        return f"{self.pid}-{self.number}.bin"


@functools.lru_cache(maxsize=4096)
def _params(fn: Any) -> dict[str, tuple[bool, Any]]:
    """The parameters in order: whether each is a compile-time constant, and its default."""
    return {
        name: ("constexpr" in str(param.annotation), None if param.default is param.empty else param.default)
        for name, param in inspect.signature(fn).parameters.items()
    }


def _argument(value: Any, storages: dict[int, Any]) -> tuple[str, dict[str, Any]]:
    """A parameter's type as Triton names it, and the argument's bytes, pointers and shape."""
    arg: dict[str, Any] = {"pointers": []}
    if hasattr(value, "data_ptr"):
        tensor = value if hasattr(value, "untyped_storage") else value.base
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        storages.setdefault(start, storage)
        number = list(storages).index(start)
        arg["hex"] = "00" * 8
        arg["pointers"] = [{"at": 0, "buffer": number, "offset": value.data_ptr() - start}]
        arg["shape"] = [int(extent) for extent in tensor.size()]
        arg["strides"] = [int(stride) for stride in tensor.stride()]
        dtype = str(value.dtype).rpartition(".")[2]
        return "*" + TYPES.get(dtype, dtype), arg
    kind, data = "none" if value is None else type(value).__name__, b""
    if isinstance(value, bool):
        kind, data = "i1", struct.pack("<?", value)
    elif isinstance(value, int):
        kind, form = ("i32", "<i") if -(1 << 31) <= value < 1 << 31 else ("i64", "<q")
        kind, form = (kind, form) if value < 1 << 63 else ("u64", "<Q")
        data = struct.pack(form, value)
    elif isinstance(value, float):
        kind, data = "fp32", struct.pack("<f", value)
    arg["hex"] = data.hex()
    return kind, arg


def _recorded(run: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """A launcher that records its launches, when Triton asks for the grid between compiling and launching."""

    @functools.wraps(run)
    def recorded(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:
            return run(self, *args, grid=grid, warmup=warmup, **kwargs)
        pending: list[Launching] = []

        def seen(given: Any) -> Any:
            extents = grid(given) if callable(grid) else grid
            with _Guarded(recorder):
                launching = recorder.launch(self.fn, args, kwargs, extents)
                pending.extend([launching] if launching is not None else [])
            return extents

        kernel = run(self, *args, grid=seen, warmup=warmup, **kwargs)
        for launching in pending:
            with _Guarded(recorder):
                recorder.done(launching, kernel)
        return kernel

    return recorded


def _unrecorded(bench: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """Turn off recording while the autotuner compares configurations; without a GPU the first one is used."""

    @functools.wraps(bench)
    def quiet(self: Any, *args: Any, **kwargs: Any) -> Any:
        if os.environ.get("TRITON_INTERPRET") == "1":  # there is no driver that could time them
            return [0.0, 0.0, 0.0]
        recorder.tuning.on = getattr(recorder.tuning, "on", 0) + 1
        try:
            return bench(self, *args, **kwargs)
        finally:
            recorder.tuning.on -= 1

    return quiet


class _Guarded:
    """Admits one thread at a time, and turns errors into notes, so that the program never sees them."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def __enter__(self) -> None:
        self.recorder.lock.acquire()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        with contextlib.suppress(OSError):  # a full disk
            if isinstance(error, Exception):
                self.recorder.note("hook", f"{type(error).__name__}: {error}"[:200])
        self.recorder.lock.release()
        return isinstance(error, Exception)


# The methods that are wrapped, by module.
PLACES = {
    "triton.runtime.jit": ("JITFunction", "run", _recorded),
    "triton.runtime.interpreter": ("InterpretedFunction", "run", _recorded),
    "triton.runtime.autotuner": ("Autotuner", "_bench", _unrecorded),
}


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps Triton's launchers when the program imports Triton; imports nothing itself."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module as usual, and wrap its launcher after it is loaded."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name in PLACES else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def executed(module: ModuleType) -> None:
            execute(module)
            owner, method, wrap = PLACES[name]
            holder = getattr(module, owner)
            setattr(holder, method, wrap(getattr(holder, method), self.recorder))

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


def _next() -> None:
    """Run the `sitecustomize` that this one hides, if there is one."""
    sys.path[:] = [folder for folder in sys.path if Path(folder or ".").resolve() != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    if FOLDER:
        with contextlib.suppress(OSError, ValueError):
            recorder = Recorder(FOLDER)
            sys.meta_path.insert(0, _Finder(recorder))
            atexit.register(recorder.end)
            os.register_at_fork(after_in_child=recorder.begin)
    _next()
