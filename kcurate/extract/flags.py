"""Compile flags of a tree's files: from the command line, `compile_commands.json`, Makefiles and CMake.

Only `-D`, `-I` and `-std` are read. Of a build file, flags that it states literally count (`build_files`),
and the build file nearest to a source takes precedence. Not covered: running a build tool; `-U` and
`-include`.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from kcurate.core import own_files
from kcurate.core.notes import Note
from kcurate.errors import InputError, OptionError
from kcurate.extract.build_files import cmake_words, make_words
from kcurate.extract.includes import folders_around

COMMANDS = "compile_commands.json"
# In the order in which make looks for them.
MAKEFILES = "GNUmakefile", "makefile", "Makefile"
CMAKE_FILE = "CMakeLists.txt"
_DEFINE = re.compile(r"([A-Za-z_]\w*)(?:=(.*))?", re.DOTALL)
_STANDARDS = {"11": "201103L", "14": "201402L", "17": "201703L", "20": "202002L", "23": "202302L"}
MAX_BUILD_FILE_BYTES = 1 << 20


@dataclass(frozen=True)
class Flags:
    """Macros with their values, include folders relative to the tree's root, and the C++ standard."""

    defines: tuple[tuple[str, str], ...] = ()
    include: tuple[str, ...] = ()
    standard: str | None = None

    def over(self, other: Flags) -> Flags:
        """These flags, completed by those of `other`."""
        known = {name for name, _ in self.defines}
        defines = (*self.defines, *((name, value) for name, value in other.defines if name not in known))
        include = tuple(dict.fromkeys((*self.include, *other.include)))
        return Flags(defines, include, self.standard or other.standard)

    def shown(self) -> tuple[str, ...]:
        """The flags as words of a command line."""
        defines = [f"-D{name}" if value == "1" else f"-D{name}={value}" for name, value in self.defines]
        include = [f"-I{path}" for path in self.include]
        return (*defines, *include, *([self.standard] if self.standard else []))

    def macros(self) -> dict[bytes, bytes]:
        """The macros that the flags define; `__cplusplus` too if they name a standard."""
        values = {name.encode(): value.encode() for name, value in self.defines}
        if self.standard and (number := _STANDARDS.get(self.standard[-2:])):
            values[b"__cplusplus"] = number.encode()
        return values


NO_FLAGS = Flags()


@dataclass
class FlagFinder:
    """The flags of each file of one tree; a build file is read once, when a file near it is asked for."""

    root: Path
    from_options: Flags
    commands: Mapping[str, Flags]
    _of_cmake: dict[str, Flags] = field(default_factory=dict)
    _of_makefiles: dict[tuple[str, str], Flags | None] = field(default_factory=dict)

    def of(self, path: str) -> Flags:
        """The flags that a file is compiled with."""
        listed = self.commands.get(path)
        return self.from_options.over(listed if listed is not None else self._near(path))

    def _near(self, path: str) -> Flags:
        """The flags of the nearest Makefile, and of the CMakeLists.txt in the folder and those above it."""
        above, name = list(folders_around(path)), posixpath.basename(path)
        from_make = (self._make(folder, name) for folder in above)
        nearest = next((flags for flags in from_make if flags is not None), NO_FLAGS)
        return reduce(Flags.over, map(self._cmake, above), nearest)

    def _make(self, folder: str, name: str) -> Flags | None:
        key = (folder, name)
        if key not in self._of_makefiles:
            texts = (self._text(folder, makefile) for makefile in MAKEFILES)
            if (text := next(filter(None, texts), None)) is None:
                self._of_makefiles[key] = None
            else:
                words = make_words(text, name, lambda path: self._text(folder, path))
                self._of_makefiles[key] = self._plain(read_words(words, self.root, folder))
        return self._of_makefiles[key]

    def _cmake(self, folder: str) -> Flags:
        if folder not in self._of_cmake:
            text = self._text(folder, CMAKE_FILE)
            words = cmake_words(text, folder) if text else []
            self._of_cmake[folder] = self._plain(read_words(words, self.root, ""))
        return self._of_cmake[folder]

    def _plain(self, flags: Flags) -> Flags:
        """The flags without macros that one build file defines in two ways: which one counts is unknown."""
        values: dict[str, set[str]] = {}
        for name, value in flags.defines:
            values.setdefault(name, set()).add(value)
        unambiguous = {name: value for name, value in flags.defines if len(values[name]) == 1}
        return Flags(tuple(unambiguous.items()), flags.include, flags.standard)

    def _text(self, folder: str, name: str) -> str | None:
        """The text of a build file in the tree; None: there is none, or it is too large."""
        if not os.path.isfile(os.path.join(self.root, folder, name)):  # noqa: PTH113, PTH118 - asked often
            return None
        path = (self.root / folder / name).resolve()
        try:
            inside = path.is_relative_to(self.root) and path.is_file()
            if inside and path.stat().st_size <= MAX_BUILD_FILE_BYTES:
                return path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            pass
        return None


