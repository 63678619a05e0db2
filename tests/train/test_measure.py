"""Scores are drawn as GRPO draws."""

from __future__ import annotations

from typing import Any

from kcurate.train import measure
from kcurate.train.config import resolve


class Draws:
    """Remembers how it was asked to draw."""

    def generate(self, **given: Any) -> dict[str, Any]:
        return given


def test_a_models_own_ways_of_drawing_do_not_count() -> None:
    settings = resolve(sets=["measure.temperature=0.7", "grpo.max_completion_tokens=99"])
    given = measure._generate(Draws(), {}, settings, 0)
    assert (given["temperature"], given["top_p"], given["top_k"]) == (0.7, 1.0, 0)
    assert given["repetition_penalty"] == 1.0
    assert given["max_new_tokens"] == 99
