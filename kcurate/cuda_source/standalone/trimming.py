"""Removes declarations that do not compile from a kernel's file and that the kernel does not need.

The closure matches names, not scopes, so a file may contain host classes that nothing needs. A declaration
that does not compile can be removed if no other declaration has any of its names: if something does need it,
the file fails to compile again. A stated template instance can be removed if other instances compile. Not
covered: compiling, and which names headers declare (the caller asks the compiler).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from kcurate.cuda_source.launches.instantiations import declaration
from kcurate.cuda_source.parse.items import Item, parse
from kcurate.cuda_source.preprocess.macros import blanked
from kcurate.cuda_source.text.tokens import IDENTIFIER

_DROPPED_KINDS = frozenset(("function", "type", "variable", "prototype", "using"))
_OPERATOR = re.compile(rb"\boperator\b")
_SPECIAL = re.compile(rb"\s*template\s*<\s*>")
_MENTIONED = re.compile(rb"\b(?:struct|class|union|enum)\s+(\w+)(?!\s*[{:])")
_ERROR = re.compile(r"^kernel\.cu\((\d+)\): (?:catastrophic )?error", re.MULTILINE)
# Without errors for a name expression, which only repeat that its instance fails.
_ANY_ERROR = re.compile(r"^(?!__nv_name_map)\S+\(\d+\): (?:catastrophic )?error\b", re.MULTILINE)
_INSTANTIATED = re.compile(r"\bat line (\d+)(?! of (?!kernel\.cu))")


def error_lines(log: str) -> set[int]:
    """The line numbers, from 1, of the errors in NVRTC's log."""
    return {int(line) for line in _ERROR.findall(log)}


def trimmed(
    code: bytes, lines: Iterable[int], name: str, in_headers: Callable[[Set[bytes]], Set[bytes]]
) -> bytes:
    """The file without the declarations that contain an error at `lines` (from 1), at unchanged line numbers.

    The kernel `name` stays, and so does a declaration that shares a name with another one or with a header;
    `in_headers(names)` returns those of the names that headers declare. The result equals `code` if nothing
    can be removed.
    """
    declarations = [_Named.of(item, code) for item in parse(code).items]
    starts = [0, *(at + 1 for at, byte in enumerate(code) if byte == 0x0A)]
    removed: dict[int, _Named] = {}
    for at in (_text_at(code, starts[line - 1]) for line in lines if 0 < line <= len(starts)):
        around = (named for named in declarations if named.item.start <= at < named.item.end)
        failing = min(around, key=lambda named: named.item.end - named.item.start, default=None)
        # An operator may go only if its header fails: then an operand has no type, so nothing can use it.
        if failing is None or (failing.operator and at >= failing.item.header_end):
            continue
        if failing.may_go(name):
            removed[failing.item.start] = failing
    types = {
        type_ for named in removed.values() if named.item.kind in ("type", "using") for type_ in named.names
    }
    for named in declarations:  # methods, operators and specialisations for the removed types
        if named.item.kind == "function" and types & named.depends_on(code):
            removed[named.item.start] = named
    removed_names = frozenset[bytes]().union(*(named.names for named in removed.values()))
    remaining = (named.names for named in declarations if named.item.start not in removed)
    remaining_names = frozenset[bytes]().union(*remaining)
    shared_names = (removed_names & remaining_names) | in_headers(removed_names - remaining_names)
    spans = sorted(
        (named.item.start, named.item.end) for named in removed.values() if not shared_names & named.names
    )
    return blanked(code, spans) if spans else code


def without_failing_instances(
    code: bytes, log: str, expressions: Sequence[str]
) -> tuple[bytes, tuple[str, ...]]:
    """The file and its stated name expressions without those instances that cause all the errors.

    Both are unchanged if an error has another cause or no instance would be left.
    """
    lines = code.split(b"\n")
    stated = {
        number: expression
        for expression in expressions
        for number, line in enumerate(lines, 1)
        if declaration(expression) in line
    }
    causes = [
        stated.keys() & {int(line) for line in [*_ERROR.findall(message), *_INSTANTIATED.findall(message)]}
        for message in log.split("\n\n")
        if _ANY_ERROR.search(message)
    ]
    failing = set[int]().union(*causes)
    failed = {stated[line] for line in failing}
    remaining = tuple(expression for expression in expressions if expression not in failed)
    if not remaining or not all(causes):
        return code, tuple(expressions)
    return b"\n".join(b"" if at in failing else line for at, line in enumerate(lines, 1)), remaining


def build_macros(code: bytes, undefined: Set[str], known: Mapping[str, str]) -> bytes:
    """`#define` lines for undefined macros that a build system would define; empty: a value is unknown.

    Values come from `known`; a name that is used as a type becomes `float`.
    """
    lines = []
    for name in sorted(undefined):
        word = name.encode()
        type_ = re.search(rb"[<,]\s*%b\s*[,>]|\b%b\b\s*(?:[*&]|\s[A-Za-z_])" % (word, word), code)
        value = known.get(name) or ("float" if type_ and not re.search(rb"\[\s*%b\s*\]" % word, code) else "")
        if not value:
            return b""
        lines.append(f"#define {name} {value}\n".encode())
    return b"".join(lines)


@dataclass(frozen=True)
class _Named:
    """A declaration, and the names by which code can refer to it; operators and specialisations have none."""

    item: Item
    names: frozenset[bytes]
    operator: bool
    special: bool = False

    @classmethod
    def of(cls, item: Item, code: bytes) -> _Named:
        header = code[item.start : item.header_end]
        if item.kind == "function":
            operator = _OPERATOR.search(header) is not None
            special = _SPECIAL.match(header) is not None
            return cls(item, frozenset(() if operator or special else item.names[:1]), operator, special)
        # `extern class Field* field;` mentions a class, which may then stay without a definition.
        mentioned = frozenset(_MENTIONED.findall(header) if item.kind in ("variable", "prototype") else ())
        return cls(item, frozenset(item.names) - mentioned, False)

    def depends_on(self, code: bytes) -> Set[bytes]:
        """The names of types without which a function means nothing."""
        if self.special:
            return {*IDENTIFIER.findall(code[self.item.start : self.item.header_end])}
        return self.item.used if self.operator else {*self.item.names[:-1]}

    def may_go(self, name: str) -> bool:
        return (
            self.item.kind in _DROPPED_KINDS
            and not self.special
            and not self.item.kernel
            and name.encode() not in self.item.names
        )


def _text_at(code: bytes, at: int) -> int:
    """The offset of the first non-blank byte at or after `at`."""
    return at + len(code[at : at + 400]) - len(code[at : at + 400].lstrip())
