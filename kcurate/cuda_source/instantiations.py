"""The template arguments with which a unit uses its kernel templates.

Sources: explicit instantiations, launches (`scale<float, 4><<<...>>>`), and launches inside host templates,
whose own arguments are traced to their callers. Arguments left to deduction are taken from the declared
types of what the launch passes. Not covered: overloads of a template, arguments of computed type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kcurate.cuda_source.brackets import split_arguments
from kcurate.cuda_source.items import Item, Parsed
from kcurate.cuda_source.launches import Launch
from kcurate.cuda_source.params import header_of, params_of
from kcurate.cuda_source.scopes import Scopes
from kcurate.cuda_source.text import IDENTIFIER, blank_literals

MAX_DEPTH = 4
MAX_FOUND = 64
_CAST = re.compile(rb"^\(\s*([\w:]+(?:\s+\w+)?)\s*\*+\s*\)")
_BUILTIN = re.compile(
    rb"\b((?:unsigned|signed|long|short)(?:\s+(?:long|int|char|short))*|(?:u?(?:char|short|int|long|longlong)|float|"
    rb"double)[1-4]?|bool|half|__half2?|u?int(?:8|16|32|64)_t|size_t)\b"
)


class Instantiations:
    """The template uses in one unit; `launches` are the launches in it."""

    def __init__(self, parsed: Parsed, launches: Sequence[Launch]) -> None:
        self.parsed = parsed
        self.launches = launches
        self.scopes = Scopes(parsed)
        self.functions = [item for item in parsed.items if item.kind == "function"]

    def of(self, kernel: Item) -> tuple[str, ...]:
        """The name expressions of a kernel template, such as `wave::step<float, 4>`; empty: none found."""
        found: dict[tuple[bytes, ...], None] = dict.fromkeys(self._explicit(kernel.names[-1]))
        for launch in self.launches:
            if launch.kernel == kernel.names[-1] and kernel in self.scopes.meant(launch):
                found.update(dict.fromkeys(self._of_launch(kernel, launch)))
        name = kernel.qualified.decode("utf-8", "replace")
        return tuple(
            f"{name}<{b', '.join(args).decode('utf-8', 'replace')}>" for args in list(found)[:MAX_FOUND]
        )

    def _explicit(self, name: bytes) -> Iterator[tuple[bytes, ...]]:
        for item in self.parsed.items:
            if item.kind == "instantiation" and name in item.names:
                yield from _uses(blank_literals(self.parsed.text[item.start : item.end]), name)

    def _of_launch(self, kernel: Item, launch: Launch) -> Iterator[tuple[bytes, ...]]:
        around = [item for item in self.functions if item.start <= launch.at < item.end]
        caller = min(around, key=lambda item: item.end - item.start, default=None)
        given = tuple(argument.encode() for argument in launch.template_args)
        wanted = template_parameters(self._head(kernel))
        if len(given) < len(wanted):
            deduced = self._deduced(kernel, launch, caller)
            given += tuple(deduced.get(name, b"") for name in wanted[len(given) :])
            while given and not given[-1]:
                given = given[:-1]  # the template default applies
        if given and all(given):
            yield from self._resolved(given, caller, 0)

    def _resolved(
        self, given: tuple[bytes, ...], caller: Item | None, depth: int
    ) -> Iterator[tuple[bytes, ...]]:
        """`given` with the caller's template parameters replaced by the arguments it is used with."""
        names = template_parameters(self._head(caller)) if caller is not None and caller.template else ()
        used = {name for argument in given for name in IDENTIFIER.findall(argument)} & set(names)
        if not used:
            yield given
        elif caller is not None and depth < MAX_DEPTH:
            for arguments in self._uses_of(caller, depth):
                values = dict(zip(names, arguments, strict=False))
                if used <= values.keys():
                    yield tuple(
                        IDENTIFIER.sub(lambda m, v=values: v.get(m[0], m[0]), argument)  # type: ignore[misc]
                        for argument in given
                    )

    def _uses_of(self, function: Item, depth: int) -> Iterator[tuple[bytes, ...]]:
        name = function.names[-1]
        yield from self._explicit(name)
        for item in self.functions:
            if item.start != function.start and name in item.used:
                for given in _uses(blank_literals(self.parsed.text[item.start : item.end]), name):
                    yield from self._resolved(given, item, depth + 1)

    def _head(self, item: Item) -> bytes:
        return header_of(item, self.parsed.text)

    def _deduced(self, kernel: Item, launch: Launch, caller: Item | None) -> dict[bytes, bytes]:
        """Template parameters that are the whole type of a parameter, with the type passed for each."""
        found: dict[bytes, bytes] = {}
        text = blank_literals(self.parsed.text[caller.start : caller.end]) if caller is not None else b""
        for param, argument in zip(params_of(self._head(kernel)), launch.arguments, strict=False):
            names = [
                word
                for word in IDENTIFIER.findall(param.type.encode())
                if word not in (b"const", b"volatile")
            ]
            if len(names) == 1 and names[0] not in found:
                type_text = _type_of(argument.expression.encode(), text)
                if type_text:
                    found[names[0]] = type_text
        return found


