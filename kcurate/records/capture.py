"""What a running program did with one kernel: its distinct launches, and what their buffers held, described.

No values are kept, only facts about them and generators that make such values. Sizes and offsets are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kcurate.records.problem import Init

CaptureSource = Literal["cupti", "cudart", "triton"]
MemoryKind = Literal["device", "managed", "host"]

# Larger values are none that generators and expressions can name; floats so large are bits of something else.
MOST_VALUE = 2.0**61


@dataclass(frozen=True)
class Contents:
    """What `count` elements of a buffer are like, as elements of `dtype`.

    `init`: the generator that makes such values; None: none fits. `facts`: what was seen of them, such as
    `lowest`, `highest`, `sorted`, `distinct`; `partial` if only the first `seen` elements were looked at.
    `sample`: the content id of kept values (`--keep-data`).
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
    """One argument: its bytes in hexadecimal, those of pointers as zeros. A null pointer is no pointer.

    `shape` and `strides` are those of a tensor, in elements.
    """

    hex: str
    pointers: tuple[CapturedPointer, ...] = ()
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True)
class CapturedBuffer:
    """An allocation that a launch was given, before and after it (None: not looked at, or no known type).

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
    """Launches of one form: the same grid, block and scalar arguments. `times`: how many there were.

    Of a kernel in Triton, `args` leaves out the compile-time constants (`constexprs`: those that autotuning
    chose included), and `block` is 32 threads for each warp.
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
    launched between two launches of this one, by name: the loops around it, as far as the order shows them.
    `complete` False: the program ended by a signal, or a limit was reached. Of a kernel in Triton, `mangled`
    is its name with its module's, `params` has Triton's names of types (`*fp16`, `i32`, `constexpr`), and
    `file` is where it was defined.
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
