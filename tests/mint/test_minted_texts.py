"""The frozen texts of minted pairs: what a GPU judged is what they are."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from dataset import row_rules

from benchmarks import minted_texts
from kcurate.core import codec, store
from kcurate.core.workspace import Workspace
from kcurate.dataset.gates import Gates
from kcurate.dataset.settings import Rules
from kcurate.dataset.stage import BuildConfig, run
from kcurate.hub.published_rows import read_rows
from kcurate.problem.techniques import shown_in
from kcurate.records import Candidate
from kcurate.reward import splits
from kcurate.verdicts.keys import verdict_key

# Two answers to one graph, neither confirmed; its problem came out otherwise when it was minted again.
LOST = 2


@pytest.fixture(scope="module")
def pairs() -> list[Candidate]:
    judged = [path for path in sorted(minted_texts.TEXTS.glob("*.parquet")) if path.stem != "seed-2027"]
    return [pair for path in judged for pair in minted_texts.candidates(path)]


def test_every_fact_is_about_a_committed_text(pairs: list[Candidate]) -> None:
    facts = {row["key"]: row for row in minted_texts.facts()}
    keys = {verdict_key(pair): pair for pair in pairs if not pair.id.endswith("/plain")}
    assert set(keys) <= set(facts) and len(facts) == len(keys) + LOST
    for key, pair in keys.items():
        row = facts[key]
        assert pair.id == f"minted/{row['graph']}/{row['answer']}"
        assert (pair.origin.seed, list(pair.origin.rules)) == (row["text_seed"], row["schedules"])
    graphs = {pair.id.split("/")[1] for pair in keys.values()}
    plain = {pair.id.split("/")[1] for pair in pairs if pair.id.endswith("/plain")}
    assert {key for key, row in facts.items() if row["outcome"] == "confirmed"} <= set(keys)
    assert graphs <= plain, "a problem is there with its module"


def test_problems_are_there_without_answers() -> None:
    """As many as the run admitted; each reads back as a pair."""
    (line,) = map(json.loads, minted_texts.RUNS.read_text().splitlines())
    path = minted_texts.TEXTS / f"{line['name']}.parquet"
    texts = pq.read_table(path).to_pydict()
    assert len(texts["id"]) == line["outcomes"]["admitted"] >= 5000
    assert sum(line["outcomes"].values()) == line["composed"]
    assert all(name.endswith("/plain") for name in texts["id"])
    for text in texts["pair"][::50]:
        pair = codec.from_data(Candidate, json.loads(text))
        assert minted_texts.text_of(pair) == text and pair.problem is not None
        assert pair.problem.statement and pair.problem.reference and pair.fast.language == "cuda"


def test_statements_are_clear_and_techniques_are_what_differs() -> None:
    """As those that are composed today; a few runs are older."""
    for path in sorted(minted_texts.TEXTS.glob("*.parquet")):
        for text in pq.read_table(path)["pair"].to_pylist():
            pair = json.loads(text)
            row_rules.formulas_are_clear(pair["problem"]["statement"], pair["problem"]["buffers"])
            both = {*pair["techniques"]} & shown_in(pair["slow"]["code"])
            assert not both, (pair["id"], both)


def test_verdicts_say_what_is_on_record() -> None:
    row = next(row for row in minted_texts.facts() if row["speedup"])
    verdict = minted_texts.verdict_of(row)
    assert verdict.speedup is not None and verdict.slow is not None
    assert (verdict.key, verdict.speedup.ratio, verdict.slow.median_us, verdict.slow.samples_us) == (
        *(row["key"], row["speedup"], row["slow_us"]),
        (),
    )


def test_minted_texts_take_little_room() -> None:
    files = [*minted_texts.TEXTS.iterdir(), *minted_texts.DATA.glob("*/minted.parquet")]
    assert sum(file.stat().st_size for file in files) <= 6 << 20


@pytest.fixture(scope="module")
def built(pairs: list[Candidate], tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A dataset of the built-in pairs and some of the minted ones."""
    folder = tmp_path_factory.mktemp("minted")
    (folder / "texts").mkdir()
    (folder / "texts/few.parquet").write_bytes(
        minted_texts.to_bytes({p.id: minted_texts.text_of(p) for p in pairs[:90]})
    )
    # An earlier run composed the first graph too, and nobody judged its answers.
    (plain,) = (p for p in pairs[:5] if p.id == f"minted/{graph_of(pairs[0].id)}/plain")
    other = replace(plain, description="as another run has it")
    (folder / "texts/earlier.parquet").write_bytes(
        minted_texts.to_bytes({other.id: minted_texts.text_of(other)})
    )
    workspace = Workspace(folder / "work")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minted_texts, "TEXTS", folder / "texts")
        minted_texts.unpack(workspace)
    assert [store.read_candidate(workspace.pairs / pair.id) for pair in pairs[:90]] == pairs[:90]
    assert minted_texts.text_in(workspace.pairs / pairs[0].id) == minted_texts.text_of(pairs[0])
    counts = run(BuildConfig(workspace.root, built_in=True)).counts["pairs"]
    assert counts["task"] == len({graph_of(pair.id) for pair in pairs[:90]})
    return workspace


