"""Macros around declarations that the grammar cannot parse or that change what is declared.

These are calls and attributes that hide a kernel, macros that expand to `__global__` or other annotations,
and `push_macro` and `pop_macro`. Not covered: expanding a macro call that makes or begins a kernel
(`macro_statements`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from kcurate.core.grouping import grouped
from kcurate.cuda_source.preprocess.expansion import definition, definitions, expanded_text
from kcurate.cuda_source.text.blanking import BLANK, blank_directives
from kcurate.cuda_source.text.brackets import closing
from kcurate.cuda_source.text.tokens import IDENTIFIER

_ATTRIBUTE = re.compile(rb"__(?<!\w__)(?:cluster_dims|block_size|maxnreg|launch_bounds)__\s*(?=\()")
_GRAMMAR_KNOWS = b"__launch_bounds__"
# In `__global__ void MACRO(...) name(` the macro expands to attributes or to nothing.
_UNNAMED = re.compile(rb"__global__(?<!\w__global__)\s+(?:(?:static|inline|void)\s+)*([A-Za-z_]\w*)\s*(?=\()")
_NAMED = re.compile(rb"\s*(?:void\s+)?[A-Za-z_]\w*\s*\(")
_CALL = re.compile(rb"\n[ \t]*([A-Za-z_]\w*)[ \t]*(?=\()")
_DECLARATION = re.compile(
    rb"\s*(?:(?:__global__|__device__|__host__|__constant__|template|extern|static|namespace|void)\b|"
    rb"[A-Za-z_]\w*[ \t]*\()"
)
_NOT_CALLED = frozenset(
    b"if for while switch catch return sizeof alignas decltype requires noexcept defined asm "
    b"__attribute__ __declspec __align__ __launch_bounds__".split()
)
MARK = re.compile(rb"__global__(?<!\w__global__)\b")  # begins with what is quickly found
# One annotation in a macro's body; a word counts if it is in `_ANNOTATIONS` or names an annotating macro.
_ANNOTATION = re.compile(
    rb"\s*(?:(?P<list>\[)(?=\[)|(?:__attribute__|__declspec|__align__|__builtin_align__|alignas|__launch_bounds__|"
    rb"__cluster_dims__|__block_size__|__maxnreg__)\s*(?P<call>\()|(?P<word>\w+))"
)
# Words that never occur in a statement inside a function.
_DECLARES = re.compile(rb"\b(?:__global__|__device__|namespace|extern|template|typedef|class|struct)\b")
_HEAD_END = re.compile(rb"[;{]")
_FOLLOWS = re.compile(rb"\s*[\w:]")
_PARAMETERS = re.compile(rb"\A\([^()]*\)")
_ANNOTATIONS = frozenset(
    b"__host__ __device__ __global__ __constant__ __managed__ __shared__ __forceinline__ __noinline__ inline "
    b"__inline__ __inline static constexpr virtual __restrict__ __restrict __grid_constant__".split()
)
SAVING = re.compile(rb'[ \t]*(push|pop)_macro[ \t]*\([ \t]*"(?P<name>\w+)"')
SAVING_PRAGMA = re.compile(rb"#[ \t]*pragma" + SAVING.pattern)
# Pushed definitions of each macro, most recent last; None: it was undefined when pushed.
Saved = dict[bytes, list[bytes | None]]
# Blank lines and blanked comments allowed between a statement and the one before it.
GAP_BYTES = 10_000
# A parenthesis still open after so many bytes is not a call.
MAX_CALL_BYTES = 10_000


@dataclass(frozen=True)
class GlobalMacros:
    """The macros that expand to `__global__`.

    `words` expand to qualifiers (`#define KERNEL extern "C" __global__`), `headers` are function-like and
    expand to a kernel's header, `makers` expand to whole kernels.
    """

    words: frozenset[bytes] = frozenset()
    headers: frozenset[bytes] = frozenset()
    makers: frozenset[bytes] = frozenset()

    @property
    def all(self) -> frozenset[bytes]:
        """Every macro that expands to `__global__`."""
        return self.words | self.headers | self.makers


@lru_cache(maxsize=2)  # several readers ask for the macros of one text
def global_macros(bare: bytes) -> GlobalMacros:
    """The macros whose bodies lead to `__global__`, in a text with comments and literals blanked."""
    if MARK.search(bare) is None:
        return GlobalMacros()
    defines = [(macro.name, macro.body.startswith(b"("), macro.body) for macro in definitions(bare)]
    words: set[bytes] = set()
    headers: set[bytes] = set()
    makers: set[bytes] = set()
    count = -1
    while count != len(words) + len(headers) + len(makers):
        count = len(words) + len(headers) + len(makers)
        for name, function_like, body in defines:
            names_in_body = {*IDENTIFIER.findall(body)}
            if names_in_body & makers or (b"{" in body and names_in_body & {b"__global__", *words, *headers}):
                makers.add(name)
            elif names_in_body & {b"__global__", *words, *headers} and not body.rstrip().endswith(b";"):
                (headers if function_like or names_in_body & headers else words).add(name)
    words, headers = words - headers - makers, headers - makers
    return GlobalMacros(frozenset(words), frozenset(headers), frozenset(makers))


def annotating(bare: bytes) -> Mapping[bytes, frozenset[bytes]]:
    """The macros that expand to nothing but annotations, with the words they expand to.

    Such as `HD` for `__host__ __device__`, `ALIGNED(n)` for `__align__(n)`, and macros without parameters
    that expand to nothing.
    """
    bodies = grouped((macro.name, macro.body) for macro in definitions(bare))
    words_of: dict[bytes, frozenset[bytes]] = {}
    count = -1
    while count != len(words_of):
        count = len(words_of)
        for name in bodies.keys() - words_of.keys():
            words = [_annotations(_PARAMETERS.sub(b"", body), words_of) for body in bodies[name]]
            function_like = any(body.startswith(b"(") for body in bodies[name])
            if None not in words and (any(words) or (not function_like and bare.count(name) > 1)):
                words_of[name] = frozenset[bytes]().union(*filter(None, words))
    return words_of


def _annotations(body: bytes, known: Mapping[bytes, frozenset[bytes]]) -> frozenset[bytes] | None:
    """The annotations in a macro's body; None: the body has something else."""
    at, words = 0, set[bytes]()
    body = body.strip()
    while at < len(body):
        match = _ANNOTATION.match(body, at)
        if match is None or match.lastgroup is None:
            return None
        word, end = match["word"] or b"__attribute__", match.end()
        if match.lastgroup != "word":
            end = closing(body, match.start(match.lastgroup)) or 0
        elif word in known and body[end : end + 1] == b"(":
            end = closing(body, end) or 0
        if not end or (match["word"] and word not in _ANNOTATIONS and word not in known):
            return None
        words |= known.get(word, {word})
        at = end
    return frozenset(words)


