"""A kernel in, a faster one out: the judge's words, the diff, a file that changes only when asked to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from deopt.models import server
from deopt.models.server import serving
from deopt.models.workbench import ScriptedJudge, seams

from kcurate import cli
from kcurate.errors import InputError, RemoteError
from kcurate.own.optimize import OptimizeConfig, Optimized, apply, run
from kcurate.records import Candidate, Outcome, Verdict

FILE = """\
#include <cstdio>

__global__ void shift(const float *x, float *y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = x[i] + 1.0f;  // plain
}

void run(const float *x, float *y, int n) { shift<<<(n + 127) / 128, 128>>>(x, y, n); }
"""
FASTER = """\
__global__ void shift(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1.0f;
}
"""
WRONG = FASTER.replace("x[i] + 1.0f", "x[i] + 1.5f")
PLAN = '[{"launch": "shift", "grid": ["ceil_div(n, 64)"], "block": [64], "args": ["x", "y", "n"]}]'


def reply(code: str, plan: str = "") -> server.Action:
    return server.completion(f"```cuda\n{code}```\n" + (f"```json\n{plan}\n```\n" if plan else ""))


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file, and a workspace that has a problem for its kernel: asking ends at a closed port."""
    folder = tmp_path_factory.mktemp("optimize") / "mine"
    folder.mkdir()
    (folder / "k.cu").write_text(FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "k")
        with pytest.raises(RemoteError):
            optimized(folder, server.closed_port())
    return folder


