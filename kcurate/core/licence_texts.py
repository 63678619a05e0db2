"""Finds SPDX tags, licence texts, restrictions and copyright lines in a text.

Licence texts must match word for word, so that a modified text does not count as the original. Not covered:
which file's licence applies to a kernel (`kcurate.extract.rights`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from kcurate.records import Sourced

# A comment that is longer holds data, not a licence; the longest licence of SPDX has 40,000 characters.
MAX_CHARACTERS = 100_000
MAX_HOLDERS = 20
MAX_QUOTED = 120
# The share of a licence file that a recognised text must be; the rest is a title, holders, an introduction.
MIN_SHARE = 0.75

_ONE = r"(?://[^\n]*|/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/|\Z))"
_C_COMMENTS = re.compile(rf"{_ONE}(?:\s*{_ONE})*", re.DOTALL)
_PYTHON_COMMENTS = re.compile(
    r"^[ \t]*#[^\n]*(?:\n[ \t]*#[^\n]*)*|\"\"\".*?(?:\"\"\"|\Z)|'''.*?(?:'''|\Z)", re.DOTALL | re.MULTILINE
)
_FRAME = re.compile(
    r"^[ \t]*(?:/\*+!?|\*+/|\*+|//+!?|#+|\"\"\"|''')?[ \t]?|[ \t]*(?:\*+/|\*+|\"\"\"|''')[ \t]*$"
)
_LEGAL = re.compile(
    r"copyright|\(c\)|©|licen[cs]e|\brights\b|SPDX-|\b[AL]?GPL|permission|redistribut|confidential|proprietary"
    r"|public domain|non-?commercial|prohibited",
    re.IGNORECASE,
)
# One of these is in whatever the pattern above or below finds: a word is found much quicker than a pattern.
_LEGAL_WORDS = (
    "copyright", "(c)", "©", "licen", "rights", "spdx-", "gpl", "permission", "redistribut", "confidential",
    "proprietary", "public domain", "commercial", "prohibited",
)  # fmt: skip
_RESTRICTING_WORDS = (
    "commercial", "only", "solely", "confidential", "proprietary", "secret", "prohibited", "patent", "not",
    "without", "user", "eula", "agreement", "intellectual", "unlicensed",
)  # fmt: skip
_TAG = re.compile(r"SPDX-License-Identifier:[ \t]*([^\n]*)")
_HOLDER = re.compile(
    r"SPDX-FileCopyrightText:|\bcopyright\b.*(?:\d{4}|\(c\)|©)|(?:\(c\)|©)\s*(?:copyright|\d{4})",
    re.IGNORECASE,
)
_RESERVED = re.compile(r"all\s+rights\s+(?:are\s+)?reserved", re.IGNORECASE)
_USES = r"(?:academic|research|scientific|education\w*|teaching|personal|evaluation|benchmark\w*|internal)"
_RESTRICTED = re.compile(
    rf"non-?\s?commercial|\b{_USES}\b[^.;]{{0,40}}\bonly\b|\b(?:only|solely)\b[^.;]{{0,30}}\b{_USES}\b"
    r"|\bconfidential|\bproprietary|\btrade\s+secret|\bprohibited\b|\bpatent"
    r"|\b(?:may|must|shall|can|is|are)\s*not\s+(?:to\s+)?(?:be\s+)?(?:used?(?!\s+for\s+advertising)|cop(?:y|ied)|reproduced?|distributed?"
    r"|disclosed?|redistributed?|modif(?:y|ied)|sold|sell|permitted|allowed|licensed)\b"
    r"|\b(?:do\s+not|not\s+for|not\s+to\s+be)\s+(?:cop|re)?(?:y|distribut)"
    r"|\bwithout\s+(?:an?\s+|the\s+|any\s+|our\s+)?(?:express|prior|written|explicit)"
    r"|\bend[\s-]user\s+licen|\bEULA\b|(?<!contributor\s)\blicen[cs]e\s+agreement|\bnot\b[^.;]{0,30}\blicen[cs]e|\bintellectual\s+property|\bunlicensed\b",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"licen[cs]e|licensing|\b[AL]?GPL|copyleft|\bpermission|\bredistribut|public\s+domain", re.I
)
_REFERENCE = re.compile(
    r"\b(?:[Ss]ee|[Ii]n|[Rr]efer(?:red)?\s+to|[Ww]ith)\s+(?:\S+\s+){0,3}?[\"'`(<]?(?:\S*/)?"
    r"(?:(?:LICEN[CS]E|COPYING)\b|(?:[Ll]icen[cs]e|[Cc]opying)\.(?:txt|md)\b)"
)
# A text that speaks of licences more often is itself one, and does not only point to a file.
_MAX_STATEMENTS = 4
# Licences by name, and how their SPDX identifiers begin.
_FAMILIES = {
    "GPL": re.compile(r"\bGPL|\bGNU\s+General\s+Public", re.IGNORECASE),
    "LGPL": re.compile(r"\bLGPL|\bGNU\s+(?:Lesser|Library)", re.IGNORECASE),
    "AGPL": re.compile(r"\bAGPL|\bAffero", re.IGNORECASE),
    "CC-": re.compile(r"\bcreative\s+commons|\bCC[ -]BY", re.IGNORECASE),
    "MIT": re.compile(r"\bMIT\b(?=[\s\w-]{0,20}licen)", re.IGNORECASE),
    "BSD": re.compile(r"\bBSD\b", re.IGNORECASE),
    "Apache": re.compile(r"\bApache\b", re.IGNORECASE),
    "MPL": re.compile(r"\bMPL\b|\bMozilla\s+Public", re.IGNORECASE),
    "BSL": re.compile(r"\bBoost\s+Software", re.IGNORECASE),
    "EPL": re.compile(r"\bEPL\b|\bEclipse\s+Public", re.IGNORECASE),
}
_COPYLEFT = ("GPL", "LGPL", "AGPL", "CC-")


@dataclass(frozen=True)
class Notices:
    """The licence statements of one file.

    `license` joins its tags and licence texts (an SPDX expression). `barrier`: a restriction, or text about a
    licence that is not understood. `families`: other licences that it names. `refers`: it only names licences
    or points to a licence file. `spdx`: its first tag.
    """

    license: Sourced | None = None
    barrier: Sourced | None = None
    spdx: Sourced | None = None
    families: frozenset[str] = frozenset()
    refers: bool = False
    holders: tuple[Sourced, ...] = ()

    @property
    def silent(self) -> bool:
        """Whether the file says nothing about a licence."""
        return self.license is None and self.barrier is None


def canonical(license: str) -> str | None:
    """The expression in SPDX's spelling; None if it is not an SPDX expression."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        return str(canonicalize_license_expression(license))
    except InvalidLicenseExpression:
        return None


