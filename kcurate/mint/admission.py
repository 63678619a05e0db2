"""Admits a composed graph: its tests reject wrong answers and accept rounding, and its plain side is right.

The planted wrong answers are the judge's (`kernelbench.strength`), the reference for rounding is the module
in float64, and the plain side runs on the emulator against the module. All of this is our own text. Not
covered: which graphs, what is written (`stage`).
"""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from kcurate.backends import torch_module
from kcurate.backends.base import CompileFailure, EntryPoint, KernelFault
from kcurate.backends.emulator.compiler import EmulatorCompiler
from kcurate.backends.emulator.device import EmulatorDevice
from kcurate.cuda_source.text.features import techniques
from kcurate.errors import ProblemError
from kcurate.judge.agreement import differs
from kcurate.judge.workers.inside.execute import DeviceProgram
from kcurate.kernelbench.strength import POISONS, ModuleUnderTest
from kcurate.mint.graph import Graph
from kcurate.mint.known_graphs import family_of
from kcurate.mint.naive import naive_side
from kcurate.mint.problem import module_side, problem_of
from kcurate.mint.schedules.sides import Answer, fast_side
from kcurate.mint.schedules.triton_side import triton_side
from kcurate.mint.statement import statement
from kcurate.problem import program
from kcurate.problem.compare import widened
from kcurate.records import Candidate, Origin, Problem

# The inputs on which the plain side is compared with the module, at every test size.
COMPARED = ("nominal", "extremes", "structured")
DOMAIN = "deep-learning"
# The last parts of the ids of answers.
CUDA, TRITON = "schedules", "triton"


class Admission(StrEnum):
    """What became of a composed graph."""

    ADMITTED = "admitted"
    NOT_FINITE = "not_finite"
    WEAK = "weak_tests"
    ROUNDING = "rounding_refused"
    PLAIN_WRONG = "plain_side_differs"


@dataclass(frozen=True)
class Minting:
    """One graph to admit: its number in the order of composing, and the seed of all of them."""

    graph: Graph
    seed: int
    number: int

    @property
    def text_seed(self) -> int:
        """The seed of names, habits and wordings."""
        return self.seed * 1_000_003 + self.number


@dataclass(frozen=True)
class Minted:
    """What became of a graph, with `why` if it was not admitted; CPU seconds.

    `candidates`: PyTorch against the plain side, and the plain side against each answer that agrees.
    """

    outcome: Admission
    why: str = ""
    candidates: tuple[Candidate, ...] = ()
    cpu_s: float = 0.0


def admit(minting: Minting) -> Minted:
    """Admit one graph; runs in a worker process."""
    start_s = _cpu_s()
    torch_module.plain_arithmetic()
    answers: tuple[Candidate, ...] = ()
    for graph in (minting.graph, _eased(minting.graph)):
        plain = candidate_of(minting, graph)
        try:
            assert plain.problem is not None, "it was composed with one"
            module = ModuleUnderTest(plain.problem, plain.slow, exact=module_side(graph, exact=True))
            outcome, why, plain = _tried(module, plain)
            if outcome is Admission.ADMITTED:
                plain = _worded(minting, graph, plain)
                # Interpreting Triton here takes longer than all the rest; the judge will see.
                answers = tuple(
                    answer
                    for answer in answers_of(graph, plain, minting.text_seed)
                    if not (answer.fast.language == "cuda" and _difference(module, answer))
                )
        except ProblemError as error:
            outcome, why = Admission.NOT_FINITE, error.what
        if outcome not in (Admission.NOT_FINITE, Admission.ROUNDING):
            break
    admitted = outcome is Admission.ADMITTED
    return Minted(outcome, why, (plain, *answers) if admitted else (), _cpu_s() - start_s)


