"""Rules for sides in Triton that add a kernel or change types, and the list of all rules for Triton.

- triton-unfused: a kernel becomes two. Its last statement must be its only store, of `u op v`, to a
  floating-point output that it does not read. The first kernel stores `u` in a scratch buffer; the second
  loads it and computes the rest. Statements that a kernel does not need are left out.
- triton-double: loads, casts and sums in double. Values that a loop carries must start as `tl.zeros` or
  `tl.full`.

Not covered: rules on constants and single statements (`kcurate.deopt.rules.triton_rules`).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import replace

from kcurate.deopt.rules import triton_rules
from kcurate.deopt.rules.base import Change, NotApplicable, Rule, Subject
from kcurate.deopt.rules.plans import launches
from kcurate.records import Buffer, Launch, Problem, Side
from kcurate.triton_source import calls

_WRITES = ("store", "atomic_add", "atomic_max", "atomic_min", "atomic_cas", "atomic_xchg")
_NO_DOUBLE = ("dot", "fdiv", "div_rn", "sqrt_rn", "float64", "bitcast", "view", "make_block_ptr")
_SUMS = ("zeros", "full")


def base_of(node: ast.FunctionDef, address: ast.expr) -> str | None:
    """The parameter at the start of an address, followed through names that are set once."""
    for _ in range(32):
        if isinstance(address, ast.BinOp) and isinstance(address.op, ast.Add):
            address = address.left
        elif isinstance(address, ast.Name):
            assignments = triton_rules.assigned(node, address.id)
            if not assignments:
                return address.id if address.id in {arg.arg for arg in node.args.args} else None
            if len(assignments) != 1 or not isinstance(assignments[0], ast.Assign):
                return None
            address = assignments[0].value
        else:
            return None
    return None


def _argument(node: ast.FunctionDef, launch: Launch, name: str) -> str | None:
    """The buffer that a launch passes for a parameter."""
    fixed = {*launch.constexprs, *launch.nulls}
    passed = [arg.arg for arg in node.args.args if arg.arg not in fixed]
    loaded = (
        launch.args[passed.index(name)] if name in passed and passed.index(name) < len(launch.args) else None
    )
    return loaded if isinstance(loaded, str) else None


def unfused(subject: Subject) -> Side | NotApplicable:
    """Compute the last operation in a separate kernel."""
    if subject.problem is None:
        return NotApplicable("no problem is known")
    module, functions = triton_rules.module_of(subject)
    for launch in subject.side.plan:
        if not isinstance(launch, Launch) or launch.launch not in functions:
            continue
        node = functions[launch.launch]
        alone = [launch.launch for launch in launches(subject.side)].count(node.name) == 1
        halves = _split(node, launch, subject.problem, subject.side) if alone else None
        if halves is None:
            continue
        first, second, launched, buffer = halves
        at = module.body.index(node)
        module.body[at : at + 1] = [first, second]
        position = subject.side.plan.index(launch)
        plan = (*subject.side.plan[:position], *launched, *subject.side.plan[position + 1 :])
        buffers = {**subject.side.buffers, buffer[0]: buffer[1]}
        return triton_rules.rewritten(subject, module, replace(subject.side, plan=plan, buffers=buffers))
    return NotApplicable("no kernel ends in its only store, of an operation on two values")


def _split(
    node: ast.FunctionDef, launch: Launch, problem: Problem, side: Side
) -> tuple[ast.FunctionDef, ast.FunctionDef, tuple[Launch, Launch], tuple[str, Buffer]] | None:
    last = node.body[-1]
    store = last.value if isinstance(last, ast.Expr) else None
    if not isinstance(store, ast.Call) or store not in list(calls(last, "store")):
        return None
    out = _leftmost(store.args[0])
    target = _argument(node, launch, out) if out else None
    buffer = problem.buffers.get(target or "")
    value = _operation(node, store)
    if (
        buffer is None
        or target is None
        or out is None
        or value is None
        or buffer.dtype not in triton_rules.FLOATS
    ):
        return None
    clean = (
        sum(len(list(calls(node, name))) for name in _WRITES) == 1
        and len(list(triton_rules.uses(node, out))) == 1
    )
    between = f"{target}_between"
    names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    used_names = {*names, *problem.buffers, *side.buffers, *problem.scalars}
    if not clean or target in side.views or between in used_names or launch.args.count(target) != 1:
        return None
    first, second = copy.deepcopy(node), copy.deepcopy(node)
    first.name, second.name = f"{node.name}_first", f"{node.name}_rest"
    first.body[-1] = _stored(store, value.left)
    again = ast.Call(
        ast.parse("tl.load", mode="eval").body, [_renamed(store.args[0], out, between)], _mask(store)
    )
    remaining = ast.BinOp(again, value.op, value.right)
    second.body[-1] = _stored(store, remaining)
    params = [arg.arg for arg in second.args.args]
    second.args.args.insert(params.index(out) + 1, ast.arg(between))
    for function in (first, second):
        _without_unused(function)
    where = launch.args.index(target)
    launched = (
        replace(launch, launch=first.name, args=(*launch.args[:where], between, *launch.args[where + 1 :])),
        replace(
            launch, launch=second.name, args=(*launch.args[: where + 1], between, *launch.args[where + 1 :])
        ),
    )
    return first, second, launched, (between, Buffer("float32", buffer.shape, role="scratch"))


def _leftmost(address: ast.expr) -> str | None:
    while isinstance(address, ast.BinOp) and isinstance(address.op, ast.Add):
        address = address.left
    return address.id if isinstance(address, ast.Name) else None


def _operation(node: ast.FunctionDef, store: ast.Call) -> ast.BinOp | None:
    """The last operation of the stored value, if its left operand is not just a constant."""
    value = store.args[1]
    for _ in range(3):
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "to":
            value = value.func.value
        if isinstance(value, ast.Name):
            assignments = triton_rules.assigned(node, value.id)
            if (
                len(assignments) != 1
                or not isinstance(assignments[0], ast.Assign)
                or assignments[0] not in node.body
            ):
                return None
            value = assignments[0].value
    arithmetic = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub | ast.Mult | ast.Div)
    if not arithmetic or not isinstance(value, ast.BinOp) or isinstance(value.left, ast.Constant):
        return None
    return value


def _stored(store: ast.Call, value: ast.expr) -> ast.Expr:
    keywords = copy.deepcopy(store.keywords)
    return ast.Expr(ast.Call(store.func, [copy.deepcopy(store.args[0]), value, *store.args[2:]], keywords))


def _mask(store: ast.Call) -> list[ast.keyword]:
    mask = triton_rules.word(store, "mask") or (store.args[2] if len(store.args) > 2 else None)
    return [ast.keyword("mask", copy.deepcopy(mask))] if mask is not None else []


def _renamed(address: ast.expr, name: str, new: str) -> ast.expr:
    address_again = copy.deepcopy(address)
    for use in triton_rules.uses(address_again, name):
        use.id = new
    return address_again


def _without_unused(node: ast.FunctionDef) -> None:
    """Remove assignments, and loops with assignments, whose names are not used elsewhere."""
    while True:
        for statement in node.body:
            if isinstance(statement, ast.Assign | ast.AugAssign | ast.For):
                inside = {
                    other.id
                    for other in ast.walk(statement)
                    if isinstance(other, ast.Name) and isinstance(other.ctx, ast.Store)
                }
                others = [
                    other for other in node.body if other is not statement and not _starts(other, inside)
                ]
                if not any(list(triton_rules.uses(other, name)) for other in others for name in inside):
                    node.body.remove(statement)
                    break
        else:
            return


def _starts(statement: ast.stmt, names: set[str]) -> bool:
    """Whether a statement only updates one of the names."""
    return (
        isinstance(statement, ast.AugAssign)
        and isinstance(statement.target, ast.Name)
        and statement.target.id in names
    )


def double(subject: Subject) -> Side | NotApplicable:
    """Load and compute in double."""
    module, functions = triton_rules.module_of(subject)
    if subject.problem is None:
        return NotApplicable("no problem is known")
    every = {**subject.problem.buffers, **subject.side.buffers}
    changed = False
    for launch in launches(subject.side):
        node = functions.pop(launch.launch, None)
        if node is None or triton_rules.calls_module_function(module, node) or not _may_widen(node):
            continue
        loads = list(calls(node, "load"))
        bases = [base_of(node, load.args[0]) for load in loads]
        sources = [every.get(_argument(node, launch, base) or "") if base else None for base in bases]
        if None in sources:
            continue
        wide = [
            load
            for load, source in zip(loads, sources, strict=True)
            if source and source.dtype in triton_rules.FLOATS
        ]
        if wide:
            triton_rules.swap(node, wide, _as_double)
            triton_rules.swap(node, list(_singles(node)), lambda _: ast.parse("tl.float64", mode="eval").body)
            changed = True
    return (
        triton_rules.rewritten(subject, module)
        if changed
        else NotApplicable("no kernel whose floating-point values are known")
    )


def _as_double(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.expr)
    return triton_rules.cast(node, "float64")


def _singles(node: ast.AST) -> Iterator[ast.AST]:
    yield from (
        attribute
        for attribute in ast.walk(node)
        if isinstance(attribute, ast.Attribute) and attribute.attr == "float32"
    )


def _may_widen(node: ast.FunctionDef) -> bool:
    if triton_rules.member_names(node) & set(_NO_DOUBLE):
        return False
    loops = [loop for loop in ast.walk(node) if isinstance(loop, ast.For | ast.While)]
    inside = {id(node) for loop in loops for statement in loop.body for node in ast.walk(statement)}
    for name in {name_node.id for name_node in ast.walk(node) if isinstance(name_node, ast.Name)}:
        assignments = triton_rules.assigned(node, name)
        before = [
            assignment
            for assignment in assignments
            if id(assignment) not in inside and isinstance(assignment, ast.Assign)
        ]
        if len(before) < len(assignments) and not all(
            _is_sum(assignment) for assignment in before if isinstance(assignment, ast.Assign)
        ):
            return False
    return True


def _is_sum(assignment: ast.Assign) -> bool:
    return isinstance(assignment.value, ast.Call) and any(
        assignment.value in list(calls(assignment, name)) for name in _SUMS
    )


def _rule(name: str, technique: str, removes: str, change: Change) -> Rule:
    return Rule(f"triton-{name}", technique, removes, change, "triton")


RULES: tuple[Rule, ...] = (
    _rule("unfused", "kernel-fusion", "the last operation in the same kernel", unfused),
    _rule("small-tiles", "register-blocking", "large tiles", triton_rules.small_tiles),
    _rule("one-row", "thread-coarsening", "several rows a program", triton_rules.one_row),
    _rule("plain-dot", "tensor-cores", "tensor cores", triton_rules.plain_dot),
    _rule(
        "strided-lanes",
        "coalesced-access",
        "neighbouring lanes on neighbouring elements",
        triton_rules.strided_lanes,
    ),
    _rule("double", "strength-reduction", "arithmetic in single precision", double),
    _rule("one-stage", "double-buffering", "loads ahead in loops", triton_rules.one_stage),
    _rule("one-warp", "occupancy", "several warps a program", triton_rules.one_warp),
)
