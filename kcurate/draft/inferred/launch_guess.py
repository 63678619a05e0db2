"""A launch for a kernel that no host code launches, where its code leaves one sensible choice.

The block is what the code counts with (`blockIdx.x * 256`, `__shared__ float tile[16][16]`,
`__launch_bounds__`), else the usual one; the grid covers the bound that a guard compares the index with. For
a draft, which is tried before it is used, a free number of blocks and a usual amount of shared memory will
do. Not covered: whether the launch is right (the judge runs it), launches of host code
(`launch_configuration`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kcurate.cuda_source.semantics import c_expressions as cexpr
from kcurate.cuda_source.semantics.c_expressions import Node
from kcurate.cuda_source.semantics.code_index import Code, Function
from kcurate.cuda_source.semantics.inlined_calls import inlined
from kcurate.draft.algebra import Poly, bracketed, factor, from_node, number
from kcurate.draft.inferred.index_bounds import Bounds
from kcurate.draft.inferred.launch_configuration import (
    ANY_BLOCKS,
    GUESSED_BLOCKS,
    GUESSED_SHARED_BYTES,
    MAX_THREADS,
    names_of,
)
from kcurate.errors import ProblemError
from kcurate.problem import c_types as types
from kcurate.problem.expressions import evaluate
from kcurate.records import Argument, Kernel, LaunchSite

_AXES = "xyz"
_LAUNCH_BOUNDS = re.compile(r"__launch_bounds__\s*\(\s*([^,()]+)")
_SHARED = re.compile(r"extern\s+__shared__\s+([\w ]+?)\s+(\w+)\s*\[\s*\]")
# Stands for the index of the next thread or block.
_NEXT = "next_index_"
# A value for every size, to tell the larger of two extents.
_SAMPLE = 1 << 16


@dataclass(frozen=True)
class Guess:
    """Grid, block and bytes of dynamic shared memory, as in host code over the kernel's parameters.

    `choices`: parameters that only choose what is computed, with a value that the code knows.
    """

    grid: tuple[str, ...]
    block: tuple[int, ...]
    shared_bytes: int
    choices: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """As it stands between `<<<` and `>>>`."""
        shared = f", {self.shared_bytes}" if self.shared_bytes else ""
        return f"{_dim3(self.grid)}, {_dim3(tuple(map(str, self.block)))}{shared}"

    def site(self, kernel: Kernel) -> LaunchSite:
        """As a launch in the kernel's own file."""
        names = [param.name for param in kernel.params]
        return LaunchSite(
            kernel.span.path,
            kernel.span.start_line,
            _dim3(self.grid),
            _dim3(tuple(map(str, self.block))),
            str(self.shared_bytes) if self.shared_bytes else None,
            arguments=tuple(Argument(self.choices.get(name, name)) for name in names),
        )


def _dim3(extents: tuple[str, ...]) -> str:
    return extents[0] if len(extents) == 1 else f"dim3({', '.join(extents)})"


def guess(kernel: Kernel, code: str, *, several: bool = False) -> Guess | None:
    """The launch of a kernel of this self-contained code; None if its code allows several, or suggests none.

    `several`: take one of several, with a size of its own for a number of blocks that the code leaves open.
    """
    device = inlined(Code(code.encode("latin-1", "replace")), kernel.name)
    function = device.function(kernel.name)
    if function is None:
        return None
    reading = _Reading(device, function, {name: factor(name) for name in integer_parameters(kernel, device)})
    block = reading.block() or (GUESSED_BLOCKS[reading.axes("threadIdx") - 1] if several else None)
    if block is None:
        return None
    bounds = Bounds(device, function, reading.sizes, block, ())
    grid, shared_bytes = reading.grid(bounds), _shared_bytes(bounds)
    choices = {}
    if several:
        body = device.text[function.body : function.end]
        choices = {name: value for name in reading.sizes if (value := _choice(name, body)) is not None}
        grid = grid or ANY_BLOCKS[: reading.axes("blockIdx")] or ("1",)
        shared_bytes = GUESSED_SHARED_BYTES if shared_bytes is None else shared_bytes
    return None if grid is None or shared_bytes is None else Guess(grid, block, shared_bytes, choices)


def _choice(name: str, body: str) -> str | None:
    """A value of a parameter that a body only compares with constants, as in `mode == 1`; None if it has
    other uses."""
    uses = len(re.findall(rf"(?<![\w.]){name}\b", body))
    compared = re.findall(rf"(?<![\w.]){name}\s*[)]*\s*([!=])=\s*(\d+)\b", body)
    switched = len(re.findall(rf"switch\s*\(\s*{name}\s*\)", body))
    values = [value for how, value in compared if how == "="] or re.findall(r"\bcase\s+(\d+)\s*:", body)
    return values[0] if values and len(compared) + switched == uses else None


