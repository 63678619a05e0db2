"""What to turn when the GPU's memory is full; draws that are full."""

from __future__ import annotations

import pytest

from kcurate.train.grpo import filled, knobs
from kcurate.train.settings import GrpoSettings


@pytest.mark.parametrize(("beside", "first"), [(True, "judge.ahead=false"), (False, "grpo.micro_batch=4")])
def test_what_changes_no_result_comes_first(beside: bool, first: str) -> None:
    turns = knobs(8, GrpoSettings(), beside=beside).split("; ")
    assert first in turns[0] and "same result" in turns[0]
    assert any("grpo.micro_batch=4" in turn for turn in turns)
    assert turns[-1].startswith("--set grpo.prompts=")


@pytest.mark.parametrize("count", [4, 7, 8, 11])
def test_in_a_fixed_order_the_last_are_asked_too(count: int) -> None:
    rows = [{"task_id": str(i)} for i in range(count)]
    found = filled(rows, 4)
    assert len(found) % 4 == 0 and len(found) - count < 4
    assert found[:count] == rows
    assert all(row in rows[-4:] for row in found[count:])
