"""Tries a draft: hardest sizes first, roles and contents adapted to the results.

A kernel is judged against itself: once as it is, once with zeros in the 4096 bytes around every buffer. The
two differ if it reads out of bounds. So an admitted draft runs without errors, writes its outputs in bounds
and deterministically, on at least two scales, and wrong answers are detected. Not covered: the bench
setting, which is not run; the judge's rules (`kcurate.judge`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kcurate.draft.for_pairs.other_kernel import FORM_NAME
from kcurate.draft.inferred.buffer_contents import any_integers
from kcurate.draft.size_settings import SMALL, Settings
from kcurate.draft.sketch import Draft, Remark
from kcurate.problem.check import check
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.size_gaps import advice, mended
from kcurate.records import (
    Arg,
    Buffer,
    BufferArg,
    Candidate,
    Expr,
    Init,
    KnownProblem,
    Launch,
    Origin,
    Outcome,
    PointersArg,
    Problem,
    Side,
    Sizes,
    Step,
    Verdict,
    View,
)

Judging = Callable[[Candidate], Verdict]
# The emulator's padding around a buffer: accesses beyond it fault.
AROUND_BYTES = 4096
# Plain forms: five settings, two forms each. Filled forms have a separate limit of half as many runs, so a
# refused draft takes at most half as long again.
MAX_PLAIN_RUNS = 10
MAX_FILLED_RUNS = 5
# Outcomes that no other sizes or contents can fix.
_FINAL = (Outcome.COMPILE_ERROR, Outcome.STATIC_REJECT, Outcome.UNSUPPORTED, Outcome.HARNESS_ERROR)
MAX_TIMEOUTS = 2
# How many of the sizes that would close gaps are tried one by one if the kernel fails at all of them
# together.
MAX_MENDS = 3
CONSTANT_KINDS = frozenset({"zeros", "ones", "constant"})


@dataclass(frozen=True)
class Admission:
    """The final draft, the last verdict, and the attempts before it, one line each.

    `sizes`: the admitted test sizes, described. `untested`: what they leave untested because the kernel fails
    at the sizes that would test it (None: nothing).
    """

    draft: Draft
    verdict: Verdict
    attempts: tuple[str, ...] = ()
    sizes: str = ""
    untested: str | None = None

    @property
    def admitted(self) -> bool:
        """Whether the problem may be used."""
        return self.verdict.outcome is Outcome.CORRECT

    @property
    def place(self) -> str:
        """Where the draft was run, for people."""
        environment = self.verdict.environment
        return "the emulator" if environment.backend == "emulator" else f"a GPU ({environment.device})"

    def heading(self) -> list[str]:
        """The first lines of the draft's file."""
        first = f"Draft problem of {self.draft.kernel}."
        if self.admitted:
            return [
                f"{first} Admitted on {self.place}, sizes {self.sizes}.",
                "`# guess` marks values that were made up or inferred. The bench sizes were not run.",
                *(f"refused before: {line[:200]}" for line in self.attempts),
                *([f"untested: {self.untested}"] if self.untested else []),
            ]
        return [
            f"{first} NOT admitted; what was tried:",
            *(f"  {line[:200]}" for line in self.attempts),
            f"Fix what is wrong, then run: kcurate problem check {FORM_NAME}",
        ]


def candidate(known: KnownProblem, code: str, name: str) -> Candidate:
    """The kernel as both sides, the second with zeros around its buffers."""
    plain = plain_candidate(known, code, name)
    return replace(plain, fast=_surrounded(plain.slow, known.problem))


def plain_candidate(known: KnownProblem, code: str, name: str) -> Candidate:
    """The kernel as both sides, with no padding around its buffers."""
    (side,) = known.sides.values()
    plain = side.side(code)
    origin, family = Origin("curated"), known.benchmark
    return Candidate(
        name, family, "unclassified", None, origin, (), "", known.problem, slow=plain, fast=plain
    )


