"""A parsed unit as a flat list of declarations, each with its names, its span and the names it uses.

One parse, one walk over the top level (namespaces and `extern "C"` blocks are entered, function bodies are
not). Regions that the grammar fails to parse are still searched for declarations.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from kcurate.cuda_source.parse.syntax_tree import AROUND_NAMES, Node, Tree, below, parse_tree
from kcurate.cuda_source.preprocess.expansion import definition
from kcurate.cuda_source.preprocess.macro_statements import MacroStatement, macro_statements
from kcurate.cuda_source.preprocess.macros import (
    MARK,
    SAVING_PRAGMA,
    Opened,
    annotating,
    annotations_in,
    blanked,
    blocks_opened,
    global_macros,
    namespace_words,
    readable,
    replaced,
    statement_macros,
)
from kcurate.cuda_source.text.blanking import blank_literals, parseable
from kcurate.cuda_source.text.tokens import IDENTIFIER, directives, tokens

_FUNCTION = "function_definition"
TYPES = frozenset(("struct_specifier", "union_specifier", "class_specifier", "enum_specifier"))
_USING = frozenset(
    ("using_declaration", "alias_declaration", "namespace_alias_definition", "static_assert_declaration")
)
_DECLARATORS = AROUND_NAMES | {"attributed_declarator", "function_declarator"}
_NAME_NODES = frozenset(
    ("identifier", "type_identifier", "field_identifier", "operator_name", "destructor_name")
)
# What a macro call may declare for device code.
_DECLARABLE = frozenset(("function", "type", "variable", "using"))
_ANNOTATED = _DECLARABLE | {"prototype"}
# Further than so from an annotation, nothing is annotated by it.
GAP_BYTES = 200
_UNDEF = re.compile(rb"#[ \t]*undef[ \t]+(?P<name>\w+)")
_USED_NAME = re.compile(rb"using\s+(?!namespace\b)[\w:\s]*?::\s*(\w+)\s*;")
_NAMESPACE = re.compile(rb"namespace\s+([\w:]+)")
_OPERATOR = re.compile(rb"\boperator\b")
_SEMICOLON = re.compile(rb"\s*;")


class HostMethod(NamedTuple):
    """A member function that only the host may call: `head` is where its declaration begins, behind
    `template <...>`, `body` where its initialisers or its body do (None: it has none here).

    `name` is empty where no call names it: constructors, destructors, operators.
    """

    start: int
    end: int
    head: int
    body: int | None
    name: bytes
    virtual: bool


@dataclass(frozen=True)
class Item:
    """One declaration: `names` it declares, `used` every name in it, `wrapper` the blocks it must be inside.

    `header_end` is where a function's body begins (for other items, the item's end). `host` are the host
    methods of a class, if they were looked for. `expansion`: what a macro call that makes kernels stands for
    here, the header and the whole.
    """

    kind: str
    names: tuple[bytes, ...]
    start: int
    end: int
    header_end: int
    used: frozenset[bytes]
    qualifiers: frozenset[bytes]
    wrapper: tuple[bytes, ...] = ()
    template: bool = False
    host: tuple[HostMethod, ...] = ()
    expansion: tuple[bytes, bytes] | None = None

    @property
    def kernel(self) -> bool:
        """A `__global__` function with a body."""
        return self.kind == "function" and b"__global__" in self.qualifiers

    @property
    def device(self) -> bool:
        """Marked `__device__` or `__constant__`."""
        return b"__device__" in self.qualifiers or b"__constant__" in self.qualifiers

    @property
    def space(self) -> bytes:
        """The enclosing namespaces, such as `a::b`."""
        return b"::".join(match[1] for opening in self.wrapper if (match := _NAMESPACE.match(opening)))

    @property
    def qualified(self) -> bytes:
        """Its last name, qualified with the enclosing namespaces."""
        return b"::".join([self.space, self.names[-1]] if self.space else [self.names[-1]])

    def reached(self, places: Sequence[int]) -> bool:
        """Whether one of some bytes, in order, lies in it."""
        at = bisect_left(places, self.start)
        return at < len(places) and places[at] < self.end


def innermost(items: Iterable[Item], at: int) -> Item | None:
    """The smallest of the items that a byte lies in."""
    around = (item for item in items if item.start <= at < item.end)
    return min(around, key=lambda item: item.end - item.start, default=None)


@dataclass(frozen=True)
class Parsed:
    """A unit: its original bytes, the same bytes without comments (same length), the tree, the items.

    `bare` is the text without what is in literals. `annotations` are the macros that only annotate
    (`macros.annotating`); `marks` maps where one ends in the code to where it starts: the tree does not have
    them.
    """

    source: bytes
    text: bytes
    bare: bytes
    tree: Any
    items: tuple[Item, ...]
    annotations: Mapping[bytes, frozenset[bytes]] = field(default_factory=dict)
    marks: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def member_lists(self) -> frozenset[bytes]:
        """The macros without parameters that stand for whole declarations: `;` or `}` ends them."""
        macros = (definition(self.text, item.start) for item in self.items if item.kind == "macro")
        return frozenset(
            macro.name for macro in macros
            if macro and macro.body.endswith((b";", b"}")) and not macro.body.startswith(b"(")
        )  # fmt: skip


def parse(source: bytes) -> Parsed:
    """Parse a unit and list what it declares, in order."""
    text = parseable(source)
    bare = blank_literals(text)
    opened = blocks_opened(text, bare) if MARK.search(bare) else []
    beside = blanked(bare, ((each.start, each.end) for each in opened))
    statements = list(macro_statements(text, beside)) if MARK.search(bare) else []
    annotations = annotating(bare) if MARK.search(bare) else {}
    places = list(annotations_in(bare, annotations))
    plain = replaced(readable(text, bare), statement_macros(bare) if MARK.search(bare) else ())
    plain = blanked(plain, places)
    plain = blanked(plain, list(namespace_words(plain)))
    plain = blanked(plain, ((each.start, each.end) for each in opened))
    tree = parse_tree(blanked(plain, ((each.start, each.end) for each in statements)))
    words, before = global_macros(bare).words, {end: start for start, end in places}
    named = (
        _annotated(item, bare, annotations, before) for item in _items(tree.root_node, text, bare, plain)
    )
    declarations = [_as_kernel(item, bare, words) for item in named]
    declarations += (
        item for statement in statements for item in _of_macro_call(statement, bare, annotations)
    )
    items = tuple(sorted(declarations, key=lambda item: (item.start, -item.end)))
    items = tuple(_within(items, opened)) if opened else items
    return Parsed(source, text, bare, tree, items, annotations, before)


@lru_cache(maxsize=32)
def tree_of(source: bytes) -> Tree:
    """Parse device code."""
    return Tree(source, parse(source).tree.root_node)


def _within(items: Iterable[Item], opened: Sequence[Opened]) -> Iterator[Item]:
    """The items inside the blocks that macros open, around those that the tree has."""
    heads, pending = list[tuple[int, bytes]](), [*opened][::-1]
    for item in items:
        while pending and pending[-1].start < item.start:
            step = pending.pop()
            del heads[max(0, len(heads) - step.closes) :]
            heads += ((step.inside, head) for head in step.heads)
        wrapper = list(item.wrapper)
        for before, (inside, head) in enumerate(heads):
            wrapper.insert(min(inside, len(item.wrapper)) + before, head)
        yield replace(item, wrapper=tuple(wrapper)) if heads else item


def _of_macro_call(
    statement: MacroStatement, bare: bytes, annotations: Mapping[bytes, frozenset[bytes]]
) -> Iterator[Item]:
    """What a macro call declares: one item; if kernels are among it, these and the rest, all written out."""
    text, (start, end) = statement.expansion, (statement.start, statement.end)
    plain = blank_literals(text)
    places = list(annotations_in(plain, annotations))
    before, tree = {last: first for first, last in places}, parse_tree(blanked(text, places))
    items = [
        _annotated(item, plain, annotations, before)
        for item in _items(tree.root_node, text, plain, plain)
        if item.kind in _DECLARABLE
    ]
    kernels = [item for item in items if item.kernel and item.names]
    if kernels:
        beside = [item for item in items if not item.kernel and (item.device or item.kind != "function")]
        # Before the kernels of the call, at a byte where nothing else begins.
        parts = [(start - 1, beside)] if beside and start else []
        parts += [(start + at, [kernel]) for at, kernel in enumerate(kernels[: end - start])]
        if beside and not start:
            parts[0] = start, [*beside, kernels[0]]
        for at, declared_here in parts:
            yield _written_out(declared_here, statement, plain, at)
    elif items and not any(b"__global__" in item.qualifiers for item in items):
        first = next((item for item in items if item.device), items[0])
        if first.kind == "function" and first.template and not first.device:
            # `__device__` goes behind its template head.
            yield _written_out(items, statement, plain, start)
            return
        names = tuple(name for item in items for name in item.names)
        used = frozenset(IDENTIFIER.findall(bare[start:end] + b" " + text))
        yield replace(
            first, names=names, start=start, end=end, header_end=end, used=used, wrapper=statement.wrapper
        )


def _written_out(items: Sequence[Item], statement: MacroStatement, plain: bytes, at: int) -> Item:
    """What is declared in the expansion of a macro call, as one item at a byte of the call."""
    last, text = items[-1], statement.expansion
    return replace(
        last,
        names=tuple(name for item in items for name in item.names),
        start=at,
        end=statement.end,
        header_end=statement.end,
        used=frozenset(name for item in items for name in item.used),
        wrapper=(*statement.wrapper, *last.wrapper),
        expansion=(
            plain[last.start : last.header_end],
            b"\n".join(written(text[item.start : item.end]) for item in items),
        ),
    )


def written(text: bytes, depth: int = 0) -> bytes:
    """Tokens in lines: a macro's expansion has none; directives stay on lines of their own."""
    if directive := next(directives(text), None):
        before, rest = text[: directive.start()], text[directive.end() :]
        deeper = depth + before.count(b"{") - before.count(b"}")
        return b"\n".join(
            [written(before, depth), directive[0].strip(), b"  " * deeper + written(rest, deeper)]
        )
    out, inside = list[bytes](), 0
    for token in tokens(text):
        inside += (token == b"(") - (token == b")")
        depth -= token == b"}"
        if out and out[-1] == b"\n":
            out.append(b"  " * depth)
        elif out and token not in (b")", b"]", b",", b";", b".") and out[-1] not in (b"(", b"[", b"."):
            called = token in (b"(", b"[") and (out[-1][-1:].isalnum() or out[-1] in (b")", b"]"))
            out.append(b"" if called else b" ")
        out.append(token)
        depth += token == b"{"
        if not inside and token in (b";", b"{", b"}"):
            out.append(b"\n")
    return b"".join(out).strip()


