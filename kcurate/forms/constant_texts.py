"""Evaluates constant string expressions of Python and maps each byte to its source; nothing is executed.

Covers literals, f-strings, `+`, `%`, `format`, `replace`, `substitute`, `join`, names with a known value. Not
covered: names of other files, what a function computes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcurate.forms.literals import pieces
from kcurate.forms.parts import Segment, Text, joined, line_breaks, plain
from kcurate.triton_source.configurations import NotLiteralError, value_of
from kcurate.triton_source.module_names import File, Tree

# Bytes of the longest program.
MAX_TEXT_BYTES = 1 << 20
# Functions and methods after which a program is still the same.
_SAME = frozenset({"dedent", "cleandoc", "encode", "decode", "str", "strip", "lstrip", "rstrip", "Template"})
# What each way of filling a template replaces; the first group that matched names the value.
_FILLED = {
    "%": re.compile(r"%%|%(?:\((\w+)\))?[dsi]"),
    "format": re.compile(r"\{\{|\}\}|\{([^{}]*)\}"),
    "substitute": re.compile(r"\$\$|\$\{?(\w+)\}?"),
}
_DOUBLED = {"%%": "%", "{{": "{", "}}": "}", "$$": "$"}


class Expressions:
    """Evaluates expressions of one file. `templates`: texts that were formatted with values."""

    def __init__(self, path: str, source: str) -> None:
        self.syntax = ast.parse(source)
        self.templates: set[Text] = set()
        self._data = source.encode()
        self._lines = [0, *(at + 1 for at in line_breaks(self._data))]
        self._file = File(Tree((), lambda path: None), path, source, self.syntax)
        self._unknown: list[str] = []

    def text(self, node: ast.expr, names: Mapping[str, Any]) -> tuple[Text | None, str]:
        """The text of an expression (None if it is no text), and the first unknown expression in it."""
        self._unknown = []
        text = self._text(node, names)
        return text, self._unknown[0] if self._unknown else ""

    def value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        """An expression's value: a number, a text, or a list or dictionary of these; None if unknown."""
        before = len(self._unknown)
        text = self._text(node, names)
        if text is not None and len(self._unknown) == before:
            return _decoded(text)
        del self._unknown[before:]
        used = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)} & names.keys()
        known = {name: value for name in used if (value := names[name]) is not None}
        try:
            value = value_of(self._file, node, {name: _decoded(known[name]) for name in known}, used)
        except NotLiteralError:
            return None
        return value if isinstance(value, int | float | str | list | dict) else None

    def _text(self, node: ast.expr, names: Mapping[str, Any]) -> Text | None:
        text = self._unlimited(node, names)
        if text is not None and sum(len(segment.text) for segment in text) > MAX_TEXT_BYTES:
            self._unknown.append(f"a text of more than {MAX_TEXT_BYTES} bytes")
            return ()
        return text

    def _unlimited(self, node: ast.expr, names: Mapping[str, Any]) -> Text | None:
        match node:
            case ast.Constant(value=str() | bytes()):
                return tuple(self._literal(node, (), names))
            case ast.JoinedStr():
                holes = [value for value in node.values if isinstance(value, ast.FormattedValue)]
                return tuple(self._literal(node, holes, names))
            case ast.Name() | ast.Attribute():
                dotted = ast.unparse(node)
                value = names.get(dotted, names.get(re.sub(r"^(?:self|cls)\.", "", dotted)))
                return value if isinstance(value, tuple) else None
            case ast.NamedExpr():
                return self._text(node.value, names)
            case ast.BinOp(op=ast.Mod()):
                return self._filled("%", node.left, [node.right], {}, names)
            case ast.BinOp(op=ast.Add()):
                return self._sum(node, names)
            case ast.Call():
                return self._call(node, names)
        return None

    def _literal(
        self, node: ast.expr, holes: Sequence[ast.FormattedValue], names: Mapping[str, Any]
    ) -> Iterator[Segment]:
        start = self._lines[node.lineno - 1] + node.col_offset
        end = self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        pending = iter(holes)
        for piece in pieces(self._data[start:end], start):
            if isinstance(piece, Segment):
                yield piece
            elif (hole := next(pending, None)) is not None:
                bare = hole.format_spec is None and hole.conversion in (-1, ord("s"))
                value = self.value(hole.value, names) if bare else None
                if isinstance(value, int | float | str):
                    yield Segment(str(value).encode("utf-8", "replace"), piece, 1)
                else:
                    self._unknown.append(ast.unparse(hole.value))

    def _sum(self, node: ast.BinOp, names: Mapping[str, Any]) -> Text | None:
        texts = [(term, self._text(term, names)) for term in (node.left, node.right)]
        if all(text is None for _, text in texts):
            return None
        self._unknown += [ast.unparse(term) for term, text in texts if text is None]
        return tuple(segment for _, text in texts if text is not None for segment in text)

    def _call(self, node: ast.Call, names: Mapping[str, Any]) -> Text | None:
        function = node.func
        owner = function.value if isinstance(function, ast.Attribute) else None
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in _SAME:
            subjects = (
                self._text(operand, names) for operand in (owner, *node.args[:1]) if operand is not None
            )
            return next((text for text in subjects if text is not None), None)
        if owner is None:
            return None
        if name == "join" and len(node.args) == 1 and isinstance(node.args[0], ast.List | ast.Tuple):
            between, *texts = (self._text(operand, names) for operand in (owner, *node.args[0].elts))
            known = [text for text in texts if text is not None]
            return joined(known, plain(between)) if between is not None and known == texts else None
        if name == "replace" or name.removeprefix("safe_") in _FILLED:
            words = {word.arg or "**": word.value for word in node.keywords}
            return self._filled(name.removeprefix("safe_"), owner, node.args, words, names)
        return None

    def _filled(
        self,
        way: str,
        template: ast.expr,
        nodes: Sequence[ast.expr],
        words: Mapping[str, ast.expr],
        names: Mapping[str, Any],
    ) -> Text | None:
        """A template with values filled in; each line maps to the template's line of the same number."""
        text = self._text(template, names)
        if text is None:
            return None
        values = [self.value(node, names) for node in nodes]
        keywords = {word: self.value(node, names) for word, node in words.items()}
        missing = (node for node, value in zip(nodes, values, strict=True) if value is None)
        missing_words = (words[word] for word, value in keywords.items() if value is None)
        if (unknown := next(missing, None) or next(missing_words, None)) is not None:
            self._unknown.append(ast.unparse(unknown))
            return text
        try:
            filled = _fill(way, plain(text).decode("utf-8", "replace"), values, keywords).encode()
        except (TypeError, ValueError, KeyError, IndexError):
            self._unknown.append(f"{ast.unparse(template)[:40]}.{way}(...)")
            return text
        if filled == plain(text):
            return text
        self.templates.add(text)
        return tuple(_by_line(filled, text))


