"""Chooses the expression for a recorded number: the host code's own where it gives the number, else the
simplest one.

Not covered: what can fit at all (`candidate_expressions`), the draft (`from_launches`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from kcurate.draft import size_settings
from kcurate.draft.algebra import Poly, bracketed
from kcurate.draft.captured.buffer_regions import Region
from kcurate.draft.captured.candidate_expressions import Names, Values, alike, extents, grids, holds, value_in
from kcurate.draft.captured.launch_arguments import Number, Pointer
from kcurate.draft.inferred.index_bounds import Bounds
from kcurate.draft.inferred.launch_configuration import FUNCTIONS, at_sample
from kcurate.draft.sketch import OPEN, Draft, Remark
from kcurate.problem.expressions import MAX_LENGTH, names_in
from kcurate.records import Arg, BufferArg, CapturedLaunch, Expr, Launch, ValueArg

# What equal recorded numbers mean. `apart`: numbers that are equal in the only launch are independent sizes.
# `joined`: they are one size. `fixed`: no size varies; the problem has the recorded one alone.
Trust = Literal["apart", "joined", "fixed"]
# Unexplained extents up to this are constants of the code, such as the bins of a histogram.
MOST_CONSTANT = 1024


@dataclass
class FittedExpressions:
    """Expressions for the numbers of some launches, the largest launch first.

    `names`: the sizes so far, with their value in each launch. `values`: the expression of each integer
    argument. `text`: the draft inferred from the host code. `host_names`: names of the host code, as
    expressions of this draft. `small`: constants up to `most_constant`, which become names only where an
    expression needs them. `powers`: a number may be the next power of two above another one.
    """

    launches: list[CapturedLaunch]
    text: Draft | None
    trust: Trust
    powers: bool = False
    most_constant: int = size_settings.SMALL
    names: dict[str, Values] = field(default_factory=dict)
    values: dict[str, Expr] = field(default_factory=dict)
    host_names: dict[str, str] = field(default_factory=dict)
    small: dict[str, Values] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    # Whether an extent of another buffer varies, which shows that an extent that does not is a constant.
    scaled: bool = False

    def __post_init__(self) -> None:
        """Find the launch in the host code's draft."""
        sides = self.text.known.sides.values() if self.text is not None else ()
        steps = [step for side in sides for step in side.plan if isinstance(step, Launch)]
        self.step = steps[0] if steps else None
        self.block = tuple(int(extent) for extent in bare(self.launches[0].block))

    def value(self, number: Number) -> None:
        """Choose the expression of an integer argument: a constant, one over earlier names, or a new name."""
        values = number.whole
        if values is None:
            return
        varies = len(set(values)) > 1
        host = self._host(number.param)
        hint = host.value if isinstance(host, ValueArg) else host
        translated = self._translated(hint) if number.member is None else None
        if self.trust == "fixed" or (not varies and -1 <= values[0] <= self.most_constant):
            self.values[number.name] = values[0]
            if self.trust != "fixed" and values[0] > 1:
                self.small[number.name] = values
        elif isinstance(translated, str) and holds(translated, values, self.names):
            self.values[number.name] = translated
        else:
            joined = varies or self.trust == "joined"
            expression = next(alike(values, self.names, self.powers), None) if joined else None
            if expression is None:
                name = number.name if number.name not in FUNCTIONS else f"{number.name}_"
                self.names[name] = values
                expression = name
            self.values[number.name] = expression
        if isinstance(hint, str) and hint.isidentifier() and number.member is None:
            self.host_names.setdefault(hint, str(self.values[number.name]))

    def _host(self, param: int) -> Arg | None:
        """What the launch in the host code passes to a parameter; None if there is no such launch."""
        return self.step.args[param] if self.step is not None and param < len(self.step.args) else None

    def _translated(self, expression: object) -> Expr | None:
        """An expression of the host code in this draft's names; None if it uses a name that this draft
        lacks."""
        if not isinstance(expression, str):
            return expression if isinstance(expression, int) else None
        if len(expression) > MAX_LENGTH or OPEN in expression:
            return None
        if not names_in(expression) <= self.host_names.keys():
            return None
        return re.sub(r"[A-Za-z_]\w*", lambda m: bracketed(self.host_names.get(m[0], m[0])), expression)

    def _first(self, values: Values, options: Iterable[Expr | Poly | None]) -> Expr | None:
        """The first of the options that gives the values; numbers only up to `MOST_CONSTANT`."""
        for option in options:
            text = option.expr() if isinstance(option, Poly) else option
            if isinstance(text, int) and text > MOST_CONSTANT and self.trust != "fixed":
                continue
            if text is not None and OPEN not in str(text) and holds(text, values, self.names):
                return text
        return None

    def _searched(self, fits: Callable[[Names], Iterator[str]]) -> Expr | None:
        """The simplest expression over the names; else a product with small constants, which become names."""
        fitting = next(fits(self.names), None)
        if self.small and (fitting is None or re.search(r"\b\d", fitting)):
            symbolic = next(fits({**self.names, **self.small}), None)
            if symbolic is not None and not re.search(r"\b\d", symbolic):
                fitting = symbolic
            for name in names_in(fitting or 0) & self.small.keys():
                self.names[name] = self.small.pop(name)
                self.values[name] = name
        return fitting

    def grid(self, axis: int, bounds: Bounds, last: bool = False) -> Expr | None:
        """A grid's extent; None: nothing explains it yet, and `last` is not set."""
        cluster = (self.launches[0].cluster or (1, 1, 1))[axis]
        if cluster > 1 and self.trust != "fixed":
            clusters = self._blocks(axis, bounds, last, cluster)
            if clusters is None or isinstance(clusters, int):
                return None if clusters is None else cluster * clusters
            return f"{cluster}*{bracketed(clusters)}"
        return self._blocks(axis, bounds, last, 1)

    def _blocks(self, axis: int, bounds: Bounds, last: bool, share: int) -> Expr | None:
        """A grid's extent in clusters of so many blocks; None as for `grid`."""
        values = tuple(launch.grid[axis] // share for launch in self.launches)
        covered, name = self.launches[0].block[axis] * share, f"blocks_{'xyz'[axis]}"
        self.small.pop(name, None)
        if self.trust == "fixed":
            return values[0]
        guard = bounds.guard(axis)
        above = guard.text() if guard is not None else None
        in_text = self.step.grid[axis] if self.step and axis < len(self.step.grid) else None
        translated = self._translated(in_text)  # a number may be what the sizes of the host code come to
        guarded = f"ceil_div({above}, {covered})" if above and covered > 1 else above
        expression = self._first(values, (guarded, translated if isinstance(translated, str) else None))
        if expression is None and max(values) > 1:
            expression = self._searched(lambda names: grids(values, names, covered, self.block))
        if expression is not None:
            return expression
        if not last and max(values) > 1:
            self.small[name] = values
            return None
        if len(set(values)) > 1:
            self.names[name] = values
            return name
        if "gridDim" in bounds.code.text and max(values) > 1 and self.names:
            capped = f"min({values[0]}, ceil_div({next(iter(self.names))}, {covered}))"
            return capped if holds(capped, values, self.names) else values[0]
        return values[0]

    def offset(self, pointer: Pointer, values: Values) -> Expr | None:
        """The offset of a pointer in elements, from values in elements; None: nothing explains it."""
        if not any(values):
            return 0
        host = self._host(pointer.param)
        in_text = self._translated(host.offset) if isinstance(host, BufferArg) else None
        if self.trust == "fixed":
            return values[0] if len(set(values)) == 1 else None
        small = values[0] if len(set(values)) == 1 and values[0] <= size_settings.SMALL else None
        expression = self._first(values, (in_text, small))
        return expression or self._searched(partial(extents, values, block=self.block))

    def count(self, region: Region, bounds: Bounds) -> Expr:
        """The elements of a buffer: what the host code says, what indices need, or the simplest that fits."""
        values = region.elements
        if self.trust == "fixed":
            return values[0]
        host = self.text.known.problem.buffers.get(region.pointers[0].name) if self.text else None
        in_text = self._translated(host.shape[0]) if host is not None else None
        need = bounds.extent(region.path, at_sample) if len(region.pointers) == 1 else None
        if len(set(values)) == 1 and values[0] <= self.most_constant:
            return values[0]
        expression = self._first(values, (in_text, need))
        if expression is None and region.whole:
            expression = self._searched(partial(extents, values, block=self.block))
        if expression is not None:
            self.scaled = self.scaled or len(set(values)) > 1
            return expression
        needed_extent = need.expr() if need is not None else 0
        if isinstance(needed_extent, str):
            reached = [value_in(needed_extent, self.names, launch) for launch in range(len(values))]
            ends = zip(reached, values, strict=True)
            if all(elements is not None and 0 < elements <= most for elements, most in ends):
                text = f"the kernel's indices end here; the program has {values[0]} elements"
                self.remarks.append(Remark(f"buffers.{region.name}.shape", text))
                return needed_extent
        if len(set(values)) == 1 and (values[0] <= MOST_CONSTANT or self.scaled):
            return values[0]
        self.names[f"{region.name}_count"] = values
        return f"{region.name}_count"

    def shared(self) -> Expr:
        """The bytes of dynamic shared memory."""
        values = tuple(launch.shared_bytes for launch in self.launches)
        threads = math.prod(self.block)
        if len(set(values)) == 1 and (values[0] % threads == 0 or self.trust == "fixed" or self.scaled):
            return values[0]
        in_text = self._translated(self.step.shared_bytes) if self.step else None
        expression = self._first(values, (in_text,))
        expression = expression or self._searched(partial(extents, values, block=self.block))
        return max(values) if expression is None else expression


def bare(axes: Iterable[Expr]) -> tuple[Expr, ...]:
    """The extents without trailing ones; at least one stays."""
    kept = list(axes)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return tuple(kept)


def typical(values: Values) -> int:
    """One value for an argument that no size depends on.

    It is the largest launch's if that is small or equal in all launches, else the nonzero one nearest to
    zero.
    """
    if len(set(values)) == 1 or 0 <= values[0] <= size_settings.SMALL:
        return values[0]
    return min((value for value in values if value), key=abs)
