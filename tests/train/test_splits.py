"""The one split: frozen in a file, the same for every subset, refused if edited; what it holds out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small import scaled

from kcurate.core import resources, store
from kcurate.errors import InputError
from kcurate.records import Candidate
from kcurate.reward import splits


@pytest.fixture(scope="module")
def shipped() -> list[Candidate]:
    return [store.read_candidate(folder) for folder in store.find_candidates(resources.pairs_dir())]


def row(pair: Candidate) -> dict[str, str]:
    return {
        "id": pair.id,
        "family": pair.family,
        "slow_code": pair.slow.code,
        "fast_code": pair.fast.code,
    }


def test_every_shipped_family_is_named_and_a_fifth_is_for_tests(shipped: list[Candidate]) -> None:
    sides = splits.frozen().sides
    assert set(sides) == {pair.family for pair in shipped}, "add the family to pairs/split.json"
    tested = [pair for pair in shipped if sides[pair.family] == "test"]
    assert len({pair.family for pair in tested}) >= 0.15 * len(sides)
    assert {pair.family for pair in tested} >= {
        *("batched-gemm", "batched-gemm-half", "decode-attention", "merge-attention-splits"),
        *("radix-sort", "segmented-sum", "bfs", "shortest-paths", "pagerank", "triangle-count"),
    }
    codes = [pair.fast.code for pair in tested]
    assert sum("mma.sync" in code or "wmma" in code for code in codes) >= 5, "on tensor cores"
    assert any("cp.async.bulk" in code for code in codes)
    assert any(pair.fast.language == "triton" for pair in tested)
    assert {pair.domain for pair in tested} == {pair.domain for pair in shipped}


def test_growing_the_set_moves_nothing(shipped: list[Candidate]) -> None:
    """Three subsets, the last with strangers' families that share code with one side and with both."""
    sides, rows = splits.frozen().sides, [row(pair) for pair in shipped]
    taken, taught = (next(r for r in rows if sides[r["family"]] == side) for side in ("test", "train"))
    strangers = [
        {**taken, "id": "s/1", "family": "stranger-1"},
        {**taught, "id": "s/2", "family": "stranger-2"},
        {
            "id": "s/3",
            "family": "stranger-3",
            "slow_code": taken["slow_code"],
            "fast_code": taught["fast_code"],
        },
    ]
    for subset in (rows[::9], rows[::3], [*rows[::3], *rows[1::9]]):
        assert splits.assign(subset) == {r["id"]: sides[r["family"]] for r in subset}
    assert splits.assign([taken]) == {taken["id"]: "test"}
    found = splits.assign([taken, taught, *strangers[:2]])
    assert found == {taken["id"]: "test", taught["id"]: "train", "s/1": "test", "s/2": "train"}
    found = splits.assign([taken, taught, strangers[2]])
    assert found == {taken["id"]: "test", taught["id"]: "train", "s/3": None}


def test_groups_of_the_file_stay_together(shipped: list[Candidate]) -> None:
    named = json.loads((resources.pairs_dir() / splits.FILE).read_text())
    listed = {frozenset(group) for side in ("test", "train") for group in named[side]}
    codes = ((pair.family, side.code) for pair in shipped for side in (pair.slow, pair.fast))
    assert {place.families for place in splits._ordered_groups(codes, splits.SEED)} == listed


def test_graphs_are_held_out_by_their_own_hash() -> None:
    """The code of an operator is much the same in every graph; that does not join their families."""
    names = [*(f"minted-{number:012x}" for number in range(400)), "kernelbench-gelu", "swiglu"]
    rows = [{**row(scaled()), "id": f"minted/{name}/plain", "family": name} for name in names]
    found = splits.assign([*rows, {**row(scaled()), "id": "written", "family": "written"}])
    assert found.keys() == {r["id"] for r in rows} | {"written"} and None not in found.values()
    tested = [r["family"] for r in rows if found[r["id"]] == "test"]
    assert 40 < len(tested) < 90
    assert "kernelbench-gelu" in tested


@pytest.mark.parametrize("change", ["moved", "share", "no hash", "not JSON"])
def test_an_edited_split_is_refused_in_one_line(change: str, tmp_path: Path) -> None:
    data = json.loads((resources.pairs_dir() / splits.FILE).read_text())
    if change == "moved":
        data["train"].append(data["test"].pop())
    elif change == "share":
        data["unlisted"]["test_share"] = 0.2
    elif change == "no hash":
        del data["sha256"]
    path = tmp_path / splits.FILE
    path.write_text(json.dumps(data)[: 50 if change == "not JSON" else None])
    with pytest.raises(InputError, match="this split was edited") as refused:
        splits.frozen(path)
    assert str(refused.value).count("\n") == 0
    assert splits.frozen().sides
