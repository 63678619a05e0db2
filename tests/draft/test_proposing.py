"""A model that fills in what a draft leaves open: asked once, within a budget, and never trusted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kcurate.cli import run
from kcurate.core import store
from kcurate.draft.stage import FORM_NAME, DraftConfig, draft
from kcurate.prompts import Unreadable
from kcurate.prompts.problems import PROBLEM_TOOL, read_problem
from kcurate.records import KnownProblem
from tests.deopt.models.server import completion, message, serving, status
from tests.draft.conftest import Drafted
from tests.draft.test_completing import FINISHED


@pytest.fixture
def folder(drafted: Drafted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a kernel that nothing launches, in a workspace of its own."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    shutil.copytree(drafted.root, tmp_path / "work")
    return Drafted(tmp_path / "work", drafted.summary, ()).folder("mystery")


def answer(folder: Path, init: str = "normal", more: str = "", top: str = "") -> str:
    kernel = folder.relative_to(_kernels(folder)).as_posix()
    return top + FINISHED.format(kernel=kernel, init=init, more=more, output="memory")


def _kernels(folder: Path) -> Path:
    return next(parent for parent in folder.parents if parent.name == "kernels")


def asked(folder: Path, url: str, *more: str) -> int:
    work = str(_kernels(folder).parent)
    return run(["problem", "draft", str(folder), "-w", work, "--model", f"openai:m@{url}/v1", *more])


def test_an_admitted_answer_is_kept_and_not_paid_for_twice(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left_open = (folder / FORM_NAME).read_text()
    text = answer(folder, top='pipeline = ["/etc/passwd"]\npaths = ["elsewhere.cu"]\n')
    with serving(completion(f"Here it is.\n```toml\n{text}```\n")) as (url, script):
        assert asked(folder, url) == 0
        printed = capsys.readouterr()
        assert "completed" in printed.out and "sent" in printed.out
        shown = script.asked[0]["messages"]
        assert left_open.strip() in shown[1]["content"] and "__global__ void mystery" in shown[1]["content"]
        known = store.read_json(folder / "problem.json", KnownProblem)
        assert known.pipeline == () and "elsewhere.cu" not in known.paths
        assert set(known.problem.buffers) == {"memory", "start"}
        asked(folder, url, "--again")  # the same draft, so the same request
        assert "on_file" in capsys.readouterr().out
        assert len(script.asked) == 1
        assert store.read_json(folder / "problem.json", KnownProblem) == known


@pytest.mark.parametrize(
    "reply",
    [
        "no file",
        "```toml\nsuite = \n```",
        "FILE",
        "WRONG",
    ],
)
def test_what_is_not_admitted_leaves_the_file_as_it_was(folder: Path, reply: str) -> None:
    before = (folder / FORM_NAME).read_text()
    text = answer(folder, "file", ', path = "/etc/hostname"') if reply == "FILE" else answer(folder)
    if reply == "WRONG":
        text = text.replace('role = "out"', 'role = "in"\ninit = {kind = "zeros"}')
    with serving(completion(reply if len(reply) > 5 else f"```toml\n{text}\n```")) as (url, _):
        assert asked(folder, url) == 1
    assert (folder / FORM_NAME).read_text() == before
    assert not (folder / "problem.json").exists()


def test_a_spent_budget_ends_the_asking_and_not_the_drafting(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(completion("nothing")) as (url, script):
        assert asked(folder, url, "--budget-usd", "0.001", "--price", "5,25") == 1
    printed = capsys.readouterr()
    assert "kept" in printed.out and script.asked == []
    assert "the budget of $0.00 does not allow" in printed.err.splitlines()[-1]


def test_a_refused_key_is_one_line_after_the_summary(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(status(401, "authentication_error")) as (url, _):
        assert asked(folder, url) == 1
    printed = capsys.readouterr()
    assert "kept" in printed.out and "the API key was refused" in printed.err.splitlines()[-1]


def test_a_model_with_tools_answers_by_the_tool_for_problems(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(message(tool={"problem": answer(folder)})) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        work = _kernels(folder).parent
        summary = draft(DraftConfig(work, (str(folder),), model="claude"))
    assert summary.items["kernels"] == {"completed": 1}
    assert [tool["name"] for tool in script.asked[0]["tools"]] == [PROBLEM_TOOL["name"]]


@pytest.mark.parametrize("tools", [True, False])
def test_a_file_that_is_not_admitted_is_asked_for_again_with_what_was_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tools: bool
) -> None:
    wrong = answer(folder).replace('role = "out"', 'role = "in"\ninit = {kind = "zeros"}')
    files = ("suite = ", wrong, answer(folder))
    replies = [message(tool={"problem": text}, call=f"c{n}") for n, text in enumerate(files)]
    if not tools:
        replies = [completion(f"```toml\n{text}\n```") for text in files]
    with serving(*replies) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        model = "claude" if tools else f"openai:m@{url}/v1"
        summary = draft(DraftConfig(_kernels(folder).parent, (str(folder),), model=model, effort="low"))
    assert summary.items["kernels"] == {"completed": 1}
    last = [str(body["messages"][-1]["content"]) for body in script.asked]
    assert len(last) == 3 and all("The file is not admitted" in text for text in last[1:])
    assert "not TOML" in last[1] and str(folder) not in "".join(last)
    assert "suite = " in str(script.asked[2]["messages"])  # what failed is in view


@pytest.mark.parametrize(
    ("reply", "form"),
    [("{}", "tool"), ("[1]", "tool"), ("{", "tool"), ('{"problem": 3}', "tool"), ("", "text")],
)
def test_a_reply_without_a_problem_is_unreadable(reply: str, form: str) -> None:
    assert isinstance(read_problem(reply, "tool" if form == "tool" else "text"), Unreadable)
