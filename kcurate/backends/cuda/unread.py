"""Finds arguments, memory behind arguments and shared memory that a kernel never reads, from its PTX.

NVVM has already eliminated dead code, so an argument that is never loaded (`ld.param`) is unused. The
addresses of shared variables, and pointers in arguments, are tracked through registers: memory is unread if
every access through them is a store. In uncertain cases (calls, an address that is itself stored, an access
to shared memory that starts from no known variable) it counts as read. Not covered: whether that is a fault
(`kcurate.judge.checks.unread`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kcurate.backends.base import Unread

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)[^{;]*\{", re.DOTALL)
_FUNCTION = re.compile(r"\.func\b[^{;]*\{", re.DOTALL)
_PARAMETER = re.compile(r"\.param\b[^,]*?([\w$]+)(?:\[\d+\])?\s*(?:,|$)", re.DOTALL)
# `.extern` marks the dynamic shared memory of a launch; the others have a size in bytes.
_SHARED = re.compile(
    r"^[ \t]*(?P<extern>\.extern[ \t]+)?(?:\.(?:visible|weak|common)[ \t]+)?\.shared\b[^;\n]*?"
    r"(?P<name>[\w$]+)(?:\[(?P<bytes>\d*)\])?;",
    re.MULTILINE,
)
_INSTRUCTION = re.compile(r"(?:@!?%?[\w$]+\s+)?([a-z][\w.:]*)(?:\s+([^;]*))?$", re.DOTALL)
# Instructions for communication between blocks, including the volatile accesses with which flags are read.
_COMMUNICATES = re.compile(
    r"atom|red\b|red\.|mbarrier|cp\.async\.bulk|(?:ld|st)\.(?:volatile|acquire|release|relaxed|mmio)|call"
)
_NAME = re.compile(r"[%$\w]+")
# Instructions that only compute a result from their operands and access no memory.
_PURE = frozenset({
    "mov", "add", "sub", "mul", "mad", "shl", "shr", "shf", "and", "or", "xor", "not", "cvta", "cvt", "selp",
    "min", "max", "lop3", "bfe", "bfi", "prmt", "neg", "abs", "rem", "div", "fma", "setp", "sad",
})  # fmt: skip
# Instructions that write to their first operand; the value must not be an address.
_STORES = frozenset({"st", "red"})


@dataclass(frozen=True)
class _Step:
    """One instruction: the opcode's first word, the whole opcode, and the names in each operand."""

    word: str
    opcode: str
    operands: tuple[tuple[str, ...], ...]


def unread(ptx: str) -> Mapping[str, Unread]:
    """The arguments and memory that each kernel never reads, by symbol."""
    text = re.sub(r"//[^\n]*", "", ptx)
    entries = list(_ENTRY.finditer(text))
    helpers = [_body(text, match.end()) for match in _FUNCTION.finditer(text)]
    outside = _without_bodies(text)
    unread_by_kernel = {}
    for match in entries:
        body = _body(text, match.end())
        names = _PARAMETER.findall(match[2].strip())
        used = set(_NAME.findall(body))
        shared = [
            (variable["name"], bool(variable["extern"]), int(variable["bytes"] or 0))
            for variable in _SHARED.finditer(f"{outside}\n{body}")
        ]
        read = _read_names(body, helpers, [name for name, _, _ in shared], names)
        unread_by_kernel[match[1]] = Unread(
            arguments=tuple(at for at, name in enumerate(names) if name not in used),
            only_written=tuple(at for at, name in enumerate(names) if name in used and name not in read),
            updated=tuple(at for at, name in enumerate(names) if name in _updated(body, names)),
            shared_bytes=sum(size for name, _, size in shared if name not in read and name in used),
            dynamic=not any(external and name in read for name, external, _ in shared)
            and _STRANGE not in read,
            lone_fences=_fences_alone(body),
        )
    return unread_by_kernel


# Stands for shared memory that is read at an address that derives from no known variable.
_STRANGE = "?"


def _body(text: str, start: int) -> str:
    """The text after an opening brace, up to the matching closing one."""
    depth = 1
    for match in re.finditer(r"[{}]", text[start:]):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return text[start : start + match.start()]
    return text[start:]


