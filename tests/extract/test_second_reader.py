"""libclang as second reader: what it adds, what it may not add, and that a bad one costs nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from kcurate.core import time_limits
from kcurate.core.notes import silent
from kcurate.core.store import read_json
from kcurate.cuda_source import extract_unit
from kcurate.cuda_source.launches.second_reading import Reading
from kcurate.extract import second_reader
from kcurate.extract.settings import ExtractConfig
from kcurate.extract.stage import run
from kcurate.records import Kernel, Summary

# Instances that only a compiler follows: an argument of a member function's own template.
FOLLOWED = """
namespace wave {
template <typename T, int N> __global__ void step(T *x) { x[threadIdx.x] *= N; }
}
template <typename T> struct Runner {
  template <int N> void run(T *x) { wave::step<T, N>< < <1, 32> > >(x); }
  void go(T *x, int n) { if (n == 1) run<1>(x); else run<2>(x); }
};
__global__ void plain(float *x) { x[0] = 1; }
void f(float *x, double *y) { Runner<float>().go(x, 1); Runner<double>().go(y, 2); plain<<<1, 1>>>(x); }
"""


@pytest.fixture
def clang(monkeypatch: pytest.MonkeyPatch) -> second_reader.Clang:
    """libclang, where it is installed; `extract` asks it in this test."""
    monkeypatch.setattr(second_reader, "PACKAGE", "libclang-ng")
    notes: list[str] = []
    found = second_reader.find(notes.append)
    loads = [sys.executable, "-c", "from clang import cindex; cindex.Index.create()"]
    if found is None or subprocess.run(loads, check=False).returncode:
        pytest.skip(f"needs the extra clang: pip install 'kcurate[clang]' {notes}")
    return found


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings of earlier runs do not count; the precompiled header is made once."""
    kept = second_reader.compile_cache.keep
    monkeypatch.setattr(
        second_reader.compile_cache,
        "keep",
        lambda place, content: place.suffix == ".pch" and kept(place, content),
    )


def read(reader: second_reader.Clang, text: str, *expressions: str) -> Reading:
    reading = reader.read(text.encode(), expressions, None)
    assert reading.failed is None
    return reading


def instances(reading: Reading) -> set[tuple[str, str]]:
    return {(each.name, each.arguments) for each in reading.instances}


def extract(
    folder: Path, compile: bool = False, **files: str
) -> tuple[Summary, dict[str, Kernel], list[dict[str, object]]]:
    """Extract files; the summary, the kernels by name, and what the readers disagree on."""
    (folder / "tree").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / "tree" / f"{name}.cu").write_text(text)
    summary = run(ExtractConfig((folder / "tree",), folder / "work", compile=compile))
    kernels = [read_json(path, Kernel) for path in (folder / "work" / "kernels").rglob("kernel.json")]
    lines = [
        json.loads(line)
        for path in (folder / "work" / "runs").glob("*/second_reader.jsonl")
        for line in path.read_text().splitlines()
    ]
    return summary, {kernel.name: kernel for kernel in kernels}, lines


def test_instances_that_only_a_compiler_follows_are_stated(clang: object, tmp_path: Path) -> None:
    summary, kernels, lines = extract(tmp_path, followed=FOLLOWED)
    expected = [f"wave::step<{type_}, {number}>" for type_ in ("float", "double") for number in (1, 2)]
    assert sorted(kernels["step"].instantiations) == sorted(expected)
    assert summary.counts["second_reader"] == {"kernel": 2, "instance_taken": 4}
    assert Counter(line["what"] for line in lines) == Counter(expected)
    assert {(line["path"], line["line"], line["kernel"]) for line in lines} == {("followed.cu", 3, "step")}
    code = next((tmp_path / "work").rglob("step/kernel.cu")).read_text()
    assert "template __global__ decltype(wave::step<float, 1>) wave::step<float, 1>;" in code


# By name, both functions and the specialisation are needed; libraries that are not there declare their types.
OVERLOADED = """
struct Host : library::Base {};
__device__ float scale(float x) { return 2 * x; }
__device__ float scale(const Host &h) { return 1; }
template <class T> __device__ T same(T x) { return x; }
template <> __device__ library::Half same(library::Half x) { return x; }
template <class T> struct Box { T x; __device__ T get() const { return scale(x); } };
template <class T> __global__ void k(T *x) { Box<T> b{x[0]}; x[0] = same(b.get()); }
void f(float *x) { k<<<1, 1>>>(x); }
"""


