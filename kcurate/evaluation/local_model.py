"""A model in this process, through transformers; on the GPU if there is one.

It samples as GRPO does; the model's own generation config is ignored. Not covered: how prompts become tokens
(`kcurate.local_models.weights`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
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
# Fewer tokens than this hold no kernel.
LEAST_ROOM = 128


@dataclass(frozen=True)
class SamplingOptions:
    """How completions are sampled; `batch`: prompts at a time, `hint`: the option that reduces it, for
    errors."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    batch: int = 64
    hint: str = "--batch-size {}"


class LocalModel:
    """A model and an adapter; its weights are loaded with the first prompt, and freed by `close`.

    Raises:
        InputError: no such model or adapter.
    """

    def __init__(self, settings: ModelSettings, adapter: Path | None, drawing: SamplingOptions) -> None:
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
        """The tasks whose prompt and known answer have at most so many tokens."""
        return fitting(tasks, self._form, max_prompt, self._drawing.max_tokens)

    def sample(self, asked: Sequence[tuple[Prompt, int]]) -> list[Reply]:
        """See `Sampler`. A prompt that leaves no room in the model's context is `rejected`.

        Raises:
            InputError: the weights cannot be read. MissingDependencyError: out of GPU memory.
        """
        return self._sample([self._form.text(prompt) for prompt, _ in asked])

    def talk(self, prompt: Prompt, turns: Sequence[Mapping[str, str]]) -> Reply:
        """The reply to a prompt and the messages after it, as long as the remaining context allows.

        Without room in the context it is `rejected`.
        """
        self._load()
        text = self._form.text(prompt, turns)
        length = len(self._form.ids(text))
        most = min(self._drawing.max_tokens, self._room() - length)
        if most < LEAST_ROOM:
            return Reply("", status="rejected", input_tokens=length)
        (ids,) = self._generated([text], most)
        return self._reply(ids, length, weights.end_tokens(self._model, self._tokenizer))

    def _sample(self, texts: Sequence[str]) -> list[Reply]:
        self._load()
        room = self._room()
        lengths = [len(self._form.ids(text)) for text in texts]
        # Longest first, so that memory runs out early or never.
        order = sorted(range(len(texts)), key=lambda i: -lengths[i])
        fits = [i for i in order if lengths[i] + self._drawing.max_tokens <= room]
        ends = weights.end_tokens(self._model, self._tokenizer)
        replies = {i: Reply("", status="rejected", input_tokens=lengths[i]) for i in order}
        continuous = self._settings.sampling == "continuous"  # it makes batches of its own
        size = max(1, len(fits)) if continuous else self._drawing.batch
        for batch in progress.each(list(batches(fits, size)), "sampling", unit="batch"):
            these = [texts[i] for i in batch]
            begun = time.monotonic()
            generated = self._continuous(these, ends) if continuous else self._generated(these)
            on_gpu = self._model.device.type == "cuda"
            gpu_s = (time.monotonic() - begun) / len(batch) if on_gpu else None
            for i, ids in zip(batch, generated, strict=True):
                replies[i] = replace(self._reply(ids, lengths[i], ends), gpu_s=gpu_s)
        return [replies[i] for i in range(len(texts))]

    def _room(self) -> int:
        """The size of the model's context in tokens."""
        return getattr(self._model.config, "max_position_embeddings", None) or 1 << 30

    def _load(self) -> None:
        if self._model is None:
            self._model = weights.load_model(self._settings, adapter=self._adapter).eval()
            if self._settings.merged and self._adapter is not None:
                self._model = self._model.merge_and_unload()

    def close(self) -> None:
        """Free the weights' memory."""
        self._model = None
        weights.free()

    def _generated(self, texts: Sequence[str], most: int | None = None) -> list[list[int]]:
        """The new tokens of each prompt, up to the first end-of-text token."""
        # A chat template has already written the special tokens; plain text gets them here, as in training.
        encoded = self._tokenizer(
            list(texts), return_tensors="pt", padding=True, add_special_tokens=not self._form.chat
        ).to(self._model.device)
        encoded.pop("token_type_ids", None)
        try:
            with torch.inference_mode():
                limit = {} if most is None else {"max_new_tokens": most}
                tokens = self._model.generate(**encoded, **self.arguments() | limit)
        except torch.OutOfMemoryError as error:
            hint = self._drawing.hint.format(max(1, self._drawing.batch // 2))
            raise MissingDependencyError("out of GPU memory", where="sampling", hint=hint) from error
        return tokens[:, encoded["input_ids"].shape[1] :].tolist()  # type: ignore[no-any-return]

    def _continuous(self, texts: Sequence[str], ends: set[int]) -> list[list[int]]:
        """`_generated` by continuous batching: a finished prompt makes room for the next."""
        asked = self._tokenizer(list(texts), add_special_tokens=not self._form.chat).input_ids
        config = GenerationConfig(**self.arguments(), eos_token_id=sorted(ends))
        cache = None  # on a GPU what is free of its memory
        if self._model.device.type == "cpu":  # not most of the machine's
            longest = max(map(len, asked)) + self._drawing.max_tokens
            pages = self._drawing.batch * (longest // PAGE + 2)
            cache = ContinuousBatchingConfig(page_size=PAGE, num_blocks=pages, max_batch_tokens=8 * PAGE)
        outputs = self._model.generate_batch(
            asked, generation_config=config, continuous_batching_config=cache
        )
        failed = [output.error for output in outputs.values() if output.error is not None]
        if failed or len(outputs) < len(asked):
            why = failed[0] if failed else f"{len(outputs)} of {len(asked)} prompts were answered"
            raise BackendError(f"continuous batching failed: {why}", hint="--set model.sampling=plain")
        return [list(output.generated_tokens) for output in outputs.values()]

    def arguments(self) -> dict[str, Any]:
        """The arguments of `generate`."""
        cache = self._settings.static_cache(self._drawing.batch)
        if cache:  # compiling takes longer than the attention `packed` leaves to be saved
            cache["disable_compile"] = self._settings.attention == "packed"
        return {
            **cache,
            "max_new_tokens": self._drawing.max_tokens,
            "do_sample": True,
            "temperature": self._drawing.temperature,
            "top_p": self._drawing.top_p,
            "top_k": 0,
            "repetition_penalty": 1.0,  # some generation configs set another; GRPO samples with this one
            "pad_token_id": self._tokenizer.pad_token_id,
        }

    def _reply(self, ids: list[int], length: int, ends: set[int]) -> Reply:
        end = next((at for at, token in enumerate(ids) if token in ends), None)
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
