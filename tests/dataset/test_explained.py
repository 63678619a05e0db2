"""Explained answers with counters: every sentence is a fact of the profiles, every technique is supported."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from dataset.making import a_row, pair
from dataset.telling import told

from kcurate.dataset.explained import causes_of, explained, measured
from kcurate.hub.published_rows import candidate_of
from kcurate.profiling.counters import BY_NAME
from kcurate.profiling.technique_counters import EXPECTED
from kcurate.prompts import Answer, read_reply
from kcurate.records import Profile, SideName

CAUSES = {"loop-unrolling": 2.0}


def test_without_a_cause_there_is_no_answer() -> None:
    row = a_row(pair("demo/a"))
    for causes in ({}, {"loop-unrolling": 1.02}, {"algorithmic-improvement": 9.0}, {"unknown": 9.0}):
        assert explained(row, candidate_of(row), None, causes) is None


def test_causes_come_from_ablations_rungs_and_rules() -> None:
    one = replace(pair("demo/a", techniques=("a", "b")), worth={"b": 1.5})
    without_a = replace(one, techniques=("b",))
    assert causes_of(one, 9.0, [(without_a, 1.2)]) == {"a": 1.2, "b": 1.5}
    assert causes_of(one, 9.0, [(replace(one, techniques=()), 4.0), (one, 3.0)]) == {"b": 1.5}
    by_rule = replace(one, techniques=("a",), worth={}, origin=replace(one.origin, rules=("r",)))
    assert causes_of(by_rule, 9.0, []) == {"a": 9.0} and causes_of(by_rule, None, []) == {}


def profile(side: SideName, draw: random.Random) -> Profile:
    """Counters drawn at random, some of them missing."""
    large = {"B", "wavefronts", "requests", "instructions", "operations"}
    values = {
        one.name: float(f"{10 ** draw.uniform(3, 10) if one.unit in large else draw.uniform(0, 40):.6g}")
        for one in BY_NAME.values()
        if draw.random() < 0.8
    }
    if "shared_conflicts" in values:
        values["shared_conflicts"] = values.get("shared_wavefronts", 0.0) * draw.random()
    return Profile("demo/a", side, "key", "NVIDIA H200", "ncu 1", draw.randint(1, 3), 1, values)


@pytest.mark.parametrize("seed", range(40))
def test_every_sentence_is_a_fact_of_the_records(seed: int) -> None:
    draw = random.Random(seed)
    names = draw.sample(sorted(EXPECTED), 5)
    one = pair("demo/a", 1, techniques=tuple(names))
    row = a_row(one)
    both = profile("slow", draw), profile("fast", draw)
    published = candidate_of(row)
    causes = {name: draw.uniform(1.0, 2.0) for name in names}
    text = explained(row, published, both, causes)
    assert text is not None
    facts = told(text, row, published, both, causes, "\n".join(measured(row, published, both[0])))
    named = [fact.values["name"] for fact in facts if fact.kind == "technique"]
    wanted = sorted((name for name in names if causes[name] >= 1.05), key=lambda name: -causes[name])
    assert named == [name for name in wanted if name != "algorithmic-improvement"][:3]
    answer = read_reply(text, "text")
    assert isinstance(answer, Answer) and "// A remark." in answer.code


def test_a_technique_that_is_asked_for_is_named_or_there_is_no_answer() -> None:
    row = a_row(pair("demo/a"))
    asked = [
        explained(row, candidate_of(row), None, CAUSES, name) for name in (*CAUSES, "tensor-cores", None)
    ]
    assert all(asked[:-2]) and asked[-2] is None and asked[-1]


def test_without_comments_that_may_be_kept_the_code_is_the_published_one() -> None:
    row = a_row(pair("demo/a"))
    published = candidate_of(row)
    for original in (None, row["fast_original"].replace("return v", "return v + 1.0f")):
        answer = read_reply(
            explained({**row, "fast_original": original}, published, None, CAUSES) or "", "text"
        )
        assert isinstance(answer, Answer) and answer.code.strip() == published.fast.code.strip()


def test_names_are_neutral_in_code_with_comments() -> None:
    one = pair("demo/a")
    renamed = replace(one.fast, code=one.fast.code.replace("polynomial", "polynomial_fast"))
    row = a_row(replace(one, fast=renamed))
    answer = read_reply(explained(row, candidate_of(row), None, CAUSES) or "", "text")
    assert isinstance(answer, Answer) and "// A remark." in answer.code
    assert "polynomial(" in answer.code and "polynomial_fast" not in answer.code
