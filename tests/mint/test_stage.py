"""`kcurate mint`: deterministic, resumable, and its pairs are pairs like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcurate import cli
from kcurate.core import store
from kcurate.judge import Judge, JudgeConfig
from kcurate.mint.settings import MintConfig
from kcurate.mint.stage import LINES, run
from kcurate.records import Outcome
from kcurate.verdicts.keys import verdict_key

KINDS = ("relu", "scale", "add", "softmax")


def texts(workspace: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(workspace)): path.read_bytes()
        for path in sorted((workspace / "pairs").rglob("*"))
        if path.is_file()
    }


def config(workspace: Path, count: int) -> MintConfig:
    return MintConfig(workspace, count, seed=2, kinds=KINDS, jobs=1)


@pytest.fixture(scope="module")
def minted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with two problems, minted at once."""
    workspace = tmp_path_factory.mktemp("minted")
    run(config(workspace, 2))
    return workspace


def test_a_run_that_goes_on_has_the_same_problems_as_one_at_once(minted: Path, tmp_path: Path) -> None:
    run(config(tmp_path, 1))
    with (tmp_path / LINES).open("a") as lines:
        lines.write('{"setting": "2 ')  # a run was killed here
    summary = run(config(tmp_path, 2))
    assert summary.counts["problems"]["admitted"] == 2
    assert texts(tmp_path) == texts(minted)


def test_a_run_vouches_for_what_it_makes_itself_alone(minted: Path, tmp_path: Path) -> None:
    written = set[str]()
    run(config(minted, 2), written=written)
    assert not written, "these pairs were there, and whoever wrote them may have been somebody else"
    run(config(tmp_path, 1), written=written)
    pairs = [store.read_candidate(folder) for folder in store.find_candidates(tmp_path / "pairs")]
    assert written == {verdict_key(pair) for pair in pairs}


def test_nothing_is_tried_twice(minted: Path) -> None:
    before = (minted / LINES).read_bytes()
    run(config(minted, 2))
    assert (minted / LINES).read_bytes() == before


def test_a_pair_that_is_gone_is_made_again(minted: Path) -> None:
    before = texts(minted)
    store.find_candidates(minted / "pairs")[0].joinpath("pair.json").unlink()
    run(config(minted, 2))
    assert texts(minted) == before


def test_a_line_says_what_became_of_a_graph(minted: Path) -> None:
    lines = [json.loads(line) for line in (minted / LINES).read_text().splitlines()]
    assert {line["outcome"] for line in lines} >= {"admitted"}
    for line in lines:
        assert line["operators"]
        assert line["cpu_s"] > 0


def test_the_judge_finds_both_sides_alike(minted: Path) -> None:
    plain = [folder for folder in store.find_candidates(minted / "pairs") if folder.name == "plain"]
    folder = min(plain, key=lambda path: (path / "fast.cu").stat().st_size)
    candidate = store.read_candidate(folder)
    assert candidate.origin.kind == "minted"
    assert candidate.problem is not None
    assert candidate.problem.statement
    assert candidate.problem.reference is not None
    with Judge(JudgeConfig("emulator", torch=True)) as judge:
        assert judge.judge(candidate).outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("--kinds nothing", 2, "error: --kinds nothing: neither a kind nor an operator"),
        (
            "--types int4",
            2,
            "error: --types int4: not a type of problems (one of float32, bfloat16, float16)",
        ),
        (
            "--kinds one_hot_scale --types float32 --count 9",
            1,
            "error: count: these operators and types give 1 distinct graphs and no more",
        ),
        ("--count 0", 2, "Error: Invalid value for '--count'"),
    ],
)
def test_bad_input_is_one_line(
    words: str, code: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["mint", *words.split(), "-w", str(tmp_path), "-j", "1"]) == code
    assert capsys.readouterr().err.splitlines()[-1].startswith(says)
