"""Parts of a side that might be needless, and the side without each of them, one part at a time.

Of the code: statements and runs of them, loops and their later rounds, branches, barriers, values that are
computed and calls that could be skipped, found in the syntax tree; attributes and launch bounds. Parts that
need each other go together where an earlier value (a variable's, a load's, a call's argument) takes a later
one's place. One text has all parts of the code, each behind a guard, so that a single compilation serves for
all of them. Not covered: parts of the plan (`kcurate.mutate.plan_ablations`), whether a side stays right
(`kcurate.judge.needless`), code in macros' definitions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, zip_longest

from kcurate.cuda_source.parse.items import tree_of
from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, ancestors
from kcurate.mutate.numbers_in_scope import ARITHMETIC, NEAREST, Scope, is_real
from kcurate.mutate.plan_ablations import HALF_GRID, LONGEST_RUN, MOST_RUNS, plans_without_a_part, shortened
from kcurate.records import Buffer, Side

# What the guards compare: the number of the part that is left out, 0 for none.
SWITCH = "kcu_ablated"
_CONSTANT = "part_left_out"
_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
_BARRIER = re.compile(rb"__sync|__threadfence|\bsync\s*\(|arrive|\bwait|fence|barrier|\basm\b")
_PRAGMA = re.compile(rb"^[ \t]*#[ \t]*pragma\b[^\n]*", re.MULTILINE)
_ATTRIBUTE = re.compile(
    r"__(?:launch_bounds|maxnreg|cluster_dims)__\s*\((?:[^()]|\([^()]*\))*\)|__noinline__|\bvolatile\b(?!\s*\()"
    r"|#\s*pragma\s+unroll[ \t]*\(?1\)?[ \t]*$",
    re.MULTILINE,
)
_IN_ORDER = (b"blockIdx.x * blockDim.x + threadIdx.x", b"threadIdx.x")
_ASSIGNS = ("declaration", "expression_statement")
# How many values and places of a side are tried with earlier ones.
MOST_REPLACED = 40
# Calls inside calls, through variables too, that are left out together.
DEEPEST_CALLS = 4


@dataclass(frozen=True)
class Ablation:
    """A side without one part: what and, in the code, where.

    `number`: its guard's in `guarded`; 0 where the side differs in its plan or its attributes. `counted`: the
    counts of the emulator show what the part costs. `regridded`: a few of its blocks are other ones than the
    whole side's. `replaced`: an earlier value is in a later one's place, perhaps as an index, so that a block
    may work at other places.
    """

    what: str
    line: int | None
    side: Side
    number: int = 0
    counted: bool = True
    regridded: bool = False
    replaced: bool = False


@dataclass(frozen=True)
class _Guard:
    """`before` and `after`, inserted around the bytes `start` to `end`; `{}` is the part's number."""

    start: int
    end: int
    before: str
    after: str


@dataclass(frozen=True)
class _Part:
    """The guards that leave out a part, the one that its line is told by first."""

    what: str
    guards: tuple[_Guard, ...]
    counted: bool
    rank: int
    replaced: bool = False


def ablations(side: Side, buffers: Mapping[str, Buffer] | None = None) -> tuple[Ablation, ...]:
    """The side without each of its parts, those first that may cost the most. `buffers`: the problem's."""
    source = side.code.encode()
    numbered = list(enumerate(_parts(source), 1))
    numbered.sort(key=lambda item: item[1].rank)
    of_code = [
        Ablation(
            part.what,
            source.count(b"\n", 0, part.guards[0].start) + 1,
            replace(side, code=_without(side.code, number)),
            number,
            part.counted,
            replaced=part.replaced,
        )
        for number, part in numbered
    ]
    return (*_without_steps(side, {**(buffers or {}), **side.buffers}), *of_code, *_without_attributes(side))


def _without(code: str, number: int) -> str:
    """The code without one part, for any compiler: a constant in place of the emulator's switch."""
    return (
        f"enum : unsigned {{ {_CONSTANT} = {number} }};\n{guarded(code, {number}).replace(SWITCH, _CONSTANT)}"
    )


def guarded(code: str, numbers: Collection[int]) -> str:
    """The code with a guard around each of these parts."""
    source = code.encode()
    inserts: list[tuple[int, bool, int, int, str]] = []  # at one place inner ends first, outer starts first
    for number, part in enumerate(_parts(source), 1):
        for guard in part.guards if number in numbers else ():
            before, after = (text.replace("{}", str(number)) for text in (guard.before, guard.after))
            inserts.append((guard.start, True, -guard.end, number, before))
            inserts.append((guard.end, False, -guard.start, -number, after))
    pieces, at = [], 0
    for place, *_, text in sorted(inserts):
        pieces += [source[at:place], text.encode()]
        at = place
    return b"".join([*pieces, source[at:]]).decode()


