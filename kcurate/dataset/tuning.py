"""Rows for training: `sft` (prompt, completion) and `grpo` (prompt, and what the reward needs).

Prompts and completions are chat messages in the format of `kcurate.prompts`, which deopt and training share.
Only confirmed pairs become rows. Not covered: training itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcurate import prompts
from kcurate.dataset.rows import Kind
from kcurate.problem.shown import answer_of, request
from kcurate.published_rows import candidate_of
from kcurate.records import Candidate, Outcome

_MESSAGES: Kind = [{"role": "string", "content": "string"}]
SFT_COLUMNS: dict[str, Kind] = {
    "id": "string",
    "prompt": _MESSAGES,
    "completion": _MESSAGES,
    "family": "string",
    "domain": "string",
    "license": "string",
    "techniques": ["string"],
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


def prompt_of(candidate: Candidate) -> list[dict[str, str]]:
    """The prompt for the fast side of a published pair, as chat messages."""
    return prompts.chat(request(candidate))


def sft_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The `sft` row of a confirmed `pairs` row."""
    candidate = candidate_of(row)
    answer = prompts.write_answer(answer_of(candidate.fast, candidate.slow))
    made = {
        **row,
        "prompt": prompt_of(candidate),
        "completion": [{"role": "assistant", "content": answer}],
        "prompt_format": prompts.FORMAT,
    }
    return {name: made[name] for name in SFT_COLUMNS}


def grpo_row(row: Mapping[str, Any], prompt: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The `grpo` row of a confirmed `pairs` row; `prompt` is that of its `sft` row."""
    made = {
        **row,
        "prompt": prompt,
        "given_code": row["slow_code"],
        "given_side": row["slow_side"],
        "given_us": row["slow_us"],
        "reference_speedup": row["speedup"],
        "prompt_format": prompts.FORMAT,
    }
    return {name: made[name] for name in GRPO_COLUMNS}
