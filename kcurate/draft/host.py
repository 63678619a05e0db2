"""A translation unit's host code: its functions, macros, definitions, launches, allocations and copies.

Parsed as text with comments and literals blanked; nothing is evaluated here (`meaning`). Nested scopes in a
function are not distinguished. Not covered: finding the file (`tree`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from kcurate.cuda_source import Item, parse
from kcurate.cuda_source.brackets import closing, split_arguments
from kcurate.cuda_source.launches import Launch, find_launches, runtime_calls
from kcurate.cuda_source.text import blank_literals

_CAST = re.compile(r"^\(\s*(?:const\s+)?(?:unsigned\s+|struct\s+)?[\w:]+(?:\s*<[^<>]*>)?\s*(?:\*\s*)*&?\)\s*")
_MODIFIED = r"(?<![\w.>])(?:{0}\s*(?:\+\+|--|[-+*/%&|^]=|<<=|>>=)|(?:\+\+|--)\s*{0}\b)"
_VECTOR = (
    r"(?:std\s*::\s*vector|vector|thrust\s*::\s*(?:device|host)_vector)\s*<\s*"
    r"([^;<>]*(?:<[^<>]*>)?[^;<>]*)>\s*"
)
_NO_TYPES = frozenset(("return", "else", "delete", "new", "case", "sizeof", "goto"))
_TYPE = re.compile(
    r"\s*((?:(?:const|static|constexpr|unsigned|long|struct|volatile)\s+)*[A-Za-z_][\w:]*(?:\s*<[^;]*>)?)[\s*&]"
)
_CALLING = re.compile(r"\b(?:return|else)\Z")
LONGEST_VALUE = 2000


@dataclass(frozen=True)
class Function:
    """A function with a body: parameters as (type, name), and where it and its body are in the text."""

    name: str
    params: tuple[tuple[str, str], ...]
    start: int
    body: int
    end: int


@dataclass(frozen=True)
class Definition:
    """`type name = value` (`type` empty: an assignment); `call`: `name(value)` or `name{value}`."""

    at: int
    type: str
    value: str
    call: bool = False


@dataclass(frozen=True)
class RuntimeCall:
    """One CUDA runtime call that allocates, fills or copies memory."""

    name: str
    at: int
    args: tuple[str, ...]


def function_of(item: Item, text: str) -> Function:
    """A parsed function; `text` is the unit's."""
    name = item.names[-1].decode("latin-1")
    params = parameters(text[item.start : item.header_end], name)
    return Function(name, params, item.start, item.header_end, item.end)


