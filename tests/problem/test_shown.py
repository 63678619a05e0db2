"""Sides and problems as models see them."""

from __future__ import annotations

import json
from dataclasses import replace

from kcurate import prompts
from kcurate.core import resources, store
from kcurate.problem.shown import answer_of, launch_data, material_of
from kcurate.prompts import Answer
from kcurate.records import Call, Problem, Reference, Side

PAIR = store.read_candidate(resources.pairs_dir() / "reduction-scan" / "reduce-sum")


def problem() -> Problem:
    assert PAIR.problem is not None
    return PAIR.problem


def test_material_shows_the_given_side_without_comments() -> None:
    given = replace(PAIR.slow, code="// why\n" + PAIR.slow.code)
    material = material_of(problem(), given, "fast", PAIR.family)
    assert "why" not in material.code
    assert "__global__ void reduce" in material.code
    assert set(json.loads(material.plan)) == {"plan", "buffers"}
    assert set(json.loads(material.problem)) == {"sizes", "buffers"}


def test_an_answer_brings_its_plan_only_where_it_differs() -> None:
    assert answer_of(PAIR.slow, PAIR.slow).plan is None
    made = answer_of(PAIR.fast, PAIR.slow)
    assert {"plan": made.plan, "buffers": made.buffers} == launch_data(PAIR.fast)


def test_what_training_writes_is_what_the_search_reads() -> None:
    answer = answer_of(PAIR.fast, PAIR.slow)
    found = prompts.read_reply(prompts.write_answer(answer), "text")
    assert isinstance(found, Answer)
    assert found == answer


def test_words_and_a_module_are_shown_as_text_in_place_of_a_name() -> None:
    """A composed problem's family is a hash; its words and module would be unreadable inside of JSON."""
    reference = Reference("class Model: ...", Call("Model", ("x", "w"), ("y",)))
    stated = replace(problem(), statement="Compute y.", reference=reference)
    material = material_of(stated, PAIR.slow, "fast", "minted-0123456789ab")
    assert (material.family, material.statement) == ("", "Compute y.")
    assert material.module.startswith("As a PyTorch module, whose call with x, w gives y:\n```python\n")
    assert set(json.loads(material.problem)) == {"sizes", "buffers"}
    given = Side("class Model: ...", (reference.call,), language="torch")
    assert material_of(stated, given, "fast", "f").module == "", "it is the given side"
