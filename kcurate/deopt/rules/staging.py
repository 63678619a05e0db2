"""Rule on staging: reads of a shared-memory tile become reads of what was stored in it.

A tile with one store `tile[u][v] = E`, where `u` and `v` are the thread's own indices (or counters of the
loop that fills it), holds E(u, v) in element (u, v) whichever thread stored it; so `tile[a][b]` is E(a, b),
provided that E has the same value at the read. The text and the plan must show that:

- the kernel accesses the tile only with all its subscripts, and stores to it once, before the reads;
- E is pure. It reads memory only through pointer parameters through which nothing is written and whose
  buffers the launch passes only once. Otherwise it depends only on parameters and constants, block indices,
  counters of loops around both the store and the read, and locals computed from these (which are substituted,
  with their types);
- every index stays within the stored elements (`ranges`), or a guard gives zero for the others. A correct
  program never uses an element that was not stored, since shared variables have no initial value (CUDA C++
  Programming Guide).

A variable without subscripts that only the first thread stores to (`if (threadIdx.x == 0)`) is also a tile.

Not covered: tiles filled by several statements (halos), by vectors of another type, asynchronously, or twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, ancestors, bare
from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.plans import launches, same_block
from kcurate.deopt.rules.ranges import Ranges
from kcurate.deopt.rules.relocation import Relocation, Unknown, own_index, scope_of
from kcurate.deopt.rules.statement_removal import removals
from kcurate.deopt.rules.variable_uses import assignment_to, element_of, in_loop_with, is_only_read
from kcurate.records import Side

_SCALARS = (b"float", b"int", b"unsigned", b"unsigned int", b"double", b"unsigned char", b"half")
# Statements around a store whose condition is not traced.
_UNTRACED = ("while_statement", "do_statement", "switch_statement", "case_statement", "else_clause")
_ZEROS = {b"float": b"0.0f", b"double": b"0.0"}


@dataclass(frozen=True, eq=False)
class _Tile:
    """A shared array, its one store (a statement) and its reads (subscript expressions)."""

    array: Declared
    store: Node
    target: Node
    reads: tuple[Node, ...]


def direct_reads(subject: Subject) -> Side | NotApplicable:
    """Read global memory instead of a shared-memory tile."""
    edits: list[Edit] = []
    reason = "no tile in shared memory"
    for function in subject.tree.functions():
        shared = [
            local for local in subject.tree.declared(function.body) if b"__shared__" in local.qualifiers
        ]
        if not function.kernel or not shared:
            continue
        gone: list[_Tile] = []
        for array in shared:
            try:
                tile = _tile(subject.tree, function, array)
                edits += _replacements(subject, function, tile)
            except Unknown as unknown:
                reason = f"{array.name.decode('latin-1')}: {unknown}"
            else:
                gone.append(tile)
        needless = len(gone) == len(shared) and _private(subject.tree, function)
        stores, arrays = [tile.store for tile in gone], [tile.array for tile in gone]
        edits += removals(subject.tree, function, stores, arrays, barriers=bool(gone) and needless)
    return subject.with_edits(edits, reason)


def _tile(tree: Tree, function: Function, array: Declared) -> _Tile:
    """The tile's store and reads.

    Raises:
        Unknown: it is used in another way.
    """
    if b"extern" in array.qualifiers or (not array.sizes and (array.stars or array.value is not None)):
        raise Unknown("not a plain array")
    if sum(other.name == array.name for other in tree.declared(function.body)) != 1:
        raise Unknown("its name has several meanings")
    stores, reads = [], []
    for use in tree.uses(array.name, within=function.body):
        if use == array.node:
            continue
        node = use
        for _ in array.sizes:
            node = element_of(node)
            if node is None:
                raise Unknown("it is used without all of its subscripts")
        if (store := assignment_to(node)) is not None:
            if store.children[1].type != "=" or store.parent.type != "expression_statement":
                raise Unknown("it is written by more than plain assignments")
            stores.append(node)
        elif is_only_read(tree, node):
            reads.append(node)
        else:
            raise Unknown("its address is taken or it is updated in place")
    if len(stores) != 1 or not reads:
        raise Unknown(f"it is written by {len(stores)} statements")
    store = stores[0].parent.parent
    if any(read.start_byte < store.end_byte for read in reads):
        raise Unknown("it is read before it is written")
    return _Tile(array, store, stores[0], tuple(reads))


def subscripts(node: Node) -> list[Node]:
    """The indices of nested subscripts, outermost dimension first."""
    indices: list[Node] = []
    while node.type == "subscript_expression":
        indices = [*node.child_by_field_name("indices").named_children, *indices]
        node = node.child_by_field_name("argument")
    return indices


def _replacements(subject: Subject, function: Function, tile: _Tile) -> Iterator[Edit]:
    """Replace the reads by the stored expression.

    Raises:
        Unknown: the expression may have another value at a read.
    """
    tree, ranges = subject.tree, Ranges(subject.tree, function, same_block(subject.side, function.name))
    owns = [own_index(tree, function, index) for index in subscripts(tile.target)]
    one_thread = None if tile.array.sizes else _by_first_thread(tile.store)
    if len({own_of_axis.key for own_of_axis in owns}) != len(owns):
        raise Unknown("two of its subscripts use the same index")
    value = tile.target.parent.child_by_field_name("right")
    edits = []
    for read in tile.reads:
        indices = _arithmetic(tree, read, len(owns))
        relocation = Relocation(tree, function, launches(subject.side, function.name), tile.store, read)
        guards = []
        for own_of_axis, index in zip(owns, indices, strict=True):
            relocation.bind(own_of_axis, index)
            guards += own_of_axis.guard(ranges, index, relocation)
        if one_thread is not None:
            relocation.owned[b"threadIdx.x"] = b"0u"
        conditions = (condition for condition in _conditions(tile.store, read) if condition != one_thread)
        guards += [relocation.condition(condition) for condition in conditions]
        if guards and not tile.array.sizes:
            raise Unknown("its value where nothing is stored matters")
        text = relocation.text(value)
        if guards and (not _is_scalar(tile) or in_loop_with(tile.store, read)):
            raise Unknown("its value where nothing is stored matters")
        if _is_scalar(tile) and not _has_type(function, value, tile.array.type):
            text = b"(%b)(%b)" % (tile.array.type, text)
        if guards:
            text = b"%b ? %b : %b" % (b" && ".join(guards), text, _ZEROS.get(tile.array.type, b"0"))
        edits.append(Edit(read.start_byte, read.end_byte, b"(%b)" % text))
    yield from edits


def _arithmetic(tree: Tree, read: Node, count: int) -> list[Node]:
    """The indices of a read, as many as the array has dimensions.

    Raises:
        Unknown: there are fewer, or one does more than compute with variables.
    """
    indices = subscripts(read)
    if len(indices) != count:
        raise Unknown("it is used without all of its subscripts")
    more = ("assignment_expression", "update_expression", "call_expression", "subscript_expression")
    if any(True for index in indices for _ in tree.nodes(*more, within=index)):
        raise Unknown("an index is more than arithmetic")
    return indices


def _by_first_thread(store: Node) -> Node:
    """The condition `threadIdx.x == 0` of the `if` around the only store to a variable without subscripts.

    Raises:
        Unknown: there is no such `if`.
    """
    for node in ancestors(store):
        if node.type != "if_statement":
            continue
        condition = bare(node.child_by_field_name("condition"))
        if b"".join(condition.text.split()) in (b"threadIdx.x==0", b"0==threadIdx.x"):
            return condition
    raise Unknown("more than one thread may write it")


def _is_scalar(tile: _Tile) -> bool:
    return tile.array.type in _SCALARS


def _has_type(function: Function, node: Node, type_name: bytes) -> bool:
    """Whether an expression surely has a type: an element of a parameter, a literal, or a choice of these."""
    node = bare(node)
    if node.type == "conditional_expression":
        sides = (node.child_by_field_name("consequence"), node.child_by_field_name("alternative"))
        return all(_has_type(function, side, type_name) for side in sides)
    if node.type == "number_literal":
        return bool(node.text[-1:] in b"fF" and type_name == b"float") or (
            node.text.isdigit() and type_name == b"int"
        )
    base = node.child_by_field_name("argument") if node.type == "subscript_expression" else None
    return base is not None and any(
        param.name == base.text and param.type == type_name and param.stars == 1 for param in function.params
    )


def _conditions(store: Node, read: Node) -> Iterator[Node]:
    """The conditions under which the store happens, except those that also enclose the read.

    Raises:
        Unknown: a condition that is not an `if` without `else`.
    """
    child = store
    for node in ancestors(store):
        if node.start_byte <= read.start_byte and read.end_byte <= node.end_byte:
            return
        if node.type == "if_statement":
            alternative, consequence = map(node.child_by_field_name, ("alternative", "consequence"))
            if alternative is not None or child != consequence:
                raise Unknown("it is written in one branch of an if-else")
            yield bare(node.child_by_field_name("condition"))
        elif node.type in _UNTRACED:
            raise Unknown("it is written inside a switch, or a loop that is not a for loop")
        child = node


def _private(tree: Tree, function: Function) -> bool:
    """Whether no thread reads what another writes: no pointer is both read and written."""
    if scope_of(tree, function):
        return False
    for param in function.params:
        if not param.stars or b"const" in param.qualifiers:
            continue
        for use in tree.uses(param.name, within=function.body):
            element = element_of(use)
            store = assignment_to(element) if element is not None else None
            if store is None or store.children[1].type != "=":
                return False
    return True


RULES: tuple[Rule, ...] = (
    Rule("tile-to-global", "shared-memory-tiling", "shared-memory tiling", direct_reads),
)
