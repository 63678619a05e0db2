"""From the user's paths to the files worth parsing, and the unit to parse each from.

A unit is a translation unit: a source file with the local files that it includes. Not covered: parsing
(`kcurate.extract.units`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from kcurate.core import time_limits
from kcurate.core.grouping import grouped
from kcurate.core.json_text import shown
from kcurate.core.worker_pool import Failure, Pool
from kcurate.cuda_source import bare_file, global_macros, local_includes, marks_in
from kcurate.errors import BackendError, InputError, OptionError
from kcurate.extract.flags import FlagFinder, Flags
from kcurate.extract.includes import Reader, by_ending, include_graph, reachable, repositories, roots_of
from kcurate.extract.reasons import Lost
from kcurate.extract.walk import COPIES, FileOutcome, Filter, Found, Walker, read_source
from kcurate.forms import readers
from kcurate.forms.parts import Part, SourceMap, line_breaks, plain
from kcurate.forms.python_launches import definitions, launches
from kcurate.forms.readers import CONTAINERS, CUDA_SUFFIXES, PYTHON_SUFFIX, SOURCE_SUFFIXES
from kcurate.records import LaunchSite, Span
from kcurate.suites import (
    Manifest,
    Place,
    Tree,
    find_tree,
    forced_tree,
    generic_tree,
    load_manifest,
    load_manifests,
)
from kcurate.suites.manifest import GENERIC

AUTO = "auto"
# A file without the first mark defines no kernel; a file without the second launches none.
KERNEL_MARK = b"__global__"
LAUNCH_MARKS = b"<<<", b"cudaLaunch"
# Where a kernel begins in a text computed at run time, and the name before its parameters.
_KERNEL_START = re.compile(rb"\b__global__\b|^[ \t]*@(?:triton\.)?jit\b", re.MULTILINE)
_NAME = re.compile(rb"\b(?!__)(\w+)[}\s]*\(")
_TRITON_MARK = re.compile(rb"@(?:\w+\.)*jit\b")
SCAN_CHUNK = 64
# Files of one part of a tree with several repositories.
BUNDLE_FILES = 2000
# The outcome of a kernel in a string that the program computes at run time.
COMPUTED_TEXT = "computed_text"


@dataclass
class TreeFiles:
    """One tree, or a part of one: the files found in it, and the units to parse.

    `repository` returns the folder of the repository that a file is in. `roots` maps each file that may
    define kernels to the units to parse it from, best first; `launchers` are more units, parsed only for
    their launches. `flags` and `located` are by unit; `located` has (name, includer, file) for includes that
    no include folder resolves. `with_variants` are the units with files of a variant folder, which are
    compared with files of other variants. `modules` are (path, whether it defines Triton functions) of all
    Python files, empty if none does. `marks` counts the `__global__` in each file's text. `source_maps` maps
    the path of a part (CUDA text inside another file) to the map from it to its file. `lost` are the kernels
    in texts that are computed at run time, by file. `launches` are those in Python code, each with the
    kernel's name. `definitions` are values that Python code gives to macros in CUDA code, the most frequent
    one for each macro.
    """

    tree: Tree
    found: list[Found] = field(default_factory=list)
    repository: Callable[[str], str] = lambda path: ""
    roots: dict[str, list[str]] = field(default_factory=dict)
    launchers: list[str] = field(default_factory=list)
    flags: dict[str, Flags] = field(default_factory=dict)
    located: dict[str, tuple[tuple[str, str, str], ...]] = field(default_factory=dict)
    with_variants: set[str] = field(default_factory=set)
    modules: tuple[tuple[str, bool], ...] = ()
    marks: dict[str, int] = field(default_factory=dict)
    source_maps: dict[str, SourceMap] = field(default_factory=dict)
    lost: dict[str, tuple[Lost, ...]] = field(default_factory=dict)
    launches: tuple[tuple[str, LaunchSite], ...] = ()
    definitions: Mapping[str, str] = field(default_factory=dict)

    def file(self, path: str) -> str:
        """The file that a path denotes or is a part of."""
        return self.source_maps[path].file if path in self.source_maps else path

    def place(self, path: str) -> Place | None:
        """The place of a file in the suite; a part is placed in a folder with its file's name."""
        place = self.tree.locate(file := self.file(path))
        return place and replace(place, rest=place.rest + path.removeprefix(file))

    def line(self, path: str, line: int) -> int:
        """The line in the whole file, for a line of a file or of a part of one."""
        return self.source_maps[path].line(line) if path in self.source_maps else line

    def span(self, span: Span) -> Span:
        """The span in the whole file, with a printable path, for a span of a file or of a part of one."""
        span = self.source_maps[span.path].span(span) if span.path in self.source_maps else span
        return replace(span, path=shown(span.path))