def _without_bodies(text: str) -> str:
    """The text outside all braces."""
    parts, depth, at = [], 0, 0
    for match in re.finditer(r"[{}]", text):
        if not depth:
            parts.append(text[at : match.start()])
        depth += 1 if match[0] == "{" else -1
        at = match.end()
    return "".join([*parts, text[at:]])


def _fences_alone(body: str) -> bool:
    """Whether a kernel has fences towards other blocks (`membar`, `fence.sc`), but communicates with none."""
    opcodes = [step.opcode for step in _steps(body)]
    kinds = "membar.gl", "membar.sys", "fence.sc", "fence.acq_rel"
    fences = any(opcode.startswith(kinds) for opcode in opcodes)
    return fences and not any(_COMMUNICATES.match(opcode) for opcode in opcodes)


def _updated(body: str, parameters: Sequence[str]) -> set[str]:
    """The parameters that point to memory on which a kernel performs atomics."""
    steps = list(_steps(body))
    held = _addresses(steps, (), parameters)
    targets = [step.operands[:2] for step in steps if step.word in ("atom", "red")]
    return {origin for parts in targets for names in parts for name in names for origin in held.get(name, ())}


def _read_names(
    body: str, helpers: Sequence[str], variables: Sequence[str], parameters: Sequence[str]
) -> set[str]:
    """The shared variables, and the parameters pointing to memory, that a kernel may read.

    All of them, if the kernel calls functions of its module and one of these accesses shared memory.
    """
    steps = list(_steps(body))
    if any(step.word == "call" for step in steps) and any(
        "shared" in helper or any(name in helper for name in variables) for helper in helpers
    ):
        return {*variables, *parameters, _STRANGE}
    held = _addresses(steps, variables, parameters)
    used = Counter(name for step in steps for names in step.operands for name in names)
    read: set[str] = set()
    for step in steps:
        addresses = [set().union(*(held.get(name, set()) for name in names)) for names in step.operands]
        if step.word in _PURE or step.opcode.startswith("ld.param"):
            continue
        stores = (step.word in _STORES and "::" not in step.opcode) or step.opcode.startswith("cp.async")
        # An atomic whose return value is unused counts as a write only.
        dropped = step.word == "atom" and all(used[name] == 1 for name in step.operands[0])
        first_read_operand = 2 if dropped else 1 if stores else 0
        read |= set().union(set(), *addresses[first_read_operand:])
        if _reads_shared(step) and not any(set(variables) & origins for origins in addresses):
            read.add(_STRANGE)
    return {*read, *variables} if _STRANGE in read else read


def _reads_shared(step: _Step) -> bool:
    """Whether an instruction may read shared memory; generic loads do not count, as addresses are tracked."""
    if step.word in _STORES or step.word in ("bar", "barrier", "cp"):
        return "cp.async.bulk" in step.opcode and ".global.shared" in step.opcode
    return "shared" in step.opcode or step.word in ("ldmatrix", "wgmma", "tcgen05", "mbarrier")


def _addresses(
    steps: Sequence[_Step], variables: Iterable[str], parameters: Sequence[str]
) -> dict[str, set[str]]:
    """For each register, the shared variables and the parameters that it may be computed from."""
    held = {name: {name} for name in variables}
    for step in steps:
        if step.opcode.startswith("ld.param"):
            source = {name for names in step.operands[1:] for name in names if name in parameters}
            for target in step.operands[0]:
                held[target] = held.get(target, set()) | source
    changed = True
    while changed:
        changed = False
        for step in steps:
            if step.word not in _PURE or not step.operands:
                continue
            sources: set[str] = set()
            for names in step.operands[1:]:
                for name in names:
                    sources |= held.get(name, set())
            for target in step.operands[0] if sources else ():
                if not sources <= held.get(target, set()):
                    held[target] = held.get(target, set()) | sources
                    changed = True
    return held


def _steps(body: str) -> Iterable[_Step]:
    """The instructions of a body; labels and directives are left out."""
    for statement in re.sub(r"^\s*[$\w]+:", "", body, flags=re.MULTILINE).split(";"):
        match = _INSTRUCTION.match(statement.lstrip("{} \t\n"))
        if match is None:
            continue
        parts = re.findall(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,{}\[\]()]+", match[2] or "")
        operands = tuple(tuple(_NAME.findall(part)) for part in parts if part.strip())
        yield _Step(re.split(r"[.:]", match[1])[0], match[1], operands)
