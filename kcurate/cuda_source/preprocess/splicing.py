"""Splices local includes in and resolves conditionals; macros, code and system includes stay as written.

The result is one text and a map back to the files. `#if` is evaluated as the device compiler would. A branch
whose condition cannot be evaluated is left out, as g++ does after a syntax error, and the condition is
recorded. Not covered: expanding macros in code.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kcurate.core import headers
from kcurate.cuda_source.preprocess.conditions import evaluate
from kcurate.cuda_source.preprocess.expansion import BUILT_IN, UnevaluatedError
from kcurate.cuda_source.preprocess.macros import SAVING, Saved, save_or_restore
from kcurate.cuda_source.text.blanking import blank_comments, without_byte_order_mark
from kcurate.cuda_source.text.tokens import IDENTIFIER, directives
from kcurate.records import Condition, Span

Resolve = Callable[[str, str], str | None]
Read = Callable[[str], bytes | None]

# Macros that nvcc 13.0 with g++ 12 defines for sm_90a on Linux, as far as code is likely to test them.
_DEFINED = b"""
__CUDACC__=1 __NVCC__=1 __CUDA_ARCH__=900 __CUDA_ARCH_LIST__=900 __CUDA_ARCH_FEAT_SM90_ALL=1
__CUDA_ARCH_SPECIFIC__=900 __CUDA_ARCH_FAMILY_SPECIFIC__=900 CUDART_VERSION=13000 CUDA_VERSION=13000
__CUDACC_VER_MAJOR__=13 __CUDACC_VER_MINOR__=0 __CUDACC_VER_BUILD__=88 __cplusplus=201703L __GNUC__=12
__GNUG__=12 __GNUC_MINOR__=2 _GNU_SOURCE=1 __STDC__=1 __STDC_HOSTED__=1 __EXCEPTIONS=1 __GXX_RTTI=1 __ELF__=1
__linux__=1 __linux=1 linux=1 __gnu_linux__=1 __unix__=1 __unix=1 unix=1 __x86_64__=1 __x86_64=1
__amd64__=1 __amd64=1
__LP64__=1 _LP64=1 __CHAR_BIT__=8 __SIZEOF_SHORT__=2 __SIZEOF_INT__=4 __SIZEOF_LONG__=8 __SIZEOF_LONG_LONG__=8
__SIZEOF_POINTER__=8 __SIZEOF_SIZE_T__=8 __SIZEOF_INT128__=16 __INT_MAX__=0x7fffffff
__LONG_MAX__=0x7fffffffffffffffL __BYTE_ORDER__=1234 __ORDER_LITTLE_ENDIAN__=1234 __ORDER_BIG_ENDIAN__=4321
__cpp_constexpr=201603L __cpp_if_constexpr=201606L __cpp_inline_variables=201606L __cpp_exceptions=199711L
"""
PREDEFINED: Mapping[bytes, bytes] = BUILT_IN | {
    name: value for name, _, value in (word.partition(b"=") for word in _DEFINED.split())
}
# Bounds against includes that multiply: bytes of a unit, nested includes.
MAX_BYTES = 32 << 20
MAX_DEPTH = 60
KERNEL_MARK = b"__global__"

_DIRECTIVE = re.compile(
    rb"^[ \t]*#[ \t]*(include|define|undef|if|ifdef|ifndef|elif|elifdef|elifndef|else|endif|pragma)\b",
    re.MULTILINE,
)
_INCLUDE = re.compile(rb'[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)')
_C_HEADER = (
    r"(?:assert|complex|ctype|errno|fcntl|float|inttypes|limits|locale|malloc|math|memory|pthread|setjmp|signal|"
    r"stdarg|stdbool|stddef|stdint|stdio|stdlib|string|strings|time|unistd|values|wchar|cuda\w*|vector_types|"
    r"mma|cooperative_groups)\.h\Z"
)
# `#include <x>` means a file of the tree when one lies where a quoted one would, and x is none of these. The
# CUDA C++ library's headers have no suffix: `cuda/helper.h` is somebody else's.
_STANDARD = re.compile(_C_HEADER + r"|[a-z_]+\Z|(?:sys|cub|thrust|cooperative_groups|GL)/|cuda/[\w/]+\Z")
# Headers that every CUDA 13 with g++ 12 has, for `__has_include`: C++17's that C lacks, and the toolkit's.
_THERE = re.compile(
    _C_HEADER
    + r"|(?:c(?:assert|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdarg|stddef|"
    r"stdint|stdio|stdlib|string|time|uchar|wchar|wctype)|algorithm|any|array|atomic|bit|bitset|charconv|chrono|"
    r"codecvt|compare|complex|concepts|condition_variable|coroutine|deque|exception|execution|filesystem|"
    r"forward_list|fstream|functional|future|initializer_list|iomanip|ios|iosfwd|iostream|istream|iterator|limits|"
    r"list|locale|map|memory|memory_resource|mutex|new|numbers|numeric|optional|ostream|queue|random|ranges|ratio|"
    r"regex|scoped_allocator|set|shared_mutex|source_location|span|sstream|stack|stdexcept|streambuf|string|"
    r"string_view|system_error|thread|tuple|type_traits|typeindex|typeinfo|unordered_map|unordered_set|utility|"
    r"valarray|variant|vector|version|cub/cub\.cuh|cuda/(?:atomic|barrier|pipeline|std/\w+)|thrust/version\.h)\Z"
)
_ONCE = re.compile(rb"[ \t]*once\b")
_NAMED = re.compile(rb"[ \t]*([A-Za-z_]\w*)(.*)", re.DOTALL)
# Characters of a condition's text that a record keeps.
MAX_SHOWN = 500


@dataclass(frozen=True)
class Piece:
    """A run of bytes copied unchanged: its offset in the text, and its file and span there."""

    at: int
    path: str
    start: int
    end: int


@dataclass(frozen=True)
class Hidden:
    """A dead branch that contains `__global__`: its condition, and the undefined names in the condition."""

    path: str
    line: int
    text: str
    names: tuple[str, ...]


@dataclass
class Text:
    """A translation unit as one text.

    `pieces` map it back to `files`. `conditions` counts the `#if` and similar directives that were evaluated;
    `unevaluated` are those without a known value. `hidden` are conditions that leave out a `__global__`.
    `not_found` are includes that are neither in the tree nor standard headers.
    """

    source: bytes
    pieces: tuple[Piece, ...]
    conditions: int = 0
    unevaluated: tuple[Condition, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    hidden: tuple[Hidden, ...] = ()
    not_found: tuple[str, ...] = ()
    _lines: dict[str, list[int]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The offset behind the last byte that comes from a file."""
        last = self.pieces[-1] if self.pieces else Piece(0, "", 0, 0)
        return last.at + max(1, last.end - last.start)

    def origin(self, at: int) -> tuple[str, int]:
        """The file, and the offset in it, that a byte of the text came from."""
        piece = self.pieces[max(0, bisect_right(self.pieces, at, key=lambda p: p.at) - 1)]
        return piece.path, piece.start + at - piece.at

    def span(self, start: int, end: int) -> Span:
        """The file span of the text's bytes from `start` to `end` (exclusive).

        If an include was spliced in between, it is the span of the file in which the range starts and ends.
        """
        path, first = self.origin(start)
        last_path, last = self.origin(end - 1)
        if last_path != path or last < first:
            last = first
        return Span(path, first, last + 1, self.line(path, first), self.line(path, last))

    def line(self, path: str, at: int) -> int:
        """The line, from 1, of a byte of a file."""
        if path not in self._lines:
            self._lines[path] = [m.end() for m in re.finditer(rb"\n", self.files[path])]
        return bisect_right(self._lines[path], at) + 1