def _fill(way: str, template: str, values: list[Any], words: dict[str, Any]) -> str:
    """Fill a template by this method: `%`, `format`, `substitute` or `replace`.

    Raises:
        TypeError, ValueError, KeyError, IndexError: the values do not fit, or the text is too long.
    """
    if way == "replace":
        old, new = values[:2]
        if template.count(old) * len(new) > MAX_TEXT_BYTES:
            raise ValueError("too long")
        return template.replace(old, new)
    if way in ("%", "substitute") and values:
        operand = values[0]
        words, values = (
            (operand, []) if isinstance(operand, dict) else (words, operand if way == "%" else values)
        )
        values = values if isinstance(values, list) else [values]
    position, remaining_bytes = iter(values), MAX_TEXT_BYTES

    def value(match: re.Match[str]) -> str:
        if match[0] in _DOUBLED:
            return _DOUBLED[match[0]]
        nonlocal remaining_bytes
        name = match[1] or ""
        filling = values[int(name)] if name.isdecimal() else words[name] if name else next(position)
        text = str(filling)
        remaining_bytes -= len(text)
        if remaining_bytes < 0:
            raise ValueError("too long")
        return text

    try:
        return _FILLED[way].sub(value, template)
    except StopIteration as error:
        raise IndexError("too few values") from error


def _by_line(filled: bytes, template: Text) -> Iterator[Segment]:
    places: list[tuple[int, int]] = []
    fresh = True
    for segment in template:
        at = segment.at
        for line in segment.text.splitlines(keepends=True):
            if fresh:
                places.append((at, min(max(len(line), 1), segment.size)))
            fresh = line.endswith(b"\n")
            at += len(line) if len(segment.text) == segment.size else 0
    for index, line in enumerate(filled.splitlines(keepends=True)):
        yield Segment(line, *places[min(index, len(places) - 1)])


def _decoded(value: Any) -> Any:
    return plain(value).decode("utf-8", "replace") if isinstance(value, tuple) else value
