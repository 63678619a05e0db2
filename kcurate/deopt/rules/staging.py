"""Rule on staging: reads of a tile in shared memory become reads of what was stored into it.

A tile with one store `tile[u][v] = E`, where `u` and `v` are the thread's own indices (or counters of the
loop that fills it), holds E(u, v) in element (u, v) whoever stored it; so `tile[a][b]` is E(a, b), provided
that E means the same at the read. Required, all from the text and the plan:

- the kernel reads and stores the tile by all its subscripts only, and stores once, before the reads;
- E is pure, reads memory only through `const` pointers whose buffers no other argument of the launch names,
  and depends on nothing else but parameters and constants, block indices, counters of loops around both the
  store and the read, and locals made of those (which are written out, with their types);
- an element that was never stored is never read by a correct program (CUDA C++ Programming Guide: shared
  variables have no initial value), so indices are shown to be within what is stored by `ranges`, or a guard
  takes the place of what is not.

Not covered: tiles filled by several statements (halos), by vectors of another type, asynchronously, or twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kcurate.cuda_source.edit import Declared, Edit, Function, Node, Tree, ancestors, bare
from kcurate.deopt.rules.base import Given, NotApplicable, Rule
from kcurate.deopt.rules.loops import only_values
from kcurate.deopt.rules.meaning import Meaning, Unknown, own_index, scope_of
from kcurate.deopt.rules.plans import launches, same_block
from kcurate.deopt.rules.ranges import Ranges
from kcurate.deopt.rules.reads import is_read
from kcurate.records import Side

_LOOPS = ("for_statement", "while_statement", "do_statement")


@dataclass(frozen=True, eq=False)
class _Tile:
    """A shared array, its one store (a statement) and its reads (subscript expressions)."""

    one: Declared
    store: Node
    target: Node
    reads: tuple[Node, ...]


def direct_reads(given: Given) -> Side | NotApplicable:
    """Read global memory where a tile in shared memory was read."""
    edits: list[Edit] = []
    reason = "no tile in shared memory"
    for function in given.tree.functions():
        shared = [one for one in given.tree.declared(function.body) if b"__shared__" in one.qualifiers]
        if not function.kernel or not shared:
            continue
        gone: list[_Tile] = []
        for one in shared:
            try:
                tile = _tile(given.tree, function, one)
                edits += _replacements(given, function, tile)
            except Unknown as unknown:
                reason = f"{one.name.decode('latin-1')}: {unknown}"
            else:
                gone.append(tile)
        edits += _removals(given.tree, function, gone, everything=len(gone) == len(shared))
    return given.with_edits(edits, reason)


def _tile(tree: Tree, function: Function, one: Declared) -> _Tile:
    """The tile's store and reads.

    Raises:
        Unknown: it is used in another way.
    """
    if b"volatile" in one.qualifiers or b"extern" in one.qualifiers or not one.sizes:
        raise Unknown("not a plain array")
    if sum(other.name == one.name for other in tree.declared(function.body)) != 1:
        raise Unknown("its name means several things")
    stores, reads = [], []
    for use in tree.uses(one.name, within=function.body):
        if use == one.node:
            continue
        node = use
        for _ in one.sizes:
            parent = node.parent
            if parent.type != "subscript_expression" or parent.child_by_field_name("argument") != node:
                raise Unknown("it is used without all of its subscripts")
            node = parent
        statement = node.parent
        if statement.type == "assignment_expression" and statement.child_by_field_name("left") == node:
            if statement.children[1].type != "=" or statement.parent.type != "expression_statement":
                raise Unknown("it is stored to by more than plain assignments")
            stores.append(node)
        elif is_read(tree, node):
            reads.append(node)
        else:
            raise Unknown("its address is taken or it changes in place")
    if len(stores) != 1 or not reads:
        raise Unknown(f"it is stored to by {len(stores)} statements")
    store = stores[0].parent.parent
    if any(read.start_byte < store.end_byte for read in reads):
        raise Unknown("it is read before it is stored to")
    return _Tile(one, store, stores[0], tuple(reads))


def subscripts(node: Node) -> list[Node]:
    """The indices of nested subscripts, outermost array first."""
    found: list[Node] = []
    while node.type == "subscript_expression":
        found = [*node.child_by_field_name("indices").named_children, *found]
        node = node.child_by_field_name("argument")
    return found


def _replacements(given: Given, function: Function, tile: _Tile) -> Iterator[Edit]:
    """The reads as what was stored.

    Raises:
        Unknown: the stored value may not mean the same at a read.
    """
    tree, ranges = given.tree, Ranges(given.tree, function, same_block(given.side, function.name))
    owns = [own_index(tree, function, index) for index in subscripts(tile.target)]
    if len({own.key for own in owns}) != len(owns):
        raise Unknown("its subscripts are not of one index each")
    value = tile.target.parent.child_by_field_name("right")
    made = []
    for read in tile.reads:
        indices = subscripts(read)
        for index in indices:
            if any(True for _ in tree.nodes("assignment_expression", "update_expression", "call_expression",
                                            "subscript_expression", within=index)):  # fmt: skip
                raise Unknown("an index does more than arithmetic")
        meaning = Meaning(tree, function, launches(given.side, function.name), tile.store, read)
        guards = []
        for own, index in zip(owns, indices, strict=True):
            meaning.bind(own, index.text)
            guards += own.guard(ranges, index, meaning)
        guards += [meaning.text(one) for one in _conditions(tile.store, read)]
        text = b"(%b)(%b)" % (tile.one.type, meaning.text(value)) if _is_scalar(tile) else meaning.text(value)
        if guards and (not _is_scalar(tile) or _again(tile.store, read)):
            raise Unknown("what it holds where nothing is stored matters")
        if guards:
            text = b"%b ? %b : (%b)0" % (
                b" && ".join(b"(%b)" % guard for guard in guards),
                text,
                tile.one.type,
            )
        made.append(Edit(read.start_byte, read.end_byte, b"(%b)" % text))
    yield from made


def _is_scalar(tile: _Tile) -> bool:
    return tile.one.type in (
        b"float",
        b"int",
        b"unsigned",
        b"unsigned int",
        b"double",
        b"unsigned char",
        b"half",
    )


def _conditions(store: Node, read: Node) -> Iterator[Node]:
    """The conditions under which the store is made, but for those around the read too.

    Raises:
        Unknown: a condition that is not an `if` without `else`.
    """
    child = store
    for node in ancestors(store):
        if node.start_byte <= read.start_byte and read.end_byte <= node.end_byte:
            return
        if node.type == "if_statement":
            if node.child_by_field_name("alternative") is not None:
                raise Unknown("it is stored to in a branch")
            if child != node.child_by_field_name("consequence"):
                raise Unknown("it is stored to in a branch")
            yield bare(node.child_by_field_name("condition"))
        elif node.type in (
            "while_statement",
            "do_statement",
            "switch_statement",
            "case_statement",
            "else_clause",
        ):
            raise Unknown("it is stored to in a loop without a count")
        child = node


def _again(store: Node, read: Node) -> bool:
    """Whether a loop goes around both, so that an element may hold what an earlier round stored."""
    return any(
        node.type in _LOOPS and node.start_byte <= read.start_byte < node.end_byte
        for node in ancestors(store)
    )


def _removals(tree: Tree, function: Function, gone: Sequence[_Tile], *, everything: bool) -> Iterator[Edit]:
    """Stores, what held nothing else, declarations, and barriers that order nothing any more."""
    stores = {tile.store.id for tile in gone}
    removed: dict[int, Node] = {}
    for tile in gone:
        top = tile.store
        while (outer := _around(tree, top, stores)) is not None:
            top = outer
        removed[top.id] = top
        declaration = tile.one.declaration
        if len(list(tree.declared_by(declaration))) == 1:
            removed[declaration.id] = declaration
    if everything and gone and _private(tree, function):
        for node, _, _ in tree.calls(b"__syncthreads", within=function.body):
            if node.parent.type == "expression_statement":
                removed[node.parent.id] = node.parent
    for node in removed.values():
        in_block = node.parent.type == "compound_statement"
        inside = any(
            other is not node and other.start_byte <= node.start_byte and node.end_byte <= other.end_byte
            for other in removed.values()
        )
        if not inside:
            yield Edit(*_line(tree.source, node)) if in_block else Edit(node.start_byte, node.end_byte, b";")


def _around(tree: Tree, node: Node, stores: set[int]) -> Node | None:
    """The statement around one, when all else in it are values that nothing uses any more."""
    parent = node.parent
    if parent.type == "compound_statement":
        rest = [child for child in parent.named_children if child != node and child.id not in stores]
        rest = [child for child in rest if child.type != "preproc_call"]
        return (
            parent
            if only_values(tree, rest) and parent.parent.type in ("for_statement", "if_statement")
            else None
        )
    if parent.type == "for_statement":
        return parent if parent.child_by_field_name("body") == node else None
    whole = parent.type == "if_statement" and parent.child_by_field_name("alternative") is None
    return parent if whole and parent.child_by_field_name("consequence") == node else None


def _private(tree: Tree, function: Function) -> bool:
    """Whether no thread reads what another writes: pointers that are written are never read."""
    if scope_of(tree, function):
        return False
    for param in function.params:
        if not param.stars or b"const" in param.qualifiers:
            continue
        for use in tree.uses(param.name, within=function.body):
            place = use.parent
            stored = place.type == "subscript_expression" and place.parent.type == "assignment_expression"
            if (
                not stored
                or place.parent.child_by_field_name("left") != place
                or place.parent.children[1].type != "="
            ):
                return False
    return True


def _line(code: bytes, node: Node) -> tuple[int, int]:
    """A statement's span, with its indentation and line end when it has lines of its own."""
    start, end = node.start_byte, node.end_byte
    before = code.rfind(b"\n", 0, start) + 1
    after = code.find(b"\n", end)
    alone = not code[before:start].strip() and after >= 0 and not code[end:after].strip()
    return (before, after + 1) if alone else (start, end)


RULES: tuple[Rule, ...] = (
    Rule("tile-to-global", "shared-memory-tiling", "the staging of tiles in shared memory", direct_reads),
)
