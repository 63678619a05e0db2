"""Rewrites an expression for another position in its function.

`Relocation.text(node)` rewrites an expression from the store of a tile for a read of the tile: indices of the
storing thread become the indices of the read. Not covered: which reads may be replaced
(`kcurate.deopt.rules.staging`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, ancestors, bare, encloses
from kcurate.cuda_source.semantics.builtin_effects import only_reads
from kcurate.deopt.rules import index_enumeration
from kcurate.deopt.rules.plans import aliased
from kcurate.deopt.rules.ranges import Ranges, changed_at, constants, literal
from kcurate.deopt.rules.variable_uses import declaration_of, elements_only_read, in_loop_with
from kcurate.records import Launch

_ATOMIC_OR_FENCE = re.compile(rb"\b(?:atomic\w+|__threadfence\w*|volatile|asm|__shfl\w*|__ldcg|__ldcv)\b")
# The node types of which an expression may consist; others are refused.
_KNOWN = frozenset(
    (
        "identifier", "field_expression", "number_literal", "binary_expression", "parenthesized_expression",
        "conditional_expression", "cast_expression", "unary_expression", "subscript_expression",
        "subscript_argument_list", "call_expression", "argument_list", "type_descriptor", "primitive_type",
        "field_identifier", "type_identifier", "sized_type_specifier", "condition_clause",
    )
)  # fmt: skip
# Operators of conditions that need no parentheses as operands of `&&`.
_JOINED = (b"<", b">", b"<=", b">=", b"&&")
MAX_CHARS = 4000


class Unknown(Exception):  # noqa: N818 - ends a search for a proof, not an error
    """The rule cannot prove something; the text says what."""


@dataclass(frozen=True)
class ThreadIndex:
    """An index of the storing thread: a built-in or a loop counter, plus the constant `minus` (as text).

    `name` is the local that holds it (None: the built-in itself). `key` is the built-in, or the position of
    the counter's declaration.
    """

    key: bytes | int
    type: bytes
    minus: bytes
    loop: Node | None
    name: Declared | None = None

    def guard(self, ranges: Ranges, index: Node, relocation: Relocation) -> list[bytes]:
        """Conditions under which an index refers to a stored element; empty if it always does.

        Raises:
            Unknown: the conditions cannot be determined.
        """
        bounds = index_enumeration.bounds(ranges, index) or ranges.of(index)
        shift = literal(self.minus) if self.minus else 0
        if self.loop is None:
            axis = b"xyz".index(self.key[-1:]) if isinstance(self.key, bytes) else 0
            extent = ranges.block[axis] if ranges.block is not None else None
            if bounds is None or extent is None or shift is None:
                raise Unknown("an index may be outside the range that the block's threads store")
            if bounds[1] - shift >= extent or bounds[0] < shift:
                raise Unknown("an index may be outside the range that the block's threads store")
            return []
        condition = self.loop.child_by_field_name("condition")
        if condition is None or condition.type != "binary_expression" or condition.children[1].text != b"<":
            raise Unknown("the loop that stores it has no simple limit")
        limit = condition.child_by_field_name("right")
        limit_bounds = ranges.of(limit)
        if (
            bounds is not None
            and limit_bounds is not None
            and shift is not None
            and bounds[1] - shift < limit_bounds[0]
        ):
            return []
        key = self.name.node.start_byte if self.name is not None else self.key
        return [b"%b < %b" % (relocation.owned[key], relocation.text(limit))]


def own_index(tree: Tree, function: Function, index: Node) -> ThreadIndex:
    """The subscript of a store as the thread's own index plus a constant.

    Raises:
        Unknown: it has another form.
    """
    index, minus = bare(index), b""
    if index.type == "binary_expression" and index.children[1].text == b"+":
        left, right = index.child_by_field_name("left"), index.child_by_field_name("right")
        if right.type != "number_literal":
            raise Unknown("a subscript is not a single index plus a constant")
        index, minus = bare(left), right.text
    if index.type == "field_expression" and index.text.startswith(b"threadIdx."):
        return ThreadIndex(index.text, b"unsigned", minus, None)
    variable = declaration_of(tree, function, index) if index.type == "identifier" else None
    if variable is None or variable.value is None or variable.stars:
        raise Unknown("a subscript is not one of the thread's own indices")
    loop = variable.declaration.parent
    if loop.type == "for_statement" and loop.child_by_field_name("initializer") == variable.declaration:
        if changed_at(tree, loop.child_by_field_name("body"), variable.name):
            raise Unknown("the counter of the loop that stores it changes in the body")
        return ThreadIndex(variable.node.start_byte, variable.type, minus, loop, variable)
    value = bare(variable.value)
    if (
        value.type == "field_expression"
        and value.text.startswith(b"threadIdx.")
        and not changed_at(tree, function.body, variable.name)
    ):
        return ThreadIndex(value.text, variable.type, minus, None, variable)
    raise Unknown("a subscript is not one of the thread's own indices")


def _wrapped(text: bytes) -> bytes:
    """The text in parentheses, unless it is a single word, number or member."""
    return text if re.fullmatch(rb"[\w.]+", text) else b"(%b)" % text


def scope_of(tree: Tree, function: Function) -> bool:
    """Whether a kernel orders or exchanges data in ways that are not tracked (atomics, fences)."""
    return _ATOMIC_OR_FENCE.search(tree.text(function.node)) is not None


@dataclass(eq=False)
class Relocation:
    """Rewrites expressions at the store for one read."""

    tree: Tree
    function: Function
    launches: Sequence[Launch]
    store: Node
    read: Node
    owned: dict[bytes | int, bytes] = field(default_factory=dict)
    kept: set[bytes | int] = field(default_factory=set)
    replaced: bool = False

    def bind(self, own_index: ThreadIndex, index: Node) -> None:
        """Map an index of the storing thread to the index of the read."""
        places: list[tuple[bytes | int, bytes]] = [
            (own_index.key, own_index.type if own_index.loop else b"unsigned")
        ]
        if own_index.name is not None:
            places.append((own_index.name.node.start_byte, own_index.type))
            same = declaration_of(self.tree, self.function, index) if index.type == "identifier" else None
            if same is not None and same.node == own_index.name.node and not own_index.minus:
                self.kept.add(own_index.name.node.start_byte)
        elif index.text == own_index.key and not own_index.minus:
            self.kept.add(own_index.key)
        for key, type_ in places:
            text = (
                b"%b - %b" % (_wrapped(index.text), own_index.minus) if own_index.minus else bytes(index.text)
            )
            plain = type_ == b"int" and not own_index.minus and self._is_int(index)
            own_words = type_ == b"unsigned" and re.fullmatch(rb"threadIdx\.[xyz]", text) is not None
            self.owned[key] = _wrapped(text) if plain or own_words else b"(%b)%b" % (type_, _wrapped(text))
        if own_index.name is not None and own_index.name.node.start_byte in self.kept:
            self.kept.add(own_index.key)
            self.owned[own_index.key] = (
                bytes(own_index.key) if isinstance(own_index.key, bytes) else own_index.name.name
            )

    def _is_int(self, node: Node) -> bool:
        """Whether an expression at the read is pure `int` arithmetic."""
        for leaf in self.tree.nodes("identifier", "field_expression", "call_expression", within=node):
            variable = declaration_of(self.tree, self.function, leaf) if leaf.type == "identifier" else None
            params = [param for param in self.function.params if param.name == leaf.text]
            declared = variable if variable is not None else (params[0] if params else None)
            named = constants(self.tree).get(leaf.text) if declared is None else None
            if named is not None and literal(named.text) is not None and named.text.isdigit():
                continue
            if declared is None or declared.type != b"int" or declared.stars or declared.sizes:
                return False
        return all(leaf.text.isdigit() for leaf in self.tree.nodes("number_literal", within=node))

    def text(self, node: Node) -> bytes:
        """An expression at the store, rewritten for the read.

        Raises:
            Unknown: it may have another value there.
        """
        rewritten = self._text(node, 0)
        if len(rewritten) > MAX_CHARS:
            raise Unknown("the rewritten expression is too long")
        return rewritten

    def condition(self, node: Node) -> bytes:
        """A condition, in parentheses unless it can be an operand of `&&`."""
        joined = node.type == "binary_expression" and node.children[1].text in _JOINED
        return self.text(node) if joined else b"(%b)" % self.text(node)

    def _text(self, node: Node, depth: int) -> bytes:
        if depth > 60:
            raise Unknown("its value is nested too deeply")
        if node.is_named and node.type not in _KNOWN:
            raise Unknown(f"its value contains a {node.type.replace('_', ' ')}")
        if node.type == "identifier":
            return self._name(node, depth)
        if node.type == "field_expression":
            return self._field(node, depth)
        if node.type == "call_expression":
            self._check_call(node)
        if not node.children:
            return bytes(node.text)
        parts, position = [], node.start_byte
        for child in node.children:
            parts.append(self.tree.source[position : child.start_byte])
            called = node.type == "call_expression" and child == node.child_by_field_name("function")
            parts.append(child.text if called else self._text(child, depth + 1))
            position = child.end_byte
        return b"".join(parts)

    def _field(self, node: Node, depth: int) -> bytes:
        base, text = node.child_by_field_name("argument"), b"".join(node.text.split())
        if base.text == b"threadIdx":
            if text not in self.owned:
                raise Unknown("its value depends on the storing thread in another way")
            self.replaced |= text not in self.kept
            return self.owned[text]
        if base.text in (b"blockIdx", b"blockDim", b"gridDim"):
            return text
        return self._text(base, depth + 1) + text[len(b"".join(base.text.split())) :]

    def _check_call(self, node: Node) -> None:
        name = node.child_by_field_name("function").text
        if not only_reads(name):
            raise Unknown(f"its value comes from {name.decode('latin-1')}()")

    def _name(self, node: Node, depth: int) -> bytes:
        variable = declaration_of(self.tree, self.function, node)
        if variable is None:
            return self._outer(node)
        if variable.node.start_byte in self.owned:
            self.replaced |= variable.node.start_byte not in self.kept
            return self.owned[variable.node.start_byte]
        loop = variable.declaration.parent
        if loop.type == "for_statement" and loop.child_by_field_name("initializer") == variable.declaration:
            return self._counter(variable, loop)
        if (
            variable.value is None
            or variable.sizes
            or variable.reference
            or b"__shared__" in variable.qualifiers
        ):
            raise Unknown(f"its value depends on {variable.name.decode('latin-1')}")
        changes = changed_at(self.tree, self.function.body, variable.name)
        for change in changes:
            later = change.start_byte > self.store.end_byte and change.type != "pointer_expression"
            if not later or in_loop_with(change, self.store):
                raise Unknown(f"{variable.name.decode('latin-1')} changes")
        before, self.replaced = self.replaced, False
        inner = self._text(variable.value, depth + 1)
        scope = variable.declaration.parent
        visible = encloses(scope, self.read) and not self._hidden(variable)
        if visible and not self.replaced and not changes:
            self.replaced = before
            return variable.name
        self.replaced |= before
        return _wrapped(inner) if variable.stars else b"(%b)%b" % (variable.type, _wrapped(inner))

    def _counter(self, counter: Declared, loop: Node) -> bytes:
        """The counter of a loop around both store and read, whose value is the same for the whole block."""
        update, body = loop.child_by_field_name("update"), loop.child_by_field_name("body")
        around = body.start_byte <= self.store.start_byte and self.read.end_byte <= body.end_byte
        if not around or update is None or changed_at(self.tree, body, counter.name):
            raise Unknown(f"its value depends on {counter.name.decode('latin-1')}")
        # To be uniform across threads, it must not contain an index of the storing thread.
        uniform = Relocation(self.tree, self.function, self.launches, self.store, self.read)
        uniform.text(counter.value)
        if update.type == "assignment_expression":
            uniform.text(update.child_by_field_name("right"))
        if self._hidden(counter):
            raise Unknown(f"{counter.name.decode('latin-1')} means something else at the read")
        return counter.name

    def _hidden(self, variable: Declared) -> bool:
        return any(
            other.name == variable.name
            and other.node != variable.node
            and encloses(other.declaration.parent, self.read)
            and other.declaration.parent.start_byte > variable.declaration.parent.start_byte
            for other in self.tree.declared(self.function.body)
        )

    def _outer(self, node: Node) -> bytes:
        """The text of a parameter that never changes, or of a file-level constant, not shadowed at the
        read."""
        name: bytes = node.text
        if any(declaration.name == name for declaration in self.tree.declared(self.function.body)):
            raise Unknown(f"{name.decode('latin-1')} has several meanings")
        for place, param in enumerate(self.function.params):
            if param.name != name:
                continue
            if param.reference or changed_at(self.tree, self.function.body, name):
                raise Unknown(f"{name.decode('latin-1')} changes")
            if param.stars and (param.stars > 1 or not self._only_read(param, place)):
                raise Unknown(f"{name.decode('latin-1')} may be written to")
            return name
        if name in constants(self.tree):
            return name
        raise Unknown(f"its value depends on {name.decode('latin-1')}")

    def _only_read(self, param: Declared, place: int) -> bool:
        """Whether nothing is written through this pointer, or through another pointer to the same buffer."""
        if b"const" not in param.qualifiers:
            if not elements_only_read(self.tree, self.function, param.name):
                return False
        elif any(self._cast_away(use) for use in self.tree.uses(param.name, within=self.function.body)):
            return False
        if not self.launches:
            return bool({b"__restrict__", b"__restrict"} & param.qualifiers) and b"const" in param.qualifiers
        return not any(aliased(launch, place) for launch in self.launches)

    def _cast_away(self, use: Node) -> bool:
        """Whether a pointer is cast to one that allows writes."""
        for node in ancestors(use):
            if node.type == "cast_expression":
                kind = node.child_by_field_name("type").text
            elif node.type == "call_expression" and b"_cast<" in node.child_by_field_name("function").text:
                kind = node.child_by_field_name("function").text
            else:
                continue
            if b"*" in kind and b"const" not in kind.replace(b"const_cast", b""):
                return True
        return False
