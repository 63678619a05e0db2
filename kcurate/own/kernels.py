"""`FILE.cu[:KERNEL]` to an extracted kernel; its file is read as a tree of its own.

Not covered: extraction (`kcurate.extract`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path

from kcurate.core import own_files
from kcurate.core.grouping import grouped
from kcurate.core.notes import Note, silent
from kcurate.core.workspace import Workspace
from kcurate.cuda_source.semantics.code_index import Code
from kcurate.draft.for_pairs.other_kernel import PairKernel
from kcurate.errors import InputError
from kcurate.extract.compiling import find_compiler
from kcurate.extract.merge import TreeKernels
from kcurate.extract.settings import ExtractConfig
from kcurate.extract.stage import extract
from kcurate.forms.readers import CUDA_SUFFIXES, SOURCE_SUFFIXES, suffix_of
from kcurate.judge.workers.own_lines import first_error
from kcurate.records import Kernel


@dataclass(frozen=True)
class UserKernel:
    """A kernel in a user's file: the file, its bytes when it was read, the kernel as extracted.

    `not_found`: the names that its file includes and that no folder has.
    """

    path: Path
    data: bytes
    extracted: PairKernel
    not_found: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """`FILE:KERNEL`."""
        return f"{self.path.name}:{self.kernel.name}"

    @property
    def kernel(self) -> Kernel:
        """The kernel's record, as extracted."""
        return self.extracted.kernel

    @property
    def code(self) -> str:
        """The kernel's self-contained code, as extracted."""
        return self.extracted.code

    @property
    def text(self) -> str:
        """The file."""
        return self.data.decode("utf-8", "replace")

    @property
    def template(self) -> tuple[str, ...]:
        """The template's parameters; empty: the kernel is no template."""
        function = Code(self.code.encode("latin-1", "replace")).function(self.kernel.name)
        return function.template if function is not None else ()


def find_kernels(
    names: Sequence[str],
    workspace: Path,
    *,
    note: Note = silent,
    compile: bool | None = None,
    licence: str | None = None,
    define: tuple[str, ...] = (),
    include_dirs: tuple[Path, ...] = (),
) -> list[UserKernel]:
    """Extract the files into the workspace; the kernel that each text names. Options are those of `extract`.

    Raises:
        InputError: a file that cannot be read or holds no kernel, a text that names none or several, or a
            kernel that does not compile.
    """
    files_and_names = [_split(text) for text in names]
    data = {path: _read(path, text) for (path, _), text in zip(files_and_names, names, strict=True)}
    root = _root(data, include_dirs)
    config = ExtractConfig(tuple(data), workspace, define=define, include_dirs=include_dirs, root=root)
    trees: list[TreeKernels] = []
    if compile is None:  # the emulator compiles both sides anyway, so no word where NVRTC is not installed
        compile = find_compiler(None, silent) is not None
    try:
        extract(replace(config, compile=compile, licence=licence, pairs=False), note=note, keep=trees)
    except InputError as error:
        for path in data if error.what.startswith("no CUDA kernel found") else ():
            if _kernels_included(path) or _not_there(path, include_dirs):
                raise _no_kernel(path, include_dirs) from None
        raise
    folder = Workspace(workspace).kernels
    kernels_of_file = grouped(
        (
            tree.tree.root / kernel.span.path,
            PairKernel(kernel, folder / kernel.id, tree.codes[kernel.id].decode("utf-8", "replace")),
        )
        for tree in trees
        for kernel in tree.kernels
    )
    not_found: dict[Path, tuple[str, ...]] = {}
    for tree in trees:
        not_found |= {tree.tree.root / file: names for file, names in tree.not_found.items()}
    kernels = [
        UserKernel(path, data[path], _chosen(path, name, kernels_of_file[path]), not_found.get(path, ()))
        for path, name in files_and_names
    ]
    for user_kernel in kernels:
        _check_compiled(user_kernel)
    return kernels


def _check_compiled(user_kernel: UserKernel) -> None:
    """Raises:
    InputError: it was compiled, and does not compile.
    """
    built = user_kernel.kernel.compiled
    if built is None or built.ok:
        return
    # A template that nothing launches yet has no code in the cubin, and no error either.
    launched = not user_kernel.template or user_kernel.kernel.instantiations
    if launched or first_error(built.log or "", user_kernel.code) is not None:
        hint = f"the compiler's whole log is in {user_kernel.extracted.folder / 'kernel.json'}"
        raise compile_error(user_kernel, built.log or "", hint)


def missing_include(user_kernel: UserKernel, error: InputError) -> InputError | None:
    """The error that caused `error`: an included file that was not found; None if all were found."""
    if not user_kernel.not_found:
        return None
    name = user_kernel.not_found[0]
    include = re.search(
        rf'^[ \t]*#[ \t]*include[ \t]*(["<]{re.escape(name)}[">])', user_kernel.text, re.MULTILINE
    )
    line = f":{user_kernel.text.count(chr(10), 0, include.start()) + 1}" if include else ""
    shown = include[1] if include else f'"{name}"'
    folders = (flag[2:] for flag in user_kernel.kernel.flags if flag.startswith("-I"))
    searched = ", ".join((str(user_kernel.path.parent), *folders))
    hint = f"name the folder that it is looked for in with -I DIR (searched: {searched})"
    return InputError(f"{shown} is not found, so {error.what}", where=f"{user_kernel.path}{line}", hint=hint)


