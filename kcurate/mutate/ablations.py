"""Parts of a side that might be needless, and the side without them.

Of the code: statements and runs of them, loops and their rounds, branches, barriers, values that are
computed, atomics, and calls that could be skipped, found in the syntax tree; attributes and launch bounds.
Not covered: parts of the plan (`kcurate.mutate.plan_ablations`), whether a side stays right
(`kcurate.judge.needless`), code in macros' definitions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from kcurate.cuda_source.parse.items import tree_of
from kcurate.cuda_source.parse.syntax_tree import Function, Node, Tree, ancestors
from kcurate.mutate.detours import detours
from kcurate.mutate.formulas import CHANGES, MOST_FORMULAS, formulas, set_in
from kcurate.mutate.guards import (
    LOOPS,
    MOST_PARTS,
    SWITCH,
    Guard,
    Part,
    can_be_skipped,
    in_function,
    insert_guards,
    instead,
    is_barrier,
    is_costly,
    left_out,
    shown,
)  # fmt: skip
from kcurate.mutate.numbers_in_scope import ARITHMETIC, Scope, is_real
from kcurate.mutate.plan_ablations import (
    HALF_GRID,
    LONGEST_RUN,
    MOST_RUNS,
    ONE_WARP,
    plans_without_a_part,
    spread_less,
)
from kcurate.mutate.replacements import IN_ORDER, replacements
from kcurate.mutate.rounds import of_loop, one_way, turns
from kcurate.mutate.tables import Tables, initial_tables, table_parts
from kcurate.mutate.threads import fewer_threads
from kcurate.records import Buffer, Side, Step

_PRAGMA = re.compile(rb"^[ \t]*#[ \t]*pragma\b[^\n]*", re.MULTILINE)
_ATTRIBUTE = re.compile(
    r"__(?:launch_bounds|maxnreg|cluster_dims)__\s*\((?:[^()]|\([^()]*\))*\)|__noinline__|\bvolatile\b(?!\s*\()"
    r"|#\s*pragma\s+unroll[ \t]*\(?1\)?[ \t]*$",
    re.MULTILINE,
)
# Functions of one real number, and of two of which the first may be the answer.
_MATHS = re.compile(
    rb"_*(?:sqrt|rsqrt|cbrt|exp2|exp10|expm1|exp|log2|log10|log1p|log|a?sinh?|a?cosh?|a?tanh?|fabs|abs|floor|ceil"
    rb"|round|rint|nearbyint|trunc|erfc?|f?min|f?max|pow|fmod|copysign)f?"
)
_ATOMIC = re.compile(rb"atomic[A-Z]\w*")
# Methods of `cuda::atomic`, by their arguments without an order: then it is the strictest.
_ORDERED: Mapping[bytes, int] = {
    b"load": 0, b"store": 1, b"exchange": 1, b"fetch_add": 1, b"fetch_sub": 1, b"fetch_and": 1,
    b"fetch_or": 1, b"fetch_xor": 1, b"fetch_min": 1, b"fetch_max": 1,
}  # fmt: skip
_RELAXED = "cuda::std::memory_order_relaxed"
# Atomics whose answer is not used, and what a thread alone at a place does instead.
_ALONE: Mapping[bytes, str] = {
    b"atomicAdd": "{0} + ({1})", b"atomicSub": "{0} - ({1})", b"atomicAnd": "{0} & ({1})",
    b"atomicOr": "{0} | ({1})", b"atomicXor": "{0} ^ ({1})", b"atomicMin": "({1}) < {0} ? ({1}) : {0}",
    b"atomicMax": "({1}) > {0} ? ({1}) : {0}",
}  # fmt: skip
# How many values and places of a side are tried with earlier ones.
MOST_REPLACED = 40
# Calls inside calls, through variables too, that are left out together.
DEEPEST_CALLS = 4


@dataclass(frozen=True)
class Ablation:
    """A side without a part, or without several: what and, in the code, where.

    `numbers`: the parts' in `guarded`; none where the side differs in its plan or its attributes alone.
    `visible_in_counts`: the emulator's counts show what the part costs. `regridded`: a few of its blocks are
    other ones than the whole side's. `replaced`: an earlier value replaces a later one, perhaps as an index,
    so that a block may work at other places. `run`: neighbouring statements. `rounded`: numbers may be
    rounded otherwise. `surplus`: few threads work at small sizes, so what it costs counts at the bench size
    alone. `attributes`: where in the code those begin that it lacks.
    """

    what: str
    line: int | None
    side: Side
    numbers: tuple[int, ...] = ()
    visible_in_counts: bool = True
    regridded: bool = False
    replaced: bool = False
    run: bool = False
    rounded: bool = False
    surplus: bool = False
    attributes: tuple[int, ...] = ()

    def covers(self, other: Ablation) -> bool:
        """Whether the side lacks all here that it lacks there."""
        lacks = (*other.numbers, *other.attributes)
        same = set(other.numbers) <= set(self.numbers) and set(other.attributes) <= set(self.attributes)
        return bool(lacks) and same


def ablations(
    side: Side, buffers: Mapping[str, Buffer] | None = None, serving: Collection[int] = ()
) -> tuple[Ablation, ...]:
    """The side without each of its parts, those first that may cost the most. `buffers`: the problem's.

    `serving`: the numbers of the parts in `probed` that may be left out; others of its parts are not tried.
    """
    source = side.code.encode()
    of_code = [
        Ablation(
            part.what,
            source.count(b"\n", 0, part.guards[0].start) + 1,
            replace(side, code=_without(side, (number,)), plan=_plan(side, part)),
            (number,),
            part.visible_in_counts,
            part.spread > 1,
            replaced=part.replaced,
            run=part.run,
            rounded=part.rounded,
            surplus=part.surplus,
        )
        for number, part in enumerate(_parts_in(side), 1)
        if part.probe is None or number in serving
    ]
    of_code.sort(key=lambda part: part.numbers[0] not in serving)
    return (*_without_steps(side, {**(buffers or {}), **side.buffers}), *_without_attributes(side), *of_code)


def _plan(side: Side, part: Part) -> tuple[Step, ...]:
    return spread_less(side.plan, part.kernel, part.spread) if part.spread > 1 else tuple(side.plan)


def with_probes(side: Side) -> tuple[int, ...]:
    """The numbers of the parts that have a probe."""
    return tuple(number for number, part in enumerate(_parts_in(side), 1) if part.probe is not None)


def probed(side: Side, numbers: Collection[int]) -> str:
    """The side's code with the probes of these parts, for the emulator."""
    probes = [replace(part, guards=(part.probe,) if part.probe else ()) for part in _parts_in(side)]
    return insert_guards(side.code, probes, numbers)


