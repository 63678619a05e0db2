"""Candidate ablations of a side: parts that might be needless, and the side without each of them.

Parts of the code are found in its syntax tree: statements, sequences of statements, loops, loop iterations,
branches, barriers, computed values, atomics, calls, attributes and launch bounds. Example:

    __syncthreads();          the part "__syncthreads();", whose cost no count shows
    v = sqrtf(w);             the part "the call sqrtf(w)", which becomes w
    atomicAdd(&sum[i], v);    the part "the atomic in atomicAdd(&sum[i], v)", made a plain update

All parts are numbered from 1. `code_with_guards` returns one text in which any of them can be switched off on
the emulator; `Ablation.side` is the code without the part for any compiler. Not covered: parts of the plan
(`kcurate.mutate.plan_ablations`), whether outputs stay correct (`kcurate.judge.needless`), macro definitions.
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
from kcurate.mutate.formulas import MOST_FORMULAS, assigned_in, formulas
from kcurate.mutate.guards import (
    LOOPS,
    MOST_PARTS,
    SWITCH,
    Guard,
    Part,
    can_be_skipped,
    contains,
    has_side_effects,
    insert_guards,
    is_barrier,
    is_costly,
    is_in_function,
    names_in,
    one_line,
    part_without,
    replace_guard,
)
from kcurate.mutate.numbers_in_scope import ARITHMETIC, Scope, is_real
from kcurate.mutate.plan_ablations import (
    HALF_GRID,
    LONGEST_RUN,
    MOST_RUNS,
    ONE_WARP,
    plans_without_part,
    smaller_grid,
)
from kcurate.mutate.replacements import IN_ORDER, replacements
from kcurate.mutate.rounds import fewer_rounds, rounds_in_turn, uniform_branch
from kcurate.mutate.tables import Tables, initial_tables, table_parts
from kcurate.mutate.threads import fewer_threads
from kcurate.records import Buffer, Side, Step

_PRAGMA = re.compile(rb"^[ \t]*#[ \t]*pragma\b[^\n]*", re.MULTILINE)
_ATTRIBUTE = re.compile(
    r"__(?:launch_bounds|maxnreg|cluster_dims)__\s*\((?:[^()]|\([^()]*\))*\)|__noinline__|\bvolatile\b(?!\s*\()"
    r"|#\s*pragma\s+unroll[ \t]*\(?1\)?[ \t]*$",
    re.MULTILINE,
)
# Math functions that may return their first argument unchanged or nearly so.
_MATH = re.compile(
    rb"_*(?:sqrt|rsqrt|cbrt|exp2|exp10|expm1|exp|log2|log10|log1p|log|a?sinh?|a?cosh?|a?tanh?|fabs|abs|floor|ceil"
    rb"|round|rint|nearbyint|trunc|erfc?|f?min|f?max|pow|fmod|copysign)f?"
)
_ATOMIC = re.compile(rb"atomic[A-Z]\w*")
# Methods of `cuda::atomic`, with their number of arguments before the memory order, which defaults to
# seq_cst.
_ARGUMENTS_BEFORE_ORDER: Mapping[bytes, int] = {
    b"load": 0, b"store": 1, b"exchange": 1, b"fetch_add": 1, b"fetch_sub": 1, b"fetch_and": 1,
    b"fetch_or": 1, b"fetch_xor": 1, b"fetch_min": 1, b"fetch_max": 1,
}  # fmt: skip
_RELAXED = "cuda::std::memory_order_relaxed"
# Atomics whose result is unused, as plain updates; equivalent if no other thread accesses the address.
_PLAIN_UPDATES: Mapping[bytes, str] = {
    b"atomicAdd": "{0} + ({1})", b"atomicSub": "{0} - ({1})", b"atomicAnd": "{0} & ({1})",
    b"atomicOr": "{0} | ({1})", b"atomicXor": "{0} ^ ({1})", b"atomicMin": "({1}) < {0} ? ({1}) : {0}",
    b"atomicMax": "({1}) > {0} ? ({1}) : {0}",
}  # fmt: skip
# The most parts that each of the generators in other modules may contribute.
MAX_PER_GENERATOR = 40
# The most nested calls, also through variables, that one part removes.
MAX_NESTED_CALLS = 4


@dataclass(frozen=True)
class Ablation:
    """A side without one part, or without several; `label` names the part, `line` is its line in the code.

    `numbers`: of the parts in `code_with_guards`; empty if only the plan or attributes differ.
    `visible_in_counts`: the emulator's counts show the part's cost. `has_fewer_blocks`: the grid is smaller,
    so the blocks sampled at the bench size do other work. `reuses_value`: an earlier value stands in for a
    later one, perhaps as an index, so a block may access other addresses. `is_run`: several adjacent
    statements. `may_round`: results may round differently. `at_bench_only`: few threads are active at small
    sizes, so the cost only shows at the bench size. `attribute_offsets`: character offsets of the removed
    attributes.
    """

    label: str
    line: int | None
    side: Side
    numbers: tuple[int, ...] = ()
    visible_in_counts: bool = True
    has_fewer_blocks: bool = False
    reuses_value: bool = False
    is_run: bool = False
    may_round: bool = False
    at_bench_only: bool = False
    attribute_offsets: tuple[int, ...] = ()

    def covers(self, other: Ablation) -> bool:
        """Whether this ablation removes every part that `other` removes."""
        removed = {*self.numbers, *(("attribute", offset) for offset in self.attribute_offsets)}
        other_removed = {*other.numbers, *(("attribute", offset) for offset in other.attribute_offsets)}
        return bool(other_removed) and other_removed <= removed


def ablations(
    side: Side, buffers: Mapping[str, Buffer] | None = None, serving: Collection[int] = ()
) -> tuple[Ablation, ...]:
    """The side without each of its parts, potentially costliest first. `buffers`: the problem's buffers.

    A part with a probe is only included if its number is in `serving`, the probes that always agreed.
    """
    source = side.code.encode()
    of_code = [
        Ablation(
            part.label,
            source.count(b"\n", 0, part.guards[0].start) + 1,
            replace(side, code=_code_without(side, (number,)), plan=_plan(side, part)),
            (number,),
            part.visible_in_counts,
            part.grid_divisor > 1,
            reuses_value=part.reuses_value,
            is_run=part.is_run,
            may_round=part.may_round,
            at_bench_only=part.at_bench_only,
        )
        for number, part in enumerate(_parts_in(side), 1)
        if part.probe is None or number in serving
    ]
    of_code.sort(key=lambda part: part.numbers[0] not in serving)
    return (*_without_steps(side, {**(buffers or {}), **side.buffers}), *_without_attributes(side), *of_code)


def _plan(side: Side, part: Part) -> tuple[Step, ...]:
    return smaller_grid(side.plan, part.kernel, part.grid_divisor) if part.kernel else tuple(side.plan)


def probe_numbers(side: Side) -> tuple[int, ...]:
    """The numbers of the parts that have a probe: a check on the emulator that must pass first."""
    return tuple(number for number, part in enumerate(_parts_in(side), 1) if part.probe is not None)


def code_with_probes(side: Side, numbers: Collection[int]) -> str:
    """The side's code with the probes of these parts, to be compiled for the emulator."""
    probes = [replace(part, guards=(part.probe,) if part.probe else ()) for part in _parts_in(side)]
    return insert_guards(side.code, probes, numbers)


