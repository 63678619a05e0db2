"""What to turn when the GPU's memory is full; draws that are full."""

from __future__ import annotations

import pytest

from kcurate.train.settings import GrpoSettings


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
