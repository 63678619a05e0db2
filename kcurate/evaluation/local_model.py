"""A model in this process, through transformers; on the GPU if there is one.

It samples as GRPO does and ignores the model's generation config. Not covered: how prompts become tokens
(`kcurate.local_models.form`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig

from kcurate.core import progress
from kcurate.errors import BackendError, MissingDependencyError
from kcurate.evaluation.sampling import Reply
from kcurate.local_models import weights
from kcurate.local_models.form import Form, fitting
from kcurate.local_models.settings import ModelSettings
from kcurate.records import Prompt
from kcurate.reward.task import Task

# Tokens in a page of the cache of continuous batching.
PAGE = 256


@dataclass(frozen=True)
class Drawing:
    """How completions are sampled. `batch`: prompts at a time; `hint`: the option that reduces it."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    batch: int = 64
    hint: str = "--batch-size {}"


class LocalModel:
    """A model with an adapter; the weights are loaded with the first prompt, and freed by `close`.

    Raises:
        InputError: no such model or adapter.
    """

    def __init__(self, settings: ModelSettings, adapter: Path | None, drawing: Drawing) -> None:
        self._settings, self._adapter, self._drawing = settings, adapter, drawing
        if adapter is not None:
            weights.check_adapter(adapter)
        weights.check_there(settings)
        self._tokenizer = weights.load_tokenizer(settings)
        self._tokenizer.padding_side = "left"
        self._form = Form(self._tokenizer, settings)
        self._model: Any = None
        torch.manual_seed(drawing.seed)

    def fitting(self, tasks: Sequence[Task], max_prompt: int) -> list[Task]:
        """The tasks whose prompt and known answer are within the token limits."""
        return fitting(tasks, self._form, max_prompt, self._drawing.max_tokens)

    def sample(self, prompts: Sequence[tuple[Prompt, int]]) -> list[Reply]:
        """See `Sampler`. A prompt that leaves no room for a completion in the context is `rejected`.

        Raises:
            InputError: the weights cannot be read. MissingDependencyError: out of GPU memory.
        """
        if self._model is None:
            self._model = weights.load_model(self._settings, adapter=self._adapter).eval()
            if self._settings.merged and self._adapter is not None:
                self._model = self._model.merge_and_unload()
        context = getattr(self._model.config, "max_position_embeddings", None) or 1 << 30
        lengths = [len(self._form.prompt_ids(prompt)) for prompt, _ in prompts]
        # Longest first, so that memory runs out early or never.
        order = sorted(range(len(prompts)), key=lambda i: -lengths[i])
        fits = [i for i in order if lengths[i] + self._drawing.max_tokens <= context]
        ends = weights.end_tokens(self._model, self._tokenizer)
        replies = {i: Reply("", status="rejected", input_tokens=lengths[i]) for i in order}
        continuous = self._settings.sampling == "continuous"  # transformers makes the batches
        size = max(1, len(fits)) if continuous else self._drawing.batch
        for batch in progress.each(list(batches(fits, size)), "sampling", unit="batch"):
            texts = [self._form.text(prompts[i][0]) for i in batch]
            started_s = time.monotonic()
            generated = self._continuous(texts, ends) if continuous else self._generated(texts)
            on_gpu = self._model.device.type == "cuda"
            gpu_s = (time.monotonic() - started_s) / len(batch) if on_gpu else None
            for i, ids in zip(batch, generated, strict=True):
                replies[i] = replace(self._reply(ids, lengths[i], ends), gpu_s=gpu_s)
        return [replies[i] for i in range(len(prompts))]

    def close(self) -> None:
        """Free the weights' memory."""
        self._model = None
        weights.free()

    def _generated(self, texts: Sequence[str]) -> list[list[int]]:
        """The new tokens of each, up to the first end-of-text token."""
        # A chat template has already written the special tokens; plain text gets them here, as in training.
        encoded = self._tokenizer(
            list(texts), return_tensors="pt", padding=True, add_special_tokens=not self._form.chat
        ).to(self._model.device)
        encoded.pop("token_type_ids", None)
        try:
            with torch.inference_mode():
                tokens = self._model.generate(**encoded, **self.arguments())
        except torch.OutOfMemoryError as error:
            hint = self._drawing.hint.format(max(1, self._drawing.batch // 2))
            raise MissingDependencyError("out of GPU memory", where="sampling", hint=hint) from error
        return tokens[:, encoded["input_ids"].shape[1] :].tolist()  # type: ignore[no-any-return]

    def _continuous(self, texts: Sequence[str], ends: set[int]) -> list[list[int]]:
        """The same by continuous batching: a finished prompt makes room for the next."""
        prompt_ids = self._tokenizer(list(texts), add_special_tokens=not self._form.chat).input_ids
        config = GenerationConfig(**self.arguments(), eos_token_id=sorted(ends))
        cache = None  # the default on a GPU: its free memory
        if self._model.device.type == "cpu":  # the default would take most of the machine's memory
            longest = max(map(len, prompt_ids)) + self._drawing.max_tokens
            pages = self._drawing.batch * (longest // PAGE + 2)
            cache = ContinuousBatchingConfig(page_size=PAGE, num_blocks=pages, max_batch_tokens=8 * PAGE)
        outputs = self._model.generate_batch(
            prompt_ids, generation_config=config, continuous_batching_config=cache
        )
        failed = [output.error for output in outputs.values() if output.error is not None]
        if failed or len(outputs) < len(prompt_ids):
            why = failed[0] if failed else f"{len(outputs)} of {len(prompt_ids)} prompts were answered"
            raise BackendError(f"continuous batching failed: {why}", hint="--set model.sampling=plain")
        return [list(output.generated_tokens) for output in outputs.values()]

    def arguments(self) -> dict[str, Any]:
        """The arguments of `generate`."""
        static = {"cache_implementation": "static"} if self._settings.sampling == "static" else {}
        return {
            **static,
            "max_new_tokens": self._drawing.max_tokens,
            "do_sample": True,
            "temperature": self._drawing.temperature,
            "top_p": self._drawing.top_p,
            "top_k": 0,
            "repetition_penalty": 1.0,  # some generation configs set another; GRPO samples with this one
            "pad_token_id": self._tokenizer.pad_token_id,
        }

    def _reply(self, ids: list[int], length: int, ends: set[int]) -> Reply:
        end = next((i for i, token in enumerate(ids) if token in ends), None)
        text = self._tokenizer.decode(ids if end is None else ids[:end], skip_special_tokens=True)
        status = "truncated" if end is None else "answered"
        return Reply(
            self._form.with_thought(text), "text", status, length, len(ids) if end is None else end + 1
        )


def batches(order: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Equal batches of about `size`: a small remainder would take as long as a full batch."""
    count = max(1, round(len(order) / size)) if order else 0
    for part in range(count):
        yield order[part * len(order) // count : (part + 1) * len(order) // count]