def together(side: Side, parts: Sequence[Ablation]) -> Ablation | None:
    """The side without all of these parts; None where the plan has several, or an attribute is one."""
    plans = {part.side.plan for part in parts} - {side.plan}
    if len(plans) > 1 or any(not part.numbers and part.side.code != side.code for part in parts):
        return None
    numbers = tuple(sorted({number for part in parts for number in part.numbers}))
    more = f", and {len(parts) - 1} more parts" if len(parts) > 1 else ""
    return Ablation(
        parts[0].what + more,
        parts[0].line,
        replace(side, code=_without(side, numbers), plan=next(iter(plans), side.plan)),
        numbers,
        all(part.visible_in_counts for part in parts),
        any(part.regridded for part in parts),
        any(part.replaced for part in parts),
        rounded=any(part.rounded for part in parts),
        surplus=all(part.surplus for part in parts),
    )


def _without(side: Side, numbers: Collection[int]) -> str:
    """The code without these parts, for any compiler: a constant in place of the emulator's switches."""
    text = guarded(side, numbers)
    for number in numbers:
        text = text.replace(SWITCH.replace("@", str(number)), "true")
    return text


def guarded(side: Side, numbers: Collection[int]) -> str:
    """The side's code with a guard around each of these parts."""
    return insert_guards(side.code, _parts_in(side), numbers)