def graph_of(name: str) -> str:
    return name.split("/")[1]


@pytest.mark.slow
def test_a_problem_is_a_task_once_and_without_answers(pairs: list[Candidate], built: Workspace) -> None:
    rows, tasks = read_rows(built.dataset), read_rows(built.dataset, "tasks")
    listed = Counter(task["graph"] for split in tasks.values() for task in split if task["graph"])
    assert set(listed) == {graph_of(pair.id) for pair in pairs[:90]} and set(listed.values()) == {1}
    problems = [(task["family"], task["problem"]) for split in tasks.values() for task in split]
    assert len(problems) == len(set(problems))
    for split, some in tasks.items():
        answers = defaultdict(set)
        for row in rows[split]:
            answers[row["problem"]].add(row["fast_code"])
        assert answers.keys() <= {task["problem"] for task in some}
        for task in some:
            assert task["statement"] and task["given_code"] and bool(task["module"]) >= bool(task["graph"])
            assert task["answers"] == len(answers[task["problem"]])
            assert task["given_code"] not in answers[task["problem"]]


@pytest.mark.slow
def test_what_holds_for_every_row(built: Workspace) -> None:
    row_rules.check(built.dataset)


def test_an_answer_that_holds_most_of_a_tested_one_is_not_taught(pairs: list[Candidate]) -> None:
    """Composed problems share schedules: an answer may be another one in all but an operator."""
    taught = next(pair for pair in pairs if "threadIdx.x" in pair.fast.code and "out" in pair.fast.code)
    tested = replace(taught, id="minted/other/schedules", family="other")
    tested = replace(
        tested, fast=replace(tested.fast, code=re.sub(r"\bout(\d*)\b", r"result\1", tested.fast.code))
    )
    rows = [
        {"id": pair.id, "family": pair.family, "slow_code": f"// {pair.id}", "fast_code": pair.fast.code}
        for pair in (taught, tested, next(p for p in pairs if p.fast.language != taught.fast.language))
    ]
    gates = Gates(Rules())
    refused = gates.leaks(rows, {row["id"]: "test" if row["family"] == "other" else "train" for row in rows})
    assert list(refused) == [taught.id] and refused[taught.id].reason == "leaked"
    assert "of the answer of minted/other/schedules stands in its own" in refused[taught.id].detail


@pytest.mark.slow
def test_every_row_is_on_its_side(built: Workspace) -> None:
    sides = splits.frozen().sides
    codes, graphs, families = (defaultdict(set) for _ in range(3))
    for split, some in read_rows(built.dataset).items():
        for row in some:
            assert sides.get(row["family"], split) == split
            assert split == "test" or not row["family"].startswith(splits.KERNELBENCH)
            codes[row["slow_code"]].add(split)
            codes[row["fast_code"]].add(split)
            families[row["family"]].add(split)
            graphs[row["graph"]].add(split)
    assert all(len(of) == 1 for of in (*codes.values(), *families.values()))
    assert all(len(of) == 1 for graph, of in graphs.items() if graph)
    tested = [row for row in read_rows(built.dataset)["test"] if not row["graph"]]
    apart = {row["family"] for row in tested if not any("KernelBench/" in name for name in row["relatives"])}
    assert len(apart) >= 30, "without a relative in KernelBench"
    assert any(row["relatives"] for row in tested)
    for config in ("sft", "grpo", "write", "tasks"):
        for split, some in read_rows(built.dataset, config).items():
            assert all(families[row["family"]] <= {split} for row in some)


@pytest.mark.slow
def test_what_a_known_set_asks_for_is_not_trained_on(built: Workspace, tmp_path: Path) -> None:
    """By name and by operator graph; its texts share nothing with ours."""
    (tmp_path / "KernelBench").mkdir()
    (tmp_path / "KernelBench/item.py").write_text("import torch\n" + "x = torch.relu(x) + 1\n" * 20)
    gates = Gates(Rules(against=(tmp_path / "KernelBench",)))
    rows = [row for some in read_rows(built.dataset).values() for row in some]
    sides = {row["id"]: split for split, some in read_rows(built.dataset).items() for row in some}
    refused = gates.leaks(rows, sides)
    related = {r["id"] for r in rows if any(name.startswith("KernelBench/") for name in r["relatives"])}
    assert set(refused) == {name for name in related if sides[name] == "train"}
    by_family = {row["family"]: refused[row["id"]].detail for row in rows if row["id"] in refused}
    for family, task in (("linear-logsumexp-mish", 22), ("linear-pool-sum", 55), ("linear-row-sum", 14)):
        assert by_family[family] == f"KernelBench/2/{task} asks for what it computes"
