"""A parsed unit as a flat list of declarations: the names each declares, its span, and the names it uses.

The unit is parsed once and its top level is walked once: namespaces and `extern "C"` blocks are entered,
function bodies are not. Regions that the grammar fails to parse are searched for declarations too.
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
# The kinds of items that a macro call may declare for device code.
_DECLARABLE = frozenset(("function", "type", "variable", "using"))
_ANNOTATED = _DECLARABLE | {"prototype"}
# An annotation and its declaration are at most so many blank bytes apart.
GAP_BYTES = 200
_UNDEF = re.compile(rb"#[ \t]*undef[ \t]+(?P<name>\w+)")
_USED_NAME = re.compile(rb"using\s+(?!namespace\b)[\w:\s]*?::\s*(\w+)\s*;")
_NAMESPACE = re.compile(rb"namespace\s+([\w:]+)")
_OPERATOR = re.compile(rb"\boperator\b")
_SEMICOLON = re.compile(rb"\s*;")


class HostMethod(NamedTuple):
    """A member function that only host code may call.

    `head` is the offset of its declaration, behind `template <...>`; `body` that of its initialiser list or
    body (None: declared only). `name` is empty for constructors, destructors and operators, which no call
    names.
    """

    start: int
    end: int
    head: int
    body: int | None
    name: bytes
    virtual: bool


@dataclass(frozen=True)
class Item:
    """One declaration. `names` are the names it declares, `used` all names in its text.

    `wrapper` lists the heads of the namespaces and `extern "C"` blocks around it. `header_end` is the offset
    of a function's body (other kinds: the item's end). `host`: a class's host methods, if they were looked
    for. `expansion`: for a macro call that makes kernels, its expanded header and whole text.

    For `namespace wave { template <class T> __global__ void step(T *x) { *x = f(*x); } }` that is: `kind`
    "function", `names` (step,), `used` {template, class, T, step, x, f, ...}, `qualifiers` {__global__},
    `wrapper` (namespace wave,), `template` True.
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
        """Whether it is a `__global__` function with a body."""
        return self.kind == "function" and b"__global__" in self.qualifiers

    @property
    def device(self) -> bool:
        """Whether it is marked `__device__` or `__constant__`."""
        return b"__device__" in self.qualifiers or b"__constant__" in self.qualifiers

    @property
    def space(self) -> bytes:
        """The enclosing namespaces, such as `a::b`; empty at global scope."""
        return b"::".join(match[1] for opening in self.wrapper if (match := _NAMESPACE.match(opening)))

    @property
    def qualified(self) -> bytes:
        """Its last name, qualified with the enclosing namespaces, such as `a::b::step`."""
        return b"::".join([self.space, self.names[-1]] if self.space else [self.names[-1]])

    def reached(self, places: Sequence[int]) -> bool:
        """Whether one of some bytes, in order, lies in it."""
        at = bisect_left(places, self.start)
        return at < len(places) and places[at] < self.end


def innermost(items: Iterable[Item], at: int) -> Item | None:
    """The smallest of the items that contain byte `at`; None: there is none."""
    around = (item for item in items if item.start <= at < item.end)
    return min(around, key=lambda item: item.end - item.start, default=None)


