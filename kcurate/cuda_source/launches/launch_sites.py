"""Launch sites, and what the host code reveals about their arguments.

Launches are found in the text (`name<args><<<...>>>(...)`), because a preceding macro call without a
semicolon hides them from the grammar; the loops around them come from the tree. `macro_calls` finds launches
inside macros, `indirect_launches` those in other forms. Not covered: evaluating host expressions.
"""

from __future__ import annotations

import re
import string
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kcurate.cuda_source.launches.indirect_launches import Host, LaunchText, plain, runtime_launches
from kcurate.cuda_source.parse.items import Parsed
from kcurate.cuda_source.parse.syntax_tree import Node
from kcurate.cuda_source.preprocess.macros import MARK
from kcurate.cuda_source.text.blanking import blank_literals
from kcurate.cuda_source.text.brackets import closing, split_arguments
from kcurate.records import Argument, LaunchSite

_OPEN = re.compile(rb"<\s*<\s*<")
_HEAD = re.compile(MARK.pattern + rb"([^;{}]*)")
_CALLED = re.compile(rb"(\w+)\s*\(")
_CLOSE = re.compile(rb">\s*>\s*>\s*")
_NAME_BEFORE = re.compile(rb"((?:(?:\b[A-Za-z_]\w*\s*)?::\s*)*)([A-Za-z_]\w*)\s*\Z")
# The characters of such a name.
_NAME_BYTES = (string.ascii_letters + string.digits + string.whitespace + "_:").encode()
_LOOPS = frozenset(("for_statement", "while_statement", "do_statement"))
_CALL = re.compile(
    rb"(cuda(?<!\wcuda)(?:Malloc(?:Managed|Async)?|Memcpy(?:Async|ToSymbol(?:Async)?)?|Memset(?:Async)?))"
    rb"\s*(?:<[^<>]*>\s*)?\("
)
_LITERAL = re.compile(rb"[-+]?(?:\d[\w.]*|\.\d[\w.]*)\Z")
_PLAIN = re.compile(rb"[A-Za-z_]\w*\Z")
_CAST = re.compile(rb"^\(\s*(?:const\s+)?(?:unsigned\s+|struct\s+)?\w+\s*(?:\*+\s*)?\)\s*")
# A launch configuration is shorter, and so is the code before a macro call that its expansion refers to.
WINDOW_BYTES = 20_000


