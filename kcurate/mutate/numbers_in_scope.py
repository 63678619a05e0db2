"""The numbers that a function has as parameters and variables, and which of them a place in it can name.

Not covered: values of arrays, structs and pointers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, ancestors

# Types of numbers, as the grammar calls them.
ARITHMETIC = ("primitive_type", "sized_type_specifier")
# How many earlier values are tried in a later one's place, the nearest first.
NEAREST = 3


@dataclass(frozen=True)
class Scope:
    """The numbers that a function has as parameters and variables."""

    tree: Tree
    function: Function

    @cached_property
    def numbers(self) -> tuple[Declared, ...]:
        """Parameters and variables that are one number each, in order."""
        declared = (*self.function.params, *self.tree.declared(self.function.body))
        return tuple(one for one in declared if not one.stars and not one.sizes and _is_number(one))

    def seen_from(self, node: Node) -> list[Declared]:
        """Those declared before a node, in a block around it, the nearest first."""
        around = {parent.id for parent in ancestors(node)}
        before = [
            one
            for one in self.numbers
            if one in self.function.params
            or (one.declaration.end_byte <= node.start_byte and one.declaration.parent.id in around)
        ]
        return before[::-1]

    def named(self, node: Node) -> Declared | None:
        """The number that an identifier names."""
        name = self.tree.text(node)
        return next((one for one in self.seen_from(node) if one.name == name), None)

    def earlier(self, node: Node, like: Declared, *, first: bool = False) -> list[tuple[bytes, Declared]]:
        """Values that were known before a node and could be in the place of `like`, and where each is from.

        They are variables (with `first` those that were declared before `like`), then loads that began one.
        """
        # A kernel's parameters are no place and no value of a thread's own.
        uniform = self.function.params if self.function.kernel else ()
        seen = [one for one in self.seen_from(node) if one not in uniform]
        if first:
            seen = [one for one in seen if one.node.start_byte < like.node.start_byte]
        alike = [one for one in seen if one.name != like.name and is_real(one) == is_real(like)]
        loads = [
            (self.tree.text(load), one)
            for one in alike
            if one.value is not None
            for load in islice(self.tree.nodes("subscript_expression", within=one.value), 1)
        ]
        return [(one.name, one) for one in alike[:NEAREST]] + loads[:NEAREST]


def _is_number(declared: Declared) -> bool:
    kind = declared.declaration.child_by_field_name("type")
    return kind is not None and kind.type in ARITHMETIC and declared.type != b"void"


def is_real(declared: Declared) -> bool:
    """Whether a number is `float` or `double`."""
    return declared.type in (b"float", b"double")
