"""Questions that may fail without an error, and so tell the compilers apart (part of the check `compilers`).

Where the parameters of a template do not fit its declaration, it is left out without a word (SFINAE). So a
declaration that names a member asks whether a type has it, and NVRTC's library types have others than the
emulator's. Everywhere else such a name is an error with one of the compilers. Not covered: functions and
operators that a declaration asks for, of which a test compares those that both compilers have; functions of
the library in place of a template that is left out.
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
    """Members that a template's declaration, or a lambda's type, asks for."""
    templates, types = _macros_with(source, {"template"}), _macros_with(source, {"decltype"})
    asking = _macros_with(source, {"decltype", ".", "->"}) - {"decltype", ".", "->"}
    names = Counter(name for stream in source.streams for name in _declared(stream))
    for stream in source.streams:
        at = 0
        while at < len(stream):
            asked: Sequence[Token] = ()
            if stream[at].text in templates and _opens(stream, at):
                at, asked = _declaration(stream, at + 1)
            elif stream[at].text == "->" and at + 1 < len(stream) and stream[at + 1].text in types:
                asked = stream[at + 2 : matching_bracket(stream, at + 2, "(", ")")]
            alone = all(names[name] < 2 for name in _declared(asked))
            hidden = ((f"{one.text} in a template", one.line) for one in asked if one.text in asking)
            for text, line in (*hidden, *_members(asked, alone=alone)):
                yield Finding("compilers", f"{text} tells compilers apart", line)
            at += 1


def _macros_with(source: Source, words: Set[str]) -> Set[str]:
    """The words, and the macros that hold one of them, perhaps inside another macro."""
    bodies = {
        line[1].text: {*" ".join(token.text for token in line[2:]).replace(". . .", "").split()}
        for line in source.directives
        if len(line) > 1 and line[0].text == "define"
    }
    while more := {name for name, body in bodies.items() if body & words} - words:
        words = words | more
    return words


def _opens(stream: Sequence[Token], at: int) -> bool:
    """Whether a template is declared here, unlike in `x.template f<T>()` and `template struct A<int>`."""
    explicit = stream[at].text == "template" and [one.text for one in stream[at + 1 : at + 2]] != ["<"]
    return not explicit and (at == 0 or stream[at - 1].text not in ("::", ".", "->"))


def _declaration(stream: Sequence[Token], start: int) -> tuple[int, Sequence[Token]]:
    """Where a template's declaration ends, before its body or a constructor's initial values, and its tokens.

    None for a kernel, which no other one replaces: a plan names it.
    """
    round_, angled = 0, 0
    for at in range(start, len(stream)):
        text = stream[at].text
        round_ += (text in ("(", "[")) - (text in (")", "]"))
        angled = 0 if round_ else max(0, angled + (text == "<") - text.count(">") * (text in (">", ">>")))
        if text in ("{", ";") and round_ <= 0 and not angled:
            break
        if text == ":" and round_ <= 0 and not angled and stream[at - 1].text == ")":
            break
    else:
        at = len(stream)
    found = stream[start:at]
    return at, () if any(token.text == "__global__" for token in found) else found


def _declared(tokens: Sequence[Token]) -> Iterator[str]:
    """Names of functions and classes that are declared here, and a few others."""
    for before, token, after in zip(("", *tokens), tokens, (*tokens[1:], ""), strict=False):
        kind, word, then = (getattr(one, "text", "") for one in (before, token, after))
        function = then == "(" and (getattr(before, "kind", "") == "word" or kind in ("*", "&", ">"))
        type_ = kind in ("struct", "class") and then in ("{", ":", "<", ";")
        if token.kind == "word" and (function or type_) and not {kind, word} & _NO_TYPES:
            yield word


def _members(asked: Sequence[Token], *, alone: bool) -> Iterator[tuple[str, int]]:
    """What asks for a member of a type, and its line. `alone`: nothing else has the template's name."""
    texts = ["", *(token.text for token in asked), "", ""]
    parameters = {
        name
        for word, name, then in zip(texts, texts[1:], texts[2:], strict=False)
        if word in ("class", "typename") and then in (",", ">", "=", ">>")
    }
    round_ = 0
    for at, token in enumerate(asked, 1):
        before, text, after = texts[at - 1 : at + 2]
        round_ += (text == "(") - (text == ")")
        trailing = text == "->" and before in _TRAILING and not round_
        part = text == "." and "." not in (before, after) and before not in _PLACES
        if part or (text == "->" and not trailing):
            yield f"a template that asks for a member {after}", token.line
        elif text in parameters and after == "::" and not alone:
            yield f"a template that asks for {text}::{texts[at + 2]}", token.line
        elif text in parameters and before in (":", "public", "protected", "private"):
            yield f"{text}, a base that is a template's parameter,", token.line
        elif text == "&" and before in _BEFORE_OPERAND and "::" in texts[at + 1 : at + 8]:
            yield "a template that asks for a pointer to a member", token.line