def find_files(
    paths: Sequence[Path], suite: str, filter_: Filter, root: Path | None = None
) -> list[TreeFiles]:
    """Walk the paths; returns the trees in the order found.

    `root` is the tree of the paths that belong to no suite (None: each folder, or a file's folder, is a
    tree).

    Raises:
        InputError: a path is missing, the suite is unknown, or two trees belong to the same suite.
    """
    manifests = load_manifests()
    forced = _forced(suite, manifests)
    walker = Walker(manifests, filter_)
    trees: dict[tuple[str, Path], TreeFiles] = {}
    for path in paths:
        absolute = _existing(path)
        folder = absolute if absolute.is_dir() else absolute.parent
        if forced is not None:
            tree = forced_tree(folder, forced)
        else:
            tree = find_tree(folder, manifests) or generic_tree(root or folder, manifests[GENERIC])
        for file in walker.walk(absolute, tree, detect=forced is None):
            key = (file.tree.suite, file.tree.root)
            trees.setdefault(key, TreeFiles(file.tree)).found.append(file)
    suites = [name for name, _ in trees]
    for name in suites:
        if suites.count(name) > 1:
            raise InputError(
                f"two different trees would both be extracted as {name!r}",
                where=", ".join(str(root) for suite_, root in trees if suite_ == name),
                hint="extract them into separate workspaces",
            )
    return list(trees.values())


def _forced(suite: str, manifests: Mapping[str, Manifest]) -> Manifest | None:
    if suite == AUTO:
        return None
    if suite.endswith(".toml"):
        return load_manifest(Path(suite))
    if suite not in manifests:
        names = ", ".join([AUTO, *manifests])
        raise OptionError(f"unknown suite {suite!r}", where="--suite", hint=f"one of {names}")
    return manifests[suite]


def _existing(path: Path) -> Path:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a symbolic link loop
        reason = getattr(error, "strerror", None) or "a symbolic link loop"
        raise InputError(f"cannot read: {reason}", where=str(path), hint="check the path") from error


@dataclass(frozen=True)
class ScanTask:
    """Source files to scan: the tree's root and paths in it."""

    root: Path
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Scanned:
    """What the bytes of a file tell: its outcome (None: it is text to parse) and the names in its includes.

    `kernel`: whether it contains `__global__`, or for a Python file `@triton.jit`. `launch`: whether it
    contains a launch. `macros` are those that it defines and that expand to `__global__`. `marks` counts
    `__global__` outside comments and literals. `source_map` maps a part to its file. `lost`, `launches` and
    `definitions` as in `TreeFiles`.
    """

    path: str
    outcome: FileOutcome | None
    includes: tuple[str, ...] = ()
    kernel: bool = False
    launch: bool = False
    macros: tuple[bytes, ...] = ()
    marks: int = 0
    source_map: SourceMap | None = None
    lost: tuple[Lost, ...] = ()
    launches: tuple[tuple[str, LaunchSite], ...] = ()
    definitions: tuple[tuple[str, str], ...] = ()


def scan(task: ScanTask) -> list[Scanned]:
    """Read files and report what is in them and in their parts."""
    scanned = (_scan_file(path, read_source(task.root / path)) for path in task.paths)
    return [file_or_part for result in scanned for file_or_part in result]


def _scan_file(path: str, data: bytes | FileOutcome) -> list[Scanned]:
    if isinstance(data, FileOutcome):
        return [Scanned(path, data)]
    scanned = _scan(path, data)
    try:
        parts = list(readers.parts(path.rpartition("/")[2], data))
    except readers.ReaderFailed:
        # For a module with Triton kernels, their own reader reports the failure.
        return [scanned if scanned.kernel else Scanned(path, FileOutcome.READER_FAILED)]
    breaks = line_breaks(data) if parts else []
    scanned_parts = [
        replace(
            _scan(f"{path}/{part.name}", plain(part.segments)), source_map=SourceMap.of(path, part, breaks)
        )
        for part in parts
        if not part.why
    ]
    computed = [part for part in parts if part.why]
    lost = tuple(kernel for part in computed for kernel in _lost(part, breaks))
    marks = scanned.marks + sum(plain(part.segments).count(KERNEL_MARK) for part in computed)
    return [replace(scanned, lost=lost, marks=marks), *scanned_parts]


def _lost(part: Part, breaks: Sequence[int]) -> Iterator[Lost]:
    """The kernels in a text that is computed at run time."""
    text, source_map = plain(part.segments), SourceMap.of("", part, breaks)
    for kernel in _KERNEL_START.finditer(text):
        named = _NAME.search(text, kernel.end())
        line = source_map.line(text.count(b"\n", 0, kernel.start()) + 1)
        yield Lost(named[1].decode("latin-1") if named else "?", line, COMPUTED_TEXT, part.why or "")


