"""The checks that a row must pass to be published: schema, licence, secrets, duplicates, contamination.

Each refusal has a named reason and a detail; nothing is dropped silently. A pair is a duplicate only if both
of its sides match those of another pair (equal tokens, similar tokens or equal machine code); the pairs of a
ladder share one side and are kept. MinHash over shingles of normalised tokens finds candidates, and the exact
Jaccard similarity decides. Not covered: which verdict a row carries (`kcurate.dataset.stage`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from kcurate.core import store
from kcurate.core.own_files import not_below
from kcurate.cuda_source import normalised_tokens
from kcurate.cuda_source.compare.containment import standing_in
from kcurate.cuda_source.compare.minhash import (
    PERMUTATIONS,
    Hashes,
    rows_of_a_band,
    shingles,
    signature,
    similarity,
)
from kcurate.dataset import contamination, licences, secrets
from kcurate.dataset.contamination import LIMIT, Overlap, Reference
from kcurate.dataset.rows import COLUMNS
from kcurate.dataset.settings import NEAR, Rules
from kcurate.errors import InputError, OptionError
from kcurate.hub.published_rows import candidate_of
from kcurate.records import Call, Candidate, Outcome, Verdict

# This bit is set in hashes of code and clear in hashes of plans.
_CODE = np.uint64(1)


@dataclass(frozen=True)
class Sketch:
    """A side: the hash of its tokens, the sorted hashes of its shingles, and its MinHash signature."""

    tokens: str
    shingles: Hashes
    least: Hashes


@lru_cache(maxsize=256)  # pairs of a ladder share a side, and a row is looked up before it is added
def sketch(code: str, plan: str) -> Sketch:
    """The sketch of a side: shingles of `SHINGLE` normalised tokens of its code and plan."""
    tokens = normalised_tokens(code.encode())
    of_plan = shingles(normalised_tokens(plan.encode()))
    hashes = np.unique(np.concatenate([shingles(tokens) | _CODE, of_plan & ~_CODE]))
    return Sketch(store.content_id(b" ".join(tokens)), hashes, signature(hashes))


class Seen:
    """The pairs accepted so far; `find` returns which of them a new pair duplicates."""

    def __init__(self, near: float = NEAR) -> None:
        self._near = near
        self._exact: dict[str, str] = {}
        self._sides: dict[str, tuple[Sketch, Sketch]] = {}
        self._rows = rows_of_a_band(near)
        self._bands: dict[tuple[int, bytes], list[str]] = {}

    def find(self, row: Mapping[str, Any]) -> str | None:
        """A description of the pair that the row duplicates; None if none."""
        for shared, key in _keys(row).items():
            if key in self._exact:
                return f"{shared} as {self._exact[key]}"
        for other, (slow, fast) in self._alike(_sides(row)):
            if min(slow, fast) >= self._near:
                return f"at least {min(slow, fast):.0%} of the tokens of both sides of {other}"
        return None

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row that is kept."""
        sides = _sides(row)
        self._exact |= dict.fromkeys(_keys(row).values(), row["id"])
        self._sides[row["id"]] = sides
        for band in self._bands_of(sides):
            self._bands.setdefault(band, []).append(row["id"])

    def _bands_of(self, sides: tuple[Sketch, Sketch]) -> set[tuple[int, bytes]]:
        size = self._rows
        return {
            (start, side_sketch.least[start : start + size].tobytes())
            for side_sketch in sides
            for start in range(0, PERMUTATIONS - size + 1, size)
        }

    def _alike(self, new: tuple[Sketch, Sketch]) -> Sequence[tuple[str, tuple[float, float]]]:
        """Pairs with a side similar to one of these, most similar first: id, similarity of slow and fast."""
        ids = {other for band in self._bands_of(new) for other in self._bands.get(band, ())}
        slow, fast = (side_sketch.shingles for side_sketch in new)
        alike = [
            (other, (similarity(slow, sides[0].shingles), similarity(fast, sides[1].shingles)))
            for other in ids
            for sides in (self._sides[other],)
        ]
        return sorted(alike, key=lambda match: (-min(match[1]), match[0]))


def _keys(row: Mapping[str, Any]) -> dict[str, str]:
    """Hashes that make two rows duplicates if equal, by a description of what is compared."""
    launches = (row["slow_side"], row["fast_side"], row["problem"] or "")
    keys = {"the same tokens": store.content_id(*(side.tokens for side in _sides(row)), *launches)}
    # Not the emulator's machine code: host compilers remove many differences that matter on a GPU.
    binaries = (row["slow_binary_sha256"], row["fast_binary_sha256"])
    if row["backend"] == "cuda" and all(binaries):
        keys["the same machine code"] = store.content_id(*binaries, *launches)
    return keys


