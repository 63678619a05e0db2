"""Parts of a side that might be needless, and the side without each of them, one part at a time.

Of the code: statements, loops and their later rounds, branches, barriers, values that are computed and calls
that could be skipped, found in the syntax tree; attributes and launch bounds. Of the plan: launches, fills,
copies, rounds and shared memory. One text has all parts of the code, each behind a guard, so that a single
compilation serves for all of them. Not covered: whether a side stays right (`kcurate.judge.needless`), code
in macros' definitions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from kcurate.core import codec
from kcurate.cuda_source.edit import Function, Node, Tree, ancestors, tree_of
from kcurate.records import For, Launch, Side, Step, Swap, WhileNonzero

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
_HALF_GRID = "half the blocks of "
_ARITHMETIC = ("primitive_type", "sized_type_specifier")


@dataclass(frozen=True)
class Ablation:
    """A side without one part: what and, in the code, where.

    `number`: its guard's in `guarded`; 0 where the side differs in its plan or its attributes. `counted`: the
    counts of the emulator show what the part costs. `regridded`: a few of its blocks are other ones than the
    whole side's.
    """

    what: str
    line: int | None
    side: Side
    number: int = 0
    counted: bool = True
    regridded: bool = False


@dataclass(frozen=True)
class _Part:
    """`before` and `after`, inserted around `start` to `end`, leave out a part; `{}` is its number."""

    what: str
    start: int
    end: int
    before: str
    after: str
    counted: bool
    rank: int


def ablations(side: Side) -> tuple[Ablation, ...]:
    """The side without each of its parts, those first that may cost the most."""
    source = side.code.encode()
    numbered = list(enumerate(_parts(source), 1))
    numbered.sort(key=lambda item: item[1].rank)
    of_code = [
        Ablation(
            part.what,
            source.count(b"\n", 0, part.start) + 1,
            replace(side, code=_without(side.code, number)),
            number,
            part.counted,
        )
        for number, part in numbered
    ]
    return (*_without_steps(side), *of_code, *_without_attributes(side))


def _without(code: str, number: int) -> str:
    """The code without one part, for any compiler: a constant in place of the emulator's switch."""
    return (
        f"enum : unsigned {{ {_CONSTANT} = {number} }};\n{guarded(code, {number}).replace(SWITCH, _CONSTANT)}"
    )


def guarded(code: str, numbers: Collection[int]) -> str:
    """The code with a guard around each of these parts."""
    source = code.encode()
    inserts: list[tuple[int, bool, int, str]] = []
    for number, part in enumerate(_parts(source), 1):
        if number in numbers:
            inserts.append((part.start, True, number, part.before.replace("{}", str(number))))
            inserts.append((part.end, False, -number, part.after.replace("{}", str(number))))
    pieces, at = [], 0
    for place, _, _, text in sorted(inserts):
        pieces += [source[at:place], text.encode()]
        at = place
    return b"".join([*pieces, source[at:]]).decode()


def _parts(source: bytes) -> Iterator[_Part]:
    """All parts, outer before inner."""
    # Between a loop's head and its body a pragma would be its body.
    tree = tree_of(_PRAGMA.sub(lambda match: b" " * len(match[0]), source))
    numeric = frozenset(function.name for function in tree.functions() if _keeps_its_type(tree, function))
    for node in tree.nodes():
        if not any(parent.type == "function_definition" for parent in ancestors(node)):
            continue
        if node.type in _LOOPS:
            yield from _of_loop(tree, node)
        elif node.type == "if_statement":
            yield _left_out(tree, node, 3)
        elif node.type == "expression_statement" and node.named_children:
            text = tree.text(node)
            barrier = _BARRIER.search(text) is not None
            in_loop = any(parent.type in _LOOPS for parent in ancestors(node))
            yield _left_out(tree, node, 2 if barrier or in_loop else 4, counted=not barrier)
        elif node.type == "declaration":
            yield from _of_declaration(tree, node)
        elif node.type == "call_expression":
            yield from _of_call(tree, node, numeric)


def _shown(tree: Tree, node: Node) -> str:
    return _shortened(tree.text(node).decode())


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _left_out(tree: Tree, node: Node, rank: int, *, counted: bool = True) -> _Part:
    """A statement that does not run."""
    before = f"{{ if ({SWITCH} != {{}}) "
    return _Part(_shown(tree, node), node.start_byte, node.end_byte, before, " }", counted, rank)


def _of_loop(tree: Tree, node: Node) -> Iterator[_Part]:
    """A loop that does not run, alone or with the next one, runs once, or only to half of its bound."""
    yield _left_out(tree, node, 0)
    after = node.next_named_sibling
    if after is not None and after.type in _LOOPS:
        what, before = f"{_shown(tree, node)} and the loop after it", f"{{ if ({SWITCH} != {{}}) {{ "
        yield _Part(what, node.start_byte, after.end_byte, before, " } }", True, 1)
    body, condition = node.child_by_field_name("body"), node.child_by_field_name("condition")
    if node.type == "do_statement":
        if condition is not None:
            what, place = f"all but one round of {_shown(tree, node)}", condition
            yield _Part(what, place.start_byte, place.end_byte, f"({SWITCH} != {{}} && ", ")", True, 1)
        return
    if body is not None:
        what = f"all but one round of {_shown(tree, node)}"
        leave = f" if ({SWITCH} == {{}}) break; }}"
        yield _Part(what, body.start_byte, body.end_byte, "{ ", leave, True, 0)
    right = condition.child_by_field_name("right") if condition is not None else None
    if node.type == "for_statement" and right is not None and _compares(condition):
        what, half = f"half the rounds of {_shown(tree, node)}", f") / ({SWITCH} == {{}} ? 2 : 1))"
        yield _Part(what, right.start_byte, right.end_byte, "((", half, True, 1)


