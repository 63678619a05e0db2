"""Both sides of a candidate compiled at once, each in a compile worker that may hang, die or be killed.

Compile workers are used again (starting NVRTC costs more than compiling) and replaced after a failure of
theirs. Not covered: which code may be compiled (`checks.static`), the compilers (`kcurate.backends`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kcurate import time_limits
from kcurate.backends.base import Compiled, CompileFailure, Compiler, EntryPoint, KernelFault
from kcurate.backends.torch_module import compile_text
from kcurate.judge.case import Case, Ruling
from kcurate.judge.workers.messages import Compile, CompileAnswer, unpack_compiled
from kcurate.judge.workers.nursery import Nursery, Role, Worker, WorkerDied, WorkerTimeout
from kcurate.problem import program
from kcurate.records import SIDES, BindTexture, Candidate, Outcome, steps
from kcurate.records.pair import SideName

# Binaries that are kept at hand.
REMEMBERED = 16
FAILED = {
    "error": "does not compile",
    "timeout": "took too long to compile",
    "memory": "the compiler died, or ran out of memory",
}


def request_of(candidate: Candidate, side: SideName, *, sanitize: bool = False) -> Compile:
    """Everything that the side's plan names at any of the problem's sizes (a template argument may depend on
    them).

    Raises:
        ProblemError: the plan cannot be bound.
    """
    problem, record = candidate.problem, getattr(candidate, side)
    assert problem is not None, "a candidate without a problem is not compiled"
    entries: dict[EntryPoint, None] = {}
    symbols: dict[str, None] = {}
    for sizes in (*problem.sizes.test, problem.sizes.bench):
        bound = program.bind(problem, record, sizes)
        entries |= dict.fromkeys(EntryPoint(name, template) for name, template in bound.entry_points)
        symbols |= dict.fromkeys(bound.symbols)
        for step in steps(record.plan):
            if isinstance(step, BindTexture):
                symbols[step.bind_texture] = None
    return Compile(record.code, tuple(entries), tuple(symbols), sanitize)


class CompileWorkers:
    """A few compile workers that stay. Call `close` at the end."""

    def __init__(self, nursery: Nursery, role: Role, count: int = 2) -> None:
        self._nursery = nursery
        self._role = role
        self._workers = [nursery.fork(role) for _ in range(count)]
        self._made: dict[Compile, Compiled] = {}

    def compile(self, requests: Sequence[Compile]) -> list[Compiled | CompileFailure]:
        """Compile side by side; at most as many as there are workers. The last binaries are remembered:
        many candidates share a reference.

        Raises:
            BackendError: a compiler broke. MissingDependencyError: there is none.
        """
        new = [one for one in dict.fromkeys(requests) if one not in self._made]
        found: dict[Compile, Compiled | CompileFailure] = {
            one: self._made[one] for one in requests if one not in new
        }
        found |= zip(new, self._compile(new), strict=True)
        for one in requests:
            made = found[one]
            if isinstance(made, Compiled):
                self._made.pop(one, None)
                self._made[one] = made
        while len(self._made) > REMEMBERED:
            self._made.pop(next(iter(self._made)))
        return [found[one] for one in requests]

    def _compile(self, requests: Sequence[Compile]) -> list[Compiled | CompileFailure]:
        asked: list[Worker] = []
        try:
            for i, request in enumerate(requests):
                if not self._workers[i].alive:
                    self._workers[i] = self._nursery.fork(self._role)
                asked.append(self._workers[i])
                asked[-1].ask(request)
            return [_answer(worker) for worker in asked]
        except BaseException:
            for worker in asked:  # an answer may still be on its way: do not take it for the next one
                worker.kill()
            raise

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.kill()


def compile_case(case: Case, workers: CompileWorkers, *, sanitize: bool = False) -> dict[SideName, Compiled]:
    """Both sides of a candidate.

    Raises:
        Ruling: `compile_error`, with the side and its log. BackendError: a compiler broke.
    """
    device_code = [side for side in SIDES if getattr(case.candidate, side).language == "cuda"]
    requests = [request_of(case.candidate, side, sanitize=sanitize) for side in device_code]
    made = dict(zip(device_code, workers.compile(requests), strict=True))
    compiled: dict[SideName, Compiled] = {}
    for side in SIDES:
        answer = made[side] if side in made else compile_text(getattr(case.candidate, side).code)
        if isinstance(answer, CompileFailure):
            raise Ruling(
                Outcome.COMPILE_ERROR,
                FAILED[answer.reason],
                side=side,
                log=answer.log,
                unexplained=answer.reason == "memory",
            )
        case.report(side, resources=answer.resources, binary_sha256=answer.sha256)
        compiled[side] = answer
    case.passed("compile")
    return compiled


def compile_side(candidate: Candidate, side: SideName, compiler: Compiler) -> Compiled | CompileFailure:
    """One side's binary, made in this process: for code that is trusted (tests, benchmarks).

    Raises:
        ProblemError: the plan cannot be bound.
    """
    wanted = request_of(candidate, side)
    return compiler.compile(wanted.code, wanted.entry_points, wanted.symbols)


def _answer(worker: Worker) -> Compiled | CompileFailure:
    try:
        reply = worker.answer(time_limits.COMPILE_SIDE_S)
    except WorkerTimeout:
        return CompileFailure("timeout", f"the compiler ran past {time_limits.COMPILE_SIDE_S:.0f} s")
    except (WorkerDied, KernelFault):
        return CompileFailure("memory", "the compiler died: out of memory, or a bug in it")
    answer: CompileAnswer = reply.body
    if answer.failure is not None:
        return answer.failure
    assert answer.compiled is not None, "a binary, or why there is none"
    return unpack_compiled(answer.compiled, reply.blobs)