def _sides(row: Mapping[str, Any]) -> tuple[Sketch, Sketch]:
    return sketch(row["slow_code"], row["slow_side"]), sketch(row["fast_code"], row["fast_side"])


BAD_ROW, LICENCE, SECRET = "bad_row", "licence", "secret"
_CODES = ("slow_code", "fast_code")
# A row is refused if its speedup and the ratio of its median times differ by this factor. In 2,900 verdicts
# they differed by at most 1.4.
APART = 2.0
IMPORTED = "imported"
DUPLICATE, CONTAMINATED, SINGLE_SIZE = "duplicate", "contaminated", "single_size"
UNSANITIZED, UNSEARCHED, LEAKED = "unsanitized", "unsearched", "leaked"


@dataclass(frozen=True)
class Refusal:
    """Why a row is refused: one of the names above, and a detail."""

    id: str
    reason: str
    detail: str


@dataclass
class Gates:
    """All gates, and the rows accepted so far; of duplicates the row that is offered first is kept.

    Raises:
        InputError: an unusable rule.
    """

    rules: Rules
    refusals: list[Refusal] = field(default_factory=list)
    overlaps: list[Overlap] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not 0 < self.rules.near <= 1:
            raise OptionError(f"not a similarity: {self.rules.near}", where="--near", hint="above 0, up to 1")
        self._sets = tuple(contamination.read(path) for path in self.rules.against)
        self._seen = Seen(self.rules.near)

    @property
    def sets(self) -> Sequence[Reference]:
        """The evaluation sets that rows are compared with."""
        return self._sets

    def offer(
        self, row: Mapping[str, Any], lacks: tuple[str, str] | None = None, unshown: str | None = None
    ) -> Refusal | None:
        """None if the row is accepted; else why not, also added to `refusals`.

        `lacks`: the result of `lacking` for its verdict; `unshown`: that of `licences.unshown`.
        """
        refused = Refusal(row["id"], *lacks) if lacks else self._refusal(row, unshown)
        if refused is not None:
            self.refusals.append(refused)
            return refused
        self._seen.add(row)
        return None

    def leaks(self, rows: Iterable[Mapping[str, Any]], sides: Mapping[str, str | None]) -> dict[str, Refusal]:
        """By id, the rows that would leak test rows or tasks of the sets into training; also added to
        `refusals`.

        `sides`: the split of each row; None if it shares functions with both.
        """
        known = list(rows)
        tested = {row[side] for row in known if sides[row["id"]] == "test" for side in _CODES}
        alike = _like_test_answers(known, sides)
        leaked = {}
        for row in known:
            if sides[row["id"]] is None:
                why = "it shares functions with families of both splits"
            elif sides[row["id"]] == "test":
                continue
            elif any(row[side] in tested for side in _CODES):
                why = "one of its sides is also in the test split"
            elif row["id"] in alike:
                why = alike[row["id"]]
            elif asked := next(filter(None, (some.related_task(row["family"]) for some in self._sets)), None):
                why = f"{asked} asks for what it computes"
            else:
                continue
            leaked[row["id"]] = Refusal(row["id"], LEAKED, why)
        self.refusals += leaked.values()
        return leaked

    def _refusal(self, row: Mapping[str, Any], unshown: str | None) -> Refusal | None:
        if detail := bad_row(row):
            return Refusal(row["id"], BAD_ROW, detail)
        if row["origin"] == "imported" and not self.rules.with_imported:
            return Refusal(row["id"], IMPORTED, "an answer that others published; --with-imported takes it")
        if json.loads(row["problem"] or "{}").get("single_size"):
            return Refusal(row["id"], SINGLE_SIZE, "only one size of it is known, and nothing in it varies")
        if detail := licences.refusal(row["license"], self.rules.allow_licences, unshown):
            return Refusal(row["id"], LICENCE, detail)
        if secret := list(secrets.findings(row)):
            return Refusal(row["id"], SECRET, "; ".join(secret))
        if detail := self._seen.find(row):
            return Refusal(row["id"], DUPLICATE, detail)
        overlaps = [
            overlap for evaluation_set in self._sets if (overlap := evaluation_set.overlap(row)) is not None
        ]
        self.overlaps += overlaps
        worst = max(overlaps, key=lambda overlap: overlap.share, default=None)
        if worst is not None and worst.share >= LIMIT:
            detail = f"{worst.share:.0%} of the {contamination.NGRAM}-grams of {worst.set}: {worst.item}"
            return Refusal(row["id"], CONTAMINATED, detail)
        return None


