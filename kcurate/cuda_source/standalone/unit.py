"""Extracts the kernels of one translation unit: splices, parses, computes closures, fills in reports."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate

from kcurate.core.grouping import grouped
from kcurate.cuda_source.launches.device_lambdas import with_named_lambdas
from kcurate.cuda_source.launches.instantiations import Instantiations
from kcurate.cuda_source.launches.kernel_scopes import Scopes
from kcurate.cuda_source.launches.launch_sites import Launch, find_launches
from kcurate.cuda_source.launches.macro_calls import expanded_calls
from kcurate.cuda_source.launches.second_reading import Compared, Finding, SecondReader, compare
from kcurate.cuda_source.parse.items import Item, parse
from kcurate.cuda_source.parse.parameters import params_in
from kcurate.cuda_source.preprocess.macros import MARK, global_macros, kernels_begun
from kcurate.cuda_source.preprocess.splicing import Hidden, Read, Resolve, Text, definitions, splice
from kcurate.cuda_source.standalone.closure import Unit
from kcurate.cuda_source.standalone.host_methods import with_host_methods
from kcurate.cuda_source.standalone.shim import repairs, shim_for
from kcurate.cuda_source.text.blanking import bare_file, blank_literals
from kcurate.cuda_source.text.brackets import closing
from kcurate.cuda_source.text.features import features, techniques
from kcurate.cuda_source.text.tokens import directives
from kcurate.records import Condition, LaunchSite, Param, Span

# The repair of a kernel template that nothing in its unit instantiates.
TEMPLATE_GUESS = "template-argument"
# The repair of a file with macros that only its build system defines.
BUILD_MACRO = "build-macro"
# The repair of a file with no declarations but those that a second reader reaches.
REACHED = "reached"
# A kernel's header is shorter.
MAX_HEAD_BYTES = 10_000
_CODE_LINE = re.compile(rb"\S[^\n]*")
_DEVICE_METHOD = re.compile(rb"\b__(?:device|global)__\b[^;{}]*\{")


class Mark(StrEnum):
    """What became of one occurrence of `__global__`."""

    KERNEL = "kernel"
    DECLARED = "declaration"
    MACRO = "in_macro"
    HIDDEN = "behind_condition"
    UNREAD = "unread"


@dataclass(frozen=True)
class KernelSource:
    """One kernel and what its unit tells about it; `code` is its self-contained file.

    `reached` is that file with no declarations but those that a compiler reaches; None: nothing tells them.
    """

    name: str
    qualified: str
    code: bytes
    span: Span
    params: tuple[Param, ...]
    instantiations: tuple[str, ...]
    launch_sites: tuple[LaunchSite, ...]
    closure: tuple[Span, ...]
    shims: tuple[str, ...]
    features: tuple[str, ...]
    techniques: tuple[str, ...]
    reached: bytes | None = None


@dataclass(frozen=True)
class UnitReport:
    """The unit of file `root`: its kernels in order, its launches, and facts about each of its files.

    `launches` are (qualified kernel name as far as the unit tells, site). `file_codes` maps a path to one
    file with all kernels defined there. `device_fractions` maps a path to the share of its code lines inside
    device functions, 0 to 1. `unread` counts, by path, the kernels that keywords announce and that could not
    be extracted. `conditions` counts the preprocessor conditions that were evaluated; `unevaluated` are those
    without a known value, and `hidden` those that leave out a `__global__`. `not_found` are includes that are
    neither in the tree nor standard. `marks` counts, by path, what became of each `__global__` outside
    comments and literals. `failed`: why reading ended early. `second`: the findings of a second reader.
    """

    root: str
    kernels: tuple[KernelSource, ...] = ()
    launches: tuple[tuple[str, LaunchSite], ...] = ()
    file_codes: Mapping[str, bytes] = field(default_factory=dict)
    device_fractions: Mapping[str, float] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    conditions: int = 0
    unevaluated: tuple[Condition, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    not_found: tuple[str, ...] = ()
    marks: Mapping[str, Mapping[Mark, int]] = field(default_factory=dict)
    failed: str | None = None
    second: tuple[Finding, ...] = ()

    def kernels_of(self, path: str) -> list[KernelSource]:
        """The kernels that a file defines, in order."""
        return [kernel for kernel in self.kernels if kernel.span.path == path]


def extract_unit(
    root: str,
    read: Read,
    resolve: Resolve,
    macros: Mapping[bytes, bytes] = {},
    second: SecondReader | None = None,
    *,
    file_codes: bool = True,
) -> UnitReport:
    """The report of one translation unit; with `file_codes` False it has none of these.

    `read(path)` returns a file's bytes or None. `resolve(name, includer)` returns the path of a quoted
    include or None. `macros` are those that compile flags define. `second` reads the unit too. Malformed
    source never raises; what cannot be parsed is left out.
    """
    spliced = splice(root, read, resolve, macros)
    if spliced is None:
        return UnitReport(root)
    text = with_named_lambdas(spliced)
    flags = definitions(macros)
    shim = flags + shim_for(text.source)
    parsed = with_host_methods(parse(shim + text.source))
    unit = Unit(parsed, len(shim), len(flags))
    calls = list(expanded_calls(parsed))
    all_launches = find_launches(parsed, calls)
    launches = [launch for launch in all_launches if launch.at >= len(shim)]
    scopes = Scopes(parsed)
    sites: list[tuple[str, LaunchSite]] = []
    sites_of: dict[int, list[LaunchSite]] = defaultdict(list)
    for launch in launches:
        site, meant = _site(launch, text, len(shim)), scopes.meant(launch)
        for item in meant:
            sites_of[item.start].append(site)
        names = {item.qualified: None for item in meant} or {launch.qualified: None}
        sites += [(name.decode("latin-1"), site) for name in names]
    kernel_items = [item for item in unit.kernels if item.start >= len(shim)]
    by_path = grouped((text.origin(item.start - len(shim))[0], item) for item in kernel_items)
    instantiations = Instantiations(parsed, launches, calls)
    compared = compare(kernel_items, instantiations, second, flags + text.source, len(shim) - len(flags))
    kernels = tuple(_kernel(unit, text, item, sites_of[item.start], compared) for item in kernel_items)
    return UnitReport(
        root,
        kernels=kernels,
        launches=tuple(sites),
        file_codes={
            path: unit.closure(items, [e for i in items for e in compared.of(i)]).code
            for path, items in (by_path.items() if file_codes else ())
        },
        device_fractions=_fractions(unit, text, by_path),
        unread=_unread(unit, text),
        conditions=text.conditions,
        unevaluated=text.unevaluated,
        hidden=text.hidden,
        not_found=text.not_found,
        marks={path: counted for path in text.files if (counted := _marks(unit, text, path))},
        second=tuple(_found(finding, text, len(shim)) for finding in compared.findings),
    )


def _found(finding: Finding, text: Text, shift: int) -> Finding:
    """The finding with its path and line filled in."""
    path, at = text.origin(max(0, finding.at - shift))
    return replace(finding, path=path, line=text.line(path, at))


def _unread(unit: Unit, text: Text) -> dict[str, int]:
    """The number of kernels, by path, that begin where no item was found; repeated includes count once."""
    shift = unit.shim_bytes
    bare = unit.parsed.bare
    heads = sorted((item.start, item.header_end) for item in unit.kernels)
    begun: set[tuple[str, int]] = set()
    for at in kernels_begun(bare, global_macros(bare)):
        before = bisect_right(heads, (at, len(bare))) - 1
        if at >= shift and not (before >= 0 and at < heads[before][1]):
            begun.add(text.origin(at - shift))
    return dict(Counter(path for path, _ in begun))


def marks_in(source: bytes) -> list[int]:
    """The offsets of `__global__` in a file, outside comments and literals."""
    return [match.start() for match in MARK.finditer(bare_file(source))] if MARK.search(source) else []


def _marks(unit: Unit, text: Text, path: str) -> dict[Mark, int]:
    """What became of the `__global__` of one file of the unit, as counts."""
    offsets = marks_in(text.files[path])
    if not offsets:
        return {}
    directive_spans = [match.span() for match in directives(bare_file(text.files[path]))]
    pieces = sorted((piece.start, piece.end, piece.at) for piece in text.pieces if piece.path == path)
    furthest = list(accumulate((end for _, end, _ in pieces), max))
    return dict(
        Counter(_mark(unit, at, directive_spans, pieces[bisect_right(furthest, at) :]) for at in offsets)
    )


def _mark(
    unit: Unit, at: int, lines: Sequence[tuple[int, int]], live: Sequence[tuple[int, int, int]]
) -> Mark:
    """What became of the `__global__` at byte `at` of a file.

    `lines` are the spans of the file's directives. `live` are the pieces of the file that the unit has:
    (start, end, offset in the unit).
    """
    if (line := bisect_right(lines, (at, len(unit.parsed.text)))) and at < lines[line - 1][1]:
        return Mark.MACRO
    piece = next((piece for piece in live if piece[0] <= at < piece[1]), None)
    if piece is None:
        return Mark.HIDDEN
    unit_at = unit.shim_bytes + piece[2] + at - piece[0]
    around = unit.marked_around(unit_at)
    if any(item.kernel and unit_at < item.header_end for item in around):
        return Mark.KERNEL
    return Mark.DECLARED if around or _declares(unit.parsed.text, unit_at) else Mark.UNREAD


def _declares(text: bytes, at: int) -> bool:
    """Whether a declaration without a body continues at byte `at`."""
    end = re.compile(rb"[;{}]").search(blank_literals(text[at : at + MAX_HEAD_BYTES]))
    return end is not None and end[0] == b";"


def _site(launch: Launch, text: Text, shift: int) -> LaunchSite:
    path, at = text.origin(launch.at - shift)
    return launch.site(path, text.line(path, at))


def _kernel(
    unit: Unit, text: Text, item: Item, sites: Sequence[LaunchSite], compared: Compared
) -> KernelSource:
    name, instantiations = item.names[-1].decode("latin-1"), compared.of(item)
    closure, shift = unit.closure([item], instantiations), unit.shim_bytes
    ats = compared.reached.get(item.start)
    reached = None if ats is None else unit.closure([item], instantiations, ats).code
    return KernelSource(
        name=name,
        qualified=item.qualified.decode("latin-1"),
        code=closure.code,
        span=text.span(item.start - shift, item.end - shift),
        params=params_in(item, unit.parsed.text),
        instantiations=instantiations,
        launch_sites=tuple(sites),
        closure=tuple(
            text.span(e.start - shift, e.end - shift)
            for e in closure.items
            if 0 <= e.start - shift < text.end
        ),
        shims=repairs(
            closure.shim_names,
            closure.repairs | ({TEMPLATE_GUESS} if item.start in compared.guessed else set()),
        ),
        features=features(closure.code),
        techniques=techniques(closure.code),
        reached=None if reached == closure.code else reached,
    )


def _fractions(unit: Unit, text: Text, paths: Iterable[str]) -> dict[str, float]:
    """For each path: code lines (not blank, no comment) inside device functions divided by all code lines."""
    device: dict[str, int] = defaultdict(int)
    shift = unit.shim_bytes
    for item in unit.parsed.items:
        if item.start >= shift and (item.kernel or item.device):
            path = text.origin(item.start - shift)[0]
            if item.kind == "function":
                device[path] += _code_lines(unit.parsed.text[item.start : item.end])
            elif item.kind == "type":
                device[path] += sum(map(_code_lines, _methods(unit.parsed.text[item.start : item.end])))
    total: dict[str, int] = defaultdict(int)
    for piece in text.pieces:
        start = piece.at + shift
        total[piece.path] += _code_lines(unit.parsed.text[start : start + piece.end - piece.start])
    return {path: device[path] / total[path] if total[path] else 0.0 for path in paths}


def _methods(text: bytes) -> Iterator[bytes]:
    """The texts of the device functions defined in a class body."""
    bare, at = blank_literals(text), 0
    for match in _DEVICE_METHOD.finditer(bare):
        end = closing(bare, match.end() - 1) if match.start() >= at else None
        if end is not None:
            yield text[match.start() : end]
            at = end


def _code_lines(text: bytes) -> int:
    return len(_CODE_LINE.findall(text))


def whole_file(code: bytes) -> UnitReport:
    """The report of a single file without includes."""
    return extract_unit(
        "kernel.cu", lambda path: code if path == "kernel.cu" else None, lambda name, path: None
    )
