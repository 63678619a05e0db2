"""GRPO in several turns: through tools where a template has them, else through plain turns."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from dataset.making import a_row, pair
from train.asked import WRONG, reply, task

from kcurate.cli import run
from kcurate.dataset.repairs import side_id
from kcurate.dataset.tuning import tables
from kcurate.hub.published_rows import candidate_of
from kcurate.local_models import weights
from kcurate.local_models.form import Form
from kcurate.local_models.settings import ModelSettings
from kcurate.mutate.broken import ATTEMPTS
from kcurate.mutate.choosing import results_of_change
from kcurate.prompts.tools import JUDGE
from kcurate.records import Outcome, WrongAttempt
from kcurate.reward.task import Judged, Task
from kcurate.train.run_folder import MetricsLog, RunFolder
from kcurate.train.turns import DONE, PlainTurns, environment, has_tools

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)
RIGHT = reply()


class Judges:
    """Finds the right answer correct, and every other one wrong."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    async def score(self, tasks: Sequence[Task], replies: Sequence[Any]) -> list[Judged]:
        self.asked.append(list(replies))
        return [
            Judged(
                one.id, *(("correct", 0.3, {}) if text == RIGHT else ("mismatch", 0.1, {}, None, "y is off"))
            )
            for one, text in zip(tasks, replies, strict=True)
        ]


@pytest.fixture
def tokenizer(model: Path) -> Any:
    return weights.load_tokenizer(ModelSettings(name=str(model)))


def trainer(tokenizer: Any, form: Form, script: Iterator[list[str]], tasks: list[Task]) -> Any:
    """As much of a trainer as a rollout needs; a text that ends with ... is cut at the length limit."""

    def generated(prompts: list[list[int]], *_: Any) -> tuple[list[list[int]], None]:
        texts = next(script)
        assert len(texts) == len(prompts)
        ends = [[] if text.endswith("...") else [tokenizer.eos_token_id] for text in texts]
        return [[*tokenizer(text).input_ids, *end] for text, end in zip(texts, ends, strict=True)], None

    return SimpleNamespace(
        rows=[{"task_id": one.id} for one in tasks],
        model=SimpleNamespace(config=SimpleNamespace(max_position_embeddings=100_000)),
        max_completion_length=500,
        _tokenize_prompts=lambda asked: ([form.prompt_ids(one.prompt) for one in tasks], None, {}),
        _generate_single_turn=generated,
    )


@pytest.mark.parametrize("template", [True, False])
def test_a_wrong_answer_is_told_why_and_only_the_models_words_are_learned(
    tokenizer: Any, template: bool
) -> None:
    if not template:
        tokenizer.chat_template = None
    form, pool = Form(tokenizer, ModelSettings()), Judges()
    tasks = [task(), task(), task()]
    script = iter([[RIGHT, WRONG, "too long ..."], [RIGHT]])
    rollout = PlainTurns({task().id: task()}, form, tokenizer, pool, {tokenizer.eos_token_id}, 3)
    found = rollout([None] * 3, trainer(tokenizer, form, script, tasks))
    assert found["prompt_ids"] == [form.prompt_ids(one.prompt) for one in tasks]
    assert found["reply"] == [RIGHT, RIGHT, "too long ..."]
    assert pool.asked == [[RIGHT, WRONG], [RIGHT]], "after the last turn the reward judges"
    for ids, mask in zip(found["completion_ids"], found["env_mask"], strict=True):
        assert len(ids) == len(mask)
    first, second, third = found["env_mask"]
    assert all(first) and all(third)
    own = [token for token, one in zip(found["completion_ids"][1], second, strict=True) if one]
    end = tokenizer.eos_token
    assert tokenizer.decode(own) == f"{WRONG}{end}{RIGHT}{end}"
    told = [token for token, one in zip(found["completion_ids"][1], second, strict=True) if not one]
    text = tokenizer.decode(told)
    assert "Give a better answer" in text
    assert text.endswith("<|assistant|>" if template else "Answer:\n\n")
    assert ("<|user|>" in text) == template


def test_a_turn_that_leaves_no_room_is_not_taken(tokenizer: Any) -> None:
    form = Form(tokenizer, ModelSettings())
    small = trainer(tokenizer, form, iter([[WRONG]]), [task()])
    small.model.config.max_position_embeddings = len(form.prompt_ids(task().prompt)) + 600
    rollout = PlainTurns({task().id: task()}, form, tokenizer, Judges(), {tokenizer.eos_token_id}, 2)
    found = rollout([None], small)
    assert (found["reply"], set(found["env_mask"][0])) == ([WRONG], {1})


def test_an_environment_judges_answers_for_its_task() -> None:
    pool, other = Judges(), replace(task(), id="other")
    make = environment({"other": other}, pool)
    judge = make()
    judge.reset(task_id="other", prompt="unused")
    assert "y is off" in asyncio.run(judge.judge(WRONG))
    assert "y is off" not in asyncio.run(judge.judge(RIGHT))
    assert pool.asked == [[WRONG], [RIGHT]]
    assert [name for name in dir(judge) if not name.startswith("_")] == ["judge", "reset"]


def test_the_last_answer_of_a_conversation_counts(tokenizer: Any) -> None:
    form = Form(tokenizer, ModelSettings())
    call = {"function": {"name": "judge", "arguments": {"answer": WRONG}}}
    asked = {"role": "assistant", "content": "Let me see.", "tool_calls": [call]}
    tool = {"role": "tool", "name": "judge", "content": RIGHT}
    assert form.reply([asked, tool, {"role": "assistant", "content": RIGHT}]) == RIGHT
    assert form.reply([asked, tool, {"role": "assistant", "content": "That is it."}]) == WRONG
    assert form.reply([asked, tool]) == WRONG, "what the tool says is no answer of the model"
    assert form.reply([{"role": "assistant", "content": "None."}]) == "None."


