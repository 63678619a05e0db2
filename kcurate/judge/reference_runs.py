"""Further runs of a reference, each in a worker of its own so that none can disturb the judgement.

`WideReference` is the reference's text compiled again with wider accumulation: its outputs show how much the
reference itself rounds, and are compared with in its place. `Again` runs the reference as it is, on inputs
that the negative controls ask for. Not covered: rewriting (`kcurate.cuda_source.wider`), what is compared
with what (`kcurate.judge.verifying`).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace

from kcurate.backends.base import Compiled
from kcurate.cuda_source.wider import wider_accumulation
from kcurate.errors import BackendError
from kcurate.judge.agreement import Outputs, arrays_of, differs, logical_bytes, output_names
from kcurate.judge.case import Ruling
from kcurate.judge.workers.compiling import CompileWorkers, request_of
from kcurate.judge.workers.messages import Generate, Run
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.judge.workers.spares import RunWorkerPool
from kcurate.problem.expressions import evaluate
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
    found = []
    for name in output_names(problem):
        buffer, rule = problem.buffers[name], problem.buffers[name].tolerance
        if buffer.dtype != "float32" or rule is None or rule.relative is not None:
            continue
        if (rule.accumulate or "float32") == "float32" and evaluate(rule.terms, sizes) >= WIDE_TERMS:
            found.append(name)
    return tuple(found)


class Again:
    """One side in a worker of its own, which is replaced when it fails. Call `close` at the end."""

    def __init__(self, pool: RunWorkerPool, candidate: Candidate, side: SideName, compiled: Compiled) -> None:
        self._pool, self._candidate, self._side, self._compiled = pool, candidate, side, compiled
        self._proxy: SideProxy | None = None
        self._asked: tuple[str, int] | None = None

    def load(self) -> None:
        """Load the side, unless it is loaded; a failure shows in `outputs`."""
        with contextlib.suppress(Ruling, BackendError):
            self._loaded(contextlib.nullcontext)

    def prefetch(self, request: Generate, hold: Hold) -> None:
        """Have the inputs generated; `outputs` waits for them. `hold`: while the side is being loaded."""
        with contextlib.suppress(Ruling, BackendError):
            self._loaded(hold).ask(request)
            self._asked = (request.slot, request.seed)

    def outputs(self, request: Generate, hold: Hold) -> Outputs | None:
        """The outputs of one run inside `hold`; None if it failed, wrote outside or took too long."""
        if self._asked != (request.slot, request.seed):
            self.prefetch(request, hold)
        self._asked = None
        try:
            proxy = self._loaded(hold)
            proxy.wait_for_inputs()
            with hold():
                proxy.ask(Run(request.slot, (secrets.randbits(32) | 1,), (), keep=False))
                reply = proxy.answer(self._reply_bytes(request.sizes))
            with proxy.untrusted_answer():
                found = arrays_of(self._problem, reply.blobs, request.sizes, 0, output_names(self._problem))
        except (Ruling, BackendError):
            self.close()
            return None
        return None if reply.body.integrity else found

    @property
    def _problem(self) -> Problem:
        assert self._candidate.problem is not None
        return self._candidate.problem

    def _reply_bytes(self, sizes: Mapping[str, int]) -> int:
        names = output_names(self._problem)
        return sum(logical_bytes(self._problem.buffers[name], sizes) for name in names) + REPLY_SLACK_BYTES

    def _loaded(self, hold: Hold) -> SideProxy:
        if self._proxy is None or not self._proxy.worker.alive:
            self._proxy = self._pool.reference(self._candidate, self._side)
            with hold():
                self._proxy.load(self._candidate, self._compiled)
        return self._proxy

    def close(self, *, keep: bool = False) -> None:
        """End the worker, or give it back for the next judgement of this reference."""
        if self._proxy is not None:
            self._pool.release({self._side: self._proxy}, keep=self._side if keep else None)
        self._proxy, self._asked = None, None


class WideReference:
    """The reference with wider accumulation. `used`: some trial was compared with it."""

    def __init__(self, again: Again, problem: Problem) -> None:
        self._again = again
        self._problem = problem
        self._failed = False
        self.used = False

    def wanted(self, sizes: Mapping[str, int]) -> bool:
        """Whether a trial at these sizes is worth a run."""
        return not self._failed and bool(accumulated(self._problem, sizes))

    def load(self) -> None:
        """Load the wider text."""
        self._again.load()

    def prefetch(self, request: Generate, hold: Hold) -> None:
        """Have the inputs of a trial generated, if it is worth a run."""
        if self.wanted(request.sizes):
            self._again.prefetch(request, hold)

    def outputs(self, request: Generate, plain: Outputs, hold: Hold) -> Outputs:
        """The accumulated outputs of one trial; none if the wider text fails or computes something else.

        `plain`: the reference's own outputs.
        """
        found = self._again.outputs(request, hold)
        names = accumulated(self._problem, request.sizes)
        if found is None or any(self._strange(name, request.sizes, plain, found) for name in names):
            self._failed = True
            return {}
        self.used = True
        return {name: found[name] for name in names}

    def _strange(self, name: str, sizes: Mapping[str, int], plain: Outputs, wide: Outputs) -> bool:
        rule = self._problem.buffers[name].tolerance
        assert rule is not None, "an accumulated output has a tolerance"
        worst = min(evaluate(rule.terms, sizes) ** 2, LARGEST_WORST_CASE)
        buffer = replace(self._problem.buffers[name], tolerance=replace(rule, terms=worst))
        lenient = replace(self._problem, buffers={**self._problem.buffers, name: buffer})
        return differs(lenient, sizes, name, wide, plain) is not None

    def close(self) -> None:
        """Give the worker back for the next judgement of this reference."""
        self._again.close(keep=not self._failed)


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
    pool: RunWorkerPool, compilers: CompileWorkers, candidate: Candidate, reference: SideName, *, timed: bool
) -> WideReference | None:
    """The reference compiled with wider accumulation; None where that is of no use or does not compile."""
    other = widened(candidate, reference, timed=timed)
    if other is None:
        return None
    compiled = compilers.compile([request_of(other, reference)])[0]
    if not isinstance(compiled, Compiled):
        return None
    assert other.problem is not None
    return WideReference(Again(pool, other, reference, compiled), other.problem)
