"""Parts of a side that might be needless, and the side without each of them, one part at a time.

Parts of the code: statements and runs of statements, loops and their later iterations, branches, barriers,
computed values and calls, all found in the syntax tree; attributes and launch bounds. A part may also be a
chain of computation, whose result is replaced by an earlier value (a variable, a load, an argument of a
call). One text has all parts of the code, each behind a guard, so that a single compilation serves for all.
Not covered: parts of the plan (`kcurate.mutate.plan_ablations`), whether a side stays correct
(`kcurate.judge.needless`), code in macro definitions.
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

# The variable that guards compare with their part's number; 0: no part is left out.
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
# How many values and indices of a side are replaced by earlier ones.
MOST_REPLACED = 40
# How many nested calls (also through variables) are left out together.
DEEPEST_CALLS = 4


@dataclass(frozen=True)
class Ablation:
    """A side without one part: a description of the part and its line in the code (None: it is in the plan).

    `number`: that of the part's guard in `guarded`; 0 if the plan or an attribute changed. `counted`: the
    emulator's counts show what the part costs. `regridded`: the grid changed, so its blocks differ from those
    of the whole side. `replaced`: an earlier value replaces a later one, perhaps an index, so a block may
    access other elements.
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
    """Texts to insert before and after the bytes `start` to `end`; `{}` stands for the part's number."""

    start: int
    end: int
    before: str
    after: str


@dataclass(frozen=True)
class _Part:
    """The guards that leave out a part (the first determines its line). A lower `rank` may cost more."""

    what: str
    guards: tuple[_Guard, ...]
    counted: bool
    rank: int
    replaced: bool = False


def ablations(side: Side, buffers: Mapping[str, Buffer] | None = None) -> tuple[Ablation, ...]:
    """The side without each of its parts; parts that may cost most come first. `buffers`: of the problem."""
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
    """The code without one part, for any compiler: with a constant instead of the emulator's switch."""
    return (
        f"enum : unsigned {{ {_CONSTANT} = {number} }};\n{guarded(code, {number}).replace(SWITCH, _CONSTANT)}"
    )


def guarded(code: str, numbers: Collection[int]) -> str:
    """The code with a guard around each of these parts."""
    source = code.encode()
    # Sorted by position; at equal positions ends come before starts, inner ends first, outer starts first.
    inserts: list[tuple[int, bool, int, int, str]] = []
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
    # Blank out pragmas: between the head and the body of a loop, the parser would take one for the body.
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
    """Replace an expression by another."""
    return _Guard(node.start_byte, node.end_byte, f"({SWITCH} == {{}} ? {text} : (", "))")


def _left_out(tree: Tree, statements: Sequence[Node], rank: int) -> _Part:
    """Leave out statements."""
    description = _shown(tree, statements[0])
    if len(statements) > 1:
        description += f" to {_shown(tree, statements[-1])}"
    counted = not all(_is_barrier(tree, node) for node in statements)
    return _Part(description, tuple(map(_skipped, statements)), counted, rank)


