"""A workspace that somebody else filled: it harms nothing, and what is wrong with it is one line."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from kcurate import cli
from kcurate.core import resources, store
from kcurate.records import Verdict

BUILT_IN = "deep-learning/softmax-block-online"
SECRET = "the key of somebody"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace with one pair, beside a file that is nobody's business."""
    shutil.copytree(resources.pairs_dir() / BUILT_IN, tmp_path / "work" / "pairs" / "one")
    (tmp_path / "secret").write_text(SECRET)
    return tmp_path / "work"


def around(work: Path) -> dict[str, bytes]:
    """Every file outside the workspace."""
    files = (path for path in work.parent.rglob("*") if path.is_file() and not path.is_relative_to(work))
    return {str(path): path.read_bytes() for path in files}


def said(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """Run a command that fails; the one line that says why."""
    assert cli.run([str(arg) for arg in args]) == 1
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "Traceback" not in err and SECRET not in out + err
    return lines[0]


def left_out(capsys: pytest.CaptureFixture[str], work: Path) -> str:
    """Build a dataset, which a pair that cannot be read is no part of; the one line that says why."""
    assert cli.run(["build", "-w", str(work)]) == 1  # no row is left
    out, err = capsys.readouterr()
    assert "bad_row 1" in re.sub(" +", " ", out) and SECRET not in out + err
    lines = [line for line in err.splitlines() if line.startswith("left out: ")]
    assert len(lines) == 1
    return lines[0]


def changed(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize("name", ["../../../out", "/tmp/kcurate-out", "a/../../../out", "", "\x00"])
def test_an_id_that_leads_out_is_refused(work: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    before = around(work)
    changed(work / "pairs" / "one" / "pair.json", id=name)
    assert "leads outside the workspace" in said(capsys, "deopt", work / "pairs", "-w", work)
    assert around(work) == before
    assert [path.name for path in (work / "pairs").iterdir()] == ["one"]


@pytest.mark.parametrize("name", ["fast.cu", "pair.json"])
def test_a_link_to_a_private_file_is_not_read(
    work: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = work / "pairs" / "one" / name
    path.unlink()
    path.symlink_to(work.parent / "secret")
    assert f"{name}: a link out of its folder" in left_out(capsys, work)
    assert "a link out of its folder" in said(capsys, "deopt", work / "pairs", "-w", work)
    found = [path for path in work.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not any(SECRET.encode() in path.read_bytes() for path in found)


def test_a_link_within_the_folder_is_read(work: Path) -> None:
    path = work / "pairs" / "one" / "fast.cu"
    path.rename(path.with_name("kept.cu"))
    path.symlink_to("kept.cu")
    assert store.read_candidate(path.parent).fast.code == path.with_name("kept.cu").read_text()


@pytest.mark.parametrize(
    ("megabytes", "why"), [(200, r"210 MB, more than the 67 MB"), (40, r"not JSON")], ids=["200", "40"]
)
def test_a_huge_record_is_not_read(
    work: Path, capsys: pytest.CaptureFixture[str], megabytes: int, why: str
) -> None:
    path = work / "pairs" / "one" / "pair.json"
    os.truncate(path, megabytes << 20)  # its end are zeros, which take no space
    assert re.search(rf"pair\.json: {why}", said(capsys, "deopt", work / "pairs", "-w", work))
    assert re.search(rf"pair\.json: {why}", left_out(capsys, work))


@pytest.mark.parametrize("damage", ["cut", "binary", "a link to itself", "a folder"])
def test_a_damaged_kernel_is_named_and_the_others_go_on(
    work: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    """`kernel.cu` as a link to itself: a looping `kernel.json` is no file, so no kernel."""
    demo, where = str(resources.sources_dir() / "demo"), ["-w", str(work)]
    assert (
        cli.run(["extract", demo, "--no-compile", "--include", "*matvec*", "--include", "*dot*", *where]) == 0
    )
    before = {path: path.read_bytes() for path in (work / "kernels").rglob("kernel.*")}
    assert len(before) == 6
    bad = work / "kernels" / "demo" / "dot" / "opt" / "dot" / "dot" / "kernel.json"
    bad = bad.with_name("kernel.cu") if damage == "a link to itself" else bad
    bad.unlink()
    if damage == "a link to itself":
        bad.symlink_to(bad.name)
    elif damage == "a folder":
        bad.mkdir()
    else:
        bad.write_bytes(before[bad][:300] if damage == "cut" else bytes(range(256)))
    capsys.readouterr()
    assert cli.run(["list", "kernels", *where]) == 0
    assert damage == "a link to itself" or f"{bad.parent}  malformed" in re.sub(
        " +", "  ", capsys.readouterr().out
    )
    capsys.readouterr()
    assert cli.run(["deopt", str(work / "kernels"), "--rules", "unroll", "-j", "1", *where]) == 0
    out = re.sub(" +", " ", capsys.readouterr().out)
    assert "kernels malformed 1" in out and f"see {bad}" in out and "deoptimised 1" in out
    if damage == "a folder":
        bad.rmdir()
    assert cli.run(["extract", demo, "--no-compile", *where]) == 0
    assert {path: path.read_bytes() for path in before} == before, "extract makes it again"


@pytest.mark.parametrize("name", ["pair.json", "slow.cu"])
def test_extract_puts_a_damaged_pair_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    tree, where = str(resources.sources_dir() / "demo"), ["-w", str(tmp_path)]
    words = ["extract", tree, "--no-compile", "--include", "*dot*", *where]
    assert cli.run(words) == 0
    pair = tmp_path / "pairs" / "demo" / "dot" / "dot"
    before = store.read_candidate(pair)
    record = (pair / "pair.json").read_bytes()
    (pair / name).unlink() if name == "slow.cu" else (pair / name).write_bytes(record[:100])
    capsys.readouterr()
    assert cli.run(words) == 0
    assert f"{pair}/pair.json.damaged has the old record" in capsys.readouterr().err
    assert store.read_candidate(pair) == before
    assert record.startswith((pair / "pair.json.damaged").read_bytes())


@pytest.mark.parametrize(
    "words", ["validate {pair} --backend emulator -w {loop}", "pair {loop} {loop} -w {work}"]
)
def test_a_link_to_itself_is_one_line(work: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    loop = work.parent / "loop.cu"
    loop.symlink_to(loop.name)
    given = words.format(loop=loop, pair=work / "pairs" / "one", work=work).split()
    assert said(capsys, *given).startswith(f"error: {loop}: ")


def test_a_pipe_in_place_of_a_record_does_not_hang(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = work / "pairs" / "one" / "fast.cu"
    path.unlink()
    os.mkfifo(path)
    assert "fast.cu: not a regular file" in left_out(capsys, work)
    os.mkfifo(work / "kcurate.toml")
    assert "kcurate.toml: not a regular file" in said(capsys, "list", "-w", work)


def test_ten_gigabytes_of_verdicts_are_refused(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = work / "verdicts" / "emulator.jsonl"
    path.parent.mkdir()
    path.touch()
    os.truncate(path, 10 << 30)
    line = said(capsys, "build", "-w", work)
    assert "emulator.jsonl: 10,737 MB, more than the 4,295 MB that are read (move it out" in line
    assert "10,737 MB" in said(capsys, "list", "verdicts", "-w", work)


def test_an_endless_line_costs_no_more_than_a_record_and_the_others_count(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    good = next((resources.pairs_dir() / BUILT_IN / "verdicts").glob("*.json")).read_text()
    line = json.dumps(json.loads(good))
    path.write_text(line + "\n")
    os.truncate(path, 150 << 20)
    with path.open("a") as file:
        file.write("\n" + line + "\n")
    assert len(list(store.read_jsonl(path, Verdict))) == 2


def test_verdicts_are_not_appended_through_a_link(work: Path) -> None:
    (work / "verdicts").mkdir()
    (work / "verdicts" / "x.jsonl").symlink_to(work.parent / "secret")
    with pytest.raises(store.InputError, match="cannot write"):
        store.append_line(work / "verdicts" / "x.jsonl", "{}")
    assert (work.parent / "secret").read_text() == SECRET
