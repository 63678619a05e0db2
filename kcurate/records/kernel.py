"""The output of `extract`: where a kernel came from, and everything inferred from its source.

Byte spans are half-open and index the file's raw bytes; lines count from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcurate.records.problem import Language


@dataclass(frozen=True)
class Source:
    """Origin and licence of code (an SPDX expression; None if unknown)."""

    suite: str
    url: str | None = None
    revision: str | None = None
    license: str | None = None


@dataclass(frozen=True)
class Sourced:
    """A fact and its source: a path in the tree and a line, or the option or manifest that states it."""

    value: str
    where: str
    line: int | None = None


@dataclass(frozen=True)
class Rights:
    """Licence and copyright of a kernel; repository, revision and path are in its `Source` and `Span`.

    `license` is the licence that applies (an SPDX expression), `spdx` the tag in the kernel's file, `holders`
    the copyright lines. `refused` says what contradicts `--licence` or restricts use; no pair of such a
    kernel is published.
    """

    license: Sourced | None = None
    spdx: Sourced | None = None
    holders: tuple[Sourced, ...] = ()
    refused: str | None = None


@dataclass(frozen=True)
class Span:
    """Half-open byte range `[start_byte, end_byte)` of `path`, and its first and last line.

    `cell` is that of a notebook, counted from 0; None: the file has no cells.
    """

    path: str
    start_byte: int
    end_byte: int
    start_line: int
    end_line: int
    cell: int | None = None


@dataclass(frozen=True)
class Param:
    """One kernel parameter as written."""

    name: str
    type: str
    const: bool = False
    pointer: bool = False
    restrict: bool = False


@dataclass(frozen=True)
class Argument:
    """One launch argument: the expression, and what the host code reveals about it.

    `role` is inferred from copies (host to device: `in`; device to host: `out`; both: `inout`; an allocation
    without copies: `scratch`); None if unknown.
    """

    expression: str
    kind: str | None = None
    role: str | None = None
    allocation: str | None = None


@dataclass(frozen=True)
class LaunchSite:
    """One `kernel<<<grid, block, shared, stream>>>(arguments)` in host code.

    For a launch in Triton, `kernel[grid](arguments, **keywords)`, the block is 32 threads for each warp.
    """

    path: str
    line: int
    grid: str
    block: str
    shared_bytes: str | None = None
    stream: str | None = None
    template_args: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] = ()
    loops: tuple[str, ...] = ()
    keywords: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Condition:
    """An `#if`, `#ifdef` or `#elif` that could not be evaluated, and why; its branch is left out."""

    path: str
    line: int
    text: str
    why: str


@dataclass(frozen=True)
class CompiledKernel:
    """The compiler's result for the standalone file; sizes in bytes, `arch` such as `sm_90`."""

    ok: bool
    arch: str
    compiler: str
    symbol: str | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    spill_bytes: int | None = None
    code_sha256: str | None = None
    log: str | None = None


@dataclass(frozen=True)
class Configuration:
    """One configuration for autotuning a kernel in Triton; a text is an expression of other parameters."""

    constexprs: Mapping[str, int | float | bool | str | None]
    num_warps: int = 4
    num_stages: int = 3


@dataclass(frozen=True)
class Kernel:
    """One kernel with everything it needs; its code is `kernel.cu` (Triton: `kernel.py`) in the same folder.

    `device_fraction` is the share of its file's code lines in device functions, 0 to 1. `unevaluated` are the
    preprocessor conditions of its translation unit that could not be evaluated, `flags` the compile flags
    that the unit was read with (`-DN=4`, `-Iinclude` relative to the tree, `-std=c++17`). `configurations`
    are the first ones that a kernel in Triton lists for autotuning.
    """

    id: str
    source: Source
    benchmark: str
    variant: str | None
    name: str
    span: Span
    root: str
    params: tuple[Param, ...]
    instantiations: tuple[str, ...] = ()
    launch_sites: tuple[LaunchSite, ...] = ()
    closure: tuple[Span, ...] = ()
    shims: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    techniques: tuple[str, ...] = ()
    domain: str | None = None
    family: str | None = None
    device_fraction: float | None = None
    compiled: CompiledKernel | None = None
    unevaluated: tuple[Condition, ...] = ()
    flags: tuple[str, ...] = ()
    language: Language = "cuda"
    configurations: tuple[Configuration, ...] = ()
    rights: Rights | None = None

    @property
    def license(self) -> str | None:
        """The licence under which pairs of it may be published; None if it is unknown or refused."""
        return None if self.rights and self.rights.refused else self.source.license
