"""Scores a model on the held-out tasks: sample completions, judge them, summarise them in one row.

Not covered: the statistics (`scores`), benchmarks with their own rules.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from kcurate import codec, store
from kcurate.errors import InputError, MissingDependencyError
from kcurate.notes import Note, silent
from kcurate.train import models
from kcurate.train.models import Form
from kcurate.train.reward.trl_reward import Pool, line_of
from kcurate.train.scores import Row, row
from kcurate.train.settings import TrainSettings
from kcurate.train.task import Judged, Task


def measure(
    name: str,
    settings: TrainSettings,
    tasks: Sequence[Task],
    pool: Pool,
    *,
    adapter: Path | None,
    timed: bool,
    note: Note = silent,
) -> tuple[Row, list[dict[str, Any]]]:
    """Sample at least `measure.samples` completions, equally many per task; the row, and the completions.

    Raises:
        InputError: no held-out task fits.
    """
    own = settings.measure
    tokenizer = models.load_tokenizer(settings.model)
    tokenizer.padding_side = "left"
    form = Form(tokenizer, settings.model)
    longest = own.max_completion_tokens or settings.grpo.max_completion_tokens
    fitting = models.fitting(tasks, form, settings.grpo.max_prompt_tokens, longest)
    if not fitting:
        raise InputError(
            f"all {len(tasks)} held-out tasks have prompts over {settings.grpo.max_prompt_tokens} tokens "
            f"or answers over {longest}",
            where="measure",
            hint="raise grpo.max_prompt_tokens, measure.max_completion_tokens, or tasks.held_out",
        )
    sampled = [task for task in fitting for _ in range(math.ceil(own.samples / len(fitting)))]
    started_s = time.monotonic()
    replies = _completions(settings, tokenizer, form, sampled, adapter)
    generate_s = time.monotonic() - started_s
    note(
        f"{name}: sampled {len(sampled)} completions for {len(fitting)} held-out tasks in {generate_s:.0f} s"
    )
    started_s = time.monotonic()
    judged: list[Judged] = asyncio.run(pool.score(sampled, replies))
    judge_s = time.monotonic() - started_s
    made = row(name, settings.model.name, judged, timed=timed, generate_s=generate_s, judge_s=judge_s)
    lines = [
        {"row": name, **line_of(one), "reply": reply} for one, reply in zip(judged, replies, strict=True)
    ]
    return made, lines


def _completions(
    settings: TrainSettings,
    tokenizer: Any,
    form: Form,
    tasks: Sequence[Task],
    adapter: Path | None,
) -> list[str]:
    """One completion per task, in order; longest prompts first, so that memory runs out early or never."""
    model = models.load_model(settings.model, adapter=adapter)
    model.eval()  # not merged: merging into bfloat16 weights would lose the small updates of GRPO
    own = settings.measure
    texts = [form.text(task.prompt) for task in tasks]
    order = sorted(range(len(tasks)), key=lambda i: -len(texts[i]))
    replies = [""] * len(tasks)
    torch.manual_seed(own.seed)
    for batch in batches(order, own.batch):
        # A chat template has already written the special tokens; plain text gets them here, as in training.
        encoded = tokenizer(
            [texts[i] for i in batch],
            return_tensors="pt",
            padding=True,
            add_special_tokens=not form.chat,
        ).to(model.device)
        encoded.pop("token_type_ids", None)
        made = _generate(model, encoded, settings, tokenizer.pad_token_id)
        new = made[:, encoded["input_ids"].shape[1] :]
        for i, text in zip(batch, tokenizer.batch_decode(new, skip_special_tokens=True), strict=True):
            replies[i] = form.with_thought(text)
    return replies


def _generate(model: Any, encoded: Any, settings: TrainSettings, pad: int) -> Any:
    """Prompts and completions as token ids.

    Raises:
        MissingDependencyError: out of GPU memory.
    """
    own = settings.measure
    try:
        with torch.inference_mode():
            return model.generate(
                **encoded,
                max_new_tokens=own.max_completion_tokens or settings.grpo.max_completion_tokens,
                do_sample=True,
                temperature=own.temperature,
                top_p=own.top_p,
                top_k=0,
                repetition_penalty=1.0,  # some generation configs set another; GRPO samples with this one
                pad_token_id=pad,
            )
    except torch.OutOfMemoryError as error:
        hint = f"--set measure.batch={max(1, own.batch // 2)}"
        raise MissingDependencyError("out of GPU memory", where="train measure", hint=hint) from error


def batches(order: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Equal batches of about `size`: a small remainder would take as long as a full batch."""
    count = max(1, round(len(order) / size))
    for part in range(count):
        yield order[part * len(order) // count : (part + 1) * len(order) // count]


def read_rows(path: Path) -> tuple[Row, ...]:
    """The rows of a `measured.json`; none if the file is missing."""
    if not path.is_file():
        return ()
    try:
        rows = json.loads(path.read_bytes())["rows"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("not a scores file", where=str(path), hint="delete it to score again") from error
    return tuple(codec.from_data(Row, one, where=str(path)) for one in rows)


def add_row(path: Path, made: Row, about: Mapping[str, Any]) -> tuple[Row, ...]:
    """Add a row to a `measured.json`, replacing one of the same name; returns all rows."""
    rows = [one for one in read_rows(path) if one.name != made.name] + [made]
    data = {"about": dict(about), "rows": [codec.to_data(one) for one in rows]}
    store.write_bytes(path, store.pretty_json(data))
    return tuple(rows)
