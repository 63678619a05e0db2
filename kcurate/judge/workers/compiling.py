"""Compiles both sides of a candidate at once, each in a compile worker that may hang, die or be killed.

Compile workers are reused, since starting NVRTC takes longer than compiling, and replaced after a failure.
Not covered: which code may be compiled (`checks.static`), the compilers (`kcurate.backends`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kcurate.backends.base import PTX, Compiled, CompileFailure, Compiler, EntryPoint, KernelFault
from kcurate.backends.cuda.ptxas import completed
from kcurate.backends.emulator.compiler import compiled_of, identity
from kcurate.backends.torch_module import compile_text
from kcurate.backends.triton import installed
from kcurate.backends.triton.installed import for_interpreter
from kcurate.core import compile_cache, time_limits
from kcurate.errors import BackendError
from kcurate.judge.case import Case, Ruling
from kcurate.judge.checks.lexer import compiler_text
from kcurate.judge.workers.messages import unpack_compiled
from kcurate.judge.workers.nursery import Nursery, Role, Worker, WorkerDied, WorkerTimeout
from kcurate.judge.workers.own_lines import first_error, own_lines
from kcurate.judge.workers.requests import Compile, CompileAnswer
from kcurate.problem.bind_once import bind_once
from kcurate.records import SIDES, BindTexture, Candidate, Outcome, Side, steps
from kcurate.records.pair import SideName
from kcurate.triton_source import respelled

# Recent binaries that are cached.
REMEMBERED = 16
FAILED = {
    "error": "does not compile",
    "timeout": "compiling exceeded the time limit",
    "memory": "the compiler crashed or ran out of memory",
    "unsupported": "contains something that the emulator does not run",
}


def request_of(
    candidate: Candidate,
    side: SideName,
    *,
    sanitize: bool = False,
    examine: bool = False,
    turns: bool = False,
) -> Compile:
    """The request for every kernel and symbol that the side's plan names at any of the problem's sizes.

    Its text is written anew from what the static checks read, so that compilers see nothing else.

    Raises:
        ProblemError: the plan cannot be bound, or compilers may read the code in two ways.
    """
    problem, record = candidate.problem, getattr(candidate, side)
    assert problem is not None, "a candidate without a problem is not compiled"
    entries: dict[EntryPoint, None] = {}
    symbols: dict[str, None] = {}
    for sizes in problem.sizes.all:
        bound = bind_once(problem, record, sizes)
        entries |= dict.fromkeys(EntryPoint(name, template) for name, template in bound.entry_points)
        symbols |= dict.fromkeys(bound.symbols)
        for step in steps(record.plan):
            if isinstance(step, BindTexture):
                symbols[step.bind_texture] = None
    text = respelled(record.code) if record.language == "triton" else compiler_text(record.code)
    return Compile(text, tuple(entries), tuple(symbols), sanitize, examine, turns, record.language)


def _why(failure: CompileFailure, code: str) -> str:
    """Why a side was not compiled, with the compiler's first words on it."""
    if failure.log == installed.MISSING:
        return failure.log
    first = first_error(failure.log or "", code) if failure.reason == "error" else None
    if first is None:
        return FAILED[failure.reason]
    line, words = first
    return f"{FAILED[failure.reason]}: {words if line is None else f'line {line}: {words}'}"


def _place(request: Compile) -> Path:
    """Where a binary for the emulator is kept; workers have no access, so a key has what its text gave."""
    return compile_cache.folder("emulator") / f"request-{compile_cache.key(identity(), request)}.so"


def _kept(request: Compile) -> Compiled | None:
    binary = compile_cache.find(_place(request))
    return compiled_of(binary, request.entry_points, request.symbols) if binary is not None else None