def _runs(tree: Tree) -> Iterator[_Part]:
    """Runs of neighbouring statements in a block, since one may undo what another did; declarations stay.

    Short runs of all blocks come first, so that no block uses up the limit.
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
    """Whether a statement has a loop or a call; others cost little."""
    return not _is_barrier(tree, node) and any(
        True for _ in tree.nodes(*_LOOPS, "call_expression", within=node)
    )


def _replacements(tree: Tree) -> Iterator[_Part]:
    """Values replaced by earlier values of the same function; functions take turns."""
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
    """Replace the value that a variable is set to by an earlier value."""
    for target, value in _assigned(scope, node):
        if value.type in ("identifier", "number_literal", "call_expression", "initializer_list"):
            continue  # copying a value costs nothing; calls are separate parts
        texts = [text for text, _ in scope.earlier(node, target)]
        if b"threadIdx" in scope.tree.text(value):  # only the order of thread indices can be needless
            texts = [] if is_real(target) else list(_IN_ORDER)
        for text in texts:
            yield _replaced(scope.tree, target, text, value, (_instead(value, _cast(target, text)),))


def _replaced(tree: Tree, target: Declared, text: bytes, at: Node, guards: tuple[_Guard, ...]) -> _Part:
    name = target.name.decode()
    description = f"the value of {name} in {_shown(tree, _statement(at))}, where {text.decode()} serves"
    return _Part(description, guards, counted=True, rank=2, replaced=True)


def _statement(node: Node) -> Node:
    return next((parent for parent in ancestors(node) if parent.type in _ASSIGNS), node)


def _cast(target: Declared, text: bytes) -> str:
    return f"({target.type.decode()})({text.decode()})"


def _assigned(scope: Scope, node: Node) -> Iterator[tuple[Declared, Node]]:
    """The numeric variables that a statement declares or assigns, with the expressions assigned to them."""
    if node.type == "declaration":
        for number in scope.numbers:
            fixed = number.qualifiers & {b"constexpr", b"static", b"__shared__"}
            if number.declaration.id == node.id and number.value is not None and not fixed:
                yield number, number.value
        return
    assignment = node.named_children[0] if node.named_children else None
    if assignment is None or assignment.type != "assignment_expression":
        return
    left, right = (assignment.child_by_field_name(field) for field in ("left", "right"))
    target = scope.named(left) if left.type == "identifier" else None
    if target is not None and scope.tree.text(assignment.child_by_field_name("operator")) == b"=":
        yield target, right


def _replaced_uses(scope: Scope, node: Node) -> Iterator[_Part]:
    """Where a statement reads a variable, read an earlier value instead and skip what ran in between."""
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
    """Replace a computed index by a variable in it, at every use of that index; then all indices at once."""
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
        names = dict.fromkeys(number.name for number in named if number is not None and number not in uniform)
        for name in [*names, *(_IN_ORDER if b"threadIdx" in text else ())][:NEAREST]:
            of_name = tuple(_instead(node, f"({name.decode()})") for node in nodes)
            description = f"the place {_shown(scope.tree, nodes[0])}, where {name.decode()} serves"
            yield _Part(description, of_name, True, 2, replaced=True)
            guards += of_name if name == next(iter(names), None) else ()
    if len(places) > 1 and guards:
        yield _Part("the order of all places", tuple(guards), True, 2, replaced=True)


def _reads(tree: Tree, node: Node) -> Iterator[Node]:
    """The variables that a declared or assigned value reads outside calls, each once."""
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
    """If each thread waits in a loop for its own iteration, run only that iteration, at once.

    Also together with an earlier value for each variable that iterations pass on.
    """
    tree, body = scope.tree, loop.child_by_field_name("body")
    start = loop.child_by_field_name("initializer")
    counters = [number for number in scope.numbers if start is not None and number.declaration.id == start.id]
    if body is None or len(counters) != 1 or counters[0].value is None:
        return
    for turn in _turns(tree, counters[0].name, body):
        text = tree.text(turn)
        first = _instead(counters[0].value, _cast(counters[0], text))
        once = _Guard(body.start_byte, body.end_byte, "{ ", f" if ({SWITCH} == {{}}) break; }}")
        order = f"the order of the rounds of {_shown(tree, loop)}"
        yield _Part(order, (first, once), True, 1)
        for node in tree.nodes(*_ASSIGNS, within=body):
            for target, value in _assigned(scope, node):
                for earlier, _ in scope.earlier(loop, target):
                    guards = (first, once, _instead(value, _cast(target, earlier)))
                    names = f"{earlier.decode()} for {target.name.decode()}"
                    yield _Part(f"{order}, with {names}", guards, True, 1)


def _turns(tree: Tree, counter: bytes, body: Node) -> Iterator[Node]:
    """The expressions with which conditions inside a loop compare its counter for equality."""
    for node in tree.nodes("binary_expression", within=body):
        if tree.text(node.child_by_field_name("operator")) != b"==":
            continue
        sides = [node.child_by_field_name(field) for field in ("left", "right")]
        for side, other in (sides, sides[::-1]):
            if tree.text(side) == counter and not any(True for _ in tree.uses(counter, within=other)):
                yield other


def _of_loop(tree: Tree, node: Node) -> Iterator[_Part]:
    """A loop that does not run, runs once, or runs only to half its bound."""
    yield _left_out(tree, (node,), 0)
    body, condition = node.child_by_field_name("body"), node.child_by_field_name("condition")
    if node.type == "do_statement":
        if condition is not None:
            description = f"all but one round of {_shown(tree, node)}"
            guard = _Guard(condition.start_byte, condition.end_byte, f"({SWITCH} != {{}} && ", ")")
            yield _Part(description, (guard,), True, 1)
        return
    if body is not None:
        description = f"all but one round of {_shown(tree, node)}"
        leave = f" if ({SWITCH} == {{}}) break; }}"
        yield _Part(description, (_Guard(body.start_byte, body.end_byte, "{ ", leave),), True, 0)
    right = condition.child_by_field_name("right") if condition is not None else None
    if node.type == "for_statement" and right is not None and _compares(condition):
        description, half = f"half the rounds of {_shown(tree, node)}", f") / ({SWITCH} == {{}} ? 2 : 1))"
        yield _Part(description, (_Guard(right.start_byte, right.end_byte, "((", half),), True, 1)


def _compares(condition: Node) -> bool:
    sign = condition.child_by_field_name("operator")
    return condition.type == "binary_expression" and sign is not None and sign.type in ("<", "<=")


def _of_declaration(tree: Tree, node: Node) -> Iterator[_Part]:
    """Replace a number that a call returns (a load, an atomic) by 0."""
    kind = node.child_by_field_name("type")
    head = tree.source[node.start_byte : kind.end_byte] if kind is not None else b"constexpr"
    if kind is None or kind.type not in ARITHMETIC or re.search(rb"constexpr|static|__shared__", head):
        return
    for declared in node.named_children:
        value, name = (declared.child_by_field_name(field) for field in ("value", "declarator"))
        if value is None or name is None or name.type != "identifier" or value.type == "initializer_list":
            continue
        if any(True for _ in tree.nodes("call_expression", within=value)):
            description, zero = f"the value of {_shown(tree, declared)}", f"({tree.text(kind).decode()})0"
            yield _Part(description, (_instead(value, zero),), True, 2)


def _keeps_its_type(tree: Tree, function: Function) -> bool:
    """Whether a function returns the type of its first parameter."""
    kind = function.node.child_by_field_name("type")
    if kind is None or not function.params or tree.text(kind) == b"void":
        return False
    first = function.params[0]
    return first.type == tree.text(kind) and not first.stars and not first.sizes


def _of_call(tree: Tree, node: Node, numeric: Collection[bytes]) -> Iterator[_Part]:
    """Replace a call of the side's own functions by its first argument; also several nested calls."""
    first = _first_argument(tree, node, numeric)
    for depth in range(DEEPEST_CALLS):
        if first is None:
            return
        description = f"the call{'s' if depth else ''} {_shown(tree, node)}"
        if depth:
            description += f", where {_shown(tree, first)} serves"
        yield _Part(description, (_instead(node, f"({tree.text(first).decode()})"),), True, 1)
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
    """The expression that initialises a variable; other expressions are returned unchanged."""
    body = next((parent for parent in ancestors(node) if parent.type == "function_definition"), None)
    if node.type != "identifier" or body is None:
        return node
    values = [
        variable.value for variable in tree.declared(body)
        if variable.name == tree.text(node) and variable.value is not None
        and variable.declaration.end_byte <= node.start_byte
    ]  # fmt: skip
    return values[-1] if values else node


def _without_attributes(side: Side) -> Iterator[Ablation]:
    """Leave out launch bounds, `__noinline__`, `volatile` and the like; only a GPU shows their cost."""
    for match in _ATTRIBUTE.finditer(side.code):
        code = side.code[: match.start()] + side.code[match.end() :]
        line = side.code.count("\n", 0, match.start()) + 1
        yield Ablation(match[0], line, replace(side, code=code), counted=False)


def _without_steps(side: Side, buffers: Mapping[str, Buffer]) -> Iterator[Ablation]:
    """The plan without a step, with one iteration of a loop, half the blocks or less shared memory."""
    for text, counted, plan in plans_without_a_part(side.plan, buffers):
        regridded = text.startswith(HALF_GRID)
        side_without = replace(side, plan=plan)
        yield Ablation(f"in the plan: {text}", None, side_without, counted=counted, regridded=regridded)
