"""The local dataset: which pairs become rows, what `datasets` loads, equal bytes for equal input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from dataset.making import H200, a_row, pair, verdict, workspace

from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.dataset import changes, parquet
from kcurate.dataset.columns import SPARSE
from kcurate.dataset.gates import Rules
from kcurate.dataset.rows import COLUMNS, whole
from kcurate.dataset.stage import BuildConfig, require_rows, run
from kcurate.errors import InputError
from kcurate.hub.published_rows import read_rows
from kcurate.records import Kernel, Origin, Outcome, Rights, Source, Sourced, Span
from kcurate.reward.pair_tasks import task_of
from kcurate.train import random_model


def contents(space: Workspace) -> dict[str, bytes]:
    files = (path for path in space.dataset.rglob("*") if path.is_file())
    return {path.relative_to(space.dataset).as_posix(): path.read_bytes() for path in files}


def test_every_pair_has_one_outcome_and_rows_come_back(tmp_path: Path) -> None:
    from datasets import load_dataset

    a, b, c, d = (pair(f"demo/{name}", factor) for factor, name in enumerate("abcd"))
    work = tmp_path / "work"
    space = workspace(work, [(a, Outcome.CORRECT), (b, None), (c, Outcome.MISMATCH), (d, None)])
    store.write_verdict(space.pairs / "demo/b", verdict(b))
    summary = run(BuildConfig(work))
    assert summary.items == {"pairs": {"confirmed": 1, "correct": 1, "refused": 1, "not_judged": 1}}
    loaded = {
        name: load_dataset(str(space.dataset), name, split="train", cache_dir=str(tmp_path / "cache"))
        for name in parquet.CONFIGS
        if name
        not in (
            "preferences",
            "repair",
            "trajectories",
            "tool_trajectories",
            "profiles",
        )  # two answers to a prompt; facts of built-in pairs
    }
    filled = [name for name in COLUMNS if name not in SPARSE - {"suite"}]
    assert loaded["pairs"].column_names == filled
    assert loaded["pairs"]["id"] == ["demo/a", "demo/b"]
    assert whole(loaded["pairs"][1]) == a_row(b)
    assert loaded["pairs"][1]["slow_samples_us"] == [[30.0, 30.5], [29.5]]
    assert loaded["sft"]["id"] == loaded["grpo"]["id"] == ["demo/b"]  # `correct` claims no speed to learn
    assert loaded["write"]["id"] == ["demo/b"]
    assert "completion" not in loaded["grpo"].column_names


def test_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    pairs = [(pair("demo/b", 1), Outcome.CONFIRMED), (pair("demo/a", 2), Outcome.CONFIRMED)]
    one, two = workspace(tmp_path / "one", pairs), workspace(tmp_path / "two", pairs[::-1])
    for space in (one, two, one):
        run(BuildConfig(space.root))
    assert contents(one) == contents(two)
    assert set(contents(one)) >= {"README.md", "ATTRIBUTION.md", "CHANGES.md", "gates.json", "speedups.svg"}


def test_another_process_makes_equal_bytes(tmp_path: Path) -> None:
    """An order that depends on hashes would differ."""
    pairs = [(pair(f"demo/{name}", factor), Outcome.CONFIRMED) for factor, name in enumerate("abc", 1)]
    here, there = workspace(tmp_path / "here", pairs), workspace(tmp_path / "there", pairs)
    run(BuildConfig(here.root))
    command = [sys.executable, "-m", "kcurate", "build", "--workspace", str(there.root)]
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "1"}, capture_output=True, check=True)
    assert contents(here) == contents(there)


def test_a_verdict_on_other_code_does_not_count(tmp_path: Path) -> None:
    old = pair("demo/a", 1)
    space = workspace(tmp_path, [(old, Outcome.CONFIRMED)])
    store.write_candidate(space.pairs / old.id, pair("demo/a", 2))
    assert run(BuildConfig(tmp_path)).items == {"pairs": {"stale": 1}}
    assert [path.name for path in space.dataset.iterdir()] == ["gates.json"]


def test_rows_have_the_places_of_kernels_that_were_extracted_here(tmp_path: Path) -> None:
    one = pair("demo/a")
    one = replace(one, origin=replace(one.origin, kernels=("s/k", "s/elsewhere")))
    space = workspace(tmp_path, [(one, Outcome.CONFIRMED)])
    kernel = Kernel("s/k", Source("s"), "b", None, "k", Span("src/k.cu", 10, 90, 3, 9), "src/k.cu", ())
    store.write_json(space.kernels / "s/k/kernel.json", kernel)
    run(BuildConfig(tmp_path))
    (row,) = read_rows(space.dataset)["train"]
    assert row["sources"] == [{"kernel": "s/k", "path": "src/k.cu", "first_line": 3, "last_line": 9}]


def test_a_second_device_adds_its_verdict(tmp_path: Path) -> None:
    one = pair("demo/a")
    space = workspace(tmp_path, [(one, Outcome.CONFIRMED)])
    l4 = replace(H200, device="NVIDIA L4", compiler="nvrtc 13.0 sm_89")
    other = replace(verdict(one, ratio=3.0), environment=l4)
    store.append_jsonl(space.verdicts / "other.jsonl", other)
    run(BuildConfig(tmp_path))
    (row,) = read_rows(space.dataset)["train"]
    # The H200's verdict is older and stands: a second device changes neither the row nor its prompt.
    assert (row["device"], row["speedup"]) == ("NVIDIA H200", 1.5)
    assert [json.loads(text)["environment"]["device"] for text in row["other_verdicts"]] == ["NVIDIA L4"]
    assert [(one["device"], one["speedup"]) for one in row["devices"]] == [
        ("NVIDIA H200", 1.5),
        ("NVIDIA L4", 3.0),
    ]
    (taught,) = read_rows(space.dataset, "sft")["train"]
    assert "L4" not in json.dumps(taught["prompt"])


def test_what_the_gates_refuse_is_counted_and_reported(tmp_path: Path) -> None:
    good = pair("demo/a", 1)
    copy = replace(good, id="demo/copy")
    unknown = pair("demo/c", 3, license=None)
    space = workspace(tmp_path, [(one, Outcome.CONFIRMED) for one in (good, copy, unknown)])
    assert run(BuildConfig(tmp_path)).items == {"pairs": {"confirmed": 1, "licence": 1, "duplicate": 1}}
    report = json.loads((space.dataset / "gates.json").read_bytes())
    assert {one["id"]: one["reason"] for one in report["refused"]} == {
        "demo/copy": "duplicate",
        "demo/c": "licence",
    }
    allowing = BuildConfig(tmp_path, rules=Rules(allow_licences=("unknown",)))
    assert run(allowing).items == {"pairs": {"confirmed": 2, "duplicate": 1}}


def test_pairs_that_cannot_be_read_are_counted_and_the_rest_is_built(tmp_path: Path) -> None:
    pairs = [pair(f"demo/{name}", factor) for factor, name in enumerate("abcde", 1)]
    space = workspace(tmp_path, [(one, Outcome.CONFIRMED) for one in pairs])
    for name in ("demo/b", "demo/d"):
        (space.pairs / name / "pair.json").write_text("[" * 200_000)
    store.write_bytes(space.pairs / "demo/c/verdicts/h200.json", b'{"candidate": 1}')
    notes: list[str] = []
    assert run(BuildConfig(tmp_path), note=notes.append).items == {"pairs": {"confirmed": 2, "bad_row": 3}}
    report = json.loads((space.dataset / "gates.json").read_bytes())
    assert {one["id"]: one["reason"] for one in report["refused"]} == dict.fromkeys(
        ("demo/b", "demo/c", "demo/d"), "bad_row"
    )
    assert report["refused"][0]["detail"] == "pair.json: not JSON: nested too deeply"
    assert report["refused"][1]["detail"].startswith("verdicts/h200.json: $")
    assert str(tmp_path) not in json.dumps(report)
    assert notes[1].startswith(f"left out: {space.pairs}/demo/c/verdicts/h200.json: $")


def test_a_line_that_is_no_verdict_does_not_count(tmp_path: Path) -> None:
    space = workspace(tmp_path, [(pair("demo/a"), Outcome.CONFIRMED)])
    with (space.verdicts / "device.jsonl").open("a") as file:
        file.write('{"outcome": "confirmed"}\n[1]\nnull\n{"candidate": "cut sh')
    assert run(BuildConfig(tmp_path)).items == {"pairs": {"confirmed": 1}}


def test_versions_follow_the_rows(tmp_path: Path) -> None:
    first, second = pair("demo/a", 1), pair("demo/b", 2)
    space = workspace(tmp_path, [(first, Outcome.CONFIRMED)])

    def version() -> str:
        run(BuildConfig(tmp_path))
        history = changes.read(space.dataset)
        assert history is not None
        return history.version

    assert [version(), version()] == ["1.0.0", "1.0.0"]
    workspace(tmp_path, [(second, Outcome.CONFIRMED)])
    assert version() == "1.1.0"
    store.append_jsonl(space.verdicts / "device.jsonl", verdict(second, ratio=2.0))
    assert version() == "1.1.1"
    workspace(tmp_path, [(pair("demo/a", 5), Outcome.CONFIRMED)])
    assert version() == "2.0.0"
    assert "- changed (1): `demo/a`" in (space.dataset / "CHANGES.md").read_text()
    with pytest.raises(InputError, match="not newer"):
        run(BuildConfig(tmp_path, version="1.5.0"))
    run(BuildConfig(tmp_path, version="3.0.0"))
    assert version() == "3.0.0"


def test_a_build_that_was_killed_between_its_renames_loses_nothing(tmp_path: Path) -> None:
    space = workspace(tmp_path, [(pair("demo/a"), Outcome.CONFIRMED)])
    run(BuildConfig(tmp_path, version="4.0.0"))
    before = contents(space)
    space.dataset.rename(tmp_path / ".dataset.old")
    run(BuildConfig(tmp_path))
    assert contents(space) == before


def test_nothing_to_build_from_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run kcurate pair SLOW\.cu FAST\.cu, or kcurate extract"):
        run(BuildConfig(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def test_without_a_row_the_commonest_reasons_are_told_and_an_old_dataset_stays(tmp_path: Path) -> None:
    pairs = [(pair("demo/a"), None), (pair("demo/b", 2), None), (pair("demo/c", 3), Outcome.MISMATCH)]
    space = workspace(tmp_path, pairs)
    summary = run(BuildConfig(tmp_path))
    assert summary.items == {"pairs": {"refused": 1, "not_judged": 2}}
    with pytest.raises(
        InputError, match=r"no pair is a row: 2 not_judged \(not judged yet\); 1 refused \(mism"
    ):
        require_rows(summary)
    refused = json.loads(contents(space)["gates.json"])["refused"]
    assert [(one["id"], one["reason"]) for one in refused] == [
        ("demo/a", "not_judged"),
        ("demo/b", "not_judged"),
        ("demo/c", "refused"),
    ]
    for name in ("demo/a", "demo/b"):
        store.write_verdict(space.pairs / name, verdict(store.read_candidate(space.pairs / name)))
    require_rows(run(BuildConfig(tmp_path)))
    before = contents(space)
    assert [one["id"] for one in json.loads(before["gates.json"])["refused"]] == ["demo/c"]
    for name in ("demo/a", "demo/b"):
        store.write_candidate(space.pairs / name, pair(name, 5))
    last = run(BuildConfig(tmp_path))
    assert contents(space) == before and last.run is not None
    told = json.loads((Path(last.run) / "gates.json").read_bytes())["refused"]
    assert [one["reason"] for one in told] == ["stale", "stale", "refused"]


def test_without_verdicts_of_a_gpu_the_missing_configs_are_told(tmp_path: Path) -> None:
    space = workspace(tmp_path, [(pair("demo/a"), Outcome.CORRECT)])
    notes: list[str] = []
    run(BuildConfig(tmp_path), note=notes.append)
    assert any("no pair is confirmed by a GPU, so sft, explained, grpo," in one for one in notes)
    assert (
        "No pair is confirmed by a GPU, so sft, explained, grpo," in (space.dataset / "README.md").read_text()
    )
    store.write_verdict(space.pairs / "demo/a", verdict(pair("demo/a")))
    notes.clear()
    run(BuildConfig(tmp_path), note=notes.append)
    assert not any("no pair is confirmed" in one for one in notes)


@pytest.mark.parametrize(
    ("rights", "why"),
    [
        (Rights(Sourced("MIT", "LICENSE", 1)), None),
        (None, "nothing states the licence of demo/k: run kcurate extract again"),
        (
            Rights(Sourced("GPL-3.0-only", "k.cu", 1), refused="--licence says 'MIT', k.cu:1 says another"),
            "k.cu:1",
        ),
    ],
)
def test_only_a_licence_that_is_on_record_is_published(
    tmp_path: Path, rights: Rights | None, why: str | None
) -> None:
    origin = Origin("natural", "demo", kernels=("demo/k",))
    workspace(tmp_path, [(pair("demo/a", origin=origin), Outcome.CORRECT)])
    span = Span("k.cu", 0, 1, 1, 1)
    kernel = Kernel("demo/k", Source("demo", license="MIT"), "b", None, "k", span, "k.cu", (), rights=rights)
    store.write_json(tmp_path / "kernels/demo/k/kernel.json", kernel)
    [item] = run(BuildConfig(tmp_path)).results
    if why is None:
        assert item.outcome == "correct"
    else:
        assert item.outcome == "licence" and why in item.why
    allowing = BuildConfig(tmp_path, rules=Rules(allow_licences=("MIT",)))
    assert run(allowing).items == {"pairs": {"correct": 1}}


def test_what_would_leak_from_the_test_split_is_no_row(tmp_path: Path) -> None:
    held, shown = (replace(pair(f"demo/{name}", factor), family=family) for name, factor, family in (
        ("held", 1, "bfs"), ("shown", 2, "sha256"),
    ))  # fmt: skip
    other = replace(pair("demo/other", 3), family="sha256")
    shown = replace(shown, slow=held.slow)
    run(BuildConfig(workspace(tmp_path, [(p, Outcome.CONFIRMED) for p in (held, shown, other)]).root))
    rows = read_rows(Workspace(tmp_path).dataset)
    assert {split: [row["id"] for row in some] for split, some in rows.items()} == {
        "test": ["demo/held"],
        "train": ["demo/other"],
    }
    (refused,) = json.loads((Workspace(tmp_path).dataset / "gates.json").read_text())["refused"]
    assert (refused["id"], refused["reason"]) == ("demo/shown", "leaked")


@pytest.mark.slow
def test_the_recipe_of_the_card_trains_a_model(tmp_path: Path) -> None:
    """As it stands: plain TRL, a random model, a dataset of two pairs."""
    space = workspace(tmp_path / "work", [(pair(f"demo/{i}", i), Outcome.CONFIRMED) for i in (1, 2)])
    run(BuildConfig(space.root))
    random_model.write(tmp_path / "model", [task_of(pair("demo/a"))], seed=1)
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}{{ eos_token }}{% endfor %}"
    (tmp_path / "model" / "chat_template.jinja").write_text(template)
    card = (space.dataset / "README.md").read_text()
    recipe = re.findall(r"^```python\n(.*?)^```$", card, re.MULTILINE | re.DOTALL)[1]
    code = recipe.replace("USER/NAME", str(space.dataset)).replace("MODEL", str(tmp_path / "model"))
    variables = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "train_loss" in done.stdout + done.stderr