def _surrounded(side: Side, problem: Problem) -> Side:
    """The side with zeros around every buffer that its plan uses only as a launch argument."""
    surrounded = {name: buffer for name, buffer in problem.buffers.items() if _movable(name, buffer, side)}
    views, offsets = dict(side.views), dict[str, Expr]()
    for name, buffer in surrounded.items():
        # Rows of the first axis that hold so many bytes.
        rows = -(-(AROUND_BYTES // numpy_dtype(buffer.dtype).itemsize) // row_elements(buffer))
        views[name] = View(pad=((rows, rows), *((0, 0) for _ in buffer.shape[1:])))
        offsets[name] = "*".join([str(rows), *(f"({extent})" for extent in buffer.shape[1:])])
    return replace(side, plan=tuple(_moved(step, offsets) for step in side.plan), views=views)


def _movable(name: str, buffer: Buffer, side: Side) -> bool:
    launched = all(isinstance(step, Launch) or name not in _mentions(step) for step in side.plan)
    return launched and buffer.pad is None and name not in side.views and bool(buffer.shape)


def _mentions(step: Step) -> frozenset[str]:
    return frozenset(str(value) for value in vars(step).values() if isinstance(value, str))


def row_elements(buffer: Buffer) -> int:
    """Elements of one row of the first axis; symbolic inner extents count as 1."""
    return math.prod(extent for extent in buffer.shape[1:] if isinstance(extent, int))


def _moved(step: Step, offsets: Mapping[str, Expr]) -> Step:
    if not isinstance(step, Launch):
        return step

    def pointer(arg: BufferArg) -> BufferArg:
        if arg.buffer not in offsets:
            return arg
        return BufferArg(arg.buffer, f"({arg.offset}) + {offsets[arg.buffer]}")

    def moved(arg: Arg) -> Arg:
        if isinstance(arg, str) and arg in offsets:
            return BufferArg(arg, offsets[arg])
        if isinstance(arg, BufferArg):
            return pointer(arg)
        if isinstance(arg, PointersArg):
            return replace(arg, pointers=tuple(pointer(pointer_arg) for pointer_arg in arg.pointers))
        return arg

    return replace(step, args=tuple(map(moved, step.args)))


def admit(draft: Draft, code: str, judging: Judging, steps: tuple[Settings, ...]) -> Admission:
    """Try a complete draft in its possible forms until one is admitted or none is left."""
    attempts: list[str] = []
    verdict: Verdict | None = None
    timeouts = 0
    for forms, most in ((_plain_forms, MAX_PLAIN_RUNS), (_filled_forms, MAX_FILLED_RUNS)):
        attempts_before = len(attempts)
        for step in steps:
            for form in forms(_with_sizes(draft, step, code)):
                if len(attempts) - attempts_before == most:
                    break
                verdict = judging(candidate(form.known, code, form.kernel))
                if verdict.outcome is Outcome.CORRECT:
                    return _admitted(form, verdict, tuple(attempts), step.what, code, judging)
                attempts.append(f"sizes {step.what}: {verdict.outcome}: {verdict.detail}")
                timeouts += verdict.outcome is Outcome.TIMEOUT
                if verdict.outcome in _FINAL or timeouts == MAX_TIMEOUTS:
                    return Admission(draft, verdict, tuple(attempts))
                if forms is _filled_forms and not _content_matters(verdict):
                    break
    assert verdict is not None, "the ladder has at least one step"
    if draft.one_of_several and _content_matters(verdict):
        attempts.append(
            "nothing was filled: of several configurations one is recorded, another may write the rest"
        )
    return Admission(draft, verdict, tuple(attempts))


def _admitted(
    form: Draft, verdict: Verdict, attempts: tuple[str, ...], sizes: str, code: str, judging: Judging
) -> Admission:
    """The admission with test sizes that leave as little untested as the kernel can do."""

    def works(problem: Problem) -> bool:
        on_problem = candidate(with_problem(form, problem).known, code, form.kernel)
        return judging(on_problem).outcome is Outcome.CORRECT

    (side,) = form.known.sides.values()
    sides = {"kernel": side.side(code)}
    problem = with_closed_gaps(form.known.problem, sides, works)
    return Admission(with_problem(form, problem), verdict, attempts, sizes, advice(problem, sides))


def with_closed_gaps(
    problem: Problem, sides: Mapping[str, Side], works: Callable[[Problem], bool]
) -> Problem:
    """The problem with added test settings that close its gaps, without those at which it fails."""
    before = problem.sizes.test
    without_gaps = mended(problem, sides)
    settings = without_gaps.sizes.test[len(before) :]
    if not settings or works(without_gaps):
        return without_gaps
    for setting in settings[:MAX_MENDS] if len(settings) > 1 else ():
        longer = replace(problem, sizes=replace(problem.sizes, test=(*problem.sizes.test, setting)))
        problem = longer if works(longer) else problem
    return problem


def stricter(problem: Problem, other: Problem) -> bool:
    """Whether a problem varies more than another in sizes or in inputs, and less in neither."""
    variation, other_variation = _varied(problem), _varied(other)
    return variation != other_variation and all(
        a >= b for a, b in zip(variation, other_variation, strict=True)
    )


def _varied(problem: Problem) -> tuple[int, int]:
    """How many sizes differ between trials, and how many inputs hold more than one value."""
    test = problem.sizes.test
    inputs = (buffer.init for buffer in problem.buffers.values() if buffer.role == "in")
    return (
        sum(len({setting[name] for setting in test}) > 1 for name in problem.sizes.headline),
        sum(init is not None and init.kind not in CONSTANT_KINDS for init in inputs),
    )


def _content_matters(verdict: Verdict) -> bool:
    """Whether another role or content may help: outputs partly written, or a problem that proves nothing."""
    weak = verdict.outcome is Outcome.MALFORMED and "deterministic" in verdict.checks
    differ = verdict.outcome is Outcome.MISMATCH and verdict.side == "fast"
    return weak or differ or verdict.outcome is Outcome.NONDETERMINISTIC


def _with_sizes(draft: Draft, step: Settings, code: str) -> Draft:
    """The draft at these test sizes, with its bench sizes halved until the plan can be bound."""
    problem = draft.known.problem
    # Sizes that no buffer or grid depends on stay at a value that was tried.
    loose_values = {name: max(sizes[name] for sizes in step.test) for name in draft.loose}
    bench = {**problem.sizes.headline, **loose_values}
    least = step.test[0]
    while True:
        sized = with_problem(draft, replace(problem, sizes=Sizes(step.test, bench)))
        issues = check(candidate(sized.known, code, draft.kernel))
        if not any(f"sizes {bench}" in issue.what for issue in issues):
            return sized
        smaller = {n: max(v // 2, min(v, least[n])) if v > SMALL else v for n, v in bench.items()}
        if smaller == bench:
            return sized
        bench = smaller


def with_problem(draft: Draft, problem: Problem) -> Draft:
    """The draft with another problem."""
    return replace(draft, known=replace(draft.known, problem=problem))


def _with_buffers(draft: Draft, changed: Mapping[str, Buffer], why: str, places: Iterable[str]) -> Draft:
    """The draft with some buffers changed, and a remark on each place that did."""
    problem = draft.known.problem
    remarks = tuple(Remark(f"buffers.{place}", why) for place in places)
    changed_draft = with_problem(draft, replace(problem, buffers={**problem.buffers, **changed}))
    return replace(changed_draft, remarks=(*draft.remarks, *remarks))


def _plain_forms(draft: Draft) -> Iterator[Draft]:
    """The draft, then the draft with buffers as long as the kernel's indices require."""
    yield draft
    if draft.needs:
        buffers = draft.known.problem.buffers
        shaped = {n: replace(buffers[n], shape=(need, *buffers[n].shape[1:])) for n, need in draft.needs}
        text = "guess, from the kernel's indices; the host allocates a different size"
        yield _with_buffers(draft, shaped, text, [f"{name}.shape" for name in shaped])


def _filled_forms(draft: Draft) -> Iterator[Draft]:
    """Forms with pre-filled outputs, with integer inout buffers from zero, with integers of both signs.

    If the kernel has several configurations, another one may write what this one leaves unwritten; the right
    result is unknown there, so such an output is filled only with its recorded contents.
    """
    problem = draft.known.problem
    recorded = dict(draft.held)
    outs = [
        name for name, buffer in problem.buffers.items()
        if buffer.role == "out" and (name in recorded or not draft.one_of_several)
    ]  # fmt: skip
    filled = {name: _filled(problem.buffers[name], recorded.get(name)) for name in outs}
    if filled:
        text = "only partly written, so the initial contents matter"
        recorded_places = [f"{name}.role" for name in filled if name in recorded]
        guessed = [f"{name}.{key}" for name in filled if name not in recorded for key in ("role", "init")]
        filled_draft = _with_buffers(draft, filled, text, recorded_places)
        yield _with_buffers(filled_draft, filled, f"guess: {text}", guessed)
    zeroed = {
        name: replace(buffer, init=Init("zeros"))
        for name, buffer in problem.buffers.items()
        if buffer.role == "inout" and buffer.init is not None and buffer.init.kind == "integers"
    }
    if zeroed:
        places = [f"{name}.init" for name in zeroed]
        yield _with_buffers(draft, {**filled, **zeroed}, "guess: starts at zero", places)
    signed = {
        name: replace(buffer, init=any_integers(buffer.dtype, signed=True))
        for name, buffer in problem.buffers.items()
        if buffer.init == any_integers(buffer.dtype) and numpy_dtype(buffer.dtype).kind == "i"
    }
    if signed:
        places = [f"{name}.init" for name in signed]
        yield _with_buffers(draft, signed, "guess: integers of both signs", places)


def _filled(buffer: Buffer, recorded: Init | None) -> Buffer:
    if recorded is not None:
        return replace(buffer, role="inout", init=recorded)
    real = buffer.dtype.startswith(("float", "bfloat"))
    init = Init("uniform", {"low": -1, "high": 1}) if real else Init("integers", {"low": 0, "high": 100})
    return replace(buffer, role="inout", init=init)
