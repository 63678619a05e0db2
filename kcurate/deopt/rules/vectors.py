"""Rule on vectorised access: 8- and 16-byte loads and stores through pointers become one per element.

A load through a pointer to a vector type becomes a call to a helper that reads the elements one by one; a
store becomes a call to a helper that writes them. Values and addresses stay the same (a vector's elements are
in order without gaps: CUDA C++ Programming Guide, "Built-in Vector Types"). Only the width of accesses
changes. A program can rely on that only if it publishes values to other threads without a barrier, so code
with fences, `volatile`, inline assembly or `cuda::atomic` is refused.

Pointers to vector types are `reinterpret_cast<V *>(..)` and C casts to `V *`, sums of such a pointer and an
index, and names that the function declares only as such pointers.

Not covered: arrays of vectors in registers or shared memory, half-precision vectors, macros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kcurate.cuda_source.parse.syntax_tree import Function, Node, Tree, bare
from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.variable_uses import assignment_to, is_only_read
from kcurate.records import Side

_VECTOR = re.compile(rb"(float|int|uint|double|uchar|char|ushort|short)([24])\Z")
_ELEMENTS = {
    b"uint": b"unsigned int", b"char": b"signed char",
    b"uchar": b"unsigned char", b"ushort": b"unsigned short",
}  # fmt: skip
# __ldcg and __ldcv are left out: they may be used to see what other blocks wrote.
_LOADS = (b"__ldg", b"__ldcs", b"__ldca", b"__ldlu")
_STORES = (b"__stcs", b"__stcg", b"__stwb", b"__stwt")
_PUBLISHES = re.compile(rb"\b(?:__threadfence\w*|volatile|asm|__asm__|cuda::|__nanosleep)\b")
_CASTS = (b"reinterpret_cast", b"static_cast", b"const_cast")
_LOAD = b"""\
__device__ inline %(v)b %(name)b(const %(v)b *from)
{
    const %(e)b *part = reinterpret_cast<const %(e)b *>(from);
    return make_%(v)b(%(parts)b);
}

"""
_STORE = b"""\
__device__ inline void %(name)b(%(v)b *to, %(v)b value)
{
    %(e)b *part = reinterpret_cast<%(e)b *>(to);
%(parts)b}

