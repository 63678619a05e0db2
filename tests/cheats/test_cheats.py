"""Every cheat gets an expected outcome, and the next honest candidate is judged normally.

A case is a pair folder beside this file; `expected.toml` lists its possible outcomes on each backend. Static
checks and compiling are tested on any machine, runs on the emulator and, with a GPU, on CUDA.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kcurate.backends.base import Compiled
from kcurate.backends.triton import installed
from kcurate.core import store, time_limits
from kcurate.judge import admission, needless, thread_orders
from kcurate.judge.case import Case, Ruling
from kcurate.judge.checks import static
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.judge.workers import compiling
from kcurate.judge.workers.nursery import Nursery, Role
from kcurate.records import SIDES, Candidate, Environment, Outcome, Verdict

HERE = Path(__file__).parent
HONEST = "honest_fma"
# The rows of the README's table of classes.
CLASSES = tuple(re.findall(r"^\| `(\w+)` \|", (HERE / "README.md").read_text(), re.MULTILINE))
# Cases that must stay; others may be added.
LISTED = """
    empty_kernel zeros const_mean hard_n tail_skip dev_counter dev_cache nan_fill bf16_acc zero_inputs
    missing_sync oob_write smem_over literal_plan malloc_stash int_as_ptr in_place_twice copy_slow honest_2pct
    inf_loop illegal_addr include_passwd template_bomb slow_nanosleep honest_atomics honest_fma
    honest_const_table