def compile_error(user_kernel: UserKernel, log: str, hint: str) -> InputError:
    """The compiler's first message, at the line of the user's file that it is about.

    If that file includes one that was not found, the error says so instead.
    """
    name, lines = user_kernel.kernel.name, user_kernel.code.splitlines()
    at, words = first_error(log, user_kernel.code) or (None, "the compiler gives no reason")
    where, what = str(user_kernel.path), f"{name} does not compile by itself: {words}"
    if at is not None:
        line = _line_in_file(at, lines, user_kernel.text.splitlines())
        where = f"{user_kernel.path}:{line}" if line else f"{user_kernel.extracted.folder / 'kernel.cu'}:{at}"
        text = lines[at - 1].strip() if 0 < at <= len(lines) else ""
        what += f", in {text!r}" if text else ""
    error = InputError(what, where=where, hint=hint)
    return missing_include(user_kernel, error) or error


def _line_in_file(at: int, extracted: Sequence[str], user_lines: Sequence[str]) -> int | None:
    """The line of the user's file for line `at` (from 1) of the extracted code; None if it is from another
    file."""
    extracted_lines, stripped_lines = ([line.strip() for line in lines] for lines in (extracted, user_lines))
    if 0 < at <= len(extracted_lines) and stripped_lines.count(extracted_lines[at - 1]) == 1:
        return stripped_lines.index(extracted_lines[at - 1]) + 1
    for block in SequenceMatcher(None, extracted_lines, stripped_lines, autojunk=False).get_matching_blocks():
        if block.a < at <= block.a + block.size:
            return block.b + at - block.a
    return None


def _root(paths: Iterable[Path], include_dirs: Sequence[Path]) -> Path | None:
    """The folder above the files and their headers; None if each file's folder can be a tree of its own."""
    folders = {path.parent for path in paths}
    if not include_dirs and len({folder.name for folder in folders}) == len(folders):
        return None
    return Path(os.path.commonpath([*folders, *(folder.resolve() for folder in include_dirs)]))


def _split(text: str) -> tuple[Path, str]:
    """The file, and the kernel's name (empty: none is given); a file's own name may have a colon."""
    path, name = Path(text), ""
    if not path.exists() and ":" in text:
        before, _, name = text.rpartition(":")
        while before.endswith(":"):  # a::kernel
            before = before.rstrip(":").rpartition(":")[0]
        path = Path(before)
    return path.resolve(), name


def _read(path: Path, text: str) -> bytes:
    if path.is_dir():
        raise InputError("is a folder", where=text, hint="name one file, as in rows.cu or rows.cu:KERNEL")
    if path.is_file() and suffix_of(path.name) not in SOURCE_SUFFIXES:
        suffixes = ", ".join(sorted(CUDA_SUFFIXES))
        raise InputError(
            f"is no CUDA source by its name ({suffixes} or a header)", where=text, hint="rename it"
        )
    try:
        own_files.check_size(path)
        return path.read_bytes()
    except OSError as error:
        hint = "give FILE.cu or FILE.cu:KERNEL"
        raise InputError(f"cannot read: {error.strerror}", where=text, hint=hint) from error


def _kernels_included(path: Path) -> list[Path]:
    """The files with kernels that a file includes."""
    return [path.parent / file for file in _included(path) if "__global__" in _text(path.parent / file)]


def _included(path: Path) -> list[str]:
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', _text(path), re.MULTILINE)


def _not_there(path: Path, include_dirs: Sequence[Path]) -> list[str]:
    """The included headers that none of the folders has."""
    folders = (path.parent, *include_dirs)
    return [file for file in _included(path) if not any((folder / file).is_file() for folder in folders)]


def _no_kernel(path: Path, include_dirs: Sequence[Path] = ()) -> InputError:
    hint = "give a file with a __global__ function"
    if files := _kernels_included(path):
        hint = f"it includes {' and '.join(map(str, files))}: name that file"
    elif missing := _not_there(path, include_dirs):
        hint = f'"{missing[0]}" is not found, whose macros may make its kernels: name its folder with -I DIR'
    return InputError("no CUDA kernel found", where=str(path), hint=hint)


def _text(path: Path) -> str:
    return own_files.read(path).decode("utf-8", "replace") if path.is_file() else ""


def _chosen(path: Path, name: str, kernels: Sequence[PairKernel]) -> PairKernel:
    if not kernels:
        raise _no_kernel(path)
    fitting = [half for half in kernels if name in ("", half.kernel.name, half.kernel.id.rpartition("/")[2])]
    exact = [half for half in fitting if name == half.kernel.id.rpartition("/")[2]]
    if len(exact or fitting) == 1:
        return (exact or fitting)[0]
    choices = ", ".join(f"{path.name}:{half.kernel.id.rpartition('/')[2]}" for half in kernels)
    what = f"no kernel {name!r} here" if name else f"{len(kernels)} kernels here"
    raise InputError(what, where=str(path), hint=f"name one of {choices}")
