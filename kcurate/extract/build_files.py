"""Reads Makefiles and CMakeLists.txt for the compile flags that they state literally.

Variables and simple conditionals are followed. Not covered: functions of make (`$(shell ...)`), generator
expressions, macros and functions of CMake; words that contain one are left out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping

# Stands for an unknown part of a word; such a word is left out.
_UNKNOWN = "\x00"
_ASSIGNED = re.compile(r"(?:export\s+|override\s+)?([\w.]+)\s*(\?|\+|:{0,3})=\s*(.*)")
_VARIABLE = re.compile(r"\$\(([^()$]*)\)|\$\{([^{}$]*)\}|\$\$|\$(.)")
_CONDITION = re.compile(r"(else\s+)?(ifeq|ifneq|ifdef|ifndef)\b\s*(.*)")
_SIDES = re.compile(r"""\(([^,]*),(.*)\)\s*\Z|"([^"]*)"\s+"([^"]*)"|'([^']*)'\s+'([^']*)'""")
_SOURCE = re.compile(r"[\w./+-]+\.(?:cu|cpp|cc|cxx|c)\b")
_INCLUDED = re.compile(r"[-s]?include\s+(.+)")
# Included Makefiles that are read; nested variables that are followed.
MAX_INCLUDED = 8
MAX_NESTED = 12


def make_words(text: str, name: str, read: Callable[[str], str | None]) -> list[str]:
    """The words of a Makefile's variables, and of the recipes that could compile the source `name`.

    `read(path)` returns the text of an included file or None.
    """
    variables: dict[str, str] = {}
    recipes: list[str] = []
    branch_taken: list[bool | None] = []  # for each nesting level; None: no branch can be chosen
    pending = list(_lines(text))[::-1]
    include_count = 0
    while pending:
        line = pending.pop()
        stripped = line.strip()
        if match := _CONDITION.match(stripped):
            if not match[1]:
                branch_taken.append(_make_holds(match[2], match[3], variables))
            elif branch_taken and branch_taken[-1] is not None:
                branch_taken[-1] = None if branch_taken[-1] else _make_holds(match[2], match[3], variables)
        elif re.match(r"else\b", stripped):
            if branch_taken and branch_taken[-1] is not None:
                branch_taken[-1] = not branch_taken[-1]
        elif re.match(r"endif\b", stripped):
            del branch_taken[-1:]
        elif not all(branch_taken):
            continue
        elif line.startswith("\t"):
            recipes.append(stripped)
        elif (match := _INCLUDED.match(stripped)) and include_count < MAX_INCLUDED:
            include_count += 1
            path = _expanded(match[1], variables).strip()
            included_text = read(path) if _UNKNOWN not in path else None
            pending += list(_lines(included_text))[::-1] if included_text else []
        elif match := _ASSIGNED.fullmatch(stripped):
            _assign(variables, match[1], match[2], match[3])
    # All variables count, not only those that recipes use, since make has built-in recipes.
    recipes = [
        recipe for recipe in recipes if not (sources := _SOURCE.findall(recipe)) or _names(sources, name)
    ]
    return [
        word for line in (*variables.values(), *recipes) for word in _words(_expanded(line, variables))
    ]  # fmt: skip


def _names(sources: list[str], name: str) -> bool:
    """Whether one of the sources has this file name."""
    return any(source.rpartition("/")[2] == name for source in sources)


def _lines(text: str) -> Iterator[str]:
    """The lines of a Makefile without comments; continued lines are joined."""
    for line in re.sub(r"[ \t]*\\\r?\n[ \t]*", " ", text).splitlines():
        yield re.sub(r"(?<!\\)#.*", "", line).rstrip()


def _assign(variables: dict[str, str], name: str, operator: str, value: str) -> None:
    if operator == "+":
        variables[name] = f"{variables.get(name, '')} {value}"
    elif operator.startswith(":"):
        variables[name] = _expanded(value, variables)
    elif operator != "?" or name not in variables:
        variables[name] = value


def _expanded(text: str, variables: Mapping[str, str], depth: int = 0) -> str:
    """The text with its variables replaced; an unset variable is empty, as in make."""

    def value(match: re.Match[str]) -> str:
        name = match[1] if match[1] is not None else match[2] if match[2] is not None else match[3]
        if match[0] == "$$" or name is None or depth > MAX_NESTED:
            return _UNKNOWN
        if not re.fullmatch(r"[\w.]+", name):
            return _UNKNOWN  # a function, or `$<` and the like
        return _expanded(variables.get(name, ""), variables, depth + 1)

    return _VARIABLE.sub(value, text)


def _make_holds(keyword: str, operands: str, variables: Mapping[str, str]) -> bool | None:
    """Whether a conditional of make holds; None: that depends on something unknown."""
    if keyword in ("ifdef", "ifndef"):
        return bool(variables.get(operands.strip())) == (keyword == "ifdef")
    match = _SIDES.match(operands)
    if match is None:
        return None
    sides = [_expanded(side, variables).strip() for side in match.groups() if side is not None]
    if len(sides) != 2 or _UNKNOWN in sides[0] + sides[1]:
        return None
    return (sides[0] == sides[1]) == (keyword == "ifeq")


def _words(text: str) -> list[str]:
    """The words of a shell command line that are fully known; none if its quotes do not match."""
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    return [word for word in words if _UNKNOWN not in word]


_QUOTED = r'"(?:\\.|[^"\\])*"'
_WORD = re.compile(rf'(?:{_QUOTED}|[^\s"])+')
_COMMAND = re.compile(r"([A-Za-z_]\w*)\s*\(")
_SCOPES = frozenset(("PUBLIC", "PRIVATE", "INTERFACE", "AFTER", "BEFORE", "SYSTEM"))
_DEFINING = frozenset(("add_compile_definitions", "target_compile_definitions"))
_INCLUDING = frozenset(("include_directories", "target_include_directories"))
_OPTIONS = frozenset(("add_definitions", "add_compile_options", "target_compile_options"))
_FALSE = frozenset(("", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND"))
_HERE = ("CMAKE_CURRENT_SOURCE_DIR", "CMAKE_CURRENT_LIST_DIR")
_TOP = ("CMAKE_SOURCE_DIR", "PROJECT_SOURCE_DIR")


def cmake_words(text: str, folder: str) -> list[str]:
    """The flags of a CMakeLists.txt in `folder`, as compiler options relative to the tree's root."""
    variables = dict.fromkeys(_HERE, folder or ".") | dict.fromkeys(_TOP, ".")
    branch_taken: list[bool | None] = []
    words: list[str] = []
    for name, arguments in _cmake_commands(text):
        if name == "if":
            branch_taken.append(_cmake_holds(arguments, variables))
        elif name in ("elseif", "else"):
            if branch_taken and branch_taken[-1] is not None:
                following = True if name == "else" else _cmake_holds(arguments, variables)
                branch_taken[-1] = None if branch_taken[-1] else following
        elif name == "endif":
            del branch_taken[-1:]
        elif all(branch_taken):
            values = [value for argument in arguments for value in _cmake_value(argument, variables)]
            words += _cmake_flags(name, values, folder, variables)
    return [word for word in words if _UNKNOWN not in word]


def _cmake_flags(name: str, values: list[str], folder: str, variables: dict[str, str]) -> list[str]:
    """The flags that one command adds; `set` and `option` update `variables`."""
    if name in ("set", "option") and values:
        variables[values[0]] = " ".join(values[1:]) if name == "set" else (values[2:] or ["OFF"])[0]
        if re.fullmatch(r"CMAKE_(?:CUDA|CXX)_STANDARD", values[0]) and values[1:]:
            return [f"-std=c++{values[1]}"]
        if re.fullmatch(r"CMAKE_(?:CUDA|CXX)_FLAGS\w*", values[0]):
            return _words(" ".join(values[1:]))
        return []
    flags = [value for value in values[name.startswith("target_") :] if value not in _SCOPES]
    if name in _DEFINING:
        return [value if value.startswith("-D") else f"-D{value}" for value in flags]
    if name in _INCLUDING:
        return [f"-I{value if value.startswith((folder or '.', './')) else f'{folder}/{value}'.lstrip('/')}"
                for value in flags if not value.startswith("/")]  # fmt: skip
    return flags if name in _OPTIONS else []


def _cmake_commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a CMakeLists.txt: lower-case name and arguments."""
    text = re.sub(r'("(?:\\.|[^"\\])*")|#[^\n]*', lambda match: match[1] or "", text)
    at = 0
    while match := _COMMAND.search(text, at):
        depth, at, quoted = 1, match.end(), False
        while at < len(text) and depth:
            quoted ^= text[at] == '"' and text[at - 1] != "\\"
            depth += 0 if quoted else {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        words = _WORD.findall(text[match.end() : at - 1])
        yield match[1].lower(), [word[1:-1] if re.fullmatch(_QUOTED, word) else word for word in words]


def _cmake_value(argument: str, variables: Mapping[str, str]) -> list[str]:
    """The elements of an argument; `$<BUILD_INTERFACE:x>` is x, other generator expressions are unknown."""
    argument = re.sub(r"\$<BUILD_INTERFACE:([^<>]*)>", r"\1", argument)
    for _ in range(MAX_NESTED):
        argument = re.sub(r"\$\{(\w+)\}", lambda match: variables.get(match[1], _UNKNOWN), argument)
    text = argument if "$" not in argument else _UNKNOWN
    return [element for element in text.split(";") if element]


def _cmake_holds(arguments: list[str], variables: Mapping[str, str]) -> bool | None:
    """Whether `if(NAME)` or `if(NOT NAME)` holds; None: another form, or a name not set in this file."""
    wanted = arguments[:1] != ["NOT"]
    names = arguments if wanted else arguments[1:]
    if len(names) != 1 or not (
        names[0] in variables or names[0].upper() in _FALSE | {"ON", "TRUE", "YES", "1"}
    ):
        return None
    return (variables.get(names[0], names[0]).upper() not in _FALSE) == wanted
