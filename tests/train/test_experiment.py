"""The experiment of `benchmarks/experiment.py`: what its arms see, what travels, and every unit on a CPU."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kcurate import prompts
from kcurate.errors import InputError
from kcurate.evaluation import completions
from kcurate.evaluation.completions import Completion
from kcurate.reward.task import given_hash

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"

# Only for these imports: `train.py` there would hide the tests of `train`.
with pytest.MonkeyPatch.context() as path:
    path.syspath_prepend(BENCHMARKS)
    import experiment
    import experiment_report
    import fetch_model
    from experiment import ARMS, Arm, Likely, Prepared, Row, taught_by


@pytest.fixture
def rows(pairs: Path) -> list[Row]:
    """Rows of six families, each plain and explained; two of the families are minted."""
    from tiny import tasks

    return [
        Row(
            replace(task, answer=f"{'why ' * explained}{task.answer}"),
            experiment.given(task),
            explained,
            task.family in ("shift", "square"),
        )
        for task in tasks(pairs)
        for explained in (False, True)
    ]


def test_shares_are_whole_families_and_lie_in_each_other(rows: list[Row]) -> None:
    taught = [taught_by(Arm("arm", share=share), rows) for share in (1, 1 / 2, 1 / 4, 1 / 8)]
    families = [{task.family for task in tasks} for tasks in taught]
    assert [len(tasks) for tasks in taught] == [12, 6, 4, 2]
    assert families[0] > families[1] > families[2] > families[3]
    assert families[1] != {task.family for task in taught_by(ARMS["half-2"], rows)}


def test_shuffled_answers_are_of_other_families_and_of_the_same_form(rows: list[Row]) -> None:
    family_of = {row.task.answer: row.task.family for row in rows}
    for arm in ("shuffled", "shuffled-2"):
        taught = taught_by(ARMS[arm], rows)
        assert sorted(task.answer or "" for task in taught) == sorted(map(str, family_of))
        assert all(family_of[task.answer] != task.family for task in taught)
        prompts = [(task.id, (task.answer or "").startswith("why")) for task in taught]
        assert sorted(prompts) == sorted((row.task.id, row.explained) for row in rows)


def test_controls_leave_out_what_they_say(rows: list[Row]) -> None:
    form = taught_by(ARMS["form"], rows)
    assert len(form) == 12 and {task.answer for task in form} == {row.given for row in rows}
    plain = taught_by(ARMS["no-explanations"], rows)
    assert len(plain) == 6 and not any((task.answer or "").startswith("why") for task in plain)
    assert {task.family for task in taught_by(ARMS["no-minted"], rows)} == {
        "scale",
        "times",
        "sum-of-halves",
        "plus-nought",
    }


def test_tasks_are_spread_over_families_and_minted_ones_only_fill_up(rows: list[Row]) -> None:
    tasks = [replace(row.task, id=f"{row.task.id}-{row.explained}") for row in rows]
    assert len({task.family for task in experiment.spread(tasks, 6)}) == 6
    many = [
        replace(task, id=f"{task.id}-{i}", family=f"{task.family}-{i}") for task in tasks for i in range(9)
    ]
    minted = [replace(task, id=f"minted/{task.id}") for task in many]
    chosen = experiment.chosen([*minted, *many])
    assert len(chosen) == 100
    assert [experiment.minted(task) for task in chosen] == [False] * 60 + [True] * 40
    assert experiment.chosen(many[:30] + minted[:20])[:30] == experiment.spread(many[:30], 30)


def test_a_prompt_of_a_published_row_is_the_one_that_training_sees(rows: list[Row]) -> None:
    messages = prompts.chat(rows[0].task.prompt)
    assert prompts.chat(experiment.prompt_of(messages)) == messages


def test_the_better_answer_is_the_likelier_a_token_not_the_shorter() -> None:
    kinds = {"answer": (20.0, 40), "given": (10.0, 10), "chosen": (30.0, 30), "rejected": (4.0, 8)}
    table = [
        {"kind": kind, "task": "t", "family": "f", "nats": nats, "tokens": tokens}
        for kind, (nats, tokens) in kinds.items()
    ]
    outcomes = {name: estimate.value for name, estimate in experiment.of_likelihoods(table).items()}
    assert outcomes == {"nats a token": 0.5, "answer over given": 1.0, "preferred": 0.0}


def test_one_family_cannot_be_shuffled(rows: list[Row]) -> None:
    with pytest.raises(InputError, match="more than half"):
        experiment.shuffled([row.task for row in rows if row.task.family == "scale"])


def state(root: Path, **arms: list[str]) -> Path:
    for arm, units in arms.items():
        (root / arm).mkdir(parents=True)
        lines = "".join(json.dumps({"arm": arm, "unit": unit}) + "\n" for unit in units)
        (root / arm / "rows.jsonl").write_text(lines)
        (root / arm / "completions.parquet").write_text(" ".join(units))
    return root


def test_what_a_machine_sends_back_is_taken_over_once(tmp_path: Path) -> None:
    ours = state(tmp_path / "ours", base=["likelihood"], all=["train", "likelihood"])
    theirs = state(tmp_path / "theirs", base=["likelihood", "sample"], form=["train"], all=["train"])
    experiment.send(theirs, tmp_path / "out", ["base", "form", "all", "half"])
    for _ in range(2):
        experiment.merge(tmp_path / "out", ours)
    assert {path.parent.name: path.read_text() for path in ours.glob("*/completions.parquet")} == {
        "base": "likelihood sample",
        "form": "train",
        "all": "train likelihood",
    }


def test_two_runs_of_one_arm_are_not_mixed(tmp_path: Path) -> None:
    ours = state(tmp_path / "ours", base=["likelihood", "sample"])
    theirs = state(tmp_path / "theirs", all=["train"], base=["sample", "likelihood", "judge"])
    with pytest.raises(InputError, match="two runs of one arm"):
        experiment.merge(theirs, ours)
    assert not (ours / "all").exists()


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    import torch
    from safetensors.torch import save_file

    folder = tmp_path / "adapter"
    folder.mkdir()
    save_file({"weight": torch.randn(8, 64)}, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "base_model_name_or_path": "/x"})
    )
    (folder / "taught.json").write_text(json.dumps({"families": [], "given": []}))
    return folder


def test_an_adapter_travels_in_16_bits_to_its_own_base_only(adapter: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    ours = Prepared("model", "tokenizer", (), (), (), ())
    experiment.pack(adapter, tmp_path / "pieces", ours)
    back = experiment.unpacked(tmp_path / "pieces", tmp_path / "work", ours)
    whole, half = (load_file(folder / "adapter_model.safetensors")["weight"] for folder in (adapter, back))
    assert torch.equal(half, whole.to(torch.bfloat16))
    for other, what in ((replace(ours, model="m"), "model"), (replace(ours, tokenizer="t"), "tokenizer")):
        with pytest.raises(InputError, match=f"an adapter of another {what}"):
            experiment.unpacked(tmp_path / "pieces", tmp_path / "work", other)
    (tmp_path / "pieces" / "piece-000.bin").unlink()
    with pytest.raises(InputError, match="0 of 1 pieces"):
        experiment.unpacked(tmp_path / "pieces", tmp_path / "elsewhere", ours)
    (tmp_path / "pieces" / "piece-000.bin").write_bytes(b"cut")
    with pytest.raises(InputError, match=r"not piece-000.bin: 3 bytes"):
        experiment.unpacked(tmp_path / "pieces", tmp_path / "elsewhere", ours)


def experiment_call(*words: str) -> list[str]:
    return [sys.executable, str(BENCHMARKS / "experiment.py"), *words]


@pytest.fixture
def asked(model: Path, pairs: Path, rows: list[Row], tmp_path: Path) -> Callable[..., list[str]]:
    """A call on tasks of tiny pairs and a tiny model, which is right for some of them."""
    from tiny import tasks

    from kcurate.local_models import weights
    from kcurate.local_models.settings import ModelSettings

    known = tasks(pairs)
    likely = [Likely("answer", task.id, task.family, task.prompt, task.answer or "") for task in known]
    likely += [Likely("given", task.id, task.family, task.prompt, experiment.given(task)) for task in known]
    tokenizer = experiment.hash_of_tokenizer(weights.load_tokenizer(ModelSettings(str(model))))
    sft = tuple(row for row in rows if row.task.family not in ("scale", "times"))
    held_out = tuple(task for task in known if task.family in ("scale", "times"))
    rated = tuple(task for task in known if task.family in ("sum-of-halves", "plus-nought"))
    hashed = experiment.hash_of_model(model)
    # Classes of a script are pickled by the name that it has when it is run.
    for record in (Prepared, Row, Likely):
        record.__module__ = "__main__"
        setattr(sys.modules["__main__"], record.__name__, record)
    prepared = Prepared(hashed, tokenizer, sft, held_out, tuple(likely), rated)
    (tmp_path / "tasks").write_bytes(pickle.dumps(prepared))
    sets = (
        *("sft.max_steps=6", "sft.save_steps=2", "sft.max_tokens=4096", "sft.learning_rate=1e-6"),
        *("grpo.max_steps=2", "grpo.prompts=1", "grpo.generations=2", "grpo.micro_batch=2"),
        *("grpo.max_completion_tokens=256", "rft.samples=2", "measure.batch=4", "lora.r=2"),
        *("measure.max_completion_tokens=256", "measure.temperature=1.0"),
    )

    def call(*arms: str, place: str = "state") -> list[str]:
        folders = ("--state", str(tmp_path / place), "--work", str(tmp_path / f"work-{place}"))
        words = ("--model", str(model), "--tasks", str(tmp_path / "tasks"), "--out", str(tmp_path / "out"))
        return experiment_call(*arms, *folders, *words, *(word for key in sets for word in ("--set", key)))

    return call


def test_another_model_is_refused_in_one_line(asked: Callable[..., list[str]], tmp_path: Path) -> None:
    call = asked("base")
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")
    call[call.index("--model") + 1] = str(other)
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip() == f"{other}: not the model that the tasks were prepared for"
    assert not (tmp_path / "state").exists()


def test_judging_needs_no_model_only_completions(asked: Callable[..., list[str]], tmp_path: Path) -> None:
    call = [*asked("base"), "--units", "judge"]
    call[call.index("--model") + 1] = "absent"
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip().startswith(f"{tmp_path / 'state/base/completions.parquet'}: ")


def sometimes_right(tasks: Path, into: Path) -> None:
    """The ratings of a model that solves each task in two of four samples; the tiny one solves all."""
    rows = [
        Completion(
            *(task.id, task.family, given_hash(task), sample, 1, "[]", "", "", "text", "answered"),
            outcome="correct" if sample < 2 else "mismatch",
        )
        for task in pickle.loads(tasks.read_bytes()).rated
        for sample in range(experiment.SAMPLES)
    ]
    completions.write(into, rows)


@pytest.mark.slow
def test_every_unit_goes_on_after_a_kill_and_on_another_machine(
    asked: Callable[..., list[str]], tmp_path: Path
) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    first = subprocess.Popen(asked("base", "all"), env=environment)
    checkpoints = tmp_path / "work-state" / "all" / "sft"
    while first.poll() is None and not any(checkpoints.glob("checkpoint-*")):
        time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert not (tmp_path / "state" / "all").exists()
    subprocess.run(asked("base", "all"), env=environment, check=True)
    experiment.merge(tmp_path / "out", tmp_path / "further")
    assert {path.name for path in (tmp_path / "further").iterdir()} == {"base", "all"}
    sometimes_right(tmp_path / "tasks", tmp_path / "further" / "rated.parquet")
    arms = ("form", "grpo", "rft")
    subprocess.run(asked("base", "all", *arms, place="further"), env=environment, check=True)
    done = {
        name: [
            row["unit"]
            for row in map(json.loads, (tmp_path / "further" / name / "rows.jsonl").read_text().splitlines())
        ]
        for name in ("base", "all", *arms)
    }
    assert done == {name: list(ARMS[name].units) for name in ("base", "all", *arms)}
    assert not (tmp_path / "work-further" / "all").exists()
    text = experiment_report.tables(tmp_path / "further")
    assert "| `grpo` less `all` | compiles |" in text
    assert all(f"| `{name}` |" in text for name in done) and "answer over given" in text
    assert fetch_model.LIST in {path.name for path in (tmp_path / "out").iterdir()}
