"""Launches that host code does not write as `kernel<<<grid, block>>>(...)`, brought into that form.

These are runtime calls (`cudaLaunchKernel`, `cudaLaunchKernelEx`, ...), kernels behind a pointer, and kernels
that a host function takes as a parameter. Texts have comments and literals blanked. Not covered: pointers in
tables and members, the driver's `cuLaunchKernel`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kcurate.cuda_source.launches.host_names import calls_of, passed, substituted
from kcurate.cuda_source.launches.template_heads import template_params
from kcurate.cuda_source.parse.syntax_tree import Node
from kcurate.cuda_source.text.brackets import closing, split_arguments
from kcurate.cuda_source.text.tokens import IDENTIFIER

_RUNTIME = re.compile(rb"cudaLaunch(?<!\wcudaLaunch)(Cooperative)?Kernel(ExC?)?\s*(?:<[^;{}()]*>\s*)?\(")
_NAMED_CAST = re.compile(rb"\A(?:reinterpret|static|const)_cast\s*<[^;{}]*?>\s*\((.*)\)\Z", re.DOTALL)
_CAST = re.compile(rb"\A\(\s*(?:const\s+)?(?:void|char)\s*(?:const\s*)?\*+\s*(?:const\s*)?\)\s*")
_KERNEL = re.compile(rb"\A(?:::\s*)?[A-Za-z_][\w:\s]*(?:<.*>)?\Z", re.DOTALL)
_EXPANSION = re.compile(rb"\A(?:std\s*::\s*forward\s*<[^<>]*>\s*\(\s*)?(\w+)\s*\)?\s*\.\.\.\Z")
# An expression that needs no parentheses when it is substituted.
_PRIMARY = re.compile(rb"[\w.:]+(?:->[\w.]+)*")
_PACK = re.compile(rb"\.\.\.\s*\w*\Z")
# Nested wrappers, and pointers that are set to pointers, are followed to this depth.
MAX_DEPTH = 4
# So many calls of one wrapper are followed.
MAX_CALLS = 64


@dataclass(frozen=True)
class LaunchText:
    """A launch as text, at byte `at`; `kernel` includes the template arguments.

    `configuration` has two to four members: grid, block, shared bytes, stream.
    """

    at: int
    kernel: bytes
    configuration: tuple[bytes, ...]
    arguments: tuple[bytes, ...]


def runtime_launches(text: bytes, before: bytes = b"") -> Iterator[LaunchText]:
    """The launches by runtime calls in `text`; `before` is the code that leads up to it."""
    for match in _RUNTIME.finditer(text):
        end = closing(text, match.end() - 1)
        if end is None:
            continue
        call_arguments = passed(text[match.end() : end - 1])
        body = before + text[: match.start()]
        if match[2] and len(call_arguments) >= 2:
            configuration = _configured(plain(call_arguments[0]), body)
            packed = match[2] == b"ExC" and len(call_arguments) > 2
            arguments = _array(call_arguments[2], body) if packed else call_arguments[2:]
            kernel = call_arguments[1]
        elif not match[2] and len(call_arguments) >= 4:
            configuration = (call_arguments[1], call_arguments[2], *call_arguments[4:6])
            kernel, arguments = call_arguments[0], _array(call_arguments[3], body)
        else:
            continue
        if configuration:
            yield LaunchText(match.start(), plain(kernel), configuration, tuple(arguments))


def plain(text: bytes) -> bytes:
    """The expression without outer casts to `void*`, `&` and parentheses."""
    text = text.strip()
    while True:
        before = text
        if text[:1] == b"&":
            text = text[1:].strip()
        elif match := _NAMED_CAST.match(text):
            text = match[1].strip()
        elif match := _CAST.match(text):
            text = text[match.end() :]
        elif text[:1] == b"(" and closing(text, 0) == len(text):
            text = text[1:-1].strip()
        if text == before:
            return text


def _array(name: bytes, before: bytes) -> list[bytes]:
    """The arguments behind an array of pointers: `void *args[] = {&a, &b}` has a and b."""
    initialiser = name if b"{" in name else b""
    for match in re.finditer(rb"\b" + re.escape(plain(name)) + rb"\s*\[[^\]]*\]\s*=?\s*(?=\{)", before):
        initialiser = before[match.end() : closing(before, match.end()) or match.end()]
    at = initialiser.find(b"{")
    end = closing(initialiser, at) if at >= 0 else None
    return [plain(argument) for argument in passed(initialiser[at + 1 : end - 1])] if end else []


def _configured(name: bytes, before: bytes) -> tuple[bytes, ...]:
    """Grid, block, shared bytes and stream of the `cudaLaunchConfig_t` called `name`; empty: not known."""
    word = re.escape(name)
    members_set: dict[bytes, bytes] = {}
    members = (b"gridDim", b"blockDim", b"dynamicSmemBytes", b"stream")
    for match in re.finditer(rb"\b" + word + rb"\s*(?:=\s*(?:cudaLaunchConfig_t\s*)?)?(?=\{)", before):
        end = closing(before, match.end()) or match.end() + 1
        initialisers = split_arguments(before[match.end() + 1 : end - 1])
        if all(initialiser.startswith(b".") for initialiser in initialisers):
            pairs = (initialiser[1:].partition(b"=") for initialiser in initialisers)
            members_set |= {member.strip(): value.strip() for member, _, value in pairs}
        else:
            members_set |= dict(zip(members, initialisers, strict=False))
    for match in re.finditer(rb"\b" + word + rb"\s*(?:\.|->)\s*(\w+)\s*=([^;{}]+);", before):
        members_set[match[1]] = match[2].strip()
    if not (members_set.get(b"gridDim") and members_set.get(b"blockDim")):
        return ()
    return tuple(members_set.get(member) or b"0" for member in members)


@dataclass(frozen=True)
class Host:
    """The host code of a unit: its bare text, its syntax tree, and the names of the kernels it declares."""

    bare: bytes
    tree: Node
    kernels: frozenset[bytes]

    def meant(self, launch: LaunchText, within: bytes = b"", depth: int = 0) -> Iterator[LaunchText]:
        """A launch for each kernel that the launch's name may refer to; the launch itself if none is known.

        `within` is the part, up to the launch, of the expansion of a macro call that holds it.
        """
        name = launch.kernel.partition(b"<")[0].rpartition(b"::")[2].strip()
        if name in self.kernels or depth > MAX_DEPTH or not name:
            yield launch
            return
        function = _function_at(self.tree, launch.at)
        start = function.start_byte if function is not None else max(self.bare.rfind(b"\n}", 0, launch.at), 0)
        values = pointed(name, self.bare[start : launch.at] + within)
        launches = [replace(launch, kernel=value) for value in values if value != launch.kernel]
        if not launches and function is not None:
            launches = list(self._handed(launch, name, function))
        if not launches:
            yield launch
        for possible in launches:
            yield from self.meant(possible, b"" if possible.at != launch.at else within, depth + 1)

    def _handed(self, launch: LaunchText, name: bytes, function: Node) -> Iterator[LaunchText]:
        """A launch for each call of a host function that takes the kernel as its parameter `name`."""
        body = function.child_by_field_name("body")
        declared = function.child_by_field_name("declarator")
        head = self.bare[_template_start(function) : body.start_byte if body else function.start_byte]
        function_name, params, pack = _parameters(declared, self.bare)
        template_names = [param.name for param in template_params(head.lstrip())]
        if name not in params and name not in template_names:
            return
        locals_of_body = _locals(
            self.bare[body.start_byte : launch.at] if body else b"", {*params, *template_names}
        )
        calls = calls_of(self.bare, function_name, deduce=name in params)
        for index, (at, template, arguments) in enumerate(calls):
            if index >= MAX_CALLS:
                return
            if _template_start(function) <= at < function.end_byte or len(arguments) < len(params) - pack:
                continue
            bound = dict(zip(template_names, template, strict=False)) | dict(
                zip(params, arguments, strict=False)
            )
            pack_arguments = arguments[len(params) - 1 :] if pack else []
            kernel = plain(bound.get(name, b""))
            if _KERNEL.match(kernel):
                yield LaunchText(
                    at,
                    kernel,
                    tuple(_bound(part, locals_of_body, bound) for part in launch.configuration),
                    tuple(
                        _passed_on(
                            launch.arguments,
                            locals_of_body,
                            bound,
                            params[-1] if pack else b"",
                            pack_arguments,
                        )
                    ),
                )


def pointed(name: bytes, before: bytes) -> list[bytes]:
    """The kernels that a pointer is set to before a launch, in any branch and on either side of `?:`."""
    word = re.escape(name)
    pattern = rb"(?<![\w.>])" + word + rb"\s*(?:\)\s*\([^;{}]*?\)\s*)?(?:=(?!=)([^;]*)|\{([^;{}]*)\});"
    kernels: dict[bytes, None] = {}
    for match in re.finditer(pattern, before):
        value = (match[1] or match[2] or b"").strip()
        choice = value.partition(b"?")[2]
        for choice_text in re.split(rb"(?<!:):(?!:)", choice) if choice else (value,):
            if _KERNEL.match(plain(choice_text)):
                kernels[plain(choice_text)] = None
    return list(kernels)


def _function_at(tree: Node, at: int) -> Node | None:
    """The innermost function definition around byte `at`; None: there is none."""
    node = tree.root_node.descendant_for_byte_range(at, at + 1)
    while node is not None and node.type != "function_definition":
        node = node.parent
    return node


def _template_start(function: Node) -> int:
    """Where a function begins, including its template head."""
    outer = function.parent
    within = outer is not None and outer.type == "template_declaration"
    return int(outer.start_byte if within else function.start_byte)


def _parameters(declarator: Node | None, bare: bytes) -> tuple[bytes, list[bytes], bool]:
    """A function's name, the names of its parameters, and whether the last parameter is a pack."""
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    if declarator is None:
        return b"", [], False
    named, listed = (declarator.child_by_field_name(field) for field in ("declarator", "parameters"))
    function_name = bare[named.start_byte : named.end_byte].partition(b"<")[0].rpartition(b"::")[2].strip()
    names, pack = list[bytes](), False
    for piece in passed(bare[listed.start_byte + 1 : listed.end_byte - 1]):
        piece = piece.partition(b"=")[0].strip()
        pointer = re.search(rb"\(\s*[*&]+\s*(\w+)\s*\)\s*\(", piece)
        words = IDENTIFIER.findall(piece)
        names.append(pointer[1] if pointer else words[-1] if words else b"")
        pack = _PACK.search(piece) is not None
    return function_name, names, pack