@dataclass
class _Splicer:
    read: Read
    resolve: Resolve
    macros: dict[bytes, bytes]
    saved: Saved = field(default_factory=dict)
    out: list[bytes] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    size: int = 0
    conditions: dict[tuple[str, int], Condition | None] = field(default_factory=dict)
    stack: list[str] = field(default_factory=list)
    once: set[str] = field(default_factory=set)
    files: dict[str, bytes] = field(default_factory=dict)
    hidden: list[Hidden] = field(default_factory=list)
    not_found: dict[str, None] = field(default_factory=dict)

    def emit(self, path: str, source: bytes, start: int, end: int) -> None:
        if start >= end or self.size > MAX_BYTES:
            return
        self.pieces.append(Piece(self.size, path, start, end))
        self.out.append(source[start:end])
        self.size += end - start

    def file(self, path: str, source: bytes) -> None:
        """Append a file to the text, its includes spliced in and its dead branches left out."""
        source = without_byte_order_mark(source)
        self.files[path] = source
        self.stack.append(path)
        clean = blank_comments(source, line_breaks=False)
        # For each nesting level: (this branch is live, a branch of it was live, the enclosing code is live).
        levels: list[tuple[bool, bool, bool]] = []
        skipped: list[Hidden] = []  # the condition of the dead branch, if the code is in one
        live, at = True, 0
        for match in directives(clean, _DIRECTIVE):
            start = match.start()
            if start < at:
                continue
            end = _line_end(clean, match.end())
            word, operand = match[1], clean[match.end() : end].replace(b"\\\r\n", b"").replace(b"\\\n", b"")
            if live:
                self.emit(path, source, at, start)
            if not live and skipped and KERNEL_MARK in clean[at:start]:
                self.hidden.append(skipped[-1])
            if word not in (b"include", b"define", b"undef", b"pragma"):
                was_live, live = live, self.condition(word, operand, levels, live, match.start(1))
                if live:
                    skipped = []
                elif was_live or not skipped:
                    skipped = [self.skipped_branch(path, word, operand, match.start(1))]
            elif live:
                self.directive(path, source, word, operand, start, end)
            at = end
        if live:
            self.emit(path, source, at, len(source))
        if self.out and not self.out[-1].endswith(b"\n"):
            self.join(path, source)
        self.stack.pop()

    def join(self, path: str, source: bytes) -> None:
        """End the last line, so that a file without a final line break does not run into what follows."""
        self.pieces.append(Piece(self.size, path, len(source), len(source)))
        self.out.append(b"\n")
        self.size += 1

    def condition(
        self, word: bytes, operand: bytes, levels: list[tuple[bool, bool, bool]], live: bool, at: int
    ) -> bool:
        """Update `levels` for a conditional directive; returns whether the code behind it is live."""
        if word in (b"if", b"ifdef", b"ifndef"):
            holds = live and self.holds(word, operand, at)
            levels.append((holds, holds, live))
            return holds
        if not levels:
            return live
        _, any_taken, outside = levels.pop()
        if word == b"endif":
            return outside
        holds = outside and not any_taken and (word == b"else" or self.holds(word, operand, at))
        levels.append((holds, any_taken or holds, outside))
        return holds

    def skipped_branch(self, path: str, word: bytes, operand: bytes, at: int) -> Hidden:
        """The record of a condition whose branch is left out."""
        text = b" ".join((b"#" + word + operand).split()).decode("utf-8", "replace")[:MAX_SHOWN]
        names = (
            name for name in IDENTIFIER.findall(operand) if name not in self.macros and name != b"defined"
        )
        return Hidden(
            path, self.files[path].count(b"\n", 0, at) + 1, text,
            tuple(name.decode() for name in dict.fromkeys(names)),
        )  # fmt: skip

    def holds(self, word: bytes, operand: bytes, at: int) -> bool:
        """Whether the condition at byte `at` of the current file holds.

        One that cannot be evaluated does not hold, and is recorded in `conditions`.
        """
        path = self.stack[-1]
        self.conditions.setdefault((path, at))
        try:
            if word in (b"if", b"elif"):
                return evaluate(operand, self.macros, self.has_header)
            if match := _NAMED.match(operand):
                return (match[1] in self.macros) != word.endswith(b"ndef")
            raise UnevaluatedError("no macro name")
        except UnevaluatedError as error:
            text = b" ".join((b"#" + word + operand).split()).decode("utf-8", "replace")[:MAX_SHOWN]
            line = self.files[path].count(b"\n", 0, at) + 1
            self.conditions[path, at] = Condition(path, line, text, str(error)[:MAX_SHOWN])
            return False

    def has_header(self, quoted: bytes) -> bool:
        """Whether a header is certain to exist: in the tree, or with the device compiler."""
        name = quoted[1:-1].decode("latin-1")
        return self.resolve(name, self.stack[-1]) is not None or _THERE.match(name) is not None

    def directive(self, path: str, source: bytes, word: bytes, operand: bytes, start: int, end: int) -> None:
        """Apply an include, define, undef or pragma; it stays in the text unless it is resolved here."""
        match = _INCLUDE.match(operand)
        if word == b"include" and match and self.include(path, *_included(match)):
            return
        if word == b"pragma" and _ONCE.match(operand):
            self.once.add(path)
            return
        if word in (b"define", b"undef") and (match := _NAMED.match(operand)):
            self.macros.pop(match[1], None)
            if word == b"define":
                self.macros[match[1]] = match[2]
        elif word == b"pragma" and (match := SAVING.match(operand)):
            save_or_restore(match, self.macros, self.saved)
        self.emit(path, source, start, end)

    def include(self, includer: str, name: str, quoted: bool) -> bool:
        """Splice an included file in; False: the line stays as it is (a system header)."""
        if not quoted and _STANDARD.match(name):
            return False
        path = self.resolve(name, includer)
        source = self.read(path) if path is not None else None
        if path is None or source is None:
            if not headers.kept(name) and not _THERE.match(name):
                self.not_found[name] = None
            return quoted
        if path not in self.once and path not in self.stack and len(self.stack) < MAX_DEPTH:
            self.file(path, source)
        return True


