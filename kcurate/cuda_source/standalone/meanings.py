"""What a declaration or a use of a name can mean, as far as its text tells, or a compiler does.

Not covered: choosing declarations (`kcurate.cuda_source.standalone.closure`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from kcurate.cuda_source.parse.items import Item
from kcurate.cuda_source.text.tokens import IDENTIFIER

# What a compiler tells of, with aliases; which names `using` makes known, it does not.
_TOLD = frozenset(("type", "function", "variable", "prototype"))
_ALIAS = re.compile(rb"\s*(?:template\s*<[^;]*>\s*)?using\s+\w+[^;=]*=")
# Operators that are always members, and words that only a member's head ends with.
_MEMBERS_ONLY = re.compile(rb"operator\s*(?:=(?!=)|->|\(|\[|\s(?!new\b|delete\b)\w)")
_BEHIND_PARAMETERS = re.compile(rb"\)\s*(?:const|override|final)\b[^(){};]*\Z")
# What stands before a name in its declaration, such as its type, and what may before a call.
_WORD_BEFORE = re.compile(rb"(?:\A|[^\w#])([A-Za-z_]\w*)[ \t]+\Z")
_BEFORE_CALL = frozenset((b"return", b"else", b"do", b"case", b"throw", b"and", b"or", b"not"))
# A longer word is none.
_MAX_WORD = 200
_BRACES = re.compile(rb"\{.*\}", re.DOTALL)


def calls(name: bytes, bare: bytes) -> list[re.Match[bytes]]:
    """The calls of a function: group 1 is what qualifies its name, 2 the `.` or `->` before it."""
    call = rb"(?:\b(\w+)\s*::\s*|(\.|->)\s*|\b)" + re.escape(name) + rb"\s*(?:<[^;{}()]*>)?\s*\("
    return [match for match in re.finditer(call, bare) if not _declares(bare, match.start())]


def _declares(bare: bytes, at: int) -> bool:
    before = _WORD_BEFORE.search(bare[max(0, at - _MAX_WORD) : at])
    return before is not None and before[1] not in _BEFORE_CALL


def tagged(name: bytes, bare: bytes) -> bool:
    """Whether a text says that a name is a class, as in `struct node *next`, which declares it."""
    return re.search(rb"\b(?:struct|class|union|enum)\s+%b\b" % re.escape(name), bare) is not None


def misread(item: Item, text: bytes) -> bool:
    """Whether a function is a member of a class that could not be read: alone it means nothing."""
    if item.kind != "function" or len(item.names) != 1:
        return False
    header = text[item.start : item.header_end]
    return bool(_MEMBERS_ONLY.match(item.names[0]) or _BEHIND_PARAMETERS.search(header))


def types_of(item: Item, bare: bytes) -> frozenset[bytes]:
    """The names of an item that are types: enumerators are none."""
    if item.kind != "type":
        return frozenset()
    outside = IDENTIFIER.findall(_BRACES.sub(b"", bare)) if b"enum" in item.used else item.used
    return frozenset(item.names).intersection(outside)


def not_reached(
    items: Iterable[Item], reached: Sequence[int], bare: Callable[[Item], bytes]
) -> frozenset[int]:
    """Where declarations begin that a compiler does not reach; of macros it says nothing.

    With a class template go its specialisations: a use is told of the one that it means.
    """
    told = [item for item in items if item.kind in _TOLD or _ALIAS.match(bare(item))]
    named = [item for item in told if item.kind == "type" and item.names]
    types = {item.qualified for item in named if item.reached(reached)}
    kept = {item.start for item in named if item.qualified in types}
    return frozenset(item.start for item in told if not item.reached(reached)) - kept
