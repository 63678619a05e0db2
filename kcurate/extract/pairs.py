"""Natural pairs: matches files of a naive variant folder with files of the optimised one.

Files match by name first; then remaining files with kernels match by kernel name. Works on records only. Not
covered: writing candidates (`kcurate.extract.candidates`).
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kcurate.records import Kernel
from kcurate.suites import PairRule, Place

# Two kernel names match if their common prefix covers this share of the shorter one
# (`potential` and `potential_x2`); lower values match names that merely share a common word.
NAME_MATCH = 0.8


class PairOutcome(StrEnum):
    """Outcome of a file pair, or of a file with kernels that has no partner."""

    PAIR = "pair"
    NO_DEVICE_CODE = "no_device_code"
    MACHINE_CODE_IDENTICAL = "machine_code_identical"
    TEXT_IDENTICAL = "text_identical"
    ONE_SIDED = "device_code_on_one_side"
    UNMATCHED = "unmatched"
    NO_OTHER_VARIANT = "no_other_variant"


@dataclass(frozen=True)
class SourceFile:
    """A file of a variant folder, its kernels in file order, and `code`: one file with all of them."""

    path: str
    place: Place
    kernels: tuple[Kernel, ...] = ()
    code: bytes = b""


@dataclass(frozen=True)
class Match:
    """A file pair and its outcome; a file without a partner has None for the other side."""

    benchmark: str
    name: str
    by: str
    rule: PairRule | None
    slow: SourceFile | None
    fast: SourceFile | None
    outcome: PairOutcome


def match_files(files: Iterable[SourceFile], rules: Sequence[PairRule]) -> list[Match]:
    """The file pairs under `rules`, and the files with kernels in variant folders that have no partner.

    Every file with kernels is in at least one match; the order depends on paths only.
    """
    by_benchmark: dict[str, dict[str, list[SourceFile]]] = defaultdict(lambda: defaultdict(list))
    for file in sorted(files, key=lambda file: file.path):
        if file.place.benchmark is not None and file.place.variant is not None:
            by_benchmark[file.place.benchmark][file.place.variant].append(file)
    matches: list[Match] = []
    for benchmark, variants in sorted(by_benchmark.items()):
        present = [rule for rule in rules if rule.slow in variants and rule.fast in variants]
        by_rule = [m for rule in present for m in _match_rule(benchmark, rule, variants)]
        matched = {
            f.path for m in by_rule if m.outcome is not PairOutcome.ONE_SIDED for f in (m.slow, m.fast) if f
        }
        matches += by_rule
        paired = {name for rule in present for name in (rule.slow, rule.fast)}
        for variant, members in sorted(variants.items()):
            outcome = PairOutcome.UNMATCHED if variant in paired else PairOutcome.NO_OTHER_VARIANT
            for file in members:
                if file.kernels and file.path not in matched:
                    matches.append(Match(benchmark, _stem(file), "none", None, None, file, outcome))
    return matches


def _match_rule(benchmark: str, rule: PairRule, variants: dict[str, list[SourceFile]]) -> Iterator[Match]:
    """The file pairs under one rule: by file name, then by kernel name."""
    fast_files = {file.place.rest: file for file in variants[rule.fast]}
    unmatched_slow, matched_fast = [], set()
    for slow in variants[rule.slow]:
        fast = fast_files.get(slow.place.rest)
        if fast is not None and slow.path.endswith(".cu"):
            outcome = compare(slow, fast)
            yield Match(benchmark, _labelled(_stem(slow), rule), "file", rule, slow, fast, outcome)
            if outcome is not PairOutcome.ONE_SIDED:
                matched_fast.add(fast.path)
                continue
        if slow.kernels:
            unmatched_slow.append(slow)
    unmatched_fast = [file for file in variants[rule.fast] if file.kernels and file.path not in matched_fast]
    for slow, fast, name in _match_kernels(unmatched_slow, unmatched_fast):
        yield Match(benchmark, _labelled(name, rule), "kernel", rule, slow, fast, compare(slow, fast))


def _match_kernels(
    slow_files: Sequence[SourceFile], fast_files: Sequence[SourceFile]
) -> Iterator[tuple[SourceFile, SourceFile, str]]:
    """Match the remaining files by kernel name: equal names first, then similar ones."""
    free_fast = list(fast_files)
    for names_match in (operator.eq, _similar_name):
        unmatched = []
        for slow in slow_files:
            names = [kernel.name for kernel in slow.kernels]
            partners = (
                fast for fast in free_fast if any(names_match(a, b.name) for a in names for b in fast.kernels)
            )
            partner = next(partners, None)
            if partner is None:
                unmatched.append(slow)
                continue
            free_fast.remove(partner)
            yield slow, partner, slow.kernels[0].name if len(slow.kernels) == 1 else _stem(slow)
        slow_files = unmatched


def _similar_name(left: str, right: str) -> bool:
    """Whether the common prefix of two names covers `NAME_MATCH` of the shorter one."""
    left, right = left.lower(), right.lower()
    common = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    shorter = min(len(left), len(right))
    return (shorter if common is None else common) >= NAME_MATCH * shorter


def compare(slow: SourceFile, fast: SourceFile) -> PairOutcome:
    """The outcome of a file pair, given its kernels."""
    if not slow.kernels and not fast.kernels:
        return PairOutcome.NO_DEVICE_CODE
    if not slow.kernels or not fast.kernels:
        return PairOutcome.ONE_SIDED
    slow_hashes, fast_hashes = _code_hashes(slow), _code_hashes(fast)
    if None not in slow_hashes and slow_hashes == fast_hashes:
        return PairOutcome.MACHINE_CODE_IDENTICAL
    if slow.code and slow.code == fast.code:
        return PairOutcome.TEXT_IDENTICAL
    return PairOutcome.PAIR


def _code_hashes(file: SourceFile) -> list[str | None]:
    """The hashes of a file's kernels as machine code, sorted; [None]: one was not compiled."""
    hashes = [kernel.compiled.code_sha256 if kernel.compiled else None for kernel in file.kernels]
    return [None] if None in hashes else sorted(hashes, key=str)


def _stem(file: SourceFile) -> str:
    return file.place.rest.removesuffix(".cu")


def _labelled(name: str, rule: PairRule) -> str:
    return f"{name}-{rule.label}" if rule.label else name
