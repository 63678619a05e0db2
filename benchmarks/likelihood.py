"""How likely a local model finds known answers: what moves before a sampled answer is right.

Not covered: sampling (`kcurate.evaluation.local_model`), what the likelihoods are compared with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from kcurate.errors import MissingDependencyError
from kcurate.local_models import weights
from kcurate.local_models.form import Form
from kcurate.local_models.settings import ModelSettings
from kcurate.records import Prompt


@dataclass(frozen=True)
class Likelihood:
    """The negative log-likelihood of an answer in nats, its tokens taken together, and their number."""

    nats: float
    tokens: int

    @property
    def a_token(self) -> float:
        """The mean over the tokens, so that a longer answer is not the less likely for it."""
        return self.nats / self.tokens


def likelihoods(
    settings: ModelSettings,
    adapter: Path | None,
    rows: Sequence[tuple[Prompt, str]],
    *,
    batch_tokens: int = 16384,
) -> list[Likelihood]:
    """The likelihood of each answer after its prompt, in order; both become tokens as in training.

    With `settings.merged` the adapter is merged into the weights, as for sampling.

    Raises:
        InputError: no such model or adapter. MissingDependencyError: out of GPU memory.
    """
    form = Form(weights.load_tokenizer(settings), settings)
    tokens = [form.row(prompt, answer) for prompt, answer in rows]
    model = weights.load_model(settings, adapter=adapter).eval()
    if settings.merged and adapter is not None:
        model = model.merge_and_unload()
    found: dict[int, Likelihood] = {}
    with torch.inference_mode(), _memory(batch_tokens):
        for batch in _batches([len(prompt) + len(answer) for prompt, answer in tokens], batch_tokens):
            found |= zip(batch, _of_batch(model, [tokens[i] for i in batch]), strict=True)
    del model
    weights.free()
    return [found[i] for i in range(len(rows))]


@contextlib.contextmanager
def _memory(batch_tokens: int) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        hint = f"a batch has {batch_tokens} tokens; take fewer"
        raise MissingDependencyError("out of GPU memory", where="likelihoods", hint=hint) from error


def _batches(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Rows of similar length together, the longest first; at most so many tokens with padding."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > most:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _of_batch(model: object, rows: Sequence[tuple[list[int], list[int]]]) -> Iterator[Likelihood]:
    """Padded at the right, a causal model needs no mask: no token sees what comes after it."""
    longest = max(len(prompt) + len(answer) for prompt, answer in rows)
    device = next(model.parameters()).device  # type: ignore[attr-defined]
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    for place, (prompt, answer) in enumerate(rows):
        ids[place, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
    logits = model(input_ids=ids.to(device), use_cache=False).logits  # type: ignore[operator]
    for place, (prompt, answer) in enumerate(rows):
        before = logits[place, len(prompt) - 1 : len(prompt) + len(answer) - 1].float()
        nats = cross_entropy(before, torch.tensor(answer, device=device), reduction="sum")
        yield Likelihood(float(nats), len(answer))
