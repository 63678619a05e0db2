"""What a kernel does with each pointer parameter: reads, writes, atomics, inferred from its text and callees.

Pointers are followed through local pointers, references, casts and device functions. A pointer passed to a
function that the code does not contain counts as read and written. Not covered: how far an index goes
(`bounds`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from kcurate.cuda_source import parse
from kcurate.cuda_source.brackets import closing
from kcurate.cuda_source.text import blank_literals
from kcurate.draft.host import Function, function_of, split

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\n]*\))?((?:\\\n|[^\n])*)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
MAX_DEPTH = 6
MAX_BODY = 200_000
_READ_ONLY_CALLS = re.compile(
    r"__ld\w*|tex\w+|printf|assert|isnan|isinf|sizeof|__isGlobal|min|max|fmin\w*|fmax\w*"
)
_ATOMIC = re.compile(r"(?:\w+::)?(?:safe|fast)?_?atomic\w*", re.IGNORECASE)
_KEYWORDS = frozenset(("if", "while", "for", "switch", "return", "else", "do", "case"))
_HEAD = re.compile(r"\b(?:if|while|for|switch|constexpr)\s*\Z")
_CASTS = (
    re.compile(r"\b(?:reinterpret|static|const)_cast\s*<[^;()]*?>\s*(?=\()"),
    re.compile(
        r"\(\s*(?:const\s+|volatile\s+|unsigned\s+|struct\s+)*[A-Za-z_][\w:]*(?:\s*<[^<>()]*>)?(?:\s+const)?\s*(?:\*\s*(?:const\s*|__restrict__\s*|volatile\s*)*)+\)(?=\s*[\w(&])"
    ),
)
_ASSIGNED = re.compile(r"\s*(=(?!=)|[-+*/%&|^]=|<<=|>>=|\+\+|--)")


@dataclass(frozen=True)
class Usage:
    """What a kernel does with the memory behind a pointer; `first` is the kind of its first access."""

    read: bool = False
    written: bool = False
    atomic: bool = False
    unknown: bool = False
    first: str = ""

    def __or__(self, other: Usage) -> Usage:
        return Usage(
            self.read or other.read,
            self.written or other.written,
            self.atomic or other.atomic,
            self.unknown or other.unknown,
            self.first or other.first,
        )


class DeviceCode:
    """A self-contained device file: its functions by name, its text with comments and literals blanked."""

    def __init__(self, code: str) -> None:
        parsed = parse(code.encode())
        self.bytes = blank_literals(parsed.text)
        self.text = self.bytes.decode("latin-1")
        self.items = parsed.items
        self.body = cache(self._read_body)

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """Every function with a body by unqualified name; the first of several overloads."""
        found: dict[str, Function] = {}
        for item in self.items:
            if item.kind == "function" and item.names:
                function = function_of(item, self.text)
                found.setdefault(function.name, function)
        return found

    @cached_property
    def macros(self) -> Mapping[str, str]:
        """Object-like macros by name, including those inside functions."""
        return {match[1]: _joined(match[3]) for match in _DEFINE.finditer(self.text) if match[2] is None}

    @cached_property
    def types(self) -> Mapping[str, str]:
        """Typedefs and aliases by name."""
        found = {}
        for match in re.finditer(r"\btypedef\s+([^{};]+?)\s*\b(\w+)\s*;", self.text):
            found[match[2]] = match[1]
        for match in re.finditer(r"\busing\s+(\w+)\s*=\s*([^;]+);", self.text):
            found[match[1]] = match[2].strip()
        return found

    @cached_property
    def calling_macros(self) -> Mapping[str, tuple[tuple[str, ...], str]]:
        """Function-like macros by name: parameters and body."""
        return {
            match[1]: (tuple(one.strip() for one in match[2][1:-1].split(",")), _joined(match[3]))
            for match in _DEFINE.finditer(self.text)
            if match[2] is not None
        }

    def _read_body(self, function: Function) -> str:
        """A function's body with macros expanded and pointer casts blanked."""
        text = self._expanded(_DIRECTIVE.sub(" ", self.text[function.body : function.end]))
        for pattern in _CASTS:
            text = pattern.sub(lambda match: " " * len(match[0]), text)
        return text

    def _expanded(self, text: str) -> str:
        """The text with macros expanded a few levels deep; stops before it gets too long."""
        for _ in range(MAX_DEPTH):
            before = text
            for name, (params, body) in self.calling_macros.items():
                text = _put_in(text, name, params, body)
            for name, body in self.macros.items():
                if "[" in body or "=" in body:
                    text = re.sub(rf"(?<![\w.]){re.escape(name)}\b", lambda _, own=body: own, text)  # type: ignore[misc]
            if text == before or len(text) > MAX_BODY:
                return before if len(text) > MAX_BODY else text
        return text

    def usage(self, function: Function, name: str, depth: int = 0) -> Usage:
        """What a function does with the memory behind its parameter `name`."""
        body = self.body(function)
        found = Usage()
        for alias, element in _aliases(body, name):
            found |= self._accesses(body, alias, element, depth)
        return found

    def _accesses(self, body: str, name: str, element: bool, depth: int) -> Usage:
        """What is done with a pointer (with `element`: a reference to what it points to), by this name."""
        found = Usage()
        for match in re.finditer(rf"(?<![\w.>]){re.escape(name)}\b", body):
            found |= self._access(body, match.start(), match.end(), element, depth)
        return found

    def _access(self, body: str, start: int, end: int, element: bool, depth: int) -> Usage:
        """One occurrence of a pointer (with `element`: of a reference to what it points to)."""
        own = body[start:end]
        end, start, reached = _extended(body, start, end, element)
        before = body[:start].rstrip()
        if reached and re.search(r"&\s*\w+\s*=\s*\Z", before):
            return Usage()  # a reference is bound; only its later uses count
        assigned = _ASSIGNED.match(body, end)
        if not reached:
            if before.endswith("*") and _dereferences(body, len(before) - 1):
                before = before[:-1].rstrip()
            else:
                return self._passed(body, start, depth)
        elif before.endswith("&") and not before.endswith("&&") and not re.search(r"[\w)\]]\s*&\Z", before):
            return self._passed(body, start, depth)
        if assigned:
            pure = assigned[1] == "=" and not self._in_value(body, assigned.end(), own)
            return Usage(read=not pure, written=True, first="write" if pure else "read")
        if before.endswith(("++", "--")):
            return Usage(read=True, written=True, first="read")
        return Usage(read=True, first="read")

    @staticmethod
    def _in_value(body: str, at: int, name: str) -> bool:
        """Whether the value that is assigned from here on uses a name, which is then read first."""
        value = body[at : body.find(";", at)]
        return re.search(rf"(?<![\w.>]){re.escape(name)}\s*\[", value) is not None

    def _passed(self, body: str, start: int, depth: int) -> Usage:
        """A pointer value: passed to a function, compared, or copied to an alias."""
        call = _enclosing_call(body, start)
        if call is None:
            return Usage()
        name, index = call
        short = name.rpartition("::")[2]
        if _ATOMIC.fullmatch(short):
            return Usage(True, True, True, first="read")
        if _READ_ONLY_CALLS.fullmatch(short):
            return Usage(read=True, first="read")
        callee = self.functions.get(short)
        if callee is not None and index < len(callee.params) and depth < MAX_DEPTH:
            type_text, own = callee.params[index]
            if "*" in type_text or "[" in type_text or "&" in type_text:
                if "*" in type_text:
                    return self.usage(callee, own, depth + 1)
                return self._accesses(self.body(callee), own, True, MAX_DEPTH)
            return Usage()
        return Usage(True, True, unknown=True, first="read")