def _compares(condition: Node) -> bool:
    sign = condition.child_by_field_name("operator")
    return condition.type == "binary_expression" and sign is not None and sign.type in ("<", "<=")


def _of_declaration(tree: Tree, node: Node) -> Iterator[_Part]:
    """A number that is computed or read by a call, an atomic or a load, and 0 in its place."""
    kind = node.child_by_field_name("type")
    head = tree.source[node.start_byte : kind.end_byte] if kind is not None else b"constexpr"
    if kind is None or kind.type not in _ARITHMETIC or re.search(rb"constexpr|static|__shared__", head):
        return
    for declared in node.named_children:
        value, name = (declared.child_by_field_name(field) for field in ("value", "declarator"))
        if value is None or name is None or name.type != "identifier" or value.type == "initializer_list":
            continue
        if any(True for _ in tree.nodes("call_expression", within=value)):
            before = f"{SWITCH} == {{}} ? ({tree.text(kind).decode()})0 : ({tree.text(kind).decode()})("
            what = f"the value of {_shown(tree, declared)}"
            yield _Part(what, value.start_byte, value.end_byte, before, ")", True, 2)


def _keeps_its_type(tree: Tree, function: Function) -> bool:
    """Whether a function answers a number of its first parameter's type."""
    kind = function.node.child_by_field_name("type")
    if kind is None or kind.type not in _ARITHMETIC or not function.params:
        return False
    first = function.params[0]
    return first.type == tree.text(kind) and not first.stars and not first.sizes and not first.reference


def _of_call(tree: Tree, node: Node, numeric: Collection[bytes]) -> Iterator[_Part]:
    """A call of a function of the side's own, and its first argument in place of its answer."""
    function, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if function is None or tree.text(function) not in numeric or not given.named_children:
        return
    first = given.named_children[0]
    for calls in ("the call", "the calls"):
        before = f"({SWITCH} == {{}} ? ({tree.text(first).decode()}) : "
        yield _Part(f"{calls} {_shown(tree, node)}", node.start_byte, node.end_byte, before, ")", True, 1)
        inner = first.child_by_field_name("function")
        if inner is None or tree.text(inner) not in numeric:
            return
        first = first.child_by_field_name("arguments").named_children[0]


def _without_attributes(side: Side) -> Iterator[Ablation]:
    """Launch bounds, `__noinline__`, `volatile` and the like; only a GPU shows what they cost."""
    for match in _ATTRIBUTE.finditer(side.code):
        code = side.code[: match.start()] + side.code[match.end() :]
        line = side.code.count("\n", 0, match.start()) + 1
        yield Ablation(match[0], line, replace(side, code=code), counted=False)


def _without_steps(side: Side) -> Iterator[Ablation]:
    """The plan without a step, with one round of a loop, with half the blocks or less shared memory."""
    for what, counted, plan in _plans(side.plan):
        regridded = what.startswith(_HALF_GRID)
        side_without = replace(side, plan=plan)
        yield Ablation(f"in the plan: {what}", None, side_without, counted=counted, regridded=regridded)


def _plans(plan: Sequence[Step]) -> Iterator[tuple[str, bool, tuple[Step, ...]]]:
    for at, step in enumerate(plan):
        before, after = tuple(plan[:at]), tuple(plan[at + 1 :])
        if len(plan) > 1 and not isinstance(step, Swap):
            yield _step_text(step), True, (*before, *after)
        if isinstance(step, For | WhileNonzero):
            yield f"all but one round of {_step_text(step)}", True, (*before, *_one_round(step), *after)
            for what, counted, inner in _plans(step.do):
                yield what, counted, (*before, replace(step, do=inner), *after)
        if isinstance(step, Launch):
            half = replace(step, grid=(f"ceil_div({step.grid[0]}, 2)", *step.grid[1:]))
            if step.grid[0] not in (1, "1"):
                yield f"{_HALF_GRID}{step.launch}", True, (*before, half, *after)
        if isinstance(step, Launch) and step.shared_bytes != 0:
            for share, bytes_ in (("", 0), ("half of ", f"ceil_div({step.shared_bytes}, 2)")):
                what = f"{share}the {step.shared_bytes} bytes of shared memory of {step.launch}"
                yield what, False, (*before, replace(step, shared_bytes=bytes_), *after)


def _step_text(step: Step) -> str:
    return _shortened(str(codec.to_data(step)))


def _one_round(step: For | WhileNonzero) -> tuple[Step, ...]:
    if isinstance(step, WhileNonzero):
        return step.do
    return (replace(step, to=f"({step.from_}) + ({step.step})"),)
