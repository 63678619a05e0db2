"""The whole dataset, as `make dataset` builds it: equal bytes, the row rules, its time, and what is named."""

from __future__ import annotations

import importlib
import os
import re
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dataset import row_rules
from dataset.making import pair, verdict

from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.records import Outcome
from kcurate.reward import splits
from kcurate.suites import load_manifests

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def whole_dataset() -> Iterator[Any]:
    """The script. Its folder is on the path only for it: `train.py` there would hide the tests of `train`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("whole_dataset")


def test_what_a_missing_tree_costs_is_named(
    whole_dataset: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the protocol and of older ones, whose pairs stay for `kcurate validate` if their tree is there."""
    monkeypatch.setattr(whole_dataset, "DATA", tmp_path / "data")
    workspace = Workspace(tmp_path / "work")
    here, absent, old, stale = (pair(f"rodinia/{name}", 3 + i) for i, name in enumerate("abcd"))
    for candidate in (here, old):
        store.write_candidate(workspace.pairs / candidate.id, candidate)
    known = [verdict(candidate) for candidate in (here, absent, old, stale)]
    known += [replace(known[1], candidate="parboil/refused", key="1", outcome=Outcome.MISMATCH)]
    for each in (*known[:2], *(replace(one, protocol="3", key=f"old{one.key}") for one in known[2:])):
        store.append_jsonl(tmp_path / "data/gpu/suites.jsonl", each)
    assert list(whole_dataset.lost(workspace)) == [
        "missing: rodinia/b",
        "rodinia: 1 confirmed pairs could not be made; its revision is in sources/rodinia.toml",
        "rodinia: 2 pairs, confirmed by an older protocol only, are no rows",
        f"rodinia: 1 of them are here; kcurate validate -w {workspace.root} judges them again",
        "rodinia: 1 are not; their tree has its revision in sources/rodinia.toml",
    ]


def test_other_pages_have_the_figures_of_the_built_dataset(whole_dataset: Any) -> None:
    page = whole_dataset.PAGE.read_text()
    rows = {
        config: int(train) + int(test)
        for config, train, test in re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    }
    (distinct,) = re.findall(r"`sft` has (\d+) distinct answers", page)
    readme = (whole_dataset.ROOT / "README.md").read_text()
    for figure in (
        f"{rows['pairs']:,} confirmed pairs, and {rows['tasks']:,} problems as tasks",
        f"`sft` has {rows['sft']:,} rows with {int(distinct):,} distinct answers",
        f"of {rows['preferences']:,} preferences",
    ):
        assert figure in readme
    assert f"{rows['pairs']:,} confirmed pairs" in (whole_dataset.ROOT / "docs/comparison.md").read_text()


def test_a_family_with_natural_pairs_is_for_tests(whole_dataset: Any) -> None:
    """Named in the split file, so that no other family moves it; its suite is read from the reader's copy."""
    natural = {known.candidate for known in whole_dataset.confirmed() if "deopt" not in known.candidate}
    families = {
        benchmark.family or name
        for suite in ("parboil", "rodinia")
        for name, benchmark in load_manifests()[suite].benchmarks.items()
        if any(candidate.startswith(f"{suite}/{name}/") for candidate in natural)
    }
    assert [family for family in families if splits.frozen().sides.get(family) == "test"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_that_is_committed_is_built_twice_alike_in_five_minutes_of_two_cores(
    whole_dataset: Any, tmp_path: Path
) -> None:
    """Once from nothing, then `build` again from the same pairs and verdicts with other hashes."""
    built = [tmp_path / "first", tmp_path / "second"]
    command = [sys.executable, whole_dataset.__file__, "--jobs", "2", "--workspace", str(built[0])]
    subprocess.run(command, capture_output=True, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert used.ru_utime + used.ru_stime <= 2 * 300
    ignored = shutil.ignore_patterns("dataset")
    shutil.copytree(built[0], built[1], ignore=ignored)
    command = [sys.executable, "-m", "kcurate", "build", "--built-in", "--workspace", str(built[1])]
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "1"}, capture_output=True, check=True)
    first, second = (
        {
            path.relative_to(work): path.read_bytes()
            for path in (work / "dataset").rglob("*")
            if path.is_file()
        }
        for work in built
    )
    assert first == second and len(first) > 15
    dataset = built[0] / "dataset"
    row_rules.check(dataset)
    row_rules.no_column_is_empty(dataset)
    assert len(row_rules.rows_of(dataset, "preferences")) >= 1000
    made = Counter(row["origin"] for row in row_rules.rows_of(dataset, "pairs"))
    assert min(made[kind] for kind in ("minted", "curated", "rule")) > 100
