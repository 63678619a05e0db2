"""The environment of a verdict: the GPU's name, UUID and driver, and readings of clocks and temperature.

The driver identifies the GPU; NVML, through cuda-core, reports its state. Readings that this machine does not
provide are omitted. Nothing is ever set. Not covered: the compiler's version (in each `Compiled`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cu

from kcurate.backends.cuda.driver import attribute, call
from kcurate.records import Environment

Detail = str | float | int | bool | None


def read(handle: Any, compiler: str | None) -> Environment:
    """The environment of one GPU, read now."""
    from kcurate import __version__

    name = call(cu.cuDeviceGetName(128, handle)).split(b"\0")[0].decode()
    identity = str(uuid.UUID(bytes=bytes(call(cu.cuDeviceGetUuid(handle)).bytes)))
    version = int(call(cu.cuDriverGetVersion()))
    details: dict[str, Detail] = {
        "cuda_driver": f"{version // 1000}.{version % 1000 // 10}",
        "compute_capability": ".".join(
            str(attribute(handle, f"COMPUTE_CAPABILITY_{part}")) for part in ("MAJOR", "MINOR")
        ),
        "multiprocessors": attribute(handle, "MULTIPROCESSOR_COUNT"),
        "shared_bytes_per_multiprocessor": attribute(handle, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        "shared_bytes_per_block": attribute(handle, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        "l2_bytes": attribute(handle, "L2_CACHE_SIZE"),
        "memory_bytes": memory_bytes(handle),
    }
    state = _state(identity)
    driver = state.pop("driver", None)
    return Environment(
        backend="cuda",
        device=name,
        device_uuid=f"GPU-{identity}",
        driver=str(driver) if driver else str(details["cuda_driver"]),
        compiler=compiler,
        kcurate=__version__,
        details=details | state,
    )


def memory_bytes(handle: Any) -> int:
    """The size of a GPU's memory."""
    return int(call(cu.cuDeviceTotalMem(handle)))


def _state(identity: str) -> dict[str, Detail]:
    """NVML's readings, with units in the names. A reading that fails is omitted."""
    from cuda.core import system

    nvml_error = getattr(system, "NvmlError", RuntimeError)
    failures = (nvml_error, RuntimeError, AttributeError, OSError, ValueError, TypeError)
    try:
        device = system.Device(uuid=f"GPU-{identity}")
    except failures:
        return {}
    readings: dict[str, Callable[[], Any]] = {
        "driver": lambda: ".".join(f"{part:02d}" for part in system.get_kernel_mode_driver_version()),
        "sm_clock_mhz": lambda: int(device.get_clock("sm").get_current_mhz()),
        "memory_clock_mhz": lambda: int(device.get_clock("memory").get_current_mhz()),
        "temperature_c": lambda: int(device.temperature.get_sensor()),
        "clock_limits": lambda: ",".join(sorted(str(r) for r in device.current_clock_event_reasons)),
    }
    state: dict[str, Detail] = {}
    for key, get in readings.items():
        try:
            value = get()
        except failures:
            continue
        state[key] = value if isinstance(value, str | int | float) else str(value)
    return state
