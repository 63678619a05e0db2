"""`kcurate problem check`, and the errors of both commands: one clear line, a code other than 0."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kcurate.cli import run
from kcurate.core.workspace import Workspace
from kcurate.deopt.starts import starts
from kcurate.draft.file.toml_reader import read
from kcurate.draft.stage import FORM_NAME
from tests.draft.conftest import Drafted

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def workspace(drafted: Drafted, tmp_path: Path) -> Drafted:
    """A copy that a test may change."""
    root = tmp_path / "work"
    shutil.copytree(drafted.root, root)
    return Drafted(root, drafted.summary, drafted.lines)


def check(workspace: Drafted, path: Path) -> int:
    return run(["problem", "check", str(path), "--workspace", str(workspace.root)])


def test_admitted_draft_is_admitted_again(workspace: Drafted, capsys: Captured) -> None:
    folder = workspace.folder("saxpy")
    (folder / "problem.json").unlink()
    assert check(workspace, folder / FORM_NAME) == 0
    assert (folder / "problem.json").exists()
    assert "admitted" in capsys.readouterr().out


def test_unfinished_file_names_line_and_place(workspace: Drafted, capsys: Captured) -> None:
    path = workspace.folder("through_table") / FORM_NAME
    assert check(workspace, path) == 1
    said = capsys.readouterr().err
    number = next(i for i, line in enumerate(path.read_text().splitlines(), 1) if "# ?" in line)
    assert f"{path}:{number}: open: dtype" in said
    assert said.strip().splitlines()[-1].startswith("error: ")


def finished(path: Path, sizes: str, *, count: str, blocks: str, last: str) -> str:
    """What a person makes of the draft of `mystery`; all but the path is text of the form."""
    return f"""