def joint(licenses: Iterable[str]) -> str | None:
    """All of the licences in one expression; None without any."""
    parts = {part for name in set(licenses) for part in ([name] if "(" in name else name.split(" AND "))}
    if len(parts) == 1:
        return parts.pop()
    return " AND ".join(f"({part})" if " OR " in part else part for part in sorted(parts)) or None


def same(left: str, right: str) -> bool:
    """Whether two expressions are equal except for the order of their parts."""
    return left == right or ("(" not in left + right and sorted(left.split()) == sorted(right.split()))


def of_source(text: str, where: str) -> Notices:
    """The notices in the comments of a source file, or in all of the text if it is neither C++ nor Python."""
    if where.endswith(".py"):
        blocks = _blocks(text, _PYTHON_COMMENTS)
    elif where.endswith((".ipynb", ".json", ".md")):
        blocks = iter([(1, text[:MAX_CHARACTERS])])
    else:
        blocks = _blocks(text, _C_COMMENTS)
    return _notices([block for block in blocks if _legal(block[1])], where, 0.0)


def of_licence_file(text: str, where: str) -> Notices:
    """The notices of a LICENSE or COPYING file; a file that is not recognised completely is a barrier."""
    notices = _notices([(1, text[:MAX_CHARACTERS])], where, MIN_SHARE)
    if notices.silent:
        return Notices(barrier=Sourced("not a licence that is recognised", where), holders=notices.holders)
    return notices


def _legal(text: str) -> bool:
    return _any_of(_LEGAL_WORDS, text) and _LEGAL.search(text) is not None


def _any_of(words: Iterable[str], text: str) -> bool:
    return any(map(text.lower().__contains__, words))