def _scan(path: str, data: bytes) -> Scanned:
    if path.endswith(PYTHON_SUFFIX):
        triton = b"triton" in data and _TRITON_MARK.search(data) is not None
        return Scanned(
            path, None, kernel=triton, launches=launches(path, data), definitions=definitions(data)
        )
    if readers.suffix_of(path) in CONTAINERS:
        return Scanned(path, None)
    kernel = KERNEL_MARK in data
    macros = tuple(sorted(global_macros(bare_file(data)).all)) if kernel else ()
    return Scanned(path, None, local_includes(data), kernel, _marked(data), macros, len(marks_in(data)))


def bundles(files: TreeFiles) -> Iterator[TreeFiles]:
    """The files of a tree in parts of about `BUNDLE_FILES`; reading one after the other bounds memory.

    A part has whole repositories, and all repositories in one top-level folder, which are one benchmark. A
    tree that is a single repository is one part.
    """
    suite = files.tree.manifest.layout.markers
    repository = repositories(() if suite else (file.path for file in files.found))
    by_top = grouped((repository(file.path).partition("/")[0], file) for file in files.found)
    part: list[Found] = []
    for benchmark in by_top.values():
        if part and len(part) + len(benchmark) > BUNDLE_FILES:
            yield TreeFiles(files.tree, part, repository)
            part = []
        part = [*part, *benchmark]
    yield TreeFiles(files.tree, part, repository)


def choose_units(files: TreeFiles, pool: Pool, finder: FlagFinder) -> None:
    """Scan every source of a tree, set the outcomes known from its bytes, and choose the units to parse."""
    reader = Reader.of(files.tree)
    repository = files.repository
    paths = (file.path for file in files.found if file.outcome is None or file.outcome in COPIES)
    reader.locate = by_ending(paths, repository)
    scanned = _scan_all(files, pool)
    _set_outcomes(files, scanned, reader)
    files.modules = _python_modules(scanned)
    values = Counter(name_value for path in sorted(scanned) for name_value in scanned[path].definitions)
    # The rarest first, so that the most frequent value of a name is the one that stays.
    files.definitions = dict(reversed([name_value for name_value, _ in values.most_common()]))
    files.launches = tuple(launch for path in sorted(scanned) for launch in scanned[path].launches)
    sources = [path for path in sorted(scanned) if scanned[path].outcome is None and not _contains(path)]
    macros = _outside_macros(sources, scanned, reader, finder)
    with_kernels = _with_kernels(sources, scanned, reader, macros)
    sources_and_context = [*sources, *_context(files, with_kernels)] if with_kernels else []
    graph = include_graph(reader, sources_and_context, lambda path: finder.of(path).include)
    roots = roots_of(graph)
    for path in with_kernels:
        # The best unit, then the file by itself in case that unit skips its kernels.
        files.roots[path] = list(dict.fromkeys([roots[path][0], path]))
    files.marks = {path: scanned[path].marks for path in (*with_kernels, *files.lost)}
    files.launchers = _launchers(files, graph, scanned, reader)
    _describe_units(files, graph, reader, finder)


def _contains(path: str) -> bool:
    """Whether a file is a container, which has no CUDA of its own, only parts."""
    return readers.suffix_of(path) in CONTAINERS


def _set_outcomes(files: TreeFiles, scanned: Mapping[str, Scanned], reader: Reader) -> None:
    """Set the outcomes that bytes determine, and record includes, source maps and lost kernels."""
    with_parts = {part.source_map.file for part in scanned.values() if part.source_map is not None}
    for index, file in enumerate(files.found):
        if file.outcome is None:
            seen = scanned[file.path]
            outcome = seen.outcome
            code = seen.kernel or seen.lost or file.path in with_parts
            if outcome is None and _contains(file.path) and not code:
                outcome = FileOutcome.NOT_SOURCE
            if outcome is not None:
                files.found[index] = Found(file.tree, file.path, outcome)
    for path, seen in scanned.items():
        if seen.outcome is None:
            reader.includes[path] = seen.includes
        if seen.source_map is not None:
            files.source_maps[path] = seen.source_map
        if seen.lost:
            files.lost[path] = seen.lost


def _python_modules(scanned: Mapping[str, Scanned]) -> tuple[tuple[str, bool], ...]:
    """The value of `TreeFiles.modules`: empty if no Python file defines Triton functions."""
    python = (seen for path, seen in sorted(scanned.items()) if path.endswith(PYTHON_SUFFIX))
    modules = tuple((seen.path, seen.kernel) for seen in python if seen.outcome is None)
    return modules if any(kernel for _, kernel in modules) else ()


