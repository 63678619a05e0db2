"""Prepares CUDA C++ for a host compiler, as far as macros cannot.

The code has no comments and no spliced lines (`kcurate.judge.checks.lexer.compiler_text`). Includes are
checked against our own headers; `extern __shared__` arrays become references to the block's dynamic shared
memory; asm statements become C++; loops over volatile values yield to other threads; casts of floats to
integers saturate, shifts clamp; pragmas are removed. Line numbers stay the same. The headers in `include/` do
the rest. Not covered: which code may be judged at all (`kcurate.judge.checks.static`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from kcurate.backends.base import EntryPoint
from kcurate.backends.emulator import assembly, evaluation_order
from kcurate.core.headers import EMULATED, IN_SIDES
from kcurate.cuda_source.parse.items import tree_of

INCLUDE = Path(__file__).with_name("include")
SOURCE_NAME = "kernel.cu"

_INCLUDE = re.compile(r"[ \t]*[<\"]([\w./+-]+)[>\"][ \t]*$")
_DIRECTIVE = re.compile(r"^([ \t]*)#[ \t]*(\w+)(.*)$", re.MULTILINE)
_LACKED = IN_SIDES - EMULATED
_LOADING = frozenset({"include", "include_next", "import", "embed", "ident", "sccs", "line"})
_DYNAMIC = re.compile(
    r"(?:\bextern\b(?P<first>(?:[^;(){}\[\]=]|\([^;(){}]*\))*?)\b__shared__\b"
    r"|\b__shared__\b(?P<prior>[^;(){}\[\]=]*?)\bextern\b)(?P<second>[^;={}]*?)\b(?P<name>\w+)\s*"
    r"\[\s*\](?P<rest>(?:\s*\[[^\];]*\])*)\s*;"
)
_STATIC_SHARED = re.compile(
    r"\bstatic\b(?=[^;(){}=\[\]\n#]{0,200}\b__shared__\b)|(?P<kept>\b__shared__\b[^;(){}=\[\]\n#]{0,200}?)\bstatic\b"
)
# The head of a function definition: name, parameters (possibly with parentheses), qualifiers before the
# brace.
_DEFINED = re.compile(
    r"\b([A-Za-z_]\w*)\s*\((?:[^;{}()]|\([^;{}()]*\))*\)\s*(?:(?:const|noexcept)\s*)*(?=\{)"
)
_NO_NAMES = frozenset(("if", "for", "while", "switch", "catch", "decltype", "sizeof", "noexcept"))
_DECLARED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_BRACE = re.compile(r'extern\s+"C"\s*\{|[{}]')
# Cluster sizes in places that `_cluster` does not read.
_HIDDEN_CLUSTER = re.compile(
    r"^[ \t]*#[ \t]*define\b[^\n]*\b__cluster_dims__|\b__block_size__\s*\(\s*\([^()]*\)\s*,", re.MULTILINE
)
# g++ requires `alignas` before the specifiers that `__shared__` expands to.
_SHARED_ALIGNED = re.compile(r"\b__shared__(\s+)(alignas\s*\((?:[^()]|\([^()]*\))*\))")
_ALIGNMENT = re.compile(r"\b(?:__align__|alignas|aligned)\s*\(\s*(\w+)\s*\)")
ALIGNMENTS = tuple(1 << bits for bits in range(7, 13))
# The period of 128-byte swizzles, assumed where an alignment is not a plain number.
SWIZZLED_BYTES = 1024
# Casts to integers: `(int)x`, `(T)x`, `int(x)`, `std::int64_t(x)`, `static_cast<T>(x)`, before what can be an
# operand.
_INTEGER = (
    r"(?:(?:(?:::\s*)?(?:cuda\s*::\s*)?std\s*::\s*|::\s*)?"
    r"(?:(?:signed|unsigned|char|short|int|long)\b(?:[ \t]+(?:signed|unsigned|char|short|int|long)\b)*"
    r"|(?:u?int(?:8|16|32|64)_t|size_t|ptrdiff_t|uchar|ushort|uint|ulong)\b))"
)
_CAST = re.compile(
    rf"\([ \t]*(?:const[ \t]+)?(?P<in_c>{_INTEGER}|[A-Za-z_]\w*)[ \t]*\)"
    r"(?=\s*(?:[\w(\x27!~+*&.:]|-(?!>)))(?!\s*(?:const|noexcept|override|final|mutable|volatile)\b)"
    rf"|(?<![\w:])(?:static_cast\s*<\s*(?P<named>{_INTEGER}|[A-Za-z_]\w*)\s*>|(?P<called>{_INTEGER}))"
    r"(?=\s*\((?!\s*[*&)]))"
)
# Shifts, what could be taken for one, and what tells `>>` from the ends of two lists of template arguments.
_SIGN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'|\boperator\s*(?:<<|>>)=?|\b\d[\w.]*'
    r"|^[ \t]*#[ \t]*(?:if|elif|include)\b.*$|(?P<shift><<=?|>>=?)|(?P<opens>[(\[{])|(?P<closes>[)\]}])"
    r"|(?P<ends>[;?])|(?P<listed>\w\s*<(?![<=]))|(?<!-)>(?!=)",
    re.MULTILINE,
)
# Loops that may wait for another thread, where anything is volatile: else the compiler may read it once.
_WAITING = re.compile(r"\bwhile\s*\((?!\s*[\w:<>*&\s]*[\w>*&]\s*\b\w+\s*=(?!=))|\bfor\s*\(\s*;(?=\s*;)")
_TYPE_NAME = re.compile(r"\b(?:typename|class|using|typedef\b[^;{}]*)\s+([A-Za-z_]\w*)\s*(?:[,>=;])")
_BEFORE_CASTS = frozenset({"return", "else", "case", ""})
_QUALIFIER = re.compile(r"\b__align__\s*\(\s*\w+\s*\)|\balignas\s*\(\s*\w+\s*\)|__attribute__\s*\(\(.*?\)\)")


class Refused(Exception):  # noqa: N818 - a fact about the code, which becomes a compile failure
    """The emulator cannot or will not compile this; the text is formatted as a compiler message."""


class Unsupported(Refused):
    """The code is allowed, but needs something that the emulator lacks."""


def prepare(code: str) -> str:
    """The code as host C++, with unchanged line numbers.

    Raises:
        Refused: a header that no side may include, or a zero byte.
    """
    if "\0" in code:
        raise Refused(f"{SOURCE_NAME}: error: the source contains a zero byte")
    text = _DIRECTIVE.sub(_directive, evaluation_order.from_the_left(code))
    text = assembly.translate(text.replace("_Pragma", "KCU_PRAGMA"))
    if re.search(r"\bvolatile\b", text):
        text = _WAITING.sub(lambda loop: f"{loop[0]}::kcu_waits(){', ' if loop[0][0] == 'w' else ''}", text)
    names = frozenset(_TYPE_NAME.findall(text))
    text = _CAST.sub(lambda match: _saturated(match, names), text)
    text = shifting(text)
    text = _SHARED_ALIGNED.sub(r"\2\1__shared__", _DYNAMIC.sub(_dynamic_shared, text))
    return _STATIC_SHARED.sub(lambda match: match["kept"] or "", text)


def shifting(text: str) -> str:
    """The code with shifts as on a GPU, also by the width of the type or more (`kcu_by` in our headers).

    If two template argument lists may be open in the same parentheses, `>>` is a shift only if the syntax
    tree has an operator there.
    """
    lists, operators = [0], list[frozenset[int]]()

    def is_shift(at: int) -> bool:
        if not operators:
            tree = tree_of(text.encode())
            signs = (node.child_by_field_name("operator") for node in tree.nodes("binary_expression"))
            operators.append(frozenset(sign.start_byte for sign in signs))
        return not operators[0].isdisjoint((at, at + 1))

    def with_amount(match: re.Match[str]) -> str:
        sign = match["shift"]
        if match["opens"]:
            lists.append(0)
        elif match["closes"]:
            lists[:] = lists[:-1] or [0]
        elif match["ends"]:
            lists[-1] = 0
        elif match["listed"]:
            lists[-1] += 1
        elif match.group() == ">":
            lists[-1] = max(0, lists[-1] - 1)
        elif sign == ">>" and lists[-1] > 1 and not is_shift(len(text[: match.start()].encode())):
            lists[-1] -= 2
        elif sign:
            return f"{sign}::kcu_by{'=' if sign.endswith('=') else sign}"
        return match.group()

    return _SIGN.sub(with_amount, text)


def lacking(code: str) -> list[str]:
    """The headers that the code includes and sides may include, but the emulator lacks."""
    rests = (match[3] for match in _DIRECTIVE.finditer(code) if match[2] == "include")
    includes = (_INCLUDE.match(rest) for rest in rests)
    return [include[1] for include in includes if include is not None and include[1] in _LACKED]


def translation_unit(
    code: str, entry_points: Iterable[EntryPoint], symbols: Iterable[str], joined: Iterable[str] = ()
) -> str:
    """The compiler's input: the code with internal linkage, and tables of its kernels and variables.

    A function in the code hides all functions of the same name in our headers, except those in `joined`.

    Raises:
        Refused: see `prepare`.
    """
    # Entries are named in a scope where the code's names take precedence over those of our headers.
    prepared = prepare(code)
    entries = [
        f'KCU_ENTRY("{_quoted(e.expression)}", {_cluster(prepared, e)}, {e.expression})' for e in entry_points
    ]
    variables = [f'KCU_SYMBOL("{_quoted(name)}", {name})' for name in symbols]
    return "\n".join(
        (
            '#include "kcurate/all.h"',
            '#include "kcurate/ptx_tensor_map.h"' if "::kcu_ptx::box_" in prepared else "",
            '#include "kcurate/ptx_tensor.h"' if "::kcu_ptx::" in prepared else "",
            '#include "kcurate/ptx_wgmma.h"' if "::kcu_ptx::wgmma" in prepared else "",
            "inline namespace {",  # arguments of its types look names up in the global one too, as in NVRTC
            *(f"using ::{name};" for name in sorted(joined)),
            f'#line 1 "{SOURCE_NAME}"',
            prepared,
            '#line 1 "plan"',
            *(f"constexpr KcuEntry kcu_entry_{at} = {entry};" for at, entry in enumerate(entries)),
            *(f"constexpr KcuSymbol kcu_symbol_{at} = {name};" for at, name in enumerate(variables)),
            "}",
            'extern "C" {',
            "const KcuEntry kcu_entries[] = {",
            *(f"    kcu_entry_{at}," for at in range(len(entries))),
            "    {}};",
            "const KcuSymbol kcu_symbols[] = {",
            *(f"    kcu_symbol_{at}," for at in range(len(variables))),
            "    {}};",
            '__attribute__((section(".text.kcu_end"))) KCU_HIDDEN void kcu_code_ends() {}',
            f"const unsigned kcu_entry_count = {len(entries)}, kcu_symbol_count = {len(variables)};",
            f"const unsigned kcu_dynamic_alignment = {_dynamic_alignment(code)};",
            "}",
            "",
        )
    )


def defined(code: str) -> frozenset[str]:
    """Names followed by a body in braces: the functions that the code defines, and possibly other words."""
    return frozenset(_DEFINED.findall(code)) - _NO_NAMES


def declared(preprocessed: str) -> frozenset[str]:
    """Names of global functions in preprocessed headers, and possibly other words."""
    parts: list[str] = []
    is_extern_c: list[bool] = []
    at = 0
    for brace in _BRACE.finditer(preprocessed):
        if all(is_extern_c):
            parts.append(preprocessed[at : brace.start()])
        if brace.group() != "}":
            is_extern_c.append(brace.group() != "{")
        elif is_extern_c:
            is_extern_c.pop()
        at = brace.end()
    return frozenset(_DECLARED.findall(" ".join(parts)))


def conflicting(log: str, names: Iterable[str]) -> frozenset[str]:
    """The `names` that a compiler message reports as redefined with the same signature."""
    lines = log.splitlines()
    pairs = zip(lines, [*lines[1:], ""], strict=True)
    reported = " ".join(" ".join(pair) for pair in pairs if "error" in pair[0] and "conflict" in pair[0])
    return frozenset(names) & frozenset(re.findall(r"\w+", reported))


def _dynamic_alignment(code: str) -> int:
    """The alignment in bytes of the code's dynamic shared memory, from 128 to a page."""
    alignments = [
        int(text) if text.isdecimal() else SWIZZLED_BYTES
        for match in _DYNAMIC.finditer(code)
        for text in _ALIGNMENT.findall(f"{match['first'] or match['prior'] or ''} {match['second']}")
    ]
    return max((alignment for alignment in alignments if alignment in ALIGNMENTS), default=ALIGNMENTS[0])


