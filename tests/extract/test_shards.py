"""`kcurate extract --from`: rows of shards become kernels, whatever a shard holds."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import random
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataset.hub_server import serving
from dataset.hub_state import Repository

from kcurate.core import store, time_limits
from kcurate.errors import InputError, OptionError, RemoteError
from kcurate.extract import copies, from_shards, row_groups, shards, stage
from kcurate.extract.settings import ExtractConfig
from kcurate.records import Kernel, Summary

KERNEL = (
    '#include "scale.h"\n'
    + "__global__ void scale(float *a, int n) { int i = threadIdx.x; if (i < n) a[i] *= S; }\n"
)
PLAIN = "__global__ void %s(float *a) { a[threadIdx.x] = %d; }\n"


def row(content: str, path: str = "a.cu", repository: str | None = "o/r", **more: Any) -> dict[str, Any]:
    return {
        "content": content,
        "path": path,
        "repository": repository,
        "revision": None,
        "licence": None,
        **more,
    }


def write(path: Path, rows: Sequence[dict[str, Any]], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(each) + "\n" for each in rows).encode()
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, **options)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines))
    elif path.suffix == ".zst":
        path.write_bytes(pa.compress(lines, "zstd", asbytes=True))
    else:
        path.write_bytes(lines)
    return path


def extract(workspace: Path, *sources: Path | str, **options: Any) -> Summary:
    settings: dict[str, Any] = {"compile": False, **options}
    return stage.run(ExtractConfig(workspace=workspace, shards=tuple(map(str, sources)), **settings))


def kernels(workspace: Path) -> dict[str, Kernel]:
    records = (store.read_json(path, Kernel) for path in (workspace / "kernels").rglob("kernel.json"))
    return {kernel.id: kernel for kernel in records}


def failed(summary: Summary) -> dict[str, str]:
    return {item.id.rpartition("/")[2]: item.outcome for item in summary.results if not item.passed}


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_an_include_is_that_of_its_own_repository(tmp_path: Path, suffix: str) -> None:
    rows = [
        row(
            part.replace("scale(", f"scale{number}("),
            path,
            f"o/r{number}",
            revision=f"v{number}",
            licence="MIT",
        )
        for number in range(3)
        for path, part in (("src/k.cu", KERNEL), ("inc/scale.h", f"#define S {number}\n"))
    ]
    rows += [row(KERNEL, "src/k.cu", "o/alone")]
    summary = extract(tmp_path / "work", write(tmp_path / f"s{suffix}", rows))
    assert summary.counts["kernels"] == {"not_compiled": 4}
    for identifier, kernel in kernels(tmp_path / "work").items():
        code = (tmp_path / "work" / "kernels" / identifier / "kernel.cu").read_text()
        number = (kernel.source.url or "")[-1]
        assert (f"#define S {number}" in code) == (kernel.source.url != "o/alone"), code
        assert kernel.source.revision == (None if number == "e" else f"v{number}")
    assert not (tmp_path / "work" / "shards").exists()


def test_copies_go_first_and_the_strictest_licence_counts(tmp_path: Path) -> None:
    long = PLAIN % ("big", 1) + "".join(
        f"__device__ float f{i}(float x) {{ return x * {i}; }}\n" for i in range(60)
    )
    rows = [
        row(long, "a.cu", "o/first", licence="MIT"),
        row(long, "b.cu", "o/second", licence="Apache-2.0"),
        row(long.replace("x * 7;", "x * 8;"), "c.cu", "o/near", licence="GPL-2.0-only"),
        row(long.replace("x * 9;", "x * 8;"), "d.cu", "o/first", licence="MIT"),
        row(PLAIN % ("one", 3), "e.cu", "o/third", licence="MIT"),
        row(PLAIN % ("one", 3), "e.cu", "o/fourth"),
    ]
    work = tmp_path / "work"
    summary = extract(work, write(tmp_path / "s.parquet", rows))
    assert summary.counts["files"] == {"duplicate": 2, "extracted": 3, "near_duplicate": 1}
    licences = {kernel.span.path: kernel.license for kernel in kernels(work).values()}
    assert licences == {"a.cu": "Apache-2.0 AND GPL-2.0-only AND MIT", "d.cu": "MIT", "e.cu": None}
    (report,) = work.glob("runs/*/copies.jsonl")
    copies = {line["repository"]: line for line in map(json.loads, report.read_text().splitlines())}
    assert set(copies) == {"o/second", "o/near", "o/fourth"}
    assert copies["o/near"]["licence"] == "GPL-2.0-only" and copies["o/near"]["of"].endswith("s.parquet:0")


def test_a_copy_can_still_be_included(tmp_path: Path) -> None:
    header = PLAIN % ("shared", 5) + "#define S 3\n"
    rows = [row(header, "scale.h", "o/a"), row(header, "scale.h", "o/b"), row(KERNEL, "k.cu", "o/b")]
    extract(tmp_path / "work", write(tmp_path / "s.jsonl", rows))
    codes = [path.read_text() for path in (tmp_path / "work" / "kernels").rglob("scale/kernel.cu")]
    assert len(codes) == 1 and "#define S 3" in codes[0]


def test_a_line_or_row_that_is_too_long_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MAX_LINE_BYTES", 5000)
    monkeypatch.setattr(shards, "MAX_FILE_BYTES", 3000)
    rows = [row("a"), row("b" * 20_000), row("c" * 4000), row("d")]
    for suffix in ("jsonl", "parquet"):
        (shard,) = shards.find_shards([str(write(tmp_path / f"s.{suffix}", rows))])
        outcomes = [getattr(each, "outcome", "read") for each in shards.rows(shard)]
        assert outcomes == ["read", "too_large", "too_large", "read"]


def test_a_value_that_is_too_large_is_never_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MAX_FILE_BYTES", 2_000_000)
    rows = [row("first"), row("x" * 20_000_000), row("last", licence="y" * 20_000_000), row("z")]
    path = write(tmp_path / "s.parquet", rows, use_dictionary=False)
    (shard,) = shards.find_shards([str(path)])
    tracemalloc.start()
    try:
        outcomes = [getattr(each, "outcome", "read") for each in shards.rows(shard)]
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert outcomes == ["read", "too_large", "too_large", "read"]


def test_a_page_that_declares_a_gigabyte_costs_its_group(tmp_path: Path) -> None:
    rows = [row(PLAIN % (f"k{n}", n), f"{n}.cu", "o/r") for n in range(30)]
    path = write(tmp_path / "s.parquet", rows, row_group_size=10, compression="none", use_dictionary=False)
    data, marked = path.read_bytes(), (PLAIN % ("k14", 14)).encode()
    at = data.index(marked) - 4
    assert int.from_bytes(data[at : at + 4], "little") == len(marked)
    path.write_bytes(data[:at] + (1_000_000_000).to_bytes(4, "little") + data[at + 4 :])
    summary = extract(tmp_path / "work", path)
    assert failed(summary) == {"s.parquet:10-19": "corrupt"}
    assert summary.counts["files"] == {"extracted": 20}


@contextlib.contextmanager
def full_disk(free_bytes: int) -> Iterator[None]:
    """No file takes more bytes than this, as on a disk that is nearly full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_ends_the_run_and_a_later_one_goes_on(tmp_path: Path) -> None:
    filler = "/*" + "x" * 50_000 + "*/"  # small in a chunk, large in a tree
    rows = [row(PLAIN % (f"k{n}", n) + filler * (n == 2), f"{n}.cu", f"o/{n}") for n in range(40)]
    (shard,) = shards.find_shards([str(write(tmp_path / "s.parquet", rows))])
    config = ExtractConfig(workspace=tmp_path / "work", shards=(shard.name,), compile=False)
    folder, chunks = tmp_path / "work" / "shards" / "key", ((0, 0),)
    reading = row_groups.ShardTask(shard, 0, (), 1, folder)
    group = from_shards.GroupTask(config, None, folder, chunks, (shard.name,), 0)
    steps: list[tuple[Callable[[], object], int, Path]] = [
        (lambda: row_groups.read_shard(reading), 4_000, row_groups.report_path(folder, 0)),
        (lambda: copies.write_copies(folder, chunks, 1), 8_000, folder / "copies.arrow"),
        (lambda: from_shards.read_rows(group), 30_000, group.report_path),
    ]
    for step, free_bytes, marker in steps:
        with full_disk(free_bytes), pytest.raises(InputError, match="cannot write"):
            step()
        assert not marker.exists() and not list(folder.rglob("*.tmp"))
        step()
        assert marker.exists()
    extract(tmp_path / "whole", shard.name)
    assert (
        content_of(tmp_path / "work") == content_of(tmp_path / "whole")
        and len(kernels(tmp_path / "work")) == 40
    )


