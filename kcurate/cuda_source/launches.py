"""Launch sites, and what the host code reveals about their arguments.

Launches are found as text (`name<args><<<...>>>(...)`), because a preceding macro call without a semicolon
hides them from the grammar; loops around them come from the tree. `macro_calls` gives those that macros hold.
Not covered: evaluating host expressions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kcurate.cuda_source.brackets import closing, split_arguments
from kcurate.cuda_source.text import blank_literals
from kcurate.records import Argument

_OPEN = re.compile(rb"<\s*<\s*<")
_CLOSE = re.compile(rb">\s*>\s*>")
_NAME_BEFORE = re.compile(rb"((?:(?:\b[A-Za-z_]\w*\s*)?::\s*)*)([A-Za-z_]\w*)\s*\Z")
_LOOPS = {"for_statement": "for", "while_statement": "while", "do_statement": "do"}
_CALL = re.compile(
    rb"\b(cudaMalloc(?:Managed|Async)?|cudaMemcpy(?:Async|ToSymbol(?:Async)?)?|cudaMemset(?:Async)?)"
    rb"\s*(?:<[^<>]*>\s*)?\("
)
_LITERAL = re.compile(rb"[-+]?(?:\d[\w.]*|\.\d[\w.]*)\Z")
_PLAIN = re.compile(rb"[A-Za-z_]\w*\Z")
_CAST = re.compile(rb"^\(\s*(?:const\s+)?(?:unsigned\s+|struct\s+)?\w+\s*(?:\*+\s*)?\)\s*")
WINDOW_BYTES = 20_000


@dataclass(frozen=True)
class Launch:
    """One launch in a unit's text; `qualified` is the kernel's name with its namespaces as written.

    `within` is the expansion of the macro call at `at` that holds the launch; empty: no macro does.
    """

    kernel: bytes
    qualified: bytes
    at: int
    template_args: tuple[str, ...]
    grid: str
    block: str
    shared_bytes: str | None
    stream: str | None
    arguments: tuple[Argument, ...]
    loops: tuple[str, ...]
    within: bytes = b""


def find_launches(text: bytes, tree: Any, calls: Iterable[tuple[int, bytes]] = ()) -> Iterator[Launch]:
    """Every launch in a unit, in order; then those in `calls`, macro calls expanded."""
    if _OPEN.search(text) is None:
        return
    bare = blank_literals(text)
    data = _allocations(bare), _directions(bare)
    for at, launch in _launches(bare, *data):
        yield replace(launch, at=at, loops=_loops(tree, at, bare))
    for at, expansion in calls:
        for _, launch in _launches(blank_literals(expansion), *data):
            yield replace(launch, at=at, loops=_loops(tree, at, bare), within=expansion)


def _launches(
    bare: bytes, allocations: Mapping[bytes, bytes], directions: Mapping[bytes, frozenset[str]]
) -> Iterator[tuple[int, Launch]]:
    for match in _OPEN.finditer(bare):
        close = _CLOSE.search(bare, match.end(), match.end() + WINDOW_BYTES)
        if close is None:
            continue
        head = _head(bare, match.start())
        start = close.end()
        while bare[start : start + 1].isspace():
            start += 1
        end = closing(bare, start) if bare[start : start + 1] == b"(" else None
        if head is None or end is None:
            continue
        configuration = [_shown(part) for part in split_arguments(bare[match.end() : close.start()])]
        if len(configuration) < 2:
            continue
        arguments = split_arguments(bare[start + 1 : end - 1])
        yield (
            match.start(),
            Launch(
                kernel=head[0].rpartition(b"::")[2],
                qualified=head[0],
                at=match.start(),
                template_args=head[1],
                grid=configuration[0],
                block=configuration[1],
                shared_bytes=configuration[2] if len(configuration) > 2 else None,
                stream=configuration[3] if len(configuration) > 3 else None,
                arguments=tuple(_argument(a, allocations, directions) for a in arguments),
                loops=(),
            ),
        )


def _shown(text: bytes) -> str:
    return b" ".join(text.split()).decode("utf-8", "replace")


def _head(bare: bytes, at: int) -> tuple[bytes, tuple[str, ...]] | None:
    """The kernel name with its namespaces, and the template arguments, before `<<<`."""
    before = bare[max(0, at - 400) : at].rstrip()
    arguments: tuple[str, ...] = ()
    if before.endswith(b">"):
        depth, position = 0, len(before)
        while position:
            position -= 1
            depth += {b">": 1, b"<": -1}.get(before[position : position + 1], 0)
            if depth == 0:
                break
        if depth:
            return None
        arguments = tuple(_shown(a) for a in split_arguments(before[position + 1 : -1], angles=True))
        before = before[:position]
    match = _NAME_BEFORE.search(before)
    return (b"".join(match[0].split()), arguments) if match else None


def _loops(tree: Any, at: int, bare: bytes) -> tuple[str, ...]:
    """The loops around a position, outermost first, each as written up to its body."""
    node = tree.root_node.descendant_for_byte_range(at, at + 1)
    found: list[str] = []
    while node is not None:
        if node.type in _LOOPS:
            body = node.child_by_field_name("body")
            if node.type == "do_statement":
                condition = node.child_by_field_name("condition")
                text = b"do while " + (bare[condition.start_byte : condition.end_byte] if condition else b"")
            else:
                text = bare[node.start_byte : body.start_byte if body is not None else node.end_byte]
            found.append(_shown(text))
        node = node.parent
    return tuple(reversed(found))


def _argument(
    text: bytes, allocations: Mapping[bytes, bytes], directions: Mapping[bytes, frozenset[str]]
) -> Argument:
    plain = text
    while match := _CAST.match(plain):
        plain = plain[match.end() :]
    base = re.match(rb"\(?\s*&?\s*([A-Za-z_]\w*(?:(?:\.|->)\w+|\[\w+\])*)", plain)
    key = base[1] if base else plain
    allocation = allocations.get(key)
    kinds = directions.get(key, frozenset())
    role = None
    if allocation is not None or kinds:
        role = {frozenset(): "scratch", frozenset(("in",)): "in", frozenset(("out",)): "out"}.get(
            kinds, "inout"
        )
    if _LITERAL.match(plain):
        kind = "literal"
    elif role is not None:
        kind = "buffer" if key == plain else "buffer_offset"
    else:
        kind = "name" if _PLAIN.match(plain) else "expression"
    return Argument(_shown(text), kind, role, _shown(allocation) if allocation else None)


def _target(text: bytes) -> bytes:
    """The variable behind casts, `&` and brackets: `(void**)&d.a` is `d.a`."""
    while match := _CAST.match(text):
        text = text[match.end() :]
    text = re.sub(rb"^\(\s*void\s*\*+\s*\)", b"", text).strip()
    while text.startswith((b"&", b"(", b"*")):
        text = text[1:].strip()
    match = re.match(rb"[A-Za-z_]\w*(?:(?:\.|->)\w+|\[\w+\])*", text)
    return match[0] if match else text


def runtime_calls(bare: bytes) -> Iterator[tuple[bytes, int, list[bytes]]]:
    """Every call that allocates, copies or fills memory: name, position and arguments, in order."""
    for match in _CALL.finditer(bare):
        end = closing(bare, match.end() - 1)
        if end is not None:
            yield match[1], match.start(), split_arguments(bare[match.end() : end - 1])


def _allocations(bare: bytes) -> dict[bytes, bytes]:
    return {
        _target(args[0]): args[1]
        for name, _, args in runtime_calls(bare)
        if name in (b"cudaMalloc", b"cudaMallocManaged") and len(args) >= 2
    }


def _directions(bare: bytes) -> dict[bytes, frozenset[str]]:
    """Per variable: `in` if the host copies to it, `out` if the host copies from it."""
    found: dict[bytes, set[str]] = defaultdict(set)
    for name, _, args in runtime_calls(bare):
        if name not in (b"cudaMemcpy", b"cudaMemcpyAsync") or len(args) < 4:
            continue
        if b"HostToDevice" in args[3]:
            found[_target(args[0])].add("in")
        elif b"DeviceToHost" in args[3]:
            found[_target(args[1])].add("out")
    return {name: frozenset(kinds) for name, kinds in found.items()}