def test_a_file_that_does_not_compile_is_built_of_what_the_compiler_reaches(
    clang: object, tmp_path: Path
) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    summary, kernels, _ = extract(tmp_path, compile=True, a=OVERLOADED)
    kernel = kernels["k"]
    assert kernel.compiled is not None and kernel.compiled.ok and "reached" in kernel.shims
    assert summary.counts["second_reader"]["symbols_taken"] == 1
    code = next((tmp_path / "work").rglob("k/kernel.cu")).read_text()
    assert "scale(float x)" in code and "Host" not in code and "library" not in code


def test_a_file_that_compiles_stays_whole(clang: object, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    text = OVERLOADED.replace(" : library::Base", "").replace("library::Half", "Host")
    summary, kernels, _ = extract(tmp_path, compile=True, a=text)
    assert kernels["k"].compiled and kernels["k"].compiled.ok and "reached" not in kernels["k"].shims
    assert "symbols_taken" not in summary.counts["second_reader"]
    assert "scale(const Host &h)" in next((tmp_path / "work").rglob("k/kernel.cu")).read_text()


@pytest.mark.parametrize(
    ("changes", "believed"),
    [
        ({}, True),
        ({"template <class T> struct Box": "int made = library::made;\ntemplate <class T> struct Box"}, True),
        ({"return 2 * x;": "return library::of(x);"}, False),
        ({"class T> __g": "class... T> __g", "k(T *x)": "k(T... x)", "(x); }": "(1, 2.0f); }",
          "Box<T> b{x[0]}; x[0] = same(b.get())": "scale(1)", "k<<<": "k<int><<<"}, False),
    ],
    ids=["as it is", "error elsewhere", "error in it", "unseen instance"],
)  # fmt: skip
def test_nothing_is_believed_behind_an_error_or_of_other_instances(
    clang: second_reader.Clang, changes: dict[str, str], believed: bool
) -> None:
    """An error may hide a call; an instance that the compiler lacks may mean other overloads."""
    text = OVERLOADED
    for was, is_ in changes.items():
        assert was in text
        text = is_.join(text.rsplit(was, 1))
    [kernel] = extract_unit(
        "a.cu", lambda path: text.encode(), lambda *_: None, {}, partial(clang.read, standard=None)
    ).kernels
    assert (kernel.reached is not None) == believed


def test_without_the_extra_everything_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_reader, "PACKAGE", "no-such-package")
    summary, kernels, lines = extract(tmp_path, followed=FOLLOWED)
    assert second_reader.find(silent) is None and "second_reader" not in summary.counts
    assert not lines and kernels["step"].instantiations == ()
    assert not list((tmp_path / "work").rglob("second_reader.jsonl"))