def _blocks(text: str, comments: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Adjacent comments together, without comment marks, and the line of each."""
    line, at = 1, 0
    for match in comments.finditer(text):
        if _legal(match.group()):
            line, at = line + text.count("\n", at, match.start()), match.start()
            yield line, "\n".join(_FRAME.sub("", row) for row in match.group()[:MAX_CHARACTERS].split("\n"))


@dataclass
class _Reading:
    """Collects what the comments of one file state. `unrecognised`: the line and text of each comment without
    the recognised parts."""

    where: str
    min_share: float
    tags: list[Sourced] = field(default_factory=list)
    texts: list[Sourced] = field(default_factory=list)
    holders: list[Sourced] = field(default_factory=list)
    unrecognised: list[tuple[int, str]] = field(default_factory=list)
    unreadable: Sourced | None = None

    def read(self, line: int, block: str) -> None:
        """Add a comment that begins at `line`."""
        for number, row in enumerate(block.split("\n"), line):
            if _HOLDER.search(row):
                self.holders.append(Sourced(_quoted(row), self.where, number))
        self.unrecognised.append((line, self._without_licences(line, block, self._without_tags(line, block))))

    def _without_tags(self, first_line: int, block: str) -> str:
        remaining = block
        for tag in _TAG.finditer(block):
            line = first_line + block.count("\n", 0, tag.start())
            words = tag.group(1).strip(" \t*/-\"'`,;.\\")
            if words.startswith("(") and words.find(")") == len(words) - 1:
                words = words[1:-1]
            if (spelled := canonical(words)) is not None:
                self.tags.append(Sourced(spelled, self.where, line))
            elif self.unreadable is None:
                problem = f"{_quoted(words)!r} is not an SPDX expression"
                self.unreadable = Sourced(problem, self.where, line)
            remaining = _without(remaining, tag.start(), tag.end())
        return remaining

    def _without_licences(self, first_line: int, block: str, remaining: str) -> str:
        matches = _recognised(remaining)
        covered = sum(len(remaining[start:end].split()) for _, start, end in matches)
        for name, start, end in matches if covered >= self.min_share * len(remaining.split()) else ():
            self.texts.append(Sourced(name, self.where, first_line + block.count("\n", 0, start)))
            remaining = _without(remaining, start, end)
        return remaining


def _notices(blocks: list[tuple[int, str]], where: str, min_share: float) -> Notices:
    reading = _Reading(where, min_share)
    for first_line, block in blocks:
        reading.read(first_line, block)
    tags, comments = reading.tags, reading.unrecognised
    licenses = [*tags, *reading.texts]
    license = joint(stated.value for stated in licenses)
    families = frozenset(family for _, remaining in comments for family in _named(remaining))
    restricted = reading.unreadable or _first(comments, where, _restrictions(license, families))
    barrier = restricted or (None if license else _first(comments, where, (_STATEMENT, _RESERVED)))
    refers = bool(families) or any(_REFERENCE.search(remaining) for _, remaining in comments)
    statements = sum(len(_STATEMENT.findall(remaining)) for _, remaining in comments)
    stated = Sourced(license, where, licenses[0].line) if license else None
    if barrier is not None and not (license and license.startswith("LicenseRef-")):
        stated = None
    return Notices(
        stated,
        None if stated else barrier,
        tags[0] if tags else None,
        families,
        refers and restricted is None and statements <= _MAX_STATEMENTS,
        tuple(dict.fromkeys(reading.holders))[:MAX_HOLDERS],
    )


def _restrictions(license: str | None, families: frozenset[str]) -> list[re.Pattern[str]]:
    """The text that restricts use; next to a licence, also the name of a stricter one."""
    foreign = [name for name in _COPYLEFT if name in families and license and not _has(license, name)]
    return [_RESTRICTED, *(_FAMILIES[name] for name in foreign)]


def _first(texts: list[tuple[int, str]], where: str, patterns: Iterable[re.Pattern[str]]) -> Sourced | None:
    """The first line with any of the patterns."""
    for pattern in patterns:
        for line, remaining in texts:
            if pattern is _RESTRICTED and not _any_of(_RESTRICTING_WORDS, remaining):
                continue
            if match := pattern.search(remaining):
                row_start = remaining.rfind("\n", 0, match.start()) + 1
                row = remaining[row_start:].split("\n", 1)[0]
                return Sourced(_quoted(row), where, line + remaining.count("\n", 0, match.start()))
    return None


def explained(notices: Notices, license: str) -> bool:
    """Whether text that is not understood by itself only names this licence, or points to its file."""
    return notices.refers and all(_has(license, name) for name in notices.families)


def _has(license: str, family: str) -> bool:
    return any(word.strip("()").startswith(family) for word in license.split())


@lru_cache(maxsize=128)  # many files have the same one
def _named(text: str) -> frozenset[str]:
    """The licences that a text names."""
    return frozenset(family for family, pattern in _FAMILIES.items() if pattern.search(text))


@lru_cache(maxsize=128)
def _recognised(text: str) -> tuple[tuple[str, int, int], ...]:
    """The licence texts in a text, as identifier, start, end; links to licences do not count."""
    from licenseclassifier import identify_license

    matches = []
    for match in identify_license(text, coverage_threshold=0):
        name = f"{match.id}-only" if re.fullmatch(r"[AL]?GPL-[\d.]+", match.id) else match.id
        spelled, words = canonical(name), text[match.start : match.end]
        if spelled is not None and len(words.split()) > 1:
            matches.append((spelled, match.end - len(words.lstrip()), match.end))
    return tuple(matches)


def _without(text: str, start: int, end: int) -> str:
    """The text with a part replaced by blanks; line ends are kept."""
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def _quoted(row: str) -> str:
    words = " ".join(row.split())
    return words if len(words) <= MAX_QUOTED else f"{words[:MAX_QUOTED]} ..."
