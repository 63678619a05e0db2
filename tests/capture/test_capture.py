"""`kcurate capture` without a GPU: programs run against the stand-in, and their launches are written down."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcurate.capture import raw, stage
from kcurate.capture.running import Limits
from kcurate.capture.stage import CaptureConfig
from kcurate.core import store
from kcurate.cuda_source.text.demangled_names import Demangled
from kcurate.errors import InputError
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.records import Capture, Contents, Init

Build = Callable[..., Path]
HEAD = """
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include <unistd.h>
#include <sys/wait.h>
#include <cuda_runtime.h>
"""
SCALE = """
__global__ void scale(float *y, const float *x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
"""
TWICE = (
    HEAD
    + SCALE
    + """
int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    std::vector<float> host(n);
    for (int i = 0; i < n; i++) host[i] = i;
    float *x, *y;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaMemcpy(x, host.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    scale<<<(n + 255) / 256, 256>>>(y, x, 3.0f, n);
    scale<<<(n + 255) / 256, 256>>>(x, y, 0.5f, n);
    scale<<<(n + 255) / 256, 256>>>(x, y, 0.5f, n);
    cudaMemcpy(host.data(), x, n * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%g\\n", host[2]);
    return 7;
}
"""
)
KINDS = (
    HEAD
    + """
struct Job { float weight; int count; float *out; };
__constant__ float filter[4];
template <typename T, int N> __global__ void fill(T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = T(N);
}
namespace inner {
__global__ void apply(Job job, const int *index)
{
    int i = threadIdx.x;
    if (i < job.count) job.out[index[i]] = job.weight * filter[i & 3];
}
}
extern "C" __global__ void plain(double *a, short b) { if (threadIdx.x == 0) a[0] = b; }
int main()
{
    float weights[4] = {1, 2, 3, 4}, *out;
    int order[64], *index;
    double *a;
    for (int i = 0; i < 64; i++) order[i] = (i * 5) % 64;
    cudaMalloc(&out, 4096);
    cudaMalloc(&index, sizeof order);
    cudaMallocManaged(&a, 80);
    cudaMemcpy(index, order, sizeof order, cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(filter, weights, sizeof weights);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    fill<float, 3><<<dim3(2, 1, 1), dim3(64, 2), 128, stream>>>(out + 16, 100);
    inner::apply<<<1, 64>>>(Job{0.5f, 64, out + 8}, index);
    plain<<<1, 32>>>(a + 2, -2);
    return cudaDeviceSynchronize();
}
"""
)


def captured(program: Path, work: Path, *args: str, **settings: Any) -> tuple[list[Capture], list[str], int]:
    """The records, what was said, and the exit code."""
    notes: list[str] = []
    config = CaptureConfig((str(program), *args), workspace=work, recorder="cudart", **settings)
    done = stage.run(config, note=notes.append)
    found = [store.read_json(path, Capture) for path in sorted(work.glob("captures/program/*.json"))]
    return sorted(found, key=lambda one: one.kernel), notes, done.exit_code


def test_a_program_keeps_its_output_and_its_exit_code(built: Build, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kcurate", "capture", "-w", "work", "--recorder", "cudart", "--"]
    done = subprocess.run(
        [*command, str(built(TWICE)), "500"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("2\n", 7), done.stderr
    assert "kernels" in done.stderr and "ended with code 7" in done.stderr
    (record,) = (tmp_path / "work/captures/program").glob("*.json")
    assert json.loads(record.read_bytes())["kernel"] == "scale(float*, float const*, float, int)"


def test_launches_of_one_form_are_counted_and_described(built: Build, tmp_path: Path) -> None:
    (one,), _, _ = captured(built(TWICE), tmp_path)
    assert one.params == ("float*", "float const*", "float", "int")
    assert [launch.times for launch in one.launches] == [1, 2]
    first, second = one.launches
    assert (first.grid, first.block) == ((4, 1, 1), (256, 1, 1))
    assert struct.unpack("<f", bytes.fromhex(first.args[2].hex)) == (3.0,)
    assert struct.unpack("<i", bytes.fromhex(first.args[3].hex)) == (1000,)
    assert [buffer.size_bytes for buffer in first.buffers] == [4000, 4000]
    inputs = first.buffers[first.args[1].pointers[0].buffer].before
    assert inputs is not None and (inputs.count, inputs.facts["highest"]) == (1000, 999.0)
    assert second.args[0].pointers[0].buffer == 0 and first.buffers[0].changed is None


def test_kernels_that_run_on_the_emulator_make_later_inputs(
    built: Build, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = built(TWICE)
    extract(ExtractConfig(paths=(program.parent,), workspace=tmp_path, compile=False))
    (one,), _, code = captured(program, tmp_path, run_kernels=True)
    assert capfd.readouterr().out == "3\n" and code == 7
    first, second = one.launches
    assert [buffer.changed for buffer in first.buffers] == [True, False]
    later = second.buffers[second.args[1].pointers[0].buffer].before
    assert later is not None and later.facts["highest"] == 3 * 999.0


@pytest.mark.slow
@pytest.mark.parametrize("option", ["none", "speed", "size"])
def test_arguments_of_every_kind(built: Build, tmp_path: Path, option: str) -> None:
    program = built(KINDS, f"--compress-mode={option}")
    extract(ExtractConfig(paths=(program.parent,), workspace=tmp_path, compile=False))
    found, notes, _ = captured(program, tmp_path)
    apply, plain, fill = found
    assert fill.kernel == "void fill<float, 3>(float*, int)"
    (launch,) = fill.launches
    assert (launch.grid, launch.block, launch.shared_bytes) == ((2, 1, 1), (64, 2, 1), 128)
    assert launch.args[0].pointers[0].offset == 64 and launch.buffers[0].size_bytes == 4096
    (launch,) = apply.launches
    job, index = launch.args
    assert struct.unpack("<fi", bytes.fromhex(job.hex)[:8]) == (0.5, 64)
    assert [(one.at, one.offset) for one in job.pointers] == [(8, 32)]
    order = launch.buffers[index.pointers[0].buffer].before
    assert order is not None and order.dtype == "int32" and order.init is not None
    assert [(one.name, one.size_bytes) for one in launch.symbols] == [("filter", 16)]
    assert plain.params == ("double*", "short")
    assert plain.launches[0].buffers[0].memory == "managed"
    assert bytes.fromhex(plain.launches[0].args[1].hex) == struct.pack("<h", -2)
    assert any("managed memory" in text for text in notes)


def test_a_second_run_adds_what_is_new(built: Build, tmp_path: Path) -> None:
    program = built(TWICE)
    (one,), _, _ = captured(program, tmp_path, "300", also=("300", "4000"))
    assert [launch.grid[0] for launch in one.launches] == [2, 2, 16, 16]
    (again,), _, _ = captured(program, tmp_path, "4000")
    assert again.launches == one.launches


def test_only_the_trees_kernels_are_written_down(built: Build, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.cu").write_text("__global__ void apply(int *x) { *x = 1; }\n")
    work = tmp_path / "work"
    extract(ExtractConfig(paths=(tree,), workspace=work, compile=False))
    found, _, _ = captured(built(KINDS), work)
    assert [Demangled.of(one.kernel).base for one in found] == ["apply"]
    summary = json.loads(sorted(work.glob("runs/capture-*/summary.json"))[-1].read_bytes())
    assert summary["items"]["kernels"]["not_in_the_tree"] == 2
    found, _, _ = captured(built(KINDS), work, kernel="^void fill<float")
    assert [Demangled.of(one.kernel).base for one in found] == ["apply", "fill"]


CHAIN = (
    HEAD
    + """
__global__ void produce(unsigned char *out, int n) { if (threadIdx.x < n) out[threadIdx.x] = threadIdx.x; }
__global__ void tally(const unsigned char *in, unsigned *bins, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&bins[in[i]], 1u);
}
int main()
{
    unsigned char *made, *copied, *filled;
    unsigned *bins;
    cudaMalloc(&made, 200);
    cudaMalloc(&copied, 200);
    cudaMalloc(&filled, 200);
    cudaMalloc(&bins, 1024);
    produce<<<1, 256>>>(made, 200);
    cudaMemcpy(copied, made, 200, cudaMemcpyDeviceToDevice);
    cudaMemset(filled, 0, 200);
    cudaMemset(bins, 0, 1024);
    tally<<<1, 128>>>(made, bins, 200);
    cudaMemset(bins, 0, 1024);
    tally<<<1, 64>>>(copied, bins, 200);
    cudaMemset(bins, 0, 1024);
    tally<<<1, 32>>>(filled, bins, 200);
}
"""
)


def test_zeros_that_a_kernel_would_have_overwritten_are_not_recorded(built: Build, tmp_path: Path) -> None:
    one = next(one for one in captured(built(CHAIN), tmp_path)[0] if one.kernel.startswith("tally"))
    held = [
        [launch.buffers[launch.args[at].pointers[0].buffer].before for at in (0, 1)]
        for launch in one.launches
    ]
    inputs, bins = ([contents and contents.init for contents in column] for column in zip(*held, strict=True))
    assert inputs == [None, None, Init("zeros")]
    assert bins == [Init("zeros")] * 3
    assert held[0][0] == Contents("uint8", 200)


def test_limits_are_said(built: Build, tmp_path: Path) -> None:
    (one,), notes, _ = captured(built(TWICE), tmp_path, limits=Limits(total_bytes=5000))
    assert [buffer.before is not None for buffer in one.launches[0].buffers] == [True, False]
    assert not one.complete and any("a limit was reached" in text for text in notes)
    (one,), _, _ = captured(built(TWICE), tmp_path / "one", limits=Limits(per_kernel=1))
    assert [launch.buffers[0].before is not None for launch in one.launches] == [True, False]
    (one,), _, _ = captured(built(TWICE), tmp_path / "cut", limits=Limits(buffer_bytes=100))
    before = one.launches[0].buffers[0].before
    assert before is not None and (before.count, before.facts["partial"]) == (1000, True)


ENDINGS = {
    "abort": ("scale<<<1, 32>>>(x, x, 1, 8); abort();", 128 + signal.SIGABRT),
    "exit": ("scale<<<1, 32>>>(x, x, 1, 8); _exit(3);", 3),
    "fault": ("scale<<<1, 32>>>(x, x, 1, 8); *(volatile int *)8 = 1;", 128 + signal.SIGSEGV),
    "child": (
        "if (int child = fork()) { int s; waitpid(child, &s, 0); return WEXITSTATUS(s); } "
        "scale<<<1, 32>>>(x, x, 1, 8); return 5;",
        5,
    ),
    "exec": (
        'if (argc == 2) { execl(argv[0], argv[0], argv[1], "again", nullptr); } '
        "scale<<<1, 32>>>(x, x, 1, 8); return 4;",
        4,
    ),
    "memory": (
        "void *more; if (cudaMalloc(&more, size_t(1) << 50) != cudaErrorMemoryAllocation) return 1; "
        "scale<<<1, 32>>>(x, x, 1, 8); return 2;",
        2,
    ),
    "host": ("float own[8]; scale<<<1, 32>>>(x, own, 1, 8); return 6;", 6),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_recorded_until_the_end_stays(built: Build, tmp_path: Path, ending: str) -> None:
    cases = "".join(
        f'if (argv[1] == std::string("{name}")) {{ {body} }}\n' for name, (body, _) in ENDINGS.items()
    )
    main = f"int main(int argc, char **argv) {{ float *x; cudaMalloc(&x, 32); {cases} return 1; }}\n"
    found, notes, exit_code = captured(built(HEAD + SCALE + main), tmp_path, ending)
    code = ENDINGS[ending][1]
    assert [Demangled.of(one.kernel).base for one in found] == ["scale"]
    assert exit_code == code
    if ending == "host":
        assert any("not allocated through CUDA" in text for text in notes)
    if ending in ("abort", "fault"):
        assert not found[0].complete


@pytest.mark.slow
def test_a_program_that_hangs_is_ended(built: Build, tmp_path: Path) -> None:
    body = "int main() { float *x; cudaMalloc(&x, 32); scale<<<1, 32>>>(x, x, 1, 8); "
    script = tmp_path / "twice.sh"
    script.write_text(f"#!/bin/sh\n{built(HEAD + SCALE + body + 'for (;;) pause(); }')} & wait\n")
    script.chmod(0o755)
    started = time.monotonic()
    found, notes, code = captured(script, tmp_path, timeout_s=4.0)
    assert time.monotonic() - started < 40
    assert len(found) == 1 and code == 128 + signal.SIGTERM
    assert any("ended with code 143" in text for text in notes)


def test_bad_commands_are_one_line(built: Build, tmp_path: Path) -> None:
    quiet = tmp_path / "quiet"
    quiet.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(InputError, match="is not executable"):
        captured(quiet, tmp_path)
    quiet.chmod(0o755)
    with pytest.raises(InputError, match="no kernel was launched"):
        captured(quiet, tmp_path)
    with pytest.raises(InputError, match="no such program"):
        captured(tmp_path / "absent", tmp_path)
    with pytest.raises(InputError, match="not a regular expression"):
        captured(quiet, tmp_path, kernel="(")
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF nothing")
    broken.chmod(0o755)
    with pytest.raises(InputError, match="cannot be started"):
        captured(broken, tmp_path)
    assert not (tmp_path / "captures").exists()


def test_contents_are_kept_only_when_asked(built: Build, tmp_path: Path) -> None:
    captured(built(TWICE), tmp_path)
    assert not list(tmp_path.glob("captures/program/data/*.bin"))
    (one,), notes, _ = captured(built(TWICE), tmp_path / "kept", keep_data=True)
    before = one.launches[0].buffers[1].before
    assert before is not None and before.sample is not None
    kept = tmp_path / f"kept/captures/program/data/{before.sample}.bin"
    assert kept.stat().st_size == 4000
    assert any(text.startswith("keeping the contents of buffers: 0.0 MB") for text in notes)


def test_a_line_that_was_cut_is_passed_over(tmp_path: Path) -> None:
    lines = [
        '{"event": "start", "version": 1, "pid": 1, "source": "cupti", "program": "/a/b", "device": "GPU"}',
        '{"event": "times", "forms": {}, "others": {"_Z3foov": 2}}',
        '{"event": "times", "forms": {}, "oth',
    ]
    (tmp_path / "1-1.jsonl").write_text("\n".join(lines))
    (one,) = raw.read(tmp_path)
    assert (one.program, one.others, one.ended) == ("b", {"_Z3foov": 2}, False)


@pytest.mark.slow
def test_an_interrupt_leaves_what_was_recorded(built: Build, tmp_path: Path) -> None:
    main = 'int main() { float *x; cudaMalloc(&x, 32); scale<<<1, 32>>>(x, x, 1, 8); puts("on"); '
    main += "fflush(stdout); for (;;) pause(); }\n"
    command = [sys.executable, "-m", "kcurate", "capture", "-w", "work", "--recorder", "cudart", "--"]
    program = built(HEAD + SCALE + main)
    # Tests that a shell started with & ignore it, and so would the program.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        started = subprocess.Popen(
            [*command, str(program)], cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with started as running:
        assert running.stdout is not None and running.stdout.readline() == "on\n"
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(timeout=60) == 128 + signal.SIGINT
    assert list((tmp_path / "work/captures/program").glob("*.json"))
