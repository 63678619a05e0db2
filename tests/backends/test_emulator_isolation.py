"""What a process that runs device code natively can no longer do; each case in a process of its own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kcurate.backends.emulator import seccomp

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="no filter for this machine's system calls"
)


def inside(body: str) -> str:
    """What `body` prints in a process under the filter, or the type of its exception."""
    code = (
        "import ctypes, fcntl, os, signal, socket, subprocess, sys\n"
        "from kcurate.backends.emulator import seccomp\n"
        "assert seccomp.restrict()\n"
        f"try:\n    print({body})\nexcept OSError as error:\n    print(type(error).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "call",
    [
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "socket.socket()",
        "os.kill(os.getppid(), 0)",
        "os.pidfd_open(os.getppid())",
        "os.unshare(0x10000000)" if hasattr(os, "unshare") else "os.fork()",
        "os.sched_setaffinity(0, {0})",
        "fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())",
        "fcntl.fcntl(0, 10, 9)",  # F_SETSIG: SIGKILL
        "fcntl.fcntl(0, 15, bytes(8))",  # F_SETOWN_EX
        "fcntl.ioctl(0, 0x8901, bytes(4))",  # FIOSETOWN
    ],
)
def test_the_filter_refuses(call: str) -> None:
    assert inside(call) == "PermissionError"


def test_the_filter_leaves_what_running_needs() -> None:
    assert inside("open('/proc/self/stat').read().split()[1]").startswith("(")
    assert inside("bytearray(1 << 24).count(0)") == str(1 << 24)
    assert inside("fcntl.fcntl(1, fcntl.F_GETFD), os.isatty(1)") == "0 False"


def test_calls_of_another_interface_end_the_process_or_fail() -> None:
    # the x32 number of getpid on x86-64; not a number at all elsewhere
    assert inside("ctypes.CDLL(None).syscall(0x40000000 + 39)") == "-1"


def test_kernels_run_under_the_filter(tmp_path: Path) -> None:
    from emulation import compile_side

    binary = tmp_path / "side.so"
    code = 'extern "C" __global__ void f(int *a) { __syncthreads(); a[threadIdx.x] = threadIdx.x; }'
    binary.write_bytes(compile_side(code).binary)
    script = f"""
import numpy as np
from kcurate.backends.base import Compiled, EntryPoint, Grid, KernelFault, Pointer
from kcurate.backends.emulator import seccomp
from kcurate.backends.emulator.device import EmulatorDevice
assert seccomp.restrict()
device = EmulatorDevice()
binary = open({str(binary)!r}, 'rb').read()
module = device.load(Compiled('emulator', binary, '', {{}}, (), ''))
memory = device.allocate(1024)
device.launch(module, EntryPoint('f'), Grid((1, 1, 1), (256, 1, 1)), [Pointer(memory)])
assert (device.read(memory, 0, 1024).view('i4') == np.arange(256)).all()
small = device.allocate(64)
try:
    device.launch(module, EntryPoint('f'), Grid((1, 1, 1), (256, 1, 1)), [Pointer(small)])
except KernelFault as fault:
    print(fault.reason)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "out_of_bounds", done.stderr


def test_what_hangs_in_the_sandbox_ends_with_its_parent() -> None:
    child = (
        "import time; from kcurate.judge.workers.inside import isolation; "
        "isolation.enter('run', 'emulator'); print('in', flush=True); time.sleep(60)"
    )
    parent = (
        "import os, subprocess, sys; "
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE); "
        "child.stdout.readline(); print(child.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, timeout=60, check=False)
    status = Path("/proc") / done.stdout.decode().strip() / "status"
    until_s = time.monotonic() + 10
    while status.exists() and "State:\tZ" not in status.read_text():
        assert time.monotonic() < until_s, "it lives on"
        time.sleep(0.05)


def test_filters_exist_for_both_machines_and_no_other() -> None:
    for machine in ("x86_64", "aarch64"):
        code = seccomp.program(machine)
        assert code is not None and len(code) % 8 == 0 and len(code) // 8 < 200
    assert seccomp.program("riscv64") is None
