"""A kernel's file without declarations that only share a name with what the kernel uses.

The closure matches names, not scopes, so a file may hold classes of the host that nothing in it needs. One
that does not compile can go if no other declaration has any of its names: what needs it then fails to compile
too. So can a stated instance of a template, if others compile. Not covered: compiling, and names that headers
declare (the caller asks the compiler).
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
# Not those for a name expression, which repeat that its instance is wrong.
_ANY_ERROR = re.compile(r"^(?!__nv_name_map)\S+\(\d+\): (?:catastrophic )?error\b", re.MULTILINE)
_INSTANTIATED = re.compile(r"\bat line (\d+)(?! of (?!kernel\.cu))")


def error_lines(log: str) -> set[int]:
    """The lines of a file, from 1, for which NVRTC's log has an error."""
    return {int(line) for line in _ERROR.findall(log)}


def trimmed(
    code: bytes, lines: Iterable[int], name: str, in_headers: Callable[[Set[bytes]], Set[bytes]]
) -> bytes:
    """The file without the declarations that errors at `lines` (from 1) are in, blanked so that lines stay.

    The kernel `name` stays; so does what shares a name with another declaration, or with a header:
    `in_headers(names)` are those that a header has. The same file: nothing can go.
    """
    items = [_Named.of(item, code) for item in parse(code).items]
    starts = [0, *(at + 1 for at, byte in enumerate(code) if byte == 0x0A)]
    gone: dict[int, _Named] = {}
    for at in (_text_at(code, starts[line - 1]) for line in lines if 0 < line <= len(starts)):
        around = (each for each in items if each.item.start <= at < each.item.end)
        wrong = min(around, key=lambda each: each.item.end - each.item.start, default=None)
        # Operators are chosen by their operands: one whose header fails has an operand without a type.
        if wrong is not None and wrong.may_go(name) and not (wrong.operator and at >= wrong.item.header_end):
            gone[wrong.item.start] = wrong
    types = {type_ for each in gone.values() if each.item.kind in ("type", "using") for type_ in each.names}
    for each in items:  # methods, operators and specialisations for types that go
        if each.item.kind == "function" and types & each.depends_on(code):
            gone[each.item.start] = each
    names = frozenset[bytes]().union(*(each.names for each in gone.values()))
    kept = frozenset[bytes]().union(*(each.names for each in items if each.item.start not in gone))
    fixed = (names & kept) | in_headers(names - kept)
    spans = sorted((each.item.start, each.item.end) for each in gone.values() if not fixed & each.names)
    return blanked(code, spans) if spans else code


def without_failing_instances(
    code: bytes, log: str, expressions: Sequence[str]
) -> tuple[bytes, tuple[str, ...]]:
    """The file and the name expressions of its stated instances without those that all errors come from.

    The same: an error has another cause, or no instance is left.
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
    left = tuple(each for each in expressions if each not in {stated[line] for line in failing})
    if not left or not all(causes):
        return code, tuple(expressions)
    return b"\n".join(b"" if at in failing else line for at, line in enumerate(lines, 1)), left


def build_macros(code: bytes, undefined: Set[str], known: Mapping[str, str]) -> bytes:
    """Definitions of the names in capitals that a build defines: those known, and `float` for a type's name.

    Empty: nothing tells one of them.
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
    """A declaration, and the names by which code can mean it; operators and specialisations have none."""

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
    """The first byte at or after one that is no blank."""
    return at + len(code[at : at + 400]) - len(code[at : at + 400].lstrip())
