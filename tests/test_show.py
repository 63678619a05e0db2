"""Finding a pair or kernel by what a person types."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.lookup.show import ShownKernel, ShownPair, find
from kcurate.records import Candidate, Environment, Kernel, Origin, Outcome, Side, Source, Span, Verdict


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "work")
    for name in ("suite/bench/scale", "suite/other/scale", "suite/bench/sum"):
        side = Side("// code\n", ())
        pair = Candidate(name, "f", "d", None, Origin("natural"), (), "what", None, side, side)
        store.write_candidate(made.pairs / name, pair)
    kernel = Kernel(
        "0123456789abcdef", Source("suite"), "bench", None, "add", Span("a.cu", 0, 9, 1, 2), "a.cu", ()
    )
    store.write_json(made.kernels / "suite" / "bench" / "add" / "kernel.json", kernel)
    store.write_bytes(made.kernels / "suite" / "bench" / "add" / "kernel.cu", b"// \xff\n")
    return made


@pytest.mark.parametrize("name", ["suite/bench/sum", "sum", "bench/sum", "suite/bench/sum/"])
def test_pair_is_found_by_id_or_its_last_parts(workspace: Workspace, name: str) -> None:
    found = find(name, workspace)
    assert isinstance(found, ShownPair)
    assert found.candidate.id == "suite/bench/sum"


def test_pair_is_found_by_folder_or_file(workspace: Workspace) -> None:
    folder = workspace.pairs / "suite" / "bench" / "sum"
    for path in (folder, folder / "pair.json", folder / "slow.cu"):
        found = find(str(path), Workspace(Path("elsewhere")))
        assert found.folder == folder


def test_kernel_is_found(workspace: Workspace) -> None:
    found = find("add", workspace)
    assert isinstance(found, ShownKernel)
    assert (found.kernel.name, found.code) == ("add", "// \ufffd\n")


def test_id_is_found_whatever_its_folder_is_called(workspace: Workspace) -> None:
    old = workspace.pairs / "suite" / "bench" / "sum"
    folder = old.rename(workspace.pairs / "suite" / "moved")
    (workspace.pairs / "suite" / "other" / "scale" / "pair.json").write_text("{")
    for name in ("suite/bench/sum", "bench/sum"):
        assert find(name, workspace).folder == folder
    assert isinstance(find("0123456789abcdef", workspace), ShownKernel)


def test_wrong_absolute_path_keeps_its_slash(workspace: Workspace) -> None:
    with pytest.raises(InputError, match=r"^/nowhere/sum: no such pair"):
        find("/nowhere/sum", workspace)


def test_name_of_several_lists_them(workspace: Workspace) -> None:
    with pytest.raises(InputError, match=r"2 matches: suite/bench/scale, suite/other/scale"):
        find("scale", workspace)


def test_unknown_name_offers_the_nearest(workspace: Workspace) -> None:
    with pytest.raises(InputError, match=r"scal: no such pair or kernel \(did you mean suite/.*/scale"):
        find("scal", workspace)


def test_verdicts_come_from_the_folder_and_the_workspace(workspace: Workspace) -> None:
    folder = workspace.pairs / "suite" / "bench" / "sum"
    for device in ("H200", "CPU"):
        verdict = Verdict("suite/bench/sum", "k", Outcome.CORRECT, Environment("x", device))
        if device == "H200":
            store.write_verdict(folder, verdict)
        else:
            store.append_jsonl(workspace.verdicts / "cpu.jsonl", verdict)
    found = find("sum", workspace)
    assert isinstance(found, ShownPair)
    assert [verdict.environment.device for verdict in found.verdicts] == ["H200", "CPU"]
