"""`kcurate mint rate`: how often a model solves minted problems, in a loopback server's answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deopt.models import server
from deopt.models.server import serving

from kcurate import cli, prompts
from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.mint.rating import RATES, read
from kcurate.mint.settings import MintConfig
from kcurate.mint.stage import run
from kcurate.problem import shown
from kcurate.problem.neutral import neutral


@pytest.fixture(scope="module")
def minted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workspace = tmp_path_factory.mktemp("minted")
    run(MintConfig(workspace, 2, seed=2, kinds=("relu", "scale", "add", "softmax"), jobs=1))
    return workspace


def answers(workspace: Path) -> dict[str, tuple[str, str]]:
    """By the code that a prompt shows: the answer of the schedule templates, and the given code again."""
    texts = dict[str, tuple[str, str]]()
    for folder in store.find_candidates(workspace / "pairs"):
        if folder.name == "schedules":
            pair = neutral(store.read_candidate(folder))
            right, copy = (
                prompts.write_answer(shown.answer_of(side, pair.slow)) for side in (pair.fast, pair.slow)
            )
            texts[pair.slow.code.strip()] = (right, copy)
    return texts


def test_a_model_is_rated_by_what_is_right_and_no_copy(minted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    known, asked = answers(minted), list[str]()
    assert len(known) == 2
    solved = min(known)

    def act(handler: server.Handler, body: dict[str, Any]) -> None:
        (code,) = (code for code in known if code in body["messages"][-1]["content"])
        asked.append(code)
        server.completion(known[code][0 if code == solved else 1])(handler, body)

    with serving(act) as (url, _):
        name = f"openai:m@{url}/v1"
        words = ["mint", "rate", "-w", str(minted), "--model", name, "--samples", "2", "-j", "1"]
        assert cli.run(words) == 0
        assert len(asked) == 4, "two problems, two samples each"
        assert cli.run(words) == 0
        assert len(asked) == 4, "the same call again asks nothing"
        assert cli.run([*words, "--limit", "1", "--samples", "1"]) == 0
        assert len(asked) == 5
    rates = read(Workspace(minted))
    assert [line["samples"] for line in rates] == [1, 2], "the last call stands in place of the earlier one"
    assert [line["compile"] for line in rates] == [1, 2] and {line["model"] for line in rates} == {name}
    (rated,) = (line for line in rates if line["pass"])
    assert rated["faster"] is None, "the emulator times nothing"
    pair = neutral(store.read_candidate(minted / "pairs" / rated["candidate"]))
    assert pair.fast.code.strip() == solved


def test_bad_input_is_one_line(minted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = "openai:m@http://127.0.0.1:9/v1"
    for words, expected in (
        (["-w", str(minted)], "which model?"),
        (["-w", str(tmp_path), "--model", model], "no minted problem here"),
        (["-w", str(minted), "--model", model, "--samples", "0"], "samples"),
    ):
        assert cli.run(["mint", "rate", *words]) in (1, 2)
        assert expected in capsys.readouterr().err
    assert not (tmp_path / RATES).exists()
