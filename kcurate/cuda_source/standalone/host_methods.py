"""Methods of classes that only the host may call: unannotated ones. NVRTC refuses even declarations of them.

What device code may not call, a kernel's file can do without, and without what it alone needs. Not covered:
constexpr methods (`source_repairs`), classes inside functions.
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
_CALLED_SPECIALLY = b""
_STATIC = re.compile(rb"\b(?:static|constexpr)\b")
_AROUND = TYPES | {"template_declaration", "type_definition", "declaration", "field_declaration"}


def with_host_methods(parsed: Parsed) -> Parsed:
    """The unit with the host methods of each of its classes; what only these use, the class does not use."""
    items = list(parsed.items)
    for at, item in enumerate(items):
        if item.kind == "type" and b"(" in parsed.bare[item.start : item.end]:
            methods = sorted(_methods(item, parsed, parsed.bare), key=lambda method: method.start)
            items[at] = _without(item, tuple(methods), parsed.bare) if methods else item
    return replace(parsed, items=tuple(items))


def _without(item: Item, host: tuple[HostMethod, ...], bare: bytes) -> Item:
    """The class with these members as the host's: what only they use, it does not use."""
    kept, at = list[bytes](), item.start
    for method in host:
        kept.append(bare[at : method.start])
        at = max(at, method.end)
    used = frozenset(IDENTIFIER.findall(b" ".join([*kept, bare[at : item.end]])))
    return replace(item, host=host, used=used)


def as_scope(item: Item, parsed: Parsed) -> Item:
    """A class of which device code names only what is declared in it, such as `Solver::Params`: without its
    bases, data and methods, which may be the host's alone. Static members stay.
    """
    bare = parsed.bare
    stack, dropped = [_declaration(item, parsed, bare)], list[Node]()
    while stack and not dropped:
        node = stack.pop(0)
        if node is not None and node.type == "field_declaration_list":
            dropped = [member for member in node.children if not _stays_in_scope(member, bare)]
            dropped += [each for each in node.parent.children if each.type == "base_class_clause"]
        elif node is not None and node.type in _AROUND:
            stack += node.children
    spans = [(with_marks(node.start_byte, bare, parsed.marks), node.end_byte) for node in dropped]
    inner = [each for each in item.host if not any(start <= each.start < end for start, end in spans)]
    gone = [HostMethod(start, end, start, None, _CALLED_SPECIALLY, False) for start, end in spans]
    return _without(item, tuple(sorted([*inner, *gone], key=lambda method: method.start)), bare)


def _stays_in_scope(member: Node, bare: bytes) -> bool:
    inner = member
    while inner.type == "template_declaration":
        inner = templated(inner)
    if inner.type == "function_definition":
        body = inner.child_by_field_name("body")
        head_end = int(body.start_byte if body is not None else inner.end_byte)
        return _STATIC.search(bare, inner.start_byte, head_end) is not None
    if inner.type not in ("field_declaration", "declaration"):
        return bool(inner.type != "friend_declaration")
    type_ = inner.child_by_field_name("type")
    defines = type_ is not None and type_.type in TYPES and type_.child_by_field_name("body") is not None
    return bool(defines or _STATIC.search(bare, inner.start_byte, inner.end_byte))


def _declaration(item: Item, parsed: Parsed, bare: bytes) -> Node:
    """The node of a class's whole declaration; None: there is none."""
    word = _TYPE_WORD.search(bare, item.start, item.end)
    node = parsed.tree.root_node.descendant_for_byte_range(word.start(), word.start() + 1) if word else None
    while node is not None and node.parent is not None and node.parent.type in _AROUND:
        node = node.parent
    return node


def _methods(item: Item, parsed: Parsed, bare: bytes) -> Iterator[HostMethod]:
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
    """The name of a class."""
    name = node.child_by_field_name("name")
    return bare[name.start_byte : name.end_byte].partition(b"<")[0] if name is not None else b""


def _method(member: Node, parsed: Parsed, bare: bytes, of: bytes) -> HostMethod | None:
    """A member as a host method; None: it is something else, or device code may call it."""
    inner = member
    while inner.type in ("template_declaration", "friend_declaration"):
        inner = templated(inner)
    body = inner.child_by_field_name("body")
    if inner.type == "function_definition":
        if body is None:  # `= default`, `= delete`
            return None
    elif inner.type not in ("field_declaration", "declaration") or not _declares_function(inner):
        return None
    start = with_marks(inner.start_byte, bare, parsed.marks)
    at = min(with_marks(member.start_byte, bare, parsed.marks), start)
    end = body.start_byte if body is not None else inner.end_byte
    while (word := IDENTIFIER.match(bare, at, end)) and word[0] in parsed.member_lists:
        at = start = word.end() + len(bare[word.end() : end]) - len(bare[word.end() : end].lstrip())
    head = bare[at:end]
    if b"(" not in head:  # what such a macro stands before, read as its type: `MEMBERS union { int x; };`
        return None
    words = {*IDENTIFIER.findall(head)} & parsed.annotations.keys()
    head += b" " + b" ".join(word for name in words for word in parsed.annotations[name])
    if _ON_DEVICE.search(head):
        return None
    name = next(reversed(declared(inner, bare)), _CALLED_SPECIALLY)
    if _SPECIAL.match(head) or name == of:
        name = _CALLED_SPECIALLY
    friend = member.type == "friend_declaration"
    lists = (child.start_byte for child in inner.children if child.type == "field_initializer_list")
    first = next(lists, body.start_byte) if body is not None else None
    virtual = _VIRTUAL.search(head) is not None and not friend
    return HostMethod(at, member.end_byte, start, first, name, virtual)


def _declares_function(node: Node) -> bool:
    declarator = node.child_by_field_name("declarator")
    return declarator is not None and (declarator.type == "operator_cast" or is_prototype(node))


def without_host_methods(item: Item, source: bytes, used: Set[bytes]) -> bytes:
    """A class's text without its host methods.

    Those that a name in `used` may mean stay, for the device too; virtual ones stay declared, since they
    decide how large an object is.
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
