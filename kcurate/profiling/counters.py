"""The counters of a profile, the metrics of each, and how the values of several launches combine.

Example: `l2_hit_pct` is 100 times the sum of `lts__t_sectors_lookup_hit.sum` over a side's launches over that
of `lts__t_sectors.sum`. Metric names are those of Nsight Compute (Profiling Guide, "Metrics Decoder"). Not
covered: the tool's output (`kcurate.profiling.ncu`), counting (`kcurate.profiling.profiler`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kcurate.core import resources
from kcurate.records import Profile, SideName

# Part of every profile's key; change it with the counters, so that older profiles become stale.
VERSION = "1"
DURATION, INSTRUCTIONS = "gpu__time_duration.sum", "smsp__inst_executed.sum"
# Significant digits that a profile keeps.
_DIGITS = 6


class Rule(StrEnum):
    """How the values of several launches are combined.

    `sum`: they are added. `ratio`: the sum of one metric over the sum of another. `by_time`,
    `by_instructions`: the mean, weighted by the duration or the warp instructions of each launch.
    """

    SUM = "sum"
    RATIO = "ratio"
    BY_TIME = "by_time"
    BY_INSTRUCTIONS = "by_instructions"


@dataclass(frozen=True)
class Counter:
    """One counter: the sum of `metrics` (for a ratio, over the sum of `over`), times `factor`.

    `text` is part of the prompts of `explained` rows; changing it changes these rows. `fallback`: a metric to
    use instead of `metrics` if the GPU lacks one of them.
    """

    name: str
    unit: str
    text: str
    rule: Rule
    metrics: tuple[str, ...]
    over: tuple[str, ...] = ()
    factor: float = 1.0
    fallback: str | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        """All metrics that it may read."""
        return (*self.metrics, *self.over, *([self.fallback] if self.fallback else []))


COUNTERS: tuple[Counter, ...] = tuple(
    Counter(
        name=name,
        rule=Rule(entry.pop("rule")),
        metrics=tuple(entry.pop("metrics")),
        over=tuple(entry.pop("over", ())),
        **entry,
    )
    for name, entry in resources.table("kcurate.profiling", "counters.toml").items()
)
BY_NAME: Mapping[str, Counter] = {counter.name: counter for counter in COUNTERS}


@dataclass(frozen=True)
class Counted:
    """The metrics of one profiled launch, which represents `weight` launches of its kernel."""

    weight: float
    metrics: Mapping[str, float]


def metrics(available: Collection[str] = ()) -> list[str]:
    """The metrics to request, each once, among those `available` (base names; empty: unknown)."""
    names = dict.fromkeys(name for counter in COUNTERS for name in counter.needed)
    return [name for name in names if not available or name.partition(".")[0] in available]


def of_side(launches: Sequence[Counted]) -> dict[str, float]:
    """The counters of a side from its profiled launches; those that cannot be computed are missing."""
    values = {counter.name: _value(counter, launches) for counter in COUNTERS}
    return capped(
        {name: float(f"{value:.{_DIGITS}g}") for name, value in values.items() if value is not None}
    )


def capped(values: Mapping[str, float]) -> dict[str, float]:
    """The counters of a side, with percentages capped at 100%.

    The profiler counts numerator and denominator of a percentage in different replays of a launch. If both
    are nearly equal (L2 hits and all L2 sectors), the ratio can exceed 100%: by up to 6.5% in 14 of 1,616
    profiles.
    """
    return {
        name: min(value, 100.0) if name in BY_NAME and BY_NAME[name].unit == "%" else value
        for name, value in values.items()
    }


def _value(counter: Counter, launches: Sequence[Counted]) -> float | None:
    values = [_of_launch(counter.metrics, launch, counter.fallback) for launch in launches]
    if not launches or None in values:
        return None
    return _combined(counter, [value for value in values if value is not None], launches)


def _combined(counter: Counter, values: Sequence[float], launches: Sequence[Counted]) -> float | None:
    if counter.rule is Rule.SUM:
        return counter.factor * sum(
            launch.weight * value for launch, value in zip(launches, values, strict=True)
        )
    names = {Rule.BY_TIME: (DURATION,), Rule.BY_INSTRUCTIONS: (INSTRUCTIONS,)}.get(counter.rule, counter.over)
    weights = [_of_launch(names, launch) for launch in launches]
    if None in weights:
        return None
    shares = [launch.weight * (weight or 0.0) for launch, weight in zip(launches, weights, strict=True)]
    total = sum(shares)
    if not total:
        return None
    if counter.rule is Rule.RATIO:
        summed = sum(launch.weight * value for launch, value in zip(launches, values, strict=True))
        return counter.factor * summed / total
    return counter.factor * sum(share * value for share, value in zip(shares, values, strict=True)) / total


def _of_launch(names: Sequence[str], launch: Counted, fallback: str | None = None) -> float | None:
    """The sum of a launch's metrics; None if one is missing."""
    if all(name in launch.metrics for name in names):
        return sum(launch.metrics[name] for name in names)
    return launch.metrics.get(fallback) if fallback else None


def shown(name: str, value: float) -> str:
    """A counter's value with its unit, as text."""
    unit = BY_NAME[name].unit if name in BY_NAME else ""
    if unit == "%":
        return f"{value:.3g}%"
    if unit in ("us", "cycles", "sectors"):
        text = f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
    else:
        text = next(_scaled(value, unit))
    return text.removesuffix("s") if text.startswith("1 ") and unit != "us" else text


def compared(sides: Mapping[SideName, Profile]) -> list[tuple[str, str, str]]:
    """For each counter its name and its values on the slow and on the fast side."""
    slow, fast = sides.get("slow"), sides.get("fast")
    measured = [
        counter for counter in BY_NAME if any(counter in profile.counters for profile in sides.values())
    ]
    first, second = ("" if side is None else str(side.launches) for side in (slow, fast))
    return [("launches", first, second), *((name, _of(slow, name), _of(fast, name)) for name in measured)]


def _of(side: Profile | None, name: str) -> str:
    return shown(name, side.counters[name]) if side is not None and name in side.counters else ""


def _scaled(value: float, unit: str) -> Iterator[str]:
    for limit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            yield (
                f"{value / limit:.3g} {prefix}{unit}"
                if unit == "B"
                else f"{value / limit:.3g}{prefix} {unit}"
            )
    yield f"{value:.3g} {unit}".rstrip()