@dataclass(frozen=True)
class Parsed:
    """A parsed unit: the original bytes, the same bytes without comments (`text`), the tree, the items.

    `text` has the length of `source`; `bare` is `text` with the contents of literals blanked. `annotations`
    maps each macro that only annotates a declaration to the words it expands to; `marks` maps the end of each
    use of one to its start, since these uses are blanked before parsing and so are not in the tree.
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
        """The macros without parameters that expand to whole declarations, ending with `;` or `}`."""
        macros = (definition(self.text, item.start) for item in self.items if item.kind == "macro")
        return frozenset(
            macro.name for macro in macros
            if macro and macro.body.endswith((b";", b"}")) and not macro.body.startswith(b"(")
        )  # fmt: skip


def parse(source: bytes) -> Parsed:
    """Parse a unit and list its declarations in order."""
    text = parseable(source)
    bare = blank_literals(text)
    block_macros = blocks_opened(text, bare) if MARK.search(bare) else []
    block_spans = [(use.start, use.end) for use in block_macros]
    outside_blocks = blanked(bare, block_spans)
    statements = list(macro_statements(text, outside_blocks)) if MARK.search(bare) else []
    annotations = annotating(bare) if MARK.search(bare) else {}
    annotation_spans = list(annotations_in(bare, annotations))
    parsed_text = replaced(readable(text, bare), statement_macros(bare) if MARK.search(bare) else ())
    parsed_text = blanked(parsed_text, annotation_spans)
    parsed_text = blanked(parsed_text, list(namespace_words(parsed_text)))
    parsed_text = blanked(parsed_text, block_spans)
    tree = parse_tree(blanked(parsed_text, ((statement.start, statement.end) for statement in statements)))
    kernel_words, start_of = global_macros(bare).words, {end: start for start, end in annotation_spans}
    annotated_items = (
        _annotated(item, bare, annotations, start_of)
        for item in _items(tree.root_node, text, bare, parsed_text)
    )
    declarations = [_as_kernel(item, bare, kernel_words) for item in annotated_items]
    declarations += (
        item for statement in statements for item in _of_macro_call(statement, bare, annotations)
    )
    items = tuple(sorted(declarations, key=lambda item: (item.start, -item.end)))
    items = tuple(_within(items, block_macros)) if block_macros else items
    return Parsed(source, text, bare, tree, items, annotations, start_of)


@lru_cache(maxsize=32)
def tree_of(source: bytes) -> Tree:
    """The syntax tree of device code."""
    return Tree(source, parse(source).tree.root_node)


def _within(items: Iterable[Item], block_macros: Sequence[Opened]) -> Iterator[Item]:
    """The items with the blocks that macros open added to their wrappers."""
    heads, pending = list[tuple[int, bytes]](), [*block_macros][::-1]
    for item in items:
        while pending and pending[-1].start < item.start:
            use = pending.pop()
            del heads[max(0, len(heads) - use.closes) :]
            heads += ((use.inside, head) for head in use.heads)
        wrapper = list(item.wrapper)
        for index, (outer_blocks, head) in enumerate(heads):
            wrapper.insert(min(outer_blocks, len(item.wrapper)) + index, head)
        yield replace(item, wrapper=tuple(wrapper)) if heads else item


def _of_macro_call(
    statement: MacroStatement, bare: bytes, annotations: Mapping[bytes, frozenset[bytes]]
) -> Iterator[Item]:
    """The items that a macro call declares.

    A call that makes kernels gives an item for each kernel, and one before them for its other declarations,
    all with their expansion. Any other call gives one item that stands for the call as it is written.
    """
    plain = blank_literals(statement.expansion)
    items = _items_of_expansion(statement.expansion, plain, annotations)
    if any(item.kernel and item.names for item in items):
        yield from _kernels_of_call(items, statement, plain)
    elif items and not any(b"__global__" in item.qualifiers for item in items):
        first = next((item for item in items if item.device), items[0])
        if first.kind == "function" and first.template and not first.device:
            # Written out, since `__device__` has to go behind its template head.
            yield _written_out(items, statement, plain, statement.start)
        else:
            yield _as_call(items, first, statement, bare)


def _items_of_expansion(
    expansion: bytes, plain: bytes, annotations: Mapping[bytes, frozenset[bytes]]
) -> list[Item]:
    """What an expansion declares for device code; `plain` is the expansion with its literals blanked."""
    spans = list(annotations_in(plain, annotations))
    start_of, tree = {end: start for start, end in spans}, parse_tree(blanked(expansion, spans))
    return [
        _annotated(item, plain, annotations, start_of)
        for item in _items(tree.root_node, expansion, plain, plain)
        if item.kind in _DECLARABLE
    ]


def _kernels_of_call(items: Sequence[Item], statement: MacroStatement, plain: bytes) -> Iterator[Item]:
    """The kernels of a macro call as one item each, after an item for the declarations beside them.

    Items are told apart by their start, so each gets a byte of the call of its own. The declarations beside
    the kernels get the byte before the call, where no other item begins; if the call is at byte 0, they share
    an item with the first kernel.
    """
    start, length = statement.start, statement.end - statement.start
    kernels = [item for item in items if item.kernel and item.names]
    beside = [item for item in items if not item.kernel and (item.device or item.kind != "function")]
    parts = [(start - 1, beside)] if beside and start else []
    parts += [(start + index, [kernel]) for index, kernel in enumerate(kernels[:length])]
    if beside and not start:
        parts[0] = start, [*beside, kernels[0]]
    for at, part in parts:
        yield _written_out(part, statement, plain, at)


def _as_call(items: Sequence[Item], first: Item, statement: MacroStatement, bare: bytes) -> Item:
    """One item, of the kind of `first`, for all that a macro call declares; its text is the call itself."""
    names = tuple(name for item in items for name in item.names)
    start, end = statement.start, statement.end
    used = frozenset(IDENTIFIER.findall(bare[start:end] + b" " + statement.expansion))
    return replace(
        first, names=names, start=start, end=end, header_end=end, used=used, wrapper=statement.wrapper
    )


def _written_out(items: Sequence[Item], statement: MacroStatement, plain: bytes, at: int) -> Item:
    """One item at byte `at` for several declarations of a macro call's expansion."""
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
    """An expansion laid out in lines, since expanding a macro loses line breaks; indented by `depth` levels.

    Directives stay on lines of their own.
    """
    if directive := next(directives(text), None):
        before, after = text[: directive.start()], text[directive.end() :]
        deeper = depth + before.count(b"{") - before.count(b"}")
        return b"\n".join(
            [written(before, depth), directive[0].strip(), b"  " * deeper + written(after, deeper)]
        )
    parts, parentheses = list[bytes](), 0
    for token in tokens(text):
        parentheses += (token == b"(") - (token == b")")
        depth -= token == b"}"
        if parts and parts[-1] == b"\n":
            parts.append(b"  " * depth)
        elif parts and token not in (b")", b"]", b",", b";", b".") and parts[-1] not in (b"(", b"[", b"."):
            called = token in (b"(", b"[") and (parts[-1][-1:].isalnum() or parts[-1] in (b")", b"]"))
            parts.append(b"" if called else b" ")
        parts.append(token)
        depth += token == b"{"
        if not parentheses and token in (b";", b"{", b"}"):
            parts.append(b"\n")
    return b"".join(parts).strip()


