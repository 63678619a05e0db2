"""A language model and pairs small enough for tests: two layers that have learned one answer by heart.

The answer is a readable, correct kernel for some of the pairs and a wrong one for others, so that what a
sampled answer earns varies.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from small import EACH, SCALE, scaled
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from kcurate import prompts
from kcurate.core import store
from kcurate.records import Candidate, Environment, Outcome, Verdict
from kcurate.train import pair_tasks
from kcurate.train.form import PLAIN, Form
from kcurate.train.settings import ModelSettings
from kcurate.train.task import Task
from kcurate.verdicts.keys import verdict_key

TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
# Too short to tie the families together (`kcurate.cuda_source.containment`).
SERIAL = """
extern "C" __global__ void scale(const float* x, float* y, float a, int n) {
    for (int i = threadIdx.x; i < n; i += 128) y[i] = a * x[i];
}
"""
# What the slow side of each family computes; the answer by heart is right for the first four.
FAMILIES = {
    "scale": "a * x[i]",
    "times": "x[i] * a",
    "sum-of-halves": "a * (0.5f * x[i]) + a * (0.5f * x[i])",
    "plus-nought": "a * x[i] + 0.0f",
    "shift": "a + x[i]",
    "square": "a * x[i] * x[i]",
}


def write_pairs(root: Path, families: dict[str, str] = FAMILIES) -> Path:
    """A folder of pairs that the emulator has found correct."""
    for name, formula in families.items():
        base = scaled(name, bench=1 << 14)
        code = SERIAL.replace("a * x[i]", formula)
        fast = SCALE.replace("a * x[i]", formula)
        made = replace(
            base, slow=replace(base.slow, code=code, plan=(EACH,)), fast=replace(base.fast, code=fast)
        )
        folder = root / name
        store.write_candidate(folder, made)
        store.write_verdict(folder, _correct(made))
    return root


def _correct(candidate: Candidate) -> Verdict:
    key = verdict_key(candidate)
    return Verdict(candidate.id, key, Outcome.CORRECT, Environment("emulator", "CPU"))


def tasks(root: Path) -> tuple[Task, ...]:
    return pair_tasks.load(str(root), brief=True, untimed=True)


def write_model(root: Path, known: tuple[Task, ...], *, template: bool = True, steps: int = 250) -> Path:
    """A model that gives the answer of the first task to whatever it is asked, and its tokenizer."""
    answer = next(task.answer for task in known if task.family == "scale")
    assert answer is not None
    tokenizer = _tokenizer([*(_plain(task) for task in known), *[answer] * 20], template=template)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    form = Form(tokenizer, ModelSettings())
    _teach(model, tokenizer, answer, [form.text(task.prompt) for task in known], steps)
    model.save_pretrained(root)
    tokenizer.save_pretrained(root)
    return root


def _plain(task: Task) -> str:
    return PLAIN.format(system=task.prompt.system, context=task.prompt.context, task=task.prompt.task)


def _tokenizer(texts: list[str], *, template: bool) -> Any:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=900, special_tokens=SPECIAL, initial_alphabet=alphabet)
    )
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>", pad_token="<|end|>")
    made.chat_template = TEMPLATE if template else None
    return made


def _teach(model: Any, tokenizer: Any, answer: str, texts: list[str], steps: int) -> None:
    """Learn one answer to all prompts by heart, all weights together."""
    after = [*tokenizer(answer).input_ids, tokenizer.eos_token_id]
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for step in range(steps):
        before = tokenizer(texts[step % len(texts)]).input_ids
        ids = torch.tensor([before + after])
        labels = torch.tensor([[-100] * len(before) + after])
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


__all__ = ["FAMILIES", "prompts", "tasks", "write_model", "write_pairs"]