@pytest.mark.parametrize("room", ["none", "too small", "full", "enough"])
def test_a_tree_lies_in_memory_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: str
) -> None:
    rows = [row(PLAIN % (f"k{n}", n), f"d/{n}.cu", f"o/{n % 3}") for n in range(9)]
    (shard,) = shards.find_shards([str(write(tmp_path / "s.parquet", rows))])
    config = ExtractConfig(workspace=tmp_path / "work", shards=(shard.name,), compile=False)
    folder, memory = tmp_path / "work" / "shards" / "key", tmp_path / "memory"
    row_groups.read_shard(row_groups.ShardTask(shard, 0, (), 1, folder))
    copies.write_copies(folder, ((0, 0),), 1)
    if room != "none":
        memory.mkdir()
    monkeypatch.setattr(from_shards, "MEMORY", memory)
    monkeypatch.setattr(from_shards, "MAX_MEMORY_BYTES", 10 if room == "too small" else 1 << 20)
    written, tried = list[Path](), from_shards._written

    def recorded(root: Path, placed: Any) -> Path:
        written.append(root)
        if room == "full" and root.is_relative_to(memory):
            raise OSError(errno.ENOSPC, "No space left on device")
        return tried(root, placed)

    monkeypatch.setattr(from_shards, "_written", recorded)
    from_shards.read_rows(from_shards.GroupTask(config, None, folder, ((0, 0),), (shard.name,), 0))
    assert len(kernels(tmp_path / "work")) == 9
    assert sum(root.is_relative_to(memory) for root in written) == (3 if room in ("full", "enough") else 0)
    assert sum(root.is_relative_to(folder) for root in written) == (0 if room == "enough" else 3)
    assert not list((folder / "trees").iterdir()) and not (memory.exists() and list(memory.iterdir()))