def integer_parameters(kernel: Kernel, device: Code) -> tuple[str, ...]:
    """The parameters that are integers passed by value."""
    names, whole = {**device.types, **device.macros}, list[str]()
    for param in kernel.params:
        element = None if param.pointer else types.element(param.type, names, device.text)
        if element is not None and element.lanes == 1 and element.dtype not in types.FLOATS:
            whole.append(param.name)
    return tuple(whole)


@dataclass(frozen=True)
class _Reading:
    """What the kernel's code says of its launch; `sizes` are its integer parameters."""

    device: Code
    function: Function
    sizes: Mapping[str, Poly]

    def axes(self, word: str) -> int:
        """How many axes of `threadIdx` or `blockIdx` the code uses, those before the last included."""
        return max((axis + 1 for axis in range(3) if f"{word}.{_AXES[axis]}" in self.device.text), default=0)

    def block(self) -> tuple[int, ...] | None:
        """Threads along each axis; None if the code does not determine them."""
        text, axes = self.device.text, self.axes("threadIdx")
        if not axes:
            return (1,)
        bounds = Bounds(self.device, self.function, self.sizes, (), ())
        declared = _LAUNCH_BOUNDS.search(text[self.function.start : self.function.body])
        if declared is not None and axes == 1:
            node = cexpr.parse(declared[1])
            threads = bounds.exact(node) if node is not None else None
            return (threads.constant,) if threads is not None and threads.constant else None
        fitting = self._countthat_fit(bounds)
        extents: list[int | None] = []
        for axis in range(axes):
            usual = GUESSED_BLOCKS[axes - 1][axis] if f"blockDim.{_AXES[axis]}" in text else None
            counted = self._counted(bounds, axis) if usual is None else None
            extents.append(counted or fitting.get(axis, usual))
        complete = tuple(extent for extent in extents if extent)
        return complete if len(complete) == axes and math.prod(complete) <= MAX_THREADS else None

    def _values(self, bounds: Bounds) -> Iterator[tuple[str, Node]]:
        """Every variable with what it is set to, over thread and block indices."""
        for name in self.device.declared_in(self.function):
            for value in bounds.definitions(name):
                yield name, bounds.followed(value)

    def _counted(self, bounds: Bounds, axis: int) -> int | None:
        """The threads along an axis that index arithmetic assumes where the code does not use `blockDim`;
        else None."""
        stepping = [
            (name, value) for name, value in self._values(bounds) if _step(value, "threadIdx", axis) == 1
        ]
        blocks = {_step(value, "blockIdx", axis) for _, value in stepping}
        other_axes = [other for other in range(3) if other != axis]
        loops = {  # an index over several axes goes on by the whole block
            self._loop_step(name, bounds) for name, value in stepping
            if not any(_growth(value, "threadIdx", other) for other in other_axes)
        }  # fmt: skip
        from_zero = ((name, end) for name, start, end in bounds.loops() if start == cexpr.number(0))
        rows = {self._rows_step(axis, name, end, bounds) for name, end in from_zero}
        for counts in (loops, rows, blocks):
            distinct = {count for count in counts if count}
            if distinct:
                return distinct.pop() if len(distinct) == 1 else None
        return None

    def _loop_step(self, name: str, bounds: Bounds) -> int | None:
        """The constant that a loop adds to a variable, as in `i += 256`."""
        settings = self.device.settings_in(name, self.function)
        steps = {setting.value for setting in settings if setting.how == "+="}
        node = cexpr.parse(steps.pop()) if len(steps) == 1 else None
        step = bounds.exact(node) if node is not None else None
        return step.constant if step is not None and step.constant != 1 else None

    def _rows_step(self, axis: int, name: str, end: Node, bounds: Bounds) -> int | None:
        """The step of a loop that adds rows to a thread's own: `tile[threadIdx.y + j]`, 0 to 32 by 8."""
        step, last = self._loop_step(name, bounds), bounds.exact(end)
        indices = {f"threadIdx.{_AXES[axis]}"}
        indices |= {local for local, value in self._values(bounds) if _step(value, "threadIdx", axis) == 1}
        body = self.device.text[self.function.body : self.function.end]
        sums = (rf"{re.escape(mine)}\s*\+\s*{name}\b|\b{name}\s*\+\s*{re.escape(mine)}" for mine in indices)
        added = any(re.search(rf"(?<![\w.]){text}", body) for text in sums)
        return step if added and step and last is not None and (last.constant or 0) > step else None

    def _countthat_fit(self, bounds: Bounds) -> dict[int, int]:
        """By axis: how many threads have an element in the shared arrays that `threadIdx` indexes."""
        fitting: dict[int, int] = {}
        for name in self.device.declared_in(self.function):
            for setting in self.device.settings_in(name, self.function):
                if "__shared__" not in setting.type or "extern" in setting.type:
                    continue
                sizes = [bounds.product((size,)) for size in setting.sizes]
                for indices in bounds.axis_indices(name):
                    for size, raw in zip(sizes, indices, strict=False):
                        index = bounds.followed(raw)
                        for axis in () if self._moves(raw) else range(3):
                            if size and _step(index, "threadIdx", axis) == 1:
                                offset = _at_first(index)
                                threads = size - offset if offset is not None else size
                                fitting[axis] = min(fitting.get(axis, MAX_THREADS), threads)
        return {axis: count - count % 8 if count > 8 else count for axis, count in fitting.items()}

    def _moves(self, index: Node) -> bool:
        """Whether a variable of an index is updated, as a loop variable is."""
        settings = (self.device.settings_in(name, self.function) for name in cexpr.names(index))
        return any(setting.how not in ("=", "(", "{", "") for of_name in settings for setting in of_name)

    def grid(self, bounds: Bounds) -> tuple[str, ...] | None:
        """Blocks along each axis, in C; None if no guard determines them."""
        axes = [axis for axis in range(3) if f"blockIdx.{_AXES[axis]}" in self.device.text]
        covers: dict[int, tuple[float, str]] = {}
        for value, below in bounds.guards():
            for axis in axes:
                step = _growth(value, "blockIdx", axis) if names_of(below) <= {*self.sizes} else None
                if step is not None and "gridDim" in self.device.text and re.search("/|div", step.text()):
                    # A share of the work, for any grid.
                    step = number(bounds.block[axis] if axis < len(bounds.block) else 1)
                blocks = _blocks(below, step) if step is not None else None
                if blocks is not None and blocks > covers.get(axis, (0.0, "")):
                    covers[axis] = blocks
            alone = any(_step(value, "threadIdx", axis) == 1 for axis in range(3))
            if not axes and alone and below.constant is None and "blockDim" not in self.device.text:
                return None
        open_axes = [axis for axis in axes if axis not in covers]
        if len(open_axes) == 1 and (rows := self._unread(open_axes[0])) is not None:
            covers[open_axes[0]] = (1.0, rows)
        elif open_axes:
            return None
        return tuple(covers.get(axis, (1.0, "1"))[1] for axis in range(max(axes, default=0) + 1))

    def _unread(self, axis: int) -> str | None:
        """The size that the kernel does not read, if there is one and each block handles one index: its
        grid."""
        body = self.device.text[self.function.body : self.function.end]
        pair = rf"blockIdx\.{_AXES[axis]}", rf"blockDim\.{_AXES[axis]}"
        if re.search(r"{0}\s*\*\s*{1}|{1}\s*\*\s*{0}".format(*pair), body):
            return None
        unread = [name for name in self.sizes if not re.search(rf"\b{name}\b", body)]
        return unread[0] if len(unread) == 1 else None


