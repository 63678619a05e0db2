"""Compile flags of a tree's files: from the command line, `compile_commands.json`, Makefiles and CMake.

Of the flags, `-D`, `-I` and `-std` count. A build file is read for what it says plainly (`build_files`),
and the one nearest to a source counts most. Not covered: running a build tool; `-U` and `-include`.
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
_DEFINE = re.compile(r"([A-Za-z_]\w*)(?:=(.*))?", re.DOTALL)
_STANDARDS = {"11": "201103L", "14": "201402L", "17": "201703L", "20": "202002L", "23": "202302L"}
MAX_BUILD_FILE_BYTES = 1 << 20


@dataclass(frozen=True)
class Flags:
    """What flags say: macros with values, include folders relative to the tree's root, the C++ standard."""

    defines: tuple[tuple[str, str], ...] = ()
    include: tuple[str, ...] = ()
    standard: str | None = None

    def over(self, other: Flags) -> Flags:
        """These flags, and of the other ones what these leave open."""
        known = {name for name, _ in self.defines}
        defines = (*self.defines, *(each for each in other.defines if each[0] not in known))
        include = tuple(dict.fromkeys((*self.include, *other.include)))
        return Flags(defines, include, self.standard or other.standard)

    def shown(self) -> tuple[str, ...]:
        """As on a command line."""
        defines = [f"-D{name}" if value == "1" else f"-D{name}={value}" for name, value in self.defines]
        include = [f"-I{path}" for path in self.include]
        return (*defines, *include, *([self.standard] if self.standard else []))

    def macros(self) -> dict[bytes, bytes]:
        """The macros that they define, `__cplusplus` among them where a standard is named."""
        values = {name.encode(): value.encode() for name, value in self.defines}
        if self.standard and (number := _STANDARDS.get(self.standard[-2:])):
            values[b"__cplusplus"] = number.encode()
        return values


NO_FLAGS = Flags()


@dataclass
class FlagFinder:
    """The flags of each file of one tree; build files are read once, when a file near them is asked for."""

    root: Path
    given: Flags
    commands: Mapping[str, Flags]
    _folders: dict[str, Flags] = field(default_factory=dict)
    _made: dict[tuple[str, str], Flags | None] = field(default_factory=dict)

    def of(self, path: str) -> Flags:
        """The flags that a file is compiled with."""
        listed = self.commands.get(path)
        return self.given.over(listed if listed is not None else self._near(path))

    def _near(self, path: str) -> Flags:
        """From the nearest Makefile, and from the CMakeLists.txt of the folder and those above it."""
        above, name = list(folders_around(path)), posixpath.basename(path)
        nearest = next((flags for each in above if (flags := self._make(each, name)) is not None), NO_FLAGS)
        return reduce(Flags.over, (self._cmake(each) for each in above), nearest)

    def _make(self, folder: str, name: str) -> Flags | None:
        key = (folder, name)
        if key not in self._made:
            texts = (self._text(folder, each) for each in ("GNUmakefile", "makefile", "Makefile"))
            if (text := next(filter(None, texts), None)) is None:
                self._made[key] = None
            else:
                words = make_words(text, name, lambda path: self._text(folder, path))
                self._made[key] = self._plain(read_words(words, self.root, folder))
        return self._made[key]

    def _cmake(self, folder: str) -> Flags:
        if folder not in self._folders:
            text = self._text(folder, "CMakeLists.txt")
            words = cmake_words(text, folder) if text else []
            self._folders[folder] = self._plain(read_words(words, self.root, ""))
        return self._folders[folder]

    def _plain(self, flags: Flags) -> Flags:
        """Without macros that one build file defines in two ways: it says no more which file gets which."""
        values: dict[str, set[str]] = {}
        for name, value in flags.defines:
            values.setdefault(name, set()).add(value)
        kept = {name: value for name, value in flags.defines if len(values[name]) == 1}
        return Flags(tuple(kept.items()), flags.include, flags.standard)

    def _text(self, folder: str, name: str) -> str | None:
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
    rest = iter(words)
    for word in rest:
        option = next((each for each in ("-D", "-I", "-isystem") if word.startswith(each)), None)
        if option is not None:
            value = word[len(option) :] or next(rest, "")
            if option == "-D" and (match := _DEFINE.fullmatch(value)):
                defines.append((match[1], "1" if match[2] is None else match[2]))
            elif option != "-D" and (path := in_tree(value, root, folder)) is not None:
                include.append(path)
        elif re.fullmatch(r"--?std=\S+", word):
            standard = "-" + word.lstrip("-")
    return Flags(tuple(dict.fromkeys(defines)), tuple(dict.fromkeys(include)), standard)


def in_tree(path: str, root: Path, folder: str) -> str | None:
    """A path of a command, relative to the tree's root; None: it is not in the tree.

    The tree may lie elsewhere now: of an absolute path, the longest end that exists in the tree counts.
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
    """Refuse what defines no macro.

    Raises:
        OptionError: a macro without a name.
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
    """Every include folder must exist and lie in a tree that is read.

    Raises:
        InputError: one does not.
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
    """The flags by file of the compilation database given, else of the one at the root or in `build/`.

    Raises:
        InputError: the one given cannot be used. One found by itself is left out with a note.
    """
    places = [commands_file] if commands_file is not None else [root / COMMANDS, root / "build" / COMMANDS]
    path = next((each for each in places if commands_file is not None or each.is_file()), None)
    if path is None:
        return {}
    try:
        own_files.check_size(path, own_files.MAX_LINES_BYTES)
        return _commands(json.loads(path.read_text(encoding="utf-8", errors="replace")), root)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        hint = "CMake writes one with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
        wrong = InputError(f"not a compilation database: {reason}", where=str(path), hint=hint)
        if commands_file is not None:
            raise wrong from error
        note(f"{wrong}; its flags are not used")
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