def _annotated(
    item: Item, bare: bytes, annotations: Mapping[bytes, frozenset[bytes]], before: Mapping[int, int]
) -> Item:
    """The item with the annotating macros in its header, which the parser did not see.

    `before` maps the end of each to its start: an item that one precedes begins there.
    """
    start = with_marks(item.start, bare, before)
    names = annotations.keys() & {*IDENTIFIER.findall(bare[start : item.header_end])} if annotations else ()
    if not names or item.kind not in _ANNOTATED:
        return item
    words = frozenset[bytes]().union(*(annotations[name] for name in names))
    return replace(
        item, start=start, used=item.used | frozenset(names) | words, qualifiers=item.qualifiers | words
    )


def with_marks(start: int, bare: bytes, marks: Mapping[int, int]) -> int:
    """Where a declaration begins with the annotating macros before it."""
    while marks:
        first = max(0, start - GAP_BYTES)
        end = first + len(bare[first:start].rstrip())
        if end not in marks:
            break
        start = marks[end]
    return start


def _as_kernel(item: Item, bare: bytes, words: frozenset[bytes]) -> Item:
    """The item, qualified `__global__` if a macro in its header expands to that."""
    if item.kind not in ("function", "prototype") or not words & item.used:
        return item
    header = IDENTIFIER.findall(bare[item.start : item.header_end])
    if words.isdisjoint(header):
        return item
    return replace(item, qualifiers=item.qualifiers | {b"__global__"})


