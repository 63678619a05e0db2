"""The emulator's compiler: what it keeps, what it refuses, and what it says of this machine (nothing)."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from emulation import compile_side

from kcurate.backends.base import Compiled, CompileFailure, EntryPoint
from kcurate.backends.emulator import source, toolchain
from kcurate.backends.emulator.compiler import EmulatorCompiler
from kcurate.core import compile_cache
from kcurate.errors import MissingDependencyError

CODE = 'extern "C" __global__ void f(float *a) { a[threadIdx.x] = sinf(a[threadIdx.x]); }'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(toolchain, "cache_folder", lambda: folder)
    return folder


def test_a_side_is_compiled_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_side(CODE)
    assert first.backend == "emulator" and first.lowered == {"f": "entry 0"}
    assert first.resources[0].kernel == "f" and first.compiler
    assert sorted(path.name[:5] for path in cache.iterdir()) == ["runti", "side-"]

    def never(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(toolchain, "shared_object", never)
    again = compile_side(CODE)
    assert (again.binary, again.sha256) == (first.binary, first.sha256)
    with pytest.raises(AssertionError, match="compiled again"):
        compile_side(CODE, sanitize=True)
    with pytest.raises(AssertionError, match="compiled again"):
        compile_side(CODE + " ")


def test_an_unwritable_cache_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setattr(toolchain, "cache_folder", lambda: blocked / "emulator")
    assert compile_side(CODE).binary


def test_concurrent_writers_leave_complete_files(cache: Path) -> None:
    answers: list[Compiled | CompileFailure] = []

    def work() -> None:
        answers.append(EmulatorCompiler().compile(CODE, [EntryPoint("f")]))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    binaries = {answer.binary for answer in answers if isinstance(answer, Compiled)}
    kept = [path for path in cache.iterdir() if path.name.startswith("side-")]
    assert len(answers) == 3 and len(kept) == 1 and compile_cache.find(kept[0]) in binaries
    assert not list(cache.glob(".part-*"))


@pytest.mark.parametrize(("limit", "most"), [("MAX_FILES", 4), ("MAX_BYTES", 4 * 33)])
def test_files_that_are_not_used_are_dropped(
    cache: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(compile_cache, limit, most)
    for i in range(6):
        compile_cache.keep(cache / f"side-{i}.so", b"x")
        os.utime(cache / f"side-{i}.so", (i, i))
    assert compile_cache.find(cache / "side-0.so") == b"x"
    compile_cache.prune(cache)
    assert sorted(path.name for path in cache.iterdir()) == [f"side-{i}.so" for i in (0, 3, 4, 5)]


def test_a_damaged_file_is_not_used(cache: Path) -> None:
    compile_cache.keep(cache / "side-0.so", b"x")
    (cache / "side-0.so").write_bytes(b"y" + (cache / "side-0.so").read_bytes()[1:])
    assert compile_cache.find(cache / "side-0.so") is None


def test_without_a_compiler_the_hint_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    toolchain.find.cache_clear()
    try:
        with pytest.raises(MissingDependencyError) as caught:
            EmulatorCompiler()
        assert "kcurate[emulator]" in str(caught.value)
    finally:
        toolchain.find.cache_clear()


def failure(code: str, *kernels: str) -> CompileFailure:
    made = EmulatorCompiler().compile(code, [EntryPoint(name) for name in kernels or ("f",)])
    assert isinstance(made, CompileFailure)
    return made


def test_a_log_contains_no_host_path() -> None:
    made = failure(
        'extern "C" __global__ void f(float4 *a) { a[0] = make_float4(1); __shfl_sync(1, a[0], 2); }'
    )
    assert made.reason == "error"
    assert "kernel.cu:1" in made.log
    for place in (str(source.INCLUDE), "/tmp", "/usr", str(Path.home())):
        assert place not in made.log


@pytest.mark.parametrize("before", ["", "namespace inner { ", "namespace { "])
def test_a_function_without_a_definition_is_an_error(before: str) -> None:
    after = " }" if before else ""
    name = "inner::lost" if "inner" in before else "lost"
    made = failure(
        f"{before}__device__ float lost(float x);{after}\n"
        f'extern "C" __global__ void f(float *a) {{ a[0] = {name}(1) + sqrtf(a[1]); }}'
    )
    assert made.reason == "error"
    assert f"not defined: {name}(float)" in made.log


@pytest.mark.parametrize(
    ("declared", "call", "name"),
    [
        ("int poll(void *, unsigned long, int)", "poll(a, 0, 30)", "poll"),
        ("long syscall(long)", "syscall(39)", "syscall"),
        ("void *mmap(void *, unsigned long, int, int, int, long)", "mmap(a, 1, 0, 0, 0, 0)", "mmap"),
        ("int munmap(void *, unsigned long)", "munmap(a, 1)", "munmap"),
        ("int snprintf(char *, unsigned long, const char *, ...)", 'snprintf((char *)a, 4, "x")', "snprintf"),
        ("void *_Znwm(unsigned long)", "_Znwm(4)", "_Znwm"),
    ],
)
@pytest.mark.parametrize("build", [{}, {"turns": True}, {"examine": True}])
def test_a_side_links_to_nothing_of_the_host(
    declared: str, call: str, name: str, build: dict[str, bool]
) -> None:
    code = (
        f'extern "C" {declared};\nextern "C" __global__ void f(float *a) {{ a[0] = a[1] + (long)::{call}; }}'
    )
    made = EmulatorCompiler().compile(code.replace("::", ""), [EntryPoint("f")], **build)
    assert isinstance(made, CompileFailure) and f"not defined: {name}" in made.log


@pytest.mark.parametrize("build", [{}, {"turns": True}, {"examine": True}])
def test_a_side_links_to_mathematics_and_what_its_code_becomes(build: dict[str, bool]) -> None:
    code = """
    struct Base { virtual __device__ float of(float x) const = 0; virtual __device__ ~Base() {} };
    struct Twice : Base { __device__ float of(float x) const override { return 2 * x; } };
    extern "C" __global__ void f(float *a, double *d, __int128 *w)
    {
        Twice twice;
        const Base *base = &twice;
        float s, c;
        sincosf(a[0], &s, &c);
        a[1] = base->of(s) + c + lgammaf(a[2]) + j0f(a[3]) + normcdfinvf(a[4]);
        d[0] = pow(d[1], d[2]) + jn(2, d[3]) + (double)(w[0] / w[1]);
        for (int i = 0; i < 4096; i++) a[i + 100] = 0;
        memcpy(a + 5000, a, 512);
    }"""
    assert isinstance(EmulatorCompiler().compile(code, [EntryPoint("f")], **build), Compiled)


def test_a_missing_kernel_is_an_error() -> None:
    assert "missing" in failure(CODE, "missing").log
    assert failure("int f;").reason == "error"
    assert "zero byte" in failure(CODE + "\0").log


@pytest.mark.parametrize("sanitize", [False, True])
def test_a_variable_length_array_is_an_error(cache: Path, sanitize: bool) -> None:
    code = 'extern "C" __global__ void f(float *a, int n) { float v[n * 100]; v[n] = a[0]; a[0] = v[0]; }'
    made = EmulatorCompiler().compile(code, [EntryPoint("f")], sanitize=sanitize)
    assert isinstance(made, CompileFailure)
    assert made.reason == "error" and "variable length array" in made.log


def test_an_array_of_constant_length_is_accepted() -> None:
    compile_side("""
