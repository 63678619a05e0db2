"""Names by which code could tell the compilers apart, NVRTC from the emulator's (the check `compilers`).

A side must be the same program to both. Refused are built-in type traits, macros that a compiler or its
headers define (other than CUDA's and the standard's), names of the emulator's own, conditions on them, text
made of code (`#x` shows what a macro stands for), a compiler's own attributes, the operator `noexcept`, and
`long double`, which NVRTC computes in 64 bits and the emulator in 80. Not covered: `__LINE__` and `__func__`,
which the compilers do not see (`kcurate.judge.checks.lexer`); signatures of built-in functions, which a test
compares; members that templates ask for (`kcurate.judge.checks.soft_questions`); other ways to notice the
emulator (docs/judge.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.lexer import SPELLED, Source, Token, inside_parentheses
from kcurate.judge.checks.soft_questions import soft_questions

# Words with two underscores at both ends that mean the same to both compilers (CUDA C++ Programming Guide,
# "C++ Language Extensions"; the C++ standard's predefined names).
_SHARED = frozenset({
    "__global__", "__device__", "__host__", "__shared__", "__constant__", "__managed__", "__grid_constant__",
    "__restrict__", "__forceinline__", "__noinline__", "__inline__", "__align__", "__launch_bounds__",
    "__maxnreg__", "__cluster_dims__", "__block_size__", "__nv_pure__", "__attribute__", "__volatile__",
    "__asm__", "__CUDA_ARCH__", "__LINE__", "__func__", "__FUNCTION__", "__VA_ARGS__",
    "__aligned__", "__packed__", "__unused__", "__always_inline__",
})  # fmt: skip
# Macros that g++, clang, NVRTC or their headers define, by family; other names of that form are a side's own.
_MACRO = re.compile(
    r"__[A-Z]\w*|kcu_\w*|KCU_\w*|_(?:LP64|GNU|NV|CRT|CCCL|LIBCUDACXX|CUDA|CUB|THRUST|FORTIFY|STDC|FILE|OPENMP)\w*"
    r"|__(?:(?:gnu_)?linux|unix|x86_64|amd64|k8|i386|pic|pie|clang\w*|llvm|code_model_\w+)(?:__)?"
    r"|__(?:cpp|has|seg)_\w+|__tune_\w+__|__(?:core|znver)\w*__"
    # What the compilers know of a type; where their libraries' types differ, so do these.
    r"|__is_(?:(?:nothrow|trivially|pointer|bounded|unbounded|layout|scoped|lvalue|rvalue|reference|literal"
    r"|standard|implicit|member|null|volatile|same|base|convertible|constructible|assignable|destructible|empty"
    r"|class|union|enum|final|pod|trivial|abstract|polymorphic|aggregate|array|bitwise|complete|integral"
    r"|floating|arithmetic|fundamental|compound|object|scalar|signed|unsigned|void|const|function)(?:_\w+)?)"
    r"|__underlying_type|__array_(?:rank|extent)|__(?:reference|remove|add|decay|make)_\w+"
)
_ALIKE = re.compile(
    r"__NV_(?:E\dM\d\w*|SATFINITE|NOSAT)|__CUDA\w*|__NVCC\w*|__cplusplus|__(?:FLT|DBL|INT)_\w+__"
)
# Names with a leading underscore that a condition may ask for: both compilers define them alike, or neither.
_PORTABLE = frozenset({
    "__CUDA_ARCH__", "__CUDACC__", "__CUDACC_RTC__", "__CUDACC_VER_MAJOR__", "__CUDACC_VER_MINOR__",
    "__CUDA_ARCH_FEAT_SM90_ALL", "__CUDA_ARCH_SPECIFIC__", "__CUDA_ARCH_FAMILY_SPECIFIC__", "__NVCC__",
    "__cplusplus",
})  # fmt: skip
# Other macros that headers of one of the compilers alone define (a test compares them).
_ONE_SIDED = re.compile(
    r"_\w*|(?:NV|CU|CUDART|CUDARTAPI|CUDA|IF_DEVICE|TEX|CCCL|THRUST|CUB)_\w+|cuda[A-Z]\w*|linux|unix|asm"
    r"|coalesced_threads|va_\w+"
)
# A literal of type `long double`.
_LONG_DOUBLE = re.compile(r"(?!0[xX])(?=.*[.eE]).*[lL]|0[xX].*[.pP].*[lL]")
# Vendors of attributes, and a standard one that not every compiler has in C++17.
_ATTRIBUTES = frozenset({"gnu", "__gnu__", "clang", "_Clang", "__clang__", "msvc", "no_unique_address"})
# What may follow `noexcept` where it is no operator.
_AFTER_NOEXCEPT = frozenset({"{", ";", "->", "=", ":", "override", "final"})
_VERSIONS = frozenset({"CUDA_VERSION", "CUDART_VERSION"})
_CONDITIONS = frozenset({"if", "ifdef", "ifndef", "elif"})


def compiler_names(source: Source) -> Iterator[Finding]:
    """Names that one of the two compilers alone defines, what shows them, and `long double`."""
    own_macros = _own_macros(source)
    pastes = any(token.text == "##" for line in source.directives for token in line)
    for stream in source.streams:
        for at, token in enumerate(stream):
            before = stream[at - 1].text if at else ""
            if token.text not in own_macros and (what := _tells(token, before, pastes)):
                yield Finding("compilers", f"{what} tells compilers apart", token.line)
            elif token.text == "noexcept" and not _is_specifier(
                [following.text for following in stream[at + 1 : at + 4]]
            ):
                yield Finding("compilers", "the operator noexcept tells compilers apart", token.line)
    yield from soft_questions(source)
    for line in source.directives:
        if line and line[0].text in _CONDITIONS:
            yield from _conditions(line, own_macros)
        elif line and line[0].text == "define":
            yield from _shown(line)


def _tells(token: Token, before: str, pastes: bool) -> str:
    """What of a token (after the text `before`) differs between the compilers; empty: nothing."""
    if token.kind == "number" and _LONG_DOUBLE.fullmatch(token.text):
        return f"{token.text}, a long double,"
    if token.kind != "word":
        return ""
    reserved = _MACRO.fullmatch(token.text) or (pastes and token.text.endswith("__"))
    reserved = reserved or token.text in _ATTRIBUTES
    if reserved and token.text not in _SHARED and not _ALIKE.fullmatch(token.text):
        return token.text
    return "long double" if (before, token.text) == ("long", "double") else ""


def _is_specifier(following: list[str]) -> bool:
    """Whether a `noexcept` before these tokens belongs to a declaration."""
    constant = following[:1] == ["("] and following[1:] in (["true", ")"], ["false", ")"])
    return constant or (bool(following) and following[0] in _AFTER_NOEXCEPT)


def _conditions(line: tuple[Token, ...], own_macros: frozenset[str]) -> Iterator[Finding]:
    """Macros of one compiler alone that a condition asks for."""
    for token in line[1:]:
        one_sided = token.kind == "word" and _ONE_SIDED.fullmatch(token.text)
        if one_sided and token.text not in own_macros | _PORTABLE | _VERSIONS:
            yield Finding("compilers", f"a condition on {token.text} tells compilers apart", token.line)


def _shown(define: tuple[Token, ...]) -> Iterator[Finding]:
    """Macros that make text of an argument, a reserved name of parts, or something else of the emulator's."""
    if define[1:] and define[1].text.lower().startswith("kcu_"):
        yield Finding("compilers", f"a macro {define[1].text} tells compilers apart", define[0].line)
    parameters = {token.text for token in inside_parentheses(define, 2)} | {"__VA_ARGS__"}
    for name in (*SPELLED, *_ATTRIBUTES, "_Pragma"):
        if any(pattern.fullmatch(name) for pattern in _pasted(define, parameters)):
            yield Finding("compilers", f"## can spell {name}", define[0].line)
    for at, token in enumerate(define[1:-1], 1):
        following = define[at + 1]
        if token.text == "#" and following.text in parameters | {"__VA_OPT__"}:
            yield Finding("compilers", f"#{following.text} shows how a compiler spells code", token.line)
        elif following.text == "##" and re.fullmatch(r"__?(?:[A-Z]\w*)?", token.text):
            yield Finding("compilers", f"{token.text} ## can spell a compiler's name", token.line)


