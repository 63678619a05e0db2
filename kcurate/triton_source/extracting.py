"""Cuts `@triton.jit` functions out of Python files: each becomes a module, or is left out for a named reason.

Helpers and constants that a function uses are written above it, with a number added to the name on a clash.
`triton` and `triton.language` get their usual names; decorators, annotations and docstrings are removed. The
module is then checked against the allow-list. Not covered: which functions are kernels, which depends on the
launches in the whole tree (`kcurate.extract.triton_files`).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kcurate.triton_source.accesses import accesses
from kcurate.triton_source.allowed import BUILTINS, refusals
from kcurate.triton_source.configurations import Config, NotLiteralError, configurations_in, heuristics
from kcurate.triton_source.library_functions import replacement, with_callees
from kcurate.triton_source.module_names import Defined, File, Meaning, Member
from kcurate.triton_source.module_text import parts_of

JIT = ("triton.jit", "triton.runtime.jit")
# Decorators that leave a kernel the same: it is autotuned, or a member of a class.
_PLAIN = "torch._inductor.", "staticmethod"
# Statements without an effect on the results.
_SAID = ("tl.device_assert", "tl.device_print", "tl.static_print")


_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Reason(StrEnum):
    """Why a `@triton.jit` function is left out. `GENERATED`: another decorator generates a kernel from it."""

    CONFIGURATIONS = "configurations_not_literal"
    HEURISTICS = "heuristics_not_literal"
    OUTSIDE = "name_from_outside"
    NOT_JIT = "calls_host_function"
    NOT_ALLOWED = "not_on_the_list"
    GENERATED = "generated_kernel"


class LeftError(Exception):
    """A function cannot be cut out."""

    def __init__(self, reason: Reason, what: str) -> None:
        super().__init__(what)
        self.reason, self.what = reason, what


@dataclass(frozen=True)
class Cut:
    """A function that was cut out: its module, the definitions that went into it, and its configurations.

    `computed`: constants from heuristics, by name. `wrapped`: a decorator that is not one of Triton's.
    `left`: why there is no code.
    """

    file: File
    name: str
    node: ast.FunctionDef
    code: str = ""
    parts: tuple[Defined, ...] = ()
    configurations: tuple[Config, ...] = ()
    computed: Mapping[str, str] = field(default_factory=dict)
    wrapped: str | None = None
    left: LeftError | None = None

    @property
    def used(self) -> Iterator[tuple[str, str]]:
        """The functions and constants that it uses, as (path, name)."""
        yield from ((part.file.path, part.name) for part in self.parts if part.node is not self.node)


def cuts(file: File) -> Iterator[Cut]:
    """Every `@triton.jit` function of a file, also of its classes and inside its functions."""
    pending: list[tuple[ast.AST, tuple[_Function, ...]]] = [(node, ()) for node in reversed(file.syntax.body)]
    while pending:
        node, around = pending.pop()
        if isinstance(node, ast.FunctionDef) and node.decorator_list and is_jit(file.inside(around), node):
            yield _cut(file.inside(around), node)
        elif not isinstance(node, ast.expr):
            around = (*around, node) if isinstance(node, _Function) else around
            pending += [(child, around) for child in reversed([*ast.iter_child_nodes(node)])]


def _cut(file: File, node: ast.FunctionDef) -> Cut:
    module, wrapped = _Module(), None
    configurations: tuple[Config, ...] = ()
    computed: dict[str, str] = {}
    try:
        wrapped, configurations, computed = _decorators(file, node)
        module.add(Defined(file, node.name, node))
        code = module.text()
        for refusal in refusals(code):
            raise LeftError(Reason.NOT_ALLOWED, refusal.what)
    except LeftError as left:
        return Cut(file, node.name, node, parts=tuple(module.parts), wrapped=wrapped, left=left)
    parts = tuple(module.parts)
    return Cut(file, node.name, node, code, parts, configurations, computed, wrapped)


def is_jit(file: File, node: ast.FunctionDef) -> bool:
    """Whether `@triton.jit` is among a function's decorators."""
    return any(_decorator(file, decorator)[0] in JIT for decorator in node.decorator_list)


