"""Steps of a plan repeated with unchanged inputs (the check `redone`): the cheapest way to pad a slow side.

`find_repeated_launch` reads a bound plan and refuses a launch only if it certainly repeats an earlier one:
neither its inputs nor its outputs were written in between, and the kernel only assigns to its outputs. A fill
or copy is refused if it repeats an earlier one in the same way, or replaces one that nothing has used.
Atomics, in-place updates and pointers passed on count as reads of the output, so such kernels are never
refused. `repeated_steps` reads an unbound plan and only suspects; it is for a model's answers.
`find_aliased_argument` refuses a launch that breaks what `__restrict__` promises the compiler. Not covered:
loops inside kernels (`kcurate.judge.checks.sham_work`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from kcurate.core import codec
from kcurate.cuda_source import kernel_signatures
from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.lexer import Token, matching_bracket, tokenize
from kcurate.problem.ops import BoundPointer, BoundScalar, CopyOp, FillOp, LaunchOp, Op, Program
from kcurate.records import For, Param, Step, Swap, WhileNonzero

# For each kernel and parameter: whether the kernel may read, and may write, the pointed-to buffer.
Uses = Mapping[str, tuple[tuple[bool, bool], ...]]


def find_repeated_launch(program: Program, code: str) -> Iterator[Finding]:
    """The first operation of a bound plan that repeats an earlier one with unchanged inputs."""
    uses = kernel_uses(code)
    done: dict[Op, frozenset[str]] = {}
    unused: dict[str, Op] = {}  # by buffer: a fill or copy whose result nothing has used yet
    for op in program.ops:
        touched = _touched(op, uses)
        if touched is None:
            done, unused = {}, {}
            continue
        reads, writes = touched
        if op in done:
            what = f"launches {op.kernel}" if isinstance(op, LaunchOp) else "fills or copies"
            yield Finding("redone", f"the plan {what} again with unchanged inputs")
            return
        target = _target(op)
        if target is not None and any(_target(unused.get(name)) == target for name in writes):
            yield Finding("redone", f"the plan fills {target[0]!r} twice before anything uses it")
            return
        done = {old: names for old, names in done.items() if not names & writes}
        unused = {name: old for name, old in unused.items() if name not in reads | writes}
        if target is not None:
            unused[target[0]] = op
        if not reads & writes:
            done[op] = reads | writes


def find_aliased_argument(program: Program, code: str) -> Iterator[Finding]:
    """A buffer that a launch passes as `const T *__restrict__` and also to a parameter that is written.

    NVRTC reads the first with `ld.global.nc`, through a cache that sees no stores of the launch.
    """
    signatures, uses = kernel_signatures(code.encode()), kernel_uses(code)
    for op in program.ops:
        if not isinstance(op, LaunchOp) or len(signatures.get(op.kernel, ())) != len(op.args):
            continue
        arguments = list(zip(op.args, signatures[op.kernel], uses[op.kernel], strict=True))
        written = {argument for argument, _, (_, may_write) in arguments if may_write}
        for argument, param, _ in arguments:
            if isinstance(argument, BoundPointer) and param.const and param.restrict and argument in written:
                promise = f"const __restrict__ {param.name}, and to a parameter that is written"
                yield Finding("restrict", f"{op.kernel} gets {argument.buffer!r} as {promise}")
                return


def _target(op: Op | None) -> tuple[str, int, int] | None:
    """The buffer, offset and size of what a fill or copy writes."""
    if isinstance(op, FillOp):
        return op.buffer, op.offset_bytes, op.size_bytes
    if isinstance(op, CopyOp):
        return op.to, op.to_offset_bytes, op.size_bytes
    return None


def repeated_steps(plan: Iterable[Step]) -> list[str]:
    """Steps equal to the step before them, and loops whose steps do not use the counter, in words."""
    repeated: list[str] = []
    before: Step | None = None
    for step in plan:
        if step == before and not isinstance(step, Swap | For | WhileNonzero):
            repeated.append(f"repeats a step: {codec.to_data(step)}")
        if isinstance(step, For):
            text = str(codec.to_data(step.do))
            if step.for_ not in text and not any(isinstance(inner, Swap) for inner in step.do):
                repeated.append(f"loops over {step.for_!r}, which its steps do not use")
        if isinstance(step, For | WhileNonzero):
            repeated += repeated_steps(step.do)
        before = step
    return repeated


def _touched(op: Op, uses: Uses) -> tuple[frozenset[str], frozenset[str]] | None:
    """The buffers that an operation may read and those that it may write; None if unknown."""
    if isinstance(op, FillOp):
        return frozenset(), frozenset({op.buffer})
    if isinstance(op, CopyOp):
        return frozenset({op.source}), frozenset({op.to})
    if not isinstance(op, LaunchOp) or op.kernel not in uses or len(uses[op.kernel]) != len(op.args):
        return None
    reads, writes = set(), set()
    if not all(isinstance(argument, BoundPointer | BoundScalar) for argument in op.args):
        return None
    for argument, (may_read, may_write) in zip(op.args, uses[op.kernel], strict=True):
        if isinstance(argument, BoundPointer):
            reads |= {argument.buffer} if may_read else set()
            writes |= {argument.buffer} if may_write else set()
    return frozenset(reads), frozenset(writes)


@lru_cache(maxsize=4)  # the same for all sizes of a side
def kernel_uses(code: str) -> dict[str, tuple[tuple[bool, bool], ...]]:
    """For every kernel and parameter, (may read, may write)."""
    plain = tuple(token for token in tokenize(code) if token.kind != "directive")
    bodies = _bodies(plain)
    uses = {}
    for kernel, params in kernel_signatures(code.encode()).items():
        body = bodies.get(kernel.rpartition("::")[2], ())
        places: dict[str, list[int]] = {}
        for at, token in enumerate(body):
            places.setdefault(token.text, []).append(at)
        uses[kernel] = tuple(_use(param, body, places.get(param.name, [])) for param in params)
    return uses


def _bodies(plain: tuple[Token, ...]) -> dict[str, tuple[Token, ...]]:
    """The body of each function at namespace scope; of overloads the first."""
    bodies: dict[str, tuple[Token, ...]] = {}
    at = 0
    while at < len(plain):
        if plain[at].text == "(" and at:
            close = matching_bracket(plain, at, "(", ")")
            if close + 1 < len(plain) and plain[close + 1].text == "{":
                end = matching_bracket(plain, close + 1, "{", "}")
                bodies.setdefault(plain[at - 1].text, plain[close + 2 : end])
                close = end
            at = close
        at += 1
    return bodies


def _use(param: Param, body: tuple[Token, ...], places: Sequence[int]) -> tuple[bool, bool]:
    """(May read, may write) of one parameter, whose name occurs at `places` in the body."""
    if not param.pointer:
        return False, False
    # A `)` before the name may be a cast that removes const.
    if param.type.startswith("const") and not any(body[at - 1].text == ")" for at in places if at):
        return True, False
    return not places or not all(_is_assigned(body, at) for at in places), True


def _is_assigned(body: tuple[Token, ...], at: int) -> bool:
    """Whether the name at `at` is assigned to: `name[...] =` or `*name =` at the start of a statement."""
    texts = (";", *(token.text for token in body), ";", ";")  # so texts[at] precedes the name
    starred = texts[at] == "*"
    if texts[at - starred] not in (";", "{", "}", ")", "else"):
        return False
    if starred or texts[at + 2] != "[":
        return starred and texts[at + 2] == "="
    return texts[matching_bracket(body, at + 1, "[", "]") + 2] == "="