def _launchers(
    files: TreeFiles, graph: Mapping[str, tuple[str, ...]], scanned: Mapping[str, Scanned], reader: Reader
) -> list[str]:
    """The CUDA files with launches that no file includes and that are not the best unit of a kernel."""
    chosen = {units[0] for units in files.roots.values()}
    included = {target for targets in graph.values() for target in targets}
    return sorted(
        path
        for path in graph.keys() - chosen - included
        if readers.suffix_of(path) in CUDA_SUFFIXES
        and (scanned[path].launch if path in scanned else _marked(reader.read(path) or b""))
    )


def _describe_units(
    files: TreeFiles, graph: Mapping[str, tuple[str, ...]], reader: Reader, finder: FlagFinder
) -> None:
    """Set the flags of every unit, its `located` includes, and whether it has files of a variant."""
    in_variants = {path for path in files.roots if (place := files.place(path)) and place.variant is not None}
    for unit in {unit for units in files.roots.values() for unit in units} | set(files.launchers):
        files.flags[unit] = finder.of(unit)
        inside = reachable(graph, unit)
        if not in_variants.isdisjoint(inside):
            files.with_variants.add(unit)
        files.located[unit] = tuple(
            (name, by, target)
            for by in sorted(inside)
            for name in reader.names(by)
            if (target := reader.located.get((name, by))) is not None
        )


def _outside_macros(
    sources: Sequence[str], scanned: Mapping[str, Scanned], reader: Reader, finder: FlagFinder
) -> frozenset[bytes]:
    """The macros that expand to `__global__` in headers that are included but not among the files."""
    without_mark = [
        path for path in sources if not scanned[path].kernel and readers.suffix_of(path) in CUDA_SUFFIXES
    ]
    graph = include_graph(reader, without_mark, lambda path: finder.of(path).include)
    texts = (reader.read(path) or b"" for path in graph.keys() - scanned.keys())
    return frozenset().union(*(global_macros(bare_file(text)).all for text in texts if KERNEL_MARK in text))


def _with_kernels(
    sources: Sequence[str], scanned: Mapping[str, Scanned], reader: Reader, macros: Set[bytes]
) -> list[str]:
    """The files that may define kernels: those with `__global__`, or with a macro that expands to it.

    `macros` are such macros that no scanned file defines.
    """
    macros = macros | {macro for path in sources for macro in scanned[path].macros}
    if not macros:
        return [path for path in sources if scanned[path].kernel]
    macro_use = re.compile(rb"\b(?:" + b"|".join(sorted(macros)) + rb")\b")
    return [path for path in sources if scanned[path].kernel or macro_use.search(reader.read(path) or b"")]


def _marked(data: bytes) -> bool:
    return any(mark in data for mark in LAUNCH_MARKS)


def _scan_all(files: TreeFiles, pool: Pool) -> dict[str, Scanned]:
    paths = [file.path for file in files.found if file.outcome is None]
    tasks = [
        ScanTask(files.tree.root, tuple(paths[at : at + SCAN_CHUNK]))
        for at in range(0, len(paths), SCAN_CHUNK)
    ]
    scanned: dict[str, Scanned] = {}
    for index, result in pool.run(scan, tasks, timeout_s=time_limits.SCAN_FILES_S):
        if isinstance(result, Failure):
            raise BackendError(f"reading files {result.kind}: {result.detail}", where=str(tasks[index].root))
        scanned.update((file_or_part.path, file_or_part) for file_or_part in result)
    return scanned


def _context(files: TreeFiles, with_kernels: Iterable[str]) -> list[str]:
    """Nearby sources that were not requested but may include the files with kernels.

    In a suite: everything in the folder of the benchmark or variant; otherwise the files in the same folder.
    """
    tree = files.tree
    folders: dict[Path, bool] = {}
    for path in (path for path in with_kernels if path not in files.source_maps):
        place = tree.locate(path)
        if place is not None and tree.manifest.layout.markers:
            folders[tree.root / path.removesuffix(place.rest)] = True
        else:
            folders[(tree.root / path).parent] = False
    known = {file.path for file in files.found}
    result: set[str] = set()
    for folder, recursive in sorted(folders.items()):
        entries = (
            Walker({}, Filter()).walk(folder, tree, detect=False) if recursive else _neighbours(folder, tree)
        )
        sources = (file.path for file in entries if readers.suffix_of(file.path) in SOURCE_SUFFIXES)
        result.update(path for path in sources if path not in known)
    excluded = (file.path for file in files.found if file.outcome in (FileOutcome.EXCLUDED, *COPIES))
    return sorted(result | set(excluded))


def _neighbours(folder: Path, tree: Tree) -> list[Found]:
    return [
        Found(tree, path.relative_to(tree.root).as_posix(), None)
        for path in folder.iterdir()
        if path.is_file()
    ]