@dataclass(frozen=True)
class Launch:
    """One launch in a unit's text; `qualified` is the kernel's name with its namespaces as written.

    `within` is text that is not in the unit at `at`: the expansion of the macro call there, or the launch
    that the wrapper called there makes. Empty: the launch itself is there.
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

    def site(self, path: str, line: int) -> LaunchSite:
        """The launch as a record, located in a line of a file."""
        return LaunchSite(
            path,
            line,
            self.grid,
            self.block,
            self.shared_bytes,
            self.stream,
            self.template_args,
            self.arguments,
            self.loops,
        )


def find_launches(parsed: Parsed, calls: Iterable[tuple[int, bytes]] = ()) -> Iterator[Launch]:
    """Every launch in a unit, in order; then those in `calls`: (offset, expansion) of macro calls."""
    if b"cudaLaunch" not in parsed.text and _OPEN.search(parsed.text) is None:
        return
    bare, tree = parsed.bare, parsed.tree
    memory = _allocations(bare), _directions(bare)
    # The kernels that the text declares, and what is called in their declarators (`__launch_bounds__`).
    kernels = frozenset(name for head in _HEAD.findall(bare) for name in _CALLED.findall(head))
    host = Host(bare, tree, kernels)
    sites = sorted([*_in_chevrons(bare), *runtime_launches(bare)], key=lambda site: site.at)
    sites_with_expansion = [(site, b"") for site in sites]
    for at, expansion in calls:
        expanded, before = blank_literals(expansion), bare[max(0, at - WINDOW_BYTES) : at]
        sites_inside = (*_in_chevrons(expanded), *runtime_launches(expanded, before))
        sites_with_expansion += [(replace(site, at=at), expanded) for site in sites_inside]
    for site, within in sites_with_expansion:
        for meant in host.meant(site, within):
            launch = _launch(meant, memory)
            if launch is not None:
                text_of_launch = _as_text(meant) if meant.at != site.at else within
                yield replace(launch, loops=_loops(tree, meant.at, bare), within=text_of_launch)


def _in_chevrons(bare: bytes) -> Iterator[LaunchText]:
    """The launches written with `<<<` and `>>>`."""
    for match in _OPEN.finditer(bare):
        close = _CLOSE.search(bare, match.end(), match.end() + WINDOW_BYTES)
        if close is None:
            continue
        start = close.end()
        end = closing(bare, start) if bare[start : start + 1] == b"(" else None
        kernel = _kernel_before(bare, match.start())
        if kernel is None or end is None:
            continue
        configuration = tuple(split_arguments(bare[match.end() : close.start()]))
        yield LaunchText(
            match.start(), kernel, configuration, tuple(split_arguments(bare[start + 1 : end - 1]))
        )


def _as_text(launch: LaunchText) -> bytes:
    """The launch in the form `kernel<<<grid, block>>>(arguments);`."""
    configuration, arguments = b", ".join(launch.configuration), b", ".join(launch.arguments)
    return b"%b<<<%b>>>(%b);" % (launch.kernel, configuration, arguments)


def _launch(
    written: LaunchText, memory: tuple[Mapping[bytes, bytes], Mapping[bytes, frozenset[str]]]
) -> Launch | None:
    """The launch with its arguments classified; None: it names no kernel or lacks a block size."""
    head = _head(written.kernel)
    configuration = [_shown(part) for part in written.configuration]
    if head is None or len(configuration) < 2:
        return None
    return Launch(
        kernel=head[0].rpartition(b"::")[2],
        qualified=head[0],
        at=written.at,
        template_args=head[1],
        grid=configuration[0],
        block=configuration[1],
        shared_bytes=configuration[2] if len(configuration) > 2 else None,
        stream=configuration[3] if len(configuration) > 3 else None,
        arguments=tuple(_argument(a, *memory) for a in written.arguments),
        loops=(),
    )


def _shown(text: bytes) -> str:
    return b" ".join(text.split()).decode("utf-8", "replace")


def _kernel_before(bare: bytes, at: int) -> bytes | None:
    """The kernel's name before `<<<` with namespaces and template arguments; it may be in parentheses."""
    before = bare[max(0, at - 400) : at].rstrip()
    if before.endswith(b")"):
        bracket = _opened(before, b"(", b")")
        is_parenthesised = bracket is not None and not re.search(rb"[\w>)\]]\s*\Z", before[:bracket])
        return plain(before[bracket:]) if is_parenthesised else None
    name_text = before
    if before.endswith(b">"):
        bracket = _opened(before, b"<", b">")
        if bracket is None:
            return None
        name_text = before[:bracket]
    name_start = len(name_text.rstrip(_NAME_BYTES))
    match = _NAME_BEFORE.search(name_text[name_start:])
    return before[name_start + match.start() :] if match else None


def _opened(text: bytes, opening: bytes, close: bytes) -> int | None:
    """The offset of the bracket that matches the last one of the text; None: there is none."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += {close: 1, opening: -1}.get(text[at : at + 1], 0)
        if depth == 0:
            return at
    return None


def _head(kernel: bytes) -> tuple[bytes, tuple[str, ...]] | None:
    """A kernel's name with its namespaces, and its template arguments."""
    name, bracket, arguments = kernel.partition(b"<")
    match = _NAME_BEFORE.fullmatch(name.strip())
    if match is None:
        return None
    template_args = split_arguments(arguments.rstrip()[:-1], angles=True) if bracket else []
    return b"".join(name.split()), tuple(map(_shown, template_args))