def _items(root: Node, text: bytes, bare: bytes, plain: bytes) -> Iterator[Item]:
    """What a tree declares; `plain` is the text that was parsed, without macros that say nothing."""
    stack: list[tuple[Node, tuple[bytes, ...]]] = [(root, ())]
    while stack:
        container, wrapper = stack.pop()
        for node in container.children:
            kind = node.type
            if kind in ("namespace_definition", "linkage_specification"):
                body = node.child_by_field_name("body")
                if body is not None and body.type == "declaration_list":
                    stack.append(
                        (body, (*wrapper, b" ".join(plain[node.start_byte : body.start_byte].split())))
                    )
                    continue
                if body is not None and kind == "linkage_specification":
                    item = _item(body, text, bare, wrapper)
                    if item is not None:
                        yield replace(item, start=node.start_byte)  # at `extern "C"`
                    continue
            if kind == "ERROR" or kind.startswith("preproc_if") or kind in ("preproc_else", "preproc_elif"):
                stack.append((node, wrapper))
                continue
            item = _item(node, text, bare, wrapper)
            if item is not None:
                yield item


def _item(node: Node, text: bytes, bare: bytes, wrapper: tuple[bytes, ...]) -> Item | None:
    kind = node.type
    start, end, template = node.start_byte, node.end_byte, False
    inner = node
    while inner.type == "template_declaration":
        template = True
        inner = templated(inner)
        kind = inner.type
    header_end = end
    names: list[bytes] = []
    if kind == _FUNCTION:
        body = inner.child_by_field_name("body")
        header_end = body.start_byte if body is not None else end
        names = declared(inner, text)
        what = "function"
    elif kind in ("preproc_def", "preproc_function_def"):
        names, what = [_text(node.child_by_field_name("name"), text)], "macro"
    elif kind == "preproc_call":
        match = _UNDEF.match(text, start, end) or SAVING_PRAGMA.match(text, start, end)
        if match is None:
            return None
        names, what = [match["name"]], "undef"
    elif kind == "preproc_include":
        what = "include"
    elif kind in TYPES:
        names, what = _type_names(inner, text), "type"
        semicolon = _SEMICOLON.match(text, end)
        end = header_end = semicolon.end() if semicolon else end
    elif kind == "type_definition":
        names, what = [*declared(inner, text), *_type_names(inner.child_by_field_name("type"), text)], "type"
    elif kind in _USING:
        name = inner.child_by_field_name("name")
        names, what = ([_text(name, text)] if name is not None else []), "using"
        if kind == "using_declaration" and (match := _USED_NAME.match(bare, start)):
            names = [match[1]]
    elif kind == "declaration":
        names = [*declared(inner, text), *_type_names(inner.child_by_field_name("type"), text)]
        what = "prototype" if is_prototype(inner) else "variable"
    elif kind == "template_instantiation":
        names = [*declared(inner, text), *_type_names(inner.child_by_field_name("type"), text)]
        what = "instantiation"
    else:
        return None
    header = bare[start:header_end]
    qualifiers = frozenset(
        re.findall(rb"__global__|__device__|__host__|__constant__|__shared__|__managed__", header)
    )
    if what == "variable":
        qualifiers |= frozenset(re.findall(rb"\b(?:const|constexpr|static|extern|texture|surface)\b", header))
    used = frozenset(IDENTIFIER.findall(bare[start:end]))
    return Item(what, tuple(names), start, end, header_end, used, qualifiers, wrapper, template)


