"""A calibration from the readings of several processes, and the margin that it gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcurate.errors import RecordError
from kcurate.judge.timing import calibration
from kcurate.judge.timing.calibration import Calibration
from kcurate.judge.workers.messages import Calibrate, ClockAnswer, read_answer

READ = ClockAnswer(copy_bytes_per_s=4e12, event_overhead_us=1.8, graph_overhead_us=2.1)


def test_the_median_of_several_readings_counts() -> None:
    overheads = (1.4, 1.9, 4.0, 1.8, 1.7)
    found = calibration.from_readings([replace(READ, graph_overhead_us=one) for one in overheads])
    assert found.graph_overhead_us == 1.8
    assert found.copy_bytes_per_s == 4e12
    assert found.source == "measured"


def test_an_incomplete_reading_is_refused() -> None:
    with pytest.raises(RecordError):
        read_answer(Calibrate, {"copy_bytes_per_s": 1.0})


def test_the_margin_covers_what_processes_differ_by_and_what_the_self_test_saw() -> None:
    found = Calibration(strays=(0.001, 0.001, 0.05, 0.001, 0.001))
    assert found.margin(5.0) == pytest.approx(0.06)
    assert found.margin(15.0) == found.margin(500.0) == 0.02
    assert found.margin(60.0) == 0.05
    assert Calibration().margin(10.0) == pytest.approx(0.03)
