"""Replies become candidates, or are refused with an outcome of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import EACH, SCALE, SCALE_STRIDED
from train.asked import COPY, EMPTY, PLAN, reply, task

from kcurate.judge.judging import reference_side
from kcurate.records import Call, Side
from kcurate.reward.answers import Readable, Refusal, Refused, read

RENAMED = SCALE_STRIDED.replace("each", "share").replace("threads", "all")


def test_a_reply_takes_the_place_of_the_fast_side() -> None:
    one = task()
    found = read(one, f"Let us see.\n{reply()}")
    assert isinstance(found, Readable)
    assert found.candidate.fast.plan == (EACH,)
    assert found.candidate.slow == one.template.slow
    assert reference_side(found.candidate) == "slow"
    assert not found.copied


def test_without_a_plan_the_given_one_stays() -> None:
    found = read(task(), reply(SCALE, None))
    assert isinstance(found, Readable)
    assert found.candidate.fast.plan == found.candidate.slow.plan


def test_the_taught_answer_reads_back() -> None:
    one = task()
    assert one.answer is not None
    found = read(one, one.answer)
    assert isinstance(found, Readable)
    assert found.candidate.fast.code == one.template.fast.code.lstrip("\n")


def test_an_empty_kernel_is_for_the_judge() -> None:
    assert isinstance(read(task(), EMPTY), Readable)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", Refusal.UNREADABLE),
        ("I would tile it.", Refusal.UNREADABLE),
        (f"```cuda\n{SCALE}", Refusal.UNREADABLE),  # cut off before its end
        (reply(SCALE, [{"jump": "scale"}]), Refusal.MALFORMED),
        (reply(SCALE, [{**PLAN[0], "color": 3}]), Refusal.MALFORMED),
        (f"```cuda\n{SCALE}```\n```json\n{{]\n```", Refusal.UNREADABLE),
        (reply(SCALE + "// " + "x" * 70_000, None), Refusal.MALFORMED),
        (COPY, Refusal.COPIED),
        (reply("// Mine.\n" + SCALE_STRIDED.replace("    ", "  "), None), Refusal.COPIED),
    ],
)
def test_what_the_judge_never_sees(text: str, outcome: Refusal) -> None:
    found = read(task(), text)
    assert isinstance(found, Refused)
    assert found.outcome == outcome
    assert outcome is Refusal.COPIED or found.detail


@pytest.mark.parametrize("text", [reply(SCALE_STRIDED, PLAN), reply(RENAMED, None)])
def test_a_copy_with_another_launch_or_other_names_is_judged_as_a_copy(text: str) -> None:
    found = read(task(), text)
    assert isinstance(found, Readable)
    assert found.copied


def test_techniques_beyond_those_permitted_are_refused() -> None:
    unrolled = reply(
        SCALE.replace("    if (i < n)", "#pragma unroll\n    for (int k = 0; k < 1; ++k) if (i < n)")
    )
    strict = replace(task(), permitted=frozenset({"shared-memory-tiling"}))
    found = read(strict, unrolled)
    assert isinstance(found, Refused)
    assert found == Refused(Refusal.NOT_PERMITTED, "loop-unrolling")
    assert isinstance(read(replace(strict, permitted=frozenset({"loop-unrolling"})), unrolled), Readable)


def test_what_a_model_writes_is_device_code_though_the_given_side_is_not() -> None:
    module = Side("class Model: ...\n", (Call("Model", ("x",), ("y",)),), language="torch")
    one = task()
    one = replace(one, template=replace(one.template, slow=module))
    found = read(one, reply())
    assert isinstance(found, Readable)
    assert found.candidate.fast.language == "cuda"
    bare = read(one, reply(SCALE, None))
    assert isinstance(bare, Refused)
    assert (bare.outcome, bare.detail.partition(":")[0]) == (Refusal.MALFORMED, "no plan")


@given(st.text(max_size=200), st.text(max_size=200))
def test_nothing_that_a_model_writes_raises(code: str, launch: str) -> None:
    text = f"```cuda\n__global__ {code}\n```\n```json\n{launch}\n```\n"
    assert isinstance(read(TASK, text), Readable | Refused)


TASK = task()