def _cluster(code: str, kernel: EntryPoint) -> str:
    """The three sizes in a kernel's `__cluster_dims__`, as C++; zeros if it has none.

    Raises:
        Unsupported: the sizes come from a macro, or may depend on template arguments.
    """
    if _HIDDEN_CLUSTER.search(code):
        what = "a macro, or __block_size__, that gives the size of clusters"
        raise Unsupported(f"{SOURCE_NAME}: error: {what}")
    name = re.escape(kernel.name.rpartition("::")[2])
    dims = re.search(rf"\b__cluster_dims__\s*\(([^()]*)\)(?:[^;{{}}()]|\([^;{{}}()]*\))*?\b{name}\s*\(", code)
    sizes = [size.strip() for size in dims[1].split(",")] if dims else ["0", "0", "0"]
    if kernel.template and not all(map(str.isdecimal, sizes)):
        raise Unsupported(f"{SOURCE_NAME}: error: __cluster_dims__ of a template that is not a number")
    return ", ".join([*sizes, "1", "1"][:3])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _directive(match: re.Match[str]) -> str:
    indent, name, argument = match.groups()
    if name in _LOADING:
        included = _INCLUDE.match(argument) if name == "include" else None
        if included is not None and included[1] in _LACKED:
            return indent  # often the code uses nothing from it
        if included is None or included[1] not in EMULATED:
            raise Refused(f"{SOURCE_NAME}: error: #{name}{argument}: the emulator has no such header")
        return f"{indent}#include <{included[1]}>"
    return indent if name == "pragma" else match.group()