suite = "tree"
benchmark = "open"
[draft]
kernel = "{read(path).kernel}"
[problem.sizes]
{sizes}
[problem.buffers.in]
dtype = "float32"
shape = [{count}]
init = {{kind = "normal"}}
[problem.buffers.out]
dtype = "float32"
shape = [{count}]
role = "out"
[[sides."".plan]]
launch = "mystery"
grid = [{blocks}]
block = [256]
args = ["in", "out", {last}, {{value = 0, dtype = "int32"}}]
"""


def test_a_completed_file_is_admitted(workspace: Drafted) -> None:
    folder = workspace.folder("mystery")
    path = folder / FORM_NAME
    assert "# ?" in path.read_text()
    sizes = "test = [{n = 500}, {n = 33}]\nbench = {n = 1000000}"
    path.write_text(finished(path, sizes, count='"n"', blocks='"ceil_div(n, 256)"', last='"n"'))
    assert check(workspace, path) == 0
    (start,) = starts([folder], Workspace(workspace.root))
    assert start.problem is not None
    assert start.given.plan


def test_faults_name_their_line(workspace: Drafted, capsys: Captured) -> None:
    path = workspace.folder("saxpy") / FORM_NAME
    lines = path.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("[problem.buffers.y]"))
    shape = next(i for i in range(at, len(lines)) if lines[i].startswith("init"))
    lines[shape] = 'init = {kind = "nothing"}'
    path.write_text("\n".join(lines))
    assert check(workspace, path) == 1
    assert f"{path}:{shape + 1}: unknown init 'nothing'" in capsys.readouterr().err


def test_buffer_that_is_too_short_is_refused(workspace: Drafted, capsys: Captured) -> None:
    path = workspace.folder("saxpy") / FORM_NAME
    head, _, tail = path.read_text().partition("[problem.buffers.x]")
    shorter = tail.replace('shape = ["n"]', 'shape = ["n - 1"]', 1)
    path.write_text(f"{head}[problem.buffers.x]{shorter}")
    assert check(workspace, path) == 1
    said = capsys.readouterr().err
    assert "mismatch" in said or "depends on uninitialised memory" in said


def test_one_size_setting_is_not_enough(workspace: Drafted, capsys: Captured) -> None:
    path = workspace.folder("saxpy") / FORM_NAME
    lines = path.read_text().splitlines()
    at = lines.index("test = [")
    end = next(i for i in range(at, len(lines)) if lines[i].startswith("]"))
    lines[at : end + 1] = ["test = [{n = 100}]"]
    path.write_text("\n".join(lines))
    assert check(workspace, path) == 1
    assert f"{path}:{at + 1}: fewer than 2" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["suite = ", 'suite = "x"\n[draft]\nkernel = 3\n', "[draft]\n"])
def test_broken_file_is_one_line(drafted: Drafted, tmp_path: Path, capsys: Captured, text: str) -> None:
    path = tmp_path / FORM_NAME
    path.write_text(text)
    assert check(drafted, path) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_missing_file_and_unknown_kernel_are_one_line_errors(drafted: Drafted, capsys: Captured) -> None:
    missing = drafted.root / "nothing.toml"
    assert check(drafted, missing) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {missing}: cannot read")
    assert run(["problem", "draft", "no/such/kernel", "-w", str(drafted.root)]) == 1
    assert run(["problem", "draft", "-w", str(drafted.root / "empty")]) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 2
    assert all(line.startswith("error: ") for line in said)


def test_a_kernel_that_nothing_launches_and_that_reads_nothing_is_too_weak(
    workspace: Drafted, capsys: Captured
) -> None:
    folder = workspace.folder("never_launched")
    assert run(["problem", "draft", str(folder), "--again", "-w", str(workspace.root)]) == 1
    assert "the problem is too weak" in capsys.readouterr().err
    assert "guess: nothing launches it" in (folder / FORM_NAME).read_text()


def test_an_edited_file_is_kept(workspace: Drafted, capsys: Captured) -> None:
    path = workspace.folder("saxpy") / FORM_NAME
    path.write_text("# mine\n")
    assert run(["problem", "draft", str(path.parent), "-w", str(workspace.root), "--json"]) == 0
    assert path.read_text() == "# mine\n"
    assert '"kept": 1' in capsys.readouterr().out


def test_problem_without_sizes_needs_one_setting(workspace: Drafted) -> None:
    path = workspace.folder("mystery") / FORM_NAME
    sizes = "test = [{}]\nbench = {}"
    path.write_text(finished(path, sizes, count="300", blocks="2", last='{value = 300, dtype = "int32"}'))
    assert check(workspace, path) == 0


def test_refused_file_leaves_no_record_of_an_earlier_one(workspace: Drafted) -> None:
    path = workspace.folder("saxpy") / FORM_NAME
    admitted = path.read_text()
    path.write_text(admitted.replace("args = [", 'args = ["nothing", ', 1))
    assert check(workspace, path) == 1
    assert not path.with_name("problem.json").exists()
    path.write_text(admitted)
    assert check(workspace, path) == 0
    path.write_text("[problem")
    assert check(workspace, path) == 1
    assert not path.with_name("problem.json").exists()


@pytest.mark.slow
def test_problem_for_other_code_is_reported_and_not_used(workspace: Drafted, capsys: Captured) -> None:
    folder = workspace.folder("saxpy")
    code = (folder / "kernel.cu").read_text()
    (folder / "kernel.cu").write_text(code.replace("int n, real a", "real a, int n"))
    assert run(["deopt", str(folder), "-w", str(workspace.root), "--json"]) == 1
    said = capsys.readouterr()
    assert '"no_problem": 1' in said.out
    assert f"{folder / 'problem.json'}: made for other code than the kernel's" in said.err
    for _ in range(2):
        assert run(["problem", "draft", str(folder), "-w", str(workspace.root), "--json"]) == 1
        assert '"outdated": 1' in capsys.readouterr().out
        assert not (folder / "problem.json").exists()
    assert check(workspace, folder / FORM_NAME) == 1
    (folder / "kernel.cu").write_text(f"// the same\n{code}")
    assert check(workspace, folder / FORM_NAME) == 0
    assert run(["problem", "draft", str(folder), "-w", str(workspace.root), "--json"]) == 0
    assert '"kept": 1' in capsys.readouterr().out


def test_file_that_cannot_be_evaluated_names_its_line_and_does_not_stop_others(
    workspace: Drafted, tmp_path: Path, capsys: Captured
) -> None:
    wrong, latin, good = (workspace.folder(name) / FORM_NAME for name in ("saxpy", "spread", "row_scale"))
    lines = wrong.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("dtype"))
    lines[at] = 'dtype = "float33"'
    wrong.write_text("\n".join(lines))
    latin.write_bytes(b"# first\n# caf\xe9\n" + latin.read_bytes())
    missing = tmp_path / "nothing.toml"
    (good.parent / "problem.json").unlink()
    files = [str(path) for path in (wrong, latin, missing, good)]
    assert run(["problem", "check", *files, "--workspace", str(workspace.root)]) == 1
    said = capsys.readouterr().err
    assert f"{wrong}:{at}: unknown dtype 'float33'" in said
    assert f"{latin}:2: not UTF-8 text" in said
    assert f"{missing}: cannot read" in said
    assert "3 of 4 files cannot be used yet" in said
    assert (good.parent / "problem.json").exists()
    assert not (latin.parent / "problem.json").exists()
