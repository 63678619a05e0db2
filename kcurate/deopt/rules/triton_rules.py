"""Rules for sides in Triton that change constants of the plan, or single statements.

- triton-small-tiles, triton-one-row: a smaller constant and more programs. The constant must occur as a
  number in the grid and as the extent of a `tl.arange`, and must not divide or be compared; then more
  programs process the same elements.
- triton-plain-dot: `tl.dot` in single precision without tensor cores, if all buffers are floating-point.
- triton-strided-lanes: neighbouring lanes process elements that are 33 apart. Required: a single `tl.arange`,
  and nothing that depends on order. Since 33 is odd, `i * 33 % B` is a permutation for every power of two B.
- triton-one-stage: `num_stages` is 1 if a loop loads. triton-one-warp: `num_warps` is 1.

Not covered: rules that need an additional kernel or other types (`kcurate.deopt.rules.triton_values`).
"""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from kcurate.core import codec
from kcurate.deopt.rules.base import NotApplicable, Subject
from kcurate.deopt.rules.plans import launches, with_launches
from kcurate.records import Launch, Side, Step
from kcurate.triton_source import calls

SMALLEST, LEAST_TILE, MOST_ROWS = 16, 64, 32
ODD_STRIDE = 33
FLOATS = ("float16", "bfloat16", "float32")
_ORDERED = frozenset(
    """cumsum cumprod associative_scan sort argmax argmin flip gather reshape view dot trans permute split
    join interleave topk ravel cat rand randn randint make_block_ptr""".split()  # noqa: SIM905
)

Functions = dict[str, ast.FunctionDef]


def rewritten(subject: Subject, module: ast.Module, side: Side | None = None) -> Side:
    """The side with the text of a changed module."""
    return replace(side or subject.side, code=ast.unparse(ast.fix_missing_locations(module)) + "\n")


def module_of(subject: Subject) -> tuple[ast.Module, Functions]:
    """A copy of the module to change, and its functions that the plan launches."""
    module = copy.deepcopy(subject.module)
    launched = {launch.launch for launch in launches(subject.side)}
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    return module, {name: node for name, node in functions.items() if name in launched}


def assigned(node: ast.AST, name: str) -> list[ast.stmt]:
    """The statements that assign to a name."""
    return [
        statement
        for statement in ast.walk(node)
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For)
        and any(
            isinstance(name_node, ast.Name) and name_node.id == name and isinstance(name_node.ctx, ast.Store)
            for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
            for name_node in ast.walk(target)
        )
    ]


def uses(node: ast.AST, name: str) -> Iterator[ast.Name]:
    """The places where a name is read."""
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and child.id == name and isinstance(child.ctx, ast.Load):
            yield child


def _parents(node: ast.AST) -> dict[int, ast.AST]:
    return {id(child): parent for parent in ast.walk(node) for child in ast.iter_child_nodes(parent)}


class _Swapped(ast.NodeTransformer):
    def __init__(self, nodes: Sequence[ast.AST], replacement: Callable[[ast.AST], ast.AST]) -> None:
        self._nodes, self._made = {id(node) for node in nodes}, replacement

    def visit(self, node: ast.AST) -> ast.AST:
        wanted = id(node) in self._nodes
        self.generic_visit(node)
        return self._made(node) if wanted else node


def swap(tree: ast.AST, nodes: Sequence[ast.AST], replacement: Callable[[ast.AST], ast.AST]) -> None:
    """Replace each of the nodes by the result of `replacement`."""
    _Swapped(nodes, replacement).visit(tree)


def _plan_alone(subject: Subject, change: Callable[[Launch], Launch], reason: str) -> Side | NotApplicable:
    plan = with_launches(subject.side.plan, change)
    return NotApplicable(reason) if plan == subject.side.plan else replace(subject.side, plan=plan)


def one_warp(subject: Subject) -> Side | NotApplicable:
    """Run every program on one warp."""
    return _plan_alone(subject, lambda launch: replace(launch, num_warps=1), "every launch has one warp")


def one_stage(subject: Subject) -> Side | NotApplicable:
    """Turn off software pipelining of loads in loops."""
    _, functions = module_of(subject)
    looped = {
        name
        for name, node in functions.items()
        if any(
            isinstance(child, ast.For | ast.While) and list(calls(child, "load")) for child in ast.walk(node)
        )
    }
    change = lambda launch: replace(launch, num_stages=1) if launch.launch in looped else launch  # noqa: E731
    return _plan_alone(subject, change, "no loop loads anything, or it has one stage")


