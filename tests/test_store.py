"""The store: whole files or none, ids from content, resumable lines."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcurate import records as r
from kcurate.core import codec, store
from kcurate.errors import InputError, RecordError
from kcurate.records import (
    Candidate,
    Environment,
    Launch,
    Origin,
    Outcome,
    Problem,
    Side,
    Sizes,
    Summary,
    Verdict,
)


def candidate(**changes: object) -> Candidate:
    plan = (Launch("scale", grid=("ceil_div(n, 64)",), block=(64,), args=("x", "n")),)
    base = Candidate(
        id="demo/scale",
        family="scale",
        domain="demo",
        license="Apache-2.0",
        origin=Origin("curated"),
        techniques=("unrolling",),
        description="x *= 2",
        problem=Problem(Sizes(({"n": 5},), {"n": 100}), {}),
        slow=Side("__global__ void scale(float *x, int n);\n", plan),
        fast=Side("// é\n__global__ void scale(float *x, int n);\n", plan),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def verdict(name: str, outcome: Outcome = Outcome.CORRECT) -> Verdict:
    return Verdict(name, "k" * 16, outcome, Environment("emulator", "Some CPU @ 2.0 GHz"))


def test_content_id_depends_on_where_parts_end() -> None:
    assert store.content_id("ab", "c") != store.content_id("a", "bc")
    assert store.content_id("ab") == store.content_id(b"ab")
    assert len(store.content_id("")) == 16


def test_candidate_comes_back_as_it_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "demo" / "scale"
    store.write_candidate(folder, candidate())
    assert store.read_candidate(folder) == candidate()
    assert store.find_candidates(tmp_path) == [folder]
    assert store.find_candidates(folder / "pair.json") == [folder]
    assert not list(folder.glob(".*"))


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        store.write_candidate(tmp_path / name, candidate())
    for file in ("pair.json", "slow.cu", "fast.cu"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_pair_json_keeps_code_outside(tmp_path: Path) -> None:
    store.write_candidate(tmp_path, candidate())
    assert b"__global__" not in (tmp_path / "pair.json").read_bytes()
    assert (tmp_path / "fast.cu").read_text(encoding="utf-8") == candidate().fast.code


def test_side_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    store.write_candidate(tmp_path, candidate())
    text = (tmp_path / "pair.json").read_text().replace("slow.cu", "../secret.cu")
    (tmp_path / "pair.json").write_text(text)
    with pytest.raises(RecordError, match=r"\$\.slow\.file"):
        store.read_candidate(tmp_path)


@pytest.mark.parametrize("name", ["..", "."])
def test_side_cannot_name_a_folder(tmp_path: Path, name: str) -> None:
    store.write_candidate(tmp_path, candidate())
    text = (tmp_path / "pair.json").read_text().replace("slow.cu", name)
    (tmp_path / "pair.json").write_text(text)
    with pytest.raises(InputError):
        store.read_candidate(tmp_path)


def test_missing_side_is_named(tmp_path: Path) -> None:
    store.write_candidate(tmp_path, candidate())
    (tmp_path / "fast.cu").unlink()
    with pytest.raises(InputError, match=r"fast\.cu: cannot read: No such file"):
        store.read_candidate(tmp_path)


def test_broken_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "pair.json").write_text("{")
    with pytest.raises(RecordError, match=r"pair\.json: not JSON"):
        store.read_candidate(tmp_path)


@pytest.mark.parametrize("name", ["notes.txt", "slow.cu", "/dev/null"])
def test_file_of_no_pair_stands_for_no_folder(tmp_path: Path, name: str) -> None:
    store.write_candidate(tmp_path / "demo" / "scale", candidate())
    path = tmp_path / name
    if not path.exists():
        path.write_text("")
    with pytest.raises(InputError, match="not a file of a pair"):
        store.find_candidates(path)


def test_file_of_a_pair_stands_for_that_pair_only(tmp_path: Path) -> None:
    for folder in (tmp_path / "demo", tmp_path / "demo" / "inner"):
        store.write_candidate(folder, candidate())
    for name in ("pair.json", "slow.cu", "fast.cu"):
        assert store.find_candidates(tmp_path / "demo" / name) == [tmp_path / "demo"]


@pytest.mark.parametrize("depth", [800, 200_000])
def test_deep_nesting_is_a_record_error(tmp_path: Path, depth: int) -> None:
    (tmp_path / "pair.json").write_text("[" * depth + "]" * depth)
    with pytest.raises(RecordError, match=r"pair\.json: ") as caught:
        store.read_candidate(tmp_path)
    assert len(str(caught.value)) < 500


def test_line_nested_too_deeply_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    path.write_text("[" * 200_000 + "\n")
    store.append_jsonl(path, verdict("first"))
    assert [v.candidate for v in store.read_jsonl(path, Verdict)] == ["first"]


def test_absent_folder_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        store.find_candidates(tmp_path / "nowhere")


def test_write_into_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write") as caught:
        store.write_bytes(tmp_path / "file" / "x.json", b"")
    assert "\n" not in str(caught.value)


def test_only_a_regular_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/full")
    for name in ("folder", "pipe", "device"):
        with pytest.raises(InputError, match=f"{name}: not a regular file"):
            store.write_bytes(tmp_path / name, b"x")
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["device", "folder", "pipe"]


def test_key_covers_what_is_judged_and_nothing_else() -> None:
    key = store.candidate_key(candidate(), protocol="1")
    assert key == store.candidate_key(candidate(id="other", description="!", techniques=()), protocol="1")
    assert key != store.candidate_key(candidate(), protocol="2")
    assert key != store.candidate_key(candidate(fast=Side("changed", ())), protocol="1")
    assert key != store.candidate_key(candidate(problem=None), protocol="1")


def test_what_is_not_judged_is_in_no_key() -> None:
    """Statement, reference, licence, prose, weights: a pair keeps its verdicts when these are written."""
    bench = (r.BenchSize("small", {"n": 8}), r.BenchSize("large", {"n": 64}, headline=True))
    problem = r.Problem(r.Sizes(({"n": 4},), bench), {"out": r.Buffer("float32", ("n",), role="out")})
    plain = candidate(problem=problem)
    weighted = dataclasses.replace(problem.sizes, bench=(dataclasses.replace(bench[0], weight=3.0), bench[1]))
    reference = r.Reference("class Model: ...", r.Call("Model", (), ("out",)))
    unjudged = {
        "statement": "twice the input",
        "reference": reference,
        "single_size": True,
        "sizes": weighted,
    }
    for name, value in unjudged.items():
        other = candidate(problem=dataclasses.replace(problem, **{name: value}))
        assert other != plain
        assert store.candidate_key(other, protocol="1") == store.candidate_key(plain, protocol="1"), name
        assert store.side_key(other, "fast") == store.side_key(plain, "fast"), name
    for name in {field.name for field in dataclasses.fields(r.Candidate)} - {*store.JUDGED[r.Candidate]}:
        origin = r.Origin("history", base_revision="0" * 40, claim="2x", item="7")
        values = {"techniques": ("x",), "origin": origin, "worth": {"x": 2.0}}
        other = dataclasses.replace(plain, **{name: values.get(name, "other")})
        assert store.candidate_key(other, protocol="1") == store.candidate_key(plain, protocol="1"), name


def test_what_is_judged_is_in_the_key() -> None:
    buffer = r.Buffer("float32", ("n",), r.Init("uniform"))
    out = dataclasses.replace(buffer, init=None, role="out")
    plain = r.Problem(r.Sizes(({"n": 4},), {"n": 64}), {"in": buffer, "out": out})
    changed = [
        dataclasses.replace(plain, records=(("out", "in"),)),
        dataclasses.replace(plain, scalars={"a": r.Scalar("int32", 1)}),
        dataclasses.replace(plain, sizes=r.Sizes(({"n": 5},), {"n": 64})),
        dataclasses.replace(
            plain, buffers={**plain.buffers, "in": dataclasses.replace(buffer, promises=("sorted",))}
        ),
    ]
    keys = [store.candidate_key(candidate(problem=problem), protocol="1") for problem in (plain, *changed)]
    assert len(set(keys)) == len(keys)


def test_the_docs_list_every_field_of_a_key() -> None:
    """The table in docs/architecture.md, record by record."""
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    text = text.partition("### What changes a key")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (`.*`) \|$", text, re.MULTILINE))
    assert {name: set(re.findall(r"`(\w+)`", fields)) for name, fields in rows.items()} == {
        cls.__name__: {*store.JUDGED.get(cls, [field.name.rstrip("_") for field in dataclasses.fields(cls)])}
        for cls in (r.Candidate, *JUDGED)
    }


JUDGED = [
    r.Problem, r.Sizes, r.BenchSize, r.Buffer, r.Init, r.Tolerance, r.Scalar, r.StructField, r.Side, r.View,
    r.BufferArg, r.ValueArg, r.PointersArg, r.TensorMapArg, *codec.STEP_KEYS.values(),
]  # fmt: skip


@pytest.mark.parametrize("cls", JUDGED)
def test_what_is_not_said_is_not_in_the_key(cls: type[Any]) -> None:
    """So that a field added later, at its default, makes no verdict stale."""

    def some(kind: str) -> Any:
        return {} if "Mapping" in kind else () if "..." in kind else ("x", "x") if "tuple" in kind else "x"

    values = {
        field.name: some(str(field.type))
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    if cls is r.Problem:
        values["sizes"] = r.Sizes((), {})
    assert set(codec.to_data(cls(**values))) == {name.rstrip("_") for name in values}


def test_the_key_of_a_candidate_stays_what_it_is() -> None:
    assert store.candidate_key(candidate(), protocol="1") == "93f055c489292924"


def test_verdicts_lie_beside_their_pair_by_device(tmp_path: Path) -> None:
    store.write_verdict(tmp_path, verdict("demo/scale"))
    assert [path.name for path in (tmp_path / "verdicts").iterdir()] == ["some-cpu-2-0-ghz.json"]
    assert store.read_verdicts(tmp_path) == (verdict("demo/scale"),)
    store.write_verdict(tmp_path, verdict("demo/scale", Outcome.TIMEOUT))
    assert store.read_verdicts(tmp_path) == (verdict("demo/scale", Outcome.TIMEOUT),)


def test_half_a_line_is_passed_over_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    store.append_jsonl(path, verdict("first"))
    with path.open("ab") as file:
        file.write(b'{"candidate": "cut sh')
    assert [v.candidate for v in store.read_jsonl(path, Verdict)] == ["first"]
    store.append_jsonl(path, verdict("second"))
    assert [v.candidate for v in store.read_jsonl(path, Verdict)] == ["first", "second"]


FULL = """
import resource, sys
from pathlib import Path
from kcurate.core import store
from kcurate.errors import InputError
from kcurate.records import Environment, Outcome, Verdict
path, fitting = Path(sys.argv[1]), 5
record = Verdict("demo/scale", "k" * 16, Outcome.CORRECT, Environment("emulator", "CPU"))
store.append_jsonl(path, record)
size = path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size * fitting + size // 2, resource.RLIM_INFINITY))
for _ in range(fitting - 1):
    store.append_jsonl(path, record)