def _cpu_s() -> float:
    """CPU seconds of this process and of the compilers that it ran."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in used)


def _eased(graph: Graph) -> Graph:
    """The graph with inputs of few negative values, so that sums do not cancel, nor tails of activations."""
    inputs = [
        replace(value, values="mostly_positive") if value.values == "normal" else value
        for value in graph.inputs
    ]
    return replace(graph, inputs=tuple(inputs))


def candidate_of(minting: Minting, graph: Graph) -> Candidate:
    """The pair of a graph (that of `minting`, or eased): eager PyTorch, and the plain side."""
    names = ", ".join(node.operator.replace("_", " ") for node in graph.nodes)
    return Candidate(
        id=f"minted/{minting.graph.key}/plain",
        family=family_of(graph),
        domain=DOMAIN,
        license="Apache-2.0",
        origin=Origin("minted", problem="composed", seed=minting.text_seed),
        techniques=(),
        description=f"Composed of {names}, in {graph.dtype}; eager PyTorch, against one kernel per operator.",
        problem=problem_of(graph, statement(graph, minting.text_seed)),
        slow=module_side(graph),
        fast=naive_side(graph, minting.text_seed),
    )


def _tried(module: ModuleUnderTest, candidate: Candidate) -> tuple[Admission, str, Candidate]:
    """What becomes of the candidate, why, and the candidate with the tolerance that it needs."""
    if not module.finite():
        return Admission.NOT_FINITE, "a result is infinite or NaN", candidate
    if not module.rounding_within_tolerance():
        module.problem = _scaled(module)
        if not module.rounding_within_tolerance():
            why = "the module's own rounding takes more than a quarter of the tolerance"
            return Admission.ROUNDING, why, candidate
    candidate = replace(candidate, problem=module.problem)
    if (difference := _difference(module, candidate)) is not None:
        return Admission.PLAIN_WRONG, difference, candidate
    idle = module.idle_input()
    weakness = f"{idle} does not matter" if idle else module.weakness()
    return (Admission.WEAK, weakness, candidate) if weakness else (Admission.ADMITTED, "", candidate)


def _scaled(module: ModuleUnderTest) -> Problem:
    """The problem with the magnitude of results as that of their terms.

    Where sums nearly cancel in a short row, rounding is small beside the terms and large beside the sums.
    """
    buffers = dict(module.problem.buffers)
    for name, buffer in buffers.items():
        if buffer.tolerance is not None:
            results = [module.expected[t.slot][name] for t in module.trials if t.variation == "nominal"]
            squares = np.mean(np.concatenate([widened(array).ravel() for array in results]) ** 2)
            tolerance = replace(buffer.tolerance, scale=float(f"{np.sqrt(squares):.2g}"))
            buffers[name] = replace(buffer, tolerance=tolerance)
    return replace(module.problem, buffers=buffers)


def _worded(minting: Minting, graph: Graph, candidate: Candidate) -> Candidate:
    """The candidate with a statement that tells the scales of its tolerances."""
    assert candidate.problem is not None, "it was composed with one"
    tolerances = {name: buffer.tolerance for name, buffer in candidate.problem.buffers.items()}
    scales = {name: t.scale for name, t in tolerances.items() if t is not None and t.scale is not None}
    text = statement(graph, minting.text_seed, scales)
    return replace(candidate, problem=replace(candidate.problem, statement=text))


def _difference(module: ModuleUnderTest, candidate: Candidate) -> str | None:
    """How the fast side of a pair differs from the module on the emulator; None if it agrees."""
    problem, side = module.problem, candidate.fast
    bound = program.bind(problem, side, problem.sizes.test[0])
    entries = [EntryPoint(name, template) for name, template in bound.entry_points]
    compiled = EmulatorCompiler().compile(side.code, entries)
    if isinstance(compiled, CompileFailure):
        return f"it does not compile: {compiled.log}"
    with contextlib.closing(EmulatorDevice()) as device:
        loaded = device.load(compiled)
        for trial in module.trials:
            if trial.variation not in COMPARED:
                continue
            bound = program.bind(problem, side, trial.sizes)
            with contextlib.closing(DeviceProgram(device, loaded, bound, module.values(trial))) as prepared:
                prepared.reset(POISONS[0])
                try:
                    prepared.run()
                except KernelFault as fault:
                    return f"{trial.text}: {fault}"
                outputs, harmed = prepared.outputs(), prepared.integrity()
            if harmed:
                return f"{trial.text}: it {harmed[0]}"
            for name in outputs:
                if difference := differs(problem, trial.sizes, name, module.expected[trial.slot], outputs):
                    return f"{trial.text}: {name}: {difference}"
    return None


def answers_of(graph: Graph, plain: Candidate, text_seed: int) -> tuple[Candidate, ...]:
    """The plain side against an answer in CUDA, and against one in Triton where its language suffices.

    `plain`: the pair of the module and the plain side.
    """
    answers = {CUDA: fast_side(graph, text_seed), TRITON: triton_side(graph)}
    return tuple(_pair(plain, name, answer) for name, answer in answers.items() if answer is not None)


def _pair(plain: Candidate, name: str, answer: Answer) -> Candidate:
    fused = ["kernel-fusion"] if len(answer.side.plan) < len(plain.fast.plan) else []
    # Those in which the sides differ: both keep narrow types and compute in float32.
    shown = {*techniques(answer.side.code.encode())} if name == CUDA else set[str]()
    shown -= {*techniques(plain.fast.code.encode())}
    return replace(
        plain,
        id=f"{plain.id.rsplit('/', 1)[0]}/{name}",
        origin=replace(plain.origin, rules=answer.schedules),
        techniques=tuple(sorted({*shown, *fused})),
        description=_description(plain, answer),
        slow=plain.fast,
        fast=answer.side,
    )


def _description(plain: Candidate, answer: Answer) -> str:
    composed = plain.description.partition(";")[0]
    schedules = ", ".join(dict.fromkeys(answer.schedules))
    return f"{composed}; one kernel per operator, against {len(answer.side.plan)} by schedules: {schedules}."
