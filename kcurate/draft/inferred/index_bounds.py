"""How far a kernel's indices go, inferred from guards and loops: `if (i < n)` means `a[i]` needs n elements.

Upper bounds only, and for the whole function at once: a guard anywhere applies everywhere. The result is
therefore a guess, which a run on the emulator confirms or refutes. Not covered: indices loaded from memory,
other than unsigned bytes, whose type bounds them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from kcurate.core.grouping import grouped
from kcurate.cuda_source.parse.syntax_tree import Node as Syntax
from kcurate.cuda_source.parse.syntax_tree import bare
from kcurate.cuda_source.semantics import c_expressions as cexpr
from kcurate.cuda_source.semantics.c_expressions import Node
from kcurate.cuda_source.semantics.code_index import Code, Function
from kcurate.cuda_source.semantics.declarations import Setting
from kcurate.cuda_source.semantics.pointer_paths import cast_type, path_of
from kcurate.draft.algebra import Poly, from_node, number, quotient
from kcurate.problem import c_types as types

MAX_DEPTH = 10
# How long a chain of variables, each defined by the next, is followed to a value.
MAX_FOLLOWED = 6
_BUILTIN = {"threadIdx": 0, "blockIdx": 1, "blockDim": 2, "gridDim": 3}
_AXES = "xyz"
# Types whose sums are counters or addresses.
_COUNTING = re.compile(r"\*|\b(?:u?int(?:\d+_t)?|unsigned|size_t|long|short|char|bool)\b")
_LEAVING = ("return_statement", "continue_statement", "break_statement")


@dataclass
class Bounds:
    """Upper bounds in one kernel; `scalars` are its parameters' values, those in structs by their paths."""

    code: Code
    function: Function
    scalars: Mapping[str, Poly]
    block: Sequence[int]
    grid: Sequence[Poly]

    def __post_init__(self) -> None:
        """Collect every guard and every loop bound."""
        compared = self._comparisons("if_statement", "while_statement", "for_statement")
        self._limits = grouped((left.text, limit) for _, left, limit in compared if left.op == "name")

    def _comparisons(self, *kinds: str) -> Iterator[tuple[int, Node, Node]]:
        """Where something is compared with an exclusive upper bound, by statements of these kinds."""
        for node in self._nodes(*kinds):
            condition, consequence = (node.child_by_field_name(part) for part in ("condition", "consequence"))
            parsed = self._parsed(condition)
            if parsed is not None and condition is not None:
                for left, limit in _compared(parsed, _leaves(consequence)):
                    yield condition.end_byte, left, limit

    def _nodes(self, *kinds: str) -> Iterator[Syntax]:
        return self.code.tree.nodes(*kinds, within=self.function.node.child_by_field_name("body"))

    def _parsed(self, node: Syntax | None) -> Node | None:
        """The tree of an expression, less the pointer casts in it."""
        return cexpr.parse(self.code.of(bare(node))) if node is not None else None

    def upper(self, node: Node, depth: int = 0) -> Poly | None:
        """The largest value of an index; None if unknown."""
        node = cexpr.plain(node)
        if depth > MAX_DEPTH:
            return None
        if node.op == "num":
            return from_node(node)
        if node.op == "name":
            return self._upper_of_name(node.text, depth)
        if node.op == "member":
            return self._member(node, -1)
        if node.op == "%" and len(node.args) == 2:
            divisor = self.exact(node.args[1])
            return divisor - number(1) if divisor is not None else None
        if node.op in ("+", "*", "-", "/", ">>", "<<") and len(node.args) == 2:
            return self._upper_of(node, depth)
        if node.op == "call" and node.text in ("min", "max") and len(node.args) == 2:
            limits = [self.upper(arg, depth + 1) for arg in node.args]
            return (
                next((limit for limit in limits if limit is not None), None) if node.text == "min" else None
            )
        return self._upper_of_byte(node) if node.op == "index" else None

    def _upper_of_byte(self, node: Node) -> Poly | None:
        """The largest value of an unsigned byte that is loaded from a parameter."""
        array = cexpr.plain(node.args[0])
        pointed = next((text for text, name in self.function.params if cexpr.name(name) == array), "")
        byte = pointed.count("*") == 1 and (item := types.element(pointed, {})) and item.dtype == "uint8"
        return number(255) if byte and item and item.lanes == 1 else None

    def _upper_of(self, node: Node, depth: int) -> Poly | None:
        left, right = node.args
        high = self.upper(left, depth + 1)
        if high is None:
            return None
        if node.op in ("/", ">>", "<<"):
            divisor = self.exact(right)
            if divisor is None or divisor.constant is None:
                return quotient(high, divisor) if divisor is not None and node.op == "/" else None
            power = divisor if node.op == "/" else number(1 << max(0, min(divisor.constant, 40)))
            return high * power if node.op == "<<" else quotient(high, power)
        if node.op == "-":
            subtrahend = self.exact(right)
            return high - subtrahend if subtrahend is not None else high
        other = self.upper(right, depth + 1)
        if other is None:
            return None
        return high + other if node.op == "+" else high * other

    def _upper_of_name(self, name: str, depth: int) -> Poly | None:
        if name in self._limits:
            for limit in self._limits[name]:
                if name not in cexpr.names(limit):
                    high = self.upper(limit, depth + 1)
                    if high is not None:
                        return high - number(1)
        value = self._value_of(name)
        if value is not None:
            return value
        for node in self.definitions(name):
            if name not in cexpr.names(node):
                return self.upper(node, depth + 1)
        return None

    def exact(self, node: Node) -> Poly | None:
        """The value of an expression that is uniform across threads; None if unknown."""
        poly = from_node(self.followed(node))
        return None if poly is None or _of_thread(poly) else poly

    def _varies(self, value: Poly) -> bool:
        """Whether a value depends on a variable of the kernel that is no size as well."""
        names, sizes = (
            set(re.findall(r"[A-Za-z_]\w*", " ".join(poly.text() for poly in polys)))
            for polys in ((value,), self.scalars.values())
        )
        return any(name not in sizes and self._settings(name) for name in names)

    def product(self, texts: Sequence[str]) -> int | None:
        """The product of constant expressions, such as an array's extents; None: one is not constant."""
        product = 1
        for text in texts:
            node = cexpr.parse(text)
            poly = self.exact(node) if node is not None else None
            if poly is None or poly.constant is None:
                return None
            product *= poly.constant
        return product

    def followed(self, node: Node, names: frozenset[str] = frozenset()) -> Node:
        """An expression with names replaced by their values; `names` are being replaced already, and stay."""

        def meaning(part: Node) -> Node | None:
            if part.op == "name":
                uniform = self._value_of(part.text)
                if uniform is not None:
                    return cexpr.parse(uniform.text())
                initial = self.definitions(part.text) if part.text not in names else []
                if (
                    len(initial) == 1
                    and len(names) < MAX_FOLLOWED
                    and part.text not in cexpr.names(initial[0])
                ):
                    return self.followed(initial[0], names | {part.text})
            if part.op == "member":
                value = self._member(part, 0)
                return cexpr.parse(value.text()) if value is not None else None
            return None

        return cexpr.substitute(node, meaning)

    def _value_of(self, name: str, followed: frozenset[str] = frozenset()) -> Poly | None:
        if name in self.scalars:
            return self.scalars[name]
        values = [setting.value for setting in self.code.settings(name, self.function.body)]
        if values:
            return number(int(values[0])) if len(values) == 1 and values[0].isdigit() else None
        if self.code.macros.get(name):
            values = [self.code.macros[name]]
        else:
            values = [setting.value for setting in self.code.settings(name) if "const" in setting.type]
        node = cexpr.parse(values[0]) if len(values) == 1 else None
        followed |= {name}
        if node is None or cexpr.names(node) & followed:
            return None

        def constant(part: Node) -> Node | None:
            known = self._value_of(part.text, followed) if part.op == "name" else None
            return cexpr.number(known.constant) if known is not None and known.constant is not None else None

        return from_node(cexpr.substitute(node, constant))

    def _member(self, node: Node, less: int) -> Poly | None:
        """The largest `threadIdx`/`blockIdx` (None if `less` is 0); the value of `blockDim`, `gridDim` or a
        parameter's member.
        """
        owner = node.args[0]
        if owner.op != "name" or owner.text not in _BUILTIN or node.text not in _AXES:
            return self.scalars.get(cexpr.path(node))
        axis, kind = _AXES.index(node.text), _BUILTIN[owner.text]
        block = number(self.block[axis] if axis < len(self.block) else 1)
        grid = self.grid[axis] if axis < len(self.grid) else number(1)
        extent = block if kind in (0, 2) else grid
        if kind < 2:
            return extent - number(1) if less else None
        return extent

    def _settings(self, name: str) -> tuple[Setting, ...]:
        """Whatever sets a local variable or a parameter, in any scope."""
        return self.code.settings_in(name, self.function)

    def definitions(self, name: str) -> list[Node]:
        """Every value that a local variable is initialised with or assigned."""
        values = [setting.value for setting in self._settings(name) if setting.how in ("=", "(", "{")]
        return [node for value in values if (node := cexpr.parse(value)) is not None]

    def indices(self, name: str) -> Iterator[Node]:
        """The index expression of every `name[index]` in the body."""
        for use in self.code.uses(name, self.function):
            inner, up = use, use.parent
            while up is not None and up.type in ("parenthesized_expression", "cast_expression"):
                inner, up = up, up.parent
            if up is not None and up.type == "subscript_expression":
                index = up.child_by_field_name("indices")
                if up.child_by_field_name("argument") == inner and index is not None:
                    node = cexpr.parse(self.code.of(index)[1:-1])
                    if node is not None:
                        yield node

    def axis_indices(self, name: str) -> Iterator[list[Node]]:
        """The indices of every `name[i][j]` in the body, one for each axis."""
        for use in self.code.uses(name, self.function):
            indices: list[Node] = []
            up = use.parent
            while up is not None and up.type == "subscript_expression":
                index = up.child_by_field_name("indices")
                node = cexpr.parse(self.code.of(index)[1:-1]) if index is not None else None
                if node is None:
                    break
                indices.append(node)
                up = up.parent
            if indices:
                yield indices

    def divisors(self) -> Iterator[Node]:
        """Everything that something is divided by."""
        for node in self._nodes("binary_expression", "assignment_expression"):
            operator, right = (node.child_by_field_name(part) for part in ("operator", "right"))
            if operator is not None and self.code.of(operator) in ("/", "%", "/=", "%="):
                parsed = self._parsed(right)
                if parsed is not None:
                    yield parsed

    def arrays(self) -> Iterator[tuple[str, Poly]]:
        """The arrays of one axis that the kernel declares with a constant number of elements."""
        for name in self.code.declared_in(self.function):
            sizes = next((declared.sizes for declared in self._settings(name) if declared.sizes), ())
            count = self.product(sizes) if len(sizes) == 1 else None
            if count is not None:
                yield name, number(count)

    def loops(self) -> Iterator[tuple[str, Node, Node]]:
        """Counted loops: variable, first value, bound."""
        for node in self._nodes("for_statement"):
            first, condition = (node.child_by_field_name(part) for part in ("initializer", "condition"))
            end = self._parsed(condition)
            if first is None or end is None or len(end.args) != 2:
                continue
            for setting in self.code.set_within(first):
                start = cexpr.parse(setting.value) if setting.how == "=" else None
                if start is not None:
                    yield setting.name, start, end.args[1]
                break

    def sums(self) -> Iterator[Poly | None]:
        """The most rounds of every loop that adds to a value from round to round; None: unknown."""
        for node in self._nodes("for_statement", "while_statement", "do_statement"):
            first, condition, body = map(node.child_by_field_name, ("initializer", "condition", "body"))
            moving = {setting.name for setting in self.code.set_within(node)}
            if body is not None and self._accumulates(body, moving):
                begun = self.code.set_within(first) if first else ()
                yield self._rounds(
                    self._parsed(condition), {setting.name: setting.value for setting in begun}
                )

    def _rounds(self, condition: Node | None, starts: Mapping[str, str]) -> Poly | None:
        """The rounds until one of the joined conditions ends a loop: from its start, else from zero."""
        limits = [*_compared(condition, False)] if condition is not None else []
        for left, limit in limits:
            start = cexpr.parse(starts.get(left.text, "")) if left.op == "name" else None
            first, end = (from_node(self._named(node)) if node else None for node in (start, limit))
            if first is not None and end is not None and not _of_thread(end - first):
                return end - first
        return next((end for _, limit in limits if (end := self.exact(limit)) is not None), None)

    def _named(self, node: Node) -> Node:
        """An expression, followed, in which a thread's place is a name, so that it cancels out."""
        return cexpr.substitute(
            self.followed(node),
            lambda part: (
                cexpr.name(cexpr.path(part).replace(".", "_"))
                if part.op == "member" and part.args[0].text in _BUILTIN
                else None
            ),
        )

    def _accumulates(self, body: Syntax, moving: Set[str]) -> bool:
        """Whether a loop's body adds to one place in every round: no counter, no pointer, no moving index."""
        for node in self.code.tree.nodes("assignment_expression", within=body):
            operator = node.child_by_field_name("operator")
            left, right = (self._parsed(node.child_by_field_name(side)) for side in ("left", "right"))
            if left is None or right is None or operator is None:
                continue
            how = self.code.of(operator)
            adds = how in ("+=", "-=") or (how == "=" and any(part == left for part in _parts(right)))
            if left.op == "name":
                declared = [setting.type for setting in self._settings(left.text)]
                declared += [text for text, name in self.function.params if name == left.text]
                adds = adds and not any(map(_COUNTING.search, declared))
            elif cexpr.names(left) & moving - {cexpr.path(left)}:
                adds = False
            if adds:
                return True
        return False

    def extent(self, name: str, size: Callable[[Poly], int | None]) -> Poly | None:
        """Elements that a parameter needs: its largest index plus one; None if any index is unknown."""
        if self._settings(name):
            return None  # the pointer itself is modified
        casts = self._nodes("cast_expression", "call_expression")
        if any("*" in cast_type(node) and path_of(node) == name for node in casts):
            return None  # the pointer is cast, so elements have another size
        best: Poly | None = None
        for node in self.indices(name):
            high = self.upper(node)
            if high is None or self._varies(high):
                return None
            need = high + number(1)
            if best is None or (size(need) or 0) > (size(best) or 0):
                best = need
        return best

    def furthest(self, pointers: Sequence[tuple[str, Poly]], size: Callable[[Poly], int]) -> Poly | None:
        """Elements that a buffer needs through all pointers into it, given by parameter and offset."""
        needs = [(self.extent(name, size), offset) for name, offset in pointers]
        ends = [need + offset for need, offset in needs if need is not None]
        return max(ends, key=size) if 0 < len(ends) == len(needs) else None

    def guards(self) -> Iterator[tuple[Node, Poly]]:
        """What is compared, as last set before, with the bound that all threads compare it with."""
        kinds = ("if_statement", "while_statement", "for_statement", "conditional_expression")
        for at, left, limit in self._comparisons(*kinds):
            below, value = self.exact(limit), left
            if left.op == "name":
                settings = self._settings(left.text)
                before = [each.value for each in settings if each.how in ("=", "(") and each.at < at]
                value = (before and cexpr.parse(before[-1])) or left
            if below is not None:
                yield self.followed(value), below

    def guard(self, axis: int) -> Poly | None:
        """The bound that the global index along an axis is compared with."""
        symbol = _AXES[axis]
        for name, limits in self._limits.items():
            for node in self.definitions(name):
                text = _flat(node)
                if f"threadIdx.{symbol}" in text and f"blockIdx.{symbol}" in text:
                    for limit in limits:
                        value = self.exact(limit)
                        if value is not None:
                            return value
        return None