def test_what_a_killed_worker_left_in_memory_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_shards, "MEMORY", tmp_path)
    monkeypatch.setattr(time_limits, "READ_GROUP_S", 0.0)  # each worker is killed
    held = list[Path]()

    def state(*_: Any) -> Path:
        folder = tmp_path / "work" / "shards" / "key"
        held.append(tmp_path / f"{from_shards._in_memory(folder)}x")
        held[0].mkdir()
        (tmp_path / "kcurate-of-another-run").mkdir()
        return folder

    monkeypatch.setattr(from_shards, "_state", state)
    extract(tmp_path / "work", write(tmp_path / "s.parquet", [row(PLAIN % ("k", 1))]))
    assert len(held) == 1 and not held[0].exists() and (tmp_path / "kcurate-of-another-run").exists()


def test_bad_rows_and_shards_cost_themselves(tmp_path: Path) -> None:
    good = row(PLAIN % ("good", 1), "good.cu", "o/good")
    bad_paths = ["/etc/passwd", "../up.cu", ".git/HEAD", "a\0b.cu", "x" * 300 + ".cu"]
    rows = [row(PLAIN % (f"p{n}", n), path, "o/bad") for n, path in enumerate(bad_paths)]
    twice = [
        row(PLAIN % ("t", 1), "t.cu", "o/t"),
        row(PLAIN % ("t", 2), "t.cu", "o/t"),
        row("int x;", "t.cu/in.cu", "o/t"),
    ]
    lines = write(tmp_path / "in" / "lines.jsonl", [good, *rows, *twice]).read_bytes()
    junk = b'{"content": 3, "path": "n.cu"}\nnot json\n[1]\n'
    (tmp_path / "in" / "lines.jsonl").write_bytes(lines + junk + b'{"content": "cut')
    write(tmp_path / "in" / "columns.parquet", [{"text_of_it": "x"}])
    (tmp_path / "in" / "broken.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "in" / "broken.jsonl.gz").write_bytes(gzip.compress(lines)[:-20])
    many = [row(PLAIN % (f"k{n}", n), f"{n}.cu", "o/pages") for n in range(40)]
    pages = write(tmp_path / "in" / "pages.parquet", many, row_group_size=20, compression="none")
    data = bytearray(pages.read_bytes())
    column = pq.read_metadata(pages).row_group(1).column(0)
    data[column.dictionary_page_offset or column.data_page_offset :][:40] = b"\xff" * 40
    start = column.dictionary_page_offset or column.data_page_offset
    data[start : start + 40] = b"\xff" * 40
    pages.write_bytes(data)
    summary = extract(tmp_path / "work", tmp_path / "in", tmp_path / "in" / "lines.jsonl")
    assert summary.counts["shards"] == {"read": 3, "refused": 2}
    outcomes = failed(summary)
    assert outcomes["columns.parquet"] == outcomes["broken.parquet"] == "refused"
    assert outcomes["pages.parquet:20-39"] == "corrupt"
    rows_of = {
        name.partition(":")[2]: outcome
        for name, outcome in outcomes.items()
        if name.startswith("lines.jsonl:")
    }
    assert set(rows_of.values()) == {"no_content", "not_json"}
    assert summary.counts["files"]["bad_path"] >= 5 and summary.counts["files"]["name_twice"] >= 2
    names = {kernel.name for kernel in kernels(tmp_path / "work").values()}
    assert {"good", "t", "k0", "k19"} <= names and "k20" not in names
    assert not list(tmp_path.glob("etc*")) and not (tmp_path / "up.cu").exists()


def test_columns_are_named_by_option(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.parquet", [{"body": PLAIN % ("k", 1), "file": "k.cu", "licenses": ["MIT", "Zlib"]}]
    )
    with pytest.raises(InputError, match="no column 'content'") as error:
        extract(tmp_path / "work", path)
    assert "--column content=NAME" in str(error.value) and "body" in str(error.value)
    extract(tmp_path / "work", path, column=("content=body", "path=file"))
    (kernel,) = kernels(tmp_path / "work").values()
    assert kernel.license == "MIT AND Zlib" and kernel.source.url is None
    with pytest.raises(OptionError, match="not a column"):
        shards.check_columns(["body=content"])


@pytest.mark.parametrize("options", [{"paths": (Path(),)}, {"history": True}, {"include_dirs": (Path(),)}])
def test_options_of_trees_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="about a tree"):
        extract(tmp_path / "work", write(tmp_path / "s.jsonl", [row("")]), **options)


