"""A PyTorch module call bound to sizes: the buffers and numbers that it takes, the buffers that it fills.

Not covered: running it (`kcurate.backends.torch_module`), other plan steps (`kcurate.problem.program`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcurate.errors import ProblemError
from kcurate.problem.expressions import evaluate
from kcurate.problem.ops import BoundBuffer, CallOp
from kcurate.problem.triton_launch import check_triton
from kcurate.records import Call, Candidate, Problem, Side
from kcurate.records.pair import SideName


def bind_call(
    step: Call, problem: Problem, side: Side, buffers: Mapping[str, BoundBuffer], sizes: Mapping[str, int]
) -> CallOp:
    """The call with every name resolved to a buffer or a number.

    Raises:
        ProblemError: an unknown name, a target that is not an output, or a side that is not in PyTorch.
    """
    if side.language != "torch":
        raise ProblemError(f"{step.call!r} cannot be called: the side is device code")
    for name in (*step.state.values(), *step.to):
        if name not in buffers:
            raise ProblemError(f"unknown buffer {name!r}", hint=f"known: {', '.join(sorted(buffers))}")
    for name in step.to:
        if buffers[name].record.role != "out":
            raise ProblemError(f"the call fills {name!r}, which is not an output")
    if not step.to:
        raise ProblemError("the call fills no buffer")
    args = tuple(_argument(name, problem, buffers, sizes) for name in step.args)
    return CallOp(step.call, args, step.to, dict(step.state))


def _argument(
    name: str, problem: Problem, buffers: Mapping[str, BoundBuffer], sizes: Mapping[str, int]
) -> str | float:
    if name in buffers:
        return name
    scalar = problem.scalars.get(name)
    if scalar is not None and not isinstance(scalar.value, Mapping):
        return evaluate(scalar.value, sizes) if isinstance(scalar.value, str) else scalar.value
    raise ProblemError(f"unknown argument {name!r}", hint="a buffer, or a scalar that is a single number")


def check_language(candidate: Candidate, side_name: SideName) -> Iterator[str]:
    """Errors of a plan for its side's language; a side in PyTorch must be a reference with one call."""
    side: Side = getattr(candidate, side_name)
    if side.language == "triton":
        yield from check_triton(side)
    if side.language != "torch":
        return
    if candidate.origin.made == side_name or side_name != "slow":
        yield "a side in PyTorch can only be the reference, and the slow side"
    if len(side.plan) != 1 or not isinstance(side.plan[0], Call):
        yield "a side in PyTorch has exactly one step, a call"
    if side.buffers or side.views:
        yield "a side in PyTorch has no buffers or views of its own"