def _line_end(text: bytes, at: int) -> int:
    """The offset behind a directive, lines continued by a backslash included."""
    while (line_end := text.find(b"\n", at)) >= 0:
        at = line_end + 1
        if not text.endswith((b"\\\n", b"\\\r\n"), max(0, at - 3), at):
            return at
    return len(text)


def _included(match: re.Match[bytes]) -> tuple[str, bool]:
    """The name in an include, and whether it is in quotes."""
    return (match[1] or match[2]).decode("latin-1"), match[1] is not None


def splice(root: str, read: Read, resolve: Resolve, macros: Mapping[bytes, bytes] = {}) -> Text | None:
    """The translation unit of file `root`; None: it cannot be read. `macros` are defined by flags."""
    source = read(root)
    if source is None:
        return None
    from_flags = {name: b" " + value for name, value in macros.items()}
    splicer = _Splicer(read, resolve, {**PREDEFINED, **from_flags})
    splicer.file(root, source)
    return Text(
        b"".join(splicer.out),
        tuple(splicer.pieces),
        len(splicer.conditions),
        tuple(condition for condition in splicer.conditions.values() if condition),
        splicer.files,
        hidden=tuple(splicer.hidden),
        not_found=tuple(splicer.not_found),
    )


def definitions(macros: Mapping[bytes, bytes]) -> bytes:
    """The macros of the flags as `#define` lines, without those of the compiler (`__cplusplus`)."""
    return b"".join(
        b"#define %b %b\n" % (name, value)
        for name, value in sorted(macros.items())
        if not name.startswith(b"__")
    )


def local_includes(source: bytes) -> tuple[str, ...]:
    """The names in `#include "name"`, and in `#include <name>` unless it is a standard header, in order.

    Conditionals are ignored, and whether the files exist is not checked.
    """
    source = without_byte_order_mark(source)
    at = source.rfind(b"include")
    if at < 0:
        return ()
    end = source.find(b"\n", at)
    # Nothing behind the last include matters.
    clean = blank_comments(source[: end if end >= 0 else len(source)], line_breaks=False)
    includes = (_INCLUDE.match(clean, m.end()) for m in directives(clean, _DIRECTIVE) if m[1] == b"include")
    names = (_included(match) for match in includes if match)
    return tuple(dict.fromkeys(name for name, quoted in names if quoted or not _STANDARD.match(name)))
