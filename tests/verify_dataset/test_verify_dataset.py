"""Published rows judged again: drift by row and device, on the emulator."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from dataset.making import H200, a_row, pair, verdict, workspace

from kcurate.backends.choice import Place
from kcurate.core import store
from kcurate.dataset import parquet
from kcurate.dataset.push import PushConfig
from kcurate.dataset.push import run as push
from kcurate.dataset.rows import row as row_of
from kcurate.dataset.rows import whole
from kcurate.dataset.stage import BuildConfig
from kcurate.dataset.stage import run as build
from kcurate.errors import InputError
from kcurate.hub.published_rows import candidate_of, read_rows
from kcurate.records import Environment, Outcome, Speedup, Verdict
from kcurate.verdicts.keys import verdict_key
from kcurate.verify_dataset import stage
from kcurate.verify_dataset.stage import Drift, VerifyConfig, compare, other_device_notes, run


def judged(outcome: Outcome, ratio: float | None = None, device: str = "NVIDIA H200") -> Verdict:
    made = verdict(pair("demo/a"), outcome if outcome is not Outcome.CONFIRMED else Outcome.CORRECT)
    speedup = Speedup(ratio, ratio - 0.01, ratio + 0.01, 0.98, 20, 0.02) if ratio else None
    return replace(made, outcome=outcome, speedup=speedup, environment=replace(H200, device=device))


@pytest.mark.parametrize(
    ("new", "drift"),
    [
        (judged(Outcome.CONFIRMED, 1.5), Drift.SAME),
        (judged(Outcome.CONFIRMED, 1.55), Drift.SAME),
        (judged(Outcome.CONFIRMED, 1.2), Drift.SPEEDUP_MOVED),
        (judged(Outcome.CONFIRMED, 9.0), Drift.SPEEDUP_MOVED),
        (judged(Outcome.CONFIRMED, 9.0, "NVIDIA L4"), Drift.HOLDS_THERE),
        (judged(Outcome.NOT_FASTER, 1.0, "NVIDIA L4"), Drift.NOT_FASTER_THERE),
        (judged(Outcome.CORRECT, device="CPU"), Drift.UNTIMED),
        (judged(Outcome.NOT_FASTER, 1.0), Drift.NOT_FASTER),
        (judged(Outcome.MISMATCH), Drift.BROKEN),
        (judged(Outcome.COMPILE_ERROR), Drift.BROKEN),
        (judged(Outcome.HARNESS_ERROR), Drift.UNCLEAR),
        (judged(Outcome.AMBIGUOUS_TIMING, 1.5), Drift.UNCLEAR),
    ],
)
def test_drift_is_named(new: Verdict, drift: Drift) -> None:
    assert compare(a_row(pair("demo/a")), new).drift is drift


@pytest.mark.parametrize(
    ("published", "new", "drift"),
    [
        ((Outcome.CONFIRMED, 3.0), (Outcome.CONFIRMED, 3.05), Drift.SAME),
        ((Outcome.CONFIRMED, 3.0), (Outcome.CONFIRMED, 1.5), Drift.SPEEDUP_MOVED),
        ((Outcome.CONFIRMED, 3.0), (Outcome.NOT_FASTER, 1.0), Drift.NOT_FASTER),
        ((Outcome.NOT_FASTER, 1.0), (Outcome.NOT_FASTER, 1.0), Drift.SAME),
        ((Outcome.NOT_FASTER, 1.0), (Outcome.CONFIRMED, 1.5), Drift.SPEEDUP_MOVED),
        ((Outcome.NOT_FASTER, 1.0), (Outcome.MISMATCH, None), Drift.BROKEN),
    ],
)
def test_a_second_device_of_a_row_is_compared_with_its_own_figures(
    published: tuple[Outcome, float], new: tuple[Outcome, float | None], drift: Drift
) -> None:
    one = pair("demo/a")
    made = row_of(one, verdict(one), [judged(*published, "NVIDIA L4")])
    found = compare(made, judged(*new, "NVIDIA L4"))
    assert (found.drift, found.published_device) == (drift, "NVIDIA L4")
    assert found.published_speedup == published[1]
    assert list(other_device_notes([found])) == []
    assert compare(made, judged(Outcome.CONFIRMED, 1.5)).drift is Drift.SAME
    assert compare(made, judged(Outcome.CONFIRMED, 9.0, "NVIDIA L2")).drift is Drift.HOLDS_THERE


def test_another_gpu_model_says_how_many_rows_hold_there() -> None:
    row = a_row(pair("demo/a"))
    news = [
        (Outcome.CONFIRMED, 9.0),
        (Outcome.CONFIRMED, 1.1),
        (Outcome.NOT_FASTER, 1.0),
        (Outcome.MISMATCH, None),
    ]
    found = [compare(row, judged(outcome, ratio, "NVIDIA L4")) for outcome, ratio in news]
    here = compare(row, judged(Outcome.CONFIRMED, 1.5))
    assert list(other_device_notes([*found, here])) == [
        "of 4 rows published on NVIDIA H200, 2 hold on NVIDIA L4 and 2 do not (1 not faster, 1 not correct)"
    ]
    assert list(other_device_notes([here])) == []


def test_what_a_stranger_sends_counts_for_the_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = pair("demo/a")
    space = workspace(tmp_path / "work", [(one, Outcome.CONFIRMED)])
    build(BuildConfig(space.root))
    (row,) = read_rows(space.dataset)["train"]
    assert verdict_key(candidate_of(row)) != row["key"], "the published code has no comments"
    theirs = replace(judged(Outcome.CONFIRMED, 3.0, "NVIDIA L4"), key=verdict_key(candidate_of(row)))
    monkeypatch.setattr(stage, "choose", lambda *_, **__: Place("cuda", (0,)))
    monkeypatch.setattr(stage.judge, "judge_many", lambda *_, **__: (each for each in [(0, theirs)]))
    sent = tmp_path / "l4.jsonl"
    stage.run(VerifyConfig(str(space.dataset), tmp_path / "stranger", contribute=sent))
    store.write_bytes(space.verdicts / "l4.jsonl", sent.read_bytes())
    assert build(BuildConfig(space.root)).items == {"pairs": {"confirmed": 1}}
    (row,) = read_rows(space.dataset)["train"]
    assert {
        row["device"],
        *(json.loads(text)["environment"]["device"] for text in row["other_verdicts"]),
    } == {
        "NVIDIA H200",
        "NVIDIA L4",
    }
    older = {**row, "protocol": "2"}
    assert stage.contribution(older, theirs) is None
    assert stage.contribution(row, judged(Outcome.HARNESS_ERROR)) is None


def test_the_emulator_has_nothing_to_contribute(tmp_path: Path) -> None:
    space = workspace(tmp_path / "work", [(pair("demo/a"), Outcome.CONFIRMED)])
    build(BuildConfig(space.root))
    config = VerifyConfig(str(space.dataset), tmp_path / "w", "emulator", contribute=tmp_path / "file")
    with pytest.raises(InputError, match="only verdicts of a GPU can be sent"):
        run(config)
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("at", [0, 200, -1])
def test_a_damaged_file_is_one_line(tmp_path: Path, at: int) -> None:
    space = workspace(tmp_path / "work", [(pair("demo/a"), Outcome.CONFIRMED)])
    build(BuildConfig(space.root))
    (path,) = (space.dataset / "pairs").glob("train-*.parquet")
    content = path.read_bytes()
    path.write_bytes(
        content[:at] + b"\xff" * 64 + content[at:][64:] if at >= 0 else content[: len(content) // 2]
    )
    with pytest.raises(InputError, match="not a Parquet file, or damaged") as told:
        run(VerifyConfig(str(space.dataset), tmp_path / "again", backend="emulator"))
    assert "rebuild or download it" in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize("row", [{"protocol": "2"}, {}])
def test_times_of_an_older_protocol_are_not_compared(row: dict[str, str]) -> None:
    older = {key: value for key, value in a_row(pair("demo/a")).items() if key != "protocol"} | row
    assert compare(older, judged(Outcome.CONFIRMED, 9.0)).drift is Drift.OLDER_PROTOCOL
    assert compare(older, judged(Outcome.MISMATCH)).drift is Drift.BROKEN


def test_rows_are_judged_again_and_a_broken_one_is_found(tmp_path: Path) -> None:
    space = workspace(tmp_path / "work", [(pair(f"demo/{i}", i + 1), Outcome.CONFIRMED) for i in range(2)])
    build(BuildConfig(space.root))
    (path,) = (space.dataset / "pairs").glob("train-*.parquet")
    first, second = read_rows(space.dataset)["train"]
    wrong = {**second, "fast_code": second["fast_code"].replace("a * x[i]", "a + x[i]")}
    path.write_bytes(parquet.to_bytes("pairs", [whole(first), whole(wrong)]))
    config = VerifyConfig(str(space.dataset), tmp_path / "again", backend="emulator", jobs=1)
    report = run(config)
    assert report.summary.items == {"rows": {"broken": 1, "untimed": 1}}
    assert [(one.id, one.outcome) for one in report.drifted] == [("demo/1", "mismatch")]
    (written,) = (tmp_path / "again").rglob("drift.json")
    assert [one["published_speedup"] for one in json.loads(written.read_bytes())] == [1.5, 1.5]
    verdicts = [
        v for file in (tmp_path / "again/verdicts").iterdir() for v in store.read_jsonl(file, Verdict)
    ]
    assert {v.candidate: v.outcome for v in verdicts} == {"demo/0": "correct", "demo/1": "mismatch"}
    assert isinstance(verdicts[0].environment, Environment)


@pytest.mark.slow
def test_a_fault_after_a_verdict_ends_the_judges_too(tmp_path: Path) -> None:
    space = workspace(tmp_path / "work", [(pair(f"demo/{i}", i + 1), Outcome.CONFIRMED) for i in range(3)])
    build(BuildConfig(space.root))
    code = (
        "import sys; from pathlib import Path; from kcurate.verify_dataset import stage as verify\n"
        "def compare(*_): raise ZeroDivisionError\n"
        "if __name__ == '__main__':\n"
        "    verify.compare = compare\n"
        "    config = verify.VerifyConfig(sys.argv[1], Path(sys.argv[2]), backend='emulator', jobs=2)\n"
        "    verify.run(config)\n"
    )
    (tmp_path / "faulty.py").write_text(code)
    command = [sys.executable, str(tmp_path / "faulty.py"), str(space.dataset), str(tmp_path / "again")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    "column", ["id", "problem", "content", "speedup", "speedup_low", "device", "slow_code"]
)
def test_a_dataset_without_a_column_is_told(tmp_path: Path, column: str) -> None:
    space = workspace(tmp_path / "work", [(pair("demo/a"), Outcome.CONFIRMED)])
    build(BuildConfig(space.root))
    (path,) = (space.dataset / "pairs").glob("train-*.parquet")
    pq.write_table(pq.read_table(path).drop_columns([column]), path)
    with pytest.raises(InputError, match=f"train-00000-of-00001-.*parquet: .*no column {column} ") as told:
        run(VerifyConfig(str(space.dataset), tmp_path / "again", backend="emulator"))
    assert "\n" not in str(told.value) and not (tmp_path / "again").exists()
    with pytest.raises(InputError, match=f"no column {column} "):
        push(PushConfig(space.root, to=tmp_path / "published"))


def test_a_dataset_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        run(VerifyConfig(str(tmp_path / "nothing"), tmp_path))
    with pytest.raises(InputError, match="no pairs/"):
        run(VerifyConfig(str(tmp_path), tmp_path))
