"""Extra runs of a reference in its worker; if one fails, the judgement starts over without that kind of run.

`WideReference` is the reference compiled again with wider accumulators. Its outputs are nearly exact, so they
replace the reference's own as expected outputs. `outputs_of_rerun` runs the unchanged reference on the inputs
of negative controls. Not covered: rewriting
(`kcurate.cuda_source.rewrite.double_accumulators`), what is compared with what (`kcurate.judge.verifying`,
`kcurate.judge.at_bench`).
"""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from kcurate.backends.base import Compiled
from kcurate.core import time_limits
from kcurate.cuda_source.rewrite.double_accumulators import wider_accumulation
from kcurate.errors import BackendError
from kcurate.judge.agreement import Outputs, arrays_of, differs
from kcurate.judge.case import Ruling
from kcurate.judge.workers.compiling import CompileWorkers, request_of
from kcurate.judge.workers.requests import Generate, Run
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.problem.expressions import evaluate
from kcurate.problem.outputs import output_names, outputs_bytes
from kcurate.records import Candidate, Problem
from kcurate.records.pair import SideName

# Outputs with fewer terms need no extra run: their naive sum in float32 is off by at most 8 unit roundoffs
# (0.25 * sqrt(1024)), of the 500 that the norm allows.
WIDE_TERMS = 1 << 10
# The wide and the plain outputs may differ by the worst case of a naive sum of K terms, K unit roundoffs. The
# rule for a side allows sqrt(K), so it is applied with K * K terms, up to this many. The norm is then off by
# at most 12%.
LARGEST_WORST_CASE = 1 << 40
# Bytes that a reply may have besides the outputs.
REPLY_SLACK_BYTES = 1 << 20

Hold = Callable[[], contextlib.AbstractContextManager[None]]


def accumulated(problem: Problem, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The outputs that sum `WIDE_TERMS` or more terms in float32, so the reference itself rounds much."""
    summed = []
    for name in output_names(problem):
        buffer, rule = problem.buffers[name], problem.buffers[name].tolerance
        if buffer.dtype != "float32" or rule is None or rule.relative is not None:
            continue
        if (rule.accumulate or "float32") == "float32" and evaluate(rule.terms, sizes) >= WIDE_TERMS:
            summed.append(name)
    return tuple(summed)


# Kinds of extra runs of a reference: with wider accumulation, on changed inputs, without an input.
WIDE, CHANGED_INPUTS, WITHOUT_INPUT = "wide", "again", "without"


class StartOver(Exception):  # noqa: N818 - an event: our own use of a reference made it fail
    """The reference's worker failed in an extra run of this kind; the judgement is repeated without it."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@contextlib.contextmanager
def extra_run(kind: str) -> Iterator[None]:
    """Turn a failure of the reference's worker in an extra run into `StartOver`: the side is not to blame."""
    try:
        yield
    except (Ruling, BackendError) as error:
        raise StartOver(kind) from error


class WideReference:
    """The reference with wider accumulation. `used`: some trial was compared with it."""

    def __init__(self, problem: Problem, compiled: Compiled) -> None:
        self._problem = problem
        self.compiled = compiled
        self._failed = False
        self.used = False

    def wanted(self, sizes: Mapping[str, int]) -> bool:
        """Whether some output at these sizes needs the wide reference, and it has not failed."""
        return not self._failed and bool(accumulated(self._problem, sizes))

    def accept(self, alike: bool) -> bool:
        """Record whether its outputs equal the reference's up to rounding; if not, it is not used again."""
        self._failed = not alike
        self.used |= alike
        return alike

    def accepted(self, sizes: Mapping[str, int], plain: Outputs, wide: Outputs | None) -> Outputs:
        """The wide outputs to compare with in one trial; empty if they differ by more than rounding.

        `plain`: the reference's own outputs; `wide`: all wide outputs (None: not run).
        """
        if wide is None:
            return {}
        names = accumulated(self._problem, sizes)
        lenient = self.lenient(sizes)
        if not self.accept(not any(differs(lenient, sizes, name, wide, plain) for name in names)):
            return {}
        return {name: wide[name] for name in names}

    def lenient(self, sizes: Mapping[str, int]) -> Problem:
        """The problem with tolerances that allow the worst case of a naive sum."""
        buffers = dict(self._problem.buffers)
        for name in accumulated(self._problem, sizes):
            rule = buffers[name].tolerance
            assert rule is not None, "an accumulated output has a tolerance"
            worst = min(evaluate(rule.terms, sizes) ** 2, LARGEST_WORST_CASE)
            buffers[name] = replace(buffers[name], tolerance=replace(rule, terms=worst))
        return replace(self._problem, buffers=buffers)


def outputs_of_rerun(
    proxy: SideProxy, problem: Problem, request: Generate, hold: Hold, kind: str = CHANGED_INPUTS
) -> Outputs | None:
    """A reference's outputs in an extra run of this kind; None if it wrote out of bounds.

    Raises:
        StartOver: it failed, or took too long.
    """
    names = output_names(problem)
    limit = outputs_bytes(problem, request.sizes, names) + REPLY_SLACK_BYTES
    with extra_run(kind):
        proxy.ask(request)
        proxy.wait_for_inputs()
        with hold():
            proxy.ask(Run(request.slot, (secrets.randbits(32) | 1,)))
            reply = proxy.answer(limit, math.inf if kind == CHANGED_INPUTS else time_limits.WITHOUT_INPUT_S)
        with proxy.untrusted_answer():
            arrays = arrays_of(problem, reply.blobs, request.sizes, 0, names)
    return None if reply.body.integrity else arrays


def with_wider_accumulators(candidate: Candidate, reference: SideName, *, timed: bool) -> Candidate | None:
    """The candidate with wider accumulators in its reference; None if no trial would gain by it.

    `timed`: the bench sizes run too.
    """
    problem, side = candidate.problem, getattr(candidate, reference)
    assert problem is not None, "plans are admitted first"
    sizes_run = problem.sizes.all if timed else problem.sizes.test
    if side.language != "cuda" or not any(accumulated(problem, sizes) for sizes in sizes_run):
        return None
    code = wider_accumulation(side.code.encode())
    if code is None:
        return None
    changes = {reference: replace(side, code=code.decode())}
    return replace(candidate, **changes)


def wide_reference(
    compilers: CompileWorkers, candidate: Candidate, reference: SideName, *, timed: bool
) -> WideReference | None:
    """The reference compiled with wider accumulators; None if that is not useful or does not compile."""
    wide_candidate = with_wider_accumulators(candidate, reference, timed=timed)
    if wide_candidate is None:
        return None
    compiled = compilers.compile([request_of(wide_candidate, reference)])[0]
    if not isinstance(compiled, Compiled):
        return None
    assert wide_candidate.problem is not None
    return WideReference(wide_candidate.problem, compiled)
