"""Rule on work distribution: each thread processes several consecutive elements serially instead of one.

- contiguous-chunks: the kernel's body becomes the body of a loop over `item`, `threadIdx.x` becomes
  `threadIdx.x * 8 + item`, `blockDim.x` becomes `blockDim.x * 8`, and the plan's blocks have an eighth of the
  threads. Adjacent threads then access addresses eight elements apart, so accesses are no longer coalesced.

Every combination of block and old thread index still occurs once, and the grid is unchanged. One thread now
does the work of several, one element after another: equivalent if threads are independent within a launch.
Required: no shared memory, barrier, fence, volatile or warp function (barriers at the end of the kernel order
nothing and are removed); no atomic operation that a loop waits on or that locks (`atomicCAS`, `atomicExch`);
iterations leave no state: no parameter changes, nothing is static; `return` occurs only outside inner loops,
and becomes `continue`. All uses of built-in variables are in the kernel itself.

Not covered: blocks whose x extent is not known from the plan, kernels whose threads cooperate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kcurate.cuda_source.parse.syntax_tree import Function, Node, Tree, ancestors, bare, encloses
from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules import threads
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.plans import block, own_name, same_block
from kcurate.deopt.rules.ranges import CHANGES, Ranges, changed_by
from kcurate.deopt.rules.statement_removal import line_of
from kcurate.deopt.rules.variable_uses import LOOPS
from kcurate.records import Launch, Side

# Elements per thread, in order of preference; the smaller block must be a whole number of warps.
CHUNKS = (8, 6, 4, 3, 2)
WARP = 32
_LOCKS = (b"atomicCAS", b"atomicExch")


def contiguous_chunks(subject: Subject) -> Side | NotApplicable:
    """Give every thread several consecutive elements."""
    tree = subject.tree
    reason = "no kernel with a known block size"
    edits: list[Edit] = []
    sizes: dict[str, int] = {}
    for function in tree.functions():
        extents = same_block(subject.side, function.name)
        if not function.kernel or not extents:
            continue
        size = chunk(extents)
        refusal = "blocks are too small to divide" if size is None else _refusal(tree, function)
        if size is None or refusal is not None:
            reason = refusal or reason
            continue
        looped = list(_looped(Ranges(tree, function, extents), size, tree.unused_name(b"item")))
        first = tree.source.find(b"\n", function.body.start_byte) + 1
        edits += [*looped, *indented(tree.source, first, function.body.end_byte - 1, looped)]
        sizes[function.name.decode("latin-1")] = size
    return narrowed(subject, edits, sizes, reason)


def narrowed(
    subject: Subject, edits: Sequence[Edit], sizes: Mapping[str, int], reason: str
) -> Side | NotApplicable:
    """The edited side; blocks of each kernel in `sizes` shrink in x by that factor."""
    return subject.with_edits(
        edits,
        reason,
        lambda launch: narrower(launch, sizes[own_name(launch)]) if own_name(launch) in sizes else launch,
    )


def chunk(extents: tuple[int, int, int]) -> int | None:
    """Elements per thread for a block of these extents; None if no whole warps would remain."""
    x, y, z = extents
    return next((size for size in CHUNKS if x % size == 0 and x // size * y * z % WARP == 0), None)


def narrower(launch: Launch, size: int) -> Launch:
    """The launch with blocks that are `size` times smaller in x."""
    width = block(launch)[0] or size
    return replace(launch, block=(width // size, *launch.block[1:]))


def _refusal(tree: Tree, function: Function) -> str | None:
    """Why threads may depend on each other, or the body cannot be repeated; None if neither is the case."""
    called = threads.reachable(tree, function)
    body = function.body
    if function.node.has_error or any(tree.nodes("labeled_statement", "goto_statement", within=body)):
        return "the code does not parse, or uses goto"
    if threads.depends_on_blocks(tree, function, called):
        return "the code may depend on which threads form a block"
    used = [text for _, text in threads.builtins(tree, body)]
    if b"threadIdx.x" not in used or threads.any_uses_builtins(tree, called[1:]):
        return "the kernel itself does not use threadIdx.x, or a function that it calls uses built-ins"
    if any(waits(tree, callee) for callee in called):
        return "a thread may wait for another"
    enclosing = (loop for node in _returns(tree, body) for loop in ancestors(node) if loop.type in LOOPS)
    if any(body.start_byte < loop.start_byte for loop in enclosing):
        return "an inner loop contains a return"
    keeps_state = any(declaration.qualifiers & {b"static", b"extern"} for declaration in tree.declared(body))
    if keeps_state or parameters_change(tree, function):
        return "one element's work may change state that the next one's would see"
    return None


def _returns(tree: Tree, body: Node) -> Iterator[Node]:
    return tree.nodes("return_statement", within=body)


def waits(tree: Tree, function: Function) -> bool:
    """Whether a loop condition contains an atomic operation, or the function one that locks are built on."""
    for call, name, _ in tree.calls(within=function.body):
        if name in _LOCKS:
            return True
        if name.startswith(b"atomic"):
            heads = (node.child_by_field_name("condition") for node in ancestors(call) if node.type in LOOPS)
            if any(head is not None and encloses(head, call) for head in heads):
                return True
    return False


def parameters_change(tree: Tree, function: Function) -> bool:
    """Whether a parameter itself may change (not what it points to)."""
    names = {param.name for param in function.params}
    for node in tree.nodes(*CHANGES, within=function.body):
        target = changed_by(node)
        if target is not None and _variable_of(target) in names:
            return True
    for declaration in tree.declared(function.body):
        if (
            declaration.reference
            and declaration.value is not None
            and _variable_of(bare(declaration.value)) in names
        ):
            return True
    by_reference = {
        function.name for function in tree.functions() if any(param.reference for param in function.params)
    }
    return any(
        name in by_reference and _variable_of(bare(argument)) in names
        for _, name, arguments in tree.calls(within=function.body)
        for argument in arguments
    )


def _variable_of(node: Node) -> bytes | None:
    """The variable whose storage an expression names: of `p` and `p.x`, but not of `p[0]`, `*p` or `p->x`."""
    while node.type == "field_expression" and node.children[1].type == ".":
        node = bare(node.child_by_field_name("argument"))
    return bytes(node.text) if node.type == "identifier" else None


def _looped(ranges: Ranges, size: int, item: bytes) -> Iterator[Edit]:
    """The body turned into a loop over a thread's elements."""
    tree, body = ranges.tree, ranges.function.body
    barriers = threads.trailing_barriers(tree, ranges.function)
    head = b"\n    for (int %b = 0; %b < %d; %b++) {" % (item, item, size, item)
    yield Edit(body.start_byte + 1, body.start_byte + 1, head)
    yield Edit(body.end_byte - 1, body.end_byte - 1, b"    }\n")
    for node in barriers:
        yield Edit(*line_of(tree.source, node))
    for node in _returns(tree, body):
        yield Edit(node.start_byte, node.end_byte, b"continue;")
    yield from spread(ranges, body, size, item)


