"""Names that are local to host code, replaced by what they stand for; and the calls of a function in a text.

Texts have comments and literals blanked. Not covered: scopes inside a function: of several definitions of a
name the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from kcurate.cuda_source.parse.items import Item
from kcurate.cuda_source.text.brackets import closing, split_arguments
from kcurate.cuda_source.text.tokens import IDENTIFIER

_AFTER = re.compile(rb"\s*(?:[(;<){},:&>]|[A-Za-z_])")
_LAMBDA = re.compile(rb"\b(\w+)\s*=\s*\[[^\]]*\]\s*(?:<([^(){}]*)>\s*)?\(([^()]*)\)")
_CONSTANT = re.compile(
    rb"(?:std|cuda::std)\s*::\s*(?:integral_constant\s*<[^<>,]*,|bool_constant\s*<)\s*([^<>]*)>"
)
WORDS = frozenset(
    b"unsigned signed long short int char float double bool void const half true false nullptr sizeof "
    b"static_cast std cuda thrust cub value type decltype typename struct class half2 size_t wchar_t".split()
)
# A constant's value (behind `const` or `constexpr`), and a type alias. Patterns begin with a literal, since
# `re` finds a literal much faster than `\b`.
_CONST = re.compile(rb"const(?<!\wconst)(?:expr)?\b")
_INITIALISED = re.compile(rb"[\w:<>\s]{0,120}?\b(\w+)\s*(?:=\s*([^;,{}]+)|[({]([^;{}()]*)[)}])\s*[;,]")
_ALIASES = (
    re.compile(rb"using(?<!\wusing)\s+(?P<name>\w+)\s*=\s*(?P<type>[^;]+);"),
    re.compile(rb"typedef(?<!\wtypedef)\s+(?P<type>[^;{}]+?)\s*\b(?P<name>\w+)\s*;"),
)
_BOUNDARY = re.compile(rb"\b")
_USED = re.compile(rb"\s*(?:(<)(?!\s*<)|(\()|\.\s*template\s+operator\s*\(\)\s*(<))")
_ONE_WORD = re.compile(rb"[\w.:]+")
# A constant may be defined by another one, to this depth.
MAX_DEPTH = 6
# A template argument list is shorter.
MAX_LIST_BYTES = 400


def substituted(argument: bytes, values: Mapping[bytes, bytes]) -> bytes:
    """The argument with each name that has a value in `values` replaced by it."""
    return IDENTIFIER.sub(lambda match: values.get(match[0], match[0]), argument)


@lru_cache(maxsize=4)  # one text is used for all arguments of a call
def _values(text: bytes) -> Mapping[bytes, bytes]:
    """The values of a text's constants and type aliases, by name; an alias goes before a constant."""
    starts = (match.end() for match in _CONST.finditer(text))
    constants = (match for at in starts if (match := _INITIALISED.match(text, at)))
    values = {match[1]: b" ".join((match[2] or match[3] or b"").split()) for match in constants}
    values = {name: v if _ONE_WORD.fullmatch(v) else b"(" + v + b")" for name, v in values.items()}
    aliases = sorted(
        (match.start(), match["name"], match["type"])
        for pattern in _ALIASES
        for match in pattern.finditer(text)
    )
    return values | {name: b" ".join(type_.split()) for _, name, type_ in aliases}


def with_locals(argument: bytes, text: bytes) -> bytes:
    """The argument with the constants and aliases that `text` defines replaced by their values."""
    for _ in range(MAX_DEPTH):
        before = argument
        for name in dict.fromkeys(IDENTIFIER.findall(argument)):
            if name in WORDS or name not in text:
                continue
            value = _values(text).get(name)
            if value is None and name == b"scalar_t" and b"_DISPATCH_" in text:
                value = b"float"  # PyTorch's macros bind it to each type
            if value is not None and name not in IDENTIFIER.findall(value):
                argument = substituted(argument, {name: value})
        if argument == before:
            break
    return argument