def _annotated(
    item: Item, bare: bytes, annotations: Mapping[bytes, frozenset[bytes]], start_of: Mapping[int, int]
) -> Item:
    """The item with the annotating macros in its header, which the parser did not see.

    `start_of` maps the end of each macro use to its start: an item directly behind one begins there.
    """
    start = with_marks(item.start, bare, start_of)
    names = annotations.keys() & {*IDENTIFIER.findall(bare[start : item.header_end])} if annotations else ()
    if not names or item.kind not in _ANNOTATED:
        return item
    words = frozenset[bytes]().union(*(annotations[name] for name in names))
    return replace(
        item, start=start, used=item.used | frozenset(names) | words, qualifiers=item.qualifiers | words
    )


def with_marks(start: int, bare: bytes, marks: Mapping[int, int]) -> int:
    """Where a declaration begins, including the annotating macros before it (`marks`: end to start)."""
    while marks:
        first = max(0, start - GAP_BYTES)
        end = first + len(bare[first:start].rstrip())
        if end not in marks:
            break
        start = marks[end]
    return start


def _as_kernel(item: Item, bare: bytes, words: frozenset[bytes]) -> Item:
    """The item, marked `__global__` if its header has one of the macros `words`, which expand to that."""
    if item.kind not in ("function", "prototype") or not words & item.used:
        return item
    header = IDENTIFIER.findall(bare[item.start : item.header_end])
    if words.isdisjoint(header):
        return item
    return replace(item, qualifiers=item.qualifiers | {b"__global__"})


