"""Rule on counters: a block counts in global memory instead of in a private copy in shared memory.

- private-to-global: private counters of a block that are zeroed, updated with `atomicAdd(&h[e], d)` and
  finally added to `G` become `atomicAdd(&G[e], d)`. Required: integers (addition in any order is exact), some
  thread adds every counter to the one with the same index in G, no thread exits before, no other use of G.

Not covered: several private copies per block, floating-point counters.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, bare
from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.plans import aliased, launches, same_block
from kcurate.deopt.rules.ranges import Ranges
from kcurate.deopt.rules.reductions import INTEGERS
from kcurate.deopt.rules.relocation import Unknown, own_index
from kcurate.deopt.rules.statement_removal import removals
from kcurate.deopt.rules.threads import is_block_width
from kcurate.deopt.rules.variable_uses import assignment_to, elements_only_read, in_loop_with
from kcurate.records import Side


def global_counters(subject: Subject) -> Side | NotApplicable:
    """Count directly in global memory."""
    edits: list[Edit] = []
    reason = "no private counters in shared memory"
    for function in subject.tree.functions():
        for declaration in subject.tree.declared(function.body) if function.kernel else ():
            counts = (
                b"__shared__" in declaration.qualifiers
                and len(declaration.sizes) == 1
                and declaration.type in INTEGERS
            )
            if not counts or declaration.sizes[0] is None:
                continue
            try:
                edits += _counted(subject, function, declaration)
            except Unknown as unknown:
                reason = f"{declaration.name.decode('latin-1')}: {unknown}"
    return subject.with_edits(edits, reason)


def _occurrences(
    tree: Tree, function: Function, array: Declared
) -> tuple[list[Node], list[tuple[Node, Node]], list[Node]]:
    """The statements that zero counters, the atomic additions with their use of the array, and other reads.

    Raises:
        Unknown: the array has another kind of use.
    """
    zeros, additions, flushes = list[Node](), list[tuple[Node, Node]](), list[Node]()
    for use in tree.uses(array.name, within=function.body):
        if use == array.node:
            continue
        place = use.parent
        call = _atomic_target(use)
        if call is not None:
            additions.append((call, use))
        elif place.type != "subscript_expression":
            raise Unknown("used without a subscript")
        elif (store := assignment_to(place)) is not None:
            if store.child_by_field_name("right").text != b"0" or store.children[1].type != "=":
                raise Unknown("values other than zero are stored to it")
            zeros.append(store.parent)
        else:
            flushes.append(place)
    return zeros, additions, flushes


def _counted(subject: Subject, function: Function, array: Declared) -> Iterator[Edit]:
    """The edits for one array of counters.

    Raises:
        Unknown: it is used in another way.
    """
    tree = subject.tree
    zeros, additions, flushes = _occurrences(tree, function, array)
    if not zeros or not additions or len(flushes) != 1:
        raise Unknown("not zeroed, counted and flushed exactly once")
    first = min((call for call, _ in additions), key=lambda call: call.start_byte)
    last = max(call.end_byte for call, _ in additions)
    zeroed_late = any(zero.end_byte > first.start_byte or in_loop_with(zero, first) for zero in zeros)
    if flushes[0].start_byte < last or zeroed_late:
        raise Unknown("may be zeroed after counting")
    statement, target = _flush(subject, function, array, flushes[0])
    for call, use in additions:
        if call.parent.type != "expression_statement":
            raise Unknown("the old value of a counter is used")
        yield Edit(use.start_byte, use.end_byte, target)
    gone = [*zeros, statement]
    alone = sum(b"__shared__" in declaration.qualifiers for declaration in tree.declared(function.body)) == 1
    others = [
        param.name
        for param in function.params
        if param.stars
        and b"const" not in param.qualifiers
        and not elements_only_read(tree, function, param.name)
    ]
    yield from removals(tree, function, gone, [array], barriers=alone and others == [target])


def _atomic_target(use: Node) -> Node | None:
    """The call `atomicAdd(&h[e], d)` or `atomicAdd(h + e, d)` in which `h` is this use; None: another use."""
    node = use.parent
    if node.type == "subscript_expression" and node.parent.type == "pointer_expression":
        node = node.parent if node.parent.text[:1] == b"&" else node
    elif node.type != "binary_expression" or node.children[1].text != b"+" or node.children[0] != use:
        return None
    call = node.parent.parent if node.parent.type == "argument_list" else None
    if call is None or call.type != "call_expression" or node.parent.named_children[0] != node:
        return None
    return call if call.child_by_field_name("function").text == b"atomicAdd" else None


def _flush(subject: Subject, function: Function, array: Declared, read: Node) -> tuple[Node, bytes]:
    """The statement that adds every counter to the global one with the same index, and the global array.

    Raises:
        Unknown: it may skip a counter, or add it to another one.
    """
    tree = subject.tree
    call = read.parent.parent if read.parent.type == "argument_list" else None
    arguments = read.parent.named_children
    if call is None or call.parent.type != "expression_statement" or len(arguments) != 2:
        raise Unknown("not flushed by a plain atomicAdd")
    targets = [
        param
        for param in function.params
        if param.stars == 1 and param.type in INTEGERS and any(tree.uses(param.name, within=arguments[0]))
    ]
    if len(targets) != 1 or call.child_by_field_name("function").text != b"atomicAdd":
        raise Unknown("not flushed to counters of a parameter")
    target, index = targets[0], read.child_by_field_name("indices").named_children[0]
    place = function.params.index(target)
    once = len(list(tree.uses(target.name, within=function.body))) == 1
    if not once or any(aliased(launch, place) for launch in launches(subject.side, function.name)):
        raise Unknown("the global counters have other uses")
    shapes = (b"&%b[%b]" % (target.name, index.text), b"%b+%b" % (target.name, index.text))
    if _plain(arguments[0]) not in (b"".join(shape.split()) for shape in shapes):
        raise Unknown("flushed to another index")
    if not _covers(subject, function, array, index, call.parent):
        raise Unknown("not every counter is known to be flushed")
    return call.parent, target.name


def _plain(node: Node) -> bytes:
    """The text of an address without whitespace and without redundant parentheses."""
    node = bare(node)
    if node.type == "pointer_expression" and node.text[:1] == b"&":
        return b"&" + _plain(node.child_by_field_name("argument"))
    return b"".join(node.text.split())


def _covers(subject: Subject, function: Function, array: Declared, index: Node, statement: Node) -> bool:
    """Whether a statement runs exactly once for every element of an array.

    Raises:
        Unknown: the index is not a thread's own index.
    """
    extents = same_block(subject.side, function.name)
    ranges = Ranges(subject.tree, function, extents)
    thread_index, size = own_index(subject.tree, function, index), ranges.constant(array.sizes[0])
    returns = subject.tree.nodes("return_statement", within=function.body)
    if thread_index.minus or size is None or any(returns):
        return False
    if thread_index.loop is None:
        threads = thread_index.key == b"threadIdx.x" and extents == (size, 1, 1)
        return bool(threads and statement.parent == function.body)
    if thread_index.loop.parent != function.body or thread_index.name is None:
        return False
    body = thread_index.loop.child_by_field_name("body")
    alone = body == statement or (body.type == "compound_statement" and body.named_children == [statement])
    starts = thread_index.name.value is not None and thread_index.name.value.text == b"threadIdx.x"
    return alone and starts and _strides_to(size, thread_index.loop, ranges)


def _strides_to(size: int, loop: Node, ranges: Ranges) -> bool:
    """Whether a loop's variable grows by the block's width while it is less than `size`."""
    condition, update = (loop.child_by_field_name(name) for name in ("condition", "update"))
    if condition is None or update is None:
        return False
    limited = condition.type == "binary_expression" and condition.children[1].text == b"<"
    steps = update.type == "assignment_expression" and update.children[1].type == "+="
    return bool(
        limited
        and steps
        and ranges.constant(condition.child_by_field_name("right")) == size
        and is_block_width(ranges, update.child_by_field_name("right"))
    )


RULES: tuple[Rule, ...] = (
    Rule("private-to-global", "privatization", "private counters in each block", global_counters),
)
