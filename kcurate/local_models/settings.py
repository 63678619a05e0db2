"""The local model and its low-rank adapter: the tables `model` and `lora` of a recipe.

Not covered: the other settings of a training run (`kcurate.train.settings`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from kcurate.core.options import Option

DEFAULT_MODEL = "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"
# Download sizes in bytes of the recipes' large models (7,615,616,512 parameters in bfloat16 each). Unless
# `--model` names one of them, downloading it needs `--yes`.
LARGE_BYTES = {DEFAULT_MODEL: 15_231_233_024, "Qwen/Qwen2.5-Coder-7B-Instruct": 15_231_233_024}
# All linear layers of attention and feed-forward blocks, as Llama and Qwen name them.
LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

# Tokens of prompts that go through the model at a time, which bounds the memory of their activations; and the
# fewest of each prompt.
PREFILL, LEAST_PREFILL = 1 << 17, 128


@dataclass(frozen=True)
class ModelSettings:
    """The base model. `name`: a Hub name, a folder, a `.gguf` file, or `random` (randomly initialised).

    `dtype` auto: bfloat16 on a GPU, float32 elsewhere. `attention`: transformers' name for it; or `packed`,
    for SFT with `sft.packing`: flash attention over the rows of a sequence. `chat_template` false: prompts
    are plain text even if the tokenizer has a chat template. `base`: the name shown in model cards and score
    tables; empty: `name`, or the name of the folder or file. `sampling`: how transformers samples, with plain
    `generate`, a static cache, or continuous batching. `merged`: RFT and scores sample with the adapter
    merged into the weights; GRPO never does.
    """

    name: Annotated[
        str,
        Option(
            f"Hub name, folder, or .gguf file.  [default: {DEFAULT_MODEL}]", "--model", "NAME", default=None
        ),
    ] = DEFAULT_MODEL
    revision: str = ""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    attention: str = "sdpa"
    chat_template: bool = True
    trust_remote_code: bool = False
    base: str = ""
    sampling: Literal["plain", "static", "continuous"] = "plain"
    merged: bool = False

    def static_cache(self, sequences: int) -> dict[str, Any]:
        """The arguments of `generate` that sample so many sequences at a time from a static cache.

        Empty for the other ways of `sampling`.
        """
        if self.sampling != "static":
            return {}
        chunk = max(LEAST_PREFILL, PREFILL // sequences)
        return {"cache_implementation": "static", "prefill_chunk_size": chunk}

    @property
    def shown(self) -> str:
        """The model's name on the Hub, or of its folder or file; never a path of this machine."""
        path = Path(self.name)
        if self.base or not (path.exists() or path.is_absolute()):
            return self.base or self.name
        for folder in path.absolute().parts:  # a folder of the Hub's cache has the name in its path
            if folder.startswith("models--"):
                return folder.removeprefix("models--").replace("--", "/")
        return path.absolute().name.removesuffix(".gguf")


@dataclass(frozen=True)
class LoraSettings:
    """Low-rank adapters; the base weights are frozen."""

    r: int = 32
    alpha: int = 64
    dropout: float = 0.1
    targets: tuple[str, ...] = LORA_TARGETS