constexpr int K = 3;
template <int N> __device__ float g(float x) { float w[N]; w[0] = x; return w[0]; }
extern "C" __global__ void f(float *a) { const int m = K * 2; float v[m]; v[0] = g<K>(a[0]); a[0] = v[0]; }
""")


def test_code_with_warnings_compiles_and_the_log_omits_them() -> None:
    warned = """
__device__ int g() {}
extern "C" __global__ void f(int *a) { int b[] = {1.5f}; unsigned char c = 300; a[0] = b[0] + c + g(); }
"""
    compile_side(warned)
    log = failure(f"{warned}__device__ int h() {{ return undeclared; }}\n__device__ int i() {{}}\n").log
    if "g++" in toolchain.find().command[0]:
        assert "In function 'int {anonymous}::h()'" in log and "'undeclared' was not" in log
    assert "undeclared" in log and "generated" not in log
    assert "warning" not in log and "300" not in log and "int i()" not in log


def test_a_long_log_is_cut() -> None:
    lines = "\n".join(f"wrong{i} x{'y' * 400}{i};" for i in range(400))
    assert len(failure(f"{lines}\n{CODE}").log) < 4100


def test_a_compiler_that_hangs_is_a_timeout(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = EmulatorCompiler()

    def hang(*_: object) -> None:
        raise subprocess.TimeoutExpired("g++", 1)

    monkeypatch.setattr(toolchain, "shared_object", hang)
    made = compiler.compile(CODE, [EntryPoint("f")])
    assert isinstance(made, CompileFailure) and made.reason == "timeout"


def test_preparing_keeps_every_line_where_it_was() -> None:
    code = (
        "a /* 1\n2\n3 */ b // c \\\n d\n'/'\n#pragma unroll\nextern __shared__\nfloat\nx[];\n\"//\" e\\\nf\ng"
    )
    prepared = source.prepare(code)
    assert prepared.count("\n") == code.count("\n")
    for word in ("'/'", '"//"', "g"):
        line = next(i for i, text in enumerate(code.splitlines()) if text.startswith(word))
        assert prepared.splitlines()[line].startswith(word)
    assert "pragma" not in prepared and "extern" not in prepared
