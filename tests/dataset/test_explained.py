"""Explained answers with counters: every sentence is a fact of the profiles, every technique is supported."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from dataset.making import a_row, pair
from dataset.telling import supported, told

from kcurate.dataset.explained import explained
from kcurate.hub.published_rows import candidate_of
from kcurate.profiles.counters import BY_NAME
from kcurate.profiles.labels import EXPECTED
from kcurate.prompts import Answer, read_reply
from kcurate.records import Profile, SideName


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
    one = pair("demo/a", 1, techniques=tuple(draw.sample(sorted(EXPECTED), 5)))
    row = a_row(one)
    both = profile("slow", draw), profile("fast", draw)
    published = candidate_of(row)
    text = explained(row, published, both)
    facts = told(text, row, published, both)
    named = [fact.values["name"] for fact in facts if fact.kind == "technique"]
    named += [name for fact in facts if fact.kind == "further" for name in fact.values["names"].split(", ")]
    assert named == [name for name in one.techniques if supported(name, published, both)]
    moved = [fact.values["counter"] for fact in facts if fact.kind == "moves"]
    assert len(moved) == len(set(moved))
    answer = read_reply(text, "text")
    assert isinstance(answer, Answer) and "// A remark." in answer.code


def test_without_comments_that_may_be_kept_the_code_is_the_published_one() -> None:
    row = a_row(pair("demo/a"))
    published = candidate_of(row)
    for original in (None, row["fast_original"].replace("return v", "return v + 1.0f")):
        answer = read_reply(explained({**row, "fast_original": original}, published, None), "text")
        assert isinstance(answer, Answer) and answer.code.strip() == published.fast.code.strip()


def test_names_are_neutral_in_code_with_comments() -> None:
    one = pair("demo/a")
    renamed = replace(one.fast, code=one.fast.code.replace("polynomial", "polynomial_fast"))
    row = a_row(replace(one, fast=renamed))
    answer = read_reply(explained(row, candidate_of(row), None), "text")
    assert isinstance(answer, Answer) and "// A remark." in answer.code
    assert "polynomial(" in answer.code and "polynomial_fast" not in answer.code
