"""Train a small model on a built dataset with TRL alone: kcurate is not imported.

    python examples/train_with_trl.py work/dataset out [MODEL]

Without MODEL, a random model of a million parameters is made, which learns nothing useful.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from datasets import Dataset, load_dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers import PreTrainedTokenizerFast as FastTokenizer
from trl import SFTConfig, SFTTrainer

END = "<|end|>"
TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def random_model(rows: Dataset) -> tuple[Any, Any]:
    """A model that has learned nothing, and a tokenizer of the rows' text."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1024, special_tokens=[END], initial_alphabet=alphabet)
    text = (message["content"] for row in rows for message in [*row["prompt"], *row["completion"]])
    core.train_from_iterator(text, trainer)
    tokenizer = FastTokenizer(tokenizer_object=core, eos_token=END, pad_token=END, chat_template=TEMPLATE)
    size = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=8192, **size))
    return model, tokenizer


def main(dataset: str, out: str, name: str | None = None) -> None:
    """Train for three steps, and keep the model in `out`."""
    rows = load_dataset(dataset, "sft", split="train").select_columns(["prompt", "completion"])
    if name:
        model, tokenizer = AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    else:
        model, tokenizer = random_model(rows)
    config = SFTConfig(
        out,
        max_steps=3,
        per_device_train_batch_size=1,
        max_length=4096,
        report_to="none",
        use_cpu=not torch.cuda.is_available(),
    )
    trainer = SFTTrainer(model, config, train_dataset=rows, processing_class=tokenizer)
    print(f"{len(rows)} rows, loss {trainer.train().training_loss:.3f}")
    trainer.save_model(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