def _parts_in(side: Side) -> tuple[Part, ...]:
    return _parts(side.code.encode(), tuple(side.plan), initial_tables(side.buffers))


@lru_cache(maxsize=4)
def _parts(source: bytes, plan: tuple[Step, ...], tables: Tables) -> tuple[Part, ...]:
    return tuple(sorted(_parts_of(source, plan, tables), key=lambda part: part.rank)[:MOST_PARTS])


def _parts_of(source: bytes, plan: tuple[Step, ...], tables: Tables) -> Iterator[Part]:
    """All parts, outer before inner."""
    # Between a loop's head and its body a pragma would be its body.
    tree = tree_of(_PRAGMA.sub(lambda match: b" " * len(match[0]), source))
    yield from table_parts(tree, plan, tables)
    yield from islice(_runs(tree), MOST_RUNS)
    yield from islice(_turns(tree), MOST_REPLACED)
    yield from islice(replacements(tree), MOST_REPLACED)
    yield from islice(fewer_threads(tree), MOST_REPLACED)
    yield from islice(detours(tree), MOST_REPLACED)
    yield from islice(formulas(tree), MOST_FORMULAS)
    numeric = frozenset(function.name for function in tree.functions() if _keeps_its_type(tree, function))
    rounded = frozenset(node.id for function in tree.functions() for node in _sums(Scope(tree, function)))
    for node in tree.nodes():
        if not in_function(node):
            continue
        if node.type in LOOPS:
            yield left_out(tree, (node,), 0)
            yield from of_loop(tree, node)
            yield from _of_swap_loop(tree, node)
        elif node.type == "if_statement":
            yield left_out(tree, (node,), 3)
            yield from one_way(tree, node)
        elif node.type == "switch_statement" or (node.type == "conditional_expression" and _in_loop(node)):
            yield from one_way(tree, node)
        elif node.type == "expression_statement" and node.named_children:
            rank = 2 if _in_loop(node) or is_barrier(tree, node) else 4
            part = left_out(tree, (node,), rank)
            # What a compiler need not compute then, no count shows.
            yield part if node.id not in rounded else replace(part, visible_in_counts=False, rounded=True)
        elif node.type == "declaration":
            yield from _of_declaration(tree, node)
        elif node.type == "call_expression":
            yield from _of_call(tree, node, numeric)
            yield from _of_atomic(tree, node)


def _sums(scope: Scope) -> Iterator[Node]:
    """The statements of loops that set a real number: one may add what no tolerance asks for."""
    for node in scope.tree.nodes("expression_statement", within=scope.function.body):
        store = node.named_children[0] if node.named_children and _in_loop(node) else None
        target = store.child_by_field_name("left") if store is not None else None
        number = scope.named(target) if target is not None and target.type == "identifier" else None
        if number is not None and is_real(number):
            yield node


def _in_loop(node: Node) -> bool:
    return any(parent.type in LOOPS for parent in ancestors(node))


def _turns(tree: Tree) -> Iterator[Part]:
    for function in tree.functions():
        scope = Scope(tree, function)
        for loop in tree.nodes("for_statement", within=function.body):
            yield from turns(scope, loop)


def _runs(tree: Tree) -> Iterator[Part]:
    """Neighbouring statements of a block, since what one does the other may undo; declarations stay.

    Short ones of all blocks first, so that no block hides another's.
    """
    blocks = [
        [node for node in block.named_children if can_be_skipped(node)]
        for block in tree.nodes("compound_statement")
    ]
    for length in range(2, LONGEST_RUN + 1):
        for statements in blocks:
            for first in range(len(statements) - length + 1):
                run = statements[first : first + length]
                if any(is_costly(tree, node) for node in run):
                    yield left_out(tree, run, 1)