def _decorator(file: File, node: ast.expr) -> tuple[str, ast.Call | None]:
    """A decorator's name (resolved if it is one of Triton's, else as written), and its call."""
    call = node if isinstance(node, ast.Call) else None
    function = call.func if call else node
    parts = parts_of(function)
    meaning = file.resolve(parts) if parts else None
    return (meaning.name if isinstance(meaning, Member) else ast.unparse(function)), call


def _decorators(file: File, node: ast.FunctionDef) -> tuple[str | None, tuple[Config, ...], dict[str, str]]:
    configurations: tuple[Config, ...] = ()
    computed: dict[str, str] = {}
    wrapped = None
    for decorator in node.decorator_list:
        name, call = _decorator(file, decorator)
        words = {word.arg: word.value for word in call.keywords} if call else {}
        by_word = (words[key] for key in ("configs", "values") if key in words)
        arguments = [*(call.args if call else ()), *by_word]
        if name == "triton.autotune" or (name not in JIT and "configs" in words):
            try:
                configurations = tuple(configurations_in(file, words.get("configs", arguments[0])))
            except (NotLiteralError, IndexError) as error:
                raise LeftError(Reason.CONFIGURATIONS, str(error)) from error
        elif name == "triton.heuristics":
            try:
                computed |= heuristics(file, arguments[0])
            except (NotLiteralError, IndexError) as error:
                raise LeftError(Reason.HEURISTICS, str(error)) from error
        elif name not in JIT and not name.startswith(_PLAIN):
            wrapped = name
    return wrapped, configurations, computed


class _Module:
    """Collects definitions, each after those that it uses."""

    def __init__(self) -> None:
        self.parts: list[Defined] = []
        self._names: dict[tuple[str, str, int], str] = {}
        self._texts: list[str] = []

    def text(self) -> str:
        """The text of the module."""
        module_text = "import triton\nimport triton.language as tl\n"
        last = "@"
        for text in self._texts:
            function = text.startswith("@") or (last.startswith("@") and last != "@")
            gap = "\n\n" if function else "\n" * (last == "@")
            module_text, last = f"{module_text}{gap}{text}\n", text
        return module_text

    def add(self, definition: Defined) -> str:
        """Add a definition unless it is there already; returns its name in the module."""
        key = (definition.file.path, definition.name, definition.node.lineno)
        if key in self._names:
            return self._names[key]
        taken, name, count = set(self._names.values()), definition.name, 1
        while name in taken or name in ("tl", "triton"):
            count += 1
            name = f"{definition.name}_{count}"
        self._names[key] = name
        if isinstance(definition.node, ast.FunctionDef):
            if not is_jit(definition.file, definition.node):
                raise LeftError(Reason.NOT_JIT, f"{definition.name} is not a @triton.jit function")
            text = self._function(definition.file, definition.node, name)
        else:
            value = ast.unparse(
                _Names(self, definition.file, frozenset()).visit(copy.deepcopy(definition.node))
            )
            text = f"{name}: tl.constexpr = {value}" if definition.constexpr else f"{name} = {value}"
        self.parts.append(definition)
        self._texts.append(text)
        return name

    def library(self, name: str) -> str:
        """Add our own version of a library function; returns its name."""
        for each, text in with_callees(name):
            if text not in self._texts:
                self._texts.append(text)
                self._names["", each, 0] = each
        return name

    def _function(self, file: File, node: ast.FunctionDef, name: str) -> str:
        function = copy.deepcopy(node)
        function.name, function.returns = name, None
        function.decorator_list = [ast.parse("triton.jit", mode="eval").body]
        if ast.get_docstring(function, clean=False) is not None:
            function.body = function.body[1:] or [ast.Pass()]
        args = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        for arg in args:
            arg.annotation = _annotation(arg.annotation)
        stored = {
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        _Names(self, file, frozenset(stored | {arg.arg for arg in args}), name).visit(function)
        return ast.unparse(ast.fix_missing_locations(function))


def _annotation(node: ast.expr | None) -> ast.expr | None:
    text = "" if node is None else str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)
    return ast.parse("tl.constexpr", mode="eval").body if text.rpartition(".")[2] == "constexpr" else None


