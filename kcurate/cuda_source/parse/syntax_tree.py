"""Syntax trees of device code and queries on them; the only module that imports tree-sitter.

Nodes are tree-sitter's, and their spans are spans of the source. Macro bodies and comments have no nodes, so
no query returns anything inside one. Not covered: text that the grammar rejects (`items` works around it).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tree_sitter
import tree_sitter_cuda

from kcurate.cuda_source.text.blanking import identifiers

Node = Any

# What may stand around the name that a declarator gives, a function's parameters apart.
AROUND_NAMES = frozenset(
    (
        "pointer_declarator", "reference_declarator", "array_declarator", "parenthesized_declarator",
        "init_declarator",
    )
)  # fmt: skip

# One parser per thread: a parser is stateful while parsing.
_PARSERS = threading.local()


def _parser() -> Any:
    if not hasattr(_PARSERS, "parser"):
        _PARSERS.parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))
    return _PARSERS.parser


def parse_tree(text: bytes) -> Any:
    """The syntax tree of bytes in the form that `parseable` returns."""
    return _parser().parse(text)


@dataclass(frozen=True)
class Declared:
    """A name introduced by a declaration or parameter.

    `type` is as written, without qualifiers; `qualifiers` are words such as `const` and `__shared__`;
    `stars` counts pointer levels; `sizes` are the array extent nodes (None: `[]`).
    """

    name: bytes
    type: bytes
    qualifiers: frozenset[bytes]
    stars: int
    reference: bool
    sizes: tuple[Node | None, ...]
    value: Node | None
    node: Node
    declaration: Node


@dataclass(frozen=True)
class Function:
    """A function with a body."""

    name: bytes
    kernel: bool
    params: tuple[Declared, ...]
    node: Node
    body: Node


@dataclass(frozen=True, eq=False)
class Tree:
    """Source and its syntax tree."""

    source: bytes
    root: Node

    def text(self, node: Node) -> bytes:
        """The source text of a node."""
        return self.source[node.start_byte : node.end_byte]

    def nodes(self, *kinds: str, within: Node | None = None) -> Iterator[Node]:
        """The nodes of these types (none given: all nodes) in source order, outer before inner."""
        stack = [self.root if within is None else within]
        while stack:
            node = stack.pop()
            if not kinds or node.type in kinds:
                yield node
            stack.extend(reversed(node.children))

    def uses(self, name: bytes, within: Node | None = None) -> Iterator[Node]:
        """Every identifier with this name, declarations included."""
        return (node for node in self.nodes("identifier", within=within) if self.text(node) == name)

    def calls(
        self, *names: bytes, within: Node | None = None
    ) -> Iterator[tuple[Node, bytes, tuple[Node, ...]]]:
        """Calls of functions by unqualified name: the call, the name, the arguments."""
        for node in self.nodes("call_expression", within=within):
            function, arguments = (node.child_by_field_name(field) for field in ("function", "arguments"))
            if function is None or arguments is None or function.type != "identifier":
                continue
            name = self.text(function)
            if not names or name in names:
                values = tuple(child for child in arguments.named_children if child.type != "comment")
                yield node, name, values

    def functions(self) -> Sequence[Function]:
        """Functions with bodies, in order."""
        return self._functions

    @cached_property
    def _functions(self) -> Sequence[Function]:
        functions = []
        for node in self.nodes("function_definition"):
            body = node.child_by_field_name("body")
            declarator = function_declarator(node)
            if body is None or declarator is None:
                continue
            name = declarator.child_by_field_name("declarator")
            head = self.source[node.start_byte : declarator.start_byte]
            listed = declarator.child_by_field_name("parameters").named_children
            params = [declaration for param in listed for declaration in self.declared_by(param)]
            functions.append(Function(self.text(name), b"__global__" in head, tuple(params), node, body))
        return functions

    def declared(self, within: Node) -> tuple[Declared, ...]:
        """Everything declared inside a node (parameters are not included)."""
        known = self._declared.get(within.id)
        if known is None:
            declarations = self.nodes("declaration", within=within)
            known = tuple(declaration for node in declarations for declaration in self.declared_by(node))
            self._declared[within.id] = known
        return known

    @cached_property
    def _declared(self) -> dict[int, tuple[Declared, ...]]:
        return {}

    def declared_by(self, node: Node) -> Iterator[Declared]:
        """The names that one declaration or parameter introduces; empty if the grammar misparsed it."""
        base = node.child_by_field_name("type")
        if base is None or node.has_error:
            return
        qualifiers = frozenset(
            word for child in node.children if child.type in ("type_qualifier", "storage_class_specifier")
            for word in self.text(child).split()
        )  # fmt: skip
        for outer in node.children_by_field_name("declarator"):
            value, sizes, stars, reference, inner = None, [], 0, False, outer
            words: set[bytes] = set()
            while inner is not None and inner.type in AROUND_NAMES:
                if inner.type == "init_declarator":
                    value = inner.child_by_field_name("value")
                elif inner.type == "array_declarator":
                    sizes.append(inner.child_by_field_name("size"))
                stars += inner.type == "pointer_declarator"
                reference |= inner.type == "reference_declarator"
                words |= {self.text(child) for child in inner.children if child.type == "type_qualifier"}
                inner = below(inner)
            if inner is not None and inner.type == "identifier":
                yield Declared(
                    self.text(inner), self.text(base), qualifiers | words, stars, reference,
                    tuple(reversed(sizes)), value, inner, node,
                )  # fmt: skip

    def unused_name(self, wish: bytes) -> bytes:
        """The requested name, with as many underscores appended as needed to make it unused."""
        taken = identifiers(self.source)
        while wish in taken:
            wish += b"_"
        return wish

    def helpers_at(self) -> int:
        """The offset at which to insert functions that all functions of the file can call."""
        for child in self.root.children:
            if child.type == "ERROR" or any(True for _ in self.nodes("function_definition", within=child)):
                return int(child.start_byte)
        return len(self.source)


def below(declarator: Node) -> Node | None:
    """The node inside a declarator: `x` for `*x`, `x[3]` and `x = 1`."""
    inner = declarator.child_by_field_name("declarator")
    return inner if inner is not None else (declarator.named_children or [None])[-1]


def function_declarator(definition: Node) -> Node | None:
    """The name and parameters of a function definition, without pointers and references around them."""
    declarator = definition.child_by_field_name("declarator")
    while declarator is not None and declarator.type in AROUND_NAMES:
        declarator = below(declarator)
    return declarator if declarator is not None and declarator.type == "function_declarator" else None


def expression(text: bytes) -> Node | None:
    """The syntax tree of one C expression; None: the grammar does not accept the whole text as one."""
    before, after = b"auto x = (", b");"
    root = parse_tree(before + text + after).root_node
    node = root.descendant_for_byte_range(len(before) - 1, len(before) + len(text) + 1)
    whole = not root.has_error and node is not None and node.type == "parenthesized_expression"
    return node.named_children[0] if whole else None


def ancestors(node: Node) -> Iterator[Node]:
    """The ancestors of a node, innermost first."""
    while (node := node.parent) is not None:
        yield node


def bare(node: Node) -> Node:
    """The node inside parentheses and condition clauses."""
    while node.type in ("parenthesized_expression", "condition_clause") and node.named_child_count == 1:
        node = node.named_children[0]
    return node


def encloses(outer: Node, inner: Node) -> bool:
    """Whether a node begins inside another node, or is that node."""
    return bool(outer.start_byte <= inner.start_byte < outer.end_byte)
