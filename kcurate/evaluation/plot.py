"""The plot of a comparison: each difference with its interval, and what the comparison could have found.

An SVG file without scripts or fonts. Not covered: the numbers (`comparing`).
"""

from __future__ import annotations

from html import escape

from kcurate.evaluation.comparing import Comparison

WIDTH, ROW = 720, 30
_LEFT, _RIGHT, _TOP, _BOTTOM = 120, 175, 62, 40


def svg(comparison: Comparison, first: str, second: str) -> str:
    """The second less the first: a line per number, on one axis; grey reaches to `detectable`."""
    title = f"{second} less {first}: {comparison.tasks} tasks of {comparison.families} families"
    rows = comparison.differences
    ends = [abs(end) for row in rows for end in (row.difference.low, row.difference.high) if end is not None]
    ends += [abs(row.difference.value) for row in rows] + [row.detectable or 0.0 for row in rows]
    most = max(ends, default=0.0) * 1.05 or 1.0
    height = _TOP + ROW * len(rows) + _BOTTOM
    room = (WIDTH - _LEFT - _RIGHT) / 2
    middle = _LEFT + room

    def at(value: float) -> float:
        return middle + room * value / most

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="#24292f"><title>{escape(title)}</title>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="20" font-size="14">{escape(title)}</text>',
        '<text x="12" y="38">grey: less than a comparison of this size finds four times in five</text>',
    ]
    floor = height - _BOTTOM
    for tick in (-most / 1.05, 0.0, most / 1.05):
        x = at(tick)
        parts.append(f'<path d="M{x:.1f} {_TOP - 8}V{floor}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{x:.1f}" y="{floor + 17}" text-anchor="middle">{tick:+.2g}</text>')
    for place, row in enumerate(rows):
        y = _TOP + ROW * place + ROW / 2
        if row.detectable is not None:
            left, wide = at(-row.detectable), at(row.detectable) - at(-row.detectable)
            parts.append(
                f'<rect x="{left:.1f}" y="{y - 9:.1f}" width="{wide:.1f}" height="18" fill="#eaeef2"/>'
            )
        value, low, high = row.difference.value, row.difference.low, row.difference.high
        if low is not None and high is not None:
            across = f"M{at(low):.1f} {y:.1f}H{at(high):.1f}"
            parts.append(f'<path d="{across}" stroke="#0969da" stroke-width="2"/>')
        parts.append(f'<circle cx="{at(value):.1f}" cy="{y:.1f}" r="4" fill="#0969da"/>')
        parts.append(f'<text x="12" y="{y + 4:.1f}">{escape(row.name)}</text>')
        parts.append(f'<text x="{WIDTH - _RIGHT + 12}" y="{y + 4:.1f}">{row.difference.shown("+.3f")}</text>')
    return "\n".join([*parts, "</svg>\n"])