class _Names(ast.NodeTransformer):
    """Rewrites names and members for the module; removes messages of assertions and type hints."""

    def __init__(self, module: _Module, file: File, locals_: frozenset[str], own_name: str = "") -> None:
        self._module, self._file, self._locals, self._own = module, file, locals_, own_name

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        value = node.value and self.visit(node.value)
        annotation = _annotation(node.annotation)
        if annotation is None and value is not None:
            return ast.Assign([node.target], value, lineno=node.lineno)
        return ast.AnnAssign(node.target, annotation or node.annotation, value, node.simple)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return ast.Assert(self.visit(node.test), None)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        self.generic_visit(node)
        said = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in _SAID
        return ast.Pass() if said else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "static_assert":
            node.args = node.args[:1]
            node.keywords = [keyword for keyword in node.keywords if keyword.arg == "cond"]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._named(node, (node.id,))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        parts = parts_of(node)
        if parts is None or parts[0] in self._locals:
            self.generic_visit(node)
            return node
        return self._named(node, parts)

    def _named(self, node: ast.Name | ast.Attribute, parts: tuple[str, ...]) -> ast.AST:
        first = parts[0]
        if first in self._locals or isinstance(node.ctx, ast.Store):
            return node
        meaning: Meaning | None = None
        members: tuple[str, ...] = ()
        for count in range(len(parts), 0, -1):  # the members of a constant or type follow its name
            meaning, members = self._file.resolve(parts[:count]), parts[count:]
            if meaning is not None:
                break
        library = replacement(meaning.name) if isinstance(meaning, Member) else None
        if library is not None:
            text = self._module.library(library)
        elif isinstance(meaning, Member) and meaning.name.startswith("triton."):
            text = meaning.name.replace("triton.language", "tl", 1)
        elif isinstance(meaning, Defined):
            text = self._module.add(meaning)
        elif first in BUILTINS and len(parts) == 1:
            return node
        else:
            raise LeftError(Reason.OUTSIDE, ast.unparse(node))
        return ast.parse(".".join((text, *members)), mode="eval").body


def parameters(node: ast.FunctionDef) -> Iterator[tuple[ast.arg, bool]]:
    """The parameters, each with whether it is a compile-time constant."""
    for arg in node.args.args:
        yield arg, _annotation(arg.annotation) is not None


def pointers(node: ast.FunctionDef) -> frozenset[str]:
    """The parameters from which addresses are computed."""
    return frozenset(name for name, _ in accesses(node))


@dataclass(frozen=True)
class Launched:
    """A launch `kernel[grid](...)`: the kernel's name at its definition, and whether it was imported."""

    name: str
    imported: bool
    line: int
    grid: tuple[str, ...]
    arguments: tuple[str, ...]
    keywords: Mapping[str, str]


def launches(file: File) -> Iterator[Launched]:
    """Every launch in a file; if the grid is a lambda, its body, if it is a local, the local's value."""
    locals_ = {
        target.id: node.value
        for node in ast.walk(file.syntax)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(file.syntax):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)):
            continue
        parts = parts_of(node.func.value)
        if parts is None:
            continue
        name = file.imports(parts[0]) if len(parts) == 1 else parts[-1]
        grid: ast.expr = node.func.slice
        if isinstance(grid, ast.Name) and grid.id in locals_:
            grid = locals_[grid.id]
        if isinstance(grid, ast.Lambda):
            grid = grid.body
        axes = grid.elts if isinstance(grid, ast.Tuple) else [grid]
        words = {word.arg: ast.unparse(word.value) for word in node.keywords if word.arg}
        yield Launched(
            name or parts[-1],
            name is not None,
            node.lineno,
            tuple(map(ast.unparse, axes)),
            tuple(map(ast.unparse, node.args)),
            words,
        )
