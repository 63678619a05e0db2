"""Versions of a kernel in trees without variant folders: natural pairs of the first with each later one.

Kernels of one file, or of numbered files of one folder (`1_naive.cu`, `reduce_v2_shuffle.cu`), are taken for
versions of one another if they have the same parameters and their names begin with the same word
(`sgemm_naive`, `sgemmVectorize`). What was taken wrongly the judge refuses: both sides must solve one problem
alike, and the later one must be faster. Not covered: variant folders (`pairs`), the problem
(`kcurate.draft.for_pairs.shared_problem`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import PurePosixPath

from kcurate.extract.pairs import Match, SourceFile, compare
from kcurate.records import Kernel
from kcurate.suites import Place

# Kernels with fewer parameters have them in common by chance, unless their names differ in numbers alone.
LEAST_PARAMS, LEAST_NUMBERED = 3, 2
# More kernels with equal parameters are a collection rather than versions: only so many are paired.
MOST_VERSIONS = 16
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NUMBER = re.compile(r"\A\d+|\d+\Z|(?<=_v)\d+(?=_)")
_PLAIN = frozenset(("naive", "baseline", "base", "ref", "reference", "simple", "basic"))


def match_versions(kernels: Iterable[Kernel], codes: Mapping[str, bytes]) -> list[Match]:
    """The first version with each later one; `codes` has each kernel's own file by its id.

    Kernels in Triton are left out. First are names that say so (`naive`), then the numbers of files, and of
    names that differ in nothing else, then the order of the text.
    """
    groups: dict[tuple[object, ...], list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        words = _words(kernel.name) if kernel.language == "cuda" else ()
        if len(kernel.params) >= LEAST_NUMBERED and words and kernel.variant is None:
            groups[kernel.benchmark, _place(kernel), words[0], signature(kernel)].append(kernel)
    matches = []
    for group in groups.values():
        numbered = (
            len({tuple(word for word in _words(kernel.name) if not word.isdigit()) for kernel in group}) == 1
        )
        if len(group[0].params) < LEAST_PARAMS and not numbered:
            continue
        first, *later = sorted(group, key=partial(_order, numbered=numbered))[:MOST_VERSIONS]
        slow = _file(first, codes)
        for kernel in (
            other for other in later if (other.name, other.span.path) != (first.name, first.span.path)
        ):
            fast = _file(kernel, codes)
            named = [
                version.name if kernel.name != first.name else _stem(version) for version in (first, kernel)
            ]
            name = "-".join(named)
            matches.append(Match(first.benchmark, name, "version", None, slow, fast, compare(slow, fast)))
    return matches


def _file(kernel: Kernel, codes: Mapping[str, bytes]) -> SourceFile:
    place = Place(kernel.benchmark, None, kernel.name)
    return SourceFile(kernel.span.path, place, (kernel,), codes[kernel.id])


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _place(kernel: Kernel) -> str:
    """The file, or the folder of files that begin or end with a number."""
    path = PurePosixPath(kernel.span.path)
    return str(path.parent if _NUMBER.search(path.stem) else path)


def signature(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    """The parameters, name and type; `const` and `__restrict__` aside."""

    def plain(type_: str) -> str:
        return " ".join(re.sub(r"\b(?:const|__restrict__|__restrict|restrict)\b", " ", type_).split())

    return tuple((param.name, plain(param.type)) for param in kernel.params)


def _stem(kernel: Kernel) -> str:
    return PurePosixPath(kernel.span.path).stem


def _order(kernel: Kernel, *, numbered: bool) -> tuple[object, ...]:
    stem = _stem(kernel)
    words = _words(kernel.name)
    file = _NUMBER.search(stem)
    numbers = tuple(int(word) for word in words if word.isdigit() and numbered)
    return (
        not _PLAIN & {*words, *_words(stem)},
        int(file[0]) if file else 0,
        numbers,
        kernel.span.path,
        kernel.span.start_byte,
    )
