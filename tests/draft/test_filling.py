"""Open places of a draft are asked for one by one, and answers go into the file as values."""

from __future__ import annotations

import tomllib

import pytest

from kcurate.draft.file.open_places import filled, open_fields

TEXT = """\
suite = "s"

[problem.buffers.out]
dtype = "float32"
shape = ["?", "?"]  # ? elements; neither an allocation nor a guard gives the number
role = "out"

[problem.scalars]
a = {dtype = "float32", value = 1}  # ? no value
b = {dtype = "int32", value = 7}  # guess: any

[[sides."".plan]]
launch = "k"
grid = ["?"]  # ? the grid

# ? the template arguments (plan.template)
"""


def test_every_value_that_is_open_is_asked_for_with_its_place() -> None:
    assert [(field.place, field.value) for field in open_fields(TEXT)] == [
        ("buffers.out.shape", '["?", "?"]'),
        ("scalars.a", '{dtype = "float32", value = 1}'),
        ("plan.grid", '["?"]'),
    ]


def test_answers_fill_one_place_after_the_other() -> None:
    text = TEXT
    for answer in ("n", "4", '{dtype = "float32", value = 2.5}', "ceil_div(n, 128)"):
        changed = filled(text, open_fields(text)[0], answer)
        assert changed is not None
        text = changed
    assert open_fields(text) == []
    data = tomllib.loads(text)
    assert data["problem"]["buffers"]["out"]["shape"] == ["n", 4]
    assert data["problem"]["scalars"]["a"]["value"] == 2.5
    assert data["sides"][""]["plan"][0]["grid"] == ["ceil_div(n, 128)"]
    assert "# ? the template arguments" in text and "# guess: any" in text


def test_a_whole_list_may_be_the_answer() -> None:
    changed = filled(TEXT, open_fields(TEXT)[0], '["n", "m"]')
    assert changed is not None and 'shape = ["n", "m"]\n' in changed


def test_the_value_itself_as_the_answer_keeps_it() -> None:
    field = open_fields(TEXT)[1]
    changed = filled(TEXT, field, field.value)
    assert changed is not None and 'a = {dtype = "float32", value = 1}\n' in changed


@pytest.mark.parametrize("answer", ["", '["n"', "{", '["?", "?"]'])
def test_what_is_no_value_changes_nothing(answer: str) -> None:
    assert filled(TEXT, open_fields(TEXT)[0], answer) is None
