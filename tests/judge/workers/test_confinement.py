"""What a compile worker can read, with each confinement that this machine has; static checks are bypassed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcurate.backends.base import Compiled, CompileFailure, EntryPoint
from kcurate.backends.emulator.compiler import EmulatorCompiler
from kcurate.judge.workers.compiling import CompileWorkers
from kcurate.judge.workers.inside import landlock, mounts
from kcurate.judge.workers.nursery import Nursery, Role
from kcurate.judge.workers.own_lines import MAX_LOG_CHARS, own_lines
from kcurate.judge.workers.requests import Compile

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")

KERNEL = 'extern "C" __global__ void k(int *x) { x[threadIdx.x] = 1; }\n'
HONEST = f"#include <cuda_fp16.h>\n#include <cooperative_groups.h>\n#include <math.h>\n{KERNEL}"
SECRET = "secret_word"
WAYS = (
    f'#include "PATH"\n{KERNEL}',
    f"#include <PATH>\n{KERNEL}",
    f'#include_next "PATH"\n{KERNEL}',
    f'#define FILE "PATH"\n#include FILE\n{KERNEL}',
    f'#include "../../../../../../../../../..PATH"\n{KERNEL}',
    f'__device__ const char text[] = {{\n#embed "PATH"\n}};\n{KERNEL}',
    f'#if !__has_include("PATH")\n#error it has none\n#endif\n{KERNEL}',
    f'asm(".globl text\\ntext: .incbin \\"PATH\\"");\n{KERNEL}',
    'extern "C" __global__ void k(int *x) { asm volatile(".include \\"PATH\\""); x[0] = 1; }\n',
    'extern "C" __global__ void k(int *x) { asm volatile(".incbin \\"PATH\\""); x[0] = 1; }\n',
)


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elsewhere") / "secret.h"
    path.write_text(f"{SECRET} {SECRET};\n")
    return path


@pytest.fixture(scope="module", params=["cuda", "emulator"])
def workers(request: pytest.FixtureRequest) -> Iterator[CompileWorkers]:
    if not (landlock.abi() or mounts.available()):
        pytest.skip("neither Landlock nor a mount namespace on this machine")
    nursery = Nursery(request.param)
    made = CompileWorkers(nursery, Role("compile", request.param, 0, {}), 1)
    yield made
    made.close()
    nursery.close()


def compiled(workers: CompileWorkers, code: str) -> Compiled | CompileFailure:
    return workers.compile([Compile(code, (EntryPoint("k"),), ())])[0]


def test_headers_are_read(workers: CompileWorkers) -> None:
    assert isinstance(compiled(workers, HONEST), Compiled)


@pytest.mark.parametrize("way", WAYS)
def test_no_other_file_is_read(workers: CompileWorkers, secret: Path, way: str) -> None:
    made = compiled(workers, way.replace("PATH", str(secret)))
    if isinstance(made, Compiled):  # some compilers know no such directive inside a function
        assert SECRET.encode() not in made.binary
    else:
        assert SECRET not in made.log
        assert ".." in way or str(secret.parent) not in made.log


_INSIDE = """
import os, sys
from pathlib import Path
from kcurate import backends
from kcurate.backends.base import Compiled, EntryPoint
from kcurate.judge.workers.inside import landlock, mounts
backend, secret, how, kernel = sys.argv[1:]
compiler = backends.open_compiler(backend)
folders, here = compiler.folders(), [Path.cwd(), Path("/dev/null")]
restrict = {"landlock": landlock.restrict, "mounts": mounts.restrict}[how]
assert restrict(writable=here, readable=folders)
for path in (secret, "/etc/passwd", __import__("kcurate").__file__):
    try:
        Path(path).read_bytes()
    except OSError:
        continue
    sys.exit(f"{path} can be read")