try:
    store.append_jsonl(path, record)
except InputError as error:
    print(error)
"""


def test_line_that_does_not_fit_is_an_error_and_leaves_no_half(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert "verdicts.jsonl: cannot write: No space left on device" in done.stdout
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 5
    assert len(set(lines)) == 1


def test_missing_lines_are_no_records(tmp_path: Path) -> None:
    assert list(store.read_jsonl(tmp_path / "none.jsonl", Verdict)) == []


def test_record_that_breaks_its_schema_is_not_written(tmp_path: Path) -> None:
    wrong = Summary("extract", {"files": {"pair": "many"}}, 1.0)  # type: ignore[dict-item]
    with pytest.raises(RecordError):
        store.write_json(tmp_path / "summary.json", wrong)
    assert not list(tmp_path.iterdir())


WRITER = """
import sys
from pathlib import Path
from kcurate.core import store
path = Path(sys.argv[1])
store.write_bytes(path, b"0" * 200_000)
print("ready", flush=True)
i = 1
while True:
    store.write_bytes(path, str(i % 10).encode() * 200_000)
    i += 1
"""


def test_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for pause_s in (0.0, 0.003, 0.011, 0.02):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(pause_s)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        content = path.read_bytes()
        assert len(content) == 200_000
        assert len(set(content)) == 1