def _pasted(define: tuple[Token, ...], parameters: set[str]) -> Iterator[re.Pattern[str]]:
    """What each chain of `##` in a macro's definition can spell."""
    texts = [token.text for token in define]
    for at in range(1, len(texts) - 1):
        if texts[at] != "##" or texts[at - 2] == "##":
            continue
        chain = texts[at - 1 : at + 2]
        for more in range(at + 2, len(texts) - 1, 2):
            if texts[more] != "##":
                break
            chain.append(texts[more + 1])
        parts = [r"\w*" if text in parameters else re.escape(text) for text in chain if text != "##"]
        yield re.compile("".join(parts))


def _own_macros(source: Source) -> frozenset[str]:
    """Names that the code defines before any other mention, whatever a compiler has of them.

    An include guard around the whole code is no condition, since code without it would be nothing.
    """
    seen: set[str] = set()
    macros: set[str] = set()
    guard = _guard(source)
    depth = 0
    directives = iter(source.directives)
    for token in source.tokens:
        line = next(directives) if token.kind == "directive" else (token,)
        name = line[0].text if line and token.kind == "directive" else ""
        if name == "define" and len(line) > 1 and not depth - bool(guard) and line[1].text not in seen:
            macros.add(line[1].text)
        depth += (name in ("if", "ifdef", "ifndef")) - (name == "endif")
        seen |= {item.text for item in line if item.kind == "word" and item.text != guard}
    return frozenset(macros)


def _guard(source: Source) -> str:
    """The name that guards the whole code against being included twice; empty if there is none."""
    tokens, lines = source.tokens, source.directives
    if len(lines) < 3 or tokens[0].kind != "directive" or tokens[-1].kind != "directive":
        return ""
    first, second = lines[0], lines[1]
    if [token.text for token in first[:1]] != ["ifndef"] or tokens[1].kind != "directive" or len(first) != 2:
        return ""
    if len(second) < 2 or (second[0].text, second[1].text) != ("define", first[1].text):
        return ""
    depth = 0
    for at, line in enumerate(lines):
        name = line[0].text if line else ""
        depth += (name in ("if", "ifdef", "ifndef")) - (name == "endif")
        if depth == 0 or (depth == 1 and name in ("else", "elif")):
            return first[1].text if at == len(lines) - 1 else ""
    return ""
