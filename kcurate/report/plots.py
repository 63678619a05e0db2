"""The summary plots as SVG; colours are CSS variables of the page, for light and dark mode.

Every plot has a title, and every dot and bar a tooltip. Screen readers find the same numbers in the table.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

WIDTH = 760
ROW = 22
LEFT = 210
# Only the largest groups are shown; more do not fit.
MAX_GROUPS = 40
# With more pairs the whiskers would overlap, so only every n-th pair is shown.
MAX_WHISKERS = 800
# At most this many dots are drawn for a group; its bar and median are computed from all pairs.
MAX_DOTS = 200
# The lower end of the axis: kernels with a smaller share of the copy bandwidth are not limited by memory.
SMALLEST_SHARE = 0.001

Line = Mapping[str, Any]


@dataclass(frozen=True)
class LogScale:
    """Maps values from `low` to `high` (both above 0) to positions from `start` to `end`, logarithmically."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The position of a value; values outside are clipped."""
        clipped = min(max(value, self.low), self.high)
        share = math.log(clipped / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """1, 2 and 5 times every power of ten; only the powers if there are many decades."""
        steps = (1, 2, 5) if self.high / self.low < 1000 else (1,)
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = [step * 10.0**decade for decade in decades for step in steps]
        return [value for value in values if self.low <= value <= self.high]


def log_scale(values: Sequence[float], start: float, end: float) -> LogScale:
    """A scale with a margin around all values; 1 to 10 if there are none."""
    low, high = (min(values) / 1.1, max(values) * 1.1) if values else (1.0, 10.0)
    return LogScale(low, max(high, low * 1.5), start, end)


def ladder(lines: Sequence[Line]) -> str:
    """All speedups in order, with their intervals."""
    rungs = sorted((line for line in lines if line["speedup"]), key=lambda line: float(line["speedup"]))
    step = max(1, -(-len(rungs) // MAX_WHISKERS))
    rungs = rungs[::step]
    height, floor, left = 300, 270, 56
    ends = [value for line in rungs for value in (line["low"], line["high"])]
    place = log_scale(ends, floor, 12)
    every = f"; every {step}th is shown" if step > 1 else ""
    parts = [_open(height, f"Speedups with their intervals, in order{every}")]
    parts += _y_axis(place, {tick: f"{tick:g}x" for tick in place.ticks()}, left)
    across = (WIDTH - left - 20) / max(1, len(rungs))
    for number, line in enumerate(rungs):
        x = left + 6 + across * (number + 0.5)
        whisker = f'<path d="M{x:.1f} {place(line["low"]):.1f}V{place(line["high"]):.1f}"/>'
        parts.append(_dot(line, x, place(line["speedup"]), 3, _tooltip(line), whisker))
    return "\n".join([*parts, _close("pairs by speedup", height - 8)])


def by_group(lines: Sequence[Line], noun: str, names: Callable[[Line], Iterable[str]]) -> str:
    """For each group the speedups as dots, the interquartile range as a bar, and the median as a line."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        if line["speedup"]:
            for name in names(line):
                groups.setdefault(name, []).append(line)
    largest = sorted(groups, key=lambda name: (-len(groups[name]), name))[:MAX_GROUPS]
    place = log_scale([line["speedup"] for line in lines if line["speedup"]], LEFT, WIDTH - 16)
    medians = {name: statistics.median(line["speedup"] for line in groups[name]) for name in largest}
    ordered = sorted(largest, key=lambda name: -medians[name])
    height = ROW * len(ordered) + 40
    parts = [_open(height, f"Speedups by {noun}: dots, interquartile range, median")]
    for tick in place.ticks():
        parts.append(f'<path class="grid" d="M{place(tick):.1f} 6V{height - 28}"/>')
        parts.append(f'<text x="{place(tick):.1f}" y="{height - 12}" text-anchor="middle">{tick:g}x</text>')
    for number, name in enumerate(ordered):
        parts += _group(name, groups[name], place, 6 + ROW * (number + 0.5))
    return "\n".join([*parts, "</svg>"])


def _group(name: str, group: Sequence[Line], place: LogScale, y: float) -> Iterator[str]:
    ratios = [float(line["speedup"]) for line in group]
    first, middle, last = (
        statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    )
    tooltip = (
        f"{name}: {len(group)} pairs, median {middle:.2f}, interquartile range {first:.2f} to {last:.2f}"
    )
    yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(name)} ({len(group)})</text>'
    yield (
        f'<g><title>{escape(tooltip)}</title><rect class="half" x="{place(first):.1f}" y="{y - 7:.1f}" '
        f'width="{max(2.0, place(last) - place(first)):.1f}" height="14"/>'
        f'<path class="median" d="M{place(middle):.1f} {y - 8:.1f}v16"/></g>'
    )
    for line in group[:MAX_DOTS]:
        yield _dot(line, place(line["speedup"]), y, 2.5, _tooltip(line))


def _dot(line: Line, x: float, y: float, radius: float, tooltip: str, whisker: str = "") -> str:
    """A dot with a tooltip; clicking it opens its pair."""
    return (
        f'<g class="dot" data-id="{escape(line["id"])}"><title>{escape(tooltip)}</title>{whisker}'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/></g>'
    )


def bandwidth(lines: Sequence[Line]) -> str:
    """The fast sides: share of their GPU's copy bandwidth over their time; the roof is at 100%."""
    timed = [line for line in lines if line["copy"] and line["fast_us"]]
    height, floor, left = 320, 280, 60
    across = log_scale([line["fast_us"] for line in timed], left + 8, WIDTH - 12)
    up = LogScale(SMALLEST_SHARE, max([1.2, *(line["copy"] * 1.1 for line in timed)]), floor, 12)
    parts = [_open(height, "Share of the measured copy bandwidth that the fast sides reach")]
    shares = (SMALLEST_SHARE, 0.01, 0.1, 0.5, 1.0)
    parts += _y_axis(up, {share: f"{share:.1%}" for share in shares}, left, roof=1.0)
    parts += _x_axis(across, floor)
    for line in timed:
        tooltip = f"{line['id']}: {line['copy']:.1%} of copy bandwidth, {line['fast_us']:g} us"
        parts.append(_dot(line, across(line["fast_us"]), up(line["copy"]), 3.5, tooltip))
    label = "time of the fast side in microseconds; dashed: copy bandwidth; values below 0.1% are on the axis"
    return "\n".join([*parts, _close(label, height - 6)])


def roofline(lines: Sequence[Line]) -> str:
    """Operations per second over operations per byte of device memory, as counted; the roof is the copy
    bandwidth."""
    height, floor, left = 320, 280, 60
    roof = max(line["roofline"][2] for line in lines)
    across = log_scale([line["roofline"][0] for line in lines], left + 8, WIDTH - 12)
    up = log_scale([*(line["roofline"][1] for line in lines), roof * across.low], floor, 12)
    parts = [_open(height, "Floating-point operations a second over operations a byte")]
    powers_of_ten = [tick for tick in up.ticks() if f"{tick:e}".startswith("1")]
    parts += _y_axis(up, {tick: f"{tick:.0e}" for tick in powers_of_ten}, left)
    parts += _x_axis(across, floor)
    top = min(across.high, up.high / roof)
    parts.append(
        f'<path class="roof" d="M{across(across.low):.1f} {up(roof * across.low):.1f}'
        f'L{across(top):.1f} {up(roof * top):.1f}"/>'
    )
    for line in lines:
        intensity, rate, _ = line["roofline"]
        tooltip = f"{line['id']}: {intensity:.3g} operations a byte, {rate / 1e9:.4g} Gflop/s"
        parts.append(_dot(line, across(intensity), up(rate), 3.5, tooltip))
    label = "operations a byte of device memory, without tensor cores; dashed: copy bandwidth"
    return "\n".join([*parts, _close(label, height - 6)])


def _open(height: float, title: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'


def _close(label: str, y: float) -> str:
    """The label below the horizontal axis, and the end of the plot."""
    return f'<text x="{WIDTH / 2:.0f}" y="{y}" text-anchor="middle">{label}</text></svg>'


def _y_axis(
    up: LogScale, labels: Mapping[float, str], left: float, roof: float | None = None
) -> Iterator[str]:
    """A line and a label for each tick; the line at `roof` has another style."""
    for tick, label in labels.items():
        style = "roof" if tick == roof else "grid"
        yield f'<path class="{style}" d="M{left} {up(tick):.1f}H{WIDTH - 8}"/>'
        yield f'<text x="{left - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{label}</text>'


def _x_axis(across: LogScale, floor: float) -> Iterator[str]:
    for tick in across.ticks():
        yield f'<text x="{across(tick):.1f}" y="{floor + 16}" text-anchor="middle">{tick:g}</text>'


def _tooltip(line: Line) -> str:
    return f"{line['id']}: {line['speedup']:.2f}x ({line['low']:.2f} to {line['high']:.2f})"
