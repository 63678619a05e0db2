"""Pairs and kernels by path, id, end or prefix of an id."""

from __future__ import annotations

from pathlib import Path

import pytest
from dataset.making import pair, workspace

from kcurate import cli
from kcurate.core import names, resources, store
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("names") / "work"
    assert cli.run(["extract", str(resources.sources_dir() / "demo"), "--no-compile", "-w", str(root)]) == 0
    return workspace(root, [(pair(f"own/scale-{name}"), None) for name in ("rows", "rounds", "columns")])


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("own/scale-rows", "pairs/own/scale-rows"),
        ("scale-rows", "pairs/own/scale-rows"),
        ("own/scale-c", "pairs/own/scale-columns"),
        ("demo/matvec/m", "kernels/demo/matvec/matvec/matvec"),
        ("demo/dot/naive", "kernels/demo/dot/naive/dot/dot"),
    ],
)
def test_a_unique_name_is_found(name: str, folder: str, work: Workspace) -> None:
    assert names.one(name, work) == work.root / folder


def test_a_built_in_pair_is_found_by_a_prefix(work: Workspace) -> None:
    assert names.one("deep-learning/softmax-bl", work).name == "softmax-block-online"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own/scale-ro", r"ambiguous, 2 matches: own/scale-rounds, own/scale-rows"),
        ("own/scale-row5", r"no such pair or kernel \(did you mean own/scale-rows"),
        ("", "an empty name"),
        ("./own/scale", r"no such pair or kernel \(check the path\)"),
        ("zzzzzzzz", r"no such pair or kernel \(give the folder .* kcurate list\)"),
    ],
)
def test_other_names_are_refused_with_what_is_near(name: str, said: str, work: Workspace) -> None:
    with pytest.raises(InputError, match=said):
        names.one(name, work)


def test_a_folder_of_several_is_taken_where_several_are(work: Workspace) -> None:
    assert names.some("own", work, (names.PAIR,)) == work.pairs / "own"
    assert names.some("demo/dot", work, (names.KERNEL, names.PAIR)) == work.kernels / "demo/dot"
    assert names.some("deep-learning", work) == resources.pairs_dir() / "deep-learning"
    assert names.some(str(work.kernels), work) == work.kernels


def test_no_name_leads_outside(work: Workspace, tmp_path: Path) -> None:
    store.write_candidate(work.root / "outside", pair("outside"))
    with pytest.raises(InputError, match="no such pair"):
        names.some("../outside", work, (names.PAIR,))


@pytest.mark.parametrize(
    "args",
    [
        ("report", "own/scale-col"),
        ("deopt", "demo/matvec/m", "--rules", "unroll"),
        ("problem", "draft", "demo/dot/naive", "--json"),
        ("show", "own/scale-col"),
    ],
)
def test_commands_take_a_prefix(
    args: tuple[str, ...], work: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*args, "-w", str(work.root)]) == 0
    assert "ambiguous" not in capsys.readouterr().err