def annotations_in(bare: bytes, names: Iterable[bytes]) -> Iterator[tuple[int, int]]:
    """The spans of the uses of these macros outside directives, arguments included."""
    if names := sorted(names):
        code = blank_directives(bare)
        for match in re.finditer(rb"\b(?:" + b"|".join(names) + rb")\b(\s*\()?", code):
            end = closing(code, match.end() - 1, MAX_CALL_BYTES) if match[1] else None
            is_call = end is not None and _FOLLOWS.match(code, end)
            yield match.start(), end if is_call and end else match.start(1) if match[1] else match.end()


# `namespace EXPORT name {`: of several words the last one is the name; an `__attribute__` is on either side.
_NAMESPACE_HEAD = re.compile(
    rb"namespace(?<!\wnamespace)\s+((?:(?!namespace\b)[A-Za-z_]\w*(?:\s*\(\(.*?\)\)\s*|\s+))*)([A-Za-z_][\w:]*)\s*"
    rb"(__attribute__\s*\(\(.*?\)\)\s*)?\{"
)


def namespace_words(bare: bytes) -> Iterator[tuple[int, int]]:
    """The spans in the heads of namespaces that are not the name: macros and attributes."""
    for match in _NAMESPACE_HEAD.finditer(bare):
        yield from (match.span(group) for group in (1, 3) if match[group])


