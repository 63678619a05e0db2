"""Packed workspaces: records in shards, read and written as if they were files."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import shutil
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcurate import cli
from kcurate.core import own_files, pack_shards, packing, packs, resources, store
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError

PART = st.sampled_from(["a", "a-b", "a.b", "B", "ä", "0", "x\ny"])
FOLDERS = st.tuples(st.sampled_from(["kernels", "pairs"]), PART, PART, st.just("deep")).map("/".join)
NAMES = st.sampled_from(["kernel.json", "kernel.cu", "problem.toml", "pair.json", "empty"])
PATHS = st.tuples(FOLDERS, NAMES).map("/".join)
LINES = st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=4)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, st.binary(max_size=40)),
        st.tuples(st.just("remove"), PATHS, st.just(b"")),
        st.tuples(st.just("append"), st.just("verdicts/gpu.jsonl"), st.just(b"")),
        st.tuples(st.just("pack"), st.just(""), st.just(b"")),
    ),
    max_size=25,
)


def workspace(root: Path, *, packed: bool = False) -> Path:
    Workspace(root).mark()
    if packed:
        packing.start(root)
    return root


def filled(root: Path, contents: Mapping[str, bytes]) -> Path:
    for name, content in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def on_disk(root: Path) -> dict[str, bytes]:
    files = (path for top in pack_shards.PACKED for path in (root / top).rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def as_read(root: Path) -> dict[str, bytes]:
    """All files through the store."""
    paths = [path for path in store.find(root, "*") if path.relative_to(root).parts[0] in pack_shards.PACKED]
    assert paths == sorted(paths)
    contents = {}
    for path in paths:
        with contextlib.suppress(InputError):  # in a damaged part of a shard
            lines = b"".join(packs.lines(path)) if path.suffix == ".jsonl" else own_files.read(path)
            contents[path.relative_to(root).as_posix()] = lines
    return contents


def quick(test: Callable[..., None]) -> Callable[..., None]:
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=20, deadline=None, suppress_health_check=checks)(test)


@quick
@given(contents=st.dictionaries(PATHS, st.binary(max_size=200)), lines=LINES)
def test_unpacking_gives_the_bytes_that_were_packed(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes], lines: list[bytes]
) -> None:
    if lines:
        contents["verdicts/gpu.jsonl"] = b"".join(lines)
    root = filled(workspace(tmp_path_factory.mktemp("w") / "w", packed=True), contents)
    assert packing.pack(root) == len(contents)
    assert on_disk(root) == {}
    assert as_read(root) == contents
    packing.unpack(root)
    assert on_disk(root) == contents
    assert not packing.is_packed(root)


@quick
@given(changes=CHANGES)
def test_a_packed_workspace_behaves_like_a_folder(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str, bytes]]
) -> None:
    place = tmp_path_factory.mktemp("w")
    roots = workspace(place / "folder"), workspace(place / "packed", packed=True)
    for number, (change, name, content) in enumerate(changes):
        for root in roots:
            if change == "write":
                store.write_bytes(root / name, content)
            elif change == "remove":
                store.remove(root / name)
            elif change == "append":
                store.append_line(root / name, str(number))
            elif packing.is_packed(root):
                packing.pack(root)
        if change == "pack":
            assert as_read(roots[1]) == as_read(roots[0])
    assert as_read(roots[1]) == as_read(roots[0])
    for name in ("kernels", "pairs", *{name for _, name, _ in changes if name}):
        assert store.exists(roots[0] / name) == store.exists(roots[1] / name)
    packing.unpack(roots[1])
    assert on_disk(roots[1]) == on_disk(roots[0])


class Killed(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.parametrize("step", range(14))
def test_a_killed_process_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    root = workspace(tmp_path / "w", packed=True)
    contents = {
        "kernels/a/kernel.json": b"old",
        "kernels/a/kernel.cu": b"code",
        "verdicts/gpu.jsonl": b"1\n2\n",
    }
    filled(root, contents)
    packing.pack(root)
    store.write_bytes(root / "kernels/a/kernel.json", b"new")
    store.remove(root / "kernels/a/kernel.cu")
    store.append_line(root / "verdicts/gpu.jsonl", "3")
    expected = {"kernels/a/kernel.json": b"new", "verdicts/gpu.jsonl": b"1\n2\n3\n"}
    steps = count()
    with monkeypatch.context() as patched:
        for name in ("replace", "rename", "unlink", "rmdir"):
            original = getattr(Path, name)

            def stepping(
                path: Path, *args: object, original: Callable[..., object] = original, **more: object
            ) -> object:
                if next(steps) >= step:
                    raise Killed
                return original(path, *args, **more)

            patched.setattr(Path, name, stepping)
        try:
            packing.pack(root)
            packing.unpack(root)
        except Killed:
            pass
        else:
            assert step > 8
    if packing.is_packed(root):
        assert as_read(root)["kernels/a/kernel.json"] == b"new"
        assert not store.exists(root / "kernels/a/kernel.cu")
        assert {*b"".join(packs.lines(root / "verdicts/gpu.jsonl")).split()} == {b"1", b"2", b"3"}
        packing.unpack(root)
    assert on_disk(root) == expected


def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_shards, "GROUP_ROWS", 2)


def test_many_small_shards_become_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_shards(monkeypatch)
    root = workspace(tmp_path / "w", packed=True)
    for number in range(40):
        store.write_bytes(root / f"kernels/{number % 13}/kernel.json", b"%d" % number)
        store.append_line(root / "verdicts/gpu.jsonl", str(number))
        packing.pack(root)
    assert len(list((root / "packs").glob("*.parquet"))) <= 6
    contents = as_read(root)
    assert contents["kernels/0/kernel.json"] == b"39"
    assert contents["verdicts/gpu.jsonl"].split() == [b"%d" % number for number in range(40)]


def test_files_move_while_a_command_still_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MOVE_AFTER", 5)
    root = workspace(tmp_path / "w", packed=True)
    for number in range(12):
        store.write_bytes(root / f"kernels/{number}/kernel.json", b"{}")
    assert len(on_disk(root)) < 12
    assert len(as_read(root)) == 12


def test_listing_reads_one_group_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_shards(monkeypatch)
    root = workspace(tmp_path / "w", packed=True)
    filled(root, {f"kernels/{number:03d}/kernel.json": b"{}" for number in range(200)})
    packing.pack(root)
    reads = []
    original = pack_shards.Shard.read
    monkeypatch.setattr(
        pack_shards.Shard, "read", lambda *args, **more: reads.append(1) or original(*args, **more)
    )
    listing = store.find(root / "kernels", "kernel.json")
    assert next(listing) == root / "kernels/000/kernel.json"
    assert len(reads) <= 2
    reads.clear()
    assert own_files.read(root / "kernels/150/kernel.json") == b"{}"
    assert len(reads) == 1


def rows(*values: tuple[str, bytes]) -> pa.Table:
    columns = [{"path": path, "removed": False, "content": content} for path, content in values]
    return pa.Table.from_pylist(columns, pack_shards._schema())


def corrupt_page(path: Path) -> None:
    pq.write_table(rows(("kernels/b/kernel.cu", os.urandom(4000))), path, compression="zstd")
    data = bytearray(path.read_bytes())
    data[1000:1200] = bytes(200)
    column = pq.ParquetFile(path).metadata.row_group(0).column(2)
    data[column.data_page_offset : column.data_page_offset + 12] = b"\xff" * 12
    path.write_bytes(bytes(data))


DAMAGE: Mapping[str, Callable[[Path], object]] = {
    "no columns": lambda path: pq.write_table(pa.table({"text": ["a"]}), path),
    "not Parquet": lambda path: path.write_bytes(b"not a shard"),
    "cut short": lambda path: (pq.write_table(rows(("kernels/b/x", b"1")), path), os.truncate(path, 60)),
    "corrupt page": corrupt_page,
    "outside": lambda path: pq.write_table(rows(("kernels/../../b", b"1")), path),
    "twice": lambda path: pq.write_table(rows(("kernels/b/x", b"1"), ("kernels/b/x", b"2")), path),
    "unsorted": lambda path: pq.write_table(rows(("kernels/z/x", b"1"), ("kernels/b/x", b"2")), path),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_shard_costs_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    root = filled(workspace(tmp_path / "w", packed=True), {"kernels/a/kernel.cu": b"code"})
    packing.pack(root)
    bad = root / "packs" / "00000002-00000002.parquet"
    DAMAGE[damage](bad)
    content = bad.read_bytes()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert as_read(root)["kernels/a/kernel.cu"] == b"code"
        store.write_bytes(root / "kernels/c/kernel.cu", b"more")
        packing.pack(root)
        packing.unpack(root)
    assert on_disk(root)["kernels/a/kernel.cu"] == b"code"
    assert on_disk(root)["kernels/c/kernel.cu"] == b"more"
    assert len(caplog.messages) == 1
    assert str(bad) in caplog.text
    assert "\n" not in caplog.messages[0]
    assert bad.read_bytes() == content  # stays, for whoever can repair it


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = filled(workspace(tmp_path / "w", packed=True), {"kernels/a/kernel.cu": b"code"})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="No space left"):
            packing.pack(root)
    assert on_disk(root) == {"kernels/a/kernel.cu": b"code"}
    assert [path.name for path in (root / "packs").iterdir()] == ["lock"]


def test_what_is_in_the_way_is_named_and_the_shards_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = filled(workspace(tmp_path / "w", packed=True), {"kernels/a/b": b"1", "kernels/c": b"2"})
    packing.pack(root)
    filled(root, {"kernels/a": b"a file"})
    assert packing.unpack(root) == (1, 1)
    assert len(caplog.messages) == 1
    assert packing.is_packed(root)
    assert on_disk(root) == {"kernels/a": b"a file", "kernels/c": b"2"}


def test_a_file_that_is_unpacked_for_an_editor_counts(tmp_path: Path) -> None:
    root = workspace(tmp_path / "w", packed=True)
    filled(root, {"kernels/a/problem.toml": b"old", "kernels/b/problem.toml": b"other"})
    packing.pack(root)
    assert packing.unpack(root, ["kernels/a"]) == (1, 0)
    assert on_disk(root) == {"kernels/a/problem.toml": b"old"}
    (root / "kernels/a/problem.toml").write_bytes(b"edited")
    packing.pack(root)
    assert as_read(root) == {"kernels/a/problem.toml": b"edited", "kernels/b/problem.toml": b"other"}


def test_links_and_large_files_stay_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MAX_FILE_BYTES", 10)
    root = filled(workspace(tmp_path / "w", packed=True), {"kernels/a/large": bytes(11)})
    (root / "kernels/a/link").symlink_to("large")
    packing.pack(root)
    assert set(on_disk(root)) == {"kernels/a/large", "kernels/a/link"}


def test_commands_do_not_know_the_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`list`, `show`, `deopt`, `validate` and `build` on a folder and on shards, with the same results."""
    texts: dict[str, list[str]] = {}
    name = "reduction-scan/reduce-sum-shuffle"
    for form in ("folder", "packed"):
        root = tmp_path / form
        shutil.copytree(resources.pairs_dir() / name, root / "pairs" / name, ignore=lambda *_: ["verdicts"])
        Workspace(root).mark()
        if form == "packed":
            assert cli.run(["pack", "-w", str(root)]) == 0
            capsys.readouterr()
        for words in (
            ["list", "pairs", "--json"],
            ["show", name],
            ["deopt", "--rules", "vector-to-scalar", "--json"],
            ["validate", name, "--backend", "emulator", "--json"],
            ["list", "verdicts", "--json"],
            ["build", "--json"],
        ):
            code = cli.run([*words, "-w", str(root)])
            out = capsys.readouterr().out
            text = re.sub(r'"wall_s": [\d.]+|-\d{8}T[\d.]+', "", out.replace(str(root), "ROOT"))
            texts.setdefault(form, []).append(f"{words}: {code} {text}")
    assert texts["packed"] == texts["folder"]
    assert on_disk(tmp_path / "packed") == {}