def combined(side: Side, parts: Sequence[Ablation]) -> Ablation | None:
    """The side without all of these parts; None if their plans conflict or one of them is an attribute."""
    plans = {part.side.plan for part in parts} - {side.plan}
    if len(plans) > 1 or any(not part.numbers and part.side.code != side.code for part in parts):
        return None
    numbers = tuple(sorted({number for part in parts for number in part.numbers}))
    more = f", and {len(parts) - 1} more parts" if len(parts) > 1 else ""
    return Ablation(
        parts[0].label + more,
        parts[0].line,
        replace(side, code=_code_without(side, numbers), plan=next(iter(plans), side.plan)),
        numbers,
        all(part.visible_in_counts for part in parts),
        any(part.has_fewer_blocks for part in parts),
        any(part.reuses_value for part in parts),
        may_round=any(part.may_round for part in parts),
        at_bench_only=all(part.at_bench_only for part in parts),
    )


def _code_without(side: Side, numbers: Collection[int]) -> str:
    """The code without these parts, for any compiler: the emulator's switches become `true`."""
    text = code_with_guards(side, numbers)
    for number in numbers:
        text = text.replace(SWITCH.replace("@", str(number)), "true")
    return text


def code_with_guards(side: Side, numbers: Collection[int]) -> str:
    """The side's code with a guard around each of these parts."""
    return insert_guards(side.code, _parts_in(side), numbers)