def _flat(node: Node) -> str:
    if node.op == "member" and node.args[0].op == "name":
        return f"{node.args[0].text}.{node.text}"
    return " ".join(_flat(arg) for arg in node.args)


def _leaves(then: Syntax | None) -> bool:
    """Whether a statement begins with a `return`, `continue` or `break`."""
    while then is not None and then.type == "compound_statement" and then.named_children:
        then = then.named_children[0]
    return then is not None and then.type in _LEAVING


def _of_thread(poly: Poly) -> bool:
    """Whether a value differs between threads or blocks."""
    return any("threadIdx" in piece or "blockIdx" in piece for term in poly.terms for piece in term)


def _parts(node: Node) -> Iterator[Node]:
    """A tree and every tree in it."""
    yield node
    for arg in node.args:
        yield from _parts(arg)


def _compared(node: Node, leaving: bool) -> Iterator[tuple[Node, Node]]:
    """What is compared, with exclusive upper bounds, from `i < n && j < m` or, if `leaving`, its negation."""
    joined = "||" if leaving else "&&"
    if node.op == joined:
        for arg in node.args:
            yield from _compared(arg, leaving)
        return
    if len(node.args) != 2:
        return
    left, right = (cexpr.plain(arg) for arg in node.args)
    below = {"<": (left, right, 0), "<=": (left, right, 1), ">": (right, left, 0), ">=": (right, left, 1)}
    beyond = {">=": (left, right, 0), ">": (left, right, 1), "<=": (right, left, 0), "<": (right, left, 1)}
    compared = (beyond if leaving else below).get(node.op)
    if compared is None:
        return
    limit = Node("+", (compared[1], cexpr.number(1))) if compared[2] else compared[1]
    yield compared[0], limit
