"""Common mistakes, each answered in one line: `docs/data/mistakes.jsonl`, made again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import small

from kcurate import cli
from kcurate.core import store

DATA = Path(__file__).resolve().parents[2] / "docs" / "data" / "mistakes.jsonl"
MISTAKES = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run: an empty folder, a file of no use, JSON cut in the middle, UTF-16, a pair."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "empty").mkdir()
    (folder / "file").write_text("x")
    (folder / "cut.json").write_text('[{"level_id": 1, "ref_co')
    (folder / "utf16.cu").write_text("__global__ void k() {}", encoding="utf-16")
    store.write_candidate(folder / "pairs" / "one", small.scaled())
    return folder


@pytest.mark.parametrize("row", MISTAKES, ids=[row["command"] for row in MISTAKES])
def test_a_mistake_is_answered_as_it_is_listed(
    row: dict[str, object], place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    before = sorted(place.rglob("*"))
    words = shlex.split(str(row["command"]))
    while "=" in words[0]:
        monkeypatch.setenv(*words.pop(0).split("=", 1))
    code = cli.run(words[1:])
    *above, last = capsys.readouterr().err.splitlines()
    assert (code, last) == (row["exit"], row["says"])
    assert code == 2 or not above, "a wrong option also prints the usage"
    assert sorted(place.rglob("*")) == before, "nothing is left behind"