def _saturated(match: re.Match[str], names: frozenset[str]) -> str:
    """A cast through a class that converts as a GPU does; `names`: the type names to replace."""
    kind = match["in_c"] or match["named"] or match["called"]
    before = match.string[max(0, match.start() - 80) : match.start()].rstrip()
    word = re.search(r"\w*$", before)
    is_type = kind in names or re.fullmatch(_INTEGER, kind) is not None
    is_cast = match["named"] or (
        word is not None
        and word[0] in _BEFORE_CASTS
        and before[-1:] not in ("]", *(";{}<" if match["called"] else ")" * (kind in names)))
        and (before or not match["called"])
    )
    return f"({kind})(::kcu_saturated<{kind}>)" if is_type and is_cast else match.group()


def _dynamic_shared(match: re.Match[str]) -> str:
    """`extern __shared__ T name[];` as a reference to the pointer set by the runtime."""
    lines = "\n" * match.group().count("\n")
    words = _QUALIFIER.sub(" ", f"{match['first'] or match['prior'] or ''} {match['second']}")
    kind, name, extents = " ".join(words.split()), match["name"], match["rest"]
    row = f"typedef {kind} kcu_row_{name}{extents}; " if extents.strip() else ""
    kind = f"kcu_row_{name}" if row else kind
    return f"{row}static {kind} *const &{name} = ({kind} *const &)kcu_dynamic;{lines}"
