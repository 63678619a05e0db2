"""Finds the host code of a kernel's translation unit from the kernel's record.

The tree is the one given, else one that extract was run on in this workspace. Not covered: interpreting the
host code (`name_values`).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

from kcurate.core.workspace import Workspace
from kcurate.cuda_source import blank_literals, kernel_signatures
from kcurate.cuda_source.launches.device_lambdas import with_named_lambdas
from kcurate.cuda_source.preprocess import expansion
from kcurate.cuda_source.preprocess.splicing import definitions, splice
from kcurate.cuda_source.semantics.code_index import Code
from kcurate.errors import InputError
from kcurate.forms.readers import CONTAINERS, read_part, suffix_of
from kcurate.records import Kernel, LaunchSite
from kcurate.suites import find_tree, generic_tree, load_manifests
from kcurate.suites.manifest import GENERIC

SOURCES = frozenset((".cu", ".cpp", ".cc", ".cxx", ".c"))
MAX_SIBLINGS = 24
# Longest launch configuration, in lines.
MAX_LAUNCH_LINES = 40
# A call that launches without `<<<` names the kernel within this many lines.
MAX_HEAD_LINES = 4
MAX_BYTES = 1 << 20
_MAIN = re.compile(rb"^[ \t]*(?:int|void|auto)\s+main\s*\(", re.MULTILINE)
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\\\r?\n|[^\n])*", re.MULTILINE)


def roots(trees: Sequence[Path], workspace: Workspace) -> tuple[Path, ...]:
    """Possible source trees: those given, else revisions of repositories and what extract was run on.

    Raises:
        InputError: a given tree does not exist.
    """
    for tree in trees:
        if not tree.exists():
            raise InputError("no such folder", where=str(tree), hint="name the sources with --tree")
    if trees:
        return tuple(trees)
    folders: list[Path] = []
    for config in sorted(workspace.root.glob("runs/extract-*/config.json"), reverse=True):
        try:
            paths = json.loads(config.read_bytes()).get("paths", [])
        except (OSError, ValueError):
            continue
        folders += [Path(str(path)) for path in paths]
    snapshots = sorted(path for path in workspace.history.glob("*") if path.is_dir())
    return tuple(dict.fromkeys([*snapshots, *folders]))


def hosts(kernel: Kernel, trees: Sequence[Path]) -> tuple[Code, ...]:
    """The units that may launch a kernel: the one it was parsed from, then the files of its launch sites.

    Empty if no tree contains them as recorded.
    """
    root = _root(kernel, trees)
    if root is None:
        return ()
    sites = (site.path for site in kernel.launch_sites if suffix_of(site.path) not in CONTAINERS)
    paths = dict.fromkeys((kernel.root, *sites))
    return tuple(host for path in paths if (host := _host(root, path, kernel.flags)) is not None)


def has_own_launch(kernel: Kernel) -> bool:
    """Whether the user gave its launch or it was guessed, as no host code has one: it is recorded at the
    kernel."""
    kernel_line = (kernel.span.path, kernel.span.start_line)
    return any((site.path, site.line) == kernel_line for site in kernel.launch_sites)


def _root(kernel: Kernel, trees: Sequence[Path]) -> Path | None:
    """The folder that the record's paths are relative to: it has the kernel and a launch as recorded.

    Of several, the first for which extract would give the same suite and names as the record.
    """
    folders = dict.fromkeys(
        folder for place in trees for folder in (place.resolve(), *place.resolve().parents)
    )
    fitting = [folder for folder in folders if _holds(folder, kernel)]
    return min(fitting, key=lambda folder: _suite(folder) != kernel.source.suite, default=None)


@lru_cache(maxsize=64)
def _suite(folder: Path) -> str:
    manifests = load_manifests()
    tree = find_tree(folder, manifests, parents=False) or generic_tree(folder, manifests[GENERIC])
    return tree.suite


def _holds(root: Path, kernel: Kernel) -> bool:
    span, sites = kernel.span, kernel.launch_sites
    data = _bytes(root / span.path)
    if data is None or span.end_byte > len(data):
        return False
    text = data[span.start_byte : span.end_byte]
    named_in_span = re.search(rb"\b%b\b" % re.escape(kernel.name.encode()), text)
    if named_in_span is None or data.count(b"\n", 0, span.start_byte) + 1 != span.start_line:
        return False
    if has_own_launch(kernel) and b"<<<" not in data.split(b"\n")[span.start_line - 1]:
        return False  # what host code says of other launches is not to overrule it
    if kernel.root.startswith(f"{span.path}/"):  # a part of the file
        return _bytes(root / kernel.root) is not None
    return not sites or any(_launched(root, site, kernel.name) for site in sites)


def _launched(root: Path, site: LaunchSite, name: str) -> bool:
    """Whether the file has this launch on the recorded line, or in a macro, which is used there.

    A call that launches in another way names the kernel there, or is one of the runtime. Launches in Python
    are in the record in the words of C.
    """
    if suffix_of(site.path) in CONTAINERS:
        return True
    data = _bytes(root / site.path)
    if data is None:
        return False
    text = blank_literals(data)
    lines = text.split(b"\n")[site.line - 1 :][:MAX_LAUNCH_LINES]
    launch = b"".join(f"<<<{site.grid},{site.block}".encode().split())
    call = b" ".join(lines[:MAX_HEAD_LINES])
    if b"<<<" not in call and re.search(rb"\b(?:%b\b|cudaLaunch)" % re.escape(name.encode()), call):
        return True
    bodies = chain([b"".join(lines)], (definition.body for definition in expansion.definitions(text)))
    return any(launch in b"".join(body.split()) for body in bodies)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() else read_part(path)
    except OSError:
        return None


@lru_cache(maxsize=8)
def _host(root: Path, path: str, flags: tuple[str, ...]) -> Code | None:
    """A unit and the other sources of its folder, read with the flags of the kernel's record."""
    folders = [flag[2:] for flag in flags if flag.startswith("-I")]
    defined = (flag[2:].encode().partition(b"=") for flag in flags if flag.startswith("-D"))
    macros = {name: value if sign else b"1" for name, sign, value in defined}

    def read(name: str) -> bytes | None:
        return _bytes(root / name)

    def resolve(name: str, includer: str) -> str | None:
        for folder in (posixpath.dirname(includer), posixpath.dirname(path), *folders, "include", ""):
            candidate = posixpath.normpath(posixpath.join(folder, name))
            if not candidate.startswith("..") and _bytes(root / candidate) is not None:
                return candidate
        return None

    spliced = splice(path, read, resolve, macros)
    if spliced is None:
        return None
    text = with_named_lambdas(spliced)
    parts, seen = [definitions(macros), text.source], {*text.files, path}
    program = _MAIN.search(text.source) is not None
    launched = {launch.kernel.rpartition(b"::")[2] for launch in Code(text.source).launches}
    launched &= _kernels(text.source)
    for other in _siblings(root, path):
        spliced_sibling = splice(other, read, resolve, macros) if other not in seen else None
        if spliced_sibling is None or (program and _MAIN.search(spliced_sibling.source)):
            continue  # another program
        if launched & _kernels(_bytes(root / other) or b""):
            continue  # it launches its own kernel of that name
        if sum(map(len, parts)) + len(spliced_sibling.source) <= MAX_BYTES:
            seen |= {other, *spliced_sibling.files}
            parts.append(_without_defined(spliced_sibling.source, parts))
    return Code(b"\n".join(parts))


def _kernels(source: bytes) -> set[bytes]:
    """The unqualified names of the kernels that a source defines."""
    return {name.rpartition("::")[2].encode() for name in kernel_signatures(source)}


def _without_defined(source: bytes, before: Sequence[bytes]) -> bytes:
    """A source without the macros that the sources before it define: the unit's own hold in it."""
    already_defined = {match[1] for part in before for match in _DEFINE.finditer(part)}
    return _DEFINE.sub(lambda match: b"" if match[1] in already_defined else match[0], source)


def _siblings(root: Path, path: str) -> list[str]:
    """The other source files in a unit's folder: callers are often in one of them."""
    folder = (root / path).parent
    if not folder.is_dir():
        return []
    files = sorted(file for file in folder.iterdir() if file.suffix in SOURCES and file.is_file())
    inside = [file.relative_to(root).as_posix() for file in files if file.is_relative_to(root)]
    return inside if len(inside) <= MAX_SIBLINGS else []
