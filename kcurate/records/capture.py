"""What a running program did with one kernel: its distinct launches, and descriptions of their buffers.

No values are kept, only facts about them and generators of similar values. Sizes and offsets are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kcurate.records.problem import Init

CaptureSource = Literal["cupti", "cudart", "triton"]
MemoryKind = Literal["device", "managed", "host"]

# Generators and expressions cannot express larger values; a larger float is usually not a float at all.
MOST_VALUE = 2.0**61


@dataclass(frozen=True)
class Contents:
    """A description of `count` elements of a buffer, as elements of `dtype`.

    `init`: the generator that makes such values; None: none fits. `facts`: properties such as `lowest`,
    `highest`, `sorted`, `distinct`; `partial` if only the first `seen` elements were read. `sample`: the
    content id of kept values (`--keep-data`).
    """

    dtype: str
    count: int
    init: Init | None = None
    facts: Mapping[str, int | float | bool] = field(default_factory=dict)
    sample: str | None = None


@dataclass(frozen=True)
class CapturedPointer:
    """A pointer `at` bytes into an argument, `offset` bytes into the launch's buffer number `buffer`."""

    at: int
    buffer: int
    offset: int = 0


@dataclass(frozen=True)
class CapturedArg:
    """One argument: its bytes in hexadecimal, with zeros for pointers. Null pointers are not in `pointers`.

    `shape` and `strides`: of a tensor, in elements.
    """

    hex: str
    pointers: tuple[CapturedPointer, ...] = ()
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True)
class CapturedBuffer:
    """An allocation that a launch used, before and after it (None: not read, or of unknown type).

    `changed`: whether the launch changed it; None: not compared.
    """

    size_bytes: int
    memory: MemoryKind = "device"
    changed: bool | None = None
    before: Contents | None = None
    after: Contents | None = None


@dataclass(frozen=True)
class CapturedSymbol:
    """A `__constant__` or `__device__` variable that the program wrote before the launch."""

    name: str
    size_bytes: int
    before: Contents | None = None


@dataclass(frozen=True)
class CapturedLaunch:
    """Launches with the same grid, block and scalar arguments. `times`: how many there were.

    For a kernel in Triton, `args` has no compile-time constants: these are in `constexprs`, including those
    that autotuning chose. `block` is 32 threads for each warp.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[CapturedArg, ...]
    buffers: tuple[CapturedBuffer, ...] = ()
    symbols: tuple[CapturedSymbol, ...] = ()
    cluster: tuple[int, int, int] | None = None
    shared_bytes: int = 0
    cooperative: bool = False
    times: int = 1
    constexprs: Mapping[str, int | float | bool | str | None] = field(default_factory=dict, hash=False)
    num_stages: int | None = None


@dataclass(frozen=True)
class Capture:
    """One kernel of one program, `captures/<program>/<content id>.json`.

    `kernel` is the demangled name with template arguments, `mangled` the name in the binary, `params` the
    parameter types as far as they are known. `device`: where it ran. `after`: how often each other kernel was
    launched between two launches of this one, by name, which hints at the loops around it. `complete` False:
    a signal ended the program, or a limit was reached. For a kernel in Triton, `mangled` is its name with the
    name of its module, `params` has Triton's names of types (`*fp16`, `i32`, `constexpr`), and `file` is the
    file that defines it.
    """

    program: str
    kernel: str
    mangled: str
    source: CaptureSource
    device: str
    params: tuple[str, ...]
    launches: tuple[CapturedLaunch, ...]
    after: Mapping[str, int] = field(default_factory=dict)
    complete: bool = True
    file: str | None = None
