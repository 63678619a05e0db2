"""A randomly initialised language model of two million parameters, to test that training works here.

Its tokenizer is trained on the text of the tasks. The model learns nothing useful. Not covered: real models
(`kcurate.local_models.weights`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kcurate.local_models.form import PLAIN
from kcurate.reward.task import Task

# The name of this model in the settings.
NAME = "random"
VOCABULARY, WIDTH, INNER, LAYERS = 2048, 256, 640, 2
END = "<|end|>"
NOTE = "a random model of two million parameters: it shows that training runs here, and learns nothing useful"


def write(folder: Path, tasks: Iterable[Task], *, seed: int) -> None:
    """Write the model and its tokenizer into a folder, completely or not at all."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer(_text(task) for task in tasks)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=8192,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=True,
    )
    part = folder.with_name(f"{folder.name}.part")
    LlamaForCausalLM(config).save_pretrained(part)
    tokenizer.save_pretrained(part)
    part.replace(folder)


def on_one_thread() -> None:
    """Let torch use one thread: on a CPU, a model this small generates three times as fast as on two."""
    import torch

    torch.set_num_threads(1)


def _text(task: Task) -> str:
    prompt = task.prompt
    return PLAIN.format(system=prompt.system, context=prompt.context, task=prompt.task) + (task.answer or "")


def _tokenizer(texts: Iterable[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, pad_token=END)