def templated(node: Node) -> Node:
    """What a template declaration declares: its last named child that is not a comment."""
    return next(child for child in reversed(node.named_children) if child.type != "comment")


def _text(node: Node, text: bytes) -> bytes:
    return text[node.start_byte : node.end_byte] if node is not None else b""


def _type_names(node: Node, text: bytes) -> list[bytes]:
    """The tag of a type defined at this node, and its enumerators."""
    if node is None or node.type not in TYPES:
        return []
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    names = [_text(name, text).split(b"<")[0].split(b"::")[-1]] if name is not None else []
    if node.type == "enum_specifier" and body is not None:
        names += [
            _text(child.child_by_field_name("name"), text)
            for child in body.named_children
            if child.type == "enumerator"
        ]
    return names


def declared(node: Node, text: bytes) -> list[bytes]:
    """The names that the declarators of a node introduce; `S::f` introduces both `S` and `f`."""
    declarators = node.children_by_field_name("declarator")
    return [name for declarator in declarators for name in _declarator_names(declarator, text)]


def _declarator_names(node: Node, text: bytes) -> list[bytes]:
    while node is not None and node.type in _DECLARATORS:
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next(
                (c for c in node.named_children if c.type in _DECLARATORS or c.type in _NAME_NODES), None
            )
        node = inner
    if node is None:
        return []
    if node.type in _NAME_NODES:
        name = _text(node, text)
        suffix = name[name.rindex(b'"') + 1 :].strip() if b'"' in name else b""  # of `operator""_kb`
        return [suffix, name] if suffix else [name]
    # Nothing names a conversion operator: neither the type that it converts to nor a `const` behind it.
    before, *converts = _OPERATOR.split(_text(node, text).split(b"<")[0], maxsplit=1)
    return [*IDENTIFIER.findall(before), *(b"operator" + to for to in converts)]


def is_prototype(node: Node) -> bool:
    """Whether a declaration declares a function."""
    for declarator in node.children_by_field_name("declarator"):
        inner = declarator
        while inner is not None and inner.type in ("pointer_declarator", "reference_declarator"):
            inner = below(inner)
        if inner is not None and inner.type == "function_declarator":
            target = inner.child_by_field_name("declarator")
            return target is None or target.type != "parenthesized_declarator"
    return False