def _parts_in(side: Side) -> tuple[Part, ...]:
    return _parts(side.code.encode(), tuple(side.plan), initial_tables(side.buffers))


@lru_cache(maxsize=4)
def _parts(source: bytes, plan: tuple[Step, ...], tables: Tables) -> tuple[Part, ...]:
    return tuple(sorted(_parts_of(source, plan, tables), key=lambda part: part.rank)[:MOST_PARTS])


def _parts_of(source: bytes, plan: tuple[Step, ...], tables: Tables) -> Iterator[Part]:
    """All parts, outer before inner."""
    # Blank out pragmas: the parser takes one between a loop's header and its body for the body.
    tree = tree_of(_PRAGMA.sub(lambda match: b" " * len(match[0]), source))
    yield from table_parts(tree, plan, tables)
    yield from islice(_statement_runs(tree), MOST_RUNS)
    yield from islice(_loops_in_turns(tree), MAX_PER_GENERATOR)
    yield from islice(replacements(tree), MAX_PER_GENERATOR)
    yield from islice(fewer_threads(tree), MAX_PER_GENERATOR)
    yield from islice(detours(tree), MAX_PER_GENERATOR)
    yield from islice(formulas(tree), MOST_FORMULAS)
    numeric = frozenset(function.name for function in tree.functions() if _returns_first_type(tree, function))
    rounded = frozenset(
        node.id for function in tree.functions() for node in _real_updates_in_loops(Scope(tree, function))
    )
    for node in tree.nodes():
        if not is_in_function(node):
            continue
        if node.type in LOOPS:
            yield part_without(tree, (node,), 0)
            yield from fewer_rounds(tree, node)
            yield from _compare_and_swap_loops(tree, node)
        elif node.type == "if_statement":
            yield part_without(tree, (node,), 3)
            yield from uniform_branch(tree, node)
        elif node.type == "switch_statement" or (node.type == "conditional_expression" and _in_loop(node)):
            yield from uniform_branch(tree, node)
        elif node.type == "expression_statement" and node.named_children:
            rank = 2 if _in_loop(node) or is_barrier(tree, node) else 4
            part = part_without(tree, (node,), rank)
            # The operations that a compiler drops along with it appear in no count.
            yield part if node.id not in rounded else replace(part, visible_in_counts=False, may_round=True)
        elif node.type == "declaration":
            yield from _initialisers(tree, node)
        elif node.type == "call_expression":
            yield from _calls(tree, node, numeric)
            yield from _atomics(tree, node)


def _real_updates_in_loops(scope: Scope) -> Iterator[Node]:
    """Statements in loops that assign a `float` or `double`, perhaps a correction below the tolerance."""
    for node in scope.tree.nodes("expression_statement", within=scope.function.body):
        store = node.named_children[0] if node.named_children and _in_loop(node) else None
        target = store.child_by_field_name("left") if store is not None else None
        number = scope.named(target) if target is not None and target.type == "identifier" else None
        if number is not None and is_real(number):
            yield node


def _in_loop(node: Node) -> bool:
    return any(parent.type in LOOPS for parent in ancestors(node))


def _loops_in_turns(tree: Tree) -> Iterator[Part]:
    for function in tree.functions():
        scope = Scope(tree, function)
        for loop in tree.nodes("for_statement", within=function.body):
            yield from rounds_in_turn(scope, loop)


