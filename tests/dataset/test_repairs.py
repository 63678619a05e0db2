"""Rows of `repair`: wrong answers made again from facts."""

from __future__ import annotations

from dataclasses import replace

from dataset.making import a_row, pair

from benchmarks.repairs import NVRTC, of_model
from kcurate import prompts
from kcurate.core.store import read_jsonl
from kcurate.dataset.repairs import GIVEN_BACK, answered, facts, reapplied, repairs, side_id
from kcurate.dataset.tuning import tables
from kcurate.evaluation.completions import Completion
from kcurate.hub.published_rows import candidate_of
from kcurate.mutate.broken import ATTEMPTS
from kcurate.mutate.choosing import results_of_change
from kcurate.problem import shown
from kcurate.records import Candidate, Outcome, WrongAttempt
from kcurate.reward import pair_tasks
from kcurate.reward.task import Task, given_hash


def fact_of(one: Candidate, change: str, place: int = 0) -> WrongAttempt:
    side = results_of_change(one.fast, ATTEMPTS, change)[place].side
    return WrongAttempt(one.id, change, place, side_id(side), Outcome.MISMATCH, "Wrong: y.", "emulator")


def test_a_wrong_answer_is_made_again_and_shown_with_what_was_found() -> None:
    one = pair("demo/a")
    fact = fact_of(one, "lost_tail")
    (_, on_emulator), (found, prompt) = (
        next(repairs({one.id: one}, [each], {one.id: "NVIDIA H200"}))
        for each in (fact, replace(fact, device="NVIDIA H200"))
    )
    assert found.side == fact.side and "GPU: any, judged on an emulator\n" in on_emulator.context
    assert "/ 32 * 32" in prompt.task and "Wrong: y." in prompt.task
    assert "GPU: NVIDIA H200" in prompt.context and "/ 32 * 32" not in prompt.context


def test_a_wrong_plan_is_shown() -> None:
    one = pair("demo/a")
    ((_, prompt),) = repairs({one.id: one}, [fact_of(one, "missing_argument")], {one.id: ""})
    assert '"plan"' in prompt.task


def test_the_given_code_is_a_wrong_answer_too() -> None:
    one = pair("demo/a")
    fact = WrongAttempt(
        one.id, GIVEN_BACK, 0, side_id(one.slow), "unchanged", "It is the given code.", "before judging"
    )
    ((_, prompt),) = repairs({one.id: one}, [fact], {one.id: ""})
    assert "It is the given code." in prompt.task and reapplied(one, fact) == one.slow
    assert reapplied(one, replace(fact, place=1)) is None


def test_a_fact_of_other_code_is_left_out() -> None:
    one = pair("demo/a")
    fact = fact_of(one, "lost_tail")
    changed = replace(one, fast=replace(one.fast, code=one.fast.code.replace("int i", "int j")))
    assert reapplied(changed, fact) is None
    assert (
        reapplied(one, replace(fact, place=99)) is None
        and reapplied(one, replace(fact, change="none")) is None
    )
    assert not list(repairs({one.id: changed}, [fact], {one.id: ""}))
    assert not list(repairs({}, [fact], {}))


def test_the_facts_on_file_are_of_many_kinds() -> None:
    known = list(read_jsonl(facts(), WrongAttempt))
    lines = facts().read_text().splitlines()
    assert len(known) == len(lines) == len({(one.pair, one.change, one.place) for one in known})
    assert len(known) >= 400
    assert len({one.change for one in known}) >= 10 and len({one.outcome for one in known}) >= 7
    assert not {one.outcome for one in known} & {Outcome.CORRECT, Outcome.CONFIRMED, Outcome.HARNESS_ERROR}


def test_attempts_of_a_conversation_come_nearer_to_the_answer() -> None:
    row = a_row(pair("demo/a"))
    one = candidate_of(row)
    mutant = fact_of(one, "lost_tail")
    back = WrongAttempt(
        one.id, GIVEN_BACK, 0, side_id(one.slow), "unchanged", "It is the given code.", "here"
    )
    (said,) = tables([row], [mutant, back])[0]["trajectories"]
    first, second, third = (message["content"] for message in said["messages"][2::2])
    assert (one.slow.code.strip() in first, "/ 32 * 32" in second, "/ 32 * 32" in third) == (
        True,
        True,
        False,
    )


def replied(task: Task, old: str, new: str, outcome: str, sample: int, detail: str = "") -> Completion:
    """A judged completion: the known answer with a change, between words."""
    side = task.template.fast
    assert old in side.code
    answer = shown.answer_of(replace(side, code=side.code.replace(old, new)), task.template.slow)
    reply = f"Here it is.\n{prompts.write_answer(answer)}Done."
    about = (task.id, task.family, given_hash(task), sample, 1, "[]", "")
    return Completion(*about, reply, "text", "answered", outcome=outcome, detail=detail)


def test_what_a_model_wrote_becomes_rows_of_its_pair() -> None:
    """From judged completions to rows: the model's text, the judge's words, the pair's answer."""
    row = a_row(pair("demo/a", 3))
    task = pair_tasks.task_of(candidate_of(row))
    wrong = "y: 3 of 9 elements are wrong"
    completions = [
        replied(task, "i < n", "i < n && lane", "compile_error", 0),
        replied(task, "3.5f", "3.25f", "mismatch", 1, wrong),
        replied(task, "3.5f", "3.25f", "mismatch", 2, wrong),
        replied(task, "3.5f", "3.0f + 0.5f", "confirmed", 3),
        replied(task, "i < n", "a && b && c && d && e && f", "compile_error", 4),
        replace(replied(task, "3.5f", "3.125f", "mismatch", 5, wrong), given="another side"),
        replied(task, "v = v", f"{'v = 1.0f; ' * 40}v = v".replace("; ", ";\n"), "mismatch", 6, wrong),
        replace(replied(task, "3.5f", "3.0f", "unreadable", 7), reply="I cannot."),
    ]
    tasks = {task.id: task}
    known = list(of_model(completions, tasks, "m", "NVIDIA H200", each=4))
    assert [(fact.change, fact.place, fact.outcome, fact.device) for fact in known] == [
        ("model m", 0, "mismatch", "NVIDIA H200"),
        ("model m", 1, "compile_error", NVRTC),
    ]
    assert len(list(of_model(completions, tasks, "m", "NVIDIA H200", each=1))) == 1
    configs, _ = tables([row], known)
    for fact, repair in zip(known, configs["repair"], strict=True):
        side = answered(task.template, fact.answer)
        assert side is not None and side.code.strip() in repair["prompt"][1]["content"]
        assert fact.findings in repair["prompt"][1]["content"] and repair["change"] == "model m"
        assert repair["completion"] == configs["sft"][0]["completion"] and repair["id"] == row["id"]
    assert wrong in known[0].findings and 'identifier "lane" is undefined' in known[1].findings
    # Asked something else by now, the answer says nothing.
    slow = replace(task.template.slow, code=task.template.slow.code.replace("3.5f", "3.75f"))
    assert not list(repairs({task.id: replace(task.template, slow=slow)}, known, {task.id: ""}))
    # The conversation of a pair has what was wrong before what is right.
    assert configs["trajectories"][0]["messages"][-1]["content"] == task.answer
