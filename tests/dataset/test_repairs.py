"""Rows of `repair`: wrong answers made again from facts."""

from __future__ import annotations

from dataclasses import replace

from dataset.making import pair

from kcurate.core.store import read_jsonl
from kcurate.dataset.repairs import GIVEN_BACK, facts, remade, repairs, side_id
from kcurate.mutate.broken import ATTEMPTS
from kcurate.mutate.choosing import every
from kcurate.records import Candidate, Outcome, WrongAttempt


def fact_of(one: Candidate, change: str, place: int = 0) -> WrongAttempt:
    side = every(one.fast, ATTEMPTS, change)[place].side
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
    assert "It is the given code." in prompt.task and remade(one, fact) == one.slow
    assert remade(one, replace(fact, place=1)) is None


def test_a_fact_of_other_code_is_left_out() -> None:
    one = pair("demo/a")
    fact = fact_of(one, "lost_tail")
    changed = replace(one, fast=replace(one.fast, code=one.fast.code.replace("int i", "int j")))
    assert remade(changed, fact) is None
    assert remade(one, replace(fact, place=99)) is None and remade(one, replace(fact, change="none")) is None
    assert not list(repairs({one.id: changed}, [fact], {one.id: ""}))
    assert not list(repairs({}, [fact], {}))


def test_the_facts_on_file_are_of_many_kinds() -> None:
    known = list(read_jsonl(facts(), WrongAttempt))
    lines = facts().read_text().splitlines()
    assert len(known) == len(lines) == len({(one.pair, one.change, one.place) for one in known})
    assert len(known) >= 400
    assert len({one.change for one in known}) >= 10 and len({one.outcome for one in known}) >= 7
    assert not {one.outcome for one in known} & {Outcome.CORRECT, Outcome.CONFIRMED, Outcome.HARNESS_ERROR}