class Host:
    """One unit's text (includes spliced in), indexed."""

    def __init__(self, source: bytes) -> None:
        self._parsed = parse(source)
        self.bare = blank_literals(self._parsed.text)
        self.text = self.bare.decode("latin-1")
        # What is asked of a name is searched for once.
        self.definitions = cache(self._find_definitions)
        self.modified = cache(self._find_modification)
        self.vector_size = cache(self._find_vector)
        self.declared_type = cache(self._find_type)
        self.calls = cache(self._find_calls)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Every kernel launch, in order."""
        return tuple(find_launches(self._parsed.text, self._parsed.tree))

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Every function that is not a kernel, in order."""
        return tuple(
            function_of(item, self.text)
            for item in self._parsed.items
            if item.kind == "function" and item.names and not item.kernel
        )

    @cached_property
    def macros(self) -> dict[str, tuple[tuple[str, ...] | None, str]]:
        """Parameters (None: object-like macro) and body by name; the last definition wins."""
        found: dict[str, tuple[tuple[str, ...] | None, str]] = {}
        for item in self._parsed.items:
            if item.kind == "macro":
                line = self.text[item.start : item.end].replace("\\\n", " ")
                match = re.match(r"\s*#\s*define\s+(\w+)(\(([^)]*)\))?[ \t]*(.*)", line, re.DOTALL)
                if match:
                    params = tuple(p.strip() for p in match[3].split(",")) if match[2] else None
                    found[match[1]] = (params, match[4].strip())
        return found

    @cached_property
    def types(self) -> dict[str, str]:
        """Top-level `typedef T name` and `using name = T`: name to T."""
        found: dict[str, str] = {}
        for item in self._parsed.items:
            if item.kind in ("type", "using"):
                text = self.text[item.start : item.end]
                match = re.match(r"\s*typedef\s+([^{};]+?)\s*\b(\w+)\s*;?\s*\Z", text)
                alias = re.match(r"\s*using\s+(\w+)\s*=\s*([^;]+);?\s*\Z", text)
                if match:
                    found[match[2]] = match[1]
                elif alias:
                    found[alias[1]] = alias[2].strip()
        return found

    def function_at(self, at: int) -> Function | None:
        """The function that encloses a position."""
        return next((f for f in self.functions if f.start <= at < f.end), None)

    def span(self, function: Function | None) -> tuple[int, int]:
        """The span of its body; of the whole text for None."""
        return (function.body, function.end) if function else (0, len(self.text))

    def _find_definitions(self, name: str, function: Function | None) -> tuple[Definition, ...]:
        """Every definition and assignment of a variable in a function (None: at file scope)."""
        low, high = self.span(function)
        found = []
        own = re.escape(name)
        for match in re.finditer(rf"(?<![\w.>]){own}\s*(=(?!=)|[({{])", self.text[low:high]):
            at = low + match.start()
            if function is None and self.function_at(at) is not None:
                continue
            kind = self._declared_type(at, low)
            call = match[1] != "="
            if call and not kind:
                continue
            value = self._inside(low + match.end() - 1) if call else self._value(low + match.end())
            if value is not None:
                found.append(Definition(at, kind, value.strip(), call))
        return tuple(found)

    def _find_modification(self, name: str, function: Function | None) -> bool:
        """Whether a variable is incremented, decremented or otherwise updated in place."""
        low, high = self.span(function)
        return re.search(_MODIFIED.format(re.escape(name)), self.text[low:high]) is not None

    def _find_vector(self, name: str, function: Function | None) -> tuple[str, str, int] | None:
        """Element type, size and position of `std::vector<T> name(size)` or a thrust vector."""
        low, high = self.span(function)
        text = self.text[low:high]
        match = re.search(rf"{_VECTOR}{re.escape(name)}\s*([({{])", text) if "vector" in text else None
        inside = self._inside(low + match.start(2)) if match else None
        if match is None or not inside:
            return None
        return match[1].strip(), inside.split(",")[0].strip(), low + match.start()

    def _find_type(self, name: str, function: Function | None) -> str | None:
        """The declared type of a variable, parameter or global, including stars."""
        for type_text, own in function.params if function is not None else ():
            if own == name:
                return type_text
        low, high = self.span(function)
        for match in re.finditer(rf"(?<![\w.>]){re.escape(name)}\s*[;=,\[)({{]", self.text[low:high]):
            at = low + match.start()
            kind = self._declared_type(at, low)
            if kind and kind.split()[-1] not in _NO_TYPES:
                stars = re.search(r"[*\s]*\Z", self.text[max(low, at - 20) : at])
                return kind + "*" * (stars[0].count("*") if stars else 0)
        return self.declared_type(name, None) if function is not None else None

    def _find_calls(self, name: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """Calls of a function: position and arguments (definitions and prototypes excluded)."""
        found = []
        for match in re.finditer(rf"(?<![\w.>]){re.escape(name)}\s*(?:<[^<>;(){{}}]*>)?\s*\(", self.text):
            end = closing(self.bare, match.end() - 1)
            if end is None or any(f.start <= match.start() < f.body for f in self.functions):
                continue
            before = self.text[: match.start()]
            spaced = before.rstrip()
            if spaced != before and re.match(r"[\w*&>]", spaced[-1:]) and not _CALLING.search(spaced[-7:]):
                continue
            found.append((match.start(), tuple(split(self.text[match.end() : end - 1]))))
        return tuple(found)

    def given(self, name: str, function: Function) -> Iterator[tuple[int, str]]:
        """What other functions pass for a parameter: where, and the argument."""
        names = [own for _, own in function.params]
        for at, arguments in self.calls(function.name) if name in names else ():
            fits = names.index(name) < len(arguments) <= len(names)
            if fits and not function.start <= at < function.end:
                yield at, arguments[names.index(name)]

    @cached_property
    def runtime_calls(self) -> tuple[RuntimeCall, ...]:
        """Every allocation, copy and fill, in order."""
        return tuple(
            RuntimeCall(name.decode(), at, tuple(argument.decode("latin-1") for argument in arguments))
            for name, at, arguments in runtime_calls(self.bare)
        )

    def _declared_type(self, at: int, low: int) -> str:
        """The declaration specifiers before a name; empty for an assignment."""
        before = self.text[max(low, at - 300) : at]
        statement = re.split(r"[;{}]", before)[-1]
        while (shorter := re.sub(r"\([^()]*\)", " ", statement)) != statement:
            statement = shorter
        statement = re.split(r"[()]", statement)[-1]
        match = _TYPE.match(statement)
        return match[1].strip() if match and match[1] not in _NO_TYPES else ""

    def _value(self, at: int) -> str | None:
        """The text from a position to the `;`, `,` or bracket that ends the expression."""
        depth = 0
        for position in range(at, min(len(self.text), at + LONGEST_VALUE)):
            character = self.text[position]
            if character in "([{":
                depth += 1
            elif character in ")]}":
                depth -= 1
            if depth < 0 or (depth == 0 and character in ";,"):
                return self.text[at:position]
        return None

    def _inside(self, at: int) -> str | None:
        end = closing(self.bare, at)
        return self.text[at + 1 : end - 1] if end is not None else None


def split(text: str, angles: bool = False) -> list[str]:
    """The items of an argument list, split at top-level commas; `angles` counts `<` and `>` as brackets."""
    return [piece.decode("latin-1") for piece in split_arguments(text.encode("latin-1"), angles)]


def parameters(header: str, name: str) -> tuple[tuple[str, str], ...]:
    """The parameters in a function header as (type, name)."""
    match = re.search(rf"\b{re.escape(name)}\s*\(", header)
    end = closing(header.encode("latin-1"), match.end() - 1) if match else None
    if match is None or end is None:
        return ()
    found = []
    for piece in split(header[match.end() : end - 1], angles=True):
        text = re.sub(r"=.*", "", piece, flags=re.DOTALL).strip()
        text = re.sub(r"\b__restrict(?:__)?\b|\brestrict\b", " ", text)
        own = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*\Z", text)
        if own:
            stars = "*" if text.rstrip().endswith("]") else ""
            found.append((" ".join(text[: own.start()].split()) + stars, own[1]))
        else:
            found.append((text, ""))
    return tuple(found)


def target(text: str) -> str:
    """The variable behind casts, `&` and brackets: `(void**)&d.a` is `d.a`, `&a[0]` is `a`."""
    text = text.strip()
    while True:
        match = _CAST.match(text)
        template = re.match(r"(?:reinterpret|static|const)_cast\s*<[^()]*>\s*\(", text)
        if match and match.end() < len(text):
            text = text[match.end() :].strip()
        elif template and text.endswith(")"):
            text = text[template.end() : -1].strip()
        elif text.startswith(("&", "*")):
            text = text[1:].strip()
        elif text.startswith("(") and text.endswith(")"):
            text = text[1:-1].strip()
        else:
            break
    match = re.match(
        r"(?:thrust\s*::\s*)?raw_pointer_cast\s*\(\s*&?\s*([\w.>-]+?)(?:\.data\(\)|\[0\])?\s*\)", text
    )
    if match:
        return match[1]
    match = re.match(r"[A-Za-z_]\w*(?:(?:\.|->)[A-Za-z_]\w*(?!\s*\())*", text)
    return match[0] if match else text
