"""NVRTC compiles with the wheels' headers, and tells nothing of the machine."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.cuda import cubin, nvrtc
from kcurate.backends.cuda.compiler import CudaCompiler
from kcurate.core import resources, store
from kcurate.lookup import doctor

HEADERS = [
    "cuda_fp16.h",
    "cuda_bf16.h",
    "mma.h",
    "cuda_pipeline.h",
    "math_constants.h",
    "cooperative_groups.h",
]


@pytest.mark.parametrize("header", HEADERS)
def test_device_headers_are_found(header: str) -> None:
    code = f'#include <{header}>\nextern "C" __global__ void one(float* a) {{ a[0] = 1; }}'
    result = nvrtc.compile_cubin(code)
    assert result.cubin, result.log


@pytest.mark.parametrize(
    ("device", "wanted"),
    [
        ("sm_75", "sm_75"), ("sm_89", "sm_89"), ("sm_90", "sm_90a"), ("sm_100", "sm_100a"),
        ("sm_120", "sm_120a"), ("sm_90a", "sm_90a"), ("sm_100f", "sm_100f"),
    ],
)  # fmt: skip
def test_a_device_compiles_for_its_architecture_specific_target(device: str, wanted: str) -> None:
    assert nvrtc.target(device) == wanted == CudaCompiler(device).arch
    assert nvrtc.compile_cubin("__global__ void k() {}", arch=wanted).cubin


@pytest.mark.parametrize("arch", [None, "sm_90"])
def test_hopper_code_compiles(arch: str | None) -> None:
    code = """extern "C" __global__ void __launch_bounds__(128) k()
    {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        asm volatile("wgmma.fence.sync.aligned;");
    }"""
    made = CudaCompiler(arch).compile(code, [EntryPoint("k")])
    assert isinstance(made, Compiled), made.log
    assert made.compiler.endswith(" sm_90a")


def test_the_same_machine_code_for_both_targets() -> None:
    folder = store.find_candidates(resources.pairs_dir())[0]
    side = store.read_candidate(folder).fast
    found = [nvrtc.compile_cubin(side.code, arch=arch).cubin for arch in ("sm_90", "sm_90a")]
    plain, specific = (cubin.machine_code(binary or b"") for binary in found)
    assert plain == specific != {}


def test_template_instances_are_kept_and_named() -> None:
    code = "template <class T, int N> __global__ void put(T* a) { a[0] = N; }\n__constant__ float table[3];"
    result = nvrtc.compile_cubin(code, name_expressions=["put<float, 4>", "&table"])
    assert result.cubin
    assert result.lowered == {"put<float, 4>": "_Z3putIfLi4EEvPT_", "&table": "table"}


def test_a_compile_error_is_a_result_and_its_log_has_no_paths() -> None:
    result = nvrtc.compile_cubin("#include <cuda_fp16.h>\n__global__ void f() { int x = half(1).nothing; }")
    assert result.cubin is None
    assert result.cubin is None
    assert "kernel.cu(2)" in result.log
    assert str(Path(nvrtc.include_folders()[0]).parent) not in result.log
    assert "/dev/null" not in result.log


def test_a_quoted_include_does_not_see_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.h").write_text("int secret;")
    monkeypatch.chdir(tmp_path)
    assert nvrtc.compile_cubin('#include "secret.h"\n__global__ void f() {}').cubin is None


def test_a_zero_byte_is_a_compile_error() -> None:
    assert nvrtc.compile_cubin(b"__global__ void f() {}\0").cubin is None


def test_an_empty_log_leaves_the_shared_one_byte_objects_alone() -> None:
    nvrtc.compile_cubin("__global__ void k() {}")
    assert bytes([32]) == b"\x20" and b"a b".split(bytes([32])) == [b"a", b"b"]


@pytest.fixture
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No wheel with headers is installed; the folder where one of them has its own."""
    real = nvrtc.include_folders()[0]
    nvrtc.include_folders.cache_clear()
    monkeypatch.setattr(nvrtc, "_wheel_folder", lambda package, header: None)
    monkeypatch.setattr(doctor, "_installed", lambda package: None)
    monkeypatch.setattr(nvrtc, "TOOLKIT", "/nonexistent")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    yield real
    nvrtc.include_folders.cache_clear()


@pytest.mark.parametrize("place", ["include", "targets/x86_64-linux/include"])
@pytest.mark.parametrize("named", ["CUDA_HOME", "CUDA_PATH", None])
def test_a_toolkit_serves_where_the_wheels_are_missing(
    no_wheels: Path, place: str, named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cuda" / place
    folder.parent.mkdir(parents=True)
    folder.symlink_to(no_wheels)
    if named:
        monkeypatch.setenv(named, str(tmp_path / "cuda"))
    else:
        monkeypatch.setattr(nvrtc, "TOOLKIT", str(tmp_path / "cuda"))
    assert nvrtc.toolkit_folders() == (folder, folder / "cccl")
    assert nvrtc.include_folders() == (folder.resolve(), (folder / "cccl").resolve())
    code = "#include <mma.h>\n#include <cuda/std/type_traits>\n__global__ void k() { int x = nothing; }"
    log = nvrtc.compile_cubin(code).log
    assert "nothing" in log and "cannot open" not in log and str(tmp_path) not in log
    (finding,) = (one for one in doctor.examine(dict(os.environ)) if one.topic == "CUDA headers")
    assert finding.ok and finding.detail == f"of the CUDA toolkit in {folder}"


def test_without_wheels_and_toolkit_there_are_no_headers(no_wheels: Path, tmp_path: Path) -> None:
    assert nvrtc.toolkit_folders({"CUDA_HOME": str(tmp_path)}) == ()
    assert nvrtc.include_folders() == ()
    (finding,) = (one for one in doctor.examine(dict(os.environ)) if one.topic == "CUDA headers")
    assert not finding.ok and "nvidia-cuda-runtime" in finding.detail
