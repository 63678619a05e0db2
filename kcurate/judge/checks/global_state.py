"""Variables that keep state between launches, found by their declarations, not by their use.

Every run starts with fresh globals, so a correct side needs no writable ones except those that its plan
writes (`upload`, `bind_texture`). Declarations at namespace scope count without any keyword, since the
emulator's host compiler makes variables of them. Not covered: variables in the binary
(`kcurate.judge.checks.binary`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kcurate.judge.checks.lexer import Token, matching_bracket

_CONSTANT = frozenset({"const", "constexpr", "constinit", "__constant__", "__shared__", "__grid_constant__"})
_SKIP_CALL = frozenset(
    {
        "__align__", "alignas", "__attribute__", "__launch_bounds__", "__declspec", "decltype",
        "__cluster_dims__", "__maxnreg__", "__block_size__",
    }
)  # fmt: skip
_TRIGGERS = frozenset({"__device__", "static", "texture", "surface"})
_TYPES = frozenset({"struct", "class", "union", "enum"})
# First words of statements at namespace scope that declare no variable.
_NO_VARIABLE = frozenset({"using", "typedef", "static_assert", "friend", "namespace", "asm"})
# How many tokens before its keyword a declaration may start.
MAX_DECLARATION_TOKENS = 200


@dataclass(frozen=True)
class Variable:
    """A variable with static storage; `constant` when code cannot write it."""

    name: str
    constant: bool
    line: int


def static_variables(plain: tuple[Token, ...]) -> tuple[Variable, ...]:
    """Variables at namespace scope, and those declared `__device__` or `static` anywhere."""
    variables: dict[tuple[str, int], Variable] = {}
    for variable in (*_marked(plain), *_at_namespace_scope(plain)):
        variables.setdefault((variable.name, variable.line), variable)
    return tuple(sorted(variables.values(), key=lambda variable: variable.line))


def _marked(plain: tuple[Token, ...]) -> Iterator[Variable]:
    """Variables declared with one of `_TRIGGERS`, including those inside functions and classes."""
    at = 0
    while at < len(plain):
        in_template_head = at > 0 and plain[at - 1].text in ("<", ",")
        if plain[at].text in _TRIGGERS and not in_template_head:
            variables, end = _declaration(plain, _statement_start(plain, at))
            yield from variables
            at = max(end, at + 1)
        else:
            at += 1


def _at_namespace_scope(plain: tuple[Token, ...]) -> Iterator[Variable]:
    """Variables outside functions and types."""
    at = 0
    while at < len(plain):
        text = plain[at].text
        opened = _scope_opening(plain, at)
        if opened is not None:
            at = opened + 1
        elif text in (";", "}"):
            at += 1
        elif text in _NO_VARIABLE or _instantiates(plain, at):
            at = _after_statement(plain, at)
        else:
            variables, _ = _declaration(plain, at)
            yield from variables
            at = _after_statement(plain, at)


def _scope_opening(plain: tuple[Token, ...], at: int) -> int | None:
    """The opening brace of a `namespace` or `extern "C"` block that starts at `at`, else None."""
    if plain[at].text == "namespace":
        for i in range(at + 1, min(at + 8, len(plain))):
            if plain[i].text in ("{", ";", "="):
                return i if plain[i].text == "{" else None
    if plain[at].text == "extern" and at + 2 < len(plain) and plain[at + 2].text == "{":
        return at + 2
    return None


def _instantiates(plain: tuple[Token, ...], at: int) -> bool:
    """Whether an explicit instantiation starts here; its template is checked where it is declared."""
    return plain[at].text == "template" and at + 1 < len(plain) and plain[at + 1].text != "<"


def _after_statement(plain: tuple[Token, ...], at: int) -> int:
    """The position after a statement at namespace scope: past its `;` or past a function's body."""
    is_type = False
    parenthesis = False
    while at < len(plain):
        text = plain[at].text
        if text == ";":
            return at + 1
        is_type = is_type or (text in _TYPES and not parenthesis)
        if text == "(":
            parenthesis = True
            at = matching_bracket(plain, at, "(", ")")
        elif text == "{":
            at = matching_bracket(plain, at, "{", "}")
            if parenthesis and not is_type:
                return at + 1
        at += 1
    return at


def _statement_start(plain: tuple[Token, ...], at: int) -> int:
    first = max(0, at - MAX_DECLARATION_TOKENS)
    while at > first and plain[at - 1].text not in (";", "{", "}", ":", "public", "private"):
        at -= 1
    return at


