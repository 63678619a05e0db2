"""Launches in Triton, recorded in a program that runs on Triton's interpreter, and the drafts they give."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kcurate.backends.triton import installed
from kcurate.capture import running, stage
from kcurate.capture.stage import CaptureConfig
from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.draft.captured.expression_choice import Trust
from kcurate.draft.captured.launch_records import Captures
from kcurate.draft.captured.triton_launches import of_triton
from kcurate.draft.sketch import Draft, Reason
from kcurate.draft.stage import DraftConfig, draft
from kcurate.errors import InputError
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.problem.dtypes import numpy_dtype
from kcurate.records import Capture, Kernel, Launch

PROGRAMS = Path(__file__).with_name("programs")
pytestmark = pytest.mark.skipif(installed.version() is None, reason="Triton is not installed")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernels of the program, and the records of one run without a GPU."""
    root = tmp_path_factory.mktemp("triton")
    (root / "tree").mkdir()
    for name in ("launches.py", "tensors.py"):
        shutil.copy(PROGRAMS / name, root / "tree")
    extract(ExtractConfig((root / "tree",), root / "work", compile=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "GPU", root / "none")
        command = (sys.executable, str(root / "tree" / "launches.py"), "a")
        done = stage.run(CaptureConfig(command, root / "work", keep_data=True))
    assert done.exit_code == 3
    return root / "work"


def records(workspace: Path) -> dict[str, Capture]:
    return {
        one.kernel: one
        for path in workspace.glob("captures/launches.py/*.json")
        for one in [store.read_json(path, Capture)]
    }


def drafted(workspace: Path, name: str, trust: Trust = "apart") -> Draft:
    (path,) = workspace.rglob(f"{name}/kernel.json")
    kernel, code = store.read_json(path, Kernel), store.read_kernel_code(path.parent)
    capture = Captures(Workspace(workspace), pytest.fail).of_triton(kernel)
    assert capture is not None
    return of_triton(kernel, code, capture, 1 << 20, trust)


def test_the_recorded_program_keeps_its_output(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('the own one')")
    (tmp_path / "plain.py").write_text("import sys\nprint(sys.path[1:])\nsys.exit(4)\n")
    own = {"PYTHONPATH": str(tmp_path), "PATH": ""}
    recorded = {**own, "PYTHONPATH": f"{running.INJECTED}:{tmp_path}", "KCURATE_CAPTURE_DIR": str(tmp_path)}
    ran = [
        subprocess.run(
            [sys.executable, tmp_path / "plain.py"], env=env, capture_output=True, timeout=60, text=True
        )
        for env in (own, recorded)
    ]
    assert (ran[0].stdout, ran[0].stderr, ran[0].returncode) == (ran[1].stdout, ran[1].stderr, 4)
    assert ran[1].stdout.startswith("the own one")
    assert not list(tmp_path.glob("*.jsonl")), "nothing was launched"


def test_distinct_launches_are_recorded(workspace: Path) -> None:
    rows = records(workspace)["row_sum"]
    assert (rows.source, rows.mangled) == ("triton", "__main__.row_sum")
    assert rows.file is not None and rows.file.endswith("tree/launches.py")
    assert rows.params == ("*fp32", "*fp32", "none", "i32", "i32", "constexpr", "constexpr")
    assert [(one.grid, one.times, dict(one.constexprs)) for one in rows.launches] == [
        ((67, 1, 1), 3, {"BLOCK": 128, "KIND": "tl.fp32"}),
        ((40, 1, 1), 3, {"BLOCK": 512, "KIND": "tl.fp32"}),
    ]
    launch = rows.launches[0]
    assert [one.block for one in rows.launches] == [(4 * 32, 1, 1), (8 * 32, 1, 1)]
    assert (launch.args[0].shape, launch.args[0].strides) == ((67, 100), (100, 1))
    assert [int.from_bytes(bytes.fromhex(one.hex), "little") for one in launch.args[3:]] == [100, 100]
    assert [one.changed for one in launch.buffers] == [False, True]
    assert launch.buffers[0].before is not None and launch.buffers[0].before.init is not None
    assert launch.buffers[1].after is not None


def test_tuning_leaves_the_launch_with_what_it_chose(workspace: Path) -> None:
    (launch,) = records(workspace)["scale"].launches
    assert launch.times == 1
    assert dict(launch.constexprs) == {"BLOCK": 64, "EVEN": True}
    assert launch.block == (2 * 32, 1, 1)
    assert launch.args[0].pointers[0].offset == 2 * 40 * 4


def test_two_sizes_give_expressions(workspace: Path) -> None:
    made = drafted(workspace, "row_sum")
    assert not made.reasons
    problem = made.known.problem
    assert problem.buffers["out"].role == "out"
    assert problem.buffers["out"].tolerance is not None
    (step,) = made.known.sides[""].plan
    assert isinstance(step, Launch)
    assert step.args == ("x", "out", "cols", "cols")
    assert step.constexprs == {"BLOCK": "pow2(log2(cols - 1) + 1)", "KIND": "'tl.fp32'"}
    assert (step.num_warps, step.block, step.nulls) == (8, (), ("bias",))


def test_a_part_of_a_storage_is_a_buffer(workspace: Path) -> None:
    made = drafted(workspace, "scale")
    assert made.known.problem.buffers["x"].shape == ("n",)
    assert made.known.problem.buffers["x"].role == "inout"
    assert numpy_dtype(made.known.problem.buffers["x"].dtype).itemsize == 4


def test_a_kernel_that_nothing_recorded_stays_open(workspace: Path, tmp_path: Path) -> None:
    shutil.copytree(workspace / "kernels", tmp_path / "kernels")
    summary = draft(DraftConfig(tmp_path))
    assert summary.counts["open"] == {str(Reason.NO_LAUNCH_SITE): 2}


TUNED = """
import torch, triton, triton.language as tl

@triton.autotune(configs=[triton.Config({"PART": part}) for part in (16, 32)], key=["n"])
@triton.jit
def twice(p, n, PART: tl.constexpr):
    at = tl.arange(0, PART)
    tl.store(p + at, 2 * tl.load(p + at, mask=at < n), mask=at < n)

twice[(1,)](torch.ones(16), 16)
"""


def test_an_autotuned_program_is_recorded_without_a_gpu(tmp_path: Path) -> None:
    program = tmp_path / "tree" / "launches.py"
    program.parent.mkdir()
    program.write_text(TUNED)
    work = tmp_path / "work"
    extract(ExtractConfig((program.parent,), work, compile=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "GPU", tmp_path / "none")
        stage.run(CaptureConfig((sys.executable, str(program)), work, recorder="triton"))
    (launch,) = records(work)["twice"].launches
    assert dict(launch.constexprs) == {"PART": 16}


HALVES = """
import torch, triton, triton.language as tl

@triton.autotune(configs=[triton.Config({"FIRST": first}) for first in FIRSTS], key=["n"])
@triton.jit
def doubled(p, out, n, FIRST: tl.constexpr):
    at = FIRST + tl.arange(0, 256)
    tl.store(out + at, 2 * tl.load(p + at, mask=at < n), mask=at < n)

for n in (512, 300):
    doubled[(1,)](torch.randn(n), torch.full((n,), 3e37), n)
"""


@pytest.mark.parametrize(("firsts", "outcome"), [("(0, 256)", "refused"), ("(0,)", "admitted")])
def test_what_one_of_several_configurations_leaves_out_is_not_filled(
    tmp_path: Path, firsts: str, outcome: str
) -> None:
    program = tmp_path / "tree" / "halves.py"
    program.parent.mkdir()
    program.write_text(HALVES.replace("FIRSTS", firsts))
    work = tmp_path / "work"
    extract(ExtractConfig((program.parent,), work, compile=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "GPU", tmp_path / "none")
        stage.run(CaptureConfig((sys.executable, str(program)), work, recorder="triton"))
    summary = draft(DraftConfig(work, jobs=1))
    assert summary.counts["kernels"].get(outcome) == 1, summary


def test_a_program_without_launches_is_one_line(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "pass")
    with pytest.raises(InputError, match="no kernel was launched"):
        stage.run(CaptureConfig(command, tmp_path, recorder="triton"))


def test_a_record_of_another_kernel_of_the_name_is_not_taken(workspace: Path) -> None:
    (path,) = workspace.rglob("row_sum/kernel.json")
    kernel = store.read_json(path, Kernel)
    captures = Captures(Workspace(workspace), pytest.fail)
    *others, last = kernel.params
    assert captures.of_triton(kernel) is not None
    assert captures.of_triton(replace(kernel, params=tuple(others))) is None
    assert captures.of_triton(replace(kernel, params=(*others, replace(last, name="TILE")))) is None


@pytest.mark.slow
def test_drafts_are_admitted(workspace: Path) -> None:
    summary = draft(DraftConfig(workspace))
    assert summary.counts["kernels"] == {"admitted": 2}
