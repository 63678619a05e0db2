"""CUDA driver calls, with error codes mapped to exceptions.

What a kernel can cause is a `KernelFault`; everything else is a `BackendError`. The code decides, never the
message. The codes and their meaning: CUDA Driver API, "Data types used by CUDA driver", enum CUresult.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import Any

from cuda.bindings import driver as cu

from kcurate.backends.base import FaultReason, KernelFault
from kcurate.core.lock_files import held, open_lock
from kcurate.errors import BackendError, MissingDependencyError

FAULTS: dict[int, FaultReason] = {
    1: "launch_error",  # invalid value: a launch configuration that the driver rejects
    2: "out_of_memory",  # declared buffers, a kernel's local memory, or others on the same GPU
    9: "launch_error",  # invalid configuration
    98: "launch_error",  # invalid device function
    200: "launch_error",  # invalid image
    209: "launch_error",  # no binary for this GPU
    214: "launch_error",  # uncorrectable memory error during a kernel
    218: "launch_error",  # invalid PTX
    500: "launch_error",  # symbol not found
    700: "launch_error",  # illegal address
    701: "launch_error",  # too many resources for the launch
    702: "timeout",  # the display watchdog
    710: "launch_error",  # assert
    714: "launch_error",  # hardware stack error
    715: "launch_error",  # illegal instruction
    716: "launch_error",  # misaligned address
    717: "launch_error",  # invalid address space
    718: "launch_error",  # invalid program counter
    719: "launch_error",  # launch failed
    720: "launch_error",  # cooperative launch too large
}
# Errors of stream capture: operations that a graph cannot contain.
CAPTURE = range(900, 909)
# How many processes may open a GPU at the same time. The driver creates about 13 contexts a second, for four
# processes as for twelve, and allocations wait until it is done (our measurement, H200, November 2026).
AT_ONCE = 3
# Errors on machines without a usable GPU: a stub library, a driver that is too old, no such device.
ABSENT = frozenset({34, 35, 36, 100, 101, 803, 804})


class NotCapturable(BackendError):  # noqa: N818 - a fact about the work, handled by `GpuTimer.capture`
    """The work waits for the device, so it cannot be recorded as a graph."""


def call(result: tuple[Any, ...]) -> Any:
    """The result of a driver call (None, one value or a tuple).

    Raises:
        KernelFault: a code that a kernel or a launch can cause. MissingDependencyError: no usable GPU.
        BackendError: any other code.
    """
    code = int(result[0])
    if code == 0:
        return result[1] if len(result) == 2 else (result[1:] or None)
    name = error_name(code)
    if code in FAULTS:
        raise KernelFault(FAULTS[code], name)
    if code in CAPTURE:
        raise NotCapturable(name)
    if code in ABSENT:
        raise MissingDependencyError(f"no usable GPU: {name}", hint="run kcurate doctor")
    raise BackendError(f"the CUDA driver returned {name} ({code})", hint="run kcurate doctor")


def error_name(code: int) -> str:
    """The driver's name for a code as plain text: `illegal address`."""
    try:
        name = str(cu.CUresult(code).name)
    except ValueError:
        return f"CUDA error {code}"
    return name.removeprefix("CUDA_ERROR_").replace("_", " ").lower()


def load_driver() -> None:
    """Load and initialise the driver library; opens no GPU.

    Raises:
        MissingDependencyError: there is no driver, or no GPU.
    """
    try:
        with _turn("driver"):
            call(cu.cuInit(0))
    except RuntimeError as error:  # cuda-bindings found no driver library
        raise MissingDependencyError(f"no usable GPU: {error}", hint="run kcurate doctor") from error


@contextlib.contextmanager
def _turn(resource: str) -> Iterator[None]:
    """Hold one of `AT_ONCE` locks while opening a resource."""
    handle = open_lock(f"{resource}-opening-{os.getpid() % AT_ONCE}")
    try:
        with held(handle, fcntl.LOCK_EX):
            yield
    finally:
        os.close(handle)


def open_context(index: int) -> tuple[Any, Any]:
    """Make one GPU's primary context current in this thread; returns the device and the context.

    Raises:
        MissingDependencyError: there is no driver, or no such GPU.
    """
    load_driver()
    count = int(call(cu.cuDeviceGetCount()))
    if index >= count:
        raise MissingDependencyError(f"no GPU {index}: this machine has {count}", hint="see nvidia-smi -L")
    device = call(cu.cuDeviceGet(index))
    with _turn(f"gpu-{index}"):
        context = call(cu.cuDevicePrimaryCtxRetain(device))
    call(cu.cuCtxSetCurrent(context))
    return device, context


def attribute(device: Any, name: str) -> int:
    """A device attribute by name without the prefix, such as `L2_CACHE_SIZE`."""
    key = getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(call(cu.cuDeviceGetAttribute(key, device)))
