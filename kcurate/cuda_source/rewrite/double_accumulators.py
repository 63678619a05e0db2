"""Rewrites device code so that sums in `float` variables are accumulated in `double`.

Local variables, arrays, shared arrays and by-value parameters that a function accumulates into become
`double`; buffers, kernel parameters and everything else keep their types, so the plan stays the same. Not
covered: sums in `float4` and other vector types, in template parameters, in macros, in buffers and by
atomics. The result may fail to compile, or compute something else (code that inspects a float's bits);
`kcurate.judge.reference_runs` compares it with the original.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcurate.cuda_source.parse.items import tree_of
from kcurate.cuda_source.parse.syntax_tree import Declared, Function, Node, Tree, ancestors
from kcurate.cuda_source.rewrite.edits import Edit, edited

FUSED = (b"fmaf", b"__fmaf_rn", b"fma")
ADDING = (b"+=", b"-=", b"*=")
LOOPS = ("for_statement", "while_statement", "do_statement")
# A variable by the function that declares it and by name.
Variable = tuple[bytes, bytes]


def wider_accumulation(code: bytes) -> bytes | None:
    """The code with `float` accumulators as `double`; None if it has none, or also sums floats in buffers."""
    tree = tree_of(code)
    functions = {function.name: function for function in tree.functions()}
    known = {
        (function.name, param.name): param
        for function in functions.values()
        for param in (*function.params, *tree.declared(function.body))
    }
    accumulators: set[Variable] = set()
    for function in functions.values():
        for name in _accumulated(tree, function.body):
            variable = known.get((function.name, name))
            if variable is None or variable.type != b"float":
                continue
            if not (function.kernel and variable.stars):
                accumulators.add((function.name, name))
    if any(function.kernel and _adds_in_buffers(tree, function) for function in functions.values()):
        return None
    _spread(tree, functions, known, accumulators)
    chosen = {key for key in accumulators if _can_change(tree, functions[key[0]], known[key])}
    if not chosen:
        return None
    edits = {_widened(known[key]) for key in chosen}
    for function in functions.values():
        edits |= set(_fused(tree, function, {name for owner, name in chosen if owner == function.name}))
    return edited(code, edits)


def _accumulated(tree: Tree, body: Node) -> Iterator[bytes]:
    """The names whose value, or whose elements, an assignment computes from their previous value."""
    for node in tree.nodes("assignment_expression", within=body):
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        name = _base(tree, left)
        if name is None or right is None or operator is None:
            continue
        if tree.text(operator) in ADDING or any(True for _ in tree.uses(name, right)):
            yield name


def _base(tree: Tree, node: Node | None) -> bytes | None:
    """The variable behind an expression such as `a`, `a[i][j]`, `*a`, `&a[i]` or `(a)`."""
    while node is not None and node.type != "identifier":
        inner = node.child_by_field_name("argument")
        if node.type == "parenthesized_expression":
            inner = node.named_children[0] if node.named_children else None
        elif node.type not in ("subscript_expression", "pointer_expression"):
            return None
        node = inner
    return None if node is None else tree.text(node)


def _adds_in_buffers(tree: Tree, function: Function) -> bool:
    """Whether a kernel adds to a float buffer repeatedly: by atomics, or with `+=` in a loop."""
    floats = {param.name for param in function.params if param.type == b"float" and param.stars}
    for _, _, arguments in tree.calls(b"atomicAdd", within=function.body):
        if arguments and any(
            tree.text(use) in floats for use in tree.nodes("identifier", within=arguments[0])
        ):
            return True
    return any(
        _base(tree, node.child_by_field_name("left")) in floats
        and tree.text(node.child_by_field_name("operator")) in ADDING
        and any(outer.type in LOOPS for outer in ancestors(node))
        for node in tree.nodes("assignment_expression", within=function.body)
    )


def _spread(
    tree: Tree, functions: dict[bytes, Function], known: dict[Variable, Declared], accumulators: set[Variable]
) -> None:
    """Add the variables that are passed by pointer or reference, since both ends must have one type."""
    links: list[tuple[Variable, Variable]] = []
    for function in functions.values():
        for _, callee, arguments in tree.calls(*functions, within=function.body):
            for param, argument in zip(functions[callee].params, arguments, strict=False):
                name = _base(tree, argument)
                if name is not None and (param.stars or param.reference or param.sizes):
                    links.append(((function.name, name), (callee, param.name)))
    before = -1
    while before != len(accumulators):
        before = len(accumulators)
        for ends in links:
            if accumulators & set(ends) and all(end in known and known[end].type == b"float" for end in ends):
                accumulators |= set(ends)


def _can_change(tree: Tree, function: Function, variable: Declared) -> bool:
    """Whether a variable may become `double`: the function never accesses it through another type."""
    if function.kernel and any(variable is param for param in function.params):
        return False
    if {b"extern", b"volatile"} & variable.qualifiers:
        return False
    return not any(
        _is_reinterpreted(tree, parent)
        for use in tree.uses(variable.name, function.body)
        for parent in ancestors(use)
    )


def _is_reinterpreted(tree: Tree, node: Node) -> bool:
    """Whether a node is a cast to a pointer."""
    if node.type == "cast_expression":
        return b"*" in tree.text(node.child_by_field_name("type"))
    return node.type == "call_expression" and tree.text(node).startswith(b"reinterpret_cast")


def _widened(variable: Declared) -> Edit:
    base = variable.declaration.child_by_field_name("type")
    return Edit(base.start_byte, base.end_byte, b"double")


def _fused(tree: Tree, function: Function, names: set[bytes]) -> Iterator[Edit]:
    """The fused multiply-adds onto a widened variable, in double."""
    for call, _, arguments in tree.calls(*FUSED, within=function.body):
        if any(tree.text(use) in names for use in tree.nodes("identifier", within=call)):
            callee = call.child_by_field_name("function")
            yield Edit(callee.start_byte, callee.end_byte, b"fma")
            for argument in arguments:
                yield Edit(argument.start_byte, argument.start_byte, b"(double)(")
                yield Edit(argument.end_byte, argument.end_byte, b")")
