"""A plot of speedups by rule, as SVG text: one row a rule, one dot a candidate, a bar at the median."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

ROW, LEFT, WIDTH, TOP = 22, 190, 660, 34
TICKS = (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
STYLE = "font-family='sans-serif' font-size='12'"


def plot(speedups: Mapping[str, Sequence[float]]) -> str:
    """An SVG with a logarithmic axis; rows in the order given, without those that have no value."""
    rows = [(name, sorted(values)) for name, values in speedups.items() if values]
    everything = [value for _, values in rows for value in values] or [1.0]
    low = math.floor(math.log2(min(0.9, min(everything))))
    high = math.ceil(math.log2(max(2.1, max(everything))))

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - 20) * (math.log2(value) - low) / (high - low)

    bottom = TOP + ROW * len(rows)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{bottom + 40}' {STYLE}>",
        f"<rect width='{WIDTH}' height='{bottom + 40}' fill='white'/>",
        f"<text x='{LEFT}' y='18'>speedup of the fast side, by the rule that made the slow one</text>",
    ]
    for tick in (tick for tick in TICKS if low <= math.log2(tick) <= high):
        line = "#888" if tick == 1 else "#ddd"
        parts.append(
            f"<line x1='{x(tick):.1f}' x2='{x(tick):.1f}' y1='{TOP - 6}' y2='{bottom}' stroke='{line}'/>"
        )
        parts.append(f"<text x='{x(tick):.1f}' y='{bottom + 18}' text-anchor='middle'>{tick:g}</text>")
    for number, (name, values) in enumerate(rows):
        y = TOP + ROW * number + ROW // 2
        parts.append(f"<text x='{LEFT - 34}' y='{y + 4}' text-anchor='end'>{name}</text>")
        parts.append(f"<text x='{LEFT - 8}' y='{y + 4}' text-anchor='end' fill='#888'>{len(values)}</text>")
        parts += [f"<circle cx='{x(v):.1f}' cy='{y}' r='3' fill='#36c' fill-opacity='0.45'/>" for v in values]
        middle = x(statistics.median(values))
        place = f"x1='{middle:.1f}' x2='{middle:.1f}' y1='{y - 8}' y2='{y + 8}'"
        parts.append(f"<line {place} stroke='#c33' stroke-width='2'/>")
    return "\n".join([*parts, "</svg>", ""])
