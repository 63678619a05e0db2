"""The built-in pairs: well formed, and each side equal to a float64 reference on the emulator at test sizes.

A side that several pairs share is run once. Not covered: what only a GPU can tell (the verdict files beside
the pairs), and the judge itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sampling

from kcurate.backends import open_compiler, open_device
from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.triton import installed
from kcurate.core import codec, store
from kcurate.core.time_limits import RUN_S
from kcurate.judge.agreement import arrays_of, in_order
from kcurate.judge.checks.static import check_source, hints
from kcurate.judge.workers.inside.execute import DeviceProgram
from kcurate.judge.workers.nursery import Nursery, Role
from kcurate.judge.workers.requests import Generate, Run
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.problem.check import check
from kcurate.problem.compare import Comparison, compare
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.problem.inputs.contents import generate
from kcurate.problem.outputs import unordered
from kcurate.problem.program import bind
from kcurate.problem.size_gaps import size_gaps
from kcurate.records import SIDES, Candidate, Problem, Side, SideName
from tests.oracles import ORACLES, Array

ROOT = Path(__file__).parents[1]
FOLDERS = store.find_candidates(ROOT / "pairs")
POISONS = (0x7FC0DEAD, 0x3F8A11CE)
SEED = 20
# With `--sample` a test runs when one of its pairs is taken, or one of these has changed.
SHARED = ("tests/oracles", "tests/test_pairs.py")


@cache
def pair(folder: Path) -> Candidate:
    return store.read_candidate(folder)


@cache
def techniques() -> frozenset[str]:
    vocabulary = json.loads((ROOT / "schemas" / "techniques.json").read_text())
    return frozenset(entry["const"] for entry in vocabulary["oneOf"])


def name_of(folder: Path) -> str:
    return str(folder.relative_to(ROOT / "pairs"))


def different_sides() -> dict[str, list[tuple[Path, Side]]]:
    """Each side once, under the name of the first pair that has it, with all that have it."""
    found: dict[str, list[tuple[Path, Side]]] = {}
    names: dict[str, str] = {}
    for folder in FOLDERS:
        candidate = pair(folder)
        for name in SIDES:
            side: Side = getattr(candidate, name)
            parts = codec.canonical_json([codec.to_data(candidate.problem), codec.to_data(side)])
            first = names.setdefault(store.content_id(parts), f"{name_of(folder)}/{name}")
            found.setdefault(first, []).append((folder, side))
    return found


def different_problems() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for folder in FOLDERS:
        found.setdefault(pair(folder).family, []).append(folder)
    return found


def sampled(name: str, folders: Iterable[Path]) -> Any:
    """A parameter that stands for something of these pairs."""
    return pytest.param(name, marks=pytest.mark.sample(*map(sampling.name_of, folders), also=SHARED), id=name)


SIDES_ONCE = different_sides()
PROBLEMS = different_problems()
SAMPLED_SIDES = [sampled(name, (folder for folder, _ in same)) for name, same in SIDES_ONCE.items()]
SAMPLED_FAMILIES = [sampled(family, folders) for family, folders in PROBLEMS.items()]


def problem_of(candidate: Candidate) -> Problem:
    assert candidate.problem is not None
    return candidate.problem


def reference(
    candidate: Candidate, arrays: Mapping[str, Array], sizes: Mapping[str, int]
) -> Mapping[str, Array]:
    """What the oracle says; scalars as the numbers that the kernels get."""
    scalars = {}
    for name, scalar in problem_of(candidate).scalars.items():
        if isinstance(scalar.dtype, str) and not isinstance(scalar.value, Mapping):
            value = evaluate(scalar.value, sizes) if isinstance(scalar.value, str) else scalar.value
            scalars[name] = float(numpy_dtype(scalar.dtype).type(value))
    return ORACLES[candidate.family](arrays, sizes, scalars)


def compared(
    problem: Problem, name: str, expected: Mapping[str, Array], got: Array, sizes: Mapping[str, int]
) -> Comparison:
    rule = problem.buffers[name].tolerance
    valid = int(np.ravel(expected[rule.valid])[0]) if rule and rule.valid else None
    terms = evaluate(rule.terms, sizes) if rule else 1
    reference = expected[name]
    if unordered(problem.buffers[name]):
        reference, got = (
            in_order(problem, name, rows, valid)[name] for rows in (expected, {**expected, name: got})
        )
        valid = None
    return compare(reference, got, problem.buffers[name].dtype, rule, terms=terms, valid=valid)


def outputs_of(problem: Problem) -> list[str]:
    return [name for name, buffer in problem.buffers.items() if buffer.role in ("out", "inout")]


@pytest.mark.parametrize("name", [sampled(name_of(folder), [folder]) for folder in FOLDERS])
def test_pair_can_be_judged(name: str) -> None:
    folder = ROOT / "pairs" / name
    candidate = pair(folder)
    assert check(candidate) == ()
    for which in SIDES:
        side: Side = getattr(candidate, which)
        assert (*check_source(side), *hints(side)) == ()
    assert candidate.id == name
    assert candidate.domain == folder.parent.name
    assert candidate.license == "Apache-2.0"
    assert candidate.origin.kind == "curated"
    assert candidate.techniques
    assert set(candidate.techniques) <= techniques()
    assert 3 <= len(problem_of(candidate).sizes.test) <= 6


CUDA_SIDES = [one for one in SAMPLED_SIDES if SIDES_ONCE[one.id][0][1].language == "cuda"]
TRITON_SIDES = [one for one in SAMPLED_SIDES if SIDES_ONCE[one.id][0][1].language == "triton"]


@pytest.mark.parametrize("name", CUDA_SIDES)
def test_side_computes_the_reference(name: str) -> None:
    folder, side = SIDES_ONCE[name][0]
    candidate = pair(folder)
    problem = problem_of(candidate)
    program = bind(problem, side, problem.sizes.test[0])
    entries = {
        EntryPoint(*entry): None
        for sizes in problem.sizes.test
        for entry in bind(problem, side, sizes).entry_points
    }
    compiled = open_compiler("emulator").compile(side.code, list(entries), program.symbols)
    assert isinstance(compiled, Compiled), compiled.log
    device = open_device("emulator")
    module = device.load(compiled)
    try:
        for sizes in problem.sizes.test:
            arrays = generate(problem, side, sizes, SEED)
            expected = reference(candidate, arrays, sizes)
            prepared = DeviceProgram(device, module, bind(problem, side, sizes), arrays)
            for poison in POISONS:
                prepared.reset(poison)
                prepared.run()
                outputs = prepared.outputs()
                assert prepared.integrity() == ()
                for output in outputs_of(problem):
                    result = compared(problem, output, expected, outputs[output], sizes)
                    assert result.ok, f"{output} at {dict(sizes)}: {result.detail}"
            prepared.close()
    finally:
        device.close()


@pytest.fixture(scope="module")
def interpreters() -> Iterator[Nursery]:
    nursery = Nursery("emulator", "triton")
    yield nursery
    nursery.close()


@pytest.mark.skipif(installed.version() is None, reason="Triton is not installed")
@pytest.mark.parametrize("name", TRITON_SIDES)
def test_side_in_triton_computes_the_reference(
    name: str, interpreters: Nursery, request: pytest.FixtureRequest
) -> None:
    folder, side = SIDES_ONCE[name][0]
    candidate = pair(folder)
    problem = problem_of(candidate)
    compiled = installed.for_interpreter(side.code)
    assert isinstance(compiled, Compiled), compiled.log
    which: SideName = "fast" if candidate.fast == side else "slow"
    worker = interpreters.fork(Role("run", "emulator"))
    request.addfinalizer(worker.kill)
    proxy = SideProxy(which, worker, RUN_S["emulator"])
    proxy.load(candidate, compiled)
    for number, sizes in enumerate(problem.sizes.test):
        proxy.ask(Generate(str(number), sizes, SEED, "nominal"))
        proxy.wait_for_inputs()
        reply = proxy.call(Run(str(number), POISONS))
        assert reply.body.integrity == ()
        expected = reference(candidate, generate(problem, side, sizes, SEED), sizes)
        for run in range(len(POISONS)):
            got = arrays_of(problem, reply.blobs, sizes, run, outputs_of(problem))
            for output in outputs_of(problem):
                result = compared(problem, output, expected, got[output], sizes)
                assert result.ok, f"{output} at {dict(sizes)}: {result.detail}"


@pytest.mark.parametrize("family", SAMPLED_FAMILIES)
def test_zeros_are_no_answer(family: str) -> None:
    candidate = pair(PROBLEMS[family][0])
    problem = problem_of(candidate)
    sizes = problem.sizes.test[0]
    arrays = generate(problem, candidate.slow, sizes, SEED)
    expected = reference(candidate, arrays, sizes)
    refused = [
        not compared(problem, name, expected, np.zeros_like(expected[name]), sizes).ok
        for name in outputs_of(problem)
    ]
    assert any(refused)


@pytest.mark.parametrize("family", SAMPLED_FAMILIES)
def test_pairs_of_a_family_share_one_problem(family: str) -> None:
    members = [pair(folder) for folder in PROBLEMS[family]]
    assert all(member.problem == members[0].problem for member in members)


@pytest.mark.parametrize("family", SAMPLED_FAMILIES)
def test_test_sizes_leave_nothing_untested(family: str) -> None:
    members = [(name_of(folder), pair(folder)) for folder in PROBLEMS[family]]
    sides: dict[str, Side] = {
        f"{name}/{which}": getattr(one, which) for name, one in members for which in SIDES
    }
    gaps = size_gaps(problem_of(members[0][1]), sides)
    assert not gaps, "\n".join(map(str, gaps))


def test_every_oracle_belongs_to_a_pair() -> None:
    assert set(ORACLES) == set(PROBLEMS)
