"""benchmarks/challengers.py: sides that await a GPU, and how a winner takes its pair's place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import challengers
from kcurate.core import store
from kcurate.judge.checks.static import check_source
from kcurate.verdicts.keys import verdict_key

PAIR = Path(__file__).parents[1] / "pairs/reduction-scan/dot-product"


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a pair with two challengers, which are its present side with a word more."""
    pair = tmp_path / "pairs/reduction-scan/dot-product"
    shutil.copytree(PAIR, pair)
    side = json.loads((pair / "pair.json").read_text())["fast"]
    code = (pair / side.pop("file")).read_text()
    for tag in ("a", "b"):
        folder = tmp_path / f"challengers/dot-product--{tag}"
        folder.mkdir(parents=True)
        (folder / "side.json").write_text(json.dumps(side))
        (folder / "fast.cu").write_text(f"{code}\n// {tag}\n")
    monkeypatch.setattr(challengers, "FOLDER", tmp_path / "challengers")
    monkeypatch.setattr(challengers, "DATA", tmp_path)
    monkeypatch.setattr(challengers.worth, "DATA", tmp_path)
    monkeypatch.setattr(challengers.on_file, "shipped", lambda: tmp_path / "profiles")
    monkeypatch.setattr(challengers.resources, "pairs_dir", lambda: tmp_path / "pairs")
    return pair


def measured(*found: tuple[str, str, float]) -> None:
    rows = [
        {"key": verdict_key(challengers.challenging(name)), "outcome": outcome, "ratio": ratio}
        for name, outcome, ratio in found
    ]
    path = challengers.DATA / "nvidia-h100/challengers.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_fastest_confirmed_challenger_takes_the_place_and_old_verdicts_go(two: Path) -> None:
    measured(("dot-product--a", "confirmed", 1.1), ("dot-product--b", "confirmed", 1.2))
    ablations = challengers.DATA / "nvidia-h100/deopt.jsonl.zst"
    kept, gone = ({"candidate": f"{name}/deopt-unroll"} for name in ("a/b", "reduction-scan/dot-product"))
    challengers.worth.write_lines(ablations, [json.dumps(kept), json.dumps(gone)])
    profiles = challengers.on_file.shipped() / "gpu.jsonl"
    profiles.parent.mkdir()
    sides = {side: challengers.on_file.side_key(store.read_candidate(two), side) for side in ("slow", "fast")}
    profiles.write_text("".join(f'{{"key": "{key}"}}\n' for key in sides.values()))
    assert len(list(challengers.accept([]))) == 1
    assert profiles.read_text() == f'{{"key": "{sides["slow"]}"}}\n'
    pair = store.read_candidate(two)
    assert pair.fast.code.endswith("// b\n") and not pair.worth
    assert not list((two / "verdicts").iterdir()) and not challengers.waiting([])
    assert pair.problem == store.read_candidate(PAIR).problem
    assert challengers.worth.lines_of(ablations) == [json.dumps(kept)]


def test_a_challenger_that_gains_little_or_is_wrong_stays_out(two: Path) -> None:
    before = (two / "fast.cu").read_bytes()
    measured(("dot-product--a", "confirmed", 1.01), ("dot-product--b", "mismatch", 2.0))
    assert not list(challengers.accept([]))
    assert (two / "fast.cu").read_bytes() == before and len(challengers.waiting([])) == 2


def test_challengers_that_wait_fit_their_pairs_and_pass_the_checks_of_text() -> None:
    for name in challengers.waiting([]):
        candidate = challengers.challenging(name)
        assert not check_source(candidate.fast), name
        assert candidate.fast.code != candidate.slow.code, name
