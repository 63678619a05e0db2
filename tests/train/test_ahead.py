"""Answers on their way to the judges while others are still being drawn."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from train.asked import task
from train.tiny import tasks
from transformers import AutoModelForCausalLM

from kcurate.train import ahead, devices, models
from kcurate.train.models import Form
from kcurate.train.settings import JudgeSettings, ModelSettings
from kcurate.train.task import Task

END, PAD = 7, 7


class Begun:
    """Remembers what was begun."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str]] = []

    def drawing(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def begin(self, task: Task, reply: str) -> None:
        self.all.append((task.id, reply))


def test_a_row_is_handed_on_when_it_ends_and_only_then() -> None:
    begun = Begun()
    one, other = replace(task(), id="one"), replace(task(), id="other")
    whole = ahead.Whole([one, None, other], [END], str, begun.begin)
    whole.put(torch.tensor([[1, 2], [1, 2], [1, 2]]))
    for step in ([4, 4, END], [5, END, PAD], [END, PAD, PAD], [PAD, PAD, PAD]):
        whole.put(torch.tensor(step))
        if step[0] == 4:
            assert begun.all == [("other", "[]")]
    whole.end()
    assert begun.all == [("other", "[]"), ("one", "[4, 5]")]


def test_rows_that_are_cut_are_left_to_the_batch() -> None:
    begun = Begun()
    whole = ahead.Whole([task()], [END], str, begun.begin)
    for step in ([[1]], [4], [5]):
        whole.put(torch.tensor(step))
    whole.end()
    assert begun.all == []


@pytest.mark.parametrize("template", [True, False])
def test_what_is_begun_is_what_generate_returns(model: Path, pairs: Path, template: bool) -> None:
    known = tasks(pairs)
    settings = ModelSettings(name=str(model), chat_template=template)
    tokenizer = models.load_tokenizer(settings)
    tokenizer.padding_side = "left"
    form = Form(tokenizer, settings)
    drawing = AutoModelForCausalLM.from_pretrained(model)
    begun = Begun()
    ahead.attach(drawing, tokenizer, form, known[:-1], begun)
    asked = [*known, known[0]]
    encoded = tokenizer(
        [form.text(one.prompt) for one in asked],
        return_tensors="pt",
        padding=True,
        add_special_tokens=not form.chat,
    )
    encoded.pop("token_type_ids", None)
    torch.manual_seed(1)
    made = drawing.generate(**encoded, max_new_tokens=90, do_sample=True, pad_token_id=tokenizer.pad_token_id)
    expected = []
    for one, row in zip(asked, made[:, encoded["input_ids"].shape[1] :].tolist(), strict=True):
        if one.id != known[-1].id and tokenizer.eos_token_id in row:
            text = tokenizer.decode(row[: row.index(tokenizer.eos_token_id)], skip_special_tokens=True)
            expected.append((one.id, text))
    assert expected
    assert sorted(begun.all) == sorted(expected)


@pytest.mark.parametrize(
    ("settings", "meanwhile"),
    [
        (JudgeSettings(), "untimed"),
        (JudgeSettings(gpus=(0, 1)), "nothing"),
        (JudgeSettings(gpus=(1,)), "everything"),
        (JudgeSettings(gpus=(1,), train_gpu=1), "untimed"),
        (JudgeSettings(timed=False), "everything"),
        (JudgeSettings(gpus=(1,), ray="auto"), "nothing"),
        (JudgeSettings(backend="emulator"), "everything"),
    ],
)
def test_who_may_judge_while_answers_are_drawn(
    settings: JudgeSettings, meanwhile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices.backends, "gpu_count", lambda: 2)
    monkeypatch.setattr(devices.backends, "resolve", lambda name: "cuda" if name == "auto" else name)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setenv(devices.VISIBLE, "0,1")
    assert devices.settle(settings).meanwhile == meanwhile
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    if not settings.gpus:
        assert devices.settle(settings).meanwhile == meanwhile, "each on its own"