def test_nothing_to_read_is_one_line(tmp_path: Path) -> None:
    for source, message in (("no/such/*.parquet", "no such file"), (str(tmp_path / "a.txt"), "not a shard")):
        (tmp_path / "a.txt").write_text("")
        with pytest.raises(InputError, match=message):
            extract(tmp_path / "work", source)


def content_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for name in ("kernels", "pairs")
        for path in sorted((folder / name).rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for shard in range(4):
        rows = [
            row(part, f"d/{name}.cu", f"o/r{(shard * 7 + n) % 11}", licence="MIT")
            for n in range(25)
            for name, part in (
                (f"k{shard}_{n}", PLAIN % (f"k{shard}_{n}", n)),
                (f"same{n}", PLAIN % ("same", n)),
            )
        ]
        write(tmp_path / "in" / f"{shard}.parquet", rows)
    code = (
        "import sys; from kcurate.extract import from_shards, row_groups; from_shards.GROUP_BYTES = 2000; "
        "row_groups.CHUNK_BYTES = 1500; from kcurate.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    arguments = ["extract", "--from", str(tmp_path / "in"), "--no-compile", "--jobs", "1", "-w"]
    command = [sys.executable, "-c", code, *arguments]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    whole = content_of(tmp_path / "whole")
    assert len(whole) > 100
    chance = random.Random(3)
    for _ in range(5):
        process = subprocess.Popen(
            [*command, str(tmp_path / "killed")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(chance.uniform(0.5, 3))
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([*command, str(tmp_path / "killed")], check=True, capture_output=True)
    assert content_of(tmp_path / "killed") == whole
    reports = [
        next(folder.glob("runs/*/summary.json")).parent
        for folder in (tmp_path / "whole", tmp_path / "killed")
    ]
    assert (reports[0] / "files.jsonl").read_bytes() == (reports[1] / "files.jsonl").read_bytes()


def test_a_group_that_ends_its_worker_is_read_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(PLAIN % (f"k{n}", n), f"{n}.cu", "o/r") for n in range(6)]
    monkeypatch.setattr(time_limits, "READ_GROUP_S", 0.0)
    summary = extract(tmp_path / "work", write(tmp_path / "s.parquet", rows))
    assert summary.counts["files"] == {"extracted": 6} and len(kernels(tmp_path / "work")) == 6


def test_chunks_and_groups_hold_every_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "CHUNK_BYTES", 100)
    rows = [row(PLAIN % (f"k{n}", n), f"{n}.cu", f"o/{n % 5}") for n in range(50)]
    (shard,) = shards.find_shards([str(write(tmp_path / "s.parquet", rows))])
    report = row_groups.read_shard(row_groups.ShardTask(shard, 0, (), 7, tmp_path))
    chunks = [(0, chunk) for chunk in range(report.chunks)]
    groups = [row_groups.read_group(tmp_path, chunks, group) for group in range(7)]
    assert report.chunks > 5 and sorted(each.ordinal for group in groups for each in group) == list(range(50))
    assert all(
        len({g for g in range(7) for each in groups[g] if each.repository == f"o/{n}"}) == 1 for n in range(5)
    )


def test_a_dataset_on_the_hub_is_read_as_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = write(tmp_path / "s.parquet", [row(PLAIN % (f"k{n}", n), f"{n}.cu", "o/r") for n in range(6)])
    lines = write(tmp_path / "s.jsonl.gz", [row(PLAIN % ("line", 7), "l.cu", "o/l")])
    files = {"data/a.parquet": shard.read_bytes(), "b.jsonl.gz": lines.read_bytes(), "README.md": b""}
    with serving() as hub:
        hub.repos["me/code"] = Repository(False)
        hub.repos["me/code"].add(files)
        template = "{endpoint}/{repo_id}/resolve/{revision}/{filename}".replace("{endpoint}", hub.url)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        listed = shards.find_shards(["me/code"])
        contents = [list(shards.rows(shard)) for shard in listed]
        with pytest.raises(InputError, match="no such file"):
            shards.find_shards(["no such name"])
        with pytest.raises(RemoteError):
            shards.find_shards(["me/nothing"])
    assert [each.name.rpartition("/")[2] for each in listed] == ["b.jsonl.gz", "a.parquet"]
    assert [len(each) for each in contents] == [1, 6]
    assert not [path for path in tmp_path.rglob("*") if path.name == "a.parquet"]