def _statement_runs(tree: Tree) -> Iterator[Part]:
    """Sequences of adjacent statements in a block, since one may undo the other; declarations stay.

    Short sequences of all blocks come first, so that one long block does not use up the limit.
    """
    blocks = [
        [node for node in block.named_children if can_be_skipped(node)]
        for block in tree.nodes("compound_statement")
    ]
    for length in range(2, LONGEST_RUN + 1):
        for statements in blocks:
            for start in range(len(statements) - length + 1):
                run = statements[start : start + length]
                if any(is_costly(tree, node) for node in run):
                    yield part_without(tree, run, 1)


def _initialisers(tree: Tree, node: Node) -> Iterator[Part]:
    """Each declared number whose initialiser has a call (a load or an atomic too), initialised to 0."""
    type_node = node.child_by_field_name("type")
    head = tree.source[node.start_byte : type_node.end_byte] if type_node is not None else b"constexpr"
    is_static = re.search(rb"constexpr|static|__shared__", head)
    if type_node is None or type_node.type not in ARITHMETIC or is_static:
        return
    for declarator in node.named_children:
        value, name = (declarator.child_by_field_name(field) for field in ("value", "declarator"))
        if value is None or name is None or name.type != "identifier" or value.type == "initializer_list":
            continue
        if contains(tree, value, "call_expression"):
            zero = f"({tree.text(type_node).decode()})0"
            yield Part(f"the value of {one_line(tree, declarator)}", (replace_guard(value, zero),), 2)


def _returns_first_type(tree: Tree, function: Function) -> bool:
    """Whether a function returns the type of its first parameter, so a call may become its argument."""
    return_type = function.node.child_by_field_name("type")
    if return_type is None or not function.params or tree.text(return_type) == b"void":
        return False
    first_param = function.params[0]
    return first_param.type == tree.text(return_type) and not first_param.stars and not first_param.sizes


def _calls(tree: Tree, node: Node, numeric: Collection[bytes]) -> Iterator[Part]:
    """A call replaced by its first argument; then nested calls by the innermost first argument.

    Only calls of math functions and of `numeric`, the side's functions that return their first parameter's
    type.
    """
    argument = _first_argument(tree, node, numeric)
    rank = 3 if _MATH.fullmatch(tree.text(node.child_by_field_name("function"))) else 1
    for depth in range(MAX_NESTED_CALLS):
        if argument is None:
            return
        label = f"the call{'s' if depth else ''} {one_line(tree, node)}"
        if depth:
            label += f", where {one_line(tree, argument)} serves"
        yield Part(label, (replace_guard(node, f"({tree.text(argument).decode()})"),), rank)
        argument = _first_argument(tree, _origin(tree, argument), numeric)


def _atomics(tree: Tree, node: Node) -> Iterator[Part]:
    """An atomic replaced by a plain load, store or update; a ticket counter by the thread's global index."""
    function, arguments = (node.child_by_field_name(field) for field in ("function", "arguments"))
    if function is not None and arguments is not None and function.type == "field_expression":
        yield from _relaxed_order(tree, function, arguments)
    if function is None or arguments is None or not _ATOMIC.fullmatch(tree.text(function)):
        return
    args = [tree.text(argument).decode() for argument in arguments.named_children]
    if len(args) < 2:
        return
    label = one_line(tree, node)
    if node.parent.type != "expression_statement":
        yield Part(f"the atomic in {label}", (replace_guard(node, f"(*({args[0]}))"),), 2)
        if tree.text(function) == b"atomicAdd":
            ticket = f"(({args[1]}) * ({IN_ORDER[0].decode()}))"
            yield Part(f"the order of {label}", (replace_guard(node, ticket),), 2, reuses_value=True)
    elif tree.text(function) == b"atomicExch":
        yield Part(f"the atomic in {label}", (replace_guard(node, f"(*({args[0]}) = ({args[1]}))"),), 2)
    elif tree.text(function) in _PLAIN_UPDATES and not has_side_effects(tree, arguments.named_children[0]):
        target = f"(*({args[0]}))"
        update = _PLAIN_UPDATES[tree.text(function)].format(target, args[1])
        probe = _single_thread_probe(node.parent, args[0])
        yield Part(f"the atomic in {label}", (replace_guard(node, f"({target} = {update})"),), 2, probe=probe)


