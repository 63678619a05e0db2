"""The plot of the card: a histogram of speedups as an SVG file without scripts or fonts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 15, 34, 48
# Each bin is a factor of sqrt(2): wide enough for a hundred pairs, narrow enough to separate 1.2 from 1.6.
BINS_PER_DOUBLING = 2


def speedups_svg(speedups: Sequence[float], title: str) -> str:
    """A histogram of speedups (slow time over fast time, all above 0) on a logarithmic axis."""
    bins = Counter(math.floor(math.log2(ratio) * BINS_PER_DOUBLING) for ratio in speedups)
    first, last = (min(bins), max(bins)) if bins else (0, 1)
    tallest = max(bins.values(), default=1)
    step = (WIDTH - _LEFT - _RIGHT) / (last - first + 1)
    floor, room = HEIGHT - _BOTTOM, HEIGHT - _TOP - _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="#24292f"><title>{escape(title)}</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for tick in _ticks(tallest):
        y = floor - room * tick / tallest
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>')
    for edge in range(first, last + 2):
        x = _LEFT + step * (edge - first)
        if edge <= last and bins[edge]:
            tall = room * bins[edge] / tallest
            parts.append(
                f'<rect x="{x + 1:.1f}" y="{floor - tall:.1f}" width="{step - 2:.1f}" height="{tall:.1f}" '
                f'fill="#0969da"><title>{_ratio(edge)} to {_ratio(edge + 1)}: {bins[edge]}</title></rect>'
            )
        if edge % BINS_PER_DOUBLING == 0:
            parts.append(f'<text x="{x:.1f}" y="{floor + 17}" text-anchor="middle">{_ratio(edge)}</text>')
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle:.0f}" y="{HEIGHT - 10}" text-anchor="middle">speedup '
        "(time of the slow side over time of the fast side)</text></svg>\n"
    )
    return "\n".join(parts)


def _ratio(edge: int) -> str:
    return f"{2 ** (edge / BINS_PER_DOUBLING):.3g}x"


def _ticks(tallest: int) -> list[int]:
    step = max(1, 10 ** math.floor(math.log10(max(1, tallest))))
    step = step if tallest / step >= 3 else max(1, step // 5 if step >= 5 else 1)
    return list(range(0, tallest + 1, step))