""".split()  # noqa: SIM905
# With `--sample` a case runs when it is sampled, or one of these has changed.
SHARED = ("tests/cheats/test_cheats.py", "tests/cheats/expected.toml")
# Shorter than the real limits, which a hang or a compiler bomb exceeds just as well.
BOMBS = ("template_bomb", "endless_macro", "triton_endless_compile")
BOMB_TIMEOUT_S = 2.0
HANG_TIMEOUT_S = 3.0
# Of inputs and orders of threads: with a fresh one, one judgement in hundreds misses a race that others find.
SEED = 1
# What may leave something behind for the next candidate.
ENDED_BADLY = (
    Outcome.COMPILE_ERROR, Outcome.LAUNCH_ERROR, Outcome.TIMEOUT, Outcome.MISMATCH, Outcome.NONDETERMINISTIC,
)  # fmt: skip
# Seconds for searches that elsewhere end sooner.
PATIENT_S = 60.0


@dataclass(frozen=True)
class Expected:
    """The possible outcomes of a case on each backend, and the side at fault (None: neither).

    `class_` (in the file: `class`) is the weakness that the case is about, one of `CLASSES`.
    """

    cuda: tuple[str, ...]
    emulator: tuple[str, ...]
    class_: str
    side: str | None = None
    gpu_only: str | None = None
    emulator_only: str | None = None


def load() -> dict[str, Expected]:
    table = tomllib.loads((HERE / "expected.toml").read_text())
    return {
        name: Expected(
            **{
                "class_" if key == "class" else key: tuple(value) if isinstance(value, list) else value
                for key, value in row.items()
            }
        )
        for name, row in table.items()
    }


CASES = load()
BEFORE_RUNNING = {"malformed", "static_reject"}
# Problems that are too weak (class B) are refused for what their reference gives.
STATIC = sorted(
    name
    for name, expected in CASES.items()
    if {*expected.cuda, *expected.emulator} <= BEFORE_RUNNING and expected.class_ != "B"
)
# Refused for what their compiled kernels never read.
UNREAD = sorted(name for name, one in CASES.items() if one.class_ == "E" and one.cuda == ("static_reject",))
IN_TRITON = {
    path.parent.name
    for path in HERE.glob("*/fast.py")
    if '"language": "triton"' in (path.parent / "pair.json").read_text()
}
NO_TRITON = pytest.mark.skipif(installed.version() is None, reason="Triton is not installed")
COMPILED = [
    pytest.param(
        name,
        marks=[
            pytest.mark.sample(f"tests/cheats/{name}", also=SHARED),
            *([NO_TRITON] if name in IN_TRITON else []),
        ],
    )
    for name in sorted(set(CASES) - set(STATIC))
]


def candidate(name: str) -> Candidate:
    return store.read_candidate(HERE / name)


def admit(one: Candidate) -> Ruling | None:
    """The ruling before anything is compiled; None if the case is admitted."""
    case = Case(one, "key", Environment("none", "none"))
    try:
        admission.admit_plans(case)
        admission.admit_sources(case)
    except Ruling as ruling:
        return ruling
    return None


def test_every_case_has_an_expectation() -> None:
    folders = {path.parent.name for path in HERE.glob("*/pair.json")}
    assert folders == set(CASES)
    assert set(LISTED) <= folders
    outcomes = {str(outcome) for outcome in Outcome} - {"harness_error"}
    for expected in CASES.values():
        assert expected.cuda
        assert {*expected.cuda, *expected.emulator} <= outcomes


def test_every_case_has_a_class_of_the_readme() -> None:
    assert {expected.class_ for expected in CASES.values()} <= set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_two_cheats_and_an_honest_control(name: str) -> None:
    cases = [case for case, expected in CASES.items() if expected.class_ == name]
    honest = [case for case in cases if case.startswith("honest_")]
    assert honest
    assert len(cases) - len(honest) >= 2


@pytest.mark.parametrize("name", STATIC)
def test_static_cases_are_refused_before_compiling(name: str) -> None:
    ruling = admit(candidate(name))
    assert ruling is not None
    assert ruling.outcome in CASES[name].cuda
    assert ruling.detail
    if ruling.outcome is Outcome.STATIC_REJECT:
        assert ruling.side == CASES[name].side


@pytest.fixture(scope="module")
def compilers() -> Iterator[compiling.CompileWorkers]:
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")
    nursery = Nursery("cuda")
    workers = compiling.CompileWorkers(nursery, Role("compile", "cuda"))
    yield workers
    workers.close()
    nursery.close()


@pytest.mark.parametrize("name", COMPILED)
def test_other_cases_compile_unless_a_compile_error_is_expected(
    name: str, compilers: compiling.CompileWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in BOMBS:
        shorten(monkeypatch)
    one = candidate(name)
    ruling = admit(one)
    log = ""
    if ruling is None:
        made = compilers.compile([compiling.request_of(one, side) for side in SIDES])
        binaries = [binary for binary in made if isinstance(binary, Compiled)]
        log = "".join(getattr(answer, "log", "") for answer in made)
        found = {
            side: static.check_binary(binary, getattr(one, side))
            for binary, side in zip(made, SIDES, strict=True)
            if isinstance(binary, Compiled)
        }
        refused = [side for side, findings in found.items() if findings]
        by_binary = CASES[name].cuda == ("static_reject",) and name not in UNREAD
        assert refused == ([CASES[name].side] if by_binary else [])
    else:
        assert ruling.outcome is Outcome.COMPILE_ERROR
        binaries, log = [], f"{ruling.detail}{ruling.log}"
    assert (len(binaries) < len(SIDES)) == (CASES[name].cuda == ("compile_error",)), log
    assert "root:" not in log


@pytest.mark.parametrize("name", sorted({*UNREAD} - {*STATIC}))
def test_what_a_made_slow_side_never_reads_is_refused(name: str, compilers: compiling.CompileWorkers) -> None:
    case = Case(candidate(name), "key", Environment("cuda", "none"))
    with pytest.raises(Ruling) as refused:
        admission.admit_binaries(case, compiling.compile_case(case, compilers))
    assert refused.value.outcome is Outcome.STATIC_REJECT
    assert refused.value.side == CASES[name].side


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("COMPILE_SIDE_S", "COMPILE_TRITON_S"):
        monkeypatch.setattr(time_limits, limit, BOMB_TIMEOUT_S)


def check(verdict: Verdict, name: str, allowed: tuple[str, ...]) -> None:
    assert verdict.outcome in allowed, f"{verdict.outcome}: {verdict.detail}"
    if not verdict.outcome.correct and verdict.outcome is not Outcome.MALFORMED:
        assert verdict.side == CASES[name].side
    assert "root:" not in (verdict.log or "")


@pytest.fixture(scope="module")
def emulator() -> Iterator[Judge]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(time_limits.RUN_S, "emulator", HANG_TIMEOUT_S)
        # A busy machine must not leave out what these cases are refused for.
        patch.setattr(needless, "TRYING_S", PATIENT_S)
        patch.setattr(needless, "BENCH_S", PATIENT_S)
        patch.setattr(thread_orders, "QUICK_S", PATIENT_S)
        one = Judge(JudgeConfig(backend="emulator", counted=True, seed=SEED))
        yield one
        one.close()


@pytest.mark.parametrize("name", COMPILED)
def test_on_the_emulator(name: str, emulator: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in BOMBS:
        shorten(monkeypatch)
    if CASES[name].gpu_only:  # a search takes long, and would find nothing
        monkeypatch.setattr(emulator, "config", replace(emulator.config, counted=False))
    verdict = emulator.judge(candidate(name))
    check(verdict, name, CASES[name].emulator)
    monkeypatch.undo()
    if verdict.outcome in ENDED_BADLY:
        after = emulator.judge(candidate(HONEST))
        assert after.outcome is Outcome.CORRECT, after.detail


@pytest.fixture(scope="module")
def gpu() -> Iterator[Judge]:
    one = Judge(JudgeConfig(backend="cuda"))
    yield one
    one.close()


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(name for name, case in CASES.items() if not case.emulator_only))
def test_on_a_gpu(name: str, gpu: Judge) -> None:
    check(gpu.judge(candidate(name)), name, CASES[name].cuda)
    after = gpu.judge(candidate(HONEST))
    assert after.outcome is Outcome.CONFIRMED, after.detail
