"""What to turn when the GPU's memory is full; draws that are full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcurate.core.notes import silent
from kcurate.local_models.settings import PREFILL
from kcurate.train.config import resolve
from kcurate.train.run_folder import RunFolder
from kcurate.train.settings import GrpoSettings
from kcurate.train.stopping import Stop

# The libraries below remark on what will change in them.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def test_what_changes_no_result_comes_first() -> None:
    from kcurate.train.grpo import memory_hint

    turns = memory_hint(8, GrpoSettings()).split("; ")
    assert "grpo.micro_batch=4" in turns[0] and "same result" in turns[0]
    assert turns[-1].startswith("--set grpo.prompts=")


@pytest.mark.parametrize("count", [4, 7, 8, 11])
def test_in_a_fixed_order_the_last_are_asked_too(count: int) -> None:
    from kcurate.train.grpo import padded

    rows = [{"task_id": str(i)} for i in range(count)]
    found = padded(rows, 4)
    assert len(found) % 4 == 0 and len(found) - count < 4
    assert found[:count] == rows
    assert all(row in rows[-4:] for row in found[count:])


def arguments(folder: Path, recipe: str, *sets: str) -> Any:
    settings = resolve(recipe=recipe, sets=sets)
    from kcurate.train import grpo
    from kcurate.train.driving import Stage

    return grpo.config(Stage("grpo", RunFolder(folder), settings, Stop(0), silent), 64)


def test_modern_has_no_reference_clips_higher_and_divides_by_nothing(tmp_path: Path) -> None:
    made = arguments(tmp_path, "modern")
    assert (made.beta, made.epsilon, made.epsilon_high) == (0.0, 0.2, 0.28)
    assert (made.num_generations, made.scale_rewards) == (16, "none")
    assert made.mask_truncated_completions
    plain = arguments(tmp_path, "pairs")
    assert (plain.beta, plain.epsilon_high, plain.scale_rewards) == (0.04, None, "group")


def test_grpo_samples_in_the_way_that_the_model_is_sampled(tmp_path: Path) -> None:
    static = arguments(tmp_path, "pairs", "model.sampling=static")
    continuous = arguments(tmp_path, "pairs", "model.sampling=continuous")
    ways = [
        (made.generation_kwargs, made.use_transformers_continuous_batching) for made in (static, continuous)
    ]
    rollout = PREFILL // static.generation_batch_size
    cache = {"cache_implementation": "static", "prefill_chunk_size": rollout}
    assert ways == [(cache, False), (None, True)]


@pytest.mark.parametrize(("how", "masked"), [("masked", True), ("penalised", False), ("scored", False)])
def test_truncated_completions_are_masked_penalised_or_scored(tmp_path: Path, how: str, masked: bool) -> None:
    from kcurate.train import grpo

    made = arguments(tmp_path, "pairs", f"grpo.truncated={how}")
    assert made.mask_truncated_completions == masked
    settings = GrpoSettings(truncated=how, max_completion_tokens=100)  # type: ignore[arg-type]
    found = [one(completion_ids=[[1] * n for n in (80, 90, 100)]) for one in grpo.penalties(settings)]
    assert found == ([[0.0, -0.5, -1.0]] if how == "penalised" else [])