def read_words(words: Sequence[str], root: Path, folder: str) -> Flags:
    """The flags among the words of a command that runs in `folder` (relative to the root)."""
    defines: list[tuple[str, str]] = []
    include: list[str] = []
    standard = None
    remaining = iter(words)
    for word in remaining:
        option = next((prefix for prefix in ("-D", "-I", "-isystem") if word.startswith(prefix)), None)
        if option is not None:
            value = word[len(option) :] or next(remaining, "")
            if option == "-D" and (match := _DEFINE.fullmatch(value)):
                defines.append((match[1], "1" if match[2] is None else match[2]))
            elif option != "-D" and (path := in_tree(value, root, folder)) is not None:
                include.append(path)
        elif re.fullmatch(r"--?std=\S+", word):
            standard = "-" + word.lstrip("-")
    return Flags(tuple(dict.fromkeys(defines)), tuple(dict.fromkeys(include)), standard)


def in_tree(path: str, root: Path, folder: str) -> str | None:
    """A path of a command, relative to the tree's root; None: it is not in the tree.

    Since the tree may have been moved, an absolute path counts as the longest of its suffixes that exists in
    the tree.
    """
    short = posixpath.normpath(posixpath.join(folder, path))
    if not posixpath.isabs(short):
        return None if short.startswith("..") or not (root / short).exists() else short.removeprefix("./")
    if Path(short).is_relative_to(root):
        return posixpath.relpath(short, root) if Path(short).exists() else None
    parts = [part for part in short.split("/") if part]
    ends = ("/".join(parts[at:]) for at in range(len(parts)))
    return next((end for end in ends if (root / end).exists()), None)


def check_defines(defines: Sequence[str]) -> None:
    """Refuse values of `-D` that are not NAME or NAME=VALUE.

    Raises:
        OptionError: one is not.
    """
    for define in defines:
        if not _DEFINE.fullmatch(define):
            raise OptionError(f"not a macro: {define!r}", where="-D", hint="write -D NAME or -D NAME=VALUE")


def given_flags(defines: Sequence[str], include: Sequence[Path], root: Path) -> Flags:
    """The flags of the command line.

    Raises:
        OptionError: a macro without a name.
    """
    check_defines(defines)
    words = [f"-D{define}" for define in defines]
    folders = [path.resolve() for path in include]
    inside = tuple(path.relative_to(root).as_posix() for path in folders if path.is_relative_to(root))
    return Flags(read_words(words, root, "").defines, tuple(dict.fromkeys(inside)))


def check_include(include: Sequence[Path], roots: Sequence[Path]) -> None:
    """Refuse include folders that do not exist or are outside the trees that are read.

    Raises:
        InputError: one is.
    """
    for path in include:
        if not path.is_dir():
            raise InputError("no such folder", where=f"-I {path}", hint="check the path")
        if not any(path.resolve().is_relative_to(root) for root in roots):
            raise InputError(
                "the folder is outside of the source tree", where=f"-I {path}",
                hint="extract the folder that holds both",
            )  # fmt: skip


def find_commands(root: Path, commands_file: Path | None, note: Note) -> Mapping[str, Flags]:
    """The flags by file of a compilation database: `commands_file`, or the one at the root or in `build/`.

    Raises:
        InputError: `commands_file` cannot be used. A database found automatically is skipped with a note.
    """
    candidates = (
        [commands_file] if commands_file is not None else [root / COMMANDS, root / "build" / COMMANDS]
    )
    path = next((file for file in candidates if commands_file is not None or file.is_file()), None)
    if path is None:
        return {}
    try:
        own_files.check_size(path, own_files.MAX_LINES_BYTES)
        return _commands(json.loads(path.read_text(encoding="utf-8", errors="replace")), root)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        hint = "CMake writes one with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
        problem = InputError(f"not a compilation database: {reason}", where=str(path), hint=hint)
        if commands_file is not None:
            raise problem from error
        note(f"{problem}; its flags are not used")
        return {}


def _commands(entries: Sequence[Mapping[str, object]], root: Path) -> Mapping[str, Flags]:
    by_file: dict[str, Flags] = {}
    for entry in entries:
        folder, file, arguments = str(entry["directory"]), str(entry["file"]), entry.get("arguments")
        argv = map(str, arguments) if isinstance(arguments, list) else shlex.split(str(entry["command"]))
        path = in_tree(posixpath.join(folder, file), root, "")
        if path is not None and path not in by_file:
            by_file[path] = read_words(list(argv), root, folder)
    return by_file
