"""Backends that run device code, behind one protocol (`kcurate.backends.base`), opened by name.

| module | what |
|---|---|
| `base` | the interface between the judge and the backends |
| `choice` | chooses an available backend and its GPU indices from `--backend` and `--gpu` |
| `cuda/` | runs device code on NVIDIA GPUs: NVRTC to a cubin, launches through cuda-core |
| `emulator/` | runs device code without a GPU |
| `noise` | random memory contents that no candidate can predict; comparisons in device memory |
| `torch_module` | a PyTorch module as a side |
| `torch_text` | the text of a PyTorch side |
| `triton/` | sides in Triton |

Backends are imported only when opened. Not covered: which processes may open which (`kcurate.judge`).
"""

from __future__ import annotations

import contextlib
import importlib
import shutil
import subprocess
from typing import TYPE_CHECKING, Literal

from kcurate.errors import InputError

if TYPE_CHECKING:
    from kcurate.backends.base import Compiler, Device

BackendName = Literal["cuda", "emulator"]
NAMES: tuple[BackendName, BackendName] = ("cuda", "emulator")
# Imported by a process before it forks workers; none of these modules opens a device.
PRELOAD = {
    "cuda": (
        "cuda.bindings.driver",
        "cuda.core.system",
        "kcurate.backends.cuda.timer",
        "kcurate.backends.cuda.compiler",
    ),
    "emulator": ("kcurate.backends.emulator.compiler", "kcurate.backends.emulator.device"),
}


def open_compiler(name: str, *, arch: str | None = None, language: str = "cuda") -> Compiler:
    """A compiler by backend name; `arch` (of a GPU, such as `sm_90`) applies only to `cuda`.

    With `language` triton it compiles to PTX. It executes the candidate's Python, so open it only in a
    worker.

    Raises:
        InputError: there is no such backend.
    """
    if language == "triton":
        from kcurate.backends.cuda.nvrtc import DEFAULT_ARCH
        from kcurate.backends.triton.compiler import TritonCompiler

        return TritonCompiler(arch or DEFAULT_ARCH)
    if name == "cuda":
        from kcurate.backends.cuda.compiler import CudaCompiler

        return CudaCompiler(arch)
    if name == "emulator":
        from kcurate.backends.emulator.compiler import EmulatorCompiler

        return EmulatorCompiler()
    raise _unknown(name)


def open_device(name: str, index: int = 0) -> Device:
    """A device by backend name; call this only in a worker process.

    Raises:
        InputError: there is no such backend. MissingDependencyError: there is no such device.
    """
    if name == "cuda":
        from kcurate.backends.cuda.device import CudaDevice

        return CudaDevice(index)
    if name == "emulator":
        from kcurate.backends.emulator.device import EmulatorDevice

        return EmulatorDevice()
    raise _unknown(name)


def preload(name: str) -> None:
    """Import what the backend's workers need, and find the headers that their compilers read.

    Raises:
        InputError: there is no such backend.
    """
    if name not in PRELOAD:
        raise _unknown(name)
    for module in PRELOAD[name]:
        importlib.import_module(module)
    if name == "cuda":  # each compile worker needs the folders; finding them takes a tenth of a second
        importlib.import_module("kcurate.backends.cuda.nvrtc").header_folders()
        with contextlib.suppress(ImportError):  # whoever needs it says what is missing
            importlib.import_module("elftools.elf.elffile")


def warm_up(name: str) -> None:
    """Load the driver: the part of opening a device that does not disturb others using it.

    Raises:
        MissingDependencyError: there is no driver.
    """
    if name == "cuda":
        from kcurate.backends.cuda.driver import load_driver

        load_driver()


def gpu_count() -> int:
    """The number of GPUs listed by the NVIDIA driver, from `nvidia-smi`, so that no context is opened."""
    if shutil.which("nvidia-smi") is None:
        return 0
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return 0 if done.returncode else sum(line.startswith("GPU ") for line in done.stdout.splitlines())


def resolve(name: str) -> BackendName:
    """Resolve `auto` to `cuda` if there is a GPU, else to `emulator`; other names are returned unchanged.

    Raises:
        InputError: there is no such backend.
    """
    if name == "auto":
        return "cuda" if gpu_count() else "emulator"
    for backend in NAMES:
        if name == backend:
            return backend
    raise _unknown(name)


def _unknown(name: str) -> InputError:
    return InputError(f"unknown backend {name!r}", hint=f"one of auto, {', '.join(NAMES)}")