def _joined(text: str) -> str:
    return text.replace("\\\n", " ").strip()


def _put_in(text: str, name: str, params: tuple[str, ...], body: str) -> str:
    """The text with every call of a macro replaced by its body."""
    out, at = [], 0
    for match in re.finditer(rf"(?<![\w.]){re.escape(name)}\s*\(", text):
        end = closing(text.encode("latin-1"), match.end() - 1)
        if match.start() < at or end is None:
            continue
        given = dict(zip(params, split(text[match.end() : end - 1]), strict=False))
        filled = re.sub(r"[A-Za-z_]\w*", lambda m, own=given: own.get(m[0], m[0]), body)  # type: ignore[misc]
        out += [text[at : match.start()], filled]
        at = end
    return "".join([*out, text[at:]])


def _aliases(body: str, name: str) -> Iterator[tuple[str, bool]]:
    """The parameter, and local names for the same memory; True marks references to an element."""
    known = {name: False}
    queue = [name]
    while queue:
        own = queue.pop(0)
        yield own, known[own]
        if known[own]:
            continue
        escaped = re.escape(own)
        for pattern, element in (
            (rf"(?<![\w.>])(\w+)\s*=\s*\(?\s*{escaped}\s*(?=[;,+)-])", False),
            (rf"(?<![\w.>])(\w+)\s*=\s*\(?\s*&\s*\(?\s*{escaped}\s*\[", False),
            (rf"&\s*(\w+)\s*=\s*{escaped}\s*\[", True),
            (rf"&\s*(\w+)\s*=\s*\*\s*\(?\s*{escaped}\b", True),
        ):
            for match in re.finditer(pattern, body):
                if match[1] not in known and match[1] not in _KEYWORDS:
                    known[match[1]] = element
                    queue.append(match[1])