def _loops(tree: Node, at: int, bare: bytes) -> tuple[str, ...]:
    """The headers of the loops around a byte, outermost first."""
    node = tree.root_node.descendant_for_byte_range(at, at + 1)
    heads: list[str] = []
    while node is not None:
        if node.type in _LOOPS:
            body = node.child_by_field_name("body")
            if node.type == "do_statement":
                condition = node.child_by_field_name("condition")
                text = b"do while " + (bare[condition.start_byte : condition.end_byte] if condition else b"")
            else:
                text = bare[node.start_byte : body.start_byte if body is not None else node.end_byte]
            heads.append(_shown(text))
        node = node.parent
    return tuple(reversed(heads))


def _argument(
    text: bytes, allocations: Mapping[bytes, bytes], directions: Mapping[bytes, frozenset[str]]
) -> Argument:
    """A launch argument: its kind; for a buffer also its role (in, out, inout, scratch) and size."""
    bare = text
    while match := _CAST.match(bare):
        bare = bare[match.end() :]
    if bare[:1] == b"(" and closing(bare, 0) == len(bare):
        bare = bare[1:-1].strip()
    base = re.match(rb"\(?\s*&?\s*([A-Za-z_]\w*(?:(?:\.|->)\w+|\[\w+\])*)", bare)
    key = base[1] if base else bare
    allocation = allocations.get(key)
    kinds = directions.get(key, frozenset())
    role = None
    if allocation is not None or kinds:
        role = {frozenset(): "scratch", frozenset(("in",)): "in", frozenset(("out",)): "out"}.get(
            kinds, "inout"
        )
    if _LITERAL.match(bare):
        kind = "literal"
    elif role is not None:
        kind = "buffer" if key == bare else "buffer_offset"
    else:
        kind = "name" if _PLAIN.match(bare) else "expression"
    return Argument(_shown(text), kind, role, _shown(allocation) if allocation else None)


def _target(text: bytes) -> bytes:
    """The variable behind casts, `&` and parentheses: `(void**)&d.a` is `d.a`."""
    while match := _CAST.match(text):
        text = text[match.end() :]
    text = re.sub(rb"^\(\s*void\s*\*+\s*\)", b"", text).strip()
    while text.startswith((b"&", b"(", b"*")):
        text = text[1:].strip()
    match = re.match(rb"[A-Za-z_]\w*(?:(?:\.|->)\w+|\[\w+\])*", text)
    return match[0] if match else text


def runtime_calls(bare: bytes) -> Iterator[tuple[bytes, int, list[bytes]]]:
    """Every call that allocates, copies or fills memory, in order: function name, offset, arguments."""
    for match in _CALL.finditer(bare):
        end = closing(bare, match.end() - 1)
        if end is not None:
            yield match[1], match.start(), split_arguments(bare[match.end() : end - 1])


def _allocations(bare: bytes) -> dict[bytes, bytes]:
    """The size expression of each variable that `cudaMalloc` or `cudaMallocManaged` sets."""
    return {
        _target(args[0]): args[1]
        for name, _, args in runtime_calls(bare)
        if name in (b"cudaMalloc", b"cudaMallocManaged") and len(args) >= 2
    }


def _directions(bare: bytes) -> dict[bytes, frozenset[str]]:
    """For each variable: `in` if the host copies to it, `out` if the host copies from it."""
    directions: dict[bytes, set[str]] = defaultdict(set)
    for name, _, args in runtime_calls(bare):
        if name not in (b"cudaMemcpy", b"cudaMemcpyAsync") or len(args) < 4:
            continue
        if b"HostToDevice" in args[3]:
            directions[_target(args[0])].add("in")
        elif b"DeviceToHost" in args[3]:
            directions[_target(args[1])].add("out")
    return {name: frozenset(kinds) for name, kinds in directions.items()}
