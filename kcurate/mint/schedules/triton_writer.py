"""Expressions of nodes in Triton, as `writer` writes them in C++."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from kcurate.mint.axes import elsewhere
from kcurate.mint.graph import REST, Node
from kcurate.mint.naive import indented
from kcurate.mint.scalar_text import precedence
from kcurate.mint.schedules.writer import Needs, Position, Writer
from kcurate.records import Expr

_FUNCTIONS = {
    "exp": "tl.exp", "log": "tl.log", "sqrt": "tl.sqrt_rn", "rsqrt": "tl.rsqrt", "sin": "tl.sin",
    "cos": "tl.cos", "erf": "tl.erf", "abs": "tl.abs", "floor": "tl.floor", "max": "tl.maximum",
    "min": "tl.minimum",
}  # fmt: skip
TYPES = {
    "bfloat16": "tl.bfloat16", "float16": "tl.float16", "int8": "tl.int8", "int64": "tl.int64",
    "float32": "tl.float32",
}  # fmt: skip
_SYMBOLS: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|", ast.Lt: "<",
    ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
# How tightly operators bind in Python.
_LEVELS = {"Compare": 1, "BitOr": 2, "BitAnd": 3, "Add": 6, "Sub": 6, "UnaryOp": 8}
_WORD = re.compile(r"[A-Za-z_]\w*")


class UnfitError(Exception):
    """Triton's language, or these schedules, cannot express the graph."""


