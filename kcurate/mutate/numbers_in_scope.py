"""The numeric parameters and variables of a function, and which of them are in scope at a node.

Not covered: values of arrays, structs and pointers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, ancestors

# The grammar's node types for arithmetic types.
ARITHMETIC = ("primitive_type", "sized_type_specifier")
# The most earlier values that are tried as a replacement, nearest first.
NEAREST = 3


@dataclass(frozen=True)
class Scope:
    """The numeric parameters and variables of a function."""

    tree: Tree
    function: Function

    @cached_property
    def numbers(self) -> tuple[Declared, ...]:
        """All of them in order of declaration, without arrays and pointers."""
        declared = (*self.function.params, *self.tree.declared(self.function.body))
        return tuple(
            number for number in declared if not number.stars and not number.sizes and _is_number(number)
        )

    def visible_from(self, node: Node) -> list[Declared]:
        """Those in scope at a node, nearest declaration first."""
        around = {parent.id for parent in ancestors(node)}
        before = [
            number
            for number in self.numbers
            if number in self.function.params
            or (number.declaration.end_byte <= node.start_byte and number.declaration.parent.id in around)
        ]
        return before[::-1]

    def named(self, node: Node) -> Declared | None:
        """The parameter or variable that an identifier refers to."""
        name = self.tree.text(node)
        return next((number for number in self.visible_from(node) if number.name == name), None)

    def earlier(
        self, node: Node, like: Declared, *, only_before: bool = False
    ) -> list[tuple[bytes, Declared]]:
        """Values known before a node that could replace `like`, each with the variable that it comes from.

        First variables, then loads in their initialisers. `only_before`: only variables declared before
        `like`.
        """
        # A kernel's parameters are equal in all threads, so they replace no thread's own value.
        uniform = self.function.params if self.function.kernel else ()
        visible = [number for number in self.visible_from(node) if number not in uniform]
        if only_before:
            visible = [number for number in visible if number.node.start_byte < like.node.start_byte]
        alike = [
            number for number in visible if number.name != like.name and is_real(number) == is_real(like)
        ]
        loads = [
            (self.tree.text(load), number)
            for number in alike
            if number.value is not None
            for load in islice(self.tree.nodes("subscript_expression", within=number.value), 1)
        ]
        return [(number.name, number) for number in alike[:NEAREST]] + loads[:NEAREST]


def _is_number(declared: Declared) -> bool:
    kind = declared.declaration.child_by_field_name("type")
    return kind is not None and kind.type in ARITHMETIC and declared.type != b"void"


def is_real(declared: Declared) -> bool:
    """Whether a number is `float` or `double`."""
    return declared.type in (b"float", b"double")