"""


class _Rewriter:
    """The edits for one file, and the vector types that need helpers."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.load, self.store = tree.unused_name(b"read_parts"), tree.unused_name(b"write_parts")
        self.loaded: set[bytes] = set()
        self.stored: set[bytes] = set()

    def edits(self) -> list[Edit]:
        """All edits for the file, helpers included; empty if there is nothing to rewrite."""
        edits = [edit for function in self.tree.functions() for edit in self._of_function(function)]
        if not edits:
            return []
        at = self.tree.helpers_at()
        loads = (_load_helper(kind, self.load) for kind in sorted(self.loaded))
        stores = (_store_helper(kind, self.store) for kind in sorted(self.stored))
        return [Edit(at, at, b"".join((*loads, *stores))), *edits]

    def _of_function(self, function: Function) -> Iterator[Edit]:
        self.pointers = _pointers(self.tree, function)
        for node in self.tree.nodes(within=function.body):
            if node.type == "call_expression":
                yield from self._intrinsic(node)
            elif node.type == "pointer_expression" and self.tree.text(node)[:1] == b"*":
                yield from self._dereference(node)
            elif node.type == "subscript_expression":
                yield from self._subscript(node)

    def _intrinsic(self, node: Node) -> Iterator[Edit]:
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        name = self.tree.text(function)
        if name not in _LOADS + _STORES or not arguments.named_children:
            return
        kind = self.kind(arguments.named_children[0])
        if kind is None:
            return
        is_store = name in _STORES
        (self.stored if is_store else self.loaded).add(kind)
        yield Edit(function.start_byte, function.end_byte, self.store if is_store else self.load)

    def _dereference(self, node: Node) -> Iterator[Edit]:
        pointer = node.child_by_field_name("argument")
        yield from self._access(node, pointer.start_byte, (), pointer.end_byte, b"")

    def _subscript(self, node: Node) -> Iterator[Edit]:
        if self.kind(node.child_by_field_name("argument")) is None:
            return
        opening = next(child for child in node.child_by_field_name("indices").children if child.type == "[")
        closing = node.end_byte - 1
        word = re.fullmatch(rb"\w+", self.tree.source[opening.end_byte : closing].strip()) is not None
        before, after = (b" + ", b"") if word else (b" + (", b")")
        plus = Edit(opening.start_byte, opening.end_byte, before)
        yield from self._access(node, node.start_byte, (plus,), closing, after)

    def _access(
        self, node: Node, begin: int, inside: Sequence[Edit], end: int, after: bytes
    ) -> Iterator[Edit]:
        """A store to `*p` or `p[i]`, or a load of it, as a call; the address goes from `begin` to `end`."""
        kind = self.kind(node.child_by_field_name("argument"))
        if kind is None:
            return
        target = _assigned(node)
        if target is not None:
            self.stored.add(kind)
            yield Edit(node.start_byte, begin, self.store + b"(")
            yield from inside
            yield Edit(end, target.start_byte, after + b", ")
            yield Edit(target.end_byte, target.end_byte, b")")
        elif is_only_read(self.tree, node):
            self.loaded.add(kind)
            yield Edit(node.start_byte, begin, self.load + b"(")
            yield from inside
            yield Edit(end, node.end_byte, after + b")")

    def kind(self, node: Node) -> bytes | None:
        """The vector type that an expression points to; None if it is not such a pointer."""
        node = bare(node)
        if node.type == "identifier":
            return self.pointers.get(self.tree.text(node))
        if node.type == "binary_expression" and self.tree.text(node.children[1]) in (b"+", b"-"):
            return self.kind(node.child_by_field_name("left"))
        written = None
        if node.type == "call_expression":
            function = node.child_by_field_name("function")
            name = function.child_by_field_name("name") if function.type == "template_function" else None
            if name is not None and self.tree.text(name) in _CASTS:
                written = self.tree.text(function.child_by_field_name("arguments"))[1:-1]
        elif node.type == "cast_expression":
            written = self.tree.text(node.child_by_field_name("type"))
        if written is None or written.count(b"*") != 1 or b"volatile" in written:
            return None
        base = written.replace(b"const", b"").replace(b"*", b"").strip()
        return base if _VECTOR.match(base) else None


def _element(kind: bytes) -> tuple[bytes, int]:
    """The element type of a vector type, and the number of elements."""
    vector = _VECTOR.match(kind)
    assert vector is not None, "only vector types get here"
    return _ELEMENTS.get(vector[1], vector[1]), int(vector[2])


def _load_helper(kind: bytes, name: bytes) -> bytes:
    element, count = _element(kind)
    parts = b", ".join(b"part[%d]" % i for i in range(count))
    return _LOAD % {b"v": kind, b"e": element, b"name": name, b"parts": parts}


def _store_helper(kind: bytes, name: bytes) -> bytes:
    element, count = _element(kind)
    parts = b"".join(b"    part[%d] = value.%b;\n" % (i, b"xyzw"[i : i + 1]) for i in range(count))
    return _STORE % {b"v": kind, b"e": element, b"name": name, b"parts": parts}


def _pointers(tree: Tree, function: Function) -> dict[bytes, bytes]:
    """Names that a function declares only as pointers to one vector type, with that type."""
    kinds: dict[bytes, set[bytes | None]] = {}
    for param in (*function.params, *tree.declared(function.body)):
        vector = param.stars == 1 and not param.sizes and _VECTOR.match(param.type) is not None
        fit = vector and not param.reference and b"volatile" not in param.qualifiers
        kinds.setdefault(param.name, set()).add(param.type if fit else None)
    return {name: kind for name, (kind, *rest) in kinds.items() if kind is not None and not rest}


def _assigned(node: Node) -> Node | None:
    """The stored value, if the node is the target of a plain assignment statement."""
    store = assignment_to(node)
    if store is None or store.children[1].type != "=" or store.parent.type != "expression_statement":
        return None
    return store.child_by_field_name("right")


def scalar_access(subject: Subject) -> Side | NotApplicable:
    """Read and write vectors in memory element by element."""
    if _PUBLISHES.search(subject.tree.source):
        return NotApplicable("threads may rely on the width of an access")
    return subject.with_edits(_Rewriter(subject.tree).edits(), "no access through a pointer to a vector type")


RULES: tuple[Rule, ...] = (
    Rule("vector-to-scalar", "vectorized-access", "vectorized accesses", scalar_access),
)