def lambda_values(
    template_args: tuple[bytes, ...],
    text: bytes,
    around: Item | None,
    bare: bytes,
    by_name: Mapping[bytes, Sequence[Item]],
) -> Iterator[dict[bytes, bytes]]:
    """For each call of the generic lambda around a use: the values of the lambda's parameters. At least `{}`.

    `template_args` are the arguments of the use; `text` leads up to it, in the function `around`. `bare` is
    the unit, `by_name` its functions. In `auto f = [&](auto n) { step<n.value>(); }; f(integral_constant<int,
    4>{});` the use is `step<n.value>` and the only item is `{b"n": b"4"}`.
    """
    used = {name for argument in template_args for name in IDENTIFIER.findall(argument)}
    for match in reversed(list(_LAMBDA.finditer(text))):
        template_words = map(IDENTIFIER.findall, split_arguments(match[2] or b"", angles=True))
        names = [words[-1] for words in template_words if words]
        param_words = map(IDENTIFIER.findall, split_arguments(match[3]))
        autos = [words[-1] for words in param_words if words and b"auto" in words]
        if not used & {*names, *autos} or around is None:
            continue
        values = list(
            _values_of_calls(match[1], names, autos, bare[around.start : around.end], bare, by_name)
        )
        if values:
            yield from values
            return
    yield {}


def _values_of_calls(
    name: bytes,
    names: Sequence[bytes],
    autos: Sequence[bytes],
    function: bytes,
    bare: bytes,
    by_name: Mapping[bytes, Sequence[Item]],
) -> Iterator[dict[bytes, bytes]]:
    """For each call of a lambda: the values of its template parameters `names` and its `auto` parameters.

    Calls are searched for in the text `function`, and in the functions that it passes the lambda to.
    """
    for _, template, arguments in calls_of(function, name, deduce=True):
        values = dict(zip(names, template, strict=False))
        for auto, argument in zip(autos, arguments, strict=False):
            if constant := _CONSTANT.search(argument):
                values[auto] = constant[1].strip()
        if values:
            yield values
    for passing in re.finditer(rb"\b(\w+)\s*\([^()]*\b" + re.escape(name) + rb"\b[^()]*\)", function):
        for dispatcher in by_name.get(passing[1], ()):
            for constant in _CONSTANT.finditer(bare[dispatcher.start : dispatcher.end]):
                yield dict.fromkeys(autos, constant[1].strip())


def calls_of(text: bytes, name: bytes, deduce: bool) -> Iterator[tuple[int, tuple[bytes, ...], list[bytes]]]:
    """Each use of a function in a text: its offset, template arguments and call arguments.

    Uses without template arguments are included only with `deduce`.
    """
    for at, match in _uses(text, name):
        if match[2]:
            end = closing(text, match.end() - 1)
            if deduce and end is not None:
                yield at, (), passed(text[match.end() : end - 1])
            continue
        for template_args, after in _angles(text, match.end()):
            start = len(text) - len(text[after:].lstrip())
            end = closing(text, start) if text[start : start + 1] == b"(" else None
            yield at, template_args, passed(text[start + 1 : end - 1]) if end else []


def _uses(text: bytes, name: bytes) -> Iterator[tuple[int, re.Match[bytes]]]:
    """Each place where `name` is used as a function's name: its offset, and the match of what follows.

    Searches with `bytes.find`, since compiling a pattern for each name is slow.
    """
    at = text.find(name)
    while at >= 0:
        match = _USED.match(text, at + len(name)) if _BOUNDARY.match(text, at) else None
        if match is not None:
            yield at, match
        at = text.find(name, match.end() if match is not None else at + 1)


def passed(inside: bytes) -> list[bytes]:
    """The arguments of a call; `<` and `>` count as brackets if they are balanced."""
    return split_arguments(inside, angles=b"->" not in inside and inside.count(b"<") == inside.count(b">"))


def _angles(text: bytes, start: int) -> Iterator[tuple[tuple[bytes, ...], int]]:
    """The template arguments of the list that opens just before `start`, and its end; at most one item."""
    depth = 1
    for at in range(start, min(len(text), start + MAX_LIST_BYTES)):
        depth += {b">": -1, b"<": 1}.get(text[at : at + 1], 0)
        if text[at : at + 1] in (b";", b"{"):
            return
        if depth == 0:
            template_args = tuple(b" ".join(a.split()) for a in split_arguments(text[start:at], angles=True))
            if template_args and _AFTER.match(text, at + 1):
                yield template_args, at + 1
            return
