"""Finds the allocation behind a pointer in host code, through assignments and callers.

Not covered: evaluating its size (`name_values`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kcurate.cuda_source.semantics import c_expressions as cexpr
from kcurate.cuda_source.semantics.c_expressions import Node
from kcurate.cuda_source.semantics.code_index import Call, Code, Function
from kcurate.cuda_source.semantics.pointer_paths import path_in
from kcurate.draft.algebra import from_node
from kcurate.draft.host import containers
from kcurate.draft.host.name_values import MAX_DEPTH, HostValues, Scope

ALLOCATIONS = ("cudaMalloc", "cudaMallocManaged", "cudaMallocAsync")
# The size in bytes as a tree, and the scope of its names.
Allocated = tuple[Node, Scope]


def filled_symbols(host: Code) -> frozenset[str]:
    """The symbols that host code copies to, or takes the address of."""
    calls = (call for name, symbol_calls in host.calls.items() if "Symbol" in name for call in symbol_calls)
    return frozenset(path_in(arg) for call in calls for arg in call.args)


def allocation(values: HostValues, text: str, scope: Scope, width: int, depth: int = 0) -> Allocated | None:
    """The size in bytes of the memory behind a pointer, as a tree; None if no allocation is found.

    `width` is the bytes of an element, for containers whose type does not tell.
    """
    name = path_in(text)
    for call in _calls_on(values.host, name, scope):
        call_scope = values.scope(call.at)
        node = values.resolve_text(call.args[1], call_scope)
        if node is not None:
            return node, call_scope
    count = values.elements(name, scope)
    if count is not None:
        inside = containers.type_of(values.host, name, scope.at if scope.function else None)
        size = values.sizeof(inside, scope) if inside else None
        return Node("*", (count, cexpr.number(size or width))), scope
    filled = _filled_in(values, name, scope)
    if filled is not None:
        return filled
    if depth > MAX_DEPTH or scope.function is None or not name.isidentifier():
        return None
    for setting in reversed(values.host.settings(name, scope.at)):
        maker = values.host.call_of(setting.node) if setting.node else None
        returned = _made_by(values, maker, values.scope(setting.at))
        if returned is not None:
            return returned
        source = path_in(setting.value)
        if source.replace(".", "").isidentifier() and source not in (name, "NULL", "nullptr", "new"):
            allocated = allocation(values, source, values.scope(setting.at), width, depth + 1)
            if allocated is not None:
                return allocated
    for at, argument in values.host.arguments_passed_for(name, scope.function):
        return allocation(values, argument, values.scope(at), width, depth + 1)
    return None


def _calls(host: Code) -> Iterator[Call]:
    for name in ALLOCATIONS:
        yield from (call for call in host.calls.get(name, ()) if len(call.args) > 1)


def _allocators(host: Code) -> list[tuple[Function, Call]]:
    """Host functions that allocate, each with its first allocation."""
    allocators: dict[int, tuple[Function, Call]] = {}
    for call in sorted(_calls(host), key=lambda call: call.at):
        function = host.function_at(call.at)
        if function is not None:
            allocators.setdefault(function.start, (function, call))
    return list(allocators.values())


def _made_by(values: HostValues, maker: Call | None, scope: Scope) -> Allocated | None:
    """`p = make<float>(n)`, where `make` allocates and returns memory."""
    for function, call in _allocators(values.host) if maker is not None else ():
        if maker is not None and function.name == maker.name:
            return _requested(values, function, call, maker, scope)
    return None


def _filled_in(values: HostValues, name: str, scope: Scope) -> Allocated | None:
    """`make(&p, n)`, where `make` allocates what its parameter points to."""
    for function, call in _allocators(values.host):
        names = [param for _, param in function.params]
        index = names.index(path_in(call.args[0])) if path_in(call.args[0]) in names else None
        for maker in values.host.calls.get(function.name, ()) if index is not None else ():
            near = scope.function is None or scope.function.body <= maker.at < scope.function.end
            if near and index is not None and path_in(",".join(maker.args[index : index + 1])) == name:
                return _requested(values, function, call, maker, values.scope(maker.at))
    return None


def _requested(
    values: HostValues, function: Function, call: Call, maker: Call, scope: Scope
) -> Allocated | None:
    """The size in bytes that an allocating function requests for one call's arguments."""
    bound: dict[str, str] = dict(zip(function.template, maker.template, strict=False))
    for (_, param), text in zip(function.params, maker.args, strict=False):
        node = values.resolve_text(text, scope)
        poly = from_node(node) if node is not None else None
        if poly is not None:
            bound[param] = poly.text()
    bound_values = HostValues(values.host, {**values.template, **bound}, values.defaults, values.loops)
    node = bound_values.resolve_text(call.args[1], Scope(function, call.at))
    return (node, scope) if node is not None else None


def _calls_on(host: Code, name: str, scope: Scope) -> Sequence[Call]:
    """Allocations of a variable: in the enclosing function, or anywhere for globals and members."""
    calls = [call for call in _calls(host) if path_in(call.args[0]) == name]
    function = scope.function
    near = [call for call in calls if function is None or function.body <= call.at < function.end]
    if near or function is None or any(param == name for _, param in function.params):
        return near
    local = host.type_of(name, None) is None and name.isidentifier()
    return [] if local else calls