def test_without_headers_or_a_sandbox_a_note_says_so(clang: object, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(second_reader.isolation, "confined", lambda: False)
    assert second_reader.find(notes.append) is None
    monkeypatch.setattr(second_reader.nvrtc, "include_folders", lambda: ())
    assert second_reader.find(notes.append) is None
    assert notes == [
        "libclang is not asked, for want of a sandbox (see kcurate doctor)",
        "libclang is not asked, for want of CUDA's headers (pip install 'kcurate[clang]')",
    ]


def test_what_the_own_reader_found_stays(clang: object, tmp_path: Path) -> None:
    """Where both find instances, the file states the own reader's, and the report has the others."""
    text = """
    template <class... T> __global__ void all(T... x) {}
    template <class T> __global__ void k(T *x) {}
    template <class T> void unused(T *x) { k<T><<<1, 1>>>(x); }
    template void unused(short *);
    void f(float *x) { k<<<1, 1>>>(x); all<int><<<1, 1>>>(1, 2.0f); }
    """
    _, kernels, lines = extract(tmp_path, a=text)
    assert kernels["all"].instantiations == ("all<int>",) and kernels["k"].instantiations == ("k<float>",)
    assert {(line["kernel"], line["seen"], line["what"]) for line in lines} == {
        ("k", "instance_only_compiler", "short"),
        ("all", "instance_only_here", "all<int>"),
        ("all", "instance_only_compiler", "<int, float>"),
    }


def test_kernels_in_macros_and_in_templates_are_seen_at_their_call(clang: second_reader.Clang) -> None:
    reading = read(
        clang,
        "#define MAKE(name, op) template <class T> __global__ void name(T *x) { x[0] = x[0] op 1; }\n"
        "MAKE(add, +)\nMAKE(mul, *)\n"
        'extern "C" { __global__ void c(int *x) { x[0] = 1; } }\n'
        "namespace { struct Q {}; template <class T> __global__ void anon(T) {} }\n"
        "void f(float *x) { add<<<1, 1>>>(x); anon<<<1, 1>>>(Q());\n"
        "cudaLaunchKernel((void *)mul<char>, 1, 1, 0, 0, 0); }\n",
    )
    assert {kernel.name for kernel in reading.kernels} == {"add", "mul", "c", "anon"}
    assert instances(reading) == {("add", "float"), ("mul", "char"), ("anon", "(anonymous namespace)::Q")}


def test_expressions_are_looked_up_behind_the_text(clang: second_reader.Clang) -> None:
    text = "typedef float real; const int W = 4; template <class T, int N = 4> __global__ void k(T *x) {}\n"
    reading = read(clang, text + "void f(float *x) { k<<<1, 1>>>(x); }\n", "k<real, W>", "k<3>", "k<short>")
    [used] = reading.instances
    assert dict(reading.stated)[0] == used.id and dict(reading.stated)[2] != used.id
    assert [number for number, _ in reading.refused] == [1] and not reading.errors


def test_a_missing_header_does_not_end_the_reading(clang: second_reader.Clang) -> None:
    text = "#include <nowhere/lib.h>\ntemplate <class T> __global__ void k(T *x) {}\n"
    reading = read(clang, text + "void f(float *x, lib::T *y) { k<<<1, 1>>>(x); k<<<1, 1>>>(y); }\n")
    assert instances(reading) == {("k", "float")} and reading.errors


def test_what_was_precompiled_with_other_headers_is_left_out(
    clang: second_reader.Clang, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_reader.Clang, "_precompiled", lambda *_: b"of another compiler")
    assert instances(read(clang, FOLLOWED)) >= {("step", "float, 1")}


def test_headers_of_another_date_are_precompiled_anew(
    clang: second_reader.Clang, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_reader, "FIRST", tmp_path / "first.h")
    identities = set()
    for second in (1, 2):
        second_reader.FIRST.write_text("")
        os.utime(second_reader.FIRST, (second, second))
        found = second_reader.find(silent)
        assert found is not None
        identities.add(found.identity)
    assert len(identities) == 2


def test_only_headers_can_be_read(clang: second_reader.Clang, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("#define SECRET 4\n")
    kernel = "template <int N> __global__ void k() {}\nvoid f() { k<SECRET><<<1, 1>>>(); }\n"
    for quoted in (f'"{secret}"', f"<{secret}>"):
        reading = read(clang, f"#include {quoted}\n#ifndef SECRET\n#define SECRET 5\n#endif\n{kernel}")
        assert instances(reading) == {("k", "5")}


@pytest.mark.parametrize(
    "code",
    [
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "print('{')",
        "print('{\"kernels\": 3}')",
        "import time; time.sleep(60)",
    ],
    ids=["crash", "cut off", "nonsense", "too long"],
)  # fmt: skip
def test_a_reader_that_fails_costs_no_kernel(
    clang: object, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_reader, "BOOT", code)
    monkeypatch.setattr(time_limits, "READ_WITH_CLANG_S", 2.0)
    summary, kernels, [line] = extract(tmp_path, followed=FOLLOWED)
    assert set(kernels) == {"step", "plain"} and summary.counts["second_reader"] == {"not_read": 1}
    assert line["seen"] == "not_read" and "libclang" in str(line["what"])


def test_a_process_of_it_has_no_secrets_and_leaves_nothing(
    clang: second_reader.Clang, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setattr(second_reader.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(
        second_reader, "BOOT", f"import os; open({str(seen)!r}, 'w').write(repr(dict(os.environ)))"
    )
    clang.read(b"__global__ void k() {}", (), None)
    assert "secret" not in seen.read_text() and "PATH" in seen.read_text()
    assert list(tmp_path.iterdir()) == [seen]
