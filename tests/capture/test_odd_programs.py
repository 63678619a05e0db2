"""Programs that do odd things while they are recorded, and odd things that users ask for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kcurate.capture import building, stage
from kcurate.capture.stage import CaptureConfig
from kcurate.core import store
from kcurate.errors import InputError
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.records import Capture

Build = Callable[..., Path]
ODD = """
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <cuda_runtime.h>
struct Large { char bytes[20000]; };
__global__ void large(Large one, float *x) { x[0] = one.bytes[3]; }
__global__ void nothing() {}
__global__ void scale(float *y, const float *x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
int main(int argc, char **argv)
{
    std::string way = argc > 1 ? argv[1] : "";
    float *x, *y;
    static char host[1 << 20];
    cudaMalloc(&x, 4000);
    cudaMalloc(&y, 4000);
    if (way == "copies") {
        if (cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice) != cudaErrorInvalidValue) return 1;
        if (cudaMemcpy(host, x + 900, 401, cudaMemcpyDeviceToHost) != cudaErrorInvalidValue) return 2;
        if (cudaMemcpy(nullptr, host, 4, cudaMemcpyHostToDevice) != cudaErrorInvalidValue) return 3;
        if (cudaMemset(x + 1, 0, 4000) != cudaErrorInvalidValue) return 4;
        if (cudaMemcpy2D(x, 1000, host, 1000, 1000, 5, cudaMemcpyDefault) != cudaErrorInvalidValue) return 5;
        if (cudaMemcpy2D(x, 1000, host, 2000, 1000, 4, cudaMemcpyDefault) != cudaSuccess) return 6;
        if (cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault) != cudaSuccess) return 7;
        if (cudaGetLastError() != cudaErrorInvalidValue) return 8;
    }
    if (way == "fills_memory") {
        size_t left, all;
        cudaMemGetInfo(&left, &all);
        if (cudaMalloc(&y, left / 10 * 9)) return 1;
        // Not getrusage: its largest size can be that of the process that started this one.
        size_t pages = 0;
        FILE *sizes = fopen("/proc/self/statm", "r");
        if (!sizes || fscanf(sizes, "%*u %zu", &pages) != 1 || fclose(sizes)) return 4;
        if (pages * sysconf(_SC_PAGESIZE) > 1 << 30) return 2;
        if (cudaFree(y) || cudaMalloc(&y, 4000)) return 3;
    }
    if (way == "no_files" || way == "small_files") {
        if (way == "small_files") scale<<<1, 32>>>(y, x, 1, 32);
        rlimit none{0, 0};
        setrlimit(RLIMIT_FSIZE, &none);
    }
    if (way == "runs_out_of_files") {
        scale<<<1, 32>>>(y, x, 1, 32);
        rlimit before, none{3, 0};
        getrlimit(RLIMIT_NOFILE, &before);
        none.rlim_max = before.rlim_max;
        setrlimit(RLIMIT_NOFILE, &none);
        scale<<<1, 32>>>(y, x, 1, 16);
        setrlimit(RLIMIT_NOFILE, &before);
        scale<<<1, 32>>>(y, x, 1, 16);
    }
    if (way == "forms") for (int i = 0; i < 1500; i++) scale<<<4, 256>>>(y, x, 2, i);
    if (way == "is_removed") unlink(argv[0]);
    if (way == "large") {
        large<<<1, 32>>>(Large{}, x);
        nothing<<<1, 32>>>();
        return 0;
    }
    scale<<<4, 256>>>(y, x, 2, 1000);
    if (way == "waits") {
        puts("on");
        fflush(stdout);
        for (;;) pause();
    }
    return 0;
}
"""
# Two libraries with C names that are alike, and other parameters.
LEFT = """
#include <cuda_runtime.h>
extern "C" __global__ void kernel(float *x) { x[0] = 1; }
extern "C" void left() { float *x; cudaMalloc(&x, 400); kernel<<<1, 32>>>(x); }
"""
RIGHT = """
#include <cuda_runtime.h>
extern "C" __global__ void kernel(float *x, double a, int n, float *y) { x[0] = a * n * y[0]; }
extern "C" void right() { float *x; cudaMalloc(&x, 400); kernel<<<1, 32>>>(x, 2, 100, x); }
"""


def captured(
    program: Path, work: Path, *args: str, **settings: object
) -> tuple[dict[str, Capture], str, int]:
    """The records by name, what was said, and the exit code."""
    notes: list[str] = []
    config = CaptureConfig((str(program), *args), workspace=work, recorder="cudart", **settings)  # type: ignore[arg-type]
    done = stage.run(config, note=notes.append)
    found = [store.read_json(path, Capture) for path in work.glob(f"captures/{program.name}/*.json")]
    return {one.kernel.partition("(")[0]: one for one in found}, "\n".join(notes), done.exit_code


@pytest.mark.parametrize("way", ["copies", "fills_memory"])
def test_memory_behaves_as_on_a_gpu(built: Build, tmp_path: Path, way: str) -> None:
    found, _, code = captured(built(ODD), tmp_path, way)
    assert code == 0 and list(found) == ["scale"]


def test_parameters_of_any_number_and_size(built: Build, tmp_path: Path) -> None:
    found, _, _ = captured(built(ODD), tmp_path, "large")
    (launch,) = found["large"].launches
    assert [len(arg.hex) // 2 for arg in launch.args] == [20000, 8] and launch.args[1].pointers
    assert found["nothing"].launches[0].args == ()


def test_kernels_of_one_c_name_in_two_libraries(built: Build, tmp_path: Path) -> None:
    options = ("-shared", "-Xcompiler", "-fPIC")
    left, right = built(LEFT, *options), built(RIGHT, *options)
    script = tmp_path / "both.py"
    script.write_text(
        "import ctypes, sys\n"
        "left, right = map(ctypes.CDLL, sys.argv[1:])\n"
        "left.left(), right.right(), left.left()\n"
    )
    config = CaptureConfig(
        (sys.executable, str(script), str(left), str(right)), workspace=tmp_path, recorder="cudart"
    )
    assert stage.run(config).exit_code == 0
    assert stage.run(config).exit_code == 0
    found = [store.read_json(path, Capture) for path in tmp_path.glob("captures/python*/*.json")]
    told = sorted((len(one.launches[0].args), one.launches[0].times) for one in found)
    assert told == [(1, 2), (4, 1)] and all(len(one.launches) == 1 for one in found)


def test_what_the_recorder_could_not_write_is_said(built: Build, tmp_path: Path) -> None:
    program = built(ODD)
    with pytest.raises(InputError, match=r"could not write what was launched .*ulimit -f"):
        captured(program, tmp_path, "no_files")
    found, said, _ = captured(program, tmp_path, "small_files")
    assert len(found["scale"].launches) == 1 and not found["scale"].complete
    assert "the last records are missing" in said
    found, said, _ = captured(program, tmp_path / "later", "runs_out_of_files")
    assert len(found["scale"].launches) == 3  # that which was lost is new again
    assert "ulimit -n) (3 times: Too many open files)" in said and not found["scale"].complete


def test_what_several_processes_left_out_is_said_once(built: Build, tmp_path: Path) -> None:
    script = tmp_path / "many.py"
    script.write_text(
        "import ctypes, os, sys\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "for _ in range(3):\n"
        "    if not os.fork(): library.left(), os._exit(0)\n"
        "    os.wait()\n"
    )
    library = built(LEFT, "-shared", "-Xcompiler", "-fPIC")
    notes: list[str] = []
    command = (sys.executable, str(script), str(library))
    stage.run(CaptureConfig(command, workspace=tmp_path, recorder="cudart"), note=notes.append)
    assert sum("the last records are missing" in text for text in notes) == 1
    (path,) = tmp_path.glob("captures/python*/*.json")
    assert [launch.times for launch in store.read_json(path, Capture).launches] == [1]


def test_contents_leave_room_for_launches(built: Build, tmp_path: Path) -> None:
    full = """
