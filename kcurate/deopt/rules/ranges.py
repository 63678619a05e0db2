"""Bounds of integer expressions in a function, from constants, block extents and counted loops.

`Ranges.of(node)` gives inclusive bounds that hold for every thread of every block, or None. Only
non-negative values are tracked, so that signed and unsigned arithmetic agree. The bounds of a parameter
cover all calls in the file. Not covered: parameters of kernels, values loaded from memory, overflow beyond
31 bits (refused).
"""

from __future__ import annotations

from dataclasses import dataclass

from kcurate.cuda_source.parse.items import tree_of
from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, ancestors, bare, encloses

LARGEST = 2**31 - 1
CHANGES = ("assignment_expression", "update_expression", "pointer_expression")
Bounds = tuple[int, int]
MAX_DEPTH = 40


def constants(tree: Tree) -> dict[bytes, Node]:
    """Integer constants of a file by name, with the node of the value (for a macro, in a separate tree)."""
    values: dict[bytes, list[Node | None]] = {}
    for node in tree.nodes("preproc_def"):
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        parsed = _expression(tree.text(value)) if value is not None else None
        values.setdefault(tree.text(name), []).append(parsed)
    for child in tree.root.children:
        for declaration in tree.declared_by(child) if child.type == "declaration" else ():
            fixed = (
                {b"const", b"constexpr"} & declaration.qualifiers
                and not declaration.sizes
                and not declaration.stars
            )
            values.setdefault(declaration.name, []).append(declaration.value if fixed else None)
    return {
        name: first
        for name, (first, *others) in values.items()
        if first is not None and all(value is not None and value.text == first.text for value in others)
    }


def _expression(text: bytes) -> Node | None:
    """The node of a single expression; None for anything else."""
    tree = tree_of(b"int value = " + text.strip() + b";")
    variables = [variable for variable in tree.declared(tree.root) if variable.name == b"value"]
    return variables[0].value if len(variables) == 1 and not tree.root.has_error else None


@dataclass(frozen=True, eq=False)
class Ranges:
    """Bounds in one function; `block` holds the extents of its blocks, None if unknown."""

    tree: Tree
    function: Function
    block: tuple[int, int, int] | None

    def of(self, node: Node, depth: int = 0) -> Bounds | None:
        """Inclusive bounds of an expression, both at least 0; None if unknown."""
        node = bare(node)
        if depth > MAX_DEPTH:
            return None
        if node.type == "number_literal":
            value = literal(node.text)
            return None if value is None else (value, value)
        if node.type == "identifier":
            return self._name(node, depth)
        if node.type == "field_expression":
            return self._builtin(node.text)
        if node.type == "binary_expression":
            left, right = (self.of(node.child_by_field_name(side), depth + 1) for side in ("left", "right"))
            return _combined(node.children[1].text, left, right)
        if node.type == "cast_expression" and node.child_by_field_name("type").text in (b"int", b"unsigned"):
            return self.of(node.child_by_field_name("value"), depth + 1)
        if node.type == "conditional_expression":
            sides = (node.child_by_field_name("consequence"), node.child_by_field_name("alternative"))
            return _union([self.of(side, depth + 1) for side in sides])
        return None

    def constant(self, node: Node) -> int | None:
        """The value of a constant expression, else None."""
        bounds = self.of(node)
        return bounds[0] if bounds is not None and bounds[0] == bounds[1] else None

    def _builtin(self, text: bytes) -> Bounds | None:
        name, _, axis = text.partition(b".")
        if self.block is None or axis not in (b"x", b"y", b"z"):
            return None
        extent = self.block[b"xyz".index(axis)]
        return {b"threadIdx": (0, extent - 1), b"blockDim": (extent, extent)}.get(name)

    def _name(self, node: Node, depth: int) -> Bounds | None:
        name = node.text
        local = [
            declaration for declaration in self.tree.declared(self.function.body) if declaration.name == name
        ]
        places = [i for i, param in enumerate(self.function.params) if param.name == name]
        if places:
            return None if local else self._parameter(places[0], depth)
        if not local:
            return self._constant(name, depth)
        if len(local) == 1 and local[0].value is None and not local[0].sizes and not local[0].stars:
            return self._counter(node, depth)
        return _union([self._local(variable, depth) for variable in local])

    def _constant(self, name: bytes, depth: int) -> Bounds | None:
        """Bounds of a file-level constant defined only in terms of other such constants."""
        value = constants(self.tree).get(name)
        if value is None:
            return None
        inner = {node.text for node in self.tree.nodes("identifier", within=value)}
        local_names = {
            param.name for param in (*self.function.params, *self.tree.declared(self.function.body))
        }
        return None if inner & local_names else self.of(value, depth + 1)

    def _counter(self, node: Node, depth: int) -> Bounds | None:
        """Bounds, inside a loop `for (i = a; i < b; i++)`, of a counter declared before it."""
        for loop in (outer for outer in ancestors(node) if outer.type == "for_statement"):
            start, body = loop.child_by_field_name("initializer"), loop.child_by_field_name("body")
            assigns = start is not None and start.type == "assignment_expression"
            sets = assigns and start.children[1].type == "="
            if sets and start.child_by_field_name("left").text == node.text:
                inside = body.start_byte <= node.start_byte < body.end_byte
                first = self.of(start.child_by_field_name("right"), depth + 1)
                return self._counted(loop, node.text, first, [start], depth) if inside and first else None
        return None

    def _parameter(self, place: int, depth: int) -> Bounds | None:
        """Bounds of a parameter that never changes, over all calls in the file."""
        name, param = self.function.name, self.function.params[place]
        if param.stars or param.reference or changed_at(self.tree, self.function.body, param.name):
            return None
        all_calls = [(node, arguments) for node, _, arguments in self.tree.calls(name)]
        uses = sum(1 for node in self.tree.uses(name) if node.parent.type != "function_declarator")
        same = sum(1 for function in self.tree.functions() if function.name == name)
        if self.function.kernel or same != 1 or uses != len(all_calls):
            return None
        bounds = []
        for node, arguments in all_calls:
            caller = enclosing(self.tree, node)
            if caller is None or place >= len(arguments):
                return None
            bounds.append(Ranges(self.tree, caller, self.block).of(arguments[place], depth + 1))
        return _union(bounds)

    def _local(self, variable: Declared, depth: int) -> Bounds | None:
        """Bounds of a variable that is set once, or counts up in a `for`."""
        if variable.value is None or variable.sizes or variable.stars or variable.reference:
            return None
        loop = variable.declaration.parent
        start = self.of(variable.value, depth + 1)
        if start is None:
            return None
        if loop.type != "for_statement" or loop.child_by_field_name("initializer") != variable.declaration:
            return None if changed_at(self.tree, self.function.body, variable.name) else start
        return self._counted(loop, variable.name, start, [], depth)

    def _counted(
        self, loop: Node, name: bytes, start: Bounds, allowed: list[Node], depth: int
    ) -> Bounds | None:
        """Bounds inside a loop that counts a name up from `start`; `allowed`: changes that may occur."""
        condition, update = (loop.child_by_field_name(field) for field in ("condition", "update"))
        if condition is None or update is None or condition.type != "binary_expression":
            return None
        changes = changed_at(self.tree, loop, name)
        limit = self.of(condition.child_by_field_name("right"), depth + 1)
        relation = condition.children[1].text
        counts = condition.child_by_field_name("left").text == name and _counts_up(update, name)
        if limit is None or not counts or changes != [*allowed, update] or relation not in (b"<", b"<="):
            return None
        last = limit[1] - (relation == b"<")
        step = self._step(update, depth)
        if step is not None and start[0] == start[1] <= last:
            last -= (last - start[0]) % step
        return start[0], max(start[1], last)

    def _step(self, update: Node, depth: int) -> int | None:
        """The constant step of a counter, else None."""
        if update.type == "update_expression":
            return 1
        step = self.of(update.child_by_field_name("right"), depth + 1)
        return step[0] if step is not None and 0 < step[0] == step[1] else None


