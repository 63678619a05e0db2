"""Sides in Triton: what launches are compiled for, cubins without a GPU, the sandbox of the workers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kcurate.backends.base import Compiled, CompileFailure
from kcurate.backends.triton import installed
from kcurate.core import codec, store
from kcurate.core.resources import pairs_dir
from kcurate.judge.admission import admit_plans
from kcurate.judge.case import Case, Ruling
from kcurate.judge.checks.static import check_binary
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.judge.workers import compiling
from kcurate.judge.workers.nursery import Nursery, Role
from kcurate.problem.check import check
from kcurate.problem.program import bind
from kcurate.records import BufferArg, Candidate, Environment, Launch, Outcome, ValueArg
from kcurate.triton_source import Specialised
from kcurate.verdicts.keys import verdict_key

CHEATS = Path(__file__).parents[1] / "cheats"
needs_triton = pytest.mark.skipif(installed.version() is None, reason="Triton is not installed")


def honest() -> Candidate:
    return store.read_candidate(CHEATS / "honest_triton")


def with_launch(**changes: object) -> Candidate:
    one = honest()
    (launch,) = one.fast.plan
    assert isinstance(launch, Launch)
    return replace(one, fast=replace(one.fast, plan=(replace(launch, **changes),)))  # type: ignore[arg-type]


def template(one: Candidate, n: int) -> tuple[str, ...]:
    assert one.problem is not None
    ((_, found),) = bind(one.problem, one.fast, {"n": n}).entry_points
    return found


def test_arguments_are_specialised_as_tritons_launcher_does() -> None:
    tail = ("BLOCK=256", "@num_warps=4", "@num_stages=3")
    assert template(honest(), 1024) == ("*fp32:16", "*fp32:16", "*fp32:16", "i32:16", *tail)
    assert template(honest(), 1023) == ("*fp32:16", "*fp32:16", "*fp32:16", "i32", *tail)
    assert template(honest(), 1) == ("*fp32:16", "*fp32:16", "*fp32:16", "=1", *tail)
    other = with_launch(args=(BufferArg("a", 4), BufferArg("b", 3), "out", ValueArg("n*16", "int64")))
    assert template(other, 7)[:4] == ("*fp32:16", "*fp32", "*fp32:16", "i64:16")


def test_an_argument_of_one_is_not_passed() -> None:
    one = honest()
    assert one.problem is not None
    (op,) = bind(one.problem, one.fast, {"n": 1}).ops
    assert len(op.args) == 3  # type: ignore[union-attr]
    assert op.block == (128, 1, 1)  # type: ignore[union-attr]


def test_a_template_says_all_that_a_launch_is_compiled_for() -> None:
    found = template(with_launch(constexprs={"BLOCK": "n", "EVEN": True, "EPS": 0.5, "BY": "'mean'"}), 64)
    assert Specialised.of(found).template == found
    assert Specialised.of(found).constants == {"BLOCK": 64, "EVEN": True, "EPS": 0.5, "BY": "mean"}


def without_b() -> Candidate:
    """The pair with `None` for `b`, which the fast side then leaves out; the sides are not equal."""
    one = with_launch(args=("a", "out", "n"), nulls=("b",))
    code = one.fast.code.replace("y = tl.load(b + at, mask=inside)", "y = 0.0 if b is None else tl.load(b)")
    return replace(one, fast=replace(one.fast, code=code))


def test_a_parameter_may_get_none() -> None:
    assert not list(check(without_b()))
    assert "b=null" in template(without_b(), 64)
    named = with_launch(nulls=("c",))
    assert "'c' in nulls is no parameter" in str(check(named)[0])
    (launch,) = honest().slow.plan
    cuda = replace(honest(), slow=replace(honest().slow, plan=(replace(launch, nulls=("b",)),)))  # type: ignore[arg-type]
    assert "are for launches in Triton" in str(check(cuda)[0])


def test_launches_of_the_other_language_are_errors() -> None:
    one = with_launch(block=(128,))
    assert "a launch in Triton has no block" in str(check(one)[0])
    (launch,) = one.slow.plan
    assert isinstance(launch, Launch)
    cuda = replace(one, slow=replace(one.slow, plan=(replace(launch, num_warps=8),)))
    assert "are for launches in Triton" in str(check(cuda)[0])


def test_fields_for_triton_change_no_other_key() -> None:
    """The keys of verdicts on file stay: fields at their default are left out."""
    one = store.read_candidate(CHEATS / "honest_fma")
    assert "num_warps" not in str(codec.to_data(one))
    assert verdict_key(one) == "22c85140099d45a0"


@pytest.fixture(scope="module")
def compilers() -> Iterator[compiling.CompileWorkers]:
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")
    nursery = Nursery("cuda")
    workers = compiling.CompileWorkers(nursery, Role("compile", "cuda", 0, {"arch": "sm_90"}))
    yield workers
    workers.close()
    nursery.close()


def compiled(one: Candidate, compilers: compiling.CompileWorkers) -> Compiled | CompileFailure:
    return compilers.compile([compiling.request_of(one, "fast")])[0]


@needs_triton
def test_a_cubin_has_a_kernel_for_each_specialisation(compilers: compiling.CompileWorkers) -> None:
    from kcurate.backends.cuda import cubin

    made = compiled(honest(), compilers)
    assert isinstance(made, Compiled), made.log
    assert made.compiler.startswith(f"triton {installed.version()} ptxas ")
    sizes = {len(cubin.parameters(made.binary, symbol)) for symbol in made.lowered.values()}
    assert sizes == {5, 6}  # three pointers and a size that may be a constant, then two to scratch memory
    assert set(made.dynamic_shared) == set(made.lowered.values())
    assert {one.kernel for one in made.resources} == set(made.lowered.values())


@needs_triton
def test_none_is_no_parameter_of_the_cubin(compilers: compiling.CompileWorkers) -> None:
    from kcurate.backends.cuda import cubin

    made = compiled(without_b(), compilers)
    assert isinstance(made, Compiled), made.log
    sizes = {len(cubin.parameters(made.binary, symbol)) for symbol in made.lowered.values()}
    assert sizes == {4, 5}


def with_type(name: str) -> Candidate:
    """The pair with a type among its constants."""
    (launch,) = honest().fast.plan
    assert isinstance(launch, Launch)
    one = with_launch(constexprs={**launch.constexprs, "KIND": f"'{name}'"})
    code = one.fast.code.replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, KIND: tl.constexpr")
    code = code.replace("x = tl.load(a + at, mask=inside)", "x = tl.load(a + at, mask=inside).to(KIND)")
    assert "KIND: tl.constexpr" in code and ".to(KIND)" in code
    return replace(one, fast=replace(one.fast, code=code))


@needs_triton
@pytest.mark.parametrize("name", ["tl.float32", "tl.fp32"])
def test_a_constant_may_be_a_type(name: str, compilers: compiling.CompileWorkers) -> None:
    one = with_type(name)
    assert template(one, 64)[-3:] == (f'KIND="{name}"', "@num_warps=4", "@num_stages=3")
    made = compiled(one, compilers)
    assert isinstance(made, Compiled), made.log
    judge = Judge(JudgeConfig("emulator"))
    verdict = judge.judge(one)
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
    wrong = judge.judge(with_type("tl.float33"))
    judge.close()
    assert not wrong.outcome.correct and "no type 'tl.float33'" in f"{wrong.detail} {wrong.log}"


@needs_triton
def test_options_of_the_maths_library_are_not_left_as_variables(compilers: compiling.CompileWorkers) -> None:
    one = store.read_candidate(pairs_dir() / "deep-learning" / "layernorm-triton")
    made = compiled(one, compilers)
    assert isinstance(made, Compiled), made.log
    assert check_binary(made, one.fast) == ()


def test_a_slow_side_by_a_model_beside_triton_is_not_judged() -> None:
    by_rule = replace(honest(), origin=replace(honest().origin, kind="rule", made="slow"))
    admit_plans(Case(by_rule, "key", Environment("none", "none")))
    made = replace(by_rule, origin=replace(by_rule.origin, kind="model"))
    with pytest.raises(Ruling) as found:
        admit_plans(Case(made, "key", Environment("none", "none")))
    assert found.value.outcome is Outcome.UNSUPPORTED


# Each is refused in a worker that has imported Triton and entered its sandbox.
ESCAPES = """
import os, socket, sys
from kcurate.backends.triton import installed
from kcurate.judge.workers.inside import isolation
installed.preload("cuda")
if not all(isolation.enter("compile", "cuda", "triton").values()):
    sys.exit("this machine has no sandbox")
