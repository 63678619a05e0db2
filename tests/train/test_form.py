"""What a tokenizer's template makes of prompts and answers: the same where it teaches and where it asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from train.asked import task

from kcurate import prompts
from kcurate.errors import InputError
from kcurate.local_models import weights
from kcurate.local_models.form import Form
from kcurate.local_models.settings import ModelSettings
from kcurate.reward.task import Task

TURNS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|end|>\n{% endfor %}"
OPENS = "{% if add_generation_prompt %}<assistant>{% endif %}"
# As those of models that reason: the prompt opens a thought, finished turns have none.
REASONS = TURNS + "{% if add_generation_prompt %}<assistant><think>\n{% endif %}"
EMPTY = "{% if m.role == 'assistant' %}<think></think>{% endif %}"
# As those that lay an empty thought out in another way than the one that they open.
OTHERWISE = TURNS.replace("{{ m.content }}", EMPTY + "{{ m.content }}") + REASONS[len(TURNS) :]
# As those whose finished turns show an empty thought, and whose prompts do not.
SHOWS = (
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}"
    "{{ m.content }}<|end|>\n{% endfor %}" + OPENS
)


@pytest.fixture
def tokenizer(model: Path) -> Any:
    return weights.load_tokenizer(ModelSettings(name=str(model)))


@pytest.fixture
def one() -> Task:
    return task()


def texts(tokenizer: Any, one: Task) -> tuple[str, str]:
    assert one.answer is not None
    prompt, answer = Form(tokenizer, ModelSettings(name="tiny")).row(one.prompt, one.answer)
    assert prompt == Form(tokenizer, ModelSettings()).prompt_ids(one.prompt), "as it is asked"
    assert answer[-1] == tokenizer.eos_token_id
    assert answer.count(tokenizer.eos_token_id) == 1
    return tokenizer.decode(prompt), tokenizer.decode(answer[:-1])


@pytest.mark.parametrize(
    ("template", "opens", "before"),
    [
        (TURNS + OPENS, "<assistant>", ""),
        (REASONS, "<assistant><think>\n", "\n</think>\n\n"),
        (OTHERWISE, "<assistant><think>\n", "\n</think>\n\n"),
        (SHOWS, "<assistant>", "<think>\n\n</think>\n\n"),
    ],
)
def test_a_row_goes_on_from_what_generation_starts_from(
    tokenizer: Any, one: Task, template: str, opens: str, before: str
) -> None:
    tokenizer.chat_template = template
    prompt, answer = texts(tokenizer, one)
    assert prompt.endswith(opens)
    assert answer == f"{before}{one.answer}"
    said = Form(tokenizer, ModelSettings()).with_thought(answer)
    assert prompts.read_reply(said, "text") == prompts.read_reply(str(one.answer), "text")


@pytest.mark.parametrize("template", [TURNS + OPENS, REASONS, OTHERWISE, SHOWS])
def test_a_thought_that_is_kept_is_not_learned_to_be_empty(tokenizer: Any, one: Task, template: str) -> None:
    from kcurate.train import sft

    tokenizer.chat_template = template
    form, answer = Form(tokenizer, ModelSettings()), str(one.answer)
    empty, kept = form.row(one.prompt, answer), form.row(one.prompt, answer, thought="kept")
    assert tokenizer.decode([*kept[0], *kept[1]]) == tokenizer.decode([*empty[0], *empty[1]])
    assert tokenizer.decode(kept[1][:-1]) == answer
    ((row,), _) = sft.rows([one], form, 10_000, "kept")
    assert row["completion_mask"].count(1) == len(kept[1])
    assert (kept == empty) == (template == TURNS + OPENS)


def test_plain_text_ends_too(tokenizer: Any, one: Task) -> None:
    tokenizer.chat_template = None
    prompt, answer = texts(tokenizer, one)
    assert prompt.endswith("Answer:\n\n")
    assert answer == one.answer


def test_a_turn_that_ends_with_another_mark_is_ended_for_the_tokenizer_as_well(
    tokenizer: Any, one: Task
) -> None:
    tokenizer.chat_template = (TURNS + OPENS).replace("<|end|>", "</turn>")
    assert texts(tokenizer, one)[1] == f"{one.answer}</turn>\n"


def test_a_thought_that_is_cut_is_no_answer(tokenizer: Any, one: Task) -> None:
    tokenizer.chat_template = REASONS
    form = Form(tokenizer, ModelSettings())
    assert isinstance(prompts.read_reply(str(one.answer), "text"), prompts.Answer)
    assert isinstance(prompts.read_reply(form.reply(str(one.answer)), "text"), prompts.Unreadable)


def test_a_template_that_opens_answers_otherwise_is_one_line(tokenizer: Any, one: Task) -> None:
    tokenizer.chat_template = TURNS + "{% if add_generation_prompt %}<reply>{% endif %}"
    with pytest.raises(InputError, match=r"tiny: its chat template.*chat_template=false"):
        texts(tokenizer, one)


def test_rows_are_those_tokens_and_the_loss_is_on_the_answer(tokenizer: Any, one: Task) -> None:
    from kcurate.train import sft

    form = Form(tokenizer, ModelSettings())
    prompt, answer = form.row(one.prompt, str(one.answer))
    ((row,), too_long) = sft.rows([one], form, len(prompt) + len(answer))
    assert (row["input_ids"], too_long) == ([*prompt, *answer], 0)
    assert row["completion_mask"] == [0] * len(prompt) + [1] * len(answer)
    assert sft.rows([one], form, len(prompt) + len(answer) - 1) == ([], 1)