@lru_cache(maxsize=4)
def _parts(source: bytes) -> tuple[_Part, ...]:
    return tuple(_parts_of(source))


def _parts_of(source: bytes) -> Iterator[_Part]:
    """All parts, outer before inner."""
    # Between a loop's head and its body a pragma would be its body.
    tree = tree_of(_PRAGMA.sub(lambda match: b" " * len(match[0]), source))
    yield from islice(_runs(tree), MOST_RUNS)
    yield from islice(_replacements(tree), MOST_REPLACED)
    numeric = frozenset(function.name for function in tree.functions() if _keeps_its_type(tree, function))
    for node in tree.nodes():
        if not any(parent.type == "function_definition" for parent in ancestors(node)):
            continue
        if node.type in _LOOPS:
            yield from _of_loop(tree, node)
        elif node.type == "if_statement":
            yield _left_out(tree, (node,), 3)
        elif node.type == "expression_statement" and node.named_children:
            in_loop = any(parent.type in _LOOPS for parent in ancestors(node))
            yield _left_out(tree, (node,), 2 if in_loop or _is_barrier(tree, node) else 4)
        elif node.type == "declaration":
            yield from _of_declaration(tree, node)
        elif node.type == "call_expression":
            yield from _of_call(tree, node, numeric)


def _shown(tree: Tree, node: Node) -> str:
    return shortened(tree.text(node).decode())


def _is_barrier(tree: Tree, node: Node) -> bool:
    return node.type == "expression_statement" and _BARRIER.search(tree.text(node)) is not None


def _skipped(node: Node) -> _Guard:
    return _Guard(node.start_byte, node.end_byte, f"{{ if ({SWITCH} != {{}}) ", " }")


def _instead(node: Node, text: str) -> _Guard:
    """Another expression in an expression's place."""
    return _Guard(node.start_byte, node.end_byte, f"({SWITCH} == {{}} ? {text} : (", "))")


def _left_out(tree: Tree, statements: Sequence[Node], rank: int) -> _Part:
    """Statements that do not run."""
    what = _shown(tree, statements[0])
    if len(statements) > 1:
        what += f" to {_shown(tree, statements[-1])}"
    counted = not all(_is_barrier(tree, node) for node in statements)
    return _Part(what, tuple(map(_skipped, statements)), counted, rank)


def _runs(tree: Tree) -> Iterator[_Part]:
    """Neighbouring statements of a block, since what one does the other may undo; declarations stay.

    Short ones of all blocks first, so that no block hides another's.
    """
    blocks = [
        [node for node in block.named_children if _can_be_skipped(node)]
        for block in tree.nodes("compound_statement")
    ]
    for length in range(2, LONGEST_RUN + 1):
        for statements in blocks:
            for first in range(len(statements) - length + 1):
                run = statements[first : first + length]
                if any(_is_costly(tree, node) for node in run):
                    yield _left_out(tree, run, 1)


def _can_be_skipped(node: Node) -> bool:
    return node.type in (*_LOOPS, "if_statement", "expression_statement") and bool(node.named_children)


def _is_costly(tree: Tree, node: Node) -> bool:
    """Whether a statement has a loop or calls a function: others cost little."""
    return not _is_barrier(tree, node) and any(
        True for _ in tree.nodes(*_LOOPS, "call_expression", within=node)
    )


def _replacements(tree: Tree) -> Iterator[_Part]:
    """Values, and earlier values of the same function in their place, of all functions in turn."""
    of_functions = [_replaced_in(Scope(tree, function)) for function in tree.functions()]
    return (part for parts in zip_longest(*of_functions) for part in parts if part is not None)


def _replaced_in(scope: Scope) -> Iterator[_Part]:
    body = scope.function.body
    for loop in scope.tree.nodes("for_statement", within=body):
        yield from _own_round(scope, loop)
    yield from _replaced_places(scope)
    for node in scope.tree.nodes(*_ASSIGNS, within=body):
        yield from _replaced_values(scope, node)
        yield from _replaced_uses(scope, node)


def _replaced_values(scope: Scope, node: Node) -> Iterator[_Part]:
    """An earlier value in place of one that a variable gets."""
    for target, value in _assigned(scope, node):
        if value.type in ("identifier", "number_literal", "call_expression", "initializer_list"):
            continue  # one that is copied costs nothing; calls have parts of their own
        texts = [text for text, _ in scope.earlier(node, target)]
        if b"threadIdx" in scope.tree.text(value):  # of threads' own numbers only their order can be needless
            texts = [] if is_real(target) else list(_IN_ORDER)
        for text in texts:
            yield _replaced(scope.tree, target, text, value, (_instead(value, _cast(target, text)),))


