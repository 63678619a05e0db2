"""What a test can reach: whether it may start a process, run the C++ compiler, or import torch.

Read off the test's code: the functions of tests that it calls and its fixtures, then, through imports at any
depth, the modules of kcurate that these use. `Guard` catches in a run what cannot be read off (modules named
in strings). Not covered: which tests a run takes (`conftest`).
"""

from __future__ import annotations

import ast
import dis
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from kcurate.backends.emulator import toolchain
from kcurate.judge.workers import nursery as workers
from kcurate.kernelbench import torch_process

ROOT = Path(__file__).resolve().parent.parent
PACKAGE, TESTS = ROOT / "kcurate", ROOT / "tests"
# The modules of kcurate that start judges, compilers and other processes that take seconds.
STARTERS = frozenset(Path(str(module.__file__)) for module in (workers, toolchain, torch_process))
TORCH = frozenset({"torch", "transformers", "accelerate", "peft", "trl", "safetensors"})
COMPILERS = ("g++", "clang++", "zig")


@cache
def heavy(function: Any) -> str | None:
    """The first heavy thing that a function of the tests reaches; None: a test made of such is quick."""
    for used in sorted(_used(function, set()), key=str):
        if isinstance(used, Path):
            if found := _below(used, lazy=True):
                return found
        elif used in TORCH or used == "subprocess":
            return used
    return None


def torch_import(path: Path) -> str | None:
    """The library that importing a test module loads torch by."""
    return _below(path, lazy=False)


def _used(thing: Any, seen: set[Any]) -> Iterator[Path | str]:
    """Files of kcurate, and names of other libraries, that a function or class of the tests uses."""
    thing = getattr(getattr(thing, "hypothesis", None), "inner_test", thing)  # what `@given` wraps
    function = inspect.unwrap(getattr(thing, "__func__", thing)) if callable(thing) else type(thing)
    if function in seen:
        return
    seen.add(function)
    if isinstance(function, type):
        for member in vars(function).values():
            member = getattr(member, "fget", getattr(member, "__func__", member))
            if isinstance(member, FunctionType):
                yield from _used(member, seen)
    if not isinstance(function, FunctionType):
        return
    for name in _imported(function.__code__):
        yield from _files(name) or (name.split(".")[0],)
    for name in {name for part in _parts(function.__code__) for name in part.co_names}:
        value = function.__globals__.get(name)
        module = value if isinstance(value, ModuleType) else sys.modules.get(_module_of(value))
        file = Path(str(getattr(module, "__file__", None)))
        if file.is_relative_to(TESTS) and value is not module:
            yield from _used(value, seen)
        elif file.is_relative_to(ROOT) and not file.is_relative_to(sys.prefix):
            yield file
        elif module is not None:
            yield module.__name__.split(".")[0]


def _module_of(value: object) -> str:
    """The module that a function, a class, or the class of another value is of."""
    return str(getattr(value, "__module__", ""))


def _parts(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)


def _imported(code: CodeType) -> set[str]:
    """The modules, and what may be modules, that a function imports itself."""
    found = set()
    for part in _parts(code):
        if dis.opmap["IMPORT_NAME"] not in part.co_code[::2]:
            continue
        module = ""
        for step in dis.get_instructions(part):
            if step.opname == "IMPORT_NAME":
                found.add(module := step.argval)
            elif step.opname == "IMPORT_FROM":
                found.add(f"{module}.{step.argval}")
    return found


@cache
def _files(name: str) -> tuple[Path, ...]:
    """The files that importing a dotted name of kcurate or of the tests runs; none: it is neither."""
    parts = name.split(".")
    paths = [folder.joinpath(*parts[:end]) for folder in (ROOT, TESTS) for end in range(1, len(parts) + 1)]
    return tuple(
        file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()
    )


@cache
def _below(path: Path, *, lazy: bool) -> str | None:
    """What a file loads torch by, at any depth; `lazy`: in its functions too, or a starter."""
    seen, waiting = {path}, [path]
    while waiting:
        file = waiting.pop()
        if lazy and file in STARTERS:
            return str(file.relative_to(ROOT))
        names = _imports(file, lazy=lazy)
        if found := sorted(TORCH & {name.split(".")[0] for name in names}):
            return found[0]
        below = {found for name in names for found in _files(name)} - seen
        seen |= below
        waiting += below
    return None


@cache
def _imports(path: Path, *, lazy: bool) -> frozenset[str]:
    """Dotted names of what a file imports, but for those that only a type checker reads."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_bytes())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not lazy:
            continue
        elif isinstance(node, ast.mod | ast.stmt | ast.ExceptHandler):
            waiting += ast.iter_child_nodes(node)
    return frozenset(found)


class Guard:
    """Notes every Python or compiler that this process starts from now on, and that it loads torch."""

    def __init__(self) -> None:
        self._noted: list[str] = []
        self._had_torch = "torch" in sys.modules
        sys.addaudithook(self._note)

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            name = Path(str(args[0])).name
            if name in COMPILERS or name.startswith("python"):
                self._noted.append(f"starts {name}")

    def take(self) -> list[str]:
        """What was noted since the last call."""
        noted, self._noted = self._noted, []
        if "torch" in sys.modules and not self._had_torch:
            self._had_torch = True
            noted.append("imports torch")
        return noted
