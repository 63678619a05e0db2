"""A calibration from the readings of several processes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcurate.errors import RecordError
from kcurate.judge.timing import calibration
from kcurate.judge.workers.messages import Calibrate, ClockAnswer, read_answer

READ = ClockAnswer(copy_bytes_per_s=4e12, event_overhead_us=1.8, chain_overhead_us=3.2, chain_step_us=-0.9)


def test_the_median_of_several_readings_counts() -> None:
    steps = (-0.4, -0.9, 2.0, -0.8, -0.7)
    found = calibration.from_readings([replace(READ, chain_step_us=step) for step in steps])
    assert found.chain_step_us == -0.7
    assert found.copy_bytes_per_s == 4e12
    assert found.source == "measured"


def test_an_incomplete_reading_is_refused() -> None:
    with pytest.raises(RecordError):
        read_answer(Calibrate, {"copy_bytes_per_s": 1.0})
