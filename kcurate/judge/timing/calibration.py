"""One GPU's calibration, measured once and cached: overheads, copy bandwidth, and the margin of a speedup.

The margin depends on the duration: it is the largest deviation of a kernel timed against its own copy. The
cache is in the user's cache folder, per GPU, driver and `VERSION`. Not covered: the readings
(`kcurate.backends.cuda.clock`), the self-test (`kcurate.judge.timing.a_against_a`).
"""

from __future__ import annotations

import bisect
import dataclasses
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kcurate.core import codec, store
from kcurate.errors import RecordError
from kcurate.judge.gpu_lock import GpuLock
from kcurate.judge.timing.statistics import MIN_MARGIN
from kcurate.judge.workers.spares import RunWorkerPool
from kcurate.judge.workers.timing_requests import Calibrate, ClockAnswer
from kcurate.records import Environment

VERSION = 6
# How much the readings of two processes may differ on a kernel of any length: three standard deviations of
# the difference (our measurements, fresh processes, H100 and H200, November 2026).
RESOLUTION_US = 0.3
# Fresh processes that measure the readings.
PROCESSES = 5
# Upper bounds of the duration classes; the last class has none.
CLASSES_US = (10.0, 30.0, 100.0, 1000.0)


@dataclass(frozen=True)
class Calibration:
    """Readings of one GPU. `strays`: the self-test's largest |ratio - 1| per duration class."""

    copy_bytes_per_s: float = 0.0
    event_overhead_us: float = 0.0
    graph_overhead_us: float = 0.0
    strays: tuple[float, ...] = ()
    source: str = "default"

    def margin(self, duration_us: float) -> float:
        """The relative difference that a speedup must exceed for sides of this duration."""
        least = max(MIN_MARGIN, RESOLUTION_US / duration_us)
        if not self.strays:
            return least
        index = min(bisect.bisect_left(CLASSES_US, duration_us), len(self.strays) - 1)
        return max(least, self.strays[index])


def measure(pool: RunWorkerPool, lock: GpuLock) -> Calibration:
    """Readings of several processes, since an event pair's overhead varies from process to process."""
    readings = []
    for _ in range(PROCESSES):
        proxy = pool.fresh("slow")
        try:
            with lock.exclusive():
                pool.load_helpers(proxy)
                readings.append(proxy.call(Calibrate()).body)
        finally:
            proxy.worker.kill()
    return from_readings(readings)


def from_readings(read: Sequence[ClockAnswer]) -> Calibration:
    """The medians of several workers' readings, without the self-test."""
    names = [one.name for one in dataclasses.fields(ClockAnswer)]
    medians = {name: statistics.median(getattr(one, name) for one in read) for name in names}
    return Calibration(**medians, source="measured")


def cache_path(environment: Environment) -> Path:
    """The cache file of this GPU's calibration."""
    import platformdirs

    name = store.content_id(
        str(VERSION), str(environment.device_uuid), str(environment.driver), environment.device
    )
    return Path(platformdirs.user_cache_dir("kcurate")) / "calibration" / f"{name}.json"


def load(environment: Environment) -> Calibration | None:
    """The cached calibration; None if there is no valid one."""
    try:
        data: dict[str, Any] = json.loads(cache_path(environment).read_bytes())
        calibration = codec.from_data(Calibration, data)
    except (OSError, ValueError, RecordError):
        return None
    return calibration if calibration.strays and all(map(math.isfinite, calibration.strays)) else None


def save(environment: Environment, calibration: Calibration) -> None:
    """Write the calibration to the cache.

    Raises:
        InputError: the cache folder cannot be written.
    """
    store.write_bytes(cache_path(environment), store.pretty_json(asdict(calibration)))