@pytest.fixture
def mine(drafted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    return Path(shutil.copytree(drafted, tmp_path / "mine"))


def optimized(folder: Path, url: str, judge: ScriptedJudge | None = None, **options: int) -> Optimized:
    model = f"openai:m@{url}/v1"
    config = OptimizeConfig(str(folder / "k.cu"), model, folder / "work", launch=None, **options)
    return run(config, seams=seams(judge or ScriptedJudge({"1.5f": Outcome.MISMATCH})))


def test_a_faster_kernel_comes_with_its_interval_and_a_diff_that_applies(mine: Path) -> None:
    with serving(reply(WRONG), reply(FASTER)) as (url, script):
        done = optimized(mine, url, rounds=2)
    assert len(script.asked) == 2
    assert (done.found, done.outcome, done.device) == (True, "confirmed", "Test GPU")
    assert done.attempts[0].startswith("round 1: mismatch: scripted mismatch")
    assert "1.50 times as fast (1.40 to 1.60 at 98% confidence)" in done.attempts[1]
    assert done.summary.items == {"attempts": {"confirmed": 1, "mismatch": 1}}
    assert done.pair is not None and (done.pair / "fast.cu").read_text() == FASTER
    assert "-    y[i] = x[i] + 1.0f;  // plain\n" in done.diff
    assert (mine / "k.cu").read_text() == FILE
    apply(done)
    start, end = FILE.index("__global__"), FILE.index("\n\nvoid run")
    assert (mine / "k.cu").read_text() == FILE[:start] + FASTER.rstrip() + FILE[end:]


def test_asking_goes_on_after_a_faster_kernel_and_the_fastest_is_shown(mine: Path) -> None:
    again = FASTER.replace("int i =", "const int i =")
    slower = FASTER.replace("+ 1.0f", "- -1.0f")

    class Timed(ScriptedJudge):
        def __call__(self, candidate: Candidate) -> Verdict:
            self.ratio = 2.0 if "const int" in candidate.fast.code else 1.2
            return super().__call__(candidate)

    with serving(*map(reply, (FASTER, again, slower))) as (url, script):
        done = optimized(mine, url, Timed(), rounds=2, candidates=2)
    assert len(script.asked) == 4
    assert done.speedup is not None and done.speedup.ratio == 2.0
    assert done.pair is not None and (done.pair / "fast.cu").read_text() == again
    assert [line.split(":")[0] for line in done.attempts] == [
        "round 1",
        "round 1, answer 2",
        "round 2",
        "round 2, answer 2",
    ]


def test_a_file_that_was_edited_meanwhile_is_not_overwritten(mine: Path) -> None:
    with serving(reply(FASTER)) as (url, _):
        done = optimized(mine, url)
    (mine / "k.cu").write_text(FILE + "// mine\n")
    with pytest.raises(InputError, match="changed since it was read"):
        apply(done)
    assert (mine / "k.cu").read_text() == FILE + "// mine\n"


def test_another_launch_is_left_to_a_person(mine: Path) -> None:
    with serving(reply(FASTER, PLAN)) as (url, _):
        done = optimized(mine, url)
    assert done.found and done.diff.startswith("--- a/kernel.cu\n")
    with pytest.raises(InputError, match=r"<<<ceil_div\(n, 64\), 64>>>.*launched in k\.cu:8") as caught:
        apply(done)
    assert "\n" not in str(caught.value)
    assert (mine / "k.cu").read_text() == FILE


def test_kernels_that_are_not_faster_are_not_found(mine: Path) -> None:
    with serving(reply(FASTER)) as (url, script):
        done = optimized(mine, url, ScriptedJudge({"shift": Outcome.NOT_FASTER}, ratio=1.0), rounds=2)
    assert len(script.asked) == 2
    assert (done.found, done.pair, done.diff) == (False, None, "")
    assert [line.split(":")[0] for line in done.attempts] == ["round 1", "round 2"]
    assert "not_faster, 1.00 times as fast" in done.attempts[0]


def test_a_second_run_asks_nothing_again(mine: Path) -> None:
    with serving(reply(FASTER)) as (url, script):
        first = optimized(mine, url)
        again = optimized(mine, url)
    assert len(script.asked) == 3
    assert (again.diff, again.attempts) == (first.diff, first.attempts)


@pytest.mark.slow
def test_the_command_exits_with_1_and_the_reasons_if_no_answer_is_right(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(reply(WRONG)) as (url, _):
        args = ["optimize", str(mine / "k.cu"), "--model", f"openai:m@{url}/v1", "-w", str(mine / "work")]
        assert cli.run([*args, "--rounds", "1", "--backend", "emulator", "--apply", "--json"]) == 1
    out, err = capsys.readouterr()
    said = json.loads(out)["optimized"]
    assert (said["found"], said["applied"], said["outcome"]) == (False, False, "mismatch")
    assert said["attempts"][0].startswith("round 1: mismatch: y: ")
    assert err.splitlines()[-1].startswith(f"error: {mine}/k.cu: no faster kernel in 1 answers")
    assert (mine / "k.cu").read_text() == FILE


@pytest.mark.slow
def test_without_a_gpu_a_correct_kernel_is_found_and_no_times_are_claimed(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(reply(FASTER)) as (url, _):
        args = ["optimize", str(mine / "k.cu"), "--model", f"openai:m@{url}/v1", "-w", str(mine / "work")]
        assert cli.run([*args, "--backend", "emulator", "--apply"]) == 0
    out = capsys.readouterr().out
    assert "no times are taken here, so whether it is faster is not known" in out
    assert f"applied to {mine}/k.cu\n" in out and "times as fast" not in out
    assert "  if (i < n) y[i] = x[i] + 1.0f;\n" in (mine / "k.cu").read_text()


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["none.cu", "--model", "claude"], "cannot read: No such file"),
        (["k.cu:other", "--model", "claude"], "no kernel 'other' here"),
        (["k.cu", "--model", "gpt"], "--model: not a model: 'gpt'"),
        (["k.cu", "--model", "openai:m@http://127.0.0.1:9/v1", "--launch", "1, 2"], "is launched in k.cu:8"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    mine: Path,
    args: list[str],
    what: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(mine)
    code = 2 if "--" in what or "launched in" in what else 1
    assert cli.run(["optimize", *args, "--backend", "emulator", "-w", "work"]) == code
    lines = capsys.readouterr().err.splitlines()
    assert what in lines[-1] and lines[-1].startswith("error: ")