def _items(root: Node, text: bytes, bare: bytes, plain: bytes) -> Iterator[Item]:
    """The declarations in a tree; `plain` is the text as it was parsed, with annotating macros blanked."""
    stack: list[tuple[Node, tuple[bytes, ...]]] = [(root, ())]
    while stack:
        container, wrapper = stack.pop()
        for node in container.children:
            node_kind = node.type
            if node_kind in ("namespace_definition", "linkage_specification"):
                body = node.child_by_field_name("body")
                if body is not None and body.type == "declaration_list":
                    stack.append(
                        (body, (*wrapper, b" ".join(plain[node.start_byte : body.start_byte].split())))
                    )
                    continue
                if body is not None and node_kind == "linkage_specification":
                    item = _item(body, text, bare, wrapper)
                    if item is not None:
                        yield replace(item, start=node.start_byte)  # at `extern "C"`
                    continue
            if (
                node_kind == "ERROR"
                or node_kind.startswith("preproc_if")
                or node_kind in ("preproc_else", "preproc_elif")
            ):
                stack.append((node, wrapper))
                continue
            item = _item(node, text, bare, wrapper)
            if item is not None:
                yield item


def _item(node: Node, text: bytes, bare: bytes, wrapper: tuple[bytes, ...]) -> Item | None:
    node_kind = node.type
    start, end, template = node.start_byte, node.end_byte, False
    declaration = node
    while declaration.type == "template_declaration":
        template = True
        declaration = templated(declaration)
        node_kind = declaration.type
    header_end = end
    names: list[bytes] = []
    if node_kind == _FUNCTION:
        body = declaration.child_by_field_name("body")
        header_end = body.start_byte if body is not None else end
        names = declared(declaration, text)
        item_kind = "function"
    elif node_kind in ("preproc_def", "preproc_function_def"):
        names, item_kind = [_text(node.child_by_field_name("name"), text)], "macro"
    elif node_kind == "preproc_call":
        match = _UNDEF.match(text, start, end) or SAVING_PRAGMA.match(text, start, end)
        if match is None:
            return None
        names, item_kind = [match["name"]], "undef"
    elif node_kind == "preproc_include":
        item_kind = "include"
    elif node_kind in TYPES:
        names, item_kind = _type_names(declaration, text), "type"
        semicolon = _SEMICOLON.match(text, end)
        end = header_end = semicolon.end() if semicolon else end
    elif node_kind == "type_definition":
        names, item_kind = (
            [*declared(declaration, text), *_type_names(declaration.child_by_field_name("type"), text)],
            "type",
        )
    elif node_kind in _USING:
        name = declaration.child_by_field_name("name")
        names, item_kind = ([_text(name, text)] if name is not None else []), "using"
        if node_kind == "using_declaration" and (match := _USED_NAME.match(bare, start)):
            names = [match[1]]
    elif node_kind == "declaration":
        names = [*declared(declaration, text), *_type_names(declaration.child_by_field_name("type"), text)]
        item_kind = "prototype" if is_prototype(declaration) else "variable"
    elif node_kind == "template_instantiation":
        names = [*declared(declaration, text), *_type_names(declaration.child_by_field_name("type"), text)]
        item_kind = "instantiation"
    else:
        return None
    header = bare[start:header_end]
    qualifiers = frozenset(
        re.findall(rb"__global__|__device__|__host__|__constant__|__shared__|__managed__", header)
    )
    if item_kind == "variable":
        qualifiers |= frozenset(re.findall(rb"\b(?:const|constexpr|static|extern|texture|surface)\b", header))
    used = frozenset(IDENTIFIER.findall(bare[start:end]))
    return Item(item_kind, tuple(names), start, end, header_end, used, qualifiers, wrapper, template)


def templated(node: Node) -> Node:
    """The declaration inside a template declaration: its last named child that is not a comment."""
    return next(child for child in reversed(node.named_children) if child.type != "comment")


def _text(node: Node, text: bytes) -> bytes:
    return text[node.start_byte : node.end_byte] if node is not None else b""


def _type_names(node: Node, text: bytes) -> list[bytes]:
    """The tag of the type that a node defines, and its enumerators."""
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