class CompileWorkers:
    """A few reused compile workers. Call `close` at the end."""

    def __init__(self, nursery: Nursery, role: Role, count: int = 2) -> None:
        self._nursery = nursery
        self._role = role
        self._workers = [nursery.fork(role) for _ in range(count)]
        self._triton: list[Worker] = []
        self._made: dict[Compile, Compiled] = {}

    def compile(self, requests: Sequence[Compile]) -> list[Compiled | CompileFailure]:
        """Compile in parallel, at most one request per worker; what Triton made is assembled. The last
        `REMEMBERED` binaries are cached, since many candidates share a reference, and those of the emulator
        also in files that all runs share.

        Raises:
            BackendError: a compiler failed. MissingDependencyError: there is none.
        """
        new = [request for request in dict.fromkeys(requests) if request not in self._made]
        answers: dict[Compile, Compiled | CompileFailure] = {
            request: self._made[request] for request in requests if request not in new
        }
        if self._role.backend == "emulator":
            kept = {request: binary for request in new if (binary := _kept(request)) is not None}
            answers |= kept
            new = [request for request in new if request not in kept]
        answers |= zip(new, self._compile(new), strict=True)
        texts = {
            request: answer
            for request, answer in answers.items()
            if isinstance(answer, Compiled) and answer.backend == PTX
        }
        again = [
            Compile(answer.binary.decode(), (), (), examine=request.examine, language="ptx")
            for request, answer in texts.items()
        ]
        for (request, text), answer in zip(texts.items(), self._compile(again), strict=True):
            answers[request] = completed(answer, text) if isinstance(answer, Compiled) else answer
        for request in requests:
            answer = answers[request]
            if isinstance(answer, Compiled):
                if request in new and self._role.backend == "emulator":
                    compile_cache.keep(_place(request), answer.binary)
                self._made.pop(request, None)
                self._made[request] = answer
        while len(self._made) > REMEMBERED:
            self._made.pop(next(iter(self._made)))
        return [answers[request] for request in requests]

    def _compile(self, requests: Sequence[Compile]) -> list[Compiled | CompileFailure]:
        asked: list[Worker] = []
        try:
            for i, request in enumerate(requests):
                asked.append(self._worker(i, request.language))
                asked[-1].ask(request)
            return [
                _answer(
                    worker,
                    time_limits.COMPILE_TRITON_S
                    if request.language == "triton"
                    else time_limits.COMPILE_SIDE_S,
                    request.code,
                )
                for worker, request in zip(asked, requests, strict=True)
            ]
        except BaseException:
            for worker in asked:  # a late answer must not be read as the answer to the next request
                worker.kill()
            raise

    def _worker(self, number: int, language: str) -> Worker:
        """A live worker; those for Triton come from a nursery that has imported it."""
        nursery, role, workers = self._nursery, self._role, self._workers
        if language == "triton":
            nursery, workers = nursery.speaking(language), self._triton
            role = replace(role, options={**(role.options or {}), "language": language})
        while len(workers) <= number:
            workers.append(nursery.fork(role))
        if not workers[number].alive:
            workers[number] = nursery.fork(role)
        return workers[number]

    def close(self) -> None:
        """End the workers."""
        for worker in (*self._workers, *self._triton):
            worker.kill()


def our_kernels(workers: CompileWorkers) -> Compiled:
    """Our own kernels for timing and comparing.

    Raises:
        BackendError: they do not compile.
    """
    from kcurate.backends.cuda import helpers

    compiled = workers.compile([Compile(helpers.SOURCE, helpers.ENTRIES, ())])[0]
    if isinstance(compiled, CompileFailure):
        raise BackendError(f"our own timing kernels do not compile: {compiled.log}")
    return compiled


def compile_case(case: Case, workers: CompileWorkers, *, sanitize: bool = False) -> dict[SideName, Compiled]:
    """Compile both sides of a candidate.

    Raises:
        Ruling: `compile_error` or `unsupported`, with the side and its log. BackendError: a compiler failed.
    """
    on_gpu = case.environment.backend == "cuda"
    languages = ("cuda", "triton") if on_gpu and installed.version() else ("cuda",)
    device_code = [side for side in SIDES if getattr(case.candidate, side).language in languages]
    # Of a slow side that was made, and of the side that it was made from, what they waste is compared.
    examine = on_gpu and case.candidate.origin.made == "slow"
    requests = [request_of(case.candidate, side, sanitize=sanitize, examine=examine) for side in device_code]
    answers = dict(zip(device_code, workers.compile(requests), strict=True))
    compiled: dict[SideName, Compiled] = {}
    for side in SIDES:
        record: Side = getattr(case.candidate, side)
        if side in answers:
            answer = answers[side]
        elif record.language == "triton":
            answer = for_interpreter(respelled(record.code))
        else:
            answer = compile_text(record.code)
        if isinstance(answer, CompileFailure):
            raise Ruling(
                Outcome.UNSUPPORTED if answer.reason == "unsupported" else Outcome.COMPILE_ERROR,
                _why(answer, record.code),
                side=side,
                log=answer.log,
                unexplained=answer.reason == "memory",
            )
        if record.language == "triton":
            case.add_details(**{f"{side}_compiler": answer.compiler})
        case.update_report(side, resources=answer.resources, binary_sha256=answer.sha256)
        compiled[side] = answer
    case.passed("compile")
    return compiled


def compile_side(candidate: Candidate, side: SideName, compiler: Compiler) -> Compiled | CompileFailure:
    """Compile one side in this process, for trusted code (tests, benchmarks).

    Raises:
        ProblemError: the plan cannot be bound.
    """
    wanted = request_of(candidate, side)
    return compiler.compile(wanted.code, wanted.entry_points, wanted.symbols)


def _answer(worker: Worker, limit_s: float, code: str) -> Compiled | CompileFailure:
    try:
        reply = worker.answer(limit_s)
    except WorkerTimeout:
        return CompileFailure("timeout", f"the compiler exceeded {limit_s:.0f} s")
    except (WorkerDied, KernelFault):
        return CompileFailure("memory", "the compiler crashed: out of memory, or a compiler bug")
    answer: CompileAnswer = reply.body
    if answer.failure is not None:
        return replace(answer.failure, log=own_lines(answer.failure.log, code))
    assert answer.compiled is not None, "neither a binary nor a failure"
    return unpack_compiled(answer.compiled, reply.blobs)
