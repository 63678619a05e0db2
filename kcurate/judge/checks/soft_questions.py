"""Finds SFINAE tests by which code could distinguish the compilers (part of the check `compilers`).

If template arguments do not fit a template's declaration, the compiler drops the template without an error
(SFINAE). So a declaration that names a member, such as `decltype(T().x)`, tests whether a type has it, and
NVRTC's library types have other members than the emulator's. Outside such declarations, a missing member is
an error with one of the compilers. Not covered: functions and operators that a declaration tests for (a test
compares those of both compilers); library functions that are called if a template is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set

from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.lexer import Source, Token, matching_bracket

_TRAILING = frozenset({")", "const", "noexcept", "mutable", "true", "false"})
_BEFORE_OPERAND = frozenset({"(", ",", "=", "<", "+", "!", "?", ":"})
_PLACES = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})
_NO_TYPES = frozenset({"return", "else", "case", "do", "goto", "throw", "__launch_bounds__"})


def soft_questions(source: Source) -> Iterator[Finding]:
    """Findings for the members that a template's declaration or a lambda's return type tests for."""
    templates, types = _macros_with(source, {"template"}), _macros_with(source, {"decltype"})
    hidden_tests = _macros_with(source, {"decltype", ".", "->"}) - {"decltype", ".", "->"}
    names = Counter(name for stream in source.streams for name in _declared(stream))
    for stream in source.streams:
        at = 0
        while at < len(stream):
            declaration: Sequence[Token] = ()
            if stream[at].text in templates and _opens(stream, at):
                at, declaration = _declaration(stream, at + 1)
            elif stream[at].text == "->" and at + 1 < len(stream) and stream[at + 1].text in types:
                declaration = stream[at + 2 : matching_bracket(stream, at + 2, "(", ")")]
            alone = all(names[name] < 2 for name in _declared(declaration))
            in_macros = (
                (f"{token.text} in a template", token.line)
                for token in declaration
                if token.text in hidden_tests
            )
            for text, line in (*in_macros, *_members(declaration, alone=alone)):
                yield Finding("compilers", f"{text} tells compilers apart", line)
            at += 1


def _macros_with(source: Source, words: Set[str]) -> Set[str]:
    """The words, and the macros that expand to one of them, also through other macros."""
    bodies = {
        line[1].text: {*" ".join(token.text for token in line[2:]).replace(". . .", "").split()}
        for line in source.directives
        if len(line) > 1 and line[0].text == "define"
    }
    while more := {name for name, body in bodies.items() if body & words} - words:
        words = words | more
    return words


def _opens(stream: Sequence[Token], at: int) -> bool:
    """Whether a template declaration starts here, unlike `x.template f<T>()` or `template struct A<int>`."""
    explicit = stream[at].text == "template" and [token.text for token in stream[at + 1 : at + 2]] != ["<"]
    return not explicit and (at == 0 or stream[at - 1].text not in ("::", ".", "->"))


def _declaration(stream: Sequence[Token], start: int) -> tuple[int, Sequence[Token]]:
    """The end of a template's declaration (before its body or a constructor's initialisers), and its tokens.

    No tokens for a kernel: a plan names it, so no other template can replace it.
    """
    paren_depth, angle_depth = 0, 0
    for at in range(start, len(stream)):
        text = stream[at].text
        paren_depth += (text in ("(", "[")) - (text in (")", "]"))
        angle_depth = (
            0
            if paren_depth
            else max(0, angle_depth + (text == "<") - text.count(">") * (text in (">", ">>")))
        )
        if text in ("{", ";") and paren_depth <= 0 and not angle_depth:
            break
        if text == ":" and paren_depth <= 0 and not angle_depth and stream[at - 1].text == ")":
            break
    else:
        at = len(stream)
    declaration = stream[start:at]
    return at, () if any(token.text == "__global__" for token in declaration) else declaration


def _declared(tokens: Sequence[Token]) -> Iterator[str]:
    """The names of functions and classes declared in these tokens; may include a few others."""
    for before, token, after in zip(("", *tokens), tokens, (*tokens[1:], ""), strict=False):
        kind, word, then = (getattr(neighbour, "text", "") for neighbour in (before, token, after))
        function = then == "(" and (getattr(before, "kind", "") == "word" or kind in ("*", "&", ">"))
        type_ = kind in ("struct", "class") and then in ("{", ":", "<", ";")
        if token.kind == "word" and (function or type_) and not {kind, word} & _NO_TYPES:
            yield word


def _members(declaration: Sequence[Token], *, alone: bool) -> Iterator[tuple[str, int]]:
    """Each test for a member of a type, in words, and its line. `alone`: no other template has this name."""
    texts = ["", *(token.text for token in declaration), "", ""]
    parameters = {
        name
        for word, name, then in zip(texts, texts[1:], texts[2:], strict=False)
        if word in ("class", "typename") and then in (",", ">", "=", ">>")
    }
    paren_depth = 0
    for at, token in enumerate(declaration, 1):
        before, text, after = texts[at - 1 : at + 2]
        paren_depth += (text == "(") - (text == ")")
        trailing = text == "->" and before in _TRAILING and not paren_depth
        part = text == "." and "." not in (before, after) and before not in _PLACES
        if part or (text == "->" and not trailing):
            yield f"a template that asks for a member {after}", token.line
        elif text in parameters and after == "::" and not alone:
            yield f"a template that asks for {text}::{texts[at + 2]}", token.line
        elif text in parameters and before in (":", "public", "protected", "private"):
            yield f"{text}, a base that is a template's parameter,", token.line
        elif text == "&" and before in _BEFORE_OPERAND and "::" in texts[at + 1 : at + 8]:
            yield "a template that asks for a pointer to a member", token.line