#include <sys/statvfs.h>
extern "C" int statvfs(const char *, struct statvfs *to) noexcept { *to = {}; to->f_frsize = 1; return 0; }
"""
    found, said, code = captured(built(full + ODD), tmp_path)
    (launch,) = found["scale"].launches
    assert code == 0 and [one.before for one in launch.buffers] == [None, None]
    assert "is nearly full: later contents were not written" in said


def test_forms_that_were_only_counted_are_of_the_same_kernel(built: Build, tmp_path: Path) -> None:
    _, said, _ = captured(built(ODD), tmp_path, "forms")
    assert "a limit was reached (scale: forms after 256 were only counted)" in said
    (path,) = tmp_path.glob("runs/capture-*/summary.json")
    items = json.loads(path.read_bytes())["items"]
    assert items["launches"] == {"written_down": 256, "of_more_forms": 1245, "of_other_kernels": 0}
    assert items["kernels"] == {"written_down": 1, "not_in_the_tree": 0}


def test_a_program_that_removes_itself_keeps_its_name(built: Build, tmp_path: Path) -> None:
    copy = tmp_path / "my program"
    copy.write_bytes(built(ODD).read_bytes())
    copy.chmod(0o755)
    found, _, _ = captured(copy, tmp_path / "a work folder", "is_removed")
    assert list(found) == ["scale"] and not copy.exists()


def test_nothing_written_down_is_an_error_that_names_what_ran(built: Build, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no launched kernel matches --kernel other; it launched scale"):
        captured(built(ODD), tmp_path, kernel="other")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a.cu").write_text("__global__ void other(int *x) { *x = 1; }\n")
    extract(ExtractConfig(paths=(tmp_path / "tree",), workspace=tmp_path, compile=False))
    with pytest.raises(InputError, match=r"none of the kernels that extract found .* scale .*--tree"):
        captured(built(ODD), tmp_path)


def test_further_arguments_are_read_before_anything_runs(built: Build, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--also 1 'two: not a list of arguments: no closing quotation"):
        captured(built(ODD), tmp_path, also=("large", "1 'two"))
    assert not list(tmp_path.iterdir())


def test_a_damaged_record_does_not_stop_the_others(built: Build, tmp_path: Path) -> None:
    captured(built(ODD), tmp_path, "large")
    damaged, kept = sorted(tmp_path.glob("captures/program/*.json"))
    damaged.write_text("garbage")
    found, said, _ = captured(built(ODD), tmp_path, "large")
    assert sorted(found) == ["large", "nothing"] and kept.is_file()
    assert f"{damaged}: not JSON" in said and f"it is now {damaged.name}.damaged" in said
    assert damaged.with_name(f"{damaged.name}.damaged").read_text() == "garbage"


@pytest.mark.parametrize("options", [(), ("--timeout", "100")])
def test_a_termination_leaves_what_was_recorded(
    built: Build, tmp_path: Path, options: tuple[str, ...]
) -> None:
    command = [sys.executable, "-m", "kcurate", "capture", "-w", "work", "--recorder", "cudart", *options]
    building.stand_in()
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*command, "--also", "waits", "--", str(built(ODD)), "waits"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None and running.stdout.readline() == "on\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 128 + signal.SIGTERM
    assert list((tmp_path / "work/captures/program").glob("*.json"))
    assert not list(tmp_path.glob("kcurate-capture-*"))
