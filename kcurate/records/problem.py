"""A problem (sizes, buffers, scalars) and a plan (how a side is launched on it), as data.

Expressions (`Expr`) are integers, or text in the language of `kcurate.problem.expressions`: integer
arithmetic over sizes, integer scalars and loop variables. In JSON each kind of step is recognised by its
first field (`launch`, `fill`, `for`, ...). A field whose JSON name is a Python keyword has a trailing
underscore here (`from_` is `from` in the file).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

Expr = int | str
Role = Literal["in", "out", "inout", "scratch"]
Language = Literal["cuda", "torch", "triton"]
Swizzle = Literal["none", "32B", "64B", "128B"]
Interleave = Literal["none", "16B", "32B"]
# Properties of a buffer that hold under every input variation: `distinct` and `sorted` (ascending) along the
# last axis; in a `varied` buffer no row consists of equal or nearly equal elements.
Promise = Literal["finite", "positive", "nonnegative", "nonzero", "sorted", "distinct", "varied"]


@dataclass(frozen=True)
class StructField:
    """One member of a struct passed by value: a scalar, or an array of `count` elements."""

    name: str
    dtype: str
    count: int = 1


@dataclass(frozen=True)
class Init:
    """A named, seeded generator and its parameters (see `kcurate.problem.inputs.contents`)."""

    kind: str
    params: Mapping[str, int | float | str | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Tolerance:
    """How an output may differ from the reference; the rule is in `kcurate.problem.compare`.

    `terms` is K, the number of terms accumulated into one element; `scale` the magnitude S of one term
    (None: taken from the reference); `accumulate` the dtype of the accumulator (None: the buffer's own).
    `order="any"` compares the rows along the first axis as a multiset; `valid` names an integer buffer whose
    first element is the number of leading elements (with "any": rows) to compare. `relative` replaces the
    rule for suites that state their own figure; give its source in the description.
    """

    terms: Expr = 1
    scale: float | None = None
    accumulate: str | None = None
    order: Literal["exact", "any"] = "exact"
    valid: str | None = None
    relative: float | None = None


@dataclass(frozen=True)
class Buffer:
    """A device array of `shape` elements (C order) of `dtype`.

    `pad` is the number of readable elements before and after it in the same allocation (for kernels that
    read a halo outside their array). `promises`: properties that a side may rely on; inputs are varied in
    all other respects, also beyond the generator's range.
    """

    dtype: str
    shape: tuple[Expr, ...]
    init: Init | None = None
    role: Role = "in"
    tolerance: Tolerance | None = None
    pad: tuple[Expr, Expr] | None = None
    promises: tuple[Promise, ...] = ()


@dataclass(frozen=True)
class Scalar:
    """A scalar argument; for a struct by value, `dtype` is a field list and `value` maps names."""

    dtype: str | tuple[StructField, ...]
    value: Expr | float | Mapping[str, Expr | float]


@dataclass(frozen=True)
class BenchSize:
    """One of several size settings for timing; the `headline` determines the outcome of a verdict.

    `weight`, at least 0: the weight of this size when speedups over several sizes are combined.
    """

    name: str
    sizes: Mapping[str, int]
    headline: bool = False
    weight: float = 1.0


@dataclass(frozen=True)
class Sizes:
    """Named integers: several small settings for verification, one or several named ones for timing."""

    test: tuple[Mapping[str, int], ...]
    bench: Mapping[str, int] | tuple[BenchSize, ...]

    @property
    def headline(self) -> Mapping[str, int]:
        """The bench size that determines the outcome: the one marked `headline`, else the first."""
        if isinstance(self.bench, Mapping):
            return self.bench
        return next((size.sizes for size in self.bench if size.headline), self.bench[0].sizes)

    @property
    def others(self) -> tuple[BenchSize, ...]:
        """The bench sizes other than the headline."""
        named = () if isinstance(self.bench, Mapping) else self.bench
        return tuple(size for size in named if size.sizes is not self.headline)

    @property
    def all(self) -> tuple[Mapping[str, int], ...]:
        """Every setting that a side must run at, the headline after the test settings."""
        return (*self.test, self.headline, *(other.sizes for other in self.others))


@dataclass(frozen=True)
class BufferArg:
    """A pointer to element `offset` of a buffer."""

    buffer: str
    offset: Expr = 0


@dataclass(frozen=True)
class ValueArg:
    """A scalar computed at launch."""

    value: Expr | float
    dtype: str = "int32"


@dataclass(frozen=True)
class PointersArg:
    """A struct by value that contains pointers. `at`: the byte offset of each.

    Its other members come from the struct `scalar` in the problem's scalars. Without `scalar` it consists of
    the pointers, one after the other.
    """

    pointers: tuple[BufferArg, ...]
    at: tuple[int, ...] = ()
    scalar: str | None = None


@dataclass(frozen=True)
class TensorMapArg:
    """A TMA tensor map (`const __grid_constant__ CUtensorMap`) over a buffer, encoded by the driver.

    `shape` and `box` are in elements, innermost axis first; `strides` are the bytes between neighbours along
    every axis but the innermost (none: a dense array). Source: CUDA Driver API, cuTensorMapEncodeTiled.
    """

    tensor_map: str
    shape: tuple[Expr, ...]
    box: tuple[Expr, ...]
    strides: tuple[Expr, ...] = ()
    element_strides: tuple[Expr, ...] = ()
    offset: Expr = 0
    swizzle: Swizzle = "none"
    interleave: Interleave = "none"
    fill: Literal["zeros", "nan"] = "zeros"


Arg = str | BufferArg | ValueArg | PointersArg | TensorMapArg


@dataclass(frozen=True)
class Launch:
    """`launch<template><<<grid, block, shared_bytes>>>(args)`.

    `cluster` is the number of blocks in a thread block cluster along each axis (none: no clusters, or those
    of the kernel's own `__cluster_dims__`). A launch of a side in Triton has no `block`, but compile-time
    constants (`constexprs`), `num_warps` and `num_stages` (with Triton's defaults). `nulls` are parameters
    that get `None`.
    """

    launch: str
    grid: tuple[Expr, ...]
    block: tuple[Expr, ...] = ()
    args: tuple[Arg, ...] = ()
    template: tuple[str, ...] = ()
    shared_bytes: Expr = 0
    cooperative: bool = False
    cluster: tuple[Expr, ...] = ()
    constexprs: Mapping[str, Expr | float | bool] = field(default_factory=dict, hash=False)
    num_warps: Expr = 4
    num_stages: Expr = 3
    nulls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fill:
    """Set `count` elements of a buffer from `offset` (None: all of them) to `value`."""

    fill: str
    value: Expr | float = 0
    offset: Expr = 0
    count: Expr | None = None


@dataclass(frozen=True)
class Copy:
    """Copy `count` elements (None: the whole of `copy`) from buffer to buffer."""

    copy: str
    to: str
    offset: Expr = 0
    to_offset: Expr = 0
    count: Expr | None = None


@dataclass(frozen=True)
class Upload:
    """Copy `count` elements of a buffer into a `__constant__` or `__device__` symbol."""

    upload: str
    from_: str
    offset: Expr = 0
    to_offset: Expr = 0
    count: Expr | None = None


@dataclass(frozen=True)
class BindTexture:
    """Point the shim texture `bind_texture` at a buffer; `width` and `height` in texels for 2-D."""

    bind_texture: str
    buffer: str
    width: Expr | None = None
    height: Expr | None = None


@dataclass(frozen=True)
class Swap:
    """Exchange the storage of two buffers of equal shape and dtype from here on."""

    swap: tuple[str, str]


@dataclass(frozen=True)
class For:
    """Run `do` for `for_` = `from_`, `from_`+`step`, ... up to but excluding `to` (either direction)."""

    for_: str
    to: Expr
    do: tuple[Step, ...]
    from_: Expr = 0
    step: Expr = 1


@dataclass(frozen=True)
class WhileNonzero:
    """Run `do` once, then again while element 0 of the flag buffer is nonzero.

    More than `max` iterations are a failure of the side (`timeout`).
    """

    while_nonzero: str
    max: Expr
    do: tuple[Step, ...]


@dataclass(frozen=True)
class Call:
    """Run the forward pass of the PyTorch module class `call`; the only step of a side in PyTorch.

    `args` are buffers and scalars in the order of its parameters, `to` the buffers that receive its results
    (the copy is not timed), `state` maps its parameters and registered buffers to the problem's buffers.
    """

    call: str
    args: tuple[str, ...]
    to: tuple[str, ...]
    state: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reference:
    """The problem as a PyTorch module: `code` defines the class that `call` names. No judge runs it."""

    code: str
    call: Call


@dataclass(frozen=True)
class Problem:
    """What is computed: the same for both sides.

    `records`: groups of outputs whose elements i (rows i, if they have several axes) belong together, such as
    keys and values. `statement` describes the computation in words, `reference` in PyTorch; neither is
    judged. `single_size`: only one size was captured, or the code hard-codes it, and nothing in it can vary.
    Such problems are counted separately and used neither in datasets nor in training.
    """

    sizes: Sizes
    buffers: Mapping[str, Buffer]
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    single_size: bool = False
    records: tuple[tuple[str, ...], ...] = ()
    statement: str | None = None
    reference: Reference | None = None


Step = Launch | Fill | Copy | Upload | BindTexture | Swap | For | WhileNonzero | Call


def steps(plan: Iterable[Step]) -> Iterator[Step]:
    """Every step of a plan, each loop before the steps inside it."""
    for step in plan:
        yield step
        if isinstance(step, For | WhileNonzero):
            yield from steps(step.do)


@dataclass(frozen=True)
class View:
    """How a side lays out a logical buffer: axes permuted, then each axis padded (before, after)."""

    permute: tuple[int, ...] | None = None
    pad: tuple[tuple[Expr, Expr], ...] | None = None


@dataclass(frozen=True)
class Side:
    """One way to compute the problem: device code and the plan that launches it.

    `buffers` are additional buffers of this side (always `scratch` or `in`); `views` change the layout of
    logical buffers; `nondeterministic` names outputs whose rounding may differ from run to run
    (floating-point atomics). A side in `torch` is trusted Python text that calls one module (`Call`): its
    top-level integer constants with a size's name take that size's value. A side in `triton` is an untrusted
    module of `@triton.jit` functions, which its plan launches.
    """

    code: str
    plan: tuple[Step, ...]
    buffers: Mapping[str, Buffer] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    nondeterministic: tuple[str, ...] = ()
    language: Language = "cuda"
