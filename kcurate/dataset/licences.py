"""Which licences may be published, and their attribution.

A licence is an SPDX expression. A row whose licence is missing or has a `LicenseRef-` (unknown to SPDX) is
published only if `--allow-licence` names it. Not covered: whether a stated licence is correct.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kcurate.core.licence_texts import canonical
from kcurate.errors import OptionError
from kcurate.records import Candidate, Kernel

UNKNOWN = "unknown"
_NOTICE = re.compile(r"copyright|licen[sc]e|\(c\)|all rights reserved", re.IGNORECASE)
_COMMENT = re.compile(r"(?:[ \t]*//[^\n]*(?:\n|\Z))+|/\*.*?\*/", re.DOTALL)
_FRAME = re.compile(r"^[ \t]*(?:/\*+|\*+/|\*+|//+)?[ \t]?|[ \t]*\*+/$")
# No-derivatives licences: normalised code is a derivative.
_AS_IS = re.compile(r"(?:^|[\s(])CC-BY(?:-NC)?-ND-")


def refusal(license: str | None, allowed: Collection[str], unshown: str | None = None) -> str | None:
    """Why a row under this licence is refused; None if it is accepted. `unshown`: why no record shows the
    licence."""
    if (license or UNKNOWN) in allowed:
        return None
    if unshown:
        return f"{unshown}; --allow-licence {license or UNKNOWN} permits it"
    if not license:
        return (
            "no licence is known: repeat kcurate pair ... --licence SPDX; --allow-licence unknown permits it"
        )
    spelled = canonical(license)
    if spelled is None:
        return f"{license!r} is not an SPDX expression"
    for name in re.findall(r"LicenseRef-[\w.-]+", spelled, re.IGNORECASE):
        if name.lower() not in {permitted.lower() for permitted in allowed}:
            return f"SPDX does not know {name}; --allow-licence {name} permits it"
    return "its licence forbids modified copies" if _AS_IS.search(spelled) else None


def unshown(kernels: Iterable[Kernel]) -> str | None:
    """Why the licence of a pair of these kernels cannot be shown; None if each record names the file that
    states it."""
    for kernel in kernels:
        if kernel.rights is not None and kernel.rights.refused:
            return f"{kernel.name}: {kernel.rights.refused}"
        if kernel.rights is None or kernel.rights.license is None:
            return f"nothing states the licence of {kernel.id}: run kcurate extract again"
    return None


def spdx(license: str | None) -> str | None:
    """The value of `--licence` in SPDX's spelling.

    Raises:
        InputError: it is not an expression of SPDX.
    """
    spelled = None if license is None else canonical(license)
    if license is not None and spelled is None:
        hyphened = "-".join(license.split())
        meant = canonical(hyphened) or canonical(f"{hyphened}.0")
        hint = f"did you mean {meant}?" if meant else "such as MIT"
        raise OptionError(f"not an SPDX expression: {license!r}", where="--licence", hint=hint)
    return spelled


def keeps_original(license: str | None) -> bool:
    """Whether the original code may be published with the normalised code: SPDX knows the licence."""
    return bool(license) and refusal(license, ()) is None


def notices(code: str) -> tuple[str, ...]:
    """The copyright and licence notices in a file's comments, without comment marks."""
    return tuple(_plain(match.group()) for match in _COMMENT.finditer(code) if _NOTICE.search(match.group()))


def _plain(comment: str) -> str:
    lines = [_FRAME.sub("", line.rstrip()).rstrip(" *") for line in comment.strip().splitlines()]
    return "\n".join(lines).strip()


def attribution(pairs: Iterable[tuple[Candidate, Sequence[Kernel]]]) -> str:
    """`ATTRIBUTION.md`: for each source its licence, address, revision, row count and copyright notices.

    Candidates are the originals, with comments; extracted kernels have the notices of their files.
    """
    sources: dict[tuple[str, str, str, str], list[tuple[Candidate, Sequence[Kernel]]]] = defaultdict(list)
    for candidate, kernels in pairs:
        origin = candidate.origin
        name = origin.suite or "kcurate"
        source = (name, candidate.license or UNKNOWN, origin.url or "", origin.revision or "")
        sources[source].append((candidate, kernels))
    return "\n".join(_attribution(sources)).rstrip() + "\n"


def _attribution(
    sources: Mapping[tuple[str, str, str, str], Sequence[tuple[Candidate, Sequence[Kernel]]]],
) -> Iterator[str]:
    yield "# Attribution\n"
    yield "Where the code of this dataset comes from. A row's licence is in `license`; comments"
    yield "were stripped from `slow_code` and `fast_code`: the notices in them are repeated here.\n"
    for (name, license, url, revision), rows in sorted(sources.items(), key=lambda item: item[0]):
        yield f"## {name}: {license}\n"
        yield f"- rows: {len(rows)}"
        if url:
            yield f"- address: <{url}>" + (f", revision `{revision}`" if revision else "")
        yield ""
        in_code = [text for pair, _ in rows for side in (pair.slow, pair.fast) for text in notices(side.code)]
        held = [
            holder.value
            for _, kernels in rows
            for kernel in kernels
            for holder in (kernel.rights.holders if kernel.rights else ())
            if not any(holder.value in text for text in in_code)
        ]
        for text in dict.fromkeys([*in_code, *held]):
            yield "```text\n" + text.replace("```", "'''") + "\n```\n"
