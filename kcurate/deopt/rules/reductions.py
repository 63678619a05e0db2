"""Rule on block reductions in shared memory: trees become atomics.

- tree-to-atomics: `for (s = B / 2; s > 0; s /= 2) { if (t < s) a[t] += a[t + s]; barrier }` over a block of B
  threads leaves the sum of a[0..B) in a[0]. Instead, every thread but the first adds its a[t] to a[0]
  atomically, which gives the same sum. Required: B is a power of two and the block's only extent, no thread
  exits before, and a is otherwise only written as `a[t] =` and read as `a[0]`. Sums of int, unsigned, float,
  double; maxima and minima of integers. Floating-point sums then differ in rounding from run to run, which
  the side declares (`nondeterministic`).

Not covered: shuffle reductions (`kcurate.deopt.rules.exchange`), private counters (`counters`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, bare, encloses
from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.plans import same_block
from kcurate.deopt.rules.ranges import Ranges
from kcurate.deopt.rules.threads import resolved
from kcurate.deopt.rules.variable_uses import assignment_to, element_of
from kcurate.problem.outputs import float_outputs
from kcurate.records import Side

INTEGERS = (b"int", b"unsigned", b"unsigned int")
FLOATS = (b"float", b"double")
_CHANGED_IN = ("update_expression", "pointer_expression", "argument_list")
_HALVED = ("s/=2", "s>>=1", "s=s/2", "s=s>>1")
_WHILE = ("s>0", "s>=1", "s", "s!=0")
_COMBINED = {
    "a[t]+=a[t+s]": b"atomicAdd",
    "a[t]=a[t]+a[t+s]": b"atomicAdd",
    "a[t]=max(a[t],a[t+s])": b"atomicMax",
    "a[t]=min(a[t],a[t+s])": b"atomicMin",
}


@dataclass(frozen=True, eq=False)
class _Sum:
    """A tree reduction in a loop."""

    loop: Node
    array: bytes
    thread: bytes  # the thread index, as written
    atomic: bytes  # the atomic function of its operator
    barrier_first: bool  # whether a round starts with a barrier


def atomics(subject: Subject) -> Side | NotApplicable:
    """Reduce into the first element by atomics instead of a tree."""
    edits: list[Edit] = []
    reason, rounded = "no tree reduction over a block in shared memory", False
    for function in subject.tree.functions():
        extents = same_block(subject.side, function.name)
        if not function.kernel or extents is None or extents[1:] != (1, 1) or extents[0] & (extents[0] - 1):
            continue
        ranges = Ranges(subject.tree, function, extents)
        trees = [
            tree_sum
            for loop in subject.tree.nodes("for_statement", within=function.body)
            if (tree_sum := _sum(ranges, loop))
        ]
        for name in {tree_sum.array for tree_sum in trees}:
            same = [tree_sum for tree_sum in trees if tree_sum.array == name]
            array = _array(subject.tree, function, name)
            if array is None or not _only_first(subject.tree, function, array, same):
                reason = f"{name.decode('latin-1')} is used in other ways"
                continue
            if obstacle := _obstacle(subject.tree, function, array, same):
                reason = obstacle
                continue
            rounded |= array.type not in INTEGERS
            edits += [
                Edit(tree_sum.loop.start_byte, tree_sum.loop.end_byte, _text(tree_sum, subject.tree.source))
                for tree_sum in same
            ]
    rewritten = subject.with_edits(edits, reason)
    if isinstance(rewritten, NotApplicable) or not rounded:
        return rewritten
    if subject.problem is None:
        return NotApplicable("the outputs are unknown, and their rounding may vary between runs")
    loose = dict.fromkeys((*rewritten.nondeterministic, *float_outputs(subject.problem)))
    return replace(rewritten, nondeterministic=tuple(loose))


def _obstacle(tree: Tree, function: Function, array: Declared, same: Sequence[_Sum]) -> str | None:
    """Why atomics cannot do what the trees over an array do; None: they can."""
    leaves = tree.nodes("return_statement", within=function.body)
    if any(leave.start_byte < tree_sum.loop.start_byte for leave in leaves for tree_sum in same):
        return "a thread may exit before the reduction"
    sums = all(tree_sum.atomic == b"atomicAdd" for tree_sum in same)
    if array.type not in INTEGERS and not (array.type in FLOATS and sums):
        return f"no atomic operation for {array.type.decode('latin-1')}"
    return None


def _text(tree_sum: _Sum, source: bytes) -> bytes:
    """The atomics and a barrier after them; also a barrier before them if the loop began with one."""
    column = tree_sum.loop.start_byte - source.rfind(b"\n", 0, tree_sum.loop.start_byte) - 1
    lines = [b"__syncthreads();"] if tree_sum.barrier_first else []
    lines += [b"if (%b > 0)" % tree_sum.thread, b"    %b(&%b[0], %b[%b]);", b"__syncthreads();"]
    lines[-2] %= (tree_sum.atomic, tree_sum.array, tree_sum.array, tree_sum.thread)
    between: bytes = b"\n" + b" " * column
    return between.join(lines)


def _sum(ranges: Ranges, loop: Node) -> _Sum | None:
    """The tree reduction that a loop performs; None for any other loop."""
    tree = ranges.tree
    parts = [loop.child_by_field_name(field) for field in ("initializer", "condition", "update", "body")]
    if any(part is None for part in parts) or parts[0].type != "declaration":
        return None
    start, condition, update, body = parts
    declared = list(tree.declared_by(start))
    if len(declared) != 1 or declared[0].value is None or ranges.block is None:
        return None
    step = declared[0].name
    if _shape(condition, {step: "s"}) not in _WHILE or _shape(update, {step: "s"}) not in _HALVED:
        return None
    if ranges.constant(declared[0].value) != ranges.block[0] // 2:
        return None
    statements = [child for child in body.named_children if child.type != "comment"]
    barriers = [statement for statement in statements if statement.text.split(b"(")[0] == b"__syncthreads"]
    choices = [statement for statement in statements if statement.type == "if_statement"]
    if body.type != "compound_statement" or (len(barriers), len(choices), len(statements)) != (1, 1, 2):
        return None
    return _combination(ranges, choices[0], step, loop, barrier_first=statements[0] == barriers[0])


def _combination(
    ranges: Ranges, choice: Node, step: bytes, loop: Node, *, barrier_first: bool
) -> _Sum | None:
    condition, then = bare(choice.child_by_field_name("condition")), choice.child_by_field_name("consequence")
    if choice.child_by_field_name("alternative") is not None or condition.type != "binary_expression":
        return None
    if then.type == "compound_statement" and then.named_child_count == 1:
        then = then.named_children[0]
    thread = condition.child_by_field_name("left")
    limit = condition.child_by_field_name("right")
    if condition.children[1].text != b"<" or limit.text != step or then.type != "expression_statement":
        return None
    if resolved(ranges.tree, ranges.function, thread).text != b"threadIdx.x":
        return None
    arrays = [
        node.child_by_field_name("argument").text
        for node in ranges.tree.nodes("subscript_expression", within=then)
    ]
    if not arrays or len(set(arrays)) != 1:
        return None
    shape = _shape(then.named_children[0], {step: "s", thread.text: "t", arrays[0]: "a"})
    shape = shape.replace("a[s+t]", "a[t+s]")
    atomic = _COMBINED.get(shape)
    return _Sum(loop, arrays[0], thread.text, atomic, barrier_first) if atomic is not None else None


def _shape(node: Node, names: dict[bytes, str]) -> str:
    """An expression without whitespace, with some names replaced."""
    if node.text in names and not (node.child_count and node.type != "field_expression"):
        return names[node.text]
    if not node.children:
        return str(node.text.decode("latin-1"))
    return "".join(_shape(child, names) for child in node.children)


def _array(tree: Tree, function: Function, name: bytes) -> Declared | None:
    """The only declaration of a name, if it is a plain one-dimensional shared array."""
    variables = [variable for variable in tree.declared(function.body) if variable.name == name]
    fits = (
        len(variables) == 1
        and b"__shared__" in variables[0].qualifiers
        and b"volatile" not in variables[0].qualifiers
    )
    return variables[0] if fits and len(variables[0].sizes) == 1 and not variables[0].stars else None


def _only_first(tree: Tree, function: Function, array: Declared, trees: list[_Sum]) -> bool:
    """Whether, outside the reductions, threads only write their own element of an array and read a[0]."""
    for use in tree.uses(array.name, within=function.body):
        if use == array.node or any(encloses(tree_sum.loop, use) for tree_sum in trees):
            continue
        place = element_of(use)
        if place is None:
            return False
        index, store = place.child_by_field_name("indices").named_children[0], assignment_to(place)
        if store is not None:
            own_element = (
                resolved(tree, function, index).text == b"threadIdx.x" and store.children[1].type == "="
            )
            if not own_element or store.parent.type != "expression_statement":
                return False
        elif index.text != b"0" or place.parent.type in _CHANGED_IN:
            return False
    return True


RULES: tuple[Rule, ...] = (
    Rule("tree-to-atomics", "hierarchical-reduction", "the tree reduction in shared memory", atomics),
)
