"""Rows of `preferences`: two right answers to one prompt, by different techniques; the faster one is chosen.

An answer is any proved side of a problem, also a slow one if the prompt shows another side. One is faster
than another if a verdict on both says so, or if two verdicts against the same given side have disjoint
intervals. If the two are in different languages, the prompt leaves the language open. Not covered: judging.

So that neither length nor language predicts the choice, each split has, for each combination of languages of
the longer and the shorter answer, as many pairs in which the longer answer is chosen as pairs in which the
shorter one is. All of the rarer kind are taken; of the other kind first one of each problem, then a second
one, pairs of two fast sides before others, the rest by hash. No text is changed.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kcurate.core import store
from kcurate.problem import shown
from kcurate.problem.lessons import RULE_GAIN, Proved, completion_of, unasked
from kcurate.records import Language, Prompt, Side, SideName

_Rows = Mapping[str, Mapping[str, Any]]
_Languages = tuple[Language, Language]


@dataclass(frozen=True)
class Ordered:
    """Two sides of a problem, and how many times as long the slower one takes, with an interval.

    The faster one is the fast side of `better`; the slower one is the side `side` of `worse`.
    """

    better: Proved
    worse: Proved
    side: SideName
    ratio: float
    low: float
    high: float

    @property
    def chosen(self) -> Side:
        """The faster one."""
        return self.better.pair.fast

    @property
    def rejected(self) -> Side:
        """The slower one."""
        return self.worse.pair.fast if self.side == "fast" else self.worse.pair.slow

    @property
    def open(self) -> bool:
        """Whether the two answers are in different languages."""
        return self.chosen.language != self.rejected.language

    @property
    def hash(self) -> str:
        """A hash of the pairs' ids, by which pairs are drawn in a pseudo-random order."""
        return store.content_id(self.better.pair.id, self.worse.pair.id, self.side)


@dataclass(frozen=True)
class Preference:
    """A prompt and two answers to it."""

    of: Ordered
    prompt: Prompt
    chosen: str
    rejected: str

    @property
    def longer(self) -> bool:
        """Whether the chosen answer is the longer one, in characters."""
        return len(self.chosen) > len(self.rejected)

    @property
    def languages(self) -> _Languages:
        """The language of the longer answer, and of the shorter one."""
        chosen, rejected = self.of.chosen.language, self.of.rejected.language
        return (chosen, rejected) if self.longer else (rejected, chosen)


def preferences(proved: Iterable[Proved], rows: _Rows) -> list[Preference]:
    """The preferences of one split, sorted by the ids of their pairs; `rows`: of `pairs`, by id."""
    proofs_by_problem: dict[tuple[str, str, str], list[Proved]] = defaultdict(list)
    for proof in proved:
        if proof.interval is not None and unasked(proof.pair) is None:
            proofs_by_problem[proof.pair.family, rows[proof.pair.id]["problem"], proof.gpu].append(proof)
    balanced: list[Preference] = []
    kinds: dict[tuple[_Languages, bool], list[tuple[int, Preference]]] = defaultdict(list)
    for group in proofs_by_problem.values():
        earlier = Counter[tuple[_Languages, bool]]()
        for pair in sorted(_ordered(group), key=lambda pair: (pair.side == "slow", pair.hash)):
            preference = _preference(pair, group, rows)
            if preference is not None and len(preference.chosen) != len(preference.rejected):
                kind = preference.languages, preference.longer
                kinds[kind].append((earlier[kind], preference))
                earlier[kind] += 1
    for languages in sorted({languages for languages, _ in kinds}):
        by_longer = [kinds[languages, longer] for longer in (False, True)]
        for ranked in by_longer:
            ranked.sort(key=lambda at: (at[0], at[1].of.side == "slow", at[1].of.hash))
            balanced += [preference for _, preference in ranked[: min(map(len, by_longer))]]
    return sorted(balanced, key=lambda row: (row.of.better.pair.id, row.of.worse.pair.id, row.of.side))


