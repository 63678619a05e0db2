"""A calibration from the readings of several processes, and the margin that it gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kcurate.errors import RecordError
from kcurate.judge.timing import calibration
from kcurate.judge.timing.a_against_a import fma_pair_lasting
from kcurate.judge.timing.calibration import Calibration
from kcurate.judge.workers.messages import read_answer
from kcurate.judge.workers.timing_requests import Calibrate, ClockAnswer
from kcurate.records import Environment

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
    classes = Calibration(strays=(0.03, 0.04, 0.05, 0.06, 0.07))
    assert [classes.margin(us) for us in (31.0, 100.0, 1000.0, 1000.5)] == [0.05, 0.05, 0.06, 0.07]
    assert Calibration().graph_overhead_us == Calibration().event_overhead_us == 0.0


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"strays": [1, 2], "colour": 3}', b'{"strays": []}'])
def test_a_broken_calibration_file_is_as_none(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "cache_path", lambda _: tmp_path / "gpu.json")
    gpu = Environment("cuda", "NVIDIA H200")
    assert calibration.load(gpu) is None
    whole = Calibration(strays=(0.01,) * 5)
    calibration.save(gpu, whole)
    assert calibration.load(gpu) == whole
    (tmp_path / "gpu.json").write_bytes(content)
    assert calibration.load(gpu) is None


@pytest.mark.parametrize(("us", "rounds"), [(20.0, 2480), (0.01, 8)])
def test_the_self_test_s_kernel_fills_an_h200_for_as_long_as_asked(us: float, rounds: int) -> None:
    problem = fma_pair_lasting(us).problem
    assert problem is not None
    assert problem.sizes.headline == {"n": 132 * 8 * 256, "rounds": rounds}