def qwen_template() -> str:
    found = importlib.util.find_spec("trl")
    assert found is not None and found.origin is not None
    return (Path(found.origin).parent / "chat_templates" / "qwen2_5.jinja").read_text()


def test_the_tool_of_published_conversations_is_that_of_training(tokenizer: Any) -> None:
    from transformers.utils import get_json_schema

    schema = get_json_schema(environment({}, cast(Any, None))().judge)
    del schema["function"]["return"]
    assert schema == JUDGE
    row = a_row(pair("demo/a"))
    side = results_of_change(candidate_of(row).fast, ATTEMPTS, "lost_tail")[0].side
    wrong = WrongAttempt(row["id"], "lost_tail", 0, side_id(side), Outcome.MISMATCH, "Wrong.", "emulator")
    (said,) = tables([row], [wrong])[0]["tool_trajectories"]
    tokenizer.chat_template = qwen_template()
    text = tokenizer.apply_chat_template(said["messages"], tools=json.loads(said["tools"]), tokenize=False)
    assert text.count('<tool_call>\n{"name": "judge", "arguments": {"answer": "```cuda') == 1
    assert text.count("<tool_response>\nWrong.\n</tool_response>") == 1 and "None" not in text


def test_tools_are_for_templates_that_have_them(tokenizer: Any) -> None:
    assert not has_tools(tokenizer, Form(tokenizer, ModelSettings()))
    tokenizer.chat_template = qwen_template()
    assert has_tools(tokenizer, Form(tokenizer, ModelSettings()))
    tokenizer.chat_template += "{# of somebody's own #}"
    tokenizer.response_template = None
    assert not has_tools(tokenizer, Form(tokenizer, ModelSettings())), "TRL cannot read its calls"
    assert not has_tools(tokenizer, Form(tokenizer, ModelSettings(chat_template=False)))


def grpo(model: Path, pairs: Path, out: Path) -> list[dict[str, Any]]:
    """A run of two steps in two turns; its metrics."""
    sets = (
        "tasks.brief=true", "tasks.untimed=true", "tasks.held_out=0.34", "tasks.rollout=0.5",
        "tasks.split_seed=5", "lora.r=4", "grpo.turns=2", "grpo.prompts=2", "grpo.generations=2",
        "grpo.max_steps=2", "grpo.max_completion_tokens=400", "grpo.temperature=0.7",
    )  # fmt: skip
    words = ["train", "grpo", "--model", str(model), "--dataset", str(pairs), "--out", str(out)]
    words += ["--backend", "emulator", "--samples", "0", *(word for one in sets for word in ("--set", one))]
    assert run(words) == 0
    assert RunFolder(out).done("grpo")
    return list(MetricsLog(out / "metrics.jsonl").lines("grpo"))


@pytest.mark.slow
def test_a_run_in_plain_turns(
    model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollout, masks = PlainTurns.__call__, []

    def seen(self: PlainTurns, *given: Any) -> dict[str, Any]:
        found = rollout(self, *given)
        masks.extend(found["env_mask"])
        return found

    monkeypatch.setattr(PlainTurns, "__call__", seen)
    lines = grpo(model, pairs, tmp_path / "run")
    assert len(masks) == 8 and any(0 in mask for mask in masks)
    assert [line["answers"] for line in lines] == [4, 4]
    assert all(line["loss"] is not None for line in lines)


@pytest.mark.slow
def test_a_run_with_a_tool(model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny model calls no tool by itself: its words are given, tokens and updates are real."""
    import shutil

    from tokenizers import AddedToken
    from trl import GRPOTrainer

    own = tmp_path / "model"
    shutil.copytree(model, own)
    tokenizer = weights.load_tokenizer(ModelSettings(name=str(own)))
    tokenizer.chat_template = qwen_template()
    tokenizer.add_tokens([AddedToken(name, special=True) for name in ("<|im_start|>", "<|im_end|>")])
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.save_pretrained(own)
    network = weights.load_model(ModelSettings(name=str(own)))
    network.resize_token_embeddings(len(tokenizer))
    network.generation_config.eos_token_id = network.config.eos_token_id = tokenizer.eos_token_id
    network.save_pretrained(own)
    call = {"name": "judge", "arguments": {"answer": WRONG}}
    asks = f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
    prompts = []

    def generated(self: Any, ids: list[list[int]], *_: Any, **__: Any) -> Any:
        prompts.append([tokenizer.decode(one) for one in ids])
        text = asks if len(prompts) % 2 else RIGHT
        return [[*tokenizer(text).input_ids, tokenizer.eos_token_id] for _ in ids], None

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", generated)
    lines = grpo(own, pairs, tmp_path / "run")
    assert [len(one) for one in prompts] == [4, 4, 4, 4], "asked, told, answered; in two steps"
    assert "Compile an answer" in prompts[0][0], "the tool is offered"
    assert "<tool_response>" in prompts[1][0]
    assert [line["tools/call_frequency"] for line in lines] == [1.0, 1.0]
    assert [line["tools/failure_frequency"] for line in lines] == [0.0, 0.0]
    assert sum(line["answers"] for line in lines) == 8


def test_what_is_done_is_right() -> None:
    assert all(one.correct for one in DONE)
