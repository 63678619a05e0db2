"""A mistake that acts at the bench size alone: what tests at small sizes cannot find.

The side holds the original text and the changed one; each kernel looks at a size parameter and takes one of
them. Not covered: the mistakes (`kcurate.mutate.wrong`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kcurate.cuda_source import kernel_signatures
from kcurate.records import For, Launch, Param, Problem, Side, Step, Swap, WhileNonzero

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*\n?", re.MULTILINE)
_BOUNDS = re.compile(r"__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)")
_KERNEL = re.compile(r"(?:extern\s+\"C\"\s+)?__global__")
_INTEGER = re.compile(r"(?:const )?(?:unsigned|unsigned int|int|long long|size_t|unsigned long long)")


def at_bench_alone(original: Side, changed: Side, problem: Problem) -> Side | None:
    """The side that is `changed` at the bench size and `original` at the test sizes.

    None where no parameter of a kernel tells the sizes apart, or the text is not plain enough: templates,
    module variables, tensor maps, kernels in namespaces.
    """
    signatures = kernel_signatures(original.code.encode())
    if signatures != kernel_signatures(changed.code.encode()) or changed.plan != original.plan:
        return None
    if "CUtensorMap" in original.code:
        return None
    launches = _launches(original.plan)
    if launches is None or {one.launch for one in launches} != set(signatures):
        return None
    wrappers = []
    for name, parameters in signatures.items():
        told = _told(parameters, [one for one in launches if one.launch == name], problem)
        if told is None:
            return None
        wrappers.append(_wrapper(name, parameters, told, original.code))
    includes = "".join(match[0] for match in _INCLUDE.finditer(original.code))
    texts = [
        f"namespace {space} {{\n{_as_functions(side.code)}\n}}\n"
        for space, side in (("one", original), ("other", changed))
    ]
    return replace(original, code="\n".join([includes, *texts, *wrappers]))


def _launches(plan: Sequence[Step]) -> list[Launch] | None:
    """All launches of a plan of plain launches, swaps, fills and copies; None for any other plan."""
    found: list[Launch] = []
    for step in _steps(plan):
        if isinstance(step, Launch):
            if step.template:
                return None
            found.append(step)
        elif type(step).__name__ in ("Upload", "BindTexture", "Call"):
            return None
    return found


def _steps(plan: Sequence[Step]) -> Iterator[Step]:
    for step in plan:
        if isinstance(step, For | WhileNonzero):
            yield from _steps(step.do)
        elif not isinstance(step, Swap):
            yield step


def _told(parameters: Sequence[Param], launches: Sequence[Launch], problem: Problem) -> str | None:
    """A condition over the parameters that holds at the bench size alone."""
    bench, tests = problem.sizes.headline, problem.sizes.test
    for at, parameter in enumerate(parameters):
        given = {one.args[at] if at < len(one.args) else None for one in launches}
        size = next(iter(given))
        if len(given) != 1 or not isinstance(size, str) or size not in bench:
            continue
        largest = max(sizes.get(size, 0) for sizes in tests)
        if _INTEGER.fullmatch(parameter.type) and bench[size] > largest:
            return f"{parameter.name} > {largest}"
    return None


def _wrapper(name: str, parameters: Sequence[Param], told: str, code: str) -> str:
    taken = ", ".join(f"{one.type} {one.name}" for one in parameters)
    given = ", ".join(one.name for one in parameters)
    defined = re.search(rf"\b{name}\s*\(", code)
    header = code[: defined.start()] if defined else ""
    bounds = _BOUNDS.search(header[header.rfind("__global__") :])
    return (
        f'extern "C" __global__ void {bounds[0] if bounds else ""} {name}({taken}) {{\n'
        f"    if ({told}) other::{name}({given});\n    else one::{name}({given});\n}}\n"
    )


def _as_functions(code: str) -> str:
    """The text without its includes, its kernels as device functions."""
    plain = _BOUNDS.sub("", _INCLUDE.sub("", code))
    return _KERNEL.sub("__device__", plain)
