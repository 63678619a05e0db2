"""Rows for training: `sft` (prompt, completion) and `grpo` (prompt, and what the reward needs).

Prompts and completions are chat messages in the format of `kcurate.prompts`, which deopt and training share.
Only confirmed pairs become rows. Not covered: which of them do (`kcurate.problem.lessons`), training itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcurate import prompts
from kcurate.dataset.rows import Kind
from kcurate.problem.lessons import Lesson, Lessons, Proved, gpu_named, lessons
from kcurate.published_rows import candidate_of
from kcurate.records import Outcome

_MESSAGES: Kind = [{"role": "string", "content": "string"}]
SFT_COLUMNS: dict[str, Kind] = {
    "id": "string",
    "prompt": _MESSAGES,
    "completion": _MESSAGES,
    "family": "string",
    "domain": "string",
    "license": "string",
    "techniques": ["string"],
    "technique": "string",
    "speedup": "float64",
    "device": "string",
    "content": "string",
    "prompt_format": "string",
}
# No `completion`: the trainer passes all other columns to the reward, which judges the sampled completion.
GRPO_COLUMNS: dict[str, Kind] = {
    "id": "string",
    "prompt": _MESSAGES,
    "family": "string",
    "domain": "string",
    "license": "string",
    "problem": "string",
    "given_code": "string",
    "given_side": "string",
    "given_us": "float64",
    "reference_speedup": "float64",
    "device": "string",
    "content": "string",
    "prompt_format": "string",
}


def trainable(row: Mapping[str, Any]) -> bool:
    """Whether a `pairs` row is used for training: its speedup is confirmed."""
    return str(row["outcome"]) == Outcome.CONFIRMED.value


def lessons_of(rows: Iterable[Mapping[str, Any]]) -> Lessons:
    """The selection of the confirmed ones among `pairs` rows."""
    return lessons(
        Proved(candidate_of(row), row["speedup"], gpu_named(row["device"], row["compiler"]))
        for row in rows
        if trainable(row)
    )


def sft_row(row: Mapping[str, Any], lesson: Lesson) -> dict[str, Any]:
    """The `sft` row of a lesson that has an answer; `row` is its pair's."""
    made = {
        **row,
        "prompt": prompts.chat(lesson.prompt),
        "completion": [{"role": "assistant", "content": lesson.answer}],
        "technique": lesson.technique,
        "prompt_format": prompts.FORMAT,
    }
    return {name: made[name] for name in SFT_COLUMNS}


def grpo_row(row: Mapping[str, Any], lesson: Lesson) -> dict[str, Any]:
    """The `grpo` row of a lesson whose prompt asks for no technique."""
    made = {
        **row,
        "prompt": prompts.chat(lesson.prompt),
        "given_code": row["slow_code"],
        "given_side": row["slow_side"],
        "given_us": row["slow_us"],
        "reference_speedup": row["speedup"],
        "prompt_format": prompts.FORMAT,
    }
    return {name: made[name] for name in GRPO_COLUMNS}