def _growth(node: Node, word: str, axis: int) -> Poly | None:
    """What an index grows by from one thread or block (`word`) to the next; None if it does not, or not by
    the same amount."""

    def meaning(part: Node) -> Node | None:
        if part.op != "member" or part.args[0].text not in ("threadIdx", "blockIdx"):
            return None
        return cexpr.name(_NEXT) if (part.args[0].text, part.text) == (word, _AXES[axis]) else cexpr.number(0)

    poly = from_node(cexpr.substitute(node, meaning))
    moving = {key: count for key, count in (poly.terms if poly else {}).items() if _NEXT in " ".join(key)}
    if not moving or any([piece for piece in key if _NEXT in piece] != [_NEXT] for key in moving):
        return None
    return Poly({tuple(piece for piece in key if piece != _NEXT): count for key, count in moving.items()})


def _step(node: Node, word: str, axis: int) -> int | None:
    """`_growth` if it is a constant, else None."""
    growth = _growth(node, word, axis)
    return growth.constant if growth is not None else None


def _at_first(node: Node) -> int | None:
    """The index of the first thread of the first block, where it is a constant."""
    first = cexpr.substitute(node, lambda part: cexpr.number(0) if part.op == "member" else None)
    poly = from_node(first)
    return poly.constant if poly is not None else None


def _blocks(below: Poly, step: Poly) -> tuple[float, str] | None:
    """How many blocks cover an extent: at the sample sizes, and in C."""
    names = dict.fromkeys(names_of(below) | names_of(step), _SAMPLE)
    try:
        count = evaluate(below.text(), names) / evaluate(step.text(), names)
    except (ProblemError, ZeroDivisionError):
        return None
    if step.constant == 1:
        return count, below.text()
    return count, f"({(below + step - number(1)).text()}) / {bracketed(step.text())}"


def _shared_bytes(bounds: Bounds) -> int | None:
    """The bytes of `extern __shared__` arrays, as far as the block's threads index them; None if unknown."""
    total = 0
    for type_text, name in _SHARED.findall(bounds.code.text):
        element = types.element(type_text, {**bounds.code.types, **bounds.code.macros}, bounds.code.text)
        ends = [bounds.upper(index) for index in bounds.indices(name)]
        last = [end.constant for end in ends if end is not None and end.constant is not None]
        if element is None or not last or len(last) < len(ends):
            return None
        total += (max(last) + 1) * element.size_bytes
    return total
