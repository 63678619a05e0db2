"""How far a kernel's indices go, inferred from guards and loops: `if (i < n)` means `a[i]` needs n elements.

Upper bounds only, and for the whole function at once: a guard anywhere applies everywhere. The result is
therefore a guess, which a run on the emulator confirms or refutes. Not covered: indices loaded from memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kcurate.cuda_source.brackets import closing
from kcurate.draft import cexpr
from kcurate.draft.algebra import Poly, from_node, number, quotient
from kcurate.draft.cexpr import Node
from kcurate.draft.usage import DeviceCode

MAX_DEPTH = 10
# So many variables, each defined by the next, are followed to a value.
MAX_FOLLOWED = 6
_BUILTIN = {"threadIdx": 0, "blockIdx": 1, "blockDim": 2, "gridDim": 3}
_AXES = "xyz"
_FOR = re.compile(r"\bfor\s*\(")
_IF = re.compile(r"\b(?:if|while)\s*\(")
_LEAVES = re.compile(r"\s*\{?\s*(?:return|continue|break)\b")


@dataclass
class Bounds:
    """Upper bounds in one kernel; `scalars` are its parameters' values."""

    code: DeviceCode
    body: str
    scalars: Mapping[str, Poly]
    block: Sequence[int]
    grid: Sequence[Poly]
    _limits: dict[str, list[Node]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Collect every guard and every loop bound."""
        for name, limit in self._conditions():
            self._limits.setdefault(name, []).append(limit)

    def _conditions(self) -> Iterator[tuple[str, Node]]:
        for match in _IF.finditer(self.body):
            text, end = _inside(self.body, match.end() - 1)
            leaving = _LEAVES.match(self.body, end) is not None
            node = cexpr.parse(text)
            if node is not None:
                yield from _compared(node, leaving)
        for match in _FOR.finditer(self.body):
            text, _ = _inside(self.body, match.end() - 1)
            parts = text.split(";")
            node = cexpr.parse(parts[1]) if len(parts) == 3 else None
            if node is not None:
                yield from _compared(node, False)

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
            return self._builtin(node, -1)
        if node.op == "%" and len(node.args) == 2:
            below = self.exact(node.args[1])
            return below - number(1) if below is not None else None
        if node.op in ("+", "*", "-", "/", ">>", "<<") and len(node.args) == 2:
            return self._upper_of(node, depth)
        if node.op == "call" and node.text in ("min", "max") and len(node.args) == 2:
            known = [self.upper(arg, depth + 1) for arg in node.args]
            return next((one for one in known if one is not None), None) if node.text == "min" else None
        return None

    def _upper_of(self, node: Node, depth: int) -> Poly | None:
        left, right = node.args
        high = self.upper(left, depth + 1)
        if high is None:
            return None
        if node.op in ("/", ">>", "<<"):
            by = self.exact(right)
            if by is None or by.constant is None:
                return quotient(high, by) if by is not None and node.op == "/" else None
            power = by if node.op == "/" else number(1 << max(0, min(by.constant, 40)))
            return high * power if node.op == "<<" else quotient(high, power)
        if node.op == "-":
            taken = self.exact(right)
            return high - taken if taken is not None else high
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
        known = self._known(name)
        if known is not None:
            return known
        for node in self.definitions(name):
            if name not in cexpr.names(node):
                return self.upper(node, depth + 1)
        return None

    def exact(self, node: Node) -> Poly | None:
        """The value of an expression that is uniform across threads; None if unknown."""
        poly = from_node(self._followed(node, frozenset()))
        if poly is None or any(
            "threadIdx" in piece or "blockIdx" in piece for term in poly.terms for piece in term
        ):
            return None
        return poly

    def _followed(self, node: Node, names: frozenset[str]) -> Node:
        """An expression with its names replaced by their values, `names` apart, which are being followed."""

        def meaning(part: Node) -> Node | None:
            if part.op == "name":
                known = self._known(part.text)
                if known is not None:
                    return cexpr.parse(known.text())
                found = self.definitions(part.text) if part.text not in names else []
                if len(found) == 1 and len(names) < MAX_FOLLOWED and part.text not in cexpr.names(found[0]):
                    return self._followed(found[0], names | {part.text})
            if part.op == "member":
                value = self._builtin(part, 0)
                return cexpr.parse(value.text()) if value is not None else None
            return None

        return cexpr.substitute(node, meaning)

    def _known(self, name: str) -> Poly | None:
        if name in self.scalars:
            return self.scalars[name]
        text = self.code.macros.get(name)
        if text:
            node = cexpr.parse(text)
            return from_node(node) if node is not None and not cexpr.names(node) else None
        match = re.search(
            rf"\bconst(?:expr)?\s+(?:unsigned\s+)?\w+\s+{re.escape(name)}\s*=\s*(\d+)\s*;", self.code.text
        )
        return number(int(match[1])) if match else None

    def _builtin(self, node: Node, less: int) -> Poly | None:
        """The largest `threadIdx`/`blockIdx` (None if `less` is 0); the value of `blockDim`/`gridDim`."""
        owner = node.args[0]
        if owner.op != "name" or owner.text not in _BUILTIN or node.text not in _AXES:
            return None
        axis, kind = _AXES.index(node.text), _BUILTIN[owner.text]
        block = number(self.block[axis] if axis < len(self.block) else 1)
        grid = self.grid[axis] if axis < len(self.grid) else number(1)
        extent = block if kind in (0, 2) else grid
        if kind < 2:
            return extent - number(1) if less else None
        return extent

    def definitions(self, name: str) -> list[Node]:
        """Every value that a local variable is initialised with or assigned."""
        found = []
        for match in re.finditer(
            rf"(?<![\w.>]){re.escape(name)}\s*=(?!=)\s*([^;,]+(?:\([^;]*\))?)[;,]", self.body
        ):
            node = cexpr.parse(match[1])
            if node is not None:
                found.append(node)
        return found

    def indices(self, name: str) -> Iterator[Node]:
        """The index expression of every `name[index]` in the body."""
        for match in re.finditer(rf"(?<![\w.>]){re.escape(name)}\s*\)*\s*\[", self.body):
            text, _ = _inside(self.body, match.end() - 1)
            node = cexpr.parse(text)
            if node is not None:
                yield node

    def loops(self) -> Iterator[tuple[str, Node, Node]]:
        """Counted loops: variable, first value, bound."""
        for match in _FOR.finditer(self.body):
            text, _ = _inside(self.body, match.end() - 1)
            parts = text.split(";")
            first = re.search(r"(\w+)\s*=(?!=)\s*(.+)", parts[0], re.DOTALL) if len(parts) == 3 else None
            start = cexpr.parse(first[2]) if first else None
            end = cexpr.parse(parts[1]) if first else None
            if first and start is not None and end is not None and len(end.args) == 2:
                yield first[1], start, end.args[1]

    def extent(self, name: str, size: Callable[[Poly], int | None]) -> Poly | None:
        """Elements that a parameter needs: its largest index plus one; None if any index is unknown."""
        if re.search(rf"(?<![\w.>]){re.escape(name)}\s*(?:[-+]?=(?!=)|\+\+)", self.body):
            return None  # the pointer itself is modified
        cast = rf"(?:\*\s*\)|_cast\s*<[^<>;]*>\s*\()\s*\(?\s*&?\s*{re.escape(name)}\b"
        if re.search(cast, self.code.text):
            return None  # the pointer is cast, so elements have another size
        best: Poly | None = None
        for node in self.indices(name):
            high = self.upper(node)
            if high is None:
                return None
            need = high + number(1)
            if best is None or (size(need) or 0) > (size(best) or 0):
                best = need
        return best

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


def _inside(text: str, at: int) -> tuple[str, int]:
    end = closing(text.encode("latin-1"), at)
    return (text[at + 1 : end - 1], end) if end is not None else ("", at + 1)


def _compared(node: Node, leaving: bool) -> Iterator[tuple[str, Node]]:
    """Names with their exclusive upper bounds, from `i < n && j < m` or, if `leaving`, its negation."""
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
    found = (beyond if leaving else below).get(node.op)
    if found is None or found[0].op != "name":
        return
    limit = Node("+", (found[1], cexpr.number(1))) if found[2] else found[1]
    yield found[0].text, limit
