"""Versions of a kernel in trees without variant folders: the first and each later version are a natural pair.

Kernels in one file, or in numbered files of one folder (`1_naive.cu`, `reduce_v2_shuffle.cu`), count as
versions if they have the same parameters, their names begin with the same word, and their names differ only
in words for how something is computed: `sgemm_naive` and `sgemmVectorize`, but not `filter_rows` and
`filter_columns`. The judge rejects wrong matches, since both sides must solve one problem and the later
version must be faster. Not covered: variant folders (`pairs`), the problem
(`kcurate.draft.for_pairs.shared_problem`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import PurePosixPath

from kcurate.core.grouping import grouped
from kcurate.cuda_source import normalised_tokens
from kcurate.extract.pairs import Match, SourceFile, compare
from kcurate.records import Kernel
from kcurate.suites import Place

# Kernels with fewer parameters may share them by chance. The second limit is for names that differ only in
# numbers.
LEAST_PARAMS, LEAST_NUMBERED = 3, 2
# Of a group, at most so many are paired: more are a collection of kernels rather than versions.
MOST_VERSIONS = 16
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# The number in a file name; one with more digits is a size or an architecture (`sm100`).
_NUMBER = re.compile(r"\A\d{1,2}(?!\d)|(?<!\d)\d{1,2}\Z|(?<=_v)\d{1,2}(?=_)")
# Names of files that are numbered cases, not versions, such as `q21`.
_CASE = re.compile(r"(?:\A|_)[a-jl-uw-z]\d+\Z", re.IGNORECASE)
# Widths of tiles (`64x64`) and of vector types (`f32x4`).
_PACKED = re.compile(r"(?:(?<![a-zA-Z\d])|(?<=[a-zA-Z]{3}))\d+(?:x\d+)+|(?<=\d)x\d+")
# Behind a letter (but `k` and `v`) or one of these words, a number tells the case: `l1`, `fp16`, `sm90`.
# So does a number above `MOST_VERSION`, unless it is a width behind a word such as `tile`: `tile128`.
_CASE_WORD = re.compile(r"[a-jl-uw-z]|bf|fp|u?int|sm")
MOST_VERSION = 31
_WIDE_TEXT = """
    block blocked blocks blocktiling coarsened stage tile tiled tiles tiling thread threads unroll unrolled
    vec vectorised vectorize vectorized warp warps warptiling"""
_WIDE = frozenset(_WIDE_TEXT.split())
# If a name has one of these words, its number tells which part of a computation the kernel is.
_PARTS = frozenset(("term", "step", "stage", "phase", "pass", "part", "level", "layer", "dim", "case"))
# Words for how something is computed; any other word says what is computed.
_HOW_TEXT = """
    aligned async atomic atomicadd atomics bank bcf block blocked blocking blocks blocktiling buffer
    buffered buffering cache cached coalesce coalesced coalescing coarsened conflict conflicts coop
    cooperative cp cuda direct divergence double efficient fast faster final float fma free fused global
    gmem gpu grid half hierarchical impl improved inplace interleaved kernel launch ldg less linear
    local loop loops mem memory mma modified more multi multiple naive new no non old online opt optim
    optimised optimized orig original overlap pack packed pad padded padding parallel per persistent
    pipeline pipelined prefetch privatized ptx reg register registers regs restrict sequential serial
    shared shfl shm shmem shuffle simd single slow smem split stream stride strided swizzle swizzled
    sync tensor tensorcore tex texture thread threads tile tiled tiles tiling uncached unroll unrolled
    using v vec vect vectorised vectorize vectorized ver version via warp warps warptiling welford with
    without wmma"""
_HOW = frozenset(_HOW_TEXT.split())
_PLAIN = frozenset(("naive", "baseline", "base", "ref", "reference", "simple", "basic"))


def match_versions(kernels: Iterable[Kernel], codes: Mapping[str, bytes]) -> list[Match]:
    """The first version with each later one; `codes` has each kernel's own file by its id.

    Versions are ordered by whether a name says so (`naive`), then by the number of the file, then by the
    number in the name if names differ in nothing else, then by position. Of kernels with equal code only the
    first counts. Triton kernels are left out.
    """
    groups = grouped(
        ((kernel.benchmark, _place(kernel), words[0], signature(kernel)), kernel)
        for kernel in kernels
        if kernel.language == "cuda" and len(kernel.params) >= LEAST_NUMBERED and kernel.variant is None
        and (words := _words(kernel.name))
    )  # fmt: skip
    matches = []
    for group in (some for every in groups.values() for some in _versions(every)):
        names = {tuple(word for word in _words(kernel.name) if not word.isdigit()) for kernel in group}
        numbered = len(names) == 1
        if len(group) < 2 or (len(group[0].params) < LEAST_PARAMS and not numbered):
            continue
        ordered = sorted(group, key=partial(_order, numbered=numbered))
        tokens = {kernel.id: normalised_tokens(codes[kernel.id]) for kernel in ordered}
        first, *later = _distinct(ordered, tokens)[:MOST_VERSIONS]
        slow = _file(first, codes)
        for kernel in later:
            if (kernel.name, kernel.span.path) == (first.name, first.span.path):
                continue
            together = kernel.span.path == first.span.path or _series(first)
            if together and _differ_in_a_constant(first, kernel, tokens):
                continue
            fast = _file(kernel, codes)
            renamed = kernel.name != first.name
            name = "-".join(version.name if renamed else _stem(version) for version in (first, kernel))
            matches.append(Match(first.benchmark, name, "version", None, slow, fast, compare(slow, fast)))
    return matches


def _distinct(kernels: Sequence[Kernel], tokens: Mapping[str, Sequence[bytes]]) -> list[Kernel]:
    """The kernels without those that have the code of an earlier one, apart from the name."""
    by_code: dict[tuple[bytes, ...], Kernel] = {}
    for kernel in kernels:
        name = kernel.name.encode()
        by_code.setdefault(tuple(b"" if token == name else token for token in tokens[kernel.id]), kernel)
    return list(by_code.values())


def _differ_in_a_constant(first: Kernel, other: Kernel, tokens: Mapping[str, Sequence[bytes]]) -> bool:
    """Whether two kernels' code differs only in the numbers of their names: `step0` and `step1`."""
    code, other_code = tokens[first.id], tokens[other.id]
    if len(code) != len(other_code):
        return False
    names = {(first.name.encode(), other.name.encode())}
    differing = {pair for pair in zip(code, other_code, strict=True) if pair[0] != pair[1]} - names
    words = list(zip(_words(first.name), _words(other.name), strict=False))
    numbers = {
        (word.encode(), other_word.encode())
        for (before, _), (word, other_word) in pairwise(words)
        if word.isdigit() and before not in _HOW
    }
    return bool(differing) and differing <= numbers