def _replaced(tree: Tree, target: Declared, text: bytes, at: Node, guards: tuple[_Guard, ...]) -> _Part:
    name = target.name.decode()
    what = f"the value of {name} in {_shown(tree, _statement(at))}, where {text.decode()} serves"
    return _Part(what, guards, counted=True, rank=2, replaced=True)


def _statement(node: Node) -> Node:
    return next((parent for parent in ancestors(node) if parent.type in _ASSIGNS), node)


def _cast(target: Declared, text: bytes) -> str:
    return f"({target.type.decode()})({text.decode()})"


def _assigned(scope: Scope, node: Node) -> Iterator[tuple[Declared, Node]]:
    """The numbers that a statement declares or assigns, with the expressions of their values."""
    if node.type == "declaration":
        for one in scope.numbers:
            fixed = one.qualifiers & {b"constexpr", b"static", b"__shared__"}
            if one.declaration.id == node.id and one.value is not None and not fixed:
                yield one, one.value
        return
    assignment = node.named_children[0] if node.named_children else None
    if assignment is None or assignment.type != "assignment_expression":
        return
    left, right = (assignment.child_by_field_name(field) for field in ("left", "right"))
    target = scope.named(left) if left.type == "identifier" else None
    if target is not None and scope.tree.text(assignment.child_by_field_name("operator")) == b"=":
        yield target, right


def _replaced_uses(scope: Scope, node: Node) -> Iterator[_Part]:
    """An earlier value where a statement reads a variable, and nothing of what ran between the two."""
    for use in _reads(scope.tree, node):
        target = scope.named(use)
        if target is None or target in scope.function.params:
            continue
        for text, source in scope.earlier(node, target, first=True):
            between = [
                sibling
                for sibling in node.parent.named_children
                if source.declaration.end_byte <= sibling.start_byte < node.start_byte
                and _can_be_skipped(sibling)
            ]
            if any(_is_costly(scope.tree, sibling) for sibling in between):
                guards = (_instead(use, _cast(target, text)), *map(_skipped, between))
                yield _replaced(scope.tree, target, text, use, guards)


def _replaced_places(scope: Scope) -> Iterator[_Part]:
    """A variable for an index that is computed from it, wherever the function has that index, and for all."""
    places: dict[bytes, list[Node]] = {}
    for node in scope.tree.nodes("subscript_argument_list", within=scope.function.body):
        index = node.named_children[0] if node.named_children else None
        if index is not None and index.type in ("binary_expression", "parenthesized_expression"):
            places.setdefault(scope.tree.text(index), []).append(index)
    guards: list[_Guard] = []
    for text, nodes in places.items():
        uses = scope.tree.nodes("identifier", within=nodes[0])
        uniform = scope.function.params if scope.function.kernel else ()
        named = [scope.named(use) for use in uses]
        names = dict.fromkeys(one.name for one in named if one is not None and one not in uniform)
        for name in [*names, *(_IN_ORDER if b"threadIdx" in text else ())][:NEAREST]:
            of_name = tuple(_instead(node, f"({name.decode()})") for node in nodes)
            what = f"the place {_shown(scope.tree, nodes[0])}, where {name.decode()} serves"
            yield _Part(what, of_name, True, 2, replaced=True)
            guards += of_name if name == next(iter(names), None) else ()
    if len(places) > 1 and guards:
        yield _Part("the order of all places", tuple(guards), True, 2, replaced=True)


def _reads(tree: Tree, node: Node) -> Iterator[Node]:
    """The variables that the value of a declaration or an assignment reads, each once, outside calls."""
    inner = node.named_children[-1] if node.named_children else None
    value = inner.child_by_field_name("value" if node.type == "declaration" else "right") if inner else None
    names: set[bytes] = set()
    for use in tree.nodes("identifier", within=value) if value is not None else ():
        if use.parent.type in ("argument_list", "update_expression", "pointer_expression", "call_expression"):
            continue
        if tree.text(use) not in names:
            names.add(tree.text(use))
            yield use


def _own_round(scope: Scope, loop: Node) -> Iterator[_Part]:
    """A loop in which each thread waits for its round, and that round alone, at once.

    What the rounds hand on may go with it: an earlier value for each variable that a round declares.
    """
    tree, body = scope.tree, loop.child_by_field_name("body")
    start = loop.child_by_field_name("initializer")
    counters = [one for one in scope.numbers if start is not None and one.declaration.id == start.id]
    if body is None or len(counters) != 1 or counters[0].value is None:
        return
    for turn in _turns(tree, counters[0].name, body):
        text = tree.text(turn)
        first = _instead(counters[0].value, _cast(counters[0], text))
        once = _Guard(body.start_byte, body.end_byte, "{ ", f" if ({SWITCH} == {{}}) break; }}")
        what = f"the order of the rounds of {_shown(tree, loop)}"
        yield _Part(what, (first, once), True, 1)
        for node in tree.nodes(*_ASSIGNS, within=body):
            for target, value in _assigned(scope, node):
                for earlier, _ in scope.earlier(loop, target):
                    guards = (first, once, _instead(value, _cast(target, earlier)))
                    yield _Part(
                        f"{what}, with {earlier.decode()} for {target.name.decode()}", guards, True, 1
                    )