def _shrunk(subject: Subject, fits: Callable[[int], int | None], *, dots: bool) -> Side | NotApplicable:
    """Make a tile constant smaller, and the grid accordingly larger."""
    _, functions = module_of(subject)
    for launch in launches(subject.side):
        node = functions.get(launch.launch)
        if node is None or (not dots and list(calls(node, "dot"))):
            continue
        for value in sorted(
            {constant for constant in launch.constexprs.values() if type(constant) is int}, reverse=True
        ):
            new = fits(value)
            names = [name for name, value_of in launch.constexprs.items() if value_of == value]
            number = re.compile(rf"\b{value}\b")
            grid = tuple(
                number.sub(str(new), extent) if isinstance(extent, str) else extent for extent in launch.grid
            )
            occurrences = sum(len(number.findall(str(extent))) for extent in launch.grid)
            if (
                new is None
                or occurrences < len(names)
                or grid == launch.grid
                or not all(_is_tile(node, name) for name in names)
            ):
                continue
            smaller = replace(
                launch, grid=grid, constexprs={**launch.constexprs, **dict.fromkeys(names, new)}
            )
            bare = replace(smaller, grid=(), constexprs={})
            outside = _with(subject.side.plan, launch, bare)
            data = json.dumps(codec.to_data(replace(subject.side, code="", plan=outside)))
            if number.search(data):
                continue
            return replace(subject.side, plan=_with(subject.side.plan, launch, smaller))
    return NotApplicable("no constant of this size sets shapes, steps and the grid alone")


def _with(plan: tuple[Step, ...], launch: Launch, other: Launch) -> tuple[Step, ...]:
    return with_launches(plan, lambda step: other if step == launch else step)


def _is_tile(node: ast.FunctionDef, name: str) -> bool:
    """Whether a constant is the extent of a `tl.arange`, and never divides or is compared."""
    parents = _parents(node)
    ranges = False
    for use in uses(node, name):
        above = parents[id(use)]
        if isinstance(above, ast.Compare) or (
            isinstance(above, ast.BinOp) and isinstance(above.op, ast.FloorDiv | ast.Mod | ast.Div)
        ):
            return False
        ranges |= isinstance(above, ast.Call) and above in calls(node, "arange")
    return ranges


def small_tiles(subject: Subject) -> Side | NotApplicable:
    """Use tiles of a quarter of the extent."""
    return _shrunk(
        subject, lambda extent: max(SMALLEST, extent // 4) if extent >= LEAST_TILE else None, dots=True
    )


def one_row(subject: Subject) -> Side | NotApplicable:
    """Process one row per program."""
    return _shrunk(subject, lambda rows: 1 if 1 < rows <= MOST_ROWS else None, dots=False)


def plain_dot(subject: Subject) -> Side | NotApplicable:
    """Multiply tiles in single precision."""
    module, functions = module_of(subject)
    if subject.problem is None or not _only_floats(subject):
        return NotApplicable("the factors may be integers")
    dots = [
        call
        for node in functions.values()
        for call in calls(node, "dot")
        if not word(call, "input_precision")
    ]
    for call in dots:
        call.args[:2] = [cast(factor, "float32") for factor in call.args[:2]]
        call.keywords.append(ast.keyword("input_precision", ast.Constant("ieee")))
    return rewritten(subject, module) if dots else NotApplicable("no tl.dot whose precision is the default")


def _only_floats(subject: Subject) -> bool:
    """Whether every buffer has floating-point elements."""
    assert subject.problem is not None
    every = {**subject.problem.buffers, **subject.side.buffers}
    return all(buffer.dtype in FLOATS for buffer in every.values())


def word(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def cast(node: ast.expr, dtype: str) -> ast.expr:
    """A value converted to another type."""
    return ast.Call(ast.Attribute(node, "to", ast.Load()), [ast.parse(f"tl.{dtype}", mode="eval").body], [])


def strided_lanes(subject: Subject) -> Side | NotApplicable:
    """Map neighbouring lanes to distant elements."""
    module, functions = module_of(subject)
    changed = False
    for node in functions.values():
        ranges = list(calls(node, "arange"))
        if (
            len(ranges) != 1
            or member_names(node) & _ORDERED
            or calls_module_function(module, node)
            or ODD_STRIDE in _numbers(node)
        ):
            continue
        text = ast.unparse(ranges[0])
        spread = ast.parse(f"{text} * {ODD_STRIDE} % {ast.unparse(ranges[0].args[1])}", mode="eval").body
        swap(node, ranges, lambda _, to=spread: to)  # type: ignore[misc]
        changed = True
    refusal = NotApplicable("no kernel with one tl.arange, free of order")
    return rewritten(subject, module) if changed else refusal


def calls_module_function(module: ast.Module, node: ast.FunctionDef) -> bool:
    """Whether a function calls another function of the module."""
    names = {statement.name for statement in module.body if isinstance(statement, ast.FunctionDef)}
    return any(isinstance(child, ast.Name) and child.id in names for child in ast.walk(node))


def member_names(node: ast.AST) -> set[str]:
    """The names of all members in a tree, such as `load` of `tl.load`."""
    return {attribute.attr for attribute in ast.walk(node) if isinstance(attribute, ast.Attribute)}


def _numbers(node: ast.AST) -> set[object]:
    return {
        constant.value
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant) and type(constant.value) is int
    }
