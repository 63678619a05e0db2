"""Finds the allocation behind a pointer in host code, through assignments and callers.

Not covered: evaluating its size (`meaning`).
"""

from __future__ import annotations

import re

from kcurate.draft import cexpr
from kcurate.draft.algebra import from_node
from kcurate.draft.cexpr import Node
from kcurate.draft.host import Function, Host, RuntimeCall, split, target
from kcurate.draft.meaning import MAX_DEPTH, Meaning, Scope

ALLOCATIONS = ("cudaMalloc", "cudaMallocManaged", "cudaMallocAsync")


def allocation(meaning: Meaning, text: str, scope: Scope, depth: int = 0) -> tuple[Node, Scope] | None:
    """The size in bytes of the memory behind a pointer, as a tree; None if no allocation is found."""
    name = target(text)
    for call in calls_on(meaning.host, name, scope, ALLOCATIONS):
        node = meaning.resolve_text(call.args[1], meaning.scope(call.at)) if len(call.args) > 1 else None
        if node is not None:
            return node, meaning.scope(call.at)
    vector = meaning.host.vector_size(name, scope.function)
    if vector is not None:
        there = Scope(scope.function, vector[2])
        size, count = meaning.sizeof(vector[0], there), meaning.resolve_text(vector[1], there)
        if size is not None and count is not None:
            return Node("*", (count, cexpr.number(size))), there
    filled = _filled_in(meaning, name, scope)
    if filled is not None:
        return filled
    if depth > MAX_DEPTH or scope.function is None or not re.fullmatch(r"\w+", name):
        return None
    for definition in reversed(meaning.host.definitions(name, scope.function)):
        made = _made_by(meaning, definition.value, Scope(scope.function, definition.at))
        if made is not None:
            return made
        source = target(definition.value)
        if re.fullmatch(r"[A-Za-z_][\w.]*", source) and source not in (name, "NULL", "nullptr", "new"):
            found = allocation(meaning, source, Scope(scope.function, definition.at), depth + 1)
            if found is not None:
                return found
    for at, argument in meaning.host.given(name, scope.function):
        return allocation(meaning, argument, meaning.scope(at), depth + 1)
    return None


def _allocators(host: Host) -> list[tuple[Function, RuntimeCall]]:
    """Host functions that allocate, each with its first allocation."""
    found = []
    for function in host.functions:
        for call in host.runtime_calls:
            if call.name in ALLOCATIONS and function.body <= call.at < function.end and len(call.args) > 1:
                found.append((function, call))
                break
    return found


def _made_by(meaning: Meaning, value: str, scope: Scope) -> tuple[Node, Scope] | None:
    """`p = make<float>(n)`, where `make` allocates and returns memory."""
    match = re.match(
        r"\s*(?:\([^()]*\*\s*\)\s*)?([A-Za-z_]\w*)\s*(?:<([^<>;]*)>)?\s*\((.*)\)\s*\Z", value, re.DOTALL
    )
    if match is None:
        return None
    for function, call in _allocators(meaning.host):
        if function.name == match[1]:
            return _inside(meaning, function, call, split(match[3]), match[2] or "", scope)
    return None


def _filled_in(meaning: Meaning, name: str, scope: Scope) -> tuple[Node, Scope] | None:
    """`make(&p, n)`, where `make` allocates what its parameter points to."""
    low, high = meaning.host.span(scope.function)
    for function, call in _allocators(meaning.host):
        names = [own for _, own in function.params]
        if target(call.args[0]) not in names:
            continue
        index = names.index(target(call.args[0]))
        for at, arguments in meaning.host.calls(function.name):
            if index < len(arguments) and target(arguments[index]) == name and low <= at < high:
                return _inside(meaning, function, call, list(arguments), "", meaning.scope(at))
    return None


def _inside(
    meaning: Meaning, function: Function, call: RuntimeCall, given: list[str], types: str, scope: Scope
) -> tuple[Node, Scope] | None:
    """The size in bytes that an allocating function requests for one call's arguments."""
    bound: dict[str, str] = {}
    for (_, own), text in zip(function.params, given, strict=False):
        node = meaning.resolve_text(text, scope)
        poly = from_node(node) if node is not None else None
        if poly is not None:
            bound[own] = poly.text()
    head = meaning.host.text[function.start : function.body]
    names = re.findall(r"\b(?:typename|class)\s+(\w+)", head)
    bound.update(zip(names, (one.strip() for one in types.split(",")), strict=False) if types else {})
    there = Meaning(meaning.host, {**meaning.template, **bound}, meaning.defaults, meaning.loops)
    node = there.resolve_text(call.args[1], Scope(function, call.at))
    return (node, scope) if node is not None else None


def calls_on(host: Host, name: str, scope: Scope, kinds: tuple[str, ...]) -> list[RuntimeCall]:
    """Runtime calls on a variable: in the enclosing function, or anywhere for globals and members."""
    found = [
        call
        for call in host.runtime_calls
        if call.name in kinds and call.args and target(call.args[0]) == name
    ]
    low, high = host.span(scope.function)
    near = [call for call in found if low <= call.at < high]
    function = scope.function
    owned = function is not None and any(own == name for _, own in function.params)
    if near or owned:
        return near
    local = function is not None and host.declared_type(name, None) is None and re.fullmatch(r"\w+", name)
    return [] if local else found