def _versions(kernels: Sequence[Kernel]) -> Iterable[list[Kernel]]:
    """The kernels grouped by what they compute, judged by their names; baselines are first in a group."""
    groups: list[list[Kernel]] = []
    for kernel in sorted(kernels, key=partial(_order, numbered=False)):
        known = next((group for group in groups if _alike(group[0], kernel)), None)
        if known is None:
            groups.append([kernel])
        else:
            known.append(kernel)
    return groups


def _alike(first: Kernel, other: Kernel) -> bool:
    """Whether two names differ only in how something is computed, or in the numbers of their files."""
    if first.span.path != other.span.path and _series(first) != _series(other):
        return False
    subject, other_subject = _subject(first.name), _subject(other.name)
    is_baseline = bool(_PLAIN & {*_words(first.name)}) and set(subject) <= {*other_subject}
    return is_baseline or subject == other_subject or _number(first) != _number(other)


def _series(kernel: Kernel) -> tuple[str, ...]:
    """The common words of numbered files' names; empty: the file has no number at its end."""
    stem, number = _stem(kernel), _number(kernel)
    return _subject(stem.removesuffix(number)) if number and stem.endswith(number) else ()


def _subject(name: str) -> tuple[str, ...]:
    """The words of a name that say what is computed."""
    words = _words(_PACKED.sub("", name))
    counts_parts = bool(_PARTS & {*words})

    def says_how(at: int) -> bool:
        word, before = words[at], words[at - 1] if at else ""
        if not word.isdigit():
            return word in _HOW | _PLAIN
        tells_case = _CASE_WORD.fullmatch(before) or (int(word) > MOST_VERSION and before not in _WIDE)
        return not (counts_parts or tells_case)

    return tuple(word for at, word in enumerate(words) if not says_how(at))


def _number(kernel: Kernel) -> str | None:
    """The number of a kernel's file; None: it has none."""
    stem = _stem(kernel)
    number = _NUMBER.search(stem) if not _CASE.search(stem) else None
    return number[0] if number else None


def _file(kernel: Kernel, codes: Mapping[str, bytes]) -> SourceFile:
    place = Place(kernel.benchmark, None, kernel.name)
    return SourceFile(kernel.span.path, place, (kernel,), codes[kernel.id])


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _place(kernel: Kernel) -> str:
    """The file of a kernel, or its folder if the file's name begins or ends with a number."""
    path = PurePosixPath(kernel.span.path)
    return str(path.parent if _number(kernel) else path)


def signature(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    """The names and types of a kernel's parameters, without `const` and `__restrict__`."""

    def plain(type_: str) -> str:
        return " ".join(re.sub(r"\b(?:const|__restrict__|__restrict|restrict)\b", " ", type_).split())

    return tuple((param.name, plain(param.type)) for param in kernel.params)


def _stem(kernel: Kernel) -> str:
    return PurePosixPath(kernel.span.path).stem


def _order(kernel: Kernel, *, numbered: bool) -> tuple[object, ...]:
    """The sort key of a version; `numbered`: whether the numbers in names count."""
    words, number = _words(kernel.name), _number(kernel)
    numbers = tuple(int(word) for word in words if word.isdigit() and numbered)
    return (
        not _PLAIN & {*words, *_words(_stem(kernel))},
        int(number or 0),
        numbers,
        kernel.span.path,
        kernel.span.start_byte,
    )