def _of_declaration(tree: Tree, node: Node) -> Iterator[Part]:
    """A number that is computed or read by a call, an atomic or a load, and 0 in its place."""
    kind = node.child_by_field_name("type")
    head = tree.source[node.start_byte : kind.end_byte] if kind is not None else b"constexpr"
    if kind is None or kind.type not in ARITHMETIC or re.search(rb"constexpr|static|__shared__", head):
        return
    for declared in node.named_children:
        value, name = (declared.child_by_field_name(field) for field in ("value", "declarator"))
        if value is None or name is None or name.type != "identifier" or value.type == "initializer_list":
            continue
        if any(True for _ in tree.nodes("call_expression", within=value)):
            what, zero = f"the value of {shown(tree, declared)}", f"({tree.text(kind).decode()})0"
            yield Part(what, (instead(value, zero),), 2)


def _keeps_its_type(tree: Tree, function: Function) -> bool:
    """Whether a function answers a value of its first parameter's type."""
    kind = function.node.child_by_field_name("type")
    if kind is None or not function.params or tree.text(kind) == b"void":
        return False
    first = function.params[0]
    return first.type == tree.text(kind) and not first.stars and not first.sizes


def _of_call(tree: Tree, node: Node, numeric: Collection[bytes]) -> Iterator[Part]:
    """Calls of functions of the side's own, and the innermost one's first argument in place of the answer."""
    first = _first_argument(tree, node, numeric)
    rank = 3 if _MATHS.fullmatch(tree.text(node.child_by_field_name("function"))) else 1
    for depth in range(DEEPEST_CALLS):
        if first is None:
            return
        what = f"the call{'s' if depth else ''} {shown(tree, node)}"
        if depth:
            what += f", where {shown(tree, first)} serves"
        yield Part(what, (instead(node, f"({tree.text(first).decode()})"),), rank)
        first = _first_argument(tree, _origin(tree, first), numeric)


def _of_atomic(tree: Tree, node: Node) -> Iterator[Part]:
    """A load or a store in an atomic's place, and tickets in the order of threads."""
    function, listed = (node.child_by_field_name(field) for field in ("function", "arguments"))
    if function is not None and listed is not None and function.type == "field_expression":
        yield from _of_order(tree, function, listed)
    if function is None or listed is None or not _ATOMIC.fullmatch(tree.text(function)):
        return
    texts = [tree.text(argument).decode() for argument in listed.named_children]
    if len(texts) < 2:
        return
    what = shown(tree, node)
    if node.parent.type != "expression_statement":
        yield Part(f"the atomic in {what}", (instead(node, f"(*({texts[0]}))"),), 2)
        if tree.text(function) == b"atomicAdd":
            ticket = f"(({texts[1]}) * ({IN_ORDER[0].decode()}))"
            yield Part(f"the order of {what}", (instead(node, ticket),), 2, replaced=True)
    elif tree.text(function) == b"atomicExch":
        yield Part(f"the atomic in {what}", (instead(node, f"(*({texts[0]}) = ({texts[1]}))"),), 2)
    elif (alone := _ALONE.get(tree.text(function))) is not None and not _changes(
        tree, listed.named_children[0]
    ):
        place = f"(*({texts[0]}))"
        guard = instead(node, f"({place} = {alone.format(place, texts[1])})")
        yield Part(f"the atomic in {what}", (guard,), 2, probe=_used_alone(node.parent, texts[0]))


def _changes(tree: Tree, place: Node) -> bool:
    return any(True for _ in tree.nodes(*CHANGES, "call_expression", within=place))


