"""`problem draft` with records of running programs: which is found, which source is used, what deopt says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from draft.test_recorded import FIXED, SAXPY, At, captured, i32, launch, reals, saxpy

from kcurate.core import store
from kcurate.core.runs import recorded
from kcurate.core.workspace import Workspace
from kcurate.deopt.starts import starts
from kcurate.draft.captured.launch_records import Captures
from kcurate.draft.stage import FIXED as FIXED_SIZE
from kcurate.draft.stage import FORM_NAME, SECOND, DraftConfig, add_kernel, draft
from kcurate.draft.trying.draft_choice import SINGLE_SIZE, Settled
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.records import Capture, Kernel, KnownProblem, Summary

# Nothing here says how the kernel is launched, so the text gives no problem.
ALONE = """
template <typename T> __global__ void clamp(T *x, T most, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] > most) x[i] = most;
}
"""
# The text says all, but no second size; what it computes proves nothing at the first one.
CONSTANT = """
__global__ void ones(float *out) { out[threadIdx.x] = 1.0f; }
int main() {
  float *out;
  cudaMalloc(&out, 64 * sizeof(float));
  ones<<<1, 64>>>(out);
}
"""
HOST = """
int main() {
  float *x, *y;
  cudaMalloc(&x, 5000 * sizeof(float));
  cudaMalloc(&y, 5000 * sizeof(float));
  saxpy<<<20, 256>>>(5000, 2.5f, x, y);
}
"""


def workspace(folder: Path, code: str, records: Sequence[Capture]) -> Path:
    """A workspace with one file extracted and some records."""
    (folder / "tree").mkdir()
    (folder / "tree" / "main.cu").write_text(code)
    extract(ExtractConfig((folder / "tree",), folder / "work", compile=False))
    for number, one in enumerate(records):
        store.write_json(Workspace(folder / "work").captures / one.program / f"{number}.json", one)
    return folder / "work"


def drafted(root: Path) -> tuple[Summary, KnownProblem | None, list[str]]:
    lines: list[str] = []
    summary = draft(DraftConfig(root), note=lines.append)
    found = [store.read_json(path, KnownProblem) for path in root.rglob("problem.json")]
    return summary, found[0] if found else None, lines


def origin(root: Path) -> str:
    (start,) = starts((), Workspace(root))
    return start.origin.problem


def test_recorded_launch_comes_before_the_text(tmp_path: Path) -> None:
    root = workspace(tmp_path, SAXPY + HOST, [captured("saxpy", saxpy(5000))])
    summary, known, lines = drafted(root)
    assert summary.items == {"kernels": {"admitted": 1}, "admitted": {"recorded": 1}}
    assert known is not None
    assert (known.source, origin(root)) == ("captured", "captured")
    assert any(line.endswith("(recorded)") for line in lines)
    assert "# Source: recorded." in next(root.rglob(FORM_NAME)).read_text()


def test_text_is_used_where_the_record_leaves_something_open(tmp_path: Path) -> None:
    made = saxpy(5000)
    null = replace(made, args=(*made.args[:3], replace(made.args[3], pointers=())))
    host = HOST.replace("5000", "n").replace("20, 256", "(n + 255) / 256, 256")
    host = host.replace("int main() {", "void run(int n) {")
    root = workspace(tmp_path, SAXPY + host, [captured("saxpy", null)])
    summary, known, _ = drafted(root)
    assert summary.items["admitted"] == {"read off the text": 1}
    assert known is not None
    assert (known.source, origin(root)) == (None, "drafted")


def test_instance_that_no_launch_in_the_text_names_is_taken_from_the_record(tmp_path: Path) -> None:
    args = (At("x"), np.float32(0.5), i32(9000))
    made = launch([36], [256], args, {"x": reals(9000)}, ["x"])
    root = workspace(tmp_path, ALONE, [captured("void clamp<float>(float*, float, int)", made)])
    summary, known, _ = drafted(root)
    assert summary.items["kernels"] == {"admitted": 1}
    assert known is not None
    assert known.problem.buffers["x"].dtype == "float32"


def test_kernel_of_one_size_is_counted_apart(tmp_path: Path) -> None:
    arrays = {"in": reals(48 * 48), "out": reals(48 * 48)}
    made = launch([1], [48, 8], (At("in"), At("out")), arrays, ["out"])
    root = workspace(tmp_path, FIXED, [captured("transpose", made)])
    summary, known, lines = drafted(root)
    assert summary.items["kernels"] == {"single_size": 1}
    assert known is not None
    assert known.problem.single_size
    assert any("kcurate capture --also" in line for line in lines)


def test_a_second_run_is_advised_only_for_recorded_sizes(tmp_path: Path) -> None:
    lines: list[str] = []
    with recorded("problem draft", tmp_path, note=lines.append) as run:
        for of_launches in (True, False):
            name, line = str(of_launches), "admitted at its one size (recorded)"
            add_kernel(run, tmp_path / "kernel.json", name, Settled(SINGLE_SIZE, "", line, of_launches))
    assert [line.partition(")")[2] for line in lines] == [f"; {SECOND}", f"; {FIXED_SIZE}"]


def test_refusal_of_the_recorded_size_is_told_not_what_the_text_leaves_open(tmp_path: Path) -> None:
    made = launch([1], [64], (At("out"),), {"out": reals(64)}, ["out"])
    root = workspace(tmp_path, CONSTANT, [captured("ones", made)])
    summary, known, lines = drafted(root)
    assert (summary.items["kernels"], known) == ({"refused": 1}, None)
    assert any("too weak for a constant" in line and "(recorded, its one size)" in line for line in lines)
    text = next(root.rglob(FORM_NAME)).read_text()
    assert "# Source: recorded, its one size." in text
    assert "# ?" not in text


def test_unreadable_record_is_named_and_the_others_are_used(tmp_path: Path) -> None:
    root = workspace(tmp_path, SAXPY, [captured("saxpy", saxpy(5000))])
    (root / "captures" / "app" / "bad.json").write_text("{}")
    summary, _, lines = drafted(root)
    assert summary.items["kernels"] == {"admitted": 1}
    assert any("bad.json" in line and line.startswith("not used") for line in lines)


def found(root: Path, **changes: Any) -> Capture | None:
    kernel = next(store.read_json(path, Kernel) for path in root.rglob("kernel.json"))
    return Captures(Workspace(root), lambda _: None).of(replace(kernel, **changes), SAXPY)


def test_record_of_another_kernel_of_the_name_is_not_taken(tmp_path: Path) -> None:
    own = replace(captured("saxpy", saxpy(5000)), params=("int", "float", "float const*", "float*"))
    double = replace(own, params=("int", "double", "double const*", "double*"), mangled="_Zd")
    root = workspace(tmp_path, SAXPY, [double, replace(own, program="other")])
    taken = found(root)
    assert taken is not None
    assert taken.program == "other"
    (root / "captures" / "other" / "1.json").unlink()
    assert found(root) is None


def test_launches_of_one_instance_in_several_programs_are_joined(tmp_path: Path) -> None:
    first, second = captured("saxpy", saxpy(5000)), captured("saxpy", saxpy(700))
    root = workspace(tmp_path, SAXPY, [first, replace(second, program="again")])
    taken = found(root, benchmark="neither")
    assert taken is not None
    assert len(taken.launches) == 2