def _turns(tree: Tree, counter: bytes, body: Node) -> Iterator[Node]:
    """What conditions inside a loop compare its counter with."""
    for node in tree.nodes("binary_expression", within=body):
        if tree.text(node.child_by_field_name("operator")) != b"==":
            continue
        sides = [node.child_by_field_name(field) for field in ("left", "right")]
        for one, other in (sides, sides[::-1]):
            if tree.text(one) == counter and not any(True for _ in tree.uses(counter, within=other)):
                yield other


def _of_loop(tree: Tree, node: Node) -> Iterator[_Part]:
    """A loop that does not run, runs once, or only to half of its bound."""
    yield _left_out(tree, (node,), 0)
    body, condition = node.child_by_field_name("body"), node.child_by_field_name("condition")
    if node.type == "do_statement":
        if condition is not None:
            what = f"all but one round of {_shown(tree, node)}"
            guard = _Guard(condition.start_byte, condition.end_byte, f"({SWITCH} != {{}} && ", ")")
            yield _Part(what, (guard,), True, 1)
        return
    if body is not None:
        what = f"all but one round of {_shown(tree, node)}"
        leave = f" if ({SWITCH} == {{}}) break; }}"
        yield _Part(what, (_Guard(body.start_byte, body.end_byte, "{ ", leave),), True, 0)
    right = condition.child_by_field_name("right") if condition is not None else None
    if node.type == "for_statement" and right is not None and _compares(condition):
        what, half = f"half the rounds of {_shown(tree, node)}", f") / ({SWITCH} == {{}} ? 2 : 1))"
        yield _Part(what, (_Guard(right.start_byte, right.end_byte, "((", half),), True, 1)


def _compares(condition: Node) -> bool:
    sign = condition.child_by_field_name("operator")
    return condition.type == "binary_expression" and sign is not None and sign.type in ("<", "<=")


def _of_declaration(tree: Tree, node: Node) -> Iterator[_Part]:
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
            what, zero = f"the value of {_shown(tree, declared)}", f"({tree.text(kind).decode()})0"
            yield _Part(what, (_instead(value, zero),), True, 2)


def _keeps_its_type(tree: Tree, function: Function) -> bool:
    """Whether a function answers a value of its first parameter's type."""
    kind = function.node.child_by_field_name("type")
    if kind is None or not function.params or tree.text(kind) == b"void":
        return False
    first = function.params[0]
    return first.type == tree.text(kind) and not first.stars and not first.sizes


def _of_call(tree: Tree, node: Node, numeric: Collection[bytes]) -> Iterator[_Part]:
    """Calls of functions of the side's own, and the innermost one's first argument in place of the answer."""
    first = _first_argument(tree, node, numeric)
    for depth in range(DEEPEST_CALLS):
        if first is None:
            return
        what = f"the call{'s' if depth else ''} {_shown(tree, node)}"
        if depth:
            what += f", where {_shown(tree, first)} serves"
        yield _Part(what, (_instead(node, f"({tree.text(first).decode()})"),), True, 1)
        first = _first_argument(tree, _origin(tree, first), numeric)


def _first_argument(tree: Tree, node: Node, numeric: Collection[bytes]) -> Node | None:
    """The first argument of a call of one of these functions or methods."""
    if node.type != "call_expression":
        return None
    function, listed = (node.child_by_field_name(field) for field in ("function", "arguments"))
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
        one.value for one in tree.declared(body) if one.name == tree.text(node) and one.value is not None
        and one.declaration.end_byte <= node.start_byte
    ]  # fmt: skip
    return values[-1] if values else node


def _without_attributes(side: Side) -> Iterator[Ablation]:
    """Launch bounds, `__noinline__`, `volatile` and the like; only a GPU shows what they cost."""
    for match in _ATTRIBUTE.finditer(side.code):
        code = side.code[: match.start()] + side.code[match.end() :]
        line = side.code.count("\n", 0, match.start()) + 1
        yield Ablation(match[0], line, replace(side, code=code), counted=False)


def _without_steps(side: Side, buffers: Mapping[str, Buffer]) -> Iterator[Ablation]:
    """The plan without a step, with one round of a loop, with half the blocks or less shared memory."""
    for what, counted, plan in plans_without_a_part(side.plan, buffers):
        regridded = what.startswith(HALF_GRID)
        side_without = replace(side, plan=plan)
        yield Ablation(f"in the plan: {what}", None, side_without, counted=counted, regridded=regridded)
