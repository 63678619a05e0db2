"""Order in which settings are tried: random sampling, or hill climbing from the side's own setting.

A strategy asks for the score of a setting, higher is better (None: it is wrong there, or not timed), until it
has no more to ask or `score` raises, as the caller does when no trials are left. Two are in Kernel Tuner too
(van Werkhoven, 2019): random sampling, and greedy hill climbing over neighbours, one knob at its next value.
The third tries given settings, such as those that a kernel's author lists. Not covered: scores.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

from kcurate.tune.knobs import Knob

Setting = Mapping[str, int]
Score = Callable[[Setting], float | None]
# A neighbour counts as better from here on: less is noise between judgements.
LEAST_GAIN = 0.01


def start(knobs: Sequence[Knob]) -> Setting:
    """The side's own setting."""
    return {knob.name: knob.value for knob in knobs}


def sample(knobs: Sequence[Knob], score: Score, rng: random.Random) -> None:
    """Settings in random order, without repeats, after the side's own."""
    score(start(knobs))
    seen: set[tuple[int, ...]] = set()
    total = math.prod(len(knob.values) for knob in knobs)
    while len(seen) < total:
        values = tuple(rng.choice(knob.values) for knob in knobs)
        if values not in seen:
            seen.add(values)
            score({knob.name: value for knob, value in zip(knobs, values, strict=True)})


def climb(knobs: Sequence[Knob], score: Score, rng: random.Random) -> None:
    """From the side's own setting to the first better neighbour, again and again."""
    at = start(knobs)
    best = score(at) or 0.0  # without a score of its own, any scored neighbour is better
    better = True
    while better:
        better = False
        moves = [(knob.name, value) for knob in knobs for value in knob.near(at[knob.name])]
        rng.shuffle(moves)
        for name, value in moves:
            neighbour_score = score({**at, name: value})
            if neighbour_score is not None and neighbour_score > best * (1 + LEAST_GAIN):
                at, best, better = {**at, name: value}, neighbour_score, True
                break


def each(settings: Sequence[Setting]) -> Strategy:
    """The side's own setting, then these."""

    def strategy(knobs: Sequence[Knob], score: Score, _: random.Random) -> None:
        for setting in (start(knobs), *settings):
            score({knob.name: setting[knob.name] for knob in knobs})

    return strategy


Strategy = Callable[[Sequence[Knob], Score, random.Random], None]
STRATEGIES: Mapping[str, Strategy] = {"greedy": climb, "random": sample}