def enclosing(tree: Tree, node: Node) -> Function | None:
    """The function that encloses a node."""
    return next((function for function in tree.functions() if encloses(function.node, node)), None)


def literal(text: bytes) -> int | None:
    """The value of a C integer literal."""
    text = text.lower().rstrip(b"ul")
    try:
        return int(text, 8) if text[:1] == b"0" and text.isdigit() and len(text) > 1 else int(text, 0)
    except ValueError:
        return None


def changed_at(tree: Tree, within: Node, name: bytes) -> list[Node]:
    """Assignments and increments of a name, and expressions that take its address."""
    changes = tree.nodes(*CHANGES, within=within)
    return [node for node in changes if (target := changed_by(node)) is not None and target.text == name]


def changed_by(node: Node) -> Node | None:
    """The target that one of `CHANGES` modifies or exposes; None if there is none."""
    target = node.child_by_field_name("left" if node.type == "assignment_expression" else "argument")
    modifies = node.type != "pointer_expression" or node.text[:1] == b"&"
    return bare(target) if target is not None and modifies else None


def _counts_up(update: Node, name: bytes) -> bool:
    if update.type == "update_expression":
        return b"++" in update.text and name in update.text
    plus = update.type == "assignment_expression" and update.children[1].type == "+="
    return bool(plus) and update.child_by_field_name("left").text == name


def _union(bounds: list[Bounds | None]) -> Bounds | None:
    if not bounds or None in bounds:
        return None
    lows, highs = zip(*(pair for pair in bounds if pair is not None), strict=True)
    return min(lows), max(highs)


def _combined(sign: bytes, left: Bounds | None, right: Bounds | None) -> Bounds | None:
    """Bounds of an operation; None if it could leave 0..2**31 - 1."""
    if sign == b"&" and (left or right):
        return 0, min(side_bounds[1] for side_bounds in (left, right) if side_bounds is not None)
    if sign == b"%" and right and right[0] > 0 and left:
        return 0, min(left[1], right[1] - 1)
    if left is None or right is None:
        return None
    (a, b), (c, d) = left, right
    combined: Bounds | None = None
    if sign == b"+":
        combined = a + c, b + d
    elif sign == b"*":
        combined = a * c, b * d
    elif sign == b"-" and a >= d:
        combined = a - d, b - c
    elif sign == b"/" and c > 0:
        combined = a // d, b // c
    elif sign == b">>" and d < 32:
        combined = a >> d, b >> c
    elif sign == b"<<" and d < 31:
        combined = a << c, b << d
    return combined if combined is not None and combined[1] <= LARGEST else None