for escape in (
    lambda: open("/etc/passwd"),
    lambda: open("here", "w"),
    lambda: os.listdir("/root"),
    lambda: os.fork(),
    lambda: os.execv("/bin/true", ["true"]),
    lambda: socket.socket(),
    lambda: os.kill(os.getppid(), 0),
):
    try:
        escape()
    except OSError:
        print("refused")
"""


@needs_triton
def test_the_sandbox_holds_without_the_list(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ESCAPES], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
    )
    if "no sandbox" in done.stderr:
        pytest.skip("this machine has no Landlock or no privilege for it")
    assert done.stdout.split() == ["refused"] * 7, done.stderr


@needs_triton
def test_the_verdict_names_the_interpreter() -> None:
    judge = Judge(JudgeConfig(backend="emulator"))
    try:
        verdict = judge.judge(honest())
    finally:
        judge.close()
    assert verdict.outcome is Outcome.CORRECT
    assert verdict.detail == "both sides agree; Triton's interpreter and the emulator are not timed"
    assert verdict.environment.details["fast_compiler"] == f"triton {installed.version()} interpreter"
    assert "triton" in verdict.checks


@needs_triton
@pytest.mark.slow
def test_one_judge_goes_on_to_further_candidates_of_two_triton_sides() -> None:
    """Workers are forked in the background after a candidate: those of the next must wait for that."""
    judge = Judge(JudgeConfig(backend="emulator"))
    one = honest()
    for number in range(3):
        slow = replace(one.fast, code=f"{one.fast.code}\nNUMBER = {number}\n")
        verdict = judge.judge(replace(one, slow=slow))
        assert verdict.outcome is Outcome.CORRECT, verdict.detail
    judge.close()


def test_a_side_in_triton_without_triton_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", lambda: None)
    judge = Judge(JudgeConfig(backend="emulator"))
    try:
        verdict = judge.judge(honest())
    finally:
        judge.close()
    assert verdict.outcome is Outcome.UNSUPPORTED
    assert verdict.detail == installed.MISSING