def _of_swap_loop(tree: Tree, loop: Node) -> Iterator[Part]:
    """A store in place of a loop that ends once it has exchanged the value of a place."""
    own = {declared.name for declared in tree.declared(loop)}
    for _, _, listed in tree.calls(b"atomicCAS", within=loop):
        names = [{tree.text(use) for use in tree.nodes("identifier", within=one)} for one in listed]
        if (
            len(names) == 3
            and own.isdisjoint(set().union(*names))
            and names[0].isdisjoint(set_in(tree, loop))
        ):
            place, _, value = (tree.text(argument).decode() for argument in listed)
            store = Guard(
                loop.start_byte, loop.end_byte, f"{{ if ({SWITCH}) *({place}) = ({value}); else ", " }"
            )
            yield Part(f"the atomics of {shown(tree, loop)}", (store,), 2, probe=_used_alone(loop, place))


def _used_alone(statement: Node, place: str) -> Guard:
    """A probe that tells whether other threads of a launch come to a place too, before a statement."""
    return Guard(statement.start_byte, statement.end_byte, f"{{ kcu_probe_alone(@, {place}); ", " }")


def _of_order(tree: Tree, function: Node, listed: Node) -> Iterator[Part]:
    """A relaxed order in place of the one that a method of an atomic has by default, which takes fences."""
    method = tree.text(function.child_by_field_name("field"))
    texts = [tree.text(argument).decode() for argument in listed.named_children]
    if texts and "seq_cst" in texts[-1]:
        texts.pop()
    if len(texts) == _ORDERED.get(method) and b"atomic" in tree.source:
        call = f"{tree.text(function).decode()}({', '.join([*texts, _RELAXED])})"
        what = f"the order of {shown(tree, listed.parent)}"
        yield Part(what, (instead(listed.parent, call),), 2, visible_in_counts=False)


def _first_argument(tree: Tree, node: Node, numeric: Collection[bytes]) -> Node | None:
    """The first argument of a call of one of these functions or methods."""
    if node.type != "call_expression":
        return None
    function, listed = (node.child_by_field_name(field) for field in ("function", "arguments"))
    if function is not None and _MATHS.fullmatch(tree.text(function)) and listed.named_children:
        return listed.named_children[0]
    while function is not None and function.type in ("template_function", "field_expression"):
        function = function.child_by_field_name("name") or function.child_by_field_name("field")
    if function is None or tree.text(function) not in numeric or not listed.named_children:
        return None
    return listed.named_children[0]


def _origin(tree: Tree, node: Node) -> Node:
    """The expression that a variable was declared with; any other expression itself."""
    body = next((parent for parent in ancestors(node) if parent.type == "function_definition"), None)
    if node.type != "identifier" or body is None:
        return node
    values = [
        local.value for local in tree.declared(body)
        if local.name == tree.text(node) and local.value is not None
        and local.declaration.end_byte <= node.start_byte
    ]  # fmt: skip
    return values[-1] if values else node


def _without_attributes(side: Side) -> Iterator[Ablation]:
    """Launch bounds, `__noinline__`, `volatile` and the like, all and each; only a GPU shows their cost."""
    matches = [*_ATTRIBUTE.finditer(side.code)]
    for chosen in [matches] * (len(matches) > 1) + [[match] for match in matches]:
        code = side.code
        for match in reversed(chosen):
            code = code[: match.start()] + code[match.end() :]
        what = chosen[0][0] + (f", and {len(chosen) - 1} more attributes" if len(chosen) > 1 else "")
        line = side.code.count("\n", 0, chosen[0].start()) + 1
        places = tuple(match.start() for match in chosen)
        yield Ablation(what, line, replace(side, code=code), visible_in_counts=False, attributes=places)


def _without_steps(side: Side, buffers: Mapping[str, Buffer]) -> Iterator[Ablation]:
    """The plan without a step, with one round of a loop, with half the blocks or less shared memory."""
    for what, visible, plan in plans_without_a_part(side.plan, buffers):
        regridded, surplus = what.startswith(HALF_GRID), what.startswith(ONE_WARP)
        side_without = replace(side, plan=plan)
        what = f"in the plan: {what}"
        yield Ablation(
            what, None, side_without, visible_in_counts=visible, regridded=regridded, surplus=surplus
        )
