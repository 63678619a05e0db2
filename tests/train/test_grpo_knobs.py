"""What to turn when the GPU's memory is full."""

from __future__ import annotations

import pytest

from kcurate.train.grpo import knobs
from kcurate.train.settings import GrpoSettings


@pytest.mark.parametrize(("beside", "first"), [(True, "judge.ahead=false"), (False, "grpo.micro_batch=4")])
def test_what_changes_no_result_comes_first(beside: bool, first: str) -> None:
    turns = knobs(8, GrpoSettings(), beside=beside).split("; ")
    assert first in turns[0] and "same result" in turns[0]
    assert any("grpo.micro_batch=4" in turn for turn in turns)
    assert turns[-1].startswith("--set grpo.prompts=")
