"""The faster kernel replaces the user's only where nothing else in the file or its launch has to change."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kcurate.errors import InputError
from kcurate.own.kernels import UserKernel, find_kernels
from kcurate.own.patch import diff, patched, write
from kcurate.records import Buffer, Launch, Side

FILE = """\
// Twice the numbers.
#define FACTOR 2.0f
__device__ float twice(float x) { return FACTOR * x; }  // a helper

extern "C" __global__ void scale(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = twice(x[i]);  // one each
}
template <int K> __global__ void many(const float *x, float *y, int n) {
  for (int k = 0; k < K; ++k) y[k] = twice(x[k]);
}
void run(float *x, float *y, int n) {
  scale<<<(n + 127) / 128, 128>>>(x, y, n);
  many<4><<<1, 1>>>(x, y, n);
}
"""
PLAN = (Launch("scale", ("ceil_div(n, 128)",), (128,), ("x", "y", "n")),)


def found(folder: Path, name: str = "scale", text: str = FILE) -> tuple[UserKernel, Side]:
    (folder / "k.cu").write_bytes(text.encode())
    (own,) = find_kernels([str(folder / f"k.cu:{name}")], folder / "work")
    return own, Side(own.code, PLAN)


def without_comments(side: Side) -> Side:
    """As a model answers: the given code without its comments."""
    code = side.code.replace("  // one each", "").replace("  // a helper", "")
    return replace(side, code=code.replace("// Twice the numbers.\n", ""))


def test_only_the_kernel_changes(tmp_path: Path) -> None:
    own, given = found(tmp_path)
    made = replace(without_comments(given), code=given.code.replace("twice(x[i]);", "2.0f * x[i];"))
    new = patched(own, given, made)
    assert isinstance(new, bytes)
    assert new.decode() == FILE.replace("twice(x[i]);", "2.0f * x[i];")
    shown = diff(own.data, new, "k.cu")
    assert shown.startswith("--- a/k.cu\n+++ b/k.cu\n")
    assert [line for line in shown.splitlines() if line[0] in "+-"][2:] == [
        "-  if (i < n) y[i] = twice(x[i]);  // one each",
        "+  if (i < n) y[i] = 2.0f * x[i];  // one each",
    ]


def test_a_file_with_windows_line_ends_keeps_them(tmp_path: Path) -> None:
    own, given = found(tmp_path, text=FILE.replace("\n", "\r\n"))
    made = replace(given, code=given.code.replace("\r\n", "\n").replace("if (i < n)", "if (n > i)"))
    new = patched(own, given, made)
    assert isinstance(new, bytes)
    assert new == FILE.replace("if (i < n)", "if (n > i)").replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: replace(s, code="__device__ int more() { return 1; }\n" + s.code), "other helpers"),
        (lambda s: replace(s, code="#include <cuda_fp16.h>\n" + s.code), "other helpers"),
        (lambda s: replace(s, code=s.code.replace("FACTOR 2.0f", "FACTOR 3.0f")), "other helpers"),
        (lambda s: replace(s, code=s.code.replace("int n)", "long n)")), "parameters have other types"),
        (lambda s: replace(s, code=s.code.replace("void scale", "void faster")), "no kernel scale"),
        (
            lambda s: replace(s, plan=(replace(PLAN[0], block=(256,)),)),
            r"<<<ceil_div\(n, 128\), 256>>>, not as <<<ceil_div\(n, 128\), 128>>>",
        ),
        (lambda s: replace(s, plan=PLAN * 2), "launched differently"),
        (lambda s: replace(s, plan=(replace(PLAN[0], shared_bytes=64),)), "launched differently"),
        (
            lambda s: replace(
                s,
                plan=(replace(PLAN[0], args=("x", "y", "t")),),
                buffers={"t": Buffer("float32", ("n",), role="scratch")},
            ),
            "launched differently",
        ),
    ],
)
def test_more_than_a_kernel_is_left_to_a_person(
    tmp_path: Path, change: Callable[[Side], Side], why: str
) -> None:
    own, given = found(tmp_path)
    reason = patched(own, given, change(without_comments(given)))
    assert isinstance(reason, str)
    assert re.search(why, reason), reason


def test_a_template_keeps_its_parameters(tmp_path: Path) -> None:
    own, given = found(tmp_path, "many")
    plan = (Launch("many", (1,), (1,), ("x", "y", "n"), ("4",)),)
    given = replace(given, plan=plan)
    other = replace(given, code=given.code.replace("template <int K>", "template <long K>"))
    assert patched(own, given, other) == "its parameters have other types"
    same = replace(given, code=given.code.replace("++k", "k++"))
    assert patched(own, given, same) == FILE.replace("++k", "k++").encode()


def test_branches_of_the_preprocessor_are_not_thrown_away(tmp_path: Path) -> None:
    text = FILE.replace("  if (i < n) y", "#ifdef SLOW\n  return;\n#endif\n  if (i < n) y")
    own, given = found(tmp_path, text=text)
    reason = patched(own, given, replace(given, code=given.code.replace("if (i < n)", "if (n > i)")))
    assert reason == "the kernel holds #if branches, of which only one was read"


def test_a_file_that_changed_since_is_not_touched(tmp_path: Path) -> None:
    own, _ = found(tmp_path)
    own.path.write_text(FILE + "// edited\n")
    with pytest.raises(InputError, match="changed since it was read"):
        write(own, b"new")
    assert own.path.read_text() == FILE + "// edited\n"


def test_the_permissions_of_a_file_stay(tmp_path: Path) -> None:
    own, _ = found(tmp_path)
    own.path.chmod(0o640)
    write(own, b"new")
    assert (own.path.read_bytes(), own.path.stat().st_mode & 0o777) == (b"new", 0o640)