def template_parameters(header: bytes) -> tuple[bytes, ...]:
    """The parameter names of a template head: `template <class T, int N = 4>` gives T and N."""
    start = header.find(b"<")
    if not header.lstrip().startswith(b"template") or start < 0:
        return ()
    depth = 0
    for at in range(start, len(header)):
        depth += {b"<": 1, b">": -1}.get(header[at : at + 1], 0)
        if depth == 0:
            pieces = split_arguments(header[start + 1 : at], angles=True)
            names = [IDENTIFIER.findall(piece.split(b"=")[0]) for piece in pieces]
            return tuple(found[-1] for found in names if found)
    return ()


def declaration(expression: str) -> bytes:
    """The explicit instantiation of a kernel template, from its name expression."""
    name = expression.encode()
    return b"template __global__ decltype(" + name + b") " + name + b";"


def missing(expressions: Sequence[str], items: Sequence[Item], text: bytes) -> list[str]:
    """The expressions without an explicit instantiation among `items`."""
    stated = {
        (item.names[-1], arguments)
        for item in items
        if item.kind == "instantiation" and item.names
        for arguments in _uses(blank_literals(text[item.start : item.end]), item.names[-1])
    }
    return [e for e in expressions if _key(e) not in stated]


def _key(expression: str) -> tuple[bytes, tuple[bytes, ...]]:
    name, _, rest = expression.encode().partition(b"<")
    return name.split(b"::")[-1], tuple(split_arguments(rest[:-1], angles=True))


def _uses(text: bytes, name: bytes) -> Iterator[tuple[bytes, ...]]:
    """The template argument lists that follow a name."""
    for match in re.finditer(rb"\b" + re.escape(name) + rb"\s*<", text):
        depth = 1
        for at in range(match.end(), min(len(text), match.end() + 400)):
            depth += {b"<": 1, b">": -1}.get(text[at : at + 1], 0)
            if depth == 0:
                arguments = tuple(
                    b" ".join(a.split()) for a in split_arguments(text[match.end() : at], angles=True)
                )
                if arguments and text[at + 1 : at + 40].lstrip()[:1] in (b"(", b";", b"<", b")"):
                    yield arguments
                break


def _type_of(argument: bytes, text: bytes) -> bytes | None:
    """The element type of an argument: from its cast, or from the declaration of the variable in `text`."""
    if cast := _CAST.match(argument):
        return cast[1]
    name = IDENTIFIER.search(argument)
    if name is None:
        return None
    declared = re.search(
        rb"([A-Za-z_][\w ]*?)[\s*&]+(?:\w+\s*,\s*\**\s*)*" + re.escape(name[0]) + rb"\b\s*[=;,)\[]", text
    )
    if declared is None:
        return None
    if builtin := _BUILTIN.search(declared[1]):
        return builtin[1]
    words = [word for word in declared[1].split() if word not in (b"const", b"static", b"struct", b"return")]
    return words[-1] if words else None


def by_start(kernels: Sequence[Item], instantiations: Instantiations) -> Mapping[int, tuple[str, ...]]:
    """The name expressions of every kernel template of a unit, by the template's start."""
    return {kernel.start: instantiations.of(kernel) for kernel in kernels if kernel.template}
