"""Open places filled in by something else: kept when admitted, put back when not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kcurate.cli import run
from kcurate.draft.stage import FORM_NAME, DraftConfig, draft
from tests.draft.conftest import Drafted

FINISHED = """
suite = "tree"
benchmark = "open"
[draft]
kernel = "{kernel}"
[problem.sizes]
test = [{{n = 200}}, {{n = 33}}]
bench = {{n = 100000}}
[problem.buffers.memory]
dtype = "float32"
shape = ["n"]
role = "out"
[problem.buffers.start]
dtype = "float32"
shape = ["n"]
init = {{kind = "{init}"{more}}}
[[sides."".plan]]
launch = "mystery"
grid = ["ceil_div(n, 256)"]
block = [256]
args = ["start", "{output}", "n", {{value = 0, dtype = "int32"}}]
"""


@pytest.mark.parametrize(
    ("init", "more", "output", "name", "outcome"),
    [
        ("normal", "", "memory", "", "completed"),
        ("normal", "", "start", "", "open"),
        ("normal", "", "memory", "another/kernel", "open"),
        ("file", ', path = "/etc/hostname"', "memory", "", "open"),
    ],
)
def test_completed_draft_is_kept_only_when_admitted(
    drafted: Drafted, tmp_path: Path, init: str, more: str, output: str, name: str, outcome: str
) -> None:
    root = tmp_path / "work"
    shutil.copytree(drafted.root, root)
    folder = Drafted(root, drafted.summary, ()).folder("mystery")
    kernel = folder.relative_to(root / "kernels").as_posix()
    seen: list[str] = []

    def complete(text: str, code: str, attempt: Callable[[str], str | None]) -> None:
        seen.append(text)
        assert "__global__ void mystery" in code
        filled_in = FINISHED.format(kernel=name or kernel, init=init, more=more, output=output)
        assert (attempt(filled_in) is None) is (outcome == "completed")

    config = DraftConfig(root, (kernel,), again=True)
    draft(config)
    before = (folder / FORM_NAME).read_text()
    lines: list[str] = []
    draft(config, note=lines.append, complete=complete)
    assert seen == [before]
    assert any(kernel in line and outcome in line for line in lines)
    assert (folder / "problem.json").exists() is (outcome == "completed")
    assert ((folder / FORM_NAME).read_text() == before) is (outcome != "completed")


def test_a_draft_that_is_open_is_refused_by_check(
    drafted: Drafted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "work"
    shutil.copytree(drafted.root, root)
    names = [str(Drafted(root, drafted.summary, ()).folder(name)) for name in ("mystery", "saxpy")]
    assert run(["problem", "draft", *names, "--again", "-w", str(root)]) == 0
    printed = capsys.readouterr()
    assert "admitted" in printed.out and "struct_argument" in printed.out
    folder = str(Path(names[0]) / FORM_NAME)
    assert run(["problem", "check", folder, "-w", str(root)]) == 1
    assert "refused" in capsys.readouterr().out


def test_options_of_nested_commands_are_settings(
    drafted: Drafted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "work"
    shutil.copytree(drafted.root, root)
    (root / "kcurate.toml").write_text("[problem_draft]\njson = true\n[extract]\njobs = 1\n")
    folder = str(Drafted(root, drafted.summary, ()).folder("saxpy"))
    assert run(["problem", "draft", folder, "-w", str(root)]) == 0
    assert '"kept": 1' in capsys.readouterr().out
    monkeypatch.setenv("KCURATE_PROBLEM_DRAFT_NOTHING", "1")
    assert run(["problem", "draft", folder, "-w", str(root)]) == 2
    assert "unknown setting" in capsys.readouterr().err
