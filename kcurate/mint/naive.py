"""The plain side of a graph: CUDA as a beginner writes it, with one kernel per operator.

A thread computes one element of a result, or one row if all its elements need the same sums. Names, block
sizes and habits vary with a seed. Not covered: the expressions (`scalar_text`), faster sides.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kcurate.mint.axes import Binding, binding_of, elsewhere, linear_index, product
from kcurate.mint.graph import OPERATORS, REST, Fold, Graph, Node, Operator
from kcurate.mint.scalar_text import C_NAMES, c_number, c_text
from kcurate.records import Arg, Buffer, Expr, Launch, Side, ValueArg

C_TYPES = {
    "float32": "float", "bfloat16": "__nv_bfloat16", "float16": "half", "int8": "signed char",
    "int64": "long long",
}  # fmt: skip
LOADS = {"bfloat16": "__bfloat162float({})", "float16": "__half2float({})"}
STORES = {
    "bfloat16": "__float2bfloat16({})", "float16": "__float2half({})", "int8": "(signed char)({})",
    "int64": "(long long)({})",
}  # fmt: skip
HEADERS = {"bfloat16": "#include <cuda_bf16.h>\n", "float16": "#include <cuda_fp16.h>\n"}
FIRST = {"sum": ("0.0f", "0"), "max": ("-3.4e38f", "-2147483647"), "min": ("3.4e38f", "2147483647")}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Habits:
    """The variations between equivalent texts."""

    block: int
    thread: str
    suffix: str
    result: str
    early: bool
    step: str
    rest: str

    @classmethod
    def of(cls, seed: int) -> Habits:
        """The habits of a seed."""
        rng = random.Random(f"habits {seed}")
        return cls(
            block=rng.choice((64, 128, 128, 256, 256, 256, 512)),
            thread=rng.choice(("idx", "tid", "id", "index", "gid", "pos")),
            suffix=rng.choice(("", "_kernel", "_k", "_op", "_forward", "_step")),
            result=rng.choice(("out", "result", "dst", "res", "output")),
            early=rng.random() < 0.6,
            step=rng.choice(("{}++", "++{}", "{} += 1")),
            rest=rng.choice(("row", "r0", "outer", "n0")),
        )


def naive_side(graph: Graph, seed: int) -> Side:
    """The side: one kernel and one launch per node, with intermediate results in scratch buffers."""
    habits = Habits.of(seed)
    used = {value.dtype for value in graph.values.values()}
    texts, plan = [], []
    for number, node in enumerate(graph.nodes):
        kernel = _Kernel(graph, node, habits, number)
        texts.append(kernel.text())
        plan.append(kernel.launch())
    headers = "".join(text for dtype, text in HEADERS.items() if dtype in used)
    code = "\n".join([*([headers] if headers else []), *texts])
    return Side(code, tuple(plan), buffers=scratch_buffers(graph, graph.nodes))


def scratch_buffers(graph: Graph, stored: Iterable[Node]) -> dict[str, Buffer]:
    """The buffers of intermediate results that kernels store for later ones."""
    return {
        node.name: Buffer(node.dtype, node.shape or (1,), role="scratch")
        for node in stored
        if node.name not in graph.outputs
    }


def indented(lines: Sequence[str]) -> list[str]:
    """The lines indented by one level."""
    return [f"    {line}" for line in lines]


def numbered(operator: str, number: int) -> str:
    """The name of the kernel of the node `number` (from 1), if other nodes have the same operator."""
    name = f"{operator}{number}"
    return f"{operator}_{number}" if name in OPERATORS else name  # relu6 is another operator than relu


class _Kernel:
    """The kernel of one node."""

    def __init__(self, graph: Graph, node: Node, habits: Habits, number: int) -> None:
        self.graph, self.node, self.habits = graph, node, habits
        self.operator: Operator = OPERATORS[node.operator]
        self.binding: Binding = binding_of(graph, node, self.operator)
        same = [other.operator for other in graph.nodes].count(node.operator) > 1
        # A kernel with the name of a function of maths would overload it.
        suffix = habits.suffix or ("_kernel" if node.operator in C_NAMES else "")
        self.name = (numbered(node.operator, number + 1) if same else node.operator) + suffix
        self.rows = self.operator.row_axes
        self.threads = [
            axis
            for axis in self.operator.axes
            if axis not in self.rows and (axis != REST or self.binding.rest)
        ]
        self.sizes = dict[str, Expr]()
        self.dtypes = {
            parameter.name: graph.values[operand].dtype
            for parameter, operand in zip(self.operator.parameters, node.operands, strict=True)
        }

    def extent(self, axis: str) -> str:
        """The text of an axis's extent; a kernel parameter unless it is a number."""
        extent = self.binding.extent(axis)
        if isinstance(extent, int):
            return str(extent)
        name = extent if _IDENTIFIER.fullmatch(extent) else f"n_{'rest' if axis == REST else axis}"
        self.sizes[name] = extent
        return name

    def index(self, axis: str) -> str:
        """The variable of an axis."""
        return self.habits.rest if axis == REST else axis

    def linear_index(self, axes: Sequence[str], at: Mapping[str, str] | None = None) -> str:
        """The linear index of an element, from its index along every axis (in `at`, else the current
        index)."""
        present = [axis for axis in axes if axis != REST or self.binding.rest]
        return linear_index(present, self.extent, lambda axis: (at or {}).get(axis) or self.index(axis))

    def name_text(self, name: str) -> str:
        """The text of a name in an expression."""
        if name.startswith("size("):
            return self.extent(name[5:-1])
        if name in self.dtypes:
            parameter = next(p for p in self.operator.parameters if p.name == name)
            return self.load(name, self.linear_index(parameter.axes))
        if name in self.node.attributes:
            return c_number(self.node.attributes[name])
        return "3.4e38f" if name == "inf" else name

    def element_text(self, name: str, subscripts: Sequence[str]) -> str:
        """The text of an operand's element at given subscripts."""
        parameter = next(p for p in self.operator.parameters if p.name == name)
        return self.load(name, self.linear_index(parameter.axes, elsewhere(parameter.axes, subscripts)))

    def load(self, name: str, index_text: str) -> str:
        """An element of an operand, in float32 if it is a float."""
        text = f"{name}[{index_text}]"
        if self.dtypes[name] == "int64":
            return f"(int){text}"
        return LOADS.get(self.dtypes[name], "{}").format(text)

    def expression(self, expression: str) -> str:
        """An expression in C++."""
        return c_text(expression, self.name_text, self.element_text)

    def text(self) -> str:
        """The whole kernel."""
        body = list(self.body())
        total = " * ".join(self.extent(axis) for axis in self.threads) or "1"
        thread, early = self.habits.thread, self.habits.early
        parameters = [
            *(f"const {C_TYPES[self.dtypes[p.name]]} *{p.name}" for p in self.operator.parameters),
            f"{C_TYPES[self.node.dtype]} *{self.habits.result}",
            *(f"int {name}" for name in self.sizes),
        ]
        guard = [f"if ({thread} >= {total}) return;"] if early else [f"if ({thread} < {total}) {{"]
        inner = body if early else [*indented(body), "}"]
        lines = [f"int {thread} = blockIdx.x * blockDim.x + threadIdx.x;", *guard, *inner]
        head = f"__global__ void {self.name}({', '.join(parameters)})"
        return "\n".join([head, "{", *indented(lines), "}", ""])

    def body(self) -> Iterator[str]:
        """The body: the thread's index, the folds, the result."""
        yield from self.coordinates()
        running = [fold for fold in self.operator.folds if fold.running]
        for fold in self.operator.folds:
            yield self.declaration(fold)
            if not fold.running:
                yield from self.loop(fold.over, self.update(fold))
        backwards = any(fold.backwards for fold in running)
        inner = [line for fold in running for line in self.update(fold)] + list(self.store())
        yield from self.loop(self.rows, inner, backwards=backwards) if self.rows else inner

    def coordinates(self) -> Iterator[str]:
        """The index along every axis of the thread's element."""
        left = self.habits.thread
        for position, axis in reversed(list(enumerate(self.threads))):
            if position == 0:
                yield f"int {self.index(axis)} = {left};"
            else:
                yield f"int {self.index(axis)} = {left} % {self.extent(axis)};"
                following = f"rem{position}" if position > 1 else self.index(self.threads[0])
                if position == 1:
                    yield f"int {following} = {left} / {self.extent(axis)};"
                    return
                yield f"int {following} = {left} / {self.extent(axis)};"
                left = following

    def declaration(self, fold: Fold) -> str:
        integer = fold.dtype == "int"
        return f"{fold.dtype} {fold.name} = {FIRST[fold.how][integer]};"

    def update(self, fold: Fold) -> list[str]:
        term = self.expression(fold.term)
        if fold.how == "sum":
            return [f"{fold.name} += {term};"]
        function = f"f{fold.how}f" if fold.dtype == "float" else fold.how
        return [f"{fold.name} = {function}({fold.name}, {term});"]

    def loop(self, axes: Sequence[str], body: Sequence[str], *, backwards: bool = False) -> list[str]:
        """Nested loops over axes around some lines."""
        lines = list(body)
        for axis in reversed(axes):
            extent, step = self.extent(axis), self.habits.step.format(axis)
            head = f"for (int {axis} = 0; {axis} < {extent}; {step})"
            if backwards:
                head = f"for (int {axis} = {extent} - 1; {axis} >= 0; {axis}--)"
            lines = [f"{head} {{", *indented(lines), "}"]
        return lines

    def store(self) -> Iterator[str]:
        """The lines that write the result."""
        axes = self.operator.to or self.operator.out
        value = STORES.get(self.node.dtype, "{}").format(self.expression(self.operator.result))
        at = dict(zip(self.operator.out, axes, strict=True)) if self.operator.to else {}
        at = {axis: index for axis, index in at.items() if axis != REST}
        line = f"{self.habits.result}[{self.linear_index(self.operator.out, at)}] = {value};"
        if self.operator.only:
            yield f"if ({self.expression(self.operator.only)})"
            yield f"    {line}"
        else:
            yield line

    def launch(self) -> Launch:
        """The launch; call `text` first, which collects the sizes that the kernel needs."""
        total = product(tuple(self.binding.extent(axis) for axis in self.threads)) if self.threads else 1
        arguments: list[Arg] = [*self.node.operands, self.node.name]
        for name, extent in self.sizes.items():
            arguments.append(extent if name == extent else ValueArg(extent))
        grid = f"ceil_div({total}, {self.habits.block})"
        return Launch(self.name, (grid,), (self.habits.block,), tuple(arguments))