class TritonWriter(Writer):
    """Writes expressions as blocks of lanes.

    `mask`: the condition under which a lane may load; `lanes`: the variables that are blocks of lanes.
    """

    mask: str = ""
    lanes: frozenset[str] = frozenset()
    equals = "{name} = {value}"

    def inner(self, node: Node, linear: str, position: Position | None = None) -> TritonWriter:
        """As in C, under the same mask."""
        writer = TritonWriter(self.graph, node, self.inlined, self.needs, linear=linear)
        writer.mask, writer.lanes = self.mask, self.lanes
        if position is not None:
            writer.stand(position)
            blocks = [name for name in writer.axis_names.values() if self.of_lanes(writer.before, name)]
            writer.lanes |= frozenset(blocks)
        return writer

    def of_lanes(self, lines: Sequence[str], name: str) -> bool:
        """Whether a variable that some lines declare is a block of lanes."""
        return any(line.startswith(f"{name} = ") and self.lanes & set(_WORD.findall(line)) for line in lines)

    def size_text(self, extent: Expr) -> str:
        """As in C, with Python's division."""
        return re.sub(r"(?<!/)/(?!/)", "//", super().size_text(extent))

    def coordinates(self, linear: str, axes: Sequence[str]) -> list[str]:
        """As in `Writer`."""
        return [line.replace(f"{linear} / ", f"{linear} // ") for line in super().coordinates(linear, axes)]

    def _named_local(self, kind: str, name: str, value: str) -> str:
        return super()._named_local(
            kind, name, re.sub(r"^(\w+) / ", r"\1 // ", value) if kind == "int" else value
        )

    def text(self, tree: ast.expr) -> str:
        """A tree in Triton."""
        return self._text(tree, self.mask)[0].replace(" + -", " - ")

    def rounded(self, text: str) -> str:
        """As in `Writer`."""
        if self.node.dtype == "float32":
            return text
        wide = "tl.int32" if self.node.dtype in ("int8", "int64") else "tl.float32"
        return f"{called(text)}.to({TYPES[self.node.dtype]}).to({wide})"

    def stored(self, text: str) -> str:
        """As in `Writer`."""
        return text if self.node.dtype == "float32" else f"{called(text)}.to({TYPES[self.node.dtype]})"

    def _text(self, node: ast.expr, mask: str, outer: int = 0) -> tuple[str, bool]:
        """The text, and whether it is an integer; `outer`: how tightly the operator around it binds."""
        text, integer = self._plain(node, mask)
        return f"({text})" if precedence(node, _LEVELS) < outer else text, integer

    def _plain(self, node: ast.expr, mask: str) -> tuple[str, bool]:
        match node:
            case ast.Constant(value=value):
                return repr(value), isinstance(value, int)
            case ast.Name(id=name):
                return self._named(name, mask)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                places = ["..." if _is_rest(part) else self._text(part, mask)[0] for part in parts]
                axes = next(p.axes for p in self.operator.parameters if p.name == name)
                return self._load(self.operands[name], self.linear_index(axes, elsewhere(axes, places)), mask)
            case ast.UnaryOp(operand=operand):
                text, integer = self._text(operand, mask, 8)
                return f"-{text}", integer
            case ast.BinOp(left=left, op=op, right=right):
                tight = precedence(node, _LEVELS)
                (a, whole), (b, also) = self._text(left, mask, tight), self._text(right, mask, tight + 1)
                integer = whole and also
                divides = isinstance(op, ast.Div | ast.FloorDiv)
                symbol = ("//" if integer else "/") if divides else _SYMBOLS[type(op)]
                return f"{a} {symbol} {b}", integer
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                a, b = self._text(left, mask, 2)[0], self._text(right, mask, 2)[0]
                return f"{a} {_SYMBOLS[type(op)]} {b}", True
            case ast.IfExp(test=test, body=body, orelse=other):
                condition, guard = self._text(test, mask)[0], self._text(test, mask, 3)[0]
                yes, integer = self._text(body, f"{mask} & {guard}" if mask else guard)
                no, also = self._text(other, self._unless(test, mask))
                return f"tl.where({condition}, {yes}, {no})", integer and also
            case ast.Call(func=ast.Name(id="size"), args=[ast.Name(id=axis)]):
                return self.extent(axis), True
            case ast.Call(func=ast.Name(id=function), args=arguments):
                if function not in _FUNCTIONS:
                    raise UnfitError(function)
                texts = [self._text(argument, mask) for argument in arguments]
                integer = all(whole for _, whole in texts) and function in ("max", "min", "abs")
                return f"{_FUNCTIONS[function]}({', '.join(text for text, _ in texts)})", integer
        raise UnfitError(ast.unparse(node))

    def _unless(self, test: ast.expr, mask: str) -> str:
        """The mask restricted to lanes for which a condition does not hold."""
        if isinstance(test, ast.Compare):
            symbol = _SYMBOLS[type(test.ops[0])]
            left, right = (self._text(part, mask)[0] for part in (test.left, test.comparators[0]))
            opposite = f"({left} {_OPPOSITE[symbol]} {right})"
            return f"{mask} & {opposite}" if mask else opposite
        return mask

    def _named(self, name: str, mask: str) -> tuple[str, bool]:
        if name in self.uniform:
            return self.uniform[name], False
        if name in self.operands:
            integer = self.graph.values[self.operands[name]].dtype in ("int64", "int8")
            return self.element(name), integer
        if name in self.node.attributes:
            value = self.node.attributes[name]
            return repr(value), isinstance(value, int)
        if name == "inf":
            return "3.4e38", False
        for fold in self.operator.folds:
            if fold.name == name:
                return self.local(name), fold.dtype == "int"
        return self.index(name), True

    def _read(self, operand: str, index_text: str) -> str:
        return self._load(operand, index_text, self.mask)[0]

    def _load(self, operand: str, index_text: str, mask: str) -> tuple[str, bool]:
        dtype = self.graph.values[operand].dtype
        integer = dtype in ("int64", "int8")
        lane_mask = mask if set(_WORD.findall(index_text)) & self.lanes else ""
        if operand in self.inlined:
            return self._call(operand, index_text, lane_mask or "True"), integer
        self.needs.arrays[operand] = ""
        guard = f", mask={lane_mask}, other={0 if integer else 0.0}" if lane_mask else ""
        text = f"tl.load({operand} + {index_text}{guard})"
        if dtype != "float32":
            text += f".to({'tl.int32' if integer else 'tl.float32'})"
        return text, integer

    def _call(self, operand: str, index_text: str, mask: str) -> str:
        if mask == "True":
            raise UnfitError("a value of one row that is computed where it is read")
        node = self.graph.values[operand]
        assert isinstance(node, Node), "inputs are arrays"
        name, inner = f"{node.operator}_{operand}", Needs()
        writer = TritonWriter(self.graph, node, self.inlined, inner, linear="e")
        writer.mask, writer.lanes = "inside", frozenset({"e", *variables(writer, writer.operator.out)})
        value = writer.result()
        lines = [*writer.coordinates("e", writer.operator.out), *writer.take(), f"return {value}"]
        body = inner.tidied(["e = place", *lines])
        head = ", ".join([*inner.arguments(), "place", "inside"])
        self.needs.add(inner)
        text = "\n".join(indented(body))
        self.needs.functions[name] = f"@triton.jit\ndef {name}({head}):\n{text}\n"
        return f"{name}({', '.join([*inner.arguments(), index_text, mask])})"


def called(text: str) -> str:
    """The text in a form that a method can be called on."""
    closed = re.fullmatch(r"[\w.]+|[\w.]+\([^()]*(\([^()]*\)[^()]*)*\)", text)
    return text if closed else f"({text})"


def _is_rest(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def variables(writer: Writer, axes: Sequence[str]) -> Iterator[str]:
    """The names of the variables of axes, without counting them as used."""
    for axis in axes:
        yield writer.local("row" if axis == REST else axis)