def _locals(body: bytes, others: set[bytes]) -> Mapping[bytes, bytes]:
    """The values of a wrapper's local variables that are set exactly once and are not in `others`."""
    values: dict[bytes, bytes | None] = {}
    for match in re.finditer(rb"\bdim3\s+(\w+)\s*[({]([^;{}]*)[)}]\s*;|\b(\w+)\s*=(?!=)\s*([^;{}]+);", body):
        name = match[1] or match[3]
        value = b"dim3(" + match[2] + b")" if match[1] else b"(" + match[4].strip() + b")"
        values[name] = None if name in values or name in others else value
    return {name: value for name, value in values.items() if value is not None}


def _bound(text: bytes, local: Mapping[bytes, bytes], bound: Mapping[bytes, bytes]) -> bytes:
    """An expression of a wrapper as its caller would write it: locals, then parameters (`bound`) replaced."""
    if text in bound:
        return bound[text]
    for _ in range(MAX_DEPTH):
        text = substituted(text, local)
    bracketed = (
        (name, value if _PRIMARY.fullmatch(value) else b"(" + value + b")") for name, value in bound.items()
    )
    return substituted(text, dict(bracketed))


def _passed_on(
    texts: Sequence[bytes],
    local: Mapping[bytes, bytes],
    bound: Mapping[bytes, bytes],
    pack: bytes,
    pack_arguments: Sequence[bytes],
) -> Iterator[bytes]:
    """The launch arguments of a wrapper as its caller would write them.

    `pack` is the name of the wrapper's parameter pack (may be empty), `pack_arguments` what the caller passes
    for it.
    """
    for text in texts:
        match = _EXPANSION.match(text)
        if match is not None and match[1] == pack:
            yield from pack_arguments
        else:
            yield _bound(text, local, bound)
