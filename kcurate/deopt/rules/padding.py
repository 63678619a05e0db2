"""Rule on padding: shared arrays whose last extent is `X + c` get `X`.

Required: every last subscript is below `X`, as `ranges` proves from constants, the plan's block extents,
counted loops and calls; then different elements keep different addresses (C++ [expr.sub]). Supported uses are
full subscripts; vector accesses `*reinterpret_cast<V *>(&a[i][j])`, which count with their width and whose
rows must stay aligned; `T *p = a[i] + j` used only as `p[k]`; and the array as an argument for a parameter of
the same extent, which then changes with it. `X` is the left operand as written, or for a literal extent the
next lower power of two.

Not covered: flattened arrays with a pitch in their index arithmetic, swizzles.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, bare
from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.plans import block, launches
from kcurate.deopt.rules.ranges import Ranges, changed_at, constants, enclosing, literal
from kcurate.records import Side

BYTES = {b"float": 4, b"int": 4, b"unsigned": 4, b"double": 8, b"half": 2, b"float2": 8, b"float4": 16}
_VECTOR = re.compile(rb"(?:float|int|uint)([24])\Z")
_CAST = re.compile(rb"reinterpret_cast<(?:const\s+)?(\w+?)\s*\*>")
# A larger difference of extents is not padding.
MOST_PADDING = 16


@dataclass(frozen=True, eq=False)
class _Member:
    """A shared array, or the parameter at `index` to which one is passed."""

    function: Function
    array: Declared
    index: int | None


def without_padding(subject: Subject) -> Side | NotApplicable:
    """Declare shared arrays only as wide as they are used."""
    edits: list[Edit] = []
    reason = "no padded array in shared memory"
    extents = _one_block(subject.side)
    for members in _families(subject.tree).values():
        narrow = _narrower(subject.tree, members, extents)
        if narrow is None or all(member.index is not None for member in members):
            continue
        text, width = narrow
        family = _Family(subject.tree, members, width, extents)
        if all(family.fits(member) for member in members):
            sizes = (member.array.sizes[-1] for member in members)
            edits += [Edit(size.start_byte, size.end_byte, text) for size in sizes if size is not None]
        else:
            name = members[0].array.name.decode("latin-1")
            reason = f"not every use of {name} is known to stay off the padding"
    return subject.with_edits(edits, reason)


def _one_block(side: Side) -> tuple[int, int, int] | None:
    """The extents that all blocks of the plan share; None if they differ or one is unknown."""
    blocks = [block(launch) for launch in launches(side)]
    if not blocks or any(extent is None for extents in blocks for extent in extents):
        return None
    x, y, z = ({extents[axis] or 1 for extents in blocks} for axis in range(3))
    return (x.pop(), y.pop(), z.pop()) if len(x) == len(y) == len(z) == 1 else None


def _families(tree: Tree) -> dict[bytes, list[_Member]]:
    """Shared arrays and parameters that may take them, grouped by the text of their last extent."""
    members: dict[bytes, list[_Member]] = defaultdict(list)
    for function in tree.functions():
        for declaration in tree.declared(function.body):
            if (
                b"__shared__" in declaration.qualifiers
                and len(declaration.sizes) > 1
                and declaration.sizes[-1] is not None
            ):
                members[declaration.sizes[-1].text].append(_Member(function, declaration, None))
        for index, param in enumerate(function.params):
            if param.sizes and param.sizes[-1] is not None and len(param.sizes) + param.stars > 1:
                members[param.sizes[-1].text].append(_Member(function, param, index))
    return members


def _narrower(
    tree: Tree, members: list[_Member], extents: tuple[int, int, int] | None
) -> tuple[bytes, int] | None:
    """The extent without padding, as text and as a number; None if it has no padding."""
    ranges = Ranges(tree, members[0].function, extents)
    size = bare(members[0].array.sizes[-1])
    if size.type == "identifier":
        size = bare(constants(tree).get(size.text, size))
    elif size.type == "number_literal":
        value = literal(size.text) or 0
        width = 1 << (value.bit_length() - 1) if value > 1 else 0
        return (b"%d" % width, width) if width >= 4 and value - width == 1 else None
    if size.type != "binary_expression" or size.children[1].text != b"+":
        return None
    left, right = size.child_by_field_name("left"), size.child_by_field_name("right")
    pad = literal(right.text) if right.type == "number_literal" else None
    base = ranges.constant(left)
    if pad is None or base is None or not 0 < pad <= min(MOST_PADDING, base):
        return None
    return left.text, base


@dataclass(frozen=True, eq=False)
class _Family:
    """Arrays with the same padded extent, which change together."""

    tree: Tree
    members: list[_Member]
    width: int
    extents: tuple[int, int, int] | None

    def fits(self, member: _Member) -> bool:
        """Whether no use touches the padding, and a parameter only receives members of the family."""
        uses = (node for node in self.tree.uses(member.array.name, within=member.function.body))
        if not all(node == member.array.node or self._within(member, node) for node in uses):
            return False
        if member.index is None:
            return True
        calls = tuple(self.tree.calls(member.function.name))
        mentions = sum(
            1 for use in self.tree.uses(member.function.name) if use.parent.type != "function_declarator"
        )
        return mentions == len(calls) and all(
            self._member(arguments[member.index]) for _, _, arguments in calls if member.index is not None
        )

    def _member(self, node: Node) -> bool:
        function = enclosing(self.tree, node)
        return node.type == "identifier" and any(
            member.array.name == node.text and function is not None and member.function.node == function.node
            for member in self.members
        )

    def _within(self, member: _Member, use: Node) -> bool:
        """Whether a use accesses only elements in the first `width` of their row."""
        array, node, last = member.array, use, None
        ranges = Ranges(self.tree, member.function, self.extents)
        if node.parent.type == "argument_list":
            return self._passed_on(node)
        levels = len(array.sizes) + array.stars
        for level in range(levels):
            parent = node.parent
            if parent.type != "subscript_expression" or parent.child_by_field_name("argument") != node:
                return level == levels - 1 and self._row(ranges, node)
            indices = parent.child_by_field_name("indices").named_children
            if len(indices) != 1:
                return False
            node, last = parent, indices[0]
        bounds, span = ranges.of(last), self._elements(array, node)
        return bounds is not None and span is not None and bounds[1] + span <= self.width

    def _passed_on(self, node: Node) -> bool:
        """Whether an array is passed to a parameter that changes with it."""
        call, arguments = node.parent.parent, node.parent.named_children
        function = call.child_by_field_name("function") if call.type == "call_expression" else None
        index = arguments.index(node)
        return function is not None and any(
            member.index == index and member.function.name == function.text for member in self.members
        )

    def _row(self, ranges: Ranges, row: Node) -> bool:
        """Whether a row is used only in `T *p = row + j`, and `p` only as `p[k]`."""
        total, node = row.parent, row
        first: tuple[int, int] | None = (0, 0)
        if total.type == "binary_expression" and total.children[1].text == b"+" and total.children[0] == row:
            first, node = ranges.of(total.child_by_field_name("right")), total
        if node.parent.type != "init_declarator" or first is None:
            return False
        body = ranges.function.body
        pointers = [local for local in self.tree.declared(body) if local.value == node and local.stars == 1]
        if len(pointers) != 1 or changed_at(self.tree, body, pointers[0].name):
            return False
        for use in self.tree.uses(pointers[0].name, within=body):
            parent = use.parent
            if use == pointers[0].node:
                continue
            if parent.type != "subscript_expression" or parent.parent.type == "pointer_expression":
                return False
            bounds = ranges.of(parent.child_by_field_name("indices").named_children[0])
            if bounds is None or first[1] + bounds[1] >= self.width:
                return False
        return sum(declaration.name == pointers[0].name for declaration in self.tree.declared(body)) == 1

    def _elements(self, array: Declared, node: Node) -> int | None:
        """How many elements an access covers; None if the address cannot be traced."""
        parent = node.parent
        if parent.type != "pointer_expression" or parent.text[:1] != b"&":
            return 1
        outer = parent.parent.parent if parent.parent.type == "argument_list" else None
        written = _CAST.match(outer.text) if outer is not None else None
        vector = _VECTOR.match(written[1]) if written else None
        if outer is None or vector is None or array.type not in BYTES:
            return None
        wide = 4 * int(vector[1])
        is_access = outer.parent.type == "pointer_expression" and outer.parent.text[:1] == b"*"
        return wide // BYTES[array.type] if is_access and self.width * BYTES[array.type] % wide == 0 else None


RULES: tuple[Rule, ...] = (
    Rule("padding", "bank-conflict-padding", "padding of shared arrays", without_padding),
)