def _ordered(group: Sequence[Proved]) -> Iterator[Ordered]:
    """Pairs of sides of one problem of which one is proved faster on one GPU model; each pair once."""
    seen: set[tuple[str, str, str, str]] = set()
    for pair in itertools.chain(_by_one_verdict(group), _by_two_verdicts(group)):
        texts = (*_text(pair.chosen), *_text(pair.rejected))
        if texts not in seen and pair.chosen.code != pair.rejected.code:
            seen.add(texts)
            yield pair


def _text(side: Side) -> tuple[str, str]:
    """A side's code and launch data, by which equal answers are recognised."""
    return side.code, str(shown.launch_data(side))


def _by_one_verdict(group: Iterable[Proved]) -> Iterator[Ordered]:
    """The fast side of each pair before its own slow side, if they differ in technique or language."""
    for proof in group:
        assert proof.speedup is not None and proof.interval is not None, "it was timed"
        pair = proof.pair
        another_way = pair.techniques or pair.slow.language != pair.fast.language
        if another_way and (not _is_made_slow(proof) or proof.speedup >= RULE_GAIN):
            yield Ordered(proof, proof, "slow", proof.speedup, *proof.interval)


def _is_made_slow(proof: Proved) -> bool:
    """Whether the slow side was made from the fast one."""
    return proof.pair.origin.made == "slow"


def _by_two_verdicts(group: Iterable[Proved]) -> Iterator[Ordered]:
    """The fast sides of two pairs with one slow side, if their intervals show which is faster."""
    for better, worse in itertools.permutations(group, 2):
        if better.pair.slow != worse.pair.slow or _ways(better) == _ways(worse):
            continue
        assert better.speedup and worse.speedup and better.interval and worse.interval, "both were timed"
        low, high = better.interval[0] / worse.interval[1], better.interval[1] / worse.interval[0]
        if low > 1:
            yield Ordered(better, worse, "fast", better.speedup / worse.speedup, low, high)


def _ways(proof: Proved) -> tuple[str, frozenset[str], tuple[str, ...]]:
    """The language, techniques and schedules of a fast side, by which answers count as different."""
    return proof.pair.fast.language, frozenset(proof.pair.techniques), proof.pair.origin.rules


def _preference(pair: Ordered, group: Iterable[Proved], rows: _Rows) -> Preference | None:
    """Both sides as answers to one prompt; None if there is no third side that the prompt can show."""
    given_side = _given(pair, group, rows)
    problem = pair.better.pair.problem
    if given_side is None or problem is None:
        return None
    shown_pair = replace(pair.better.pair, slow=given_side)
    sides = (replace(shown_pair, fast=side) for side in (pair.chosen, pair.rejected))
    chosen, rejected = (completion_of(candidate, whole=pair.open) for candidate in sides)
    if chosen is None or rejected is None:
        return None
    gpu = pair.better.where
    if pair.open:
        prompt = shown.open_request(problem, given_side, shown_pair.family, gpu)
    else:
        prompt = shown.request(shown_pair, gpu=gpu)
    return Preference(pair, prompt, chosen, rejected)


def _given(pair: Ordered, group: Iterable[Proved], rows: _Rows) -> Side | None:
    """The side that the prompt shows: the problem's PyTorch module, else the slowest side that was not made
    slow.

    A side made from an answer would reveal most of it.
    """
    problem = pair.better.pair.problem
    if problem is not None and problem.reference is not None:
        return Side(problem.reference.code, (problem.reference.call,), language="torch")
    answers = (pair.chosen.code, pair.rejected.code)
    slower = [
        proof
        for proof in group
        if proof.pair.slow.code not in answers
        and not _is_made_slow(proof)
        and rows[proof.pair.id]["slow_us"] > rows[pair.better.pair.id]["fast_us"]
    ]
    slowest = min(slower, key=lambda proof: (-rows[proof.pair.id]["slow_us"], proof.pair.id), default=None)
    return slowest.pair.slow if slowest is not None else None