def _like_test_answers(
    rows: Sequence[Mapping[str, Any]], sides: Mapping[str, str | None]
) -> Mapping[str, str]:
    """By id, the training rows that contain most of a test row's answer, with a description.

    Composed problems share schedules, so that two answers may differ in one operator only.
    """
    of = {side: [row for row in rows if sides[row["id"]] == side] for side in ("train", "test")}
    tested, taught = ([row["fast_code"] for row in of[side]] for side in ("test", "train"))
    return {
        of["train"][by]["id"]: f"{share:.0%} of the answer of {of['test'][number]['id']} stands in its own"
        for number, by, share in standing_in(tested, taught)
    }


def lacking(
    candidate: Candidate, verdict: Verdict, minimal: frozenset[str] = frozenset()
) -> tuple[str, str] | None:
    """A missing requirement for publishing a confirmed pair, as a name and a detail; None if none is missing.

    Sides from elsewhere must have run under compute-sanitizer, and the search for needless parts of a made
    slow side must be complete. For one made by our rules it may be complete for other sides by the same
    rules, `minimal` (`kcurate.verdicts.standing.minimal_templates`).
    """
    ours = candidate.origin.trust == "ours"
    if verdict.outcome is not Outcome.CONFIRMED:
        return None
    if verdict.unsanitized and not ours:
        text = "both sides were not run under memcheck and racecheck"
        return UNSANITIZED, f"{text}; install compute-sanitizer and judge it again"
    searched = "minimal" in verdict.checks or (ours and "untried_parts" not in verdict.environment.details)
    if candidate.origin.templates:
        searched |= candidate.origin.templates <= minimal
    if candidate.origin.made == "slow" and not searched:
        text = "the search for needless parts of its slow side was cut off"
        return UNSEARCHED, f"{text}; shorten that side, or judge it again on a machine that is less busy"
    return None


def bad_row(row: Mapping[str, Any]) -> str | None:
    """Why the row is invalid; None if it reads back as a pair and every column has its type."""
    if list(row) != list(COLUMNS):
        return "its columns are not those of the pairs config"
    for name, kind in COLUMNS.items():
        if not _fits(row[name], kind):
            return f"{name} is not of type {kind}"
    if why := not_below(row["id"]):
        return f"its id {why}"
    if wrong := _contradiction(row):
        return f"{wrong}; judge the pair again"
    try:
        candidate = candidate_of(row)
    except InputError as error:
        return str(error)
    module = row["origin"] == "imported"  # its slow side is the module that it answers
    sides = (candidate.fast,) if module else (candidate.slow, candidate.fast)
    if any(isinstance(step, Call) for side in sides for step in side.plan):
        return "a side is in PyTorch; a row holds device code"
    return None


def _contradiction(row: Mapping[str, Any]) -> str | None:
    """How the times of a row contradict each other; None if they do not."""
    ratio, low, high = (row[name] for name in ("speedup", "speedup_low", "speedup_high"))
    if ratio is None:
        return "it is confirmed without times" if row["outcome"] == Outcome.CONFIRMED else None
    if not 0 < low <= ratio <= high < math.inf:
        return f"a speedup of {ratio} is not within its interval, {low} to {high}"
    slow_us, fast_us = row["slow_us"], row["fast_us"]
    if slow_us and fast_us and not 1 / APART < ratio * fast_us / slow_us < APART:
        return f"a speedup of {ratio:.3g} is not that of {slow_us:.5g} against {fast_us:.5g} us"
    return None


_TYPES: Mapping[str, type | tuple[type, ...]] = {"string": str, "int64": int, "float64": (int, float)}


def _fits(value: Any, kind: Any) -> bool:
    if value is None:
        return True
    if isinstance(kind, list):
        return isinstance(value, list | tuple) and all(_fits(item, kind[0]) for item in value)
    if isinstance(kind, dict):
        same = isinstance(value, dict) and value.keys() == kind.keys()
        return same and all(_fits(value[name], inner) for name, inner in kind.items())
    return isinstance(value, _TYPES[kind]) and not isinstance(value, bool)
