"""Programs in the string constants of a Python file: CUDA with a `__global__`, modules with a `@triton.jit`.

A program is the largest expression that is a constant text (`kcurate.forms.constant_texts`). What only goes
into a larger one is no program of its own.
"""

from __future__ import annotations

import ast
import re
from collections import ChainMap
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcurate.forms.constant_texts import Expressions
from kcurate.forms.parts import Part, Text, joined, plain

# Python's parser takes some hundred bytes of memory for each.
MAX_BYTES = 1 << 24
_CUDA = re.compile(rb"\b__global__\b[^;{}]*\([^{}]*\{")
_TRITON = re.compile(rb"^[ \t]*@(?:triton\.)?jit\b", re.MULTILINE)
_MARKS = b"__global__", b"async_compile", b"triton.jit"
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef

Names = MutableMapping[str, Any]


class PythonStrings:
    """CUDA and Triton in the strings of Python."""

    suffixes = (".py",)

    def read(self, path: str, data: bytes) -> Sequence[Part]:
        """The programs in the strings of a file, in order; its own text is no part."""
        if not any(mark in data for mark in _MARKS):
            return ()
        if len(data) > MAX_BYTES:
            raise ValueError(f"{len(data)} bytes of Python, more than {MAX_BYTES}")
        # As many bytes as before, whatever the encoding.
        text = re.sub("[\udc80-\udcff]", "?", data.decode("utf-8", "surrogateescape"))
        text = "\f\f\f" + text[1:] if text.startswith("\ufeff") else text
        programs = _Programs(Expressions(path, text))
        programs.scope(programs.expressions.syntax.body, {}, "cuda")
        return tuple(programs.parts())


@dataclass(frozen=True)
class _Candidate:
    name: str
    text: Text
    why: str | None = None


class _Programs:
    """Collects the programs of one file, statement by statement; a scope's names have texts and numbers."""

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self._candidates: list[_Candidate] = []
        # Functions and classes still to be read, with the names around them.
        self._inner: list[tuple[ast.stmt, Names]] = []

    def parts(self) -> Iterator[Part]:
        """The programs, without texts that are only part of a larger one."""
        covered: set[int] = set()
        programs = []
        for candidate in sorted(
            self._candidates, key=lambda candidate: (-len(candidate.text), candidate.why is None)
        ):
            places = {segment.at for segment in candidate.text if segment.size}
            if candidate.text not in self.expressions.templates and not places <= covered:
                programs.append(candidate)
                covered |= places
        for candidate in sorted(programs, key=lambda candidate: candidate.text[0].at):
            ending = "py" if _parses(plain(candidate.text)) else "cu"  # CUDA is never Python
            yield Part(f"{candidate.name}.{ending}", candidate.text, candidate.why)

    def scope(self, body: Sequence[ast.stmt], names: Names, context: str) -> None:
        """Statements in order, then the functions and classes among them, which see all names."""
        self._inner, around = [], self._inner
        self._statements(body, names, context)
        inner, self._inner = self._inner, around
        for node, seen in inner:
            below: Names = ChainMap({}, seen)
            if isinstance(node, _FUNCTIONS):
                args = node.args
                below.update(
                    dict.fromkeys(arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs))
                )
            if isinstance(node, _FUNCTIONS | ast.ClassDef):
                self.scope(node.body, below, node.name)

    def _statements(self, body: Sequence[ast.stmt], names: Names, context: str) -> None:
        for node in body:
            if isinstance(node, _FUNCTIONS | ast.ClassDef):
                self._inner.append((node, names))
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
                self._assignment(node, node.value, names, context)
            else:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr | ast.withitem):
                        self._collect(child, names, context)
                self._branches(node, names, context)

    def _branches(self, node: ast.stmt, names: Names, context: str) -> None:
        """The bodies of a compound statement; if several bind a name, the first value counts."""
        clauses = [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]
        bodies = [getattr(clause, "body", ()) for clause in clauses]
        bodies += [getattr(node, name, ()) for name in ("orelse", "finalbody")]
        bound: dict[str, Any] = {}
        for body in bodies:
            changed: dict[str, Any] = {}
            self._statements(body, ChainMap(changed, names), context)
            bound = {**changed, **bound}
        loop = isinstance(node, ast.For | ast.AsyncFor | ast.While)
        names.update(dict.fromkeys(bound) if loop else bound)

    def _assignment(
        self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, value: ast.expr, names: Names, context: str
    ) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        dotted = [ast.unparse(target) for target in targets if isinstance(target, ast.Name | ast.Attribute)]
        if isinstance(node, ast.AugAssign):
            value = ast.copy_location(ast.BinOp(node.target, node.op, value), node)
        known = self._collect(value, names, dotted[0].rpartition(".")[2] if dotted else context)
        if known is None and dotted:
            known = self.expressions.value(value, names)
        names.update(dict.fromkeys(dotted, known))

    def _collect(self, node: ast.AST, names: Names, context: str) -> Text | None:
        """Add the programs in an expression; the text that it is, if it is one."""
        text, unknown = self.expressions.text(node, names) if isinstance(node, ast.expr) else (None, "")
        if text is not None and not unknown:
            self._add(context, text)
            return text
        if text is not None and _holds(plain(text)):
            why = f"its text depends on {unknown}, which is not known before the program runs"
            self._candidates.append(_Candidate(context, text, why))
            return None
        if isinstance(node, ast.keyword) and node.arg == "cuda_sources" and isinstance(node.value, ast.List):
            # `load_inline` writes them into one file.
            texts = [self.expressions.text(source, names) for source in node.value.elts]
            if all(text and not unknown for text, unknown in texts):
                self._add(context, joined(text for text, _ in texts if text))
                return None
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr | ast.keyword | ast.comprehension):
                self._collect(child, names, context)
        return None

    def _add(self, context: str, text: Text) -> None:
        code = plain(text)
        if _CUDA.search(code) or (_TRITON.search(code) and _parses(code)):
            self._candidates.append(_Candidate(context, text))


def _holds(text: bytes) -> bool:
    return b"__global__" in text or _TRITON.search(text) is not None


def _parses(text: bytes) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
