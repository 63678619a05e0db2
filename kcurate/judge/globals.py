"""Variables of device code that outlive a launch: found by their declarations, not by their use.

A run starts from fresh globals, so honest code needs none that change, but for those its plan writes
(`upload`, `bind_texture`). Not covered: what the binary says (`kcurate.judge.binary_checks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kcurate.judge.tokens import Token

_CONSTANT = frozenset({"const", "constexpr", "constinit", "__constant__", "__shared__", "__grid_constant__"})
_SKIP_CALL = frozenset(
    {"__align__", "alignas", "__attribute__", "__launch_bounds__", "__declspec", "decltype"}
)
_TRIGGERS = frozenset({"__device__", "static", "texture", "surface"})


@dataclass(frozen=True)
class Variable:
    """A variable with static storage; `constant` when code cannot write it."""

    name: str
    constant: bool
    line: int


def static_variables(plain: tuple[Token, ...]) -> tuple[Variable, ...]:
    """Every variable declared with `__device__` or `static`, also inside functions and classes."""
    found = []
    at = 0
    while at < len(plain):
        if plain[at].text in _TRIGGERS and not _inside_template_head(plain, at):
            start = _statement_start(plain, at)
            variables, end = _declaration(plain, start)
            found += variables
            at = max(end, at + 1)
        else:
            at += 1
    return tuple(found)


def _inside_template_head(plain: tuple[Token, ...], at: int) -> bool:
    return at > 0 and plain[at - 1].text in ("<", ",")


def _statement_start(plain: tuple[Token, ...], at: int) -> int:
    while at > 0 and plain[at - 1].text not in (";", "{", "}", ":", "public", "private"):
        at -= 1
    return at


def _declaration(plain: tuple[Token, ...], start: int) -> tuple[list[Variable], int]:
    """The variables of one declaration and where it ends; none for a function or a type."""
    head: list[Token] = []
    at = start
    while at < len(plain) and plain[at].text not in (";", "=", "{", "[", "(", ","):
        if plain[at].text in _SKIP_CALL:
            at = _skip(plain, at + 1, "(", ")")
        elif plain[at].text == "<":
            head.append(plain[at])
            at = _skip_angles(plain, at)
        elif plain[at].text == "operator":
            return [], at + 1
        else:
            head.append(plain[at])
            at += 1
    if at >= len(plain) or any(token.text in ("struct", "class", "enum", "union") for token in head[-2:]):
        return [], at + 1
    if plain[at].text == "(" and not _initialises(plain, at):
        return [], at + 1
    names = [token for token in head if token.kind == "word"]
    if len(names) < 2 or names[-1].text in _TRIGGERS | _CONSTANT:
        return [], at + 1
    constant = _is_constant(head)
    found = [Variable(names[-1].text, constant, names[-1].line)]
    found += [Variable(token.text, constant, token.line) for token in _more_names(plain, at)]
    return found, _end(plain, at)


def _is_constant(head: list[Token]) -> bool:
    """Constant itself: a pointer to constants is none unless it is constant too."""
    texts = [token.text for token in head]
    if any(word in texts for word in ("constexpr", "__constant__", "__shared__")):
        return True
    last_star = max((i for i, text in enumerate(texts) if text == "*"), default=-1)
    return "const" in texts[last_star + 1 :]


def _initialises(plain: tuple[Token, ...], at: int) -> bool:
    """Whether a parenthesis after a name holds a first value and not parameters."""
    inside = plain[at + 1] if at + 1 < len(plain) else None
    return inside is not None and (inside.kind in ("number", "string", "char") or inside.text in ("{", "-"))


def _more_names(plain: tuple[Token, ...], at: int) -> Iterator[Token]:
    """Further declarators after commas at the same depth."""
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
    depth = 0
    while at < len(plain):
        depth += (plain[at].text == opening) - (plain[at].text == closing)
        at += 1
        if depth == 0:
            break
    return at


def _skip_angles(plain: tuple[Token, ...], at: int) -> int:
    depth = 0
    while at < len(plain) and plain[at].text not in (";", "{"):
        depth += {"<": 1, ">": -1, ">>": -2, ">>>": -3}.get(plain[at].text, 0)
        at += 1
        if depth <= 0:
            break
    return at
