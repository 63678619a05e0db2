"""Rules for sides in Triton that change constants of the plan, or statements in place; text is written anew.

- triton-small-tiles, triton-one-row: a smaller constant, more programs. It must be a number in the grid, the
  extent of a `tl.arange`, and never divide or be compared: then other programs get the same elements.
- triton-plain-dot: `tl.dot` in single precision without tensor cores, where all buffers are floating-point.
- triton-strided-lanes: neighbouring lanes on elements that are 33 apart. One `tl.arange` and nothing that
  depends on order: 33 is odd, so `i * 33 % B` is a permutation for a power of two.
- triton-reload: a loaded value is loaded again (`volatile`) at each further use before the next store.
- triton-hints: no `tl.multiple_of` and the like, no hints to caches. triton-one-stage, triton-one-warp:
  `num_stages` 1 where a loop loads, `num_warps` 1.

Not covered: rules that make kernels of their own (`kcurate.deopt.rules.triton_values`).
"""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from kcurate.core import codec
from kcurate.deopt.rules.base import Given, NotApplicable
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
_HINTS = ("multiple_of", "max_contiguous", "max_constancy")
_HINT_WORDS = ("cache_modifier", "eviction_policy")

Functions = dict[str, ast.FunctionDef]


def rewritten(given: Given, module: ast.Module, side: Side | None = None) -> Side:
    """The side with another text."""
    return replace(side or given.side, code=ast.unparse(ast.fix_missing_locations(module)) + "\n")


def module_of(given: Given) -> tuple[ast.Module, Functions]:
    """The module to change, and the functions that the plan launches."""
    module = copy.deepcopy(given.module)
    launched = {one.launch for one in launches(given.side)}
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    return module, {name: node for name, node in functions.items() if name in launched}


def assigned(node: ast.AST, name: str) -> list[ast.stmt]:
    """The statements that give a name a value."""
    return [
        one
        for one in ast.walk(node)
        if isinstance(one, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For)
        and any(
            isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
            for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
            for each in ast.walk(target)
        )
    ]


