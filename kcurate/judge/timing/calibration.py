"""What one GPU's clock and memory are like: measured once, kept, and used for margins and floors.

Copy bandwidth (our own kernel, bytes read plus written), what an event pair costs around nothing, and by
duration class how far a kernel timed against its own copy strays at most. Kept in the user's cache folder per
GPU, driver and protocol. Not covered: taking the A-against-A times (`kcurate.judge.timing.a_against_a`).
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

from kcurate import codec, store
from kcurate.errors import RecordError
from kcurate.judge.timing.statistics import MIN_MARGIN
from kcurate.judge.workers.messages import ClockAnswer
from kcurate.records import Environment

VERSION = 4
# Fresh processes that read the clock.
PROCESSES = 5
# Upper ends of the duration classes, in microseconds; the last has none.
CLASSES_US = (10.0, 30.0, 100.0, 1000.0)


@dataclass(frozen=True)
class Calibration:
    """Readings of one GPU. `strays`: the self-test's largest |ratio - 1|, one entry a duration class."""

    copy_bytes_per_s: float = 0.0
    event_overhead_us: float = 0.0
    chain_overhead_us: float = 0.0
    chain_step_us: float = 0.0
    strays: tuple[float, ...] = ()
    source: str = "default"

    def margin(self, duration_us: float) -> float:
        """What a claimed difference must exceed for sides of this duration."""
        if not self.strays:
            return MIN_MARGIN
        index = min(bisect.bisect_left(CLASSES_US, duration_us), len(self.strays) - 1)
        return max(MIN_MARGIN, self.strays[index])


def from_readings(read: Sequence[ClockAnswer]) -> Calibration:
    """The middle of what workers read (`kcurate.backends.cuda.clock`), before the self-test."""
    names = [one.name for one in dataclasses.fields(ClockAnswer)]
    middle = {name: statistics.median(getattr(one, name) for one in read) for name in names}
    return Calibration(**middle, source="measured")


def cache_path(environment: Environment) -> Path:
    """Where this GPU's calibration is kept."""
    import platformdirs

    name = store.content_id(
        str(VERSION), str(environment.device_uuid), str(environment.driver), environment.device
    )
    return Path(platformdirs.user_cache_dir("kcurate")) / "calibration" / f"{name}.json"


def load(environment: Environment) -> Calibration | None:
    """What was measured on this GPU earlier; None when nothing usable is there."""
    try:
        data: dict[str, Any] = json.loads(cache_path(environment).read_bytes())
        found = codec.from_data(Calibration, data)
    except (OSError, ValueError, RecordError):
        return None
    return found if found.strays and all(map(math.isfinite, found.strays)) else None


def save(environment: Environment, calibration: Calibration) -> None:
    """Keep it.

    Raises:
        InputError: the cache folder cannot be written.
    """
    store.write_bytes(cache_path(environment), store.pretty_json(asdict(calibration)))
