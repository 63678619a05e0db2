"""Methods without annotations, which only the host may call; NVRTC rejects even their declarations.

A kernel's file leaves them out, and with them whatever only they use. Not covered: constexpr methods
(`source_repairs`), classes inside functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import replace

from kcurate.cuda_source.parse.items import (
    TYPES,
    HostMethod,
    Item,
    Parsed,
    declared,
    is_prototype,
    templated,
    with_marks,
)
from kcurate.cuda_source.parse.syntax_tree import Node
from kcurate.cuda_source.text.tokens import IDENTIFIER

_TYPE_WORD = re.compile(rb"\b(?:typedef|template|struct|class|union)\b")
_ON_DEVICE = re.compile(rb"\b(?:__device__|__global__|constexpr|consteval)\b")
_VIRTUAL = re.compile(rb"\b(?:virtual|override|final)\b")
_HOST = re.compile(rb"\b__host__\b")
_SPECIAL = re.compile(rb"[^(]*(?:~|\boperator\b)")
# The name of constructors, destructors and operators, which are not called by name.
_CALLED_SPECIALLY = b""
_STATIC = re.compile(rb"\b(?:static|constexpr)\b")
_AROUND = TYPES | {"template_declaration", "type_definition", "declaration", "field_declaration"}


def with_host_methods(parsed: Parsed) -> Parsed:
    """The unit, each class with its host methods.

    Names that only host methods use are removed from the class's `used`.
    """
    items = list(parsed.items)
    for at, item in enumerate(items):
        if item.kind == "type" and b"(" in parsed.bare[item.start : item.end]:
            methods = sorted(_methods(item, parsed, parsed.bare), key=lambda method: method.start)
            items[at] = _without(item, tuple(methods), parsed.bare) if methods else item
    return replace(parsed, items=tuple(items))


def _without(item: Item, host: tuple[HostMethod, ...], bare: bytes) -> Item:
    """The class with these members as its host methods, and without the names that only they use."""
    parts_without, at = list[bytes](), item.start
    for method in host:
        parts_without.append(bare[at : method.start])
        at = max(at, method.end)
    used = frozenset(IDENTIFIER.findall(b" ".join([*parts_without, bare[at : item.end]])))
    return replace(item, host=host, used=used)


def as_scope(item: Item, parsed: Parsed) -> Item:
    """The class as a mere scope, for device code that uses only the types and static members it declares.

    For `Solver::Params`, that is `Solver` without its bases, data and other methods, which may not compile
    for the device. The members to leave out become host methods.
    """
    bare = parsed.bare
    stack, dropped = [_declaration(item, parsed, bare)], list[Node]()
    while stack and not dropped:
        node = stack.pop(0)
        if node is not None and node.type == "field_declaration_list":
            dropped = [member for member in node.children if not _stays_in_scope(member, bare)]
            dropped += [child for child in node.parent.children if child.type == "base_class_clause"]
        elif node is not None and node.type in _AROUND:
            stack += node.children
    spans = [(with_marks(node.start_byte, bare, parsed.marks), node.end_byte) for node in dropped]
    remaining = [
        method for method in item.host if not any(start <= method.start < end for start, end in spans)
    ]
    gone = [HostMethod(start, end, start, None, _CALLED_SPECIALLY, False) for start, end in spans]
    return _without(item, tuple(sorted([*remaining, *gone], key=lambda method: method.start)), bare)


def _stays_in_scope(member: Node, bare: bytes) -> bool:
    """Whether a member is a type, a static member or anything else that is neither data nor a method."""
    declaration = member
    while declaration.type == "template_declaration":
        declaration = templated(declaration)
    if declaration.type == "function_definition":
        body = declaration.child_by_field_name("body")
        head_end = int(body.start_byte if body is not None else declaration.end_byte)
        return _STATIC.search(bare, declaration.start_byte, head_end) is not None
    if declaration.type not in ("field_declaration", "declaration"):
        return bool(declaration.type != "friend_declaration")
    type_ = declaration.child_by_field_name("type")
    defines = type_ is not None and type_.type in TYPES and type_.child_by_field_name("body") is not None
    return bool(defines or _STATIC.search(bare, declaration.start_byte, declaration.end_byte))


def _declaration(item: Item, parsed: Parsed, bare: bytes) -> Node:
    """The node of a class's whole declaration; None: there is none."""
    word = _TYPE_WORD.search(bare, item.start, item.end)
    node = parsed.tree.root_node.descendant_for_byte_range(word.start(), word.start() + 1) if word else None
    while node is not None and node.parent is not None and node.parent.type in _AROUND:
        node = node.parent
    return node


