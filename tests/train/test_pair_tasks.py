"""Tasks from the built-in corpus, from folders of pairs and from published datasets; their split."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from dataset.making import pair, verdict, workspace
from hypothesis import given
from hypothesis import strategies as st
from small import scaled

from kcurate.core import resources, store
from kcurate.cuda_source.compare.similarity import fingerprint
from kcurate.dataset.stage import BuildConfig
from kcurate.dataset.stage import run as build
from kcurate.errors import InputError
from kcurate.problem.neutral import neutral
from kcurate.prompts import Answer, read_reply
from kcurate.records import Outcome, View
from kcurate.reward import pair_tasks, splits
from kcurate.reward.answers import Readable, Refused, read
from kcurate.reward.task import Task


@pytest.fixture(scope="module")
def built_in() -> tuple[Task, ...]:
    return pair_tasks.load()


def test_the_built_in_pairs_are_tasks_with_answers(built_in: tuple[Task, ...]) -> None:
    assert len(built_in) > 100
    assert len({task.prompt for task in built_in}) == len(built_in)
    untaught = [task for task in built_in if task.answer is None]
    assert all(task.template.slow.views != task.template.fast.views for task in untaught)
    assert len(untaught) < 5
    for task in built_in:
        assert (task.template.origin.kind, task.template.origin.made) == ("model", "fast")
        assert "//" not in task.prompt.context


def test_a_plan_is_taught_only_where_it_differs(built_in: tuple[Task, ...]) -> None:
    answers = {task.id: read_reply(task.answer, "text") for task in built_in if task.answer}
    same = [task for task in built_in if task.answer and task.template.slow.plan == task.template.fast.plan]
    assert same
    for task in same:
        answer = answers[task.id]
        assert isinstance(answer, Answer)
        assert answer.plan is None or task.template.slow.buffers != task.template.fast.buffers


def test_brief_prompts_say_the_same_with_fewer_words(built_in: tuple[Task, ...]) -> None:
    brief = pair_tasks.task_of(built_in[0].template, brief=True)
    context = built_in[0].prompt.context
    where = re.search(
        r"GPU: NVIDIA H200 \(compute capability 9\.0\)\nTarget: by the data sheet, .*\n\n", context
    )
    assert where is not None and brief.prompt.context == context.replace(where[0], "")
    assert len(brief.prompt.system) < 0.5 * len(built_in[0].prompt.system)
    assert brief.answer == built_in[0].answer


def test_prompts_name_the_gpu_that_is_trained_for(tmp_path: Path) -> None:
    workspace(tmp_path, [(pair("demo/a"), Outcome.CONFIRMED)])
    (task,) = pair_tasks.load(str(tmp_path), gpu="NVIDIA H100 (compute capability 9.0)")
    assert "GPU: NVIDIA H100 (compute capability 9.0)\n" in task.prompt.context


def test_a_workspace_and_its_published_dataset_make_the_same_tasks(tmp_path: Path) -> None:
    both = (pair("demo/a"), replace(pair("demo/b", 3), family="other"))
    space = workspace(tmp_path, [(one, Outcome.CONFIRMED) for one in both])
    build(BuildConfig(tmp_path))
    tasks = pair_tasks.load(str(tmp_path))
    assert [task.id for task in tasks] == ["demo/a", "demo/b"]
    again = pair_tasks.load(str(space.dataset))
    assert [(task.id, task.prompt, task.answer) for task in again] == [
        (task.id, task.prompt, task.answer) for task in tasks
    ]
    assert {task.id for task in pair_tasks.load(str(space.dataset), split="train")} <= {"demo/a", "demo/b"}
    with pytest.raises(InputError, match="no split 'spring'"):
        pair_tasks.load(str(space.dataset), split="spring")


def test_problem_of_one_recorded_size_is_not_taught(tmp_path: Path) -> None:
    one, other = pair("demo/a"), pair("demo/b", 3)
    assert one.problem is not None
    single = replace(one, problem=replace(one.problem, single_size=True))
    workspace(tmp_path, [(single, Outcome.CONFIRMED), (other, Outcome.CONFIRMED)])
    assert [task.id for task in pair_tasks.load(str(tmp_path))] == ["demo/b"]


def test_source_of_which_no_pair_can_become_a_task_is_refused(tmp_path: Path) -> None:
    one, other = pair("demo/a"), pair("demo/b", 3)
    assert one.problem is not None
    single = replace(one, problem=replace(one.problem, single_size=True))
    workspace(tmp_path / "single", [(single, Outcome.CONFIRMED)])
    with pytest.raises(InputError, match="no pair here can become a task: single_size"):
        pair_tasks.load(str(tmp_path / "single"))
    laid_out = replace(other, slow=replace(other.slow, views={"x": View(pad=((0, 3),))}))
    workspace(tmp_path / "both", [(single, Outcome.CONFIRMED), (laid_out, Outcome.CONFIRMED)])
    with pytest.raises(InputError, match="become a task: layout, single_size"):
        pair_tasks.load(str(tmp_path / "both"))


def test_only_what_was_proved_is_taught(tmp_path: Path) -> None:
    one = pair("demo/a")
    folder = tmp_path / "pairs" / "a"
    store.write_candidate(folder, one)
    with pytest.raises(InputError, match="no pair here is confirmed"):
        pair_tasks.load(str(tmp_path))
    store.write_verdict(folder, replace(verdict(one, Outcome.CORRECT), speedup=None))
    with pytest.raises(InputError, match="no pair here is confirmed"):
        pair_tasks.load(str(tmp_path))
    assert len(pair_tasks.load(str(tmp_path), untimed=True)) == 1


def test_of_one_prompt_the_fastest_answer_is_taught(tmp_path: Path) -> None:
    one = pair("demo/a")
    better = replace(
        one, id="demo/b", fast=replace(one.fast, code=one.fast.code.replace("128", "256") + "\n")
    )
    for candidate, ratio in ((one, 2.0), (better, 3.0)):
        folder = tmp_path / candidate.id
        store.write_candidate(folder, candidate)
        store.write_verdict(folder, verdict(candidate, ratio=ratio))
    assert [task.id for task in pair_tasks.load(str(tmp_path))] == ["demo/b"]


def test_several_sources_are_one_set_and_the_first_has_an_id(tmp_path: Path) -> None:
    one, other = pair("demo/a"), pair("demo/b", 3)
    clash = replace(pair("demo/a", 5), family="other")
    workspace(tmp_path / "first", [(one, Outcome.CONFIRMED)])
    workspace(tmp_path / "second", [(other, Outcome.CONFIRMED), (clash, Outcome.CONFIRMED)])
    said: list[str] = []
    tasks = pair_tasks.load(str(tmp_path / "first"), str(tmp_path / "second"), note=said.append)
    assert [(task.id, task.family) for task in tasks] == [("demo/a", one.family), ("demo/b", other.family)]
    assert said == ["left out because an earlier dataset has their id: 1"]
    with pytest.raises(InputError, match="no such folder"):
        pair_tasks.load(str(tmp_path / "first"), str(tmp_path / "third"))


@pytest.mark.parametrize("source", ["/nowhere/at/all", "./nothing", "nothing"])
def test_what_is_no_source_is_said(source: str) -> None:
    with pytest.raises(InputError, match="no such folder"):
        pair_tasks.load(source)


def test_a_side_with_another_layout_is_asked_for_but_not_taught() -> None:
    base = scaled()
    task = pair_tasks.task_of(replace(base, fast=replace(base.fast, views={"x": View(pad=((0, 3),))})))
    assert task.answer is None


@pytest.mark.slow
def test_held_out_families_are_not_trained_on(built_in: tuple[Task, ...]) -> None:
    train, held_out = splits.split(built_in, 0.2, 42)
    assert not {task.family for task in train} & {task.family for task in held_out}
    assert 0.15 < len(held_out) / len(built_in) < 0.25
    kernels = [
        {fingerprint(side.code).exact for t in part for side in (t.template.slow, t.template.fast)}
        for part in (train, held_out)
    ]
    assert not kernels[0] & kernels[1]
    assert splits.split(built_in, 0.2, 42) == (train, held_out)
    rows = [
        {"id": task.id, "family": task.family, "slow_code": pair.slow.code, "fast_code": pair.fast.code}
        for task in built_in
        for pair in [task.template]
    ]
    tested = {task_id for task_id, part in splits.assign(rows).items() if part == "test"}
    assert tested
    assert tested <= {task.id for task in held_out}, "a dataset's test families are trained on"
    assert splits.split(built_in, 0.2, 43)[1] == held_out, "what a dataset tests is never trained on"
    assert splits.split(built_in, 0.4, 43) != splits.split(built_in, 0.4, 42)


def test_families_that_share_a_kernel_stay_together() -> None:
    tasks = [pair_tasks.task_of(scaled(name)) for name in ("a", "b", "c")]
    other = unlike(7)
    for seed in range(6):
        train, held_out = splits.split([*tasks, other], 0.5, seed)
        assert {len(train), len(held_out)} == {1, 3}


def unlike(k: int) -> Task:
    """A task of a family of its own, whose code shares next to nothing with that of another number."""
    base = pair(f"demo/{k}", k)
    steps = "".join(f"    v = v * {k}.{i}f + {i}.{k}f;\n" for i in range(30))
    head = 'extern "C" __global__ void scale(const float *x, float *y, float a, int n)'
    code = f"{head}\n{{\n    float v = a;\n{steps}}}\n"
    slow, fast = (replace(side, code=code + extra) for side, extra in ((base.slow, ""), (base.fast, "//")))
    return pair_tasks.task_of(replace(base, family=f"family-{k}", slow=slow, fast=fast))


@given(fraction=st.floats(0, 0.99), seed=st.integers(0, 9), count=st.integers(1, 6))
def test_every_task_is_in_one_part(fraction: float, seed: int, count: int) -> None:
    train, held_out = splits.split(FEW[:count], fraction, seed)
    assert sorted(task.id for task in (*train, *held_out)) == sorted(task.id for task in FEW[:count])
    assert train
    assert bool(held_out) == (fraction > 0 and count > 1)


def test_a_group_of_many_families_is_trained_on() -> None:
    tasks = [pair_tasks.task_of(scaled(f"f{number}")) for number in range(splits.MANY + 1)]
    for seed in range(6):
        train, held_out = splits.split([*tasks, unlike(7)], 0.9, seed)
        assert (len(train), len(held_out)) == (splits.MANY + 1, 1)


@given(share=st.floats(0, 0.99), count=st.integers(3, 6))
def test_a_run_holds_out_families_in_the_order_of_a_dataset(share: float, count: int) -> None:
    """A larger share keeps what a smaller one held out, where families are of one size."""
    held = [{task.family for task in splits.split(FEW[:count], part)[1]} for part in (share / 2, share)]
    assert held[0] <= held[1] or not share


def test_a_fraction_is_a_fraction() -> None:
    with pytest.raises(InputError, match="not a share of the tasks"):
        splits.split(FEW, 1.0, 0)


FEW = [unlike(k) for k in range(1, 7)]


def test_an_answer_in_triton_is_asked_for_and_read_as_such() -> None:
    triton = neutral(store.read_candidate(resources.pairs_dir() / "deep-learning/softmax-triton"))
    task = pair_tasks.task_of(triton)
    assert task.prompt.system.startswith("You write Triton modules") and task.answer is not None
    readable = read(task, task.answer)
    assert isinstance(readable, Readable) and readable.candidate.fast.language == "triton"
    assert isinstance(read(task, task.answer.replace("```python", "```cuda")), Refused)
