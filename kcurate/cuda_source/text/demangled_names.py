"""Takes the demangled name of a kernel apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kcurate.cuda_source.text.brackets import split_arguments

_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|_NV_ANON_NAMESPACE::")
_CLONE = re.compile(r" \[clone.*")


@dataclass(frozen=True)
class Demangled:
    """The parts of a demangled name.

    `void space::scale<float, (int)4>(float*, int)` has the name `space::scale`, the template arguments
    `float` and `(int)4`, and the parameters `float*` and `int`. `params` is None if the name has none
    (`extern "C"`). Anonymous namespaces are left out.
    """

    name: str
    template: tuple[str, ...] = ()
    params: tuple[str, ...] | None = None

    @property
    def base(self) -> str:
        """The name without namespaces and classes."""
        return self.name.rpartition("::")[2]

    @staticmethod
    def of(text: str) -> Demangled:
        """Parse a name with or without return type and parameters."""
        remaining = _CLONE.sub("", _ANONYMOUS.sub("", text)).strip()
        params = None
        template: tuple[str, ...] = ()
        if remaining.endswith(")"):
            remaining, inside = _last(remaining, "(", ")")
            params = () if inside == "void" else _split(inside)
        if remaining.endswith(">"):
            remaining, inside = _last(remaining, "<", ">")
            template = _split(inside)
        depth = start = 0
        for at, symbol in enumerate(remaining):
            depth += (symbol in "<(") - (symbol in ">)")
            start = at + 1 if symbol == " " and depth == 0 else start
        return Demangled(remaining[start:] or text, template, params)


def _last(text: str, opens: str, closes: str) -> tuple[str, str]:
    """The text before the bracket group at the end of `text`, and the text inside the group."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == closes) - (text[at] == opens)
        if depth == 0:
            return text[:at].strip(), text[at + 1 : -1].strip()
    return "", text


def _split(text: str) -> tuple[str, ...]:
    return tuple(piece.decode() for piece in split_arguments(text.encode(), angles=True))