def _methods(item: Item, parsed: Parsed, bare: bytes) -> Iterator[HostMethod]:
    """The host methods of a class and of the classes nested in it."""
    node = _declaration(item, parsed, bare)
    stack = [node] if node is not None else []
    while stack:
        inner = stack.pop()
        if inner.type == "field_declaration_list":
            names = declared_name(inner.parent, bare)
            for member in inner.children:
                method = _method(member, parsed, bare, names)
                if method is not None:
                    yield method
                elif member.type not in ("function_definition", "friend_declaration"):
                    stack.append(member)
        elif inner.type in _AROUND:
            stack += inner.children


def declared_name(node: Node, bare: bytes) -> bytes:
    """The name of the class that a node defines; empty: it has none."""
    name = node.child_by_field_name("name")
    return bare[name.start_byte : name.end_byte].partition(b"<")[0] if name is not None else b""


def _method(member: Node, parsed: Parsed, bare: bytes, class_name: bytes) -> HostMethod | None:
    """The member as a host method; None: it is no method, or device code may call it. `of` is the class."""
    declaration = member
    while declaration.type in ("template_declaration", "friend_declaration"):
        declaration = templated(declaration)
    body = declaration.child_by_field_name("body")
    if declaration.type == "function_definition":
        if body is None:  # `= default`, `= delete`
            return None
    elif declaration.type not in ("field_declaration", "declaration") or not _declares_function(declaration):
        return None
    start = with_marks(declaration.start_byte, bare, parsed.marks)
    at = min(with_marks(member.start_byte, bare, parsed.marks), start)
    end = body.start_byte if body is not None else declaration.end_byte
    while (word := IDENTIFIER.match(bare, at, end)) and word[0] in parsed.member_lists:
        at = start = word.end() + len(bare[word.end() : end]) - len(bare[word.end() : end].lstrip())
    declaration_text = bare[at:end]
    if (
        b"(" not in declaration_text
    ):  # what such a macro stands before, read as its type: `MEMBERS union { int x; };`
        return None
    words = {*IDENTIFIER.findall(declaration_text)} & parsed.annotations.keys()
    declaration_text += b" " + b" ".join(word for name in words for word in parsed.annotations[name])
    if _ON_DEVICE.search(declaration_text):
        return None
    name = next(reversed(declared(declaration, bare)), _CALLED_SPECIALLY)
    if _SPECIAL.match(declaration_text) or name == class_name:
        name = _CALLED_SPECIALLY
    is_friend = member.type == "friend_declaration"
    initialiser_lists = (
        child.start_byte for child in declaration.children if child.type == "field_initializer_list"
    )
    body_start = next(initialiser_lists, body.start_byte) if body is not None else None
    virtual = _VIRTUAL.search(declaration_text) is not None and not is_friend
    return HostMethod(at, member.end_byte, start, body_start, name, virtual)


def _declares_function(node: Node) -> bool:
    declarator = node.child_by_field_name("declarator")
    return declarator is not None and (declarator.type == "operator_cast" or is_prototype(node))


def without_host_methods(item: Item, source: bytes, used: Set[bytes]) -> bytes:
    """The text of a class without its host methods.

    Methods that a name in `used` may mean stay, annotated for the device. Virtual ones stay declared, since
    they determine the size of an object.
    """
    out, at = list[bytes](), item.start
    for method in item.host:
        if method.start < at:
            continue
        stays = method.name in used
        if not (stays or method.virtual):
            line = source.rfind(b"\n", 0, method.start) + 1
            begin = line if not source[line : method.start].strip() and line >= at else method.start
            out.append(source[at:begin].rstrip(b"\n") + b"\n" if begin == line else source[at:begin])
            at = method.end + (source[method.end : method.end + 1] == b"\n" and begin == line)
            continue
        end = method.end if stays or method.body is None else method.body
        text = _HOST.sub(b"", source[method.head : end]).strip()
        out += [source[at : method.head], b"__host__ __device__ ", text, b";" if end != method.end else b""]
        at = method.end
    return b"".join([*out, source[at : item.end]])