def _compare_and_swap_loops(tree: Tree, loop: Node) -> Iterator[Part]:
    """A compare-and-swap retry loop replaced by a plain store."""
    loop_locals = {declared.name for declared in tree.declared(loop)}
    for _, _, arguments in tree.calls(b"atomicCAS", within=loop):
        names = [names_in(tree, argument) for argument in arguments]
        if len(names) != 3 or not loop_locals.isdisjoint(frozenset().union(*names)):
            continue
        if names[0].isdisjoint(assigned_in(tree, loop)):
            target, _, value = (tree.text(argument).decode() for argument in arguments)
            before = f"{{ if ({SWITCH}) *({target}) = ({value}); else "
            store = Guard(loop.start_byte, loop.end_byte, before, " }")
            probe = _single_thread_probe(loop, target)
            yield Part(f"the atomics of {one_line(tree, loop)}", (store,), 2, probe=probe)


def _single_thread_probe(statement: Node, address: str) -> Guard:
    """A probe before a statement: whether only one thread of a launch accesses this address."""
    return Guard(statement.start_byte, statement.end_byte, f"{{ kcu_probe_alone(@, {address}); ", " }")


def _relaxed_order(tree: Tree, function: Node, arguments: Node) -> Iterator[Part]:
    """A `cuda::atomic` method with relaxed order instead of the default seq_cst, which needs fences."""
    method = tree.text(function.child_by_field_name("field"))
    args = [tree.text(argument).decode() for argument in arguments.named_children]
    if args and "seq_cst" in args[-1]:
        args.pop()
    if len(args) == _ARGUMENTS_BEFORE_ORDER.get(method) and b"atomic" in tree.source:
        call = f"{tree.text(function).decode()}({', '.join([*args, _RELAXED])})"
        label = f"the order of {one_line(tree, arguments.parent)}"
        yield Part(label, (replace_guard(arguments.parent, call),), 2, visible_in_counts=False)


def _first_argument(tree: Tree, node: Node, numeric: Collection[bytes]) -> Node | None:
    """The first argument of a call of a math function or of one in `numeric`; None for other nodes."""
    if node.type != "call_expression":
        return None
    function, arguments = (node.child_by_field_name(field) for field in ("function", "arguments"))
    if function is not None and _MATH.fullmatch(tree.text(function)) and arguments.named_children:
        return arguments.named_children[0]
    while function is not None and function.type in ("template_function", "field_expression"):
        function = function.child_by_field_name("name") or function.child_by_field_name("field")
    if function is None or tree.text(function) not in numeric or not arguments.named_children:
        return None
    return arguments.named_children[0]


def _origin(tree: Tree, node: Node) -> Node:
    """The initialiser of a variable; the node itself for any other expression."""
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
    """The side without all attributes, then without each (launch bounds, `__noinline__`, `volatile`).

    Only a GPU shows their cost.
    """
    matches = [*_ATTRIBUTE.finditer(side.code)]
    for chosen in [matches] * (len(matches) > 1) + [[match] for match in matches]:
        code = side.code
        for match in reversed(chosen):
            code = code[: match.start()] + code[match.end() :]
        label = chosen[0][0] + (f", and {len(chosen) - 1} more attributes" if len(chosen) > 1 else "")
        line = side.code.count("\n", 0, chosen[0].start()) + 1
        offsets = tuple(match.start() for match in chosen)
        yield Ablation(
            label, line, replace(side, code=code), visible_in_counts=False, attribute_offsets=offsets
        )


def _without_steps(side: Side, buffers: Mapping[str, Buffer]) -> Iterator[Ablation]:
    """The side with each of the reduced plans of `kcurate.mutate.plan_ablations`."""
    for label, visible, plan in plans_without_part(side.plan, buffers):
        regridded, surplus = label.startswith(HALF_GRID), label.startswith(ONE_WARP)
        side_without = replace(side, plan=plan)
        label = f"in the plan: {label}"
        yield Ablation(
            label,
            None,
            side_without,
            visible_in_counts=visible,
            has_fewer_blocks=regridded,
            at_bench_only=surplus,
        )