def _extended(body: str, start: int, end: int, element: bool) -> tuple[int, int, bool]:
    """Extended over indices, members and parentheses: end, start, and whether memory is accessed."""
    reached = element
    data = body.encode("latin-1")
    while True:
        rest = re.compile(r"\s*").match(body, end)
        at = rest.end() if rest else end
        symbol = body[at : at + 1]
        if symbol == "[":
            close = closing(data, at)
            if close is None:
                return end, start, reached
            end, reached = close, True
        elif symbol == "." or body[at : at + 2] == "->":
            member = re.compile(r"(?:\.|->)\s*\w+").match(body, at)
            if member is None:
                return end, start, reached
            end, reached = member.end(), reached or symbol == "-"
        elif symbol in ("+", "-") and not reached and body[at + 1 : at + 2] not in ("+", "-", "="):
            opening = _opening(body, start)
            if opening is None or _is_call(body, opening):
                return end, start, reached
            close = closing(data, opening)
            if close is None:
                return end, start, reached
            start, end = opening, close
        elif symbol == ")" and (opening := _opening(body, start)) is not None and not _is_call(body, opening):
            if body[opening + 1 : start].strip() not in ("", "*", "&"):
                return end, start, reached
            reached = reached or body[opening + 1 : start].strip() == "*"
            start, end = opening, at + 1
        else:
            return end, start, reached


def _opening(body: str, at: int) -> int | None:
    """The position of the open parenthesis that encloses `at` in the same statement, if any."""
    depth = 0
    for position in range(at - 1, max(-1, at - 2000), -1):
        character = body[position]
        if character in ")]":
            depth += 1
        elif character in "([":
            if depth == 0:
                return position if character == "(" else None
            depth -= 1
        elif character in ";{}":
            return None
    return None


def _is_call(body: str, opening: int) -> bool:
    match = re.search(r"([A-Za-z_]\w*|>)\s*\Z", body[max(0, opening - 200) : opening])
    return match is not None and match[1] not in ("return", "else")


def _dereferences(body: str, star: int) -> bool:
    """Whether a `*` before a pointer's name reads through it, and is not part of its declaration."""
    before = body[:star].rstrip()
    if before.endswith(")"):  # behind a condition, or a product
        opening = _opening(body, len(before) - 1)
        return opening is None or _HEAD.search(body[max(0, opening - 20) : opening]) is not None
    word = re.search(r"\w+\Z|\]\Z", before[-20:])
    return word is None or word[0] in _KEYWORDS


def _enclosing_call(body: str, at: int) -> tuple[str, int] | None:
    """The function call that encloses a position, and the argument index; None outside calls."""
    opening = _opening(body, at)
    while opening is not None:
        match = re.search(
            r"([A-Za-z_][\w:]*)\s*(?:<[^<>;(){}]*>)?\s*\Z", body[max(0, opening - 200) : opening]
        )
        if match and match[1] not in _KEYWORDS:
            return match[1], len(split(body[opening + 1 : at] + "x")) - 1
        if match and match[1] in ("if", "while", "for", "switch"):
            return None
        opening = _opening(body, opening)
    return None
