"""Further runs of a reference, in its own worker; a judgement starts over without those that fail.

`WideReference` is the reference's text compiled again with wider accumulation: its outputs show how much
the reference itself rounds, and are compared with in its place. `outputs_of_rerun` runs the reference as it
is, on inputs that the negative controls ask for. Not covered: rewriting
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

# Outputs of fewer terms are not worth another run: their naive sum in float32 is off by at most 8 unit
# roundoffs (0.25 * sqrt(1024)), of the 500 that the norm allows.
WIDE_TERMS = 1 << 10
# A wider result may differ from the plain one by the worst case of a naive sum, K unit roundoffs, where the
# rule for a side expects sqrt(K): as many terms as K squared. The norm is then off by at most 12%.
LARGEST_WORST_CASE = 1 << 40
# Bytes that a reply may have in addition to the outputs.
REPLY_SLACK_BYTES = 1 << 20

Hold = Callable[[], contextlib.AbstractContextManager[None]]


def accumulated(problem: Problem, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The outputs that sum so many terms in float32 that the reference's own rounding is worth measuring."""
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
    """The reference's worker failed in an extra run (of kind `what`); the case is judged anew without it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


@contextlib.contextmanager
def disturbing(what: str) -> Iterator[None]:
    """Turn a failure of the reference's worker into `StartOver`: the run was ours, not its side's."""
    try:
        yield
    except (Ruling, BackendError) as error:
        raise StartOver(what) from error


class WideReference:
    """The reference with wider accumulation. `used`: some trial was compared with it."""

    def __init__(self, problem: Problem, compiled: Compiled) -> None:
        self._problem = problem
        self.compiled = compiled
        self._failed = False
        self.used = False

    def wanted(self, sizes: Mapping[str, int]) -> bool:
        """Whether a trial at these sizes is worth a run."""
        return not self._failed and bool(accumulated(self._problem, sizes))

    def accept(self, alike: bool) -> bool:
        """Note whether its outputs are those of the reference but for rounding; if not, it is of no use."""
        self._failed = not alike
        self.used |= alike
        return alike

    def accepted(self, sizes: Mapping[str, int], plain: Outputs, wide: Outputs | None) -> Outputs:
        """The accumulated outputs of one trial; none if the wider text computes something else.

        `plain`: the reference's own outputs; `wide`: those of the wider text.
        """
        if wide is None:
            return {}
        names = accumulated(self._problem, sizes)
        lenient = self.lenient(sizes)
        if not self.accept(not any(differs(lenient, sizes, name, wide, plain) for name in names)):
            return {}
        return {name: wide[name] for name in names}

    def lenient(self, sizes: Mapping[str, int]) -> Problem:
        """The problem with tolerances that allow for the worst case of a naive sum."""
        buffers = dict(self._problem.buffers)
        for name in accumulated(self._problem, sizes):
            rule = buffers[name].tolerance
            assert rule is not None, "an accumulated output has a tolerance"
            worst = min(evaluate(rule.terms, sizes) ** 2, LARGEST_WORST_CASE)
            buffers[name] = replace(buffers[name], tolerance=replace(rule, terms=worst))
        return replace(self._problem, buffers=buffers)


def outputs_of_rerun(
    proxy: SideProxy, problem: Problem, request: Generate, hold: Hold, what: str = CHANGED_INPUTS
) -> Outputs | None:
    """A reference's outputs in one more run of kind `what` in its worker; None if it wrote outside them.

    Raises:
        StartOver: it failed, or took too long.
    """
    names = output_names(problem)
    limit = outputs_bytes(problem, request.sizes, names) + REPLY_SLACK_BYTES
    with disturbing(what):
        proxy.ask(request)
        proxy.wait_for_inputs()
        with hold():
            proxy.ask(Run(request.slot, (secrets.randbits(32) | 1,)))
            reply = proxy.answer(limit, math.inf if what == CHANGED_INPUTS else time_limits.WITHOUT_INPUT_S)
        with proxy.untrusted_answer():
            arrays = arrays_of(problem, reply.blobs, request.sizes, 0, names)
    return None if reply.body.integrity else arrays


def widened(candidate: Candidate, reference: SideName, *, timed: bool) -> Candidate | None:
    """The candidate with wider accumulation in its reference; None if no trial would gain by it.

    `timed`: the bench size is run too.
    """
    problem, side = candidate.problem, getattr(candidate, reference)
    assert problem is not None, "plans are admitted first"
    run = problem.sizes.all if timed else problem.sizes.test
    if side.language != "cuda" or not any(accumulated(problem, sizes) for sizes in run):
        return None
    code = wider_accumulation(side.code.encode())
    if code is None:
        return None
    changes = {reference: replace(side, code=code.decode())}
    return replace(candidate, **changes)


def wide_reference(
    compilers: CompileWorkers, candidate: Candidate, reference: SideName, *, timed: bool
) -> WideReference | None:
    """The reference compiled with wider accumulation; None where that is of no use or does not compile."""
    other = widened(candidate, reference, timed=timed)
    if other is None:
        return None
    compiled = compilers.compile([request_of(other, reference)])[0]
    if not isinstance(compiled, Compiled):
        return None
    assert other.problem is not None
    return WideReference(other.problem, compiled)