def _declaration(plain: tuple[Token, ...], start: int) -> tuple[list[Variable], int]:
    """The variables of one declaration (none for a function or type), and where it ends."""
    head, at = _head(plain, start)
    if at >= len(plain) or any(token.text in ("operator", *_NO_VARIABLE) for token in head):
        return [], at + 1
    if any(token.text in _TYPES for token in head):
        if plain[at].text == "{":
            return _after_type(plain, head, at)
        if sum(token.kind == "word" for token in head) < 3:
            return [], at + 1
    if plain[at].text == "(" and not _initialises(plain, at):
        return [], at + 1
    names = [token for token in head if token.kind == "word"]
    if len(names) < 2 or names[-1].text in _TRIGGERS | _CONSTANT:
        return [], at + 1
    constant = _is_constant(head)
    variables = [Variable(names[-1].text, constant, names[-1].line)]
    variables += [Variable(token.text, constant, token.line) for token in _more_names(plain, at)]
    return variables, _end(plain, at)


def _head(plain: tuple[Token, ...], start: int) -> tuple[list[Token], int]:
    """A declaration's tokens before its initialiser, parameters or body, without attributes and template."""
    head: list[Token] = []
    at = start
    while at + 1 < len(plain) and plain[at].text == "template" and plain[at + 1].text == "<":
        at = _skip_angles(plain, at + 1)
    while at < len(plain) and plain[at].text not in (";", "=", "{", "}", "[", "(", ","):
        if plain[at].text in _SKIP_CALL and at + 1 < len(plain) and plain[at + 1].text == "(":
            at = _skip(plain, at + 1, "(", ")")
        elif plain[at].text == "<":
            head.append(plain[at])
            at = _skip_angles(plain, at)
        else:
            head.append(plain[at])
            at += 1
    return head, at


def _after_type(plain: tuple[Token, ...], head: list[Token], at: int) -> tuple[list[Variable], int]:
    """The variables that a type definition declares after its closing brace; its body is not read here."""
    close = matching_bracket(plain, at, "{", "}")
    end = _end(plain, close + 1)
    declarators = [token for token in plain[close + 1 : end] if token.kind == "word"]
    if not declarators or any(token.text == "typedef" for token in head):
        return [], at + 1
    constant = _is_constant(head)
    names = [declarators[0], *_more_names(plain, close + 1)]
    return [Variable(token.text, constant, token.line) for token in names], at + 1


def _is_constant(head: list[Token]) -> bool:
    """Whether the variable itself is constant; a pointer to const is not."""
    texts = [token.text for token in head]
    if any(word in texts for word in ("constexpr", "__constant__", "__shared__")):
        return True
    last_star = max((i for i, text in enumerate(texts) if text == "*"), default=-1)
    return "const" in texts[last_star + 1 :]


def _initialises(plain: tuple[Token, ...], at: int) -> bool:
    """Whether a parenthesis after a name holds an initialiser rather than parameters."""
    inside = plain[at + 1] if at + 1 < len(plain) else None
    return inside is not None and (inside.kind in ("number", "string", "char") or inside.text in ("{", "-"))


def _more_names(plain: tuple[Token, ...], at: int) -> Iterator[Token]:
    """The names of further declarators, after commas at the same depth."""
    depth = 0
    for i in range(at, _end(plain, at)):
        text = plain[i].text
        depth += (text in "([{") - (text in ")]}") if len(text) == 1 else 0
        if text == "," and depth == 0:
            name = next((token for token in plain[i + 1 : i + 4] if token.kind == "word"), None)
            if name is not None:
                yield name


def _end(plain: tuple[Token, ...], at: int) -> int:
    depth = 0
    while at < len(plain):
        text = plain[at].text
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if depth < 0 or (text == ";" and depth == 0):
            return at
        at += 1
    return at


def _skip(plain: tuple[Token, ...], at: int, opening: str, closing: str) -> int:
    if at >= len(plain) or plain[at].text != opening:
        return at
    return matching_bracket(plain, at, opening, closing) + 1


def _skip_angles(plain: tuple[Token, ...], at: int) -> int:
    depth = 0
    while at < len(plain) and plain[at].text not in (";", "{"):
        depth += {"<": 1, ">": -1, ">>>": -3}.get(plain[at].text, 0)
        at += 1
        if depth <= 0:
            break
    return at