def statement_macros(bare: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Uses of macros for whole statements, or for braces around some, as (start, end, replacement).

    The grammar would take such a use for a name, type or call. The replacement is the braces that the macro
    opens or closes, or `;`.
    """
    bodies = {macro.name: _PARAMETERS.sub(b"", macro.body).split() for macro in definitions(bare)}
    calls = {macro.name for macro in definitions(bare) if macro.body.startswith(b"(")}
    braces: dict[bytes, int] = {}
    count = -1
    while count != len(braces):
        count = len(braces)
        for name, words in bodies.items():
            if words and (words[-1][-1:] in (b";", b"{", b"}") or words[-1] in braces) and name not in braces:
                text = b" ".join(words)
                if not _DECLARES.search(text):
                    nested = sum(braces.get(word, 0) for word in IDENTIFIER.findall(text))
                    braces[name] = text.count(b"{") - text.count(b"}") + nested
    if not braces:
        return
    code = blank_directives(bare)
    for match in re.finditer(rb"\b(?:" + b"|".join(sorted(braces)) + rb")\b(\s*\()?", code):
        name = match[0].partition(b"(")[0].strip()
        end: int | None = match.start() + len(name)
        if name in calls:
            end = closing(code, match.end() - 1, MAX_CALL_BYTES) if match[1] else None
        if end is not None and (
            braces[name] or name not in calls or not code[end:].lstrip().startswith(b";")
        ):
            signs = (b"{" if braces[name] > 0 else b"}") * abs(braces[name]) or b";"
            if len(signs) <= end - match.start():
                yield match.start(), end, signs


class Opened(NamedTuple):
    """A use of a macro that only opens blocks around declarations, or closes them.

    With `#define LIB_BEGIN namespace lib {` and `#define LIB_END }`, the use of LIB_BEGIN has `heads`
    (b"namespace lib",) and `closes` 0, that of LIB_END has no heads and `closes` 1. `start` and `end` are the
    use's span. `inside` is how many blocks are open there that no macro opened.
    """

    start: int
    end: int
    heads: tuple[bytes, ...]
    closes: int
    inside: int


_BLOCK_HEAD = rb"(?:inline\s+)?namespace\b[\w:\s]*|extern\s*\"[^\"\n]*\"\s*"
_BLOCKS = re.compile(rb"\s*(?:(" + _BLOCK_HEAD + rb")\{|(\}))")
_ONLY_HEAD = re.compile(rb"\s*(?:" + _BLOCK_HEAD + rb")\Z")
_OPENS_OR_CLOSES = re.compile(rb"\bnamespace\b[^;]*\{|\bextern\b[^;]*\{|\}")
_BRACE = re.compile(rb"\s*\{")


def blocks_opened(text: bytes, bare: bytes) -> list[Opened]:
    """The uses of macros that only open or close blocks around declarations, in order.

    If a macro is only the head of a block, as in `VERSION { ... }`, the braces in the code count as its own:
    there is one entry for `VERSION {` and one for its `}`.
    """
    bodies = {macro.name: macro.body for macro in definitions(text)}
    names = sorted(
        name for name, body in bodies.items()
        if (_OPENS_OR_CLOSES.search(body) and b";" not in body) or _ONLY_HEAD.match(body)
    )  # fmt: skip
    if not names:
        return []
    uses = list[Opened]()
    code = blank_directives(bare)
    macro_depth = 0  # blocks that macros have opened and not closed
    brace_depth = last = 0  # braces of the code that are open at byte `last`
    for match in re.finditer(rb"\b(?:" + b"|".join(names) + rb")\b", code):
        start, end = match.span()
        brace_depth += code.count(b"{", last, start) - code.count(b"}", last, start)
        last = start
        if bodies[match[0]].startswith(b"("):
            end = closing(code, len(code) - len(code[end:].lstrip())) or 0
        expansion = expanded_text(text[start:end], bodies) if end else None
        if expansion is None:
            continue
        brace = _BRACE.match(code, end) if _ONLY_HEAD.match(expansion) else None
        brace_end = closing(code, brace.end() - 1, len(code)) if brace else None
        if brace and brace_end:
            expansion, end = expansion + b"{", brace.end()
            uses.append(Opened(brace_end - 1, brace_end, (), 1, brace_depth))
        heads, closes, only_blocks = _blocks_in(expansion)
        if only_blocks and closes <= macro_depth:  # more would be the closing braces of statements
            macro_depth += 0 if brace else len(heads) - closes
            # Without the braces that belong to macros: those whose `}`, already listed, is further on.
            inside = brace_depth - sum(start < use.start for use in uses) + bool(brace and brace_end)
            uses.append(Opened(start, end, heads, closes, max(0, inside)))
    return sorted(uses)


def _blocks_in(expansion: bytes) -> tuple[tuple[bytes, ...], int, bool]:
    """The block heads that an expansion leaves open, the number of earlier blocks it closes, and a flag.

    The flag is True if the expansion has nothing else.
    """
    heads, closes, at = list[bytes](), 0, 0
    while block := _BLOCKS.match(expansion, at):
        at = block.end()
        if block[1]:
            heads.append(b" ".join(block[1].replace(b" :: ", b"::").split()))
        elif heads:
            heads.pop()
        else:
            closes += 1
    return tuple(heads), closes, bool(expansion) and not expansion[at:].strip()


def kernels_begun(bare: bytes, macros: GlobalMacros) -> Iterator[int]:
    """The offsets at which kernels with a body begin, judged by keywords alone.

    An offset is that of `__global__`, or of the macro that expands to it.
    """
    if MARK.search(bare) is None:
        return
    code = blank_directives(bare)
    names = b"|".join([b"__global__", *sorted(macros.all)])
    marks = re.compile(rb"\b(?:" + names + rb")\b") if macros.all else MARK
    begins: dict[int, int] = {}  # by where the head ends: at the last mark before it
    end = -1
    for match in marks.finditer(code):
        if match[0] in macros.makers:
            yield match.start()
            continue
        if end < match.end():
            ending = _HEAD_END.search(code, match.end())
            end = ending.start() if ending else len(code)
        if code[end : end + 1] == b"{":
            begins[end] = match.start()
    yield from begins.values()


def without_attributes(header: bytes) -> bytes:
    """The header with `__launch_bounds__(...)`, similar attributes, and macros in their place blanked."""
    known = blanked(header, (_with_arguments(header, match) for match in _ATTRIBUTE.finditer(header)))
    return blanked(known, _unnamed_calls(known))


def readable(text: bytes, bare: bytes) -> bytes:
    """The text for the parser, at equal length, without what the grammar would misparse.

    Blanked are attributes unknown to the grammar, and macro calls without a semicolon before a declaration.
    It would take either for a separate declaration.
    """
    if MARK.search(bare) is None:
        return text
    attributes = (
        _with_arguments(bare, match)
        for match in _ATTRIBUTE.finditer(bare)
        if not match[0].startswith(_GRAMMAR_KNOWS)
    )
    return blanked(blanked(blanked(text, attributes), _lone_calls(bare)), _unnamed_calls(bare))


def blanked(text: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """The text with the spans (in order) replaced by blanks."""
    return replaced(text, ((start, end, b"") for start, end in spans))


def replaced(text: bytes, spans: Iterable[tuple[int, int, bytes]]) -> bytes:
    """The text with each span (start, end, replacement) replaced, padded with blanks; spans are in order."""
    out, at = [], 0
    for start, end, replacement in spans:
        if start >= at:
            out += [text[at:start], replacement, text[start + len(replacement) : end].translate(BLANK)]
            at = end
    return b"".join([*out, text[at:]])


def _with_arguments(bare: bytes, match: re.Match[bytes]) -> tuple[int, int]:
    return match.start(), closing(bare, match.end()) or match.end()


def _unnamed_calls(bare: bytes) -> Iterator[tuple[int, int]]:
    """The spans of macro calls between `__global__` and the kernel's name."""
    for match in _UNNAMED.finditer(bare):
        end = None if match[1] in _NOT_CALLED else closing(bare, match.end(), MAX_CALL_BYTES)
        if end is not None and _NAMED.match(bare, end):
            yield match.start(1), end


def _lone_calls(bare: bytes) -> Iterator[tuple[int, int]]:
    """The spans of macro calls that form a statement without a semicolon before a possible kernel."""
    last = 0
    for match in _CALL.finditer(b"\n" + bare):  # so offsets are one higher than in `bare`
        if match[1] in _NOT_CALLED or not _statement_starts(bare, match.start(), last):
            continue
        end = closing(bare, match.end() - 1, MAX_CALL_BYTES)
        if end is not None and _DECLARATION.match(bare, end):
            yield match.start(1) - 1, end
            last = end


def _statement_starts(bare: bytes, at: int, last: int) -> bool:
    """Whether a statement begins at byte `at`; `last` is the end of the previous lone macro call."""
    first = max(0, at - GAP_BYTES)
    end = first + len(bare[first:at].rstrip())
    if end <= last or bare[end - 1 : end] in (b";", b"}", b"{"):
        return True
    line = bare.rfind(b"\n", 0, end) + 1
    while line and bare.endswith((b"\\\n", b"\\\r\n"), max(0, line - 3), line):
        line = bare.rfind(b"\n", 0, line - 1) + 1
    return bare[line:end].lstrip(b" \t").startswith(b"#")


def save_or_restore(match: re.Match[bytes], macros: dict[bytes, bytes], saved: Saved) -> None:
    """Apply a `push_macro` or `pop_macro` to the macros defined so far."""
    name, stack = match["name"], saved.setdefault(match["name"], [])
    if match[1] == b"push":
        stack.append(macros.get(name))
    elif stack:
        body = stack.pop()
        if body is None:
            macros.pop(name, None)
        else:
            macros[name] = body


def without_saving(directive: bytes, name: bytes, macros: dict[bytes, bytes], saved: Saved) -> bytes:
    """A macro directive rewritten without `push_macro` and `pop_macro`, which NVRTC 13.0 does not support.

    `macros` maps each name to the directive that currently defines it; it and `saved` are updated.
    """
    if match := SAVING_PRAGMA.match(directive):
        save_or_restore(match, macros, saved)
        if match[1] == b"push":
            return b""
        return b"\n".join([b"#undef " + name, *([macros[name]] if name in macros else [])])
    if definition(directive):
        macros[name] = directive
    else:
        macros.pop(name, None)
    return directive
