"""Modules of our own in KernelBench's layout become tasks, whose answers the judge judges; or say why not."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import torch_modules as ours

from kcurate import prompts
from kcurate.core import codec
from kcurate.errors import InputError
from kcurate.hub import repository as hub
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.kernelbench import module_problem
from kcurate.kernelbench import tasks as kernelbench
from kcurate.records import Buffer, Call, Init, Outcome, Side, Tolerance
from kcurate.reward import splits
from kcurate.reward.answers import Readable, read
from kcurate.reward.task import Task

FORWARD = "        return torch.softmax(x, dim=self.dim)\n"
# What is put in place of the forward pass (or of something else) of the module that computes a softmax.
LEFT_OUT = {
    "constant": (FORWARD, "        return torch.zeros_like(x)\n", "accept zeros"),
    "dropping": (FORWARD, "        return torch.nn.functional.dropout(x)\n", "not a function of its inputs"),
    "averaging": (FORWARD, "        return (x * 0.01).sigmoid().mean()\n", "at the bench size"),
    "in_place": (FORWARD, "        return x.exp_()\n", "changed the input"),
    "guessing": (FORWARD, "        return x[x > 0]\n", "PyTorch module Model"),
    "dividing": (FORWARD, "        return x / (x - x)\n", "not finite"),
    "fixed": ("torch.randn(batch, *shape)", "torch.randn(8, 9)", "none of its sizes"),
    "odd_values": ("torch.randn(batch, *shape)", "torch.rand(batch, *shape) ** 5", "no generator"),
    "broken": ("import torch.nn as nn", "import torch.nn as", "not Python"),
    "reading": ("batch = 40", "batch = 40\nsecret = open('/etc/shadow', 'a')", "PermissionError"),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> kernelbench.KernelBenchTasks:
    folder = tmp_path_factory.mktemp("checkout") / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    for number, (name, text) in enumerate(ours.MODULES.items(), 9):
        (folder / f"{number}_{name}.py").write_text(text)
    for number, (name, (old, new, _)) in enumerate(LEFT_OUT.items(), 20):
        text = ours.SOFTMAX.replace(old, new)
        assert text != ours.SOFTMAX
        if name == "averaging":
            text = text.replace("batch = 40", "batch = 400").replace("(96,)", "(4096,)")
        (folder / f"{number}_{name}_.py").write_text(text)
    (folder / "notes.py").write_text("print('not a module')\n")
    return kernelbench.load(folder.parent.parent)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with contextlib.closing(Judge(JudgeConfig("emulator", spares=1, torch=True))) as one:
        yield one


def task(found: kernelbench.KernelBenchTasks, name: str) -> Task:
    return next(one for one in found.tasks if one.family == name)


def reply(side: Side) -> str:
    return prompts.write_answer(prompts.Answer(side.code, codec.to_data(side.plan)))


def test_tasks_are_in_the_order_of_their_numbers(found: kernelbench.KernelBenchTasks) -> None:
    assert [one.id for one in found.tasks] == [
        "kernelbench/level1/9_scaled",
        "kernelbench/level1/10_matmul",
        "kernelbench/level1/11_softmax",
        "kernelbench/level1/12_together",
    ]
    assert not found.reduced


def test_sizes_that_only_change_together_become_one(found: kernelbench.KernelBenchTasks) -> None:
    problem = task(found, "together").template.problem
    assert problem is not None
    assert problem.sizes.headline == {"rows": 48}
    assert problem.buffers["x"].shape == ("rows", "rows")
    assert "columns = rows" in task(found, "together").template.slow.code


def test_tensors_and_weights_become_buffers(found: kernelbench.KernelBenchTasks) -> None:
    problem = task(found, "scaled").template.problem
    assert problem is not None
    assert problem.sizes.headline == {"rows": 128, "width": 64}
    assert len(problem.sizes.test) == 3
    assert problem.buffers["x"] == Buffer("float32", ("rows", "width"), Init("normal", {"std": 2}))
    assert problem.buffers["out"].shape == ("rows", "width")
    assert set(problem.buffers) == {"x", "weight", "out"}
    assert problem.scalars["factor"].value == 0.5


def test_tolerance_follows_the_sums(found: kernelbench.KernelBenchTasks) -> None:
    terms = {}
    for one in found.tasks:
        assert one.template.problem is not None
        terms[one.family] = one.template.problem.buffers["out"].tolerance
    assert terms == {
        "scaled": Tolerance(),
        "matmul": Tolerance("K"),
        "softmax": Tolerance("shape_0"),
        "together": Tolerance(),
    }


def test_a_task_asks_for_device_code_and_a_plan(found: kernelbench.KernelBenchTasks) -> None:
    one = task(found, "softmax")
    assert one.template.slow.plan == (Call("Model", ("x",), ("out",)),)
    assert one.template.origin.made == "fast"
    assert "class Model" in one.prompt.context and "always give the whole plan" in one.prompt.context
    assert one.answer is None


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_cannot_be_a_task_says_why(found: kernelbench.KernelBenchTasks, name: str) -> None:
    (why,) = [why for key, why in found.left_out.items() if key.partition("_")[2] == f"{name}_"]
    assert LEFT_OUT[name][2] in why


@pytest.mark.parametrize("name", ours.ANSWERS)
def test_right_answers_are_correct(found: kernelbench.KernelBenchTasks, judge: Judge, name: str) -> None:
    answer = read(task(found, name), reply(ours.ANSWERS[name]))
    assert isinstance(answer, Readable)
    verdict = judge.judge(answer.candidate)
    assert verdict.outcome is Outcome.CORRECT, (verdict.detail, verdict.log)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("scaled", "x[i] * weight[i % width] + factor", "0.0f"),
        ("scaled", "weight[i % width]", "weight[0]"),
        ("matmul", "i < k", "i < k - 1"),
        ("matmul", "b[i * n + column]", "b[i * n]"),
        ("softmax", "/ sum", "/ (sum + 1.0f)"),
        ("softmax", "expf(from[i] - most) / sum", "1.0f / width"),
    ],
)
def test_wrong_answers_are_found(
    found: kernelbench.KernelBenchTasks, judge: Judge, name: str, old: str, new: str
) -> None:
    side = ours.ANSWERS[name]
    assert old in side.code
    answer = read(task(found, name), reply(replace(side, code=side.code.replace(old, new))))
    assert isinstance(answer, Readable)
    verdict = judge.judge(answer.candidate)
    assert (verdict.outcome, verdict.side) == (Outcome.MISMATCH, "fast"), verdict.detail


def test_an_answer_in_python_is_no_answer(found: kernelbench.KernelBenchTasks, judge: Judge) -> None:
    one = task(found, "scaled")
    plan = codec.to_data(one.template.slow.plan)
    answer = read(one, f"```cuda\n{ours.SCALED_CODE}```\n```json\n{json.dumps({'plan': plan})}\n```\n")
    assert isinstance(answer, Readable)
    assert judge.judge(answer.candidate).outcome is Outcome.MALFORMED


def test_the_split_is_by_seed_and_covers_all(found: kernelbench.KernelBenchTasks) -> None:
    first = found.tasks[0]
    tasks = [
        replace(
            first,
            id=f"{i}",
            family=f"family-{i // 2}",
            template=replace(first.template, slow=replace(first.template.slow, code=f"x = {i // 2}")),
        )
        for i in range(100)
    ]
    train, held_out = splits.split(tasks, 0.2)
    assert (len(train), len(held_out)) == (80, 20)
    assert not {one.family for one in train} & {one.family for one in held_out}
    assert {one.id for one in (*train, *held_out)} == {one.id for one in tasks}
    assert splits.split(tasks, 0.2) == (train, held_out)
    assert splits.split(tasks, 0.2, seed=7) != (train, held_out)
    with pytest.raises(InputError, match="not a share"):
        splits.split(tasks, 1.0)


@pytest.mark.slow
def test_modules_come_from_the_hub_and_their_sizes_are_halved_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(repo: str, folder: Path, *, revision: str | None = None) -> None:
        assert (repo, revision) == (kernelbench.HUB_NAME, "v1")
        big = ours.SOFTMAX.replace("batch = 40", "batch = 65536 * 4")
        rows = [(big, 1, "7_softmax", 7), (ours.MATMUL, 2, "1_matmul", 1)]
        columns = zip(*rows, strict=True)
        table = dict(zip(("code", "level", "name", "problem_id"), map(list, columns), strict=True))
        (folder / "data").mkdir()
        pq.write_table(pa.table(table), folder / "data" / "level_1-00000-of-00001.parquet")

    monkeypatch.setattr(hub, "download", download)
    found = kernelbench.load(revision="v1", bench_bytes=1 << 24)
    (one,) = found.tasks
    assert one.id == "kernelbench/level1/7_softmax"
    assert one.template.problem is not None
    assert one.template.problem.sizes.headline == {"batch": 16384, "shape_0": 96}
    assert found.reduced == {"7_softmax": {"batch": 262144, "shape_0": 96}}


@pytest.mark.parametrize("place", ["/nowhere/at/all", "./nowhere", "nowhere"])
def test_no_such_place_is_told(place: str) -> None:
    with pytest.raises(InputError, match="no such folder"):
        kernelbench.load(place)


def test_a_folder_without_modules_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no modules of level 1"):
        kernelbench.load(tmp_path)


def test_a_problem_does_not_depend_on_what_its_worker_drew_before() -> None:
    problems = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        problems.append(module_problem.problem_of(ours.SCALED, None).problem)
    assert problems[0] == problems[1]
