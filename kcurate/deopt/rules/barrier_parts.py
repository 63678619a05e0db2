"""Splits a kernel at its barriers: the code between barriers becomes loops over elements.

`Parts.block(statements)` collects the edits, or raises `Refused` with the reason. Not covered: requirements
on the whole kernel, and why the result is equivalent (`kcurate.deopt.rules.barrier_chunks`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kcurate.cuda_source.parse.syntax_tree import Declared, Node, Tree, ancestors, encloses
from kcurate.cuda_source.rewrite.edits import Edit, edited
from kcurate.cuda_source.semantics.builtin_effects import computes
from kcurate.deopt.rules.chunks import indented, spread
from kcurate.deopt.rules.ranges import CHANGES, Ranges
from kcurate.deopt.rules.statement_removal import line_of
from kcurate.deopt.rules.threads import BUILTINS, builtins, named_in_a_macro
from kcurate.deopt.rules.variable_uses import LOOPS, declaration_of, takes_values, uses_first

_BARRIER = re.compile(rb"__syncthreads\s*\(\s*\)\s*;\Z")
_PURE_NODES = frozenset(
    (
        "identifier", "field_expression", "field_identifier", "number_literal", "binary_expression",
        "parenthesized_expression", "conditional_expression", "cast_expression", "unary_expression",
        "call_expression", "argument_list", "type_descriptor", "primitive_type", "sized_type_specifier",
        "type_identifier", "true", "false",
    )
)  # fmt: skip


class Refused(Exception):  # noqa: N818 - ends a search for a proof, not an error
    """Why a kernel cannot be split at its barriers."""


def barriers(tree: Tree, within: Node) -> list[Node]:
    """Barriers that are separate statements."""
    statements = tree.nodes("expression_statement", within=within)
    return [node for node in statements if is_barrier(tree, node)]


def is_barrier(tree: Tree, node: Node) -> bool:
    """Whether a node is a barrier statement."""
    return _BARRIER.match(tree.text(node)) is not None


@dataclass(eq=False)
class Parts:
    """The parts of a kernel between barriers, and the edits that turn them into loops.

    `again` holds declarations of per-thread indices, repeated in every part that uses them.
    """

    ranges: Ranges
    size: int
    item: bytes
    edits: list[Edit] = field(default_factory=list)
    again: list[Node] = field(default_factory=list)

    @property
    def tree(self) -> Tree:
        """The kernel's tree."""
        return self.ranges.tree

    @property
    def body(self) -> Node:
        """The kernel's body."""
        return self.ranges.function.body

    def block(self, statements: Sequence[Node]) -> None:
        """Process statements in order: parts, barriers, and statements that contain barriers.

        Raises:
            Refused: a per-thread value would be lost.
        """
        part: list[Node] = []
        for node in statements:
            if node.type in ("comment", "preproc_call"):
                continue
            shared = node.type == "declaration" and b"__shared__" in node.text
            apart = shared or (node.type == "declaration" and self._stays(node))
            if not apart and not barriers(self.tree, node):
                part.append(node)
                continue
            self.part(part)
            part = []
            if not apart and not is_barrier(self.tree, node):
                self._around(node)
        self.part(part)

    def _stays(self, declaration: Node) -> bool:
        """Whether a declaration belongs to no part: it has no value, or one of indices and parameters."""
        variables = list(self.tree.declared_by(declaration))
        if not variables or any(
            variable.sizes or variable.stars or variable.reference for variable in variables
        ):
            return False
        if all(variable.value is None for variable in variables):
            return True
        fixed = all(variable.value is not None and self._pure(variable.value) for variable in variables)
        if not fixed or any(self._unsteady(variable) for variable in variables):
            return False
        if any(self._is_per_thread(variable.value) for variable in variables):
            self.again.append(declaration)
            self.edits.append(Edit(*line_of(self.tree.source, declaration)))
        else:
            self.edits += spread(self.ranges, declaration, self.size, self.item)
        return True

    def _unsteady(self, variable: Declared) -> bool:
        """Whether a local may change, or its name has several declarations."""
        same = [other for other in self.tree.declared(self.body) if other.name == variable.name]
        return len(same) != 1 or bool(self._changes(variable)) or named_in_a_macro(self.tree, variable.name)

    def _changes(self, variable: Declared) -> list[Node]:
        """Where a local, or a member of it, is assigned, incremented, or passed so that it may change."""
        changes = []
        for use in self._uses(variable):
            place = use
            while place.parent.type in (
                "field_expression",
                "parenthesized_expression",
                "subscript_expression",
            ):
                place = place.parent
            parent = place.parent
            passed = parent.type == "argument_list" and not takes_values(self.tree, parent.parent)
            kind = "left" if parent.type == "assignment_expression" else "argument"
            target = parent.type in CHANGES and parent.child_by_field_name(kind) == place
            if passed or (target and parent.text[:1] != b"*"):
                changes.append(parent)
        return changes

    def _uses(self, variable: Declared) -> list[Node]:
        """The uses of its name that refer to this declaration."""
        uses = []
        for use in self.tree.uses(variable.name, within=self.body):
            referred = declaration_of(self.tree, self.ranges.function, use) if use != variable.node else None
            if referred is not None and referred.node == variable.node:
                uses.append(use)
        return uses

    def _pure(self, value: Node) -> bool:
        """Whether a value depends only on indices, parameters, constants, and locals that do so too."""
        for node in self.tree.nodes(within=value):
            if node.is_named and node.type not in _PURE_NODES:
                return False
        for _, name, _ in self.tree.calls(within=value):
            if not computes(name):
                return False
        heads = {call.child_by_field_name("function").id for call, _, _ in self.tree.calls(within=value)}
        names = [node for node in self.tree.nodes("identifier", within=value) if node.id not in heads]
        return all(self._known(node) for node in names)

    def _known(self, node: Node) -> bool:
        if node.parent.type == "field_expression" and node.text in BUILTINS:
            return True
        variable = declaration_of(self.tree, self.ranges.function, node)
        if variable is not None:
            if variable.sizes or variable.stars or variable.reference:
                return False
            if self._counts_around(variable, node):
                return True
            return variable.value is not None and not self._unsteady(variable) and self._pure(variable.value)
        params = [param for param in self.ranges.function.params if param.name == node.text]
        if params:
            return not params[0].stars and not params[0].sizes
        return self.ranges.constant(node) is not None

    def _counts_around(self, variable: Declared, node: Node) -> bool:
        """Whether a local is the counter of an enclosing loop with barriers, and changes only in its head."""
        for loop in ancestors(node):
            start = loop.child_by_field_name("initializer") if loop.type == "for_statement" else None
            if start is None or not barriers(self.tree, loop):
                continue
            body = loop.child_by_field_name("body").start_byte
            changes = [at for at in self._changes(variable) if encloses(loop, at)]
            if start == variable.declaration or any(at == start for at in changes):
                return all(change.end_byte <= body for change in changes)
        return False

    def _is_per_thread(self, node: Node) -> bool:
        """Whether an expression uses the thread's index, or a local derived from it."""
        if any(text == b"threadIdx.x" for _, text in builtins(self.tree, node)):
            return True
        again = {variable.name for local in self.again for variable in self.tree.declared_by(local)}
        return any(name.text in again for name in self.tree.nodes("identifier", within=node))

    def _around(self, node: Node) -> None:
        """Process a statement that contains barriers: its head stays, its body is processed as a block.

        Raises:
            Refused: its head is not uniform across threads, or it is not an `if` or `for`.
        """
        if node.type == "compound_statement":
            self.block(node.named_children)
            return
        if node.type == "else_clause":
            self._around(node.named_children[-1])
            return
        if node.type not in ("if_statement", "for_statement"):
            raise Refused("a barrier is inside an unsupported statement, such as a while loop")
        for field_name in ("initializer", "condition", "update"):
            head = node.child_by_field_name(field_name)
            if head is not None:
                self._head(head)
        inner = "body" if node.type == "for_statement" else "consequence"
        for name in (inner, "alternative"):
            child = node.child_by_field_name(name)
            if child is not None and child.type not in ("compound_statement", "else_clause", "if_statement"):
                raise Refused("a statement around a barrier has no braces")
            if child is not None:
                self._around(child)

    def _head(self, head: Node) -> None:
        kinds = ("subscript_expression", "pointer_expression", "call_expression")
        pure = (computes(name) for _, name, _ in self.tree.calls(within=head))
        memory = any(node.type != "call_expression" for node in self.tree.nodes(*kinds, within=head))
        if self._is_per_thread(head) or memory or not all(pure):
            raise Refused("whether a barrier is reached depends on per-thread values or memory")
        for node in self.tree.nodes("identifier", within=head):
            variable = declaration_of(self.tree, self.ranges.function, node)
            if variable is not None and not self._same_for_all(variable, node):
                raise Refused("a condition around a barrier uses a local that is computed in between")
        self.edits += spread(self.ranges, head, self.size, self.item)

    def _same_for_all(self, variable: Declared, node: Node) -> bool:
        """Whether a local is uniform across threads, or counts a loop around barriers."""
        if variable.sizes or variable.stars:
            return False
        steady = variable.value is not None and not self._unsteady(variable) and self._pure(variable.value)
        return steady or self._counts_around(variable, node)

    def part(self, statements: Sequence[Node]) -> None:
        """Turn the statements between two barriers into a loop over elements.

        Raises:
            Refused: a per-thread value enters from or leaves to another part.
        """
        if not statements:
            return
        start, end = statements[0].start_byte, statements[-1].end_byte
        needed: set[bytes] = set()
        for declaration in self.tree.declared(self.body):
            uses = self._uses(declaration)
            uses_here = [use for use in uses if start <= use.start_byte < end]
            if start <= declaration.declaration.start_byte < end:
                if len(uses_here) != len(uses):
                    self._declare_before(declaration, statements)
            elif uses_here and self._must_repeat(declaration, uses_here, statements):
                needed.add(declaration.name)
        for statement in statements:
            self._check_jumps(statement)
        self._loop(statements, needed)

    def _declare_before(self, variable: Declared, statements: Sequence[Node]) -> None:
        """Hoist a declaration without its value: other parts reuse the name for their own values.

        Raises:
            Refused: it cannot be hoisted.
        """
        declaration = variable.declaration
        alone = len(list(self.tree.declared_by(declaration))) == 1 and declaration in statements
        if not alone or variable.sizes or variable.stars or variable.value is None or variable.qualifiers:
            raise Refused("a per-thread value crosses a barrier")
        source = self.tree.source
        start, _ = _lines(source, statements[0].start_byte, statements[-1].end_byte)
        margin = source[start : statements[0].start_byte]
        type_ = source[declaration.start_byte : variable.node.start_byte]
        text = (margin if not margin.strip() else b"") + type_ + variable.name + b";\n"
        self.edits += [Edit(start, start, text), Edit(declaration.start_byte, variable.node.start_byte)]

    def _must_repeat(self, variable: Declared, uses_here: Sequence[Node], statements: Sequence[Node]) -> bool:
        """Whether a part must repeat the declaration of an outer local.

        Raises:
            Refused: its value would be that of another element.
        """
        if b"__shared__" in variable.qualifiers or any(variable.declaration == node for node in self.again):
            return b"__shared__" not in variable.qualifiers
        if named_in_a_macro(self.tree, variable.name):
            raise Refused("a macro uses a per-thread value")
        if variable.value is not None and not self._unsteady(variable) and self._pure(variable.value):
            return False
        if all(self._counts_around(variable, use) for use in uses_here):
            return False  # uniform across threads
        if variable.sizes or uses_first(statements, uses_here):
            raise Refused("a per-thread value crosses a barrier")
        return False

    def _check_jumps(self, statement: Node) -> None:
        """Check that no `break` or `continue` belongs to an outer loop; it would end the loop over elements.

        Raises:
            Refused: there is one.
        """
        loops = (*LOOPS, "switch_statement")
        for node in self.tree.nodes("break_statement", "continue_statement", within=statement):
            around = next((outer for outer in ancestors(node) if outer.type in loops), None)
            if around is None or around.start_byte < statement.start_byte:
                raise Refused("a loop around a barrier may end early")

    def _loop(self, statements: Sequence[Node], needed: set[bytes]) -> None:
        source = self.tree.source
        start, end = _lines(source, statements[0].start_byte, statements[-1].end_byte)
        margin = re.match(rb"[ \t]*", source[start:])[0]  # type: ignore[index]
        head = b"%bfor (int %b = 0; %b < %d; %b++) {\n" % (margin, self.item, self.item, self.size, self.item)
        for declaration in self._needed(needed):
            head += margin + (b"\t" if margin[-1:] == b"\t" else b"    ") + self._spread(declaration) + b"\n"
        inner: list[Edit] = []
        for node in statements:
            inner += spread(self.ranges, node, self.size, self.item)
        shifted = list(indented(source, start, end, [*self.edits, *inner]))
        close = b"%b}\n" % margin if source[end - 1 : end] == b"\n" else b"\n%b}\n" % margin
        self.edits += [Edit(start, start, head), *inner, *shifted, Edit(end, end, close)]

    def _needed(self, names: set[bytes]) -> list[Node]:
        """The declarations to repeat, including those that they depend on, in order."""
        names_needed = set(names)
        declarations = []
        for declaration in reversed(self.again):
            if any(variable.name in names_needed for variable in self.tree.declared_by(declaration)):
                declarations.append(declaration)
                names_needed |= {node.text for node in self.tree.nodes("identifier", within=declaration)}
        return declarations[::-1]

    def _spread(self, declaration: Node) -> bytes:
        """The text of a declaration with the thread's index replaced by the element's."""
        start, end = declaration.start_byte, declaration.end_byte
        edits = spread(self.ranges, declaration, self.size, self.item)
        moved = [Edit(edit.start - start, edit.end - start, edit.text) for edit in edits]
        return edited(self.tree.source[start:end], moved)


def _lines(source: bytes, start: int, end: int) -> tuple[int, int]:
    """The span extended to whole lines, if the rest of them is only whitespace or a comment."""
    before, after = source.rfind(b"\n", 0, start) + 1, source.find(b"\n", end)
    first = start if source[before:start].strip() else before
    trailing = source[end:after].strip() if after >= 0 else b"}"
    return first, after + 1 if not trailing or trailing.startswith(b"//") else end
