"""Rewrites an expression for another place in its function, in terms of what is known there.

`Meaning.text(node)` gives the text of an expression at the store, as it must be written at the read, with
the store's thread indices replaced by the read's. Not covered: what may be replaced at all
(`kcurate.deopt.rules.staging`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kcurate.cuda_source.edit import Declared, Function, Node, Tree, ancestors, bare, encloses
from kcurate.cuda_source.purity import only_reads
from kcurate.deopt.rules import enumerated
from kcurate.deopt.rules.loops import aliased
from kcurate.deopt.rules.ranges import Ranges, changed_at, constants, literal
from kcurate.deopt.rules.reads import elements_only_read
from kcurate.deopt.rules.scopes import declaration_of, in_loop_with
from kcurate.records import Launch

_ATOMIC_OR_FENCE = re.compile(rb"\b(?:atomic\w+|__threadfence\w*|volatile|asm|__shfl\w*|__ldcg|__ldcv)\b")
# Node kinds that an expression may consist of; anything else is refused.
_KNOWN = frozenset(
    (
        "identifier", "field_expression", "number_literal", "binary_expression", "parenthesized_expression",
        "conditional_expression", "cast_expression", "unary_expression", "subscript_expression",
        "subscript_argument_list", "call_expression", "argument_list", "type_descriptor", "primitive_type",
        "field_identifier", "type_identifier", "sized_type_specifier", "condition_clause",
    )
)  # fmt: skip
# Conditions that need no brackets beside `&&`.
_JOINED = (b"<", b">", b"<=", b">=", b"&&")
MAX_CHARS = 4000


class Unknown(Exception):  # noqa: N818 - ends a search for a proof, not an error
    """Something that the rule cannot prove, in words."""


@dataclass(frozen=True)
class Own:
    """An index of the storing thread: a built-in or a loop counter, plus a constant (`minus`, as text).

    `name` is the local that holds it (None: the built-in itself); a counter's key is its declaration.
    """

    key: bytes | int
    type: bytes
    minus: bytes
    loop: Node | None
    name: Declared | None = None

    def guard(self, ranges: Ranges, index: Node, meaning: Meaning) -> list[bytes]:
        """Conditions under which an index refers to a stored element; empty if it always does.

        Raises:
            Unknown: this cannot be determined.
        """
        bounds = enumerated.bounds(ranges, index) or ranges.of(index)
        shift = literal(self.minus) if self.minus else 0
        if self.loop is None:
            axis = b"xyz".index(self.key[-1:]) if isinstance(self.key, bytes) else 0
            extent = ranges.block[axis] if ranges.block is not None else None
            if (
                bounds is None
                or extent is None
                or shift is None
                or bounds[1] - shift >= extent
                or bounds[0] < shift
            ):
                raise Unknown("an index may be outside the range that the block's threads store")
            return []
        condition = self.loop.child_by_field_name("condition")
        if condition is None or condition.type != "binary_expression" or condition.children[1].text != b"<":
            raise Unknown("the loop that stores it has no simple limit")
        limit = condition.child_by_field_name("right")
        known = ranges.of(limit)
        if bounds is not None and known is not None and shift is not None and bounds[1] - shift < known[0]:
            return []
        key = self.name.node.start_byte if self.name is not None else self.key
        return [b"%b < %b" % (meaning.owned[key], meaning.text(limit))]


def own_index(tree: Tree, function: Function, index: Node) -> Own:
    """A store's subscript as a thread's own index plus a constant.

    Raises:
        Unknown: it is something else.
    """
    index, minus = bare(index), b""
    if index.type == "binary_expression" and index.children[1].text == b"+":
        left, right = index.child_by_field_name("left"), index.child_by_field_name("right")
        if right.type != "number_literal":
            raise Unknown("a subscript is not a single index plus a constant")
        index, minus = bare(left), right.text
    if index.type == "field_expression" and index.text.startswith(b"threadIdx."):
        return Own(index.text, b"unsigned", minus, None)
    one = declaration_of(tree, function, index) if index.type == "identifier" else None
    if one is None or one.value is None or one.stars:
        raise Unknown("a subscript is not one of the thread's own indices")
    loop = one.declaration.parent
    if loop.type == "for_statement" and loop.child_by_field_name("initializer") == one.declaration:
        if changed_at(tree, loop.child_by_field_name("body"), one.name):
            raise Unknown("the counter of the loop that stores it changes in the body")
        return Own(one.node.start_byte, one.type, minus, loop, one)
    value = bare(one.value)
    if (
        value.type == "field_expression"
        and value.text.startswith(b"threadIdx.")
        and not changed_at(tree, function.body, one.name)
    ):
        return Own(value.text, one.type, minus, None, one)
    raise Unknown("a subscript is not one of the thread's own indices")


def _wrapped(text: bytes) -> bytes:
    """The text in parentheses, unless it is a single word, number or member."""
    return text if re.fullmatch(rb"[\w.]+", text) else b"(%b)" % text


def scope_of(tree: Tree, function: Function) -> bool:
    """Whether a kernel orders or exchanges data in ways that are not traced (atomics, fences)."""
    return _ATOMIC_OR_FENCE.search(tree.text(function.node)) is not None


@dataclass(eq=False)
class Meaning:
    """Rewrites expressions at the store for the place of one read."""

    tree: Tree
    function: Function
    found: Sequence[Launch]
    store: Node
    read: Node
    owned: dict[bytes | int, bytes] = field(default_factory=dict)
    kept: set[bytes | int] = field(default_factory=set)
    replaced: bool = False

    def bind(self, own: Own, index: Node) -> None:
        """Replace an own index of the store by the read's index."""
        places: list[tuple[bytes | int, bytes]] = [(own.key, own.type if own.loop else b"unsigned")]
        if own.name is not None:
            places.append((own.name.node.start_byte, own.type))
            same = declaration_of(self.tree, self.function, index) if index.type == "identifier" else None
            if same is not None and same.node == own.name.node and not own.minus:
                self.kept.add(own.name.node.start_byte)
        elif index.text == own.key and not own.minus:
            self.kept.add(own.key)
        for key, type_ in places:
            text = b"%b - %b" % (_wrapped(index.text), own.minus) if own.minus else bytes(index.text)
            plain = type_ == b"int" and not own.minus and self._is_int(index)
            own_words = type_ == b"unsigned" and re.fullmatch(rb"threadIdx\.[xyz]", text) is not None
            self.owned[key] = _wrapped(text) if plain or own_words else b"(%b)%b" % (type_, _wrapped(text))
        if own.name is not None and own.name.node.start_byte in self.kept:
            self.kept.add(own.key)
            self.owned[own.key] = bytes(own.key) if isinstance(own.key, bytes) else own.name.name

    def _is_int(self, node: Node) -> bool:
        """Whether an expression at the read is pure `int` arithmetic."""
        for leaf in self.tree.nodes("identifier", "field_expression", "call_expression", within=node):
            one = declaration_of(self.tree, self.function, leaf) if leaf.type == "identifier" else None
            params = [param for param in self.function.params if param.name == leaf.text]
            declared = one if one is not None else (params[0] if params else None)
            named = constants(self.tree).get(leaf.text) if declared is None else None
            if named is not None and literal(named.text) is not None and named.text.isdigit():
                continue
            if declared is None or declared.type != b"int" or declared.stars or declared.sizes:
                return False
        return all(leaf.text.isdigit() for leaf in self.tree.nodes("number_literal", within=node))

    def text(self, node: Node) -> bytes:
        """An expression at the store, rewritten for the read.

        Raises:
            Unknown: it may have another meaning there.
        """
        made = self._text(node, 0)
        if len(made) > MAX_CHARS:
            raise Unknown("the rewritten expression is too long")
        return made

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
        one = declaration_of(self.tree, self.function, node)
        if one is None:
            return self._outer(node)
        if one.node.start_byte in self.owned:
            self.replaced |= one.node.start_byte not in self.kept
            return self.owned[one.node.start_byte]
        loop = one.declaration.parent
        if loop.type == "for_statement" and loop.child_by_field_name("initializer") == one.declaration:
            return self._counter(one, loop)
        if one.value is None or one.sizes or one.reference or b"__shared__" in one.qualifiers:
            raise Unknown(f"its value depends on {one.name.decode('latin-1')}")
        changes = changed_at(self.tree, self.function.body, one.name)
        for change in changes:
            later = change.start_byte > self.store.end_byte and change.type != "pointer_expression"
            if not later or in_loop_with(change, self.store):
                raise Unknown(f"{one.name.decode('latin-1')} changes")
        before, self.replaced = self.replaced, False
        inner = self._text(one.value, depth + 1)
        scope = one.declaration.parent
        seen = encloses(scope, self.read) and not self._hidden(one)
        if seen and not self.replaced and not changes:
            self.replaced = before
            return one.name
        self.replaced |= before
        return _wrapped(inner) if one.stars else b"(%b)%b" % (one.type, _wrapped(inner))

    def _counter(self, one: Declared, loop: Node) -> bytes:
        """A counter of a loop around both places, with the same value for the whole block."""
        update, body = loop.child_by_field_name("update"), loop.child_by_field_name("body")
        around = body.start_byte <= self.store.start_byte and self.read.end_byte <= body.end_byte
        if not around or update is None or changed_at(self.tree, body, one.name):
            raise Unknown(f"its value depends on {one.name.decode('latin-1')}")
        # Uniform across threads: it must not contain an own index of the storing thread.
        uniform = Meaning(self.tree, self.function, self.found, self.store, self.read)
        uniform.text(one.value)
        if update.type == "assignment_expression":
            uniform.text(update.child_by_field_name("right"))
        if self._hidden(one):
            raise Unknown(f"{one.name.decode('latin-1')} means something else at the read")
        return one.name

    def _hidden(self, one: Declared) -> bool:
        return any(
            other.name == one.name
            and other.node != one.node
            and encloses(other.declaration.parent, self.read)
            and other.declaration.parent.start_byte > one.declaration.parent.start_byte
            for other in self.tree.declared(self.function.body)
        )

    def _outer(self, node: Node) -> bytes:
        """A parameter that never changes, or a file-level constant, not shadowed at the read."""
        name: bytes = node.text
        if any(one.name == name for one in self.tree.declared(self.function.body)):
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
        """Whether nothing is written through a pointer, or through another pointer to the same buffer."""
        if b"const" not in param.qualifiers:
            if not elements_only_read(self.tree, self.function, param.name):
                return False
        elif any(self._cast_away(use) for use in self.tree.uses(param.name, within=self.function.body)):
            return False
        if not self.found:
            return bool({b"__restrict__", b"__restrict"} & param.qualifiers) and b"const" in param.qualifiers
        return not any(aliased(launch, place) for launch in self.found)

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
