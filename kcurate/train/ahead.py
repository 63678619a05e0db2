"""Answers go to the judges as soon as each is whole, while others of the same draw are still being written.

A draw ends with its longest answer; by then most verdicts are there. Judges that share the GPU that draws
take no times meanwhile (`drawing`), which would be worth nothing: what does not compile, is wrong or hangs is
known by then, and the times follow. Not covered: judging (`reward.pool`), drawing with vLLM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from transformers.generation.streamers import BaseStreamer

from kcurate.train.models import Form
from kcurate.train.reward.trl_reward import Begins
from kcurate.train.task import Task


class Whole(BaseStreamer):  # type: ignore[misc]
    """Sees every token of a batch, and hands on the text of each row that has come to its end.

    `tasks`: what each row answers; None for a row that is not looked at. `ends`: tokens that end a row.
    """

    def __init__(
        self,
        tasks: Sequence[Task | None],
        ends: Sequence[int],
        decode: Callable[[list[int]], str],
        found: Callable[[Task, str], None],
    ) -> None:
        self._tasks = tasks
        self._ends = torch.tensor(list(ends))
        self._decode = decode
        self._found = found
        self._open = torch.tensor([task is not None for task in tasks])
        self._steps: list[torch.Tensor] | None = None

    def put(self, value: torch.Tensor) -> None:
        """The prompts first, then one token a row a step."""
        if self._steps is None:
            self._steps = []
            return
        self._steps.append(value.reshape(-1))
        ended = self._open & torch.isin(self._steps[-1], self._ends)
        if not ended.any():
            return
        self._open &= ~ended
        written = torch.stack(self._steps[:-1]) if len(self._steps) > 1 else torch.empty(0, len(ended))
        for row in ended.nonzero().reshape(-1).tolist():
            task = self._tasks[row]
            assert task is not None, "only rows with a task are open"
            self._found(task, self._decode(written[:, row].int().tolist()))

    def end(self) -> None:
        """Rows that were cut have no end, and are asked for with the batch."""


def streamer(tasks: Sequence[Task | None], tokenizer: Any, model: Any, form: Form, pool: Begins) -> Whole:
    """What `model.generate(streamer=...)` takes for a batch whose rows answer `tasks`."""
    return Whole(
        tasks,
        ends_of(tokenizer, model),
        lambda ids: form.said(str(tokenizer.decode(ids, skip_special_tokens=True))),
        pool.begin,
    )


def ends_of(tokenizer: Any, model: Any) -> list[int]:
    """The tokens that end an answer, by the tokenizer and by the model's own settings."""
    given = model.generation_config.eos_token_id
    more = given if isinstance(given, list) else [given]
    return sorted({one for one in (tokenizer.eos_token_id, *more) if one is not None})


def attach(model: Any, tokenizer: Any, form: Form, tasks: Sequence[Task], pool: Begins) -> None:
    """From now on, what `model.generate` draws for prompts of these tasks is judged ahead."""
    by_prompt = {tuple(form.prompt_ids(task.prompt)): task for task in tasks}
    draw = model.generate

    def generate(*args: Any, **given: Any) -> Any:
        rows = _rows(given.get("input_ids"), given.get("attention_mask"), by_prompt)
        if any(rows) and "streamer" not in given:
            given["streamer"] = streamer(rows, tokenizer, model, form, pool)
        with pool.drawing():
            return draw(*args, **given)

    model.generate = generate


def _rows(ids: Any, mask: Any, by_prompt: Mapping[tuple[int, ...], Task]) -> list[Task | None]:
    """The task of each row of a padded batch of prompts."""
    if ids is None or mask is None:
        return []
    kept = zip(ids.cpu(), mask.bool().cpu(), strict=True)
    return [by_prompt.get(tuple(row[there].tolist())) for row, there in kept]
