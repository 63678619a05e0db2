"""Resolves top-level names in a tree's Python files, through imports; nothing is run.

If the branches of a top-level condition or `try` bind a name, the first binding counts. Not covered: names
bound in loops, by `import *` or at run time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import PurePosixPath

from kcurate.core.grouping import grouped
from kcurate.errors import ProblemError
from kcurate.triton_source.allowed import MEMBERS
from kcurate.triton_source.module_text import parsed, parts_of

MAX_STEPS = 16
_LIBRARIES = "triton.language.extra."
# What modules of torch.compile call `libdevice` and `tl_math`.
_HELPERS = re.compile(r"torch\._inductor\.(?:runtime\.)?triton_helpers\.(libdevice|math|tl)\b")
_OF_TRITON = {
    "libdevice": "triton.language.extra.libdevice",
    "math": "triton.language.math",
    "tl": "triton.language",
}


@dataclass(frozen=True)
class Member:
    """A member of Triton, by its dotted name."""

    name: str


@dataclass(frozen=True)
class Defined:
    """A function, or the value of a name, in a file of the tree; `constexpr`: it is annotated as such."""

    file: File
    name: str
    node: ast.FunctionDef | ast.expr
    constexpr: bool = False


@dataclass(frozen=True)
class _Imported:
    module: str
    member: str | None
    level: int = 0


Meaning = Member | Defined


class Tree:
    """The Python files of a tree; `read` returns the text of a path, or None."""

    def __init__(self, paths: Sequence[str], read: Callable[[str], str | None]) -> None:
        short = ((path.removesuffix(".py").removesuffix("/__init__"), path) for path in paths)
        self._by_name = grouped((name.rpartition("/")[2], path) for name, path in short)
        self._read = read
        self._files: dict[str, File | None] = {}

    def file(self, path: str) -> File | None:
        """A parsed file; None if it cannot be read or is not Python."""
        if path not in self._files:
            text = self._read(path)
            try:
                self._files[path] = None if text is None else File(self, path, text, parsed(text))
            except ProblemError:
                self._files[path] = None
        return self._files[path]

    def module(self, name: str, importer: str) -> File | None:
        """The file of a dotted module name; if several fit, the one nearest to the importing file."""
        ending = name.replace(".", "/")
        files = f"/{ending}.py", f"/{ending}/__init__.py"
        fits = [path for path in self._by_name[name.rpartition(".")[2]] if f"/{path}".endswith(files)]
        nearest = max(fits, key=lambda path: (_shared(path, importer), -len(path)), default=None)
        return None if nearest is None else self.file(nearest)


def _shared(left: str, right: str) -> int:
    """How many leading folders two paths have in common."""
    parts = zip(left.split("/"), right.split("/"), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], parts))


class File:
    """One file and its top-level names."""

    def __init__(
        self,
        tree: Tree,
        path: str,
        text: str,
        syntax: ast.Module,
        around: Sequence[ast.FunctionDef | ast.AsyncFunctionDef] = (),
    ) -> None:
        self.tree, self.path, self.text, self.syntax, self._around = tree, path, text, syntax, tuple(around)

    def inside(self, functions: Sequence[ast.FunctionDef | ast.AsyncFunctionDef]) -> File:
        """The file as seen from inside nested functions; `functions`: outermost first."""
        return File(self.tree, self.path, self.text, self.syntax, functions) if functions else self

    @cached_property
    def _bound(self) -> dict[str, _Imported | Defined]:
        bindings: dict[str, _Imported | Defined] = {}
        self._bind(self.syntax.body, bindings)
        for function in self._around:
            for node in ast.walk(function):  # what it binds in any way hides the module's
                if isinstance(node, ast.arg):
                    bindings.pop(node.arg, None)
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    bindings.pop(node.id, None)
            self._bind(function.body, bindings)
        return bindings

    def _bind(self, body: Sequence[ast.stmt], bindings: dict[str, _Imported | Defined]) -> None:
        for node in body:
            if isinstance(node, ast.If | ast.Try | ast.With):
                inner: dict[str, _Imported | Defined] = {}
                branches = [
                    node.body,
                    *(handler.body for handler in getattr(node, "handlers", ())),
                    getattr(node, "orelse", []),
                    getattr(node, "finalbody", []),
                ]
                for branch in branches:
                    of_branch: dict[str, _Imported | Defined] = {}
                    self._bind(branch, of_branch)
                    inner = {**of_branch, **inner}
                bindings.update(inner)
            else:
                bindings.update(self._bindings(node))

    def _bindings(self, node: ast.stmt) -> Iterator[tuple[str, _Imported | Defined]]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                yield name, _Imported(alias.name if alias.asname else name, None)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, _Imported(node.module or "", alias.name, node.level)
        elif isinstance(node, ast.FunctionDef):
            yield node.name, Defined(self, node.name, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            marked = isinstance(node, ast.AnnAssign) and "constexpr" in ast.unparse(node.annotation)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id, Defined(self, target.id, node.value, marked)

    def imports(self, name: str) -> str | None:
        """The original name of an imported name; None if it was not imported."""
        bound = self._bound.get(name)
        return bound.member if isinstance(bound, _Imported) else None

    def resolve(self, dotted: Sequence[str], steps: int = 0) -> Meaning | None:
        """The meaning of a dotted name, given as its parts; None: it is neither in the tree nor in Triton."""
        first, *rest = dotted
        bound = self._bound.get(first)
        if bound is None or steps > MAX_STEPS:
            return None
        if isinstance(bound, Defined):
            alias = bound.node if isinstance(bound.node, ast.Name | ast.Attribute) else None
            parts = parts_of(alias) if alias is not None else None
            further = self.resolve((*parts, *rest), steps + 1) if parts and parts[0] != first else None
            return further or (None if rest else bound)
        dotted_name = ".".join([bound.module, *([bound.member] if bound.member else []), *rest])
        if not bound.level and f"{dotted_name}.".startswith(("triton.", "torch._inductor.")):
            return Member(_usual(dotted_name))
        return self._elsewhere(self._module_name(bound), bound.member, rest, steps)

    def _elsewhere(self, module: str, member: str | None, rest: Sequence[str], steps: int) -> Meaning | None:
        names = [*([member] if member else []), *rest]
        # The longest prefix that is a module of the tree wins; the remainder is a name in it.
        for count in range(len(names) - 1, -1, -1):
            file = self.tree.module(".".join(filter(None, [module, *names[:count]])), self.path)
            if file is not None and file is not self:
                meaning = file.resolve(names[count:], steps + 1)
                if meaning is not None:
                    return meaning
        return None

    def _module_name(self, bound: _Imported) -> str:
        if not bound.level:
            return bound.module
        own_path = PurePosixPath(self.path)
        package = own_path.parents[bound.level - 1].as_posix() if bound.level <= len(own_path.parents) else ""
        return ".".join(filter(None, [package.strip("./").replace("/", "."), bound.module]))


def _usual(name: str) -> str:
    """A function of Triton's libraries by the name of the equal function in `triton.language`."""
    name = _HELPERS.sub(lambda match: _OF_TRITON[match[1]], name)
    module, _, last = name.rpartition(".")
    last = re.sub(r"\Afast_(\w+)f\Z", r"\1", last)  # the language's own are as approximate
    of_library = f"{module}.".startswith(_LIBRARIES) or module == "triton.language.math"
    if of_library and last in MEMBERS["triton.language.math"]:
        return f"triton.language.math.{last}"
    if module == "triton.language.math" and last in MEMBERS["triton.language"]:
        return f"triton.language.{last}"
    return f"{module}.{last}" if of_library else name