def uses(node: ast.AST, name: str) -> Iterator[ast.Name]:
    """Where a name is read."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load):
            yield one


def _parents(node: ast.AST) -> dict[int, ast.AST]:
    return {id(child): one for one in ast.walk(node) for child in ast.iter_child_nodes(one)}


class _Swapped(ast.NodeTransformer):
    def __init__(self, nodes: Sequence[ast.AST], made: Callable[[ast.AST], ast.AST]) -> None:
        self._nodes, self._made = {id(one) for one in nodes}, made

    def visit(self, node: ast.AST) -> ast.AST:
        wanted = id(node) in self._nodes
        self.generic_visit(node)
        return self._made(node) if wanted else node


def swap(tree: ast.AST, nodes: Sequence[ast.AST], made: Callable[[ast.AST], ast.AST]) -> None:
    """Put what `made` makes of each of the nodes in its place."""
    _Swapped(nodes, made).visit(tree)


def _plan_alone(given: Given, change: Callable[[Launch], Launch], reason: str) -> Side | NotApplicable:
    plan = with_launches(given.side.plan, change)
    return NotApplicable(reason) if plan == given.side.plan else replace(given.side, plan=plan)


def one_warp(given: Given) -> Side | NotApplicable:
    """Run every program on one warp."""
    return _plan_alone(given, lambda one: replace(one, num_warps=1), "every launch has one warp")


def one_stage(given: Given) -> Side | NotApplicable:
    """Load nothing ahead in loops."""
    _, functions = module_of(given)
    looped = {
        name
        for name, node in functions.items()
        if any(isinstance(one, ast.For | ast.While) and list(calls(one, "load")) for one in ast.walk(node))
    }
    change = lambda one: replace(one, num_stages=1) if one.launch in looped else one  # noqa: E731
    return _plan_alone(given, change, "no loop loads anything, or it has one stage")


def _shrunk(given: Given, fits: Callable[[int], int | None], *, dots: bool) -> Side | NotApplicable:
    """Smaller values for constants that are numbers in the grid too."""
    _, functions = module_of(given)
    for launch in launches(given.side):
        node = functions.get(launch.launch)
        if node is None or (not dots and list(calls(node, "dot"))):
            continue
        for value in sorted({one for one in launch.constexprs.values() if type(one) is int}, reverse=True):
            new = fits(value)
            names = [name for name, one in launch.constexprs.items() if one == value]
            number = re.compile(rf"\b{value}\b")
            grid = tuple(number.sub(str(new), one) if isinstance(one, str) else one for one in launch.grid)
            seen = sum(len(number.findall(str(one))) for one in launch.grid)
            if (
                new is None
                or seen < len(names)
                or grid == launch.grid
                or not all(_is_tile(node, name) for name in names)
            ):
                continue
            smaller = replace(
                launch, grid=grid, constexprs={**launch.constexprs, **dict.fromkeys(names, new)}
            )
            rest = replace(smaller, grid=(), constexprs={})
            outside = _with(given.side.plan, launch, rest)
            data = json.dumps(codec.to_data(replace(given.side, code="", plan=outside)))
            if number.search(data):
                continue
            return replace(given.side, plan=_with(given.side.plan, launch, smaller))
    return NotApplicable("no constant of this size sets shapes, steps and the grid alone")


def _with(plan: tuple[Step, ...], launch: Launch, other: Launch) -> tuple[Step, ...]:
    return with_launches(plan, lambda one: other if one == launch else one)


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


def small_tiles(given: Given) -> Side | NotApplicable:
    """Tiles of a quarter of the extent."""
    return _shrunk(given, lambda one: max(SMALLEST, one // 4) if one >= LEAST_TILE else None, dots=True)


def one_row(given: Given) -> Side | NotApplicable:
    """One row a program."""
    return _shrunk(given, lambda one: 1 if 1 < one <= MOST_ROWS else None, dots=False)


def plain_dot(given: Given) -> Side | NotApplicable:
    """Multiply tiles in single precision."""
    module, functions = module_of(given)
    if given.problem is None or not _only_floats(given):
        return NotApplicable("the factors may be integers")
    found = [
        one for node in functions.values() for one in calls(node, "dot") if not word(one, "input_precision")
    ]
    for call in found:
        call.args[:2] = [cast(one, "float32") for one in call.args[:2]]
        call.keywords.append(ast.keyword("input_precision", ast.Constant("ieee")))
    return rewritten(given, module) if found else NotApplicable("no tl.dot whose precision is the default")


def _only_floats(given: Given) -> bool:
    """Whether every buffer has floating-point elements."""
    assert given.problem is not None
    every = {**given.problem.buffers, **given.side.buffers}
    return all(one.dtype in FLOATS for one in every.values())


def word(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((one.value for one in call.keywords if one.arg == name), None)


def cast(node: ast.expr, dtype: str) -> ast.expr:
    """A value as another type."""
    return ast.Call(ast.Attribute(node, "to", ast.Load()), [ast.parse(f"tl.{dtype}", mode="eval").body], [])


def strided_lanes(given: Given) -> Side | NotApplicable:
    """Spread neighbouring lanes over memory."""
    module, functions = module_of(given)
    changed = False
    for node in functions.values():
        ranges = list(calls(node, "arange"))
        named = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
        if len(ranges) != 1 or named & _ORDERED or calls_own(module, node) or ODD_STRIDE in _numbers(node):
            continue
        text = ast.unparse(ranges[0])
        spread = ast.parse(f"{text} * {ODD_STRIDE} % {ast.unparse(ranges[0].args[1])}", mode="eval").body
        swap(node, ranges, lambda _, to=spread: to)  # type: ignore[misc]
        changed = True
    return (
        rewritten(given, module) if changed else NotApplicable("no kernel with one tl.arange, free of order")
    )


def calls_own(module: ast.Module, node: ast.FunctionDef) -> bool:
    """Whether a function calls another one of the module."""
    names = {one.name for one in module.body if isinstance(one, ast.FunctionDef)}
    return any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(node))


def _numbers(node: ast.AST) -> set[object]:
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and type(one.value) is int}


def reload(given: Given) -> Side | NotApplicable:
    """Load a value again wherever it is used again."""
    module, functions = module_of(given)
    changed = False
    for node in functions.values():
        for body in _bodies(node):
            for at, one in enumerate(body):
                if _is_load(one) and _fixed(node, one) and not list(calls(node, "debug_barrier")):
                    assert isinstance(one, ast.Assign)
                    changed |= _load_again(node, body[at + 1 :], one)
    return (
        rewritten(given, module) if changed else NotApplicable("no loaded value is used twice before a store")
    )


def _bodies(node: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    yield node.body
    yield from (one.body for one in ast.walk(node) if isinstance(one, ast.For | ast.While))


def _is_load(one: ast.stmt) -> bool:
    single = isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name)
    return (
        single
        and isinstance(one, ast.Assign)
        and one.value in list(calls(one, "load"))
        and not word(one.value, "volatile")
    )


def _fixed(node: ast.FunctionDef, one: ast.stmt) -> bool:
    """Whether the name and what its address is made from never change after it is loaded."""
    assert isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    names = {each.id for each in ast.walk(one.value) if isinstance(each, ast.Name)}
    return len(assigned(node, one.targets[0].id)) == 1 and all(
        len(found := assigned(node, name)) <= 1 and not any(isinstance(each, ast.AugAssign) for each in found)
        for name in names
    )


def _load_again(node: ast.FunctionDef, after: Sequence[ast.stmt], one: ast.Assign) -> bool:
    assert isinstance(one.targets[0], ast.Name) and isinstance(one.value, ast.Call)
    again = copy.deepcopy(one.value)
    again.keywords.append(ast.keyword("volatile", ast.Constant(value=True)))
    seen = 0
    for statement in after:
        found = list(uses(statement, one.targets[0].id))
        nested = isinstance(statement, ast.For | ast.While | ast.If)
        writes = any(
            list(calls(statement, name)) for name in ("store", "atomic_add", "atomic_max", "atomic_min")
        )
        if nested and (writes or found):
            break
        for use in found:
            seen += 1
            if seen > 1:
                swap(statement, [use], lambda _: copy.deepcopy(again))
        if writes:
            break
    return seen > 1


def hints(given: Given) -> Side | NotApplicable:
    """Remove what only tells the compiler or the caches something."""
    module, _ = module_of(given)
    before = ast.dump(module)
    for name in _HINTS:
        found = list(calls(module, name))
        swap(module, found, lambda one: one.args[0] if isinstance(one, ast.Call) else one)
    for call in [*calls(module, "load"), *calls(module, "store")]:
        call.keywords = [one for one in call.keywords if one.arg not in _HINT_WORDS]
    if ast.dump(module) == before:
        return NotApplicable("no hints")
    return rewritten(given, module)