def spread(ranges: Ranges, within: Node, size: int, item: bytes) -> Iterator[Edit]:
    """Thread indices and block extents in a node, rewritten for the current element."""
    tree = ranges.tree
    handled: set[int] = set()
    for node in tree.nodes("binary_expression", within=within):
        text = b"".join(node.text.split())
        has_all = all(name in text for name in (b"blockIdx.x", b"blockDim.x", b"threadIdx.x"))
        if has_all and node.id not in handled and threads.is_global_index(ranges, node):
            handled |= {part.id for part in tree.nodes(within=node)}
            yield _replaced(node, b"(%b) * %d + %b" % (tree.text(node), size, item))
    for node, text in threads.builtins(tree, within):
        if node.id in handled:
            continue
        if text == b"threadIdx.x":
            yield _replaced(node, b"threadIdx.x * %d + %b" % (size, item))
        elif text == b"blockDim.x":
            yield _replaced(node, b"blockDim.x * %d" % size)


def indented(code: bytes, start: int, end: int, edits: Sequence[Edit]) -> Iterator[Edit]:
    """Indent the lines of a span, except directives and lines that begin inside another edit."""
    if b"\\\n" in code[start:end] or b'R"' in code[start:end]:  # the spaces could end up inside a string
        return
    at = start
    while 0 <= at < end:
        line = code[at : code.find(b"\n", at)].strip()
        free = not any(edit.start <= at < edit.end for edit in edits)
        if line and not line.startswith(b"#") and free and at + len(line) <= end:
            yield Edit(at, at, b"\t" if code[at : at + 1] == b"\t" else b"    ")
        at = code.find(b"\n", at) + 1 or -1


def _replaced(node: Node, text: bytes) -> Edit:
    """An edit that replaces an expression, with parentheses where needed."""
    parent = node.parent
    alone = parent.type in ("init_declarator", "parenthesized_expression", "subscript_argument_list") or (
        parent.type == "assignment_expression" and parent.child_by_field_name("right") == node
    )
    return Edit(node.start_byte, node.end_byte, text if alone else b"(%b)" % text)


RULES: tuple[Rule, ...] = (
    Rule(
        "contiguous-chunks",
        "coalesced-access",
        "coalesced access to neighbouring elements",
        contiguous_chunks,
    ),
)