assert isinstance(compiler.compile(kernel, [EntryPoint("k")]), Compiled)
made = compiler.compile(f'#include "{secret}"\\n' + kernel, [EntryPoint("k")])
print(made.log)
"""


@pytest.mark.parametrize("how", ["landlock", "mounts"])
@pytest.mark.parametrize("backend", ["cuda", "emulator"])
def test_each_confinement_holds(how: str, backend: str, secret: Path, tmp_path: Path) -> None:
    if not (landlock.abi() if how == "landlock" else mounts.available()):
        pytest.skip(f"no {how} on this machine")
    command = [sys.executable, "-c", _INSIDE, backend, str(secret), how, HONEST]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert SECRET not in done.stdout


_RUNNING = """
import sys
from pathlib import Path
from kcurate.backends.base import Compiled
from kcurate.backends.emulator.library import Library
from kcurate.judge.workers.inside import isolation, landlock
how, binary = sys.argv[1:]
side = Path(binary).read_bytes()
if how == "mounts":
    landlock.restrict = lambda **_: False
assert isolation.enter("run", "emulator")["files"]
assert Library(Compiled("emulator", side, "", {}, (), "")).kernels
for path in ("/proc/self/maps", "/proc/self/environ", "/proc/self/mem", "/proc/1/status", "/etc/passwd"):
    try:
        Path(path).open("rb").read(1)
    except OSError:
        continue
    sys.exit(f"{path} can be read")
"""


@pytest.mark.parametrize("how", ["landlock", "mounts"])
def test_a_worker_that_runs_a_side_reads_nothing_about_processes(how: str, tmp_path: Path) -> None:
    if not (landlock.abi() if how == "landlock" else mounts.available()):
        pytest.skip(f"no {how} on this machine")
    made = EmulatorCompiler().compile(HONEST, [EntryPoint("k")])
    assert isinstance(made, Compiled)
    (tmp_path / "side.so").write_bytes(made.binary)
    command = [sys.executable, "-c", _RUNNING, how, str(tmp_path / "side.so")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


NVRTC_LOG = """/etc/passwd(1): error: this declaration has no storage class
  root:x:0:0:root:/root:/bin/bash
  ^

/usr/include/cuda/std/thing.h(7): error: a parameter may not have void type
    void f(T input);
           ^
          detected during instantiation of class "thing<T> [with T=void]" at line 2 of kernel.cu

kernel.cu(2): error: identifier "zz" is undefined
  x[0] = zz;
         ^

2 errors detected in the compilation of "kernel.cu".
"""
GCC_LOG = """In file included from kernel.cu:1:
/home/me/notes.txt:3:1: error: 'diary' does not name a type
    3 | diary of a developer
      | ^~~~~
kernel.cu:2:5: error: 'zz' was not declared in this scope
    2 |     x[0] = zz;
      |            ^~
"""


@pytest.mark.parametrize("log", [NVRTC_LOG, GCC_LOG])
def test_a_log_keeps_the_sides_own_lines_alone(log: str) -> None:
    kept = own_lines(log, "#include <cuda/std/thing.h>\n    x[0] = zz;\n")
    assert "zz" in kept
    assert "x[0] = zz;" in kept
    for foreign in ("root", "diary", "/etc", "/home", "void f", "storage class"):
        assert foreign not in kept
    assert ("passwd(1): error in a header" in kept) or ("notes.txt(3): error in a header" in kept)


def test_a_log_says_where_a_header_was_needed() -> None:
    assert "required at line 2 of kernel.cu" in own_lines(NVRTC_LOG, "")


def test_own_lines_are_found_behind_a_long_log_of_headers() -> None:
    foreign = (
        "/usr/include/cuda/std/thing.h(7): error: a parameter may not have void type\n" + "  text\n" * 9000
    )
    kept = own_lines(foreign + NVRTC_LOG, "x[0] = zz;")
    assert len(foreign) > MAX_LOG_CHARS and "kernel.cu(2)" in kept
    assert len(own_lines("error: long\n" * 9000, "")) <= MAX_LOG_CHARS + len("\n[...]")


def test_logs_of_ptxas_and_triton_are_kept() -> None:
    for log in (
        "ptxas error   : Entry function 'k' uses too much shared data",
        "Triton: shapes differ (line 3 of its function)",
    ):
        assert own_lines(log, "") == log
