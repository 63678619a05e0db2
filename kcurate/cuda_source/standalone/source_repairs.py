"""Changes to the text of one declaration that let it compile in a file of device code.

Not covered: additional declarations (`shim`), names of headers (`header_names`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kcurate.cuda_source.rewrite.edits import Edit, edited
from kcurate.cuda_source.text.blanking import blank_literals
from kcurate.cuda_source.text.brackets import closing
from kcurate.cuda_source.text.tokens import COMMENT, LITERAL

_TYPED_BRACE = r"(\(\s*(?:struct\s+)?([A-Za-z_]\w*)\s*\))\s*\{"
# A necessary condition for a compound literal, fast to search for.
TYPED_BRACE = re.compile(_TYPED_BRACE.encode())
_COMPOUND = re.compile(rf"(?:[=,?:(]|\breturn)\s*{_TYPED_BRACE}".encode())
_PLAIN = {b"asm": b"asm", b"volatile": b"volatile"}
_ASM = re.compile(rf"({COMMENT}|{LITERAL})|\b(?:asm|__asm(?:__)?|__volatile(?:__)?)\b".encode(), re.DOTALL)
_REGISTER = re.compile(rf"({COMMENT}|{LITERAL})|\bregister\s+(?=[A-Za-z_:])".encode(), re.DOTALL)
_TEMPLATE_HEAD = re.compile(rb"\s*template\s*<")
_CONSTEXPR = re.compile(rb"\bconstexpr\b(?!\s*\()")
_ENDS_SPECIFIERS = re.compile(rb"[;={(]")
_CLASS_HEAD = re.compile(rb"\b(?:struct|class|union)\b[^;{}()]*(?:\([^()]*\)[^;{}()]*)?\Z")
_STD_CONCEPTS = (
    b"integral|signed_integral|unsigned_integral|floating_point|same_as|convertible_to|derived_from|invocable|"
    b"regular|semiregular|copyable|movable|default_initializable|equality_comparable|totally_ordered"
)
_REQUIRES = re.compile(rb"\brequires\b")
_TERM = re.compile(rb"\s*!?\s*(?:(requires)\s*[({]|\(|(?:::\s*)?\w+(?:\s*::\s*\w+)*)")
_JOINT = re.compile(rb"\s*(?:&&|\|\|)")
_SPACE = rb"__(?:device|host|global)__"


def without_compound_literals(text: bytes) -> bytes:
    """C's `= (struct point){x, y}` becomes C++'s `= point{x, y}`."""
    literals = _COMPOUND.finditer(blank_literals(text))
    return edited(text, (Edit(*match.span(1), match[2]) for match in literals))


def with_plain_asm(text: bytes, body: bytes | None) -> bytes:
    """GNU's `__asm__ __volatile__` becomes `asm volatile`; `body` is that of a macro called `asm`, if any."""

    def plain(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return match[0]
        return _ASM.sub(plain, body) if match[0] == b"asm" and body else _PLAIN[match[0].strip(b"_")]

    return _ASM.sub(plain, text) if b"asm" in text else text


def without_constraints(text: bytes, concepts: Iterable[bytes] = ()) -> bytes:
    """C++20's `template <Number T> requires (C<T>)` becomes C++17's `template <typename T>`.

    `concepts` are the unit's own. If constraints select an overload, the resulting file does not compile.
    """
    heads = [rb"std\s*::\s*(?:%b)" % _STD_CONCEPTS, *(rb"(?:\w+\s*::\s*)*%b" % name for name in concepts)]
    pattern = rb"(\btemplate\s*<|,)(\s*)(?:%b)\b(?:\s*<[^<>]*>)?(?=\s+(?:\.\.\.\s*)?\w+\s*[,>=]|\s*\.\.\.)"
    text = re.sub(pattern % b"|".join(heads), rb"\1\2typename", text)
    out, at, bare = [], 0, blank_literals(text)
    for match in _REQUIRES.finditer(bare):
        if match.start() >= at:
            out.append(text[at : match.start()])
            at = _constraint_end(bare, match.end())
    return b"".join([*out, text[at:]])


def _constraint_end(bare: bytes, at: int) -> int:
    """The end of a constraint: parentheses, names or requires-expressions, joined by `&&` and `||`."""
    while (term := _TERM.match(bare, at)) is not None:
        at = term.end()
        if term[0].rstrip().endswith((b"(", b"{")):
            at = closing(bare, at - 1) or len(bare)
            if term[1] and (block := re.compile(rb"\s*\{").match(bare, at)):  # `requires (T x) { x + x; }`
                at = closing(bare, block.end() - 1) or len(bare)
        elif bare[at : at + 1] == b"<":
            depth, at = 1, at + 1
            while at < len(bare) and depth:
                depth += {b"<": 1, b">": -1}.get(bare[at : at + 1], 0)
                at += 1
            at += len(member[0]) if (member := re.match(rb"\s*::\s*\w+", bare[at : at + 100])) else 0
        joint = _JOINT.match(bare, at)
        if joint is None:
            break
        at = joint.end()
    return at


def without_register(text: bytes) -> bytes:
    """`register float x` becomes `float x`, since C++17 has no `register`."""
    return _REGISTER.sub(lambda match: match[1] or b"", text) if b"register" in text else text


def annotate(text: bytes, template: bool, words: bytes = b"__device__") -> bytes:
    """The function with `words` before it, behind its template head."""
    at = 0
    while template and (match := _TEMPLATE_HEAD.match(text, at)):
        at, depth = match.end(), 1
        while at < len(text) and depth:
            depth += {b"<": 1, b">": -1}.get(text[at : at + 1], 0)
            at += 1
    return text[:at] + b" " + words + text[at:] if at else words + b" " + text


def annotate_methods(text: bytes) -> bytes:
    """The class with its constexpr methods `__host__ __device__`, as with `--expt-relaxed-constexpr`."""
    if b"constexpr" not in text:
        return text
    bare = blank_literals(text)
    starts = [match.start() for match in _CONSTEXPR.finditer(bare) if _is_unmarked_method(bare, match)]
    return edited(text, (Edit(at, at, b"__host__ __device__ ") for at in starts))


def _is_unmarked_method(bare: bytes, word: re.Match[bytes]) -> bool:
    """Whether a `constexpr` belongs to a method or operator without an execution space."""
    ends = _ENDS_SPECIFIERS.search(bare, word.end())
    first = 1 + max(bare.rfind(sign, 0, word.start()) for sign in (b";", b"{", b"}"))
    if ends is None or ends[0] != b"(" or re.search(_SPACE, bare[first : ends.start()]):
        return False
    return re.search(rb"\boperator\s*\Z", bare[: ends.start()]) is not None or _in_class(bare, word.start())


def _in_class(bare: bytes, at: int) -> bool:
    """Whether the innermost `{` that is open at byte `at` opens a class."""
    depth = 0
    for position in range(at - 1, -1, -1):
        depth += {0x7D: 1, 0x7B: -1}.get(bare[position], 0)
        if depth < 0:
            before = max(bare.rfind(sign, 0, position) for sign in (b";", b"{", b"}")) + 1
            return _CLASS_HEAD.search(bare[before:position]) is not None
    return False
