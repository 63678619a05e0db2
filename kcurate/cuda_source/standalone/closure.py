"""Finds the declarations that a kernel needs, by name, and writes them out as one self-contained file.

Names are matched regardless of scope. A local variable that shares its name with a macro or type pulls that
in too, which is harmless; nothing that is needed is missed. Not covered: parsing (`items`), the origin of the
bytes (`preprocess`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from kcurate.core import headers
from kcurate.core.grouping import grouped
from kcurate.cuda_source.launches.instantiations import declaration, missing
from kcurate.cuda_source.parse.items import Item, Parsed
from kcurate.cuda_source.preprocess.expansion import definition
from kcurate.cuda_source.preprocess.macros import Saved, without_saving
from kcurate.cuda_source.standalone import header_names
from kcurate.cuda_source.standalone.host_methods import as_scope, without_host_methods
from kcurate.cuda_source.standalone.meanings import calls, misread, not_reached, tagged, types_of
from kcurate.cuda_source.standalone.source_repairs import (
    TYPED_BRACE,
    annotate,
    annotate_methods,
    with_plain_asm,
    without_compound_literals,
    without_constraints,
    without_register,
)
from kcurate.cuda_source.text.blanking import blank_literals, without_comments
from kcurate.cuda_source.text.tokens import IDENTIFIER

_INCLUDE = re.compile(rb"\s*#\s*include\s*[<\"]([\w/.]+)[>\"]")
_REAL_CONSTANT = re.compile(rb"\bconst\b(?=[^=]*\b(?:float|double)\b)|\b(?:float|double)\s+(const)\b")
# Qualifiers of variables visible to device code.
_DEVICE_VISIBLE = frozenset(
    (b"__device__", b"__constant__", b"__managed__", b"__shared__", b"const", b"constexpr", b"texture")
)
_VECTORS = frozenset(
    f"{element}{width}".encode() for element in ("float", "double", "int", "uint") for width in (2, 3, 4)
)
# Operators on these are for the host, unless they are marked `__device__`.
_STREAMS = frozenset((b"ostream", b"istream", b"string"))
# A class with nested types.
_NESTED = re.compile(rb"\{.*\b(?:struct|class|union|enum|using|typedef)\b", re.DOTALL)
_NAME = re.compile(rb"(?<![\w.])[A-Za-z_]\w*")
_UNNAMED = re.compile(rb"(?:inline\s+)?namespace\s*\Z")
_USED_NAME = re.compile(rb"\s*using\s+(?!namespace\b)([\w:\s]*::\s*\w+)\s*;")
# Patterns begin with a literal, which `re` finds much faster than `\b`.
_CONCEPT = re.compile(rb"concept(?<!\wconcept)\s+(\w+)\s*=")
_TEMPLATE_HEAD = re.compile(rb"template(?<!\wtemplate)\s*<([^<>;{}()]*)>")
_CONSTRAINT = re.compile(rb"\s*([A-Za-z_]\w*)\s+(?:\.\.\.\s*)?\w+\s*(?:=|\Z)")
# Words that begin a template parameter and are no concepts.
_NO_CONSTRAINT = re.compile(
    rb"typename|class|template|const|auto|bool|char|short|int|long|unsigned|signed|float|double|half|cu[a-zA-Z]\w*|"
    rb"u?int\d*(?:_t)?|u(?:char|short|long)|size_t|ssize_t|ptrdiff_t|nv\w+"
)
_REQUIRES = re.compile(rb"requires(?<!\wrequires)\b")
_OF_STD = re.compile(rb"template(?<!\wtemplate)\s*<\s*std\s*::")
_USING_NAMESPACE = re.compile(rb"\s*using\s+namespace\s+([\w:\s]+);")


@dataclass(frozen=True)
class Closure:
    """The file for one kernel, or for several kernels of a file.

    `items` are the declarations in it, in order; `shim_names` the names of the shim among them; `repairs` the
    names of the changes made to their text.
    """

    items: tuple[Item, ...]
    code: bytes
    shim_names: frozenset[bytes]
    repairs: frozenset[str]


class Unit:
    """A parsed unit, indexed by name.

    The first `shim_bytes` of its text were put before the file: `flag_bytes` of `#define` lines from flags,
    then the shim.
    """

    def __init__(self, parsed: Parsed, shim_bytes: int = 0, flag_bytes: int = 0) -> None:
        self.parsed = parsed
        self.flag_bytes = flag_bytes
        self.shim_bytes = shim_bytes
        self._bare: dict[int, bytes] = {}
        self._closures: dict[tuple[tuple[int, ...], tuple[str, ...], tuple[int, ...] | None], Closure] = {}
        self._without: frozenset[int] = frozenset()
        self._in_part: dict[int, Item] = {}

    @cached_property
    def by_name(self) -> Mapping[bytes, Sequence[Item]]:
        """The items that declare each name."""
        return grouped((name, item) for item in self.parsed.items for name in item.names)

    @cached_property
    def kernels(self) -> tuple[Item, ...]:
        """The `__global__` functions with a body, in order; each specialisation is a separate item."""
        return tuple(item for item in self.parsed.items if item.kernel and item.names)

    @cached_property
    def operators(self) -> tuple[Item, ...]:
        """Overloaded operators outside classes."""
        return tuple(
            item for item in self.parsed.items
            if item.kind == "function" and any(name.startswith(b"operator") for name in item.names)
            and not misread(item, self.parsed.text)
        )  # fmt: skip

    @cached_property
    def _concepts(self) -> frozenset[bytes]:
        """The concepts that the unit defines, and undeclared names that template heads use like concepts."""
        heads = b",".join(_TEMPLATE_HEAD.findall(self.parsed.text)).split(b",")
        words = {match[1] for match in map(_CONSTRAINT.match, set(heads)) if match} - self.by_name.keys()
        unknown = frozenset(word for word in words if not _NO_CONSTRAINT.fullmatch(word))
        return frozenset(_CONCEPT.findall(self.parsed.text)) | unknown

    @cached_property
    def _constrained(self) -> bool:
        text = self.parsed.text
        return bool(self._concepts or _REQUIRES.search(text) or _OF_STD.search(text))

    @cached_property
    def _context(self) -> tuple[Item, ...]:
        """The unit's includes of device headers, and its using-declarations."""
        return tuple(
            item for item in self.parsed.items
            if item.start >= self.shim_bytes and (item.kind == "using" or self._device_header(item))
        )  # fmt: skip

    @cached_property
    def _marked(self) -> tuple[list[Item], list[int]]:
        """The items with `__global__`, sorted by start; and for each, the largest end up to it."""
        marked = [item for item in self.parsed.items if b"__global__" in item.used | item.qualifiers]
        marked.sort(key=lambda item: item.start)
        return marked, list(accumulate((item.end for item in marked), max))

    def marked_around(self, at: int) -> list[Item]:
        """The items with `__global__` that contain byte `at`."""
        marked, furthest = self._marked
        last = bisect_right(marked, at, key=lambda item: item.start)
        first = bisect_right(furthest, at)
        return [item for item in marked[first:last] if at < item.end]

    def bare(self, item: Item) -> bytes:
        """The text of an item with comments and literals blanked."""
        if item.start not in self._bare:
            text = item.expansion[1] if item.expansion else self.parsed.text[item.start : item.end]
            self._bare[item.start] = blank_literals(text)
        return self._bare[item.start]

    def closure(
        self,
        kernels: Sequence[Item],
        instantiations: Sequence[str] = (),
        reached: tuple[int, ...] | None = None,
    ) -> Closure:
        """The file for these kernels: they and everything they need.

        `instantiations` are name expressions for the kernel templates; the file instantiates each of them.
        `reached`: at which bytes, in order, a compiler sees declarations that they need (None: not known).
        """
        key = tuple(kernel.start for kernel in kernels), tuple(instantiations), reached
        if key not in self._closures:
            told = (item for item in self.parsed.items if item.end > self.shim_bytes)
            self._without = frozenset() if reached is None else not_reached(told, reached, self.bare)
            self._closures[key] = self._closure(kernels, instantiations)
        return self._closures[key]

    def _closure(self, kernels: Sequence[Item], instantiations: Sequence[str]) -> Closure:
        chosen = self._chosen(kernels, instantiations)
        if scopes := self._scopes(chosen, instantiations):
            chosen = self._chosen(kernels, instantiations, scopes)
        items = self._with_context(chosen, max(kernel.end for kernel in kernels))
        stated = missing(instantiations, items, self.parsed.text)
        return self._emit(items, {kernel.start for kernel in kernels}, stated)

    def _chosen(
        self, kernels: Sequence[Item], instantiations: Sequence[str], scopes: Mapping[int, Item] = {}
    ) -> dict[int, Item]:
        """The kernels and the items they need, by start.

        `scopes` replaces classes, by start, by the part of them that is needed.
        """
        chosen: dict[int, Item] = {kernel.start: kernel for kernel in kernels}
        own_names = {name for kernel in kernels for name in kernel.names}
        queue = list(kernels)
        if instantiations:
            names = frozenset(IDENTIFIER.findall(" ".join(instantiations).encode())) - own_names
            queue.append(replace(kernels[-1], used=names, end=len(self.parsed.text)))
        seen: set[tuple[bytes, int]] = set()
        while queue or self._add_operators(chosen, queue):
            user = queue.pop()
            for name in user.used | header_names.shim_names(user.used):
                for item in self.by_name.get(name, ()):
                    if item.start in chosen or (name, item.start) in seen:
                        continue
                    if self._wanted(item, name, user, own_names):
                        chosen[item.start] = scopes.get(item.start, item)
                        queue.append(chosen[item.start])
                    elif item.kind not in ("macro", "function") and item.start < user.end:
                        seen.add((name, item.start))
        return chosen

    def _scopes(self, chosen: Mapping[int, Item], instantiations: Sequence[str]) -> dict[int, Item]:
        """The chosen classes that code uses only as scopes (`Solver::Params`), by start.

        They are reduced to the types and static members that they declare.
        """
        scopes: dict[int, Item] = {}
        classes = [
            item for item in chosen.values() if item.kind == "type" and _NESTED.search(self.bare(item))
        ]
        for item in classes:
            used_alone = re.compile(rb"\b" + re.escape(item.names[0]) + rb"\b(?!\s*(?:<[^;{}()]*>\s*)?::)")
            users = [
                self.bare(user)
                for user in chosen.values()
                if user is not item and item.names[0] in user.used and not _USED_NAME.match(self.bare(user))
            ]
            if users and not any(map(used_alone.search, [*users, " ".join(instantiations).encode()])):
                if item.start not in self._in_part:
                    self._in_part[item.start] = as_scope(item, self.parsed)
                scopes[item.start] = self._in_part[item.start]
        return scopes

    def _wanted(self, item: Item, name: bytes, user: Item, own_names: set[bytes]) -> bool:
        """Whether `user`, which uses `name`, needs this item that declares it."""
        kind = item.kind
        if item.start in self._without:
            return False
        if item.end <= self.shim_bytes and self._declared_by_unit(name, user):
            return False
        if kind in ("macro", "undef"):
            # Names in a macro body are looked up where the macro is used, so they may be defined later.
            return item.start < user.end or user.kind == "macro"
        if item.start >= user.end and user.kind != "macro" and not self._declared_for(user, name, item):
            return False
        if kind == "using" and (match := _USED_NAME.match(self.bare(item))):
            path = b"::" + b"".join(match[1].split()).removeprefix(b"::")
            return any(
                (b"::" + other.qualified).endswith(path) for other in self.by_name[name] if other.space
            )
        if kind in ("type", "using"):
            return True
        if b"__global__" in item.qualifiers:
            return kind == "instantiation" and name in own_names
        if kind == "variable":
            return bool(item.qualifiers & _DEVICE_VISIBLE)
        if kind == "prototype":
            return item.device
        if kind == "instantiation":
            return name in own_names
        return kind == "function" and self._wanted_function(item, name, user)

    def _declared_for(self, user: Item, name: bytes, item: Item) -> bool:
        """Whether code can mean something defined behind it: what is declared before, or by the code itself.

        What a template calls is looked up where it is instantiated, too.
        """
        if item.kind in ("function", "prototype", "instantiation"):
            free = item.kind == "function" and len(item.names) == 1 and not item.device
            if not free or (user.template and b"constexpr" in item.used):
                return True
        if any(other.start < user.end and other.kind != "macro" for other in self.by_name[name]):
            return True
        return tagged(name, self.bare(user))

    def _wanted_function(self, item: Item, name: bytes, user: Item) -> bool:
        """Whether device code needs this function: a device function, or a host function that it calls."""
        if misread(item, self.parsed.text):
            return False
        if item.device or b"constexpr" in item.used:
            return True
        if name != item.names[-1] or item.names.count(name) > 1:  # `name` is its class
            return False
        others = self.by_name.get(name, ())
        if any(other.kernel for other in others):  # a host function that launches the kernel of that name
            return False
        if any(other.device and other.kind in ("function", "variable") for other in others):
            return False
        found = calls(name, self.bare(user)) if name != b"main" else []
        if len(item.names) == 1:
            return any(not match[2] for match in found)
        in_class = item.names[0] in user.used | {*user.names}  # its class, or one derived from it
        other_names = self.by_name.keys() - {*item.names}
        return any(match[1] not in other_names if match[1] else match[2] or in_class for match in found)

    def _declared_by_unit(self, name: bytes, user: Item) -> bool:
        """Whether the unit itself defines a name of the shim; a type only if it does so before `user`."""
        return any(
            item.start >= self.shim_bytes
            and (item.kind == "macro" or (item.kind in ("type", "using") and item.start < user.end))
            and not _USED_NAME.match(self.bare(item))
            for item in self.by_name.get(name, ())
        )

    def _add_operators(self, chosen: dict[int, Item], queue: list[Item]) -> bool:
        """Add overloaded operators on the chosen types, which no call names; False: the queue is empty."""
        types = frozenset[bytes]().union(*(types_of(item, self.bare(item)) for item in chosen.values()))
        used = {name for item in chosen.values() for name in item.used if item.kind != "macro"}
        for item in self.operators:
            header = frozenset(IDENTIFIER.findall(self.parsed.text[item.start : item.header_end]))
            is_for_streams = not item.device and header & _STREAMS
            known = item.start in chosen or item.start in self._without
            if not known and not is_for_streams and header & (types | (_VECTORS & used)):
                chosen[item.start] = item
                queue.append(item)
        return bool(queue)

    def _with_context(self, chosen: Mapping[int, Item], end: int) -> list[Item]:
        """The chosen items in order, with the device includes and using-directives before byte `end`."""
        opened = _namespaces(chosen.values())
        context = [
            item for item in self._context
            if item.start < end and item.start not in chosen
            and (item.kind == "include" or self._using_namespace(item, opened))
        ]  # fmt: skip
        return sorted([*chosen.values(), *context], key=lambda item: item.start)

    def _device_header(self, item: Item) -> bool:
        match = _INCLUDE.match(self.parsed.text, item.start) if item.kind == "include" else None
        return match is not None and headers.kept(match[1].decode())

    def _using_namespace(self, item: Item, opened: Mapping[bytes, int]) -> bool:
        """Whether an item is a using-directive that the file needs.

        Its namespace must be one of a device header, or be opened by an earlier chosen item (`opened`: path
        to start).
        """
        match = _USING_NAMESPACE.match(self.bare(item)) if item.kind == "using" else None
        if match is None:
            return False
        path = b"".join(match[1].split()).removeprefix(b"::")
        if path.split(b"::")[0] in (b"cooperative_groups", b"nvcuda"):
            return True
        return any((b"::" + p).endswith(b"::" + path) and at < item.start for p, at in opened.items())

    def _emit(self, items: Sequence[Item], kernels: set[int], instantiations: Sequence[str]) -> Closure:
        """The file: the items with the blocks around them, then the explicit instantiations."""
        parts: list[tuple[Item | None, bytes]] = []
        repairs: set[str] = set()
        wrapper: tuple[bytes, ...] = ()
        previous: Item | None = None
        for item, text in self._texts(items, kernels, repairs):
            blocks = _blocks_around(item)
            if blocks != wrapper:
                parts += [(None, b"}") for _ in wrapper] + [(None, opening + b" {") for opening in blocks]
                wrapper = blocks
            elif previous is not None and not (previous.kind in _LINES and item.kind in _LINES):
                parts.append((None, b""))
            parts.append((item, text))
            previous = item
        parts += [(None, b"}") for _ in wrapper]
        for expression in instantiations:
            parts += [*([] if wrapper else [(None, b"")]), (None, self._stated(expression, items))]
            wrapper = ()
        code, header_repairs = header_names.with_headers(parts)
        shim_names = frozenset(
            n for item in items if self.flag_bytes < item.end <= self.shim_bytes for n in item.names
        )
        return Closure(tuple(items), code, shim_names, frozenset(repairs | header_repairs))

    def _texts(
        self, items: Sequence[Item], kernels: set[int], repairs: set[str]
    ) -> Iterator[tuple[Item, bytes]]:
        """The items to write, each with its repaired text; the names of repairs are added to `repairs`."""
        constexpr_starts = self._needs_constexpr(items)
        asm_body: bytes | None = None
        macros: dict[bytes, bytes] = {}
        saved: Saved = {}
        used = frozenset[bytes]().union(*(item.used for item in items))
        for item in items:
            text = self._own_text(item, used)
            if item.kind in ("macro", "undef") and item.names[0] == b"asm":
                asm_body = macro.body.strip() if (macro := definition(text)) else None
                repairs.add("asm")
                continue
            with_asm = with_plain_asm(text, asm_body)
            without_storage = without_register(with_asm)
            unconstrained = (
                without_constraints(without_storage, self._concepts) if self._constrained else without_storage
            )
            repairs.update(["asm"] * (with_asm != text) + ["register"] * (without_storage != with_asm))
            repairs.update(["constraint"] * (unconstrained != without_storage))
            text = unconstrained
            if item.host:
                repairs.add("host-method")
            if item.kind in ("macro", "undef"):
                text = without_saving(text, item.names[0], macros, saved)
                if not text:
                    continue
            repaired = self._repaired(item, text, item.start in kernels, item.start in constexpr_starts)
            repairs.update(name for name, after in repaired if after != text)
            yield item, repaired[-1][1] if repaired else text

    def _stated(self, expression: str, items: Sequence[Item]) -> bytes:
        """An explicit instantiation; in an unnamed namespace if the kernel is in one."""
        name = expression.partition("<")[0].encode()
        kernel = next(item for item in items if item.kernel and item.qualified == name)
        if not any(_UNNAMED.match(opening) for opening in kernel.wrapper):
            return declaration(expression)
        in_namespace = declaration(
            expression.removeprefix(f"{kernel.space.decode()}::" if kernel.space else "")
        )
        return b" ".join(
            [*(opening + b" {" for opening in kernel.wrapper), in_namespace, *(b"}" for _ in kernel.wrapper)]
        )

    def _repaired(self, item: Item, text: bytes, kernel: bool, real: bool) -> list[tuple[str, bytes]]:
        """The repairs to one item's text, in order: the name of each, and the text after it."""
        repairs: list[tuple[str, bytes]] = []
        if item.kind == "function" and TYPED_BRACE.search(self.bare(item)):
            text = without_compound_literals(text)
            repairs.append(("compound-literal", text))
        if item.end <= self.shim_bytes:
            return []
        if item.kind == "variable" and b"texture" in item.qualifiers and not item.device:
            text = b"__device__ " + re.sub(rb"^\s*static\s+", b"", text)
            return [("texture-reference", text)]
        if item.kind == "function" and not item.device and not kernel:
            constant = re.search(rb"\bconstexpr\b", self.bare(item)[: item.header_end - item.start])
            words = b"__host__ __device__" if constant else b"__device__"
            if b"__host__" not in item.qualifiers:
                repairs.append(("device-annotation", annotate(text, item.template, words)))
        elif item.kind == "type":
            repairs.append(("device-annotation", annotate_methods(text)))
        elif real:
            repairs.append(("constexpr", re.sub(rb"\bconst\b", b"constexpr", text, count=1)))
        return repairs

    def _own_text(self, item: Item, used: Set[bytes]) -> bytes:
        """The text of an item without unneeded host methods and trailing blanks."""
        if item.expansion:
            return item.expansion[1]
        source, end = self.parsed.source, item.end
        if item.kind in _DIRECTIVES:
            end = max(source.find(b"\n", end - 1), end) if source[end - 1 : end] != b"\n" else end
            text = without_comments(source[item.start : end])
        else:
            text = without_host_methods(item, source, used)
        lines = text.replace(b"\r\n", b"\n").split(b"\n")
        return b"\n".join(line.rstrip() for line in lines).strip()

    def _needs_constexpr(self, items: Sequence[Item]) -> frozenset[int]:
        """The starts of the floating-point constants that the file must declare `constexpr`.

        In device code that holds for those computed from other constants, and for these others.
        """
        constants = [
            item for item in items
            if item.kind == "variable" and item.names and not item.device
            and b"constexpr" not in item.qualifiers and _REAL_CONSTANT.search(self.bare(item))
        ]  # fmt: skip
        starts: set[int] = set()
        for item in constants:
            used_names = {*_NAME.findall(self.bare(item).partition(b"=")[2])} - {*item.names}
            if used_names:
                starts.add(item.start)
                starts.update(other.start for other in constants if used_names & {*other.names})
        return frozenset(starts)


def _blocks_around(item: Item) -> tuple[bytes, ...]:
    """The heads of the blocks that the file must put around an item."""
    if item.kind == "include":  # a header brings its own namespaces
        return ()
    if item.template:  # templates have no C linkage; a misread header may leave its block open
        return tuple(opening for opening in item.wrapper if not opening.startswith(b"extern"))
    return item.wrapper


def _namespaces(items: Iterable[Item]) -> dict[bytes, int]:
    """The paths of the namespaces that contain the items, each with the start of the first item in it."""
    starts: dict[bytes, int] = {}
    for item in items:
        path = item.space
        while path:
            starts[path] = min(starts.get(path, item.start), item.start)
            path = path.rpartition(b"::")[0]
    return starts


_DIRECTIVES = frozenset(("macro", "undef", "include"))
_LINES = _DIRECTIVES | {"using"}
