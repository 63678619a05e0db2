"""Whole runs: killed and resumed, stopped by a budget, refused in one line; previews."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deopt.models import server, workbench
from deopt.models.server import serving
from deopt.models.workbench import FAST, NO_LDG, NO_UNROLL, ScriptedJudge, seams

from kcurate import cli
from kcurate.core import resources, store
from kcurate.deopt.models import run as run_module
from kcurate.deopt.models.preview import preview
from kcurate.deopt.models.run import run
from kcurate.models.prices import BudgetSpentError, find_price
from kcurate.records import Candidate, Environment, Outcome, Verdict

TESTS = Path(__file__).parents[2]


def answer(handler: server.Handler, body: dict[str, Any], **more: Any) -> None:
    """The right answer for whatever technique is asked about; wrong ones for the first round."""
    task = body["messages"][0]["content"][1]["text"]
    code = NO_UNROLL if "loop-unrolling" in task.splitlines()[0] else NO_LDG
    again = "What was found" in server.said(body)
    server.message(tool={"code": code if again else code.replace("2.0f", "3.0f")}, **more)(handler, body)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-test")


KILLED = """
import os, signal, sys
from pathlib import Path
from deopt.models import workbench
from kcurate.deopt.models.preview import preview
from kcurate.models.prices import find_price
from kcurate.deopt.models.run import run
from kcurate.records import Outcome

count = 0
def judge(candidate):
    global count
    count += 1
    if count == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    wrong = "3.0f" in candidate.slow.code
    return workbench.verdict(candidate, Outcome.MISMATCH if wrong else Outcome.CONFIRMED)

config = workbench.config(Path(sys.argv[1]), "claude-opus-4-8", techniques=workbench.BOTH, concurrency=1)
run(config, seams=workbench.seams(judge))
"""


@pytest.mark.slow
def test_a_run_killed_anywhere_resumes_without_a_repeated_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.start(tmp_path)
    with serving(answer) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("PYTHONPATH", str(TESTS))
        ends = []
        for kill_at in (1, 3):
            done = subprocess.run(
                [sys.executable, "-c", KILLED, str(tmp_path), str(kill_at)],
                check=False, capture_output=True, timeout=60,
            )  # fmt: skip
            ends.append(done.returncode)
        assert ends == [-9, -9], done.stderr
        judge = ScriptedJudge({"3.0f": Outcome.MISMATCH})
        config = workbench.config(tmp_path, "claude-opus-4-8", techniques=workbench.BOTH, concurrency=1)
        summary = run(config, seams=seams(judge))
        asked = Counter(json.dumps(body, sort_keys=True) for body in script.asked)
    assert set(asked.values()) == {1}
    assert len(asked) == 4  # two techniques, two rounds each
    found = store.find_candidates(tmp_path / "work" / "pairs")
    assert {store.read_candidate(folder).slow.code for folder in found} == {NO_UNROLL, NO_LDG}
    assert summary.items["searches"] == {"accepted": 2}


def test_a_spent_budget_ends_the_run_and_a_higher_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.start(tmp_path)
    with serving(partial(answer, usage={"input_tokens": 3000})) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        options: dict[str, Any] = {"techniques": workbench.BOTH, "concurrency": 1, "rounds": 2}
        judge = ScriptedJudge({"3.0f": Outcome.MISMATCH})
        (first_request, *_) = preview(workbench.config(tmp_path, "claude-opus-4-8", **options))
        one = first_request.request
        price = find_price("claude-opus-4-8")
        assert price is not None
        enough = 1.01 * price.most_usd(
            one.size_bytes, one.max_tokens
        )  # less what the first conversation cost
        with pytest.raises(BudgetSpentError, match="does not allow another request"):
            run(workbench.config(tmp_path, "claude-opus-4-8", max_usd=enough, **options), seams=seams(judge))
        first = len(script.asked)
        summary = run(workbench.config(tmp_path, "claude-opus-4-8", **options), seams=seams(judge))
    assert 0 < first < len(script.asked)
    assert summary.items["searches"] == {"accepted": 2}
    assert len({json.dumps(body) for body in script.asked}) == len(script.asked)
    summaries = [
        json.loads(path.read_bytes()) for path in sorted((tmp_path / "work/runs").glob("*/summary.json"))
    ]
    assert sum(summaries[0]["counts"]["searches"].values()) == 2  # the broken-off run is counted too
    assert "unfinished" in summaries[0]["counts"]["searches"]
    (kernel,) = [one for one in summaries[0]["results"] if one["kind"] == "kernels"]
    assert not kernel["passed"] or kernel["outcome"] == "variants"


class NoJudge:
    """In the place of this machine's referees."""

    def __init__(self, *args: object, **options: object) -> None:
        self.judge = ScriptedJudge()

    def environment(self) -> Environment:
        return Environment("cuda", "Test GPU")

    def submit(self, candidate: Candidate) -> Future[Verdict]:
        future: Future[Verdict] = Future()
        future.set_result(self.judge(candidate))
        return future

    def close(self) -> None:
        pass


def command(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *args: str
) -> tuple[int, str, str]:
    """`kcurate deopt` in this process with a scripted judge and quick retries: exit code, stdout, stderr."""
    workbench.start(folder)
    monkeypatch.setattr(run_module, "open_referees", NoJudge)
    monkeypatch.setattr(run_module.Seams, "__init__", _quick_seams)
    code = cli.run(["deopt", str(folder / "given"), "-w", str(folder / "work"), *args])
    out, err = capsys.readouterr()
    return code, out, err


def _quick_seams(self: run_module.Seams) -> None:
    fields = {"judge": None, "patience": workbench.QUICK, "timeout_s": 30.0, "poll_s": 0.05}
    for name, value in fields.items():
        object.__setattr__(self, name, value)


def error_lines(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("error:")]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (server.status(401, "authentication_error"), "the API key was refused (check ANTHROPIC_API_KEY)"),
        (server.status(404, "not_found_error"), "no model 'claude-nonsense' here (check --model"),
        (
            server.status(500),
            "api_error: said the server: api_error, 4 times (all answers so far are saved",
        ),
        (server.status(400, "invalid_request_error"), None),
    ],
    ids=["key", "model", "broken", "rejected"],
)
def test_what_a_server_refuses_is_one_line_and_exit_code_1(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    action: server.Action,
    said: str | None,
) -> None:
    with serving(action) as (url, _):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        args = ["--model", "claude-nonsense", "--json", "--techniques", ",".join(workbench.BOTH)]
        code, out, err = command(tmp_path, capsys, monkeypatch, *args)
    assert "Traceback" not in err
    if said is None:  # two requests alone are no proof against all
        assert (code, json.loads(out)["items"]["attempts"]) == (1, {"rejected": 2})
    else:
        assert (code, json.loads(out)["error"]["kind"]) == (1, "remote")
        (line,) = error_lines(err)
        assert said in line


def test_no_network_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.closed_port())
    code, out, err = command(tmp_path, capsys, monkeypatch, "--model", "claude")
    assert (code, len(error_lines(err))) == (1, 1)
    assert "unfinished\n      the run ended early" in out
    assert "cannot be reached" in error_lines(err)[0]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--model", "claude-nonsense", "--max-usd", "1"], "no price is known for claude-nonsense"),
        (["--model", "openai:q@http://127.0.0.1:1/v1", "--max-usd", "1"], "give --price IN,OUT"),
        (["--model", "claude", "--price", "cheap"], "--price: not a price: 'cheap'"),
        (["--model", "claude", "--max-usd", "inf"], "--max-usd: not an amount"),
        (["--model", "gpt"], "--model: not a model: 'gpt'"),
        (["--model", "openai:q@nowhere"], "--model: not a model"),
        (["--model", "claude", "--techniques", "magic"], "unknown technique 'magic'"),
        (["--model", "openai:q@http://127.0.0.1:1/v1", "--batch"], "--batch works only with Claude models"),
        (["--model", "claude", "--max-usd", "0.0001"], "the budget of $0.00 does not allow another request"),
        (["--direction", "fast"], "rules only make code slower"),
    ],
)
def test_unusable_options_are_reported_before_any_request(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    said: str,
) -> None:
    with serving(server.status(500)) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        code, out, err = command(tmp_path, capsys, monkeypatch, *args)
    names_an_option = said.startswith(("--", "unknown technique", "rules only"))
    assert (code, script.asked) == (2 if names_an_option else 1, [])
    assert "accepted" not in out
    assert said in error_lines(err)[0]


def test_a_preview_needs_no_key_and_shows_prompts_and_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    code, out, err = command(tmp_path, capsys, monkeypatch, "--model", "claude", "--dry-run")
    assert code == 0
    assert FAST.splitlines()[0] in out
    assert "===== own/scale loop-unrolling 1" in out
    assert "3 searches, 0 first answers already saved; the first round costs about $0." in err
    code, out, _ = command(tmp_path, capsys, monkeypatch, "--model", "claude", "--dry-run", "--json")
    shown = json.loads(out)
    assert 0 < shown["likely_usd"] < shown["most_usd"]
    assert [one["on_file"] for one in shown["prompts"]] == [False] * 3


def test_the_first_request_is_the_one_that_was_previewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(answer) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        command(tmp_path, capsys, monkeypatch, "--model", "claude-opus-4-8", "--rounds", "1")
    _, out, _ = command(tmp_path, capsys, monkeypatch, "--model", "claude-opus-4-8", "--dry-run", "--json")
    shown = json.loads(out)["prompts"]
    assert [one["on_file"] for one in shown] == [True] * 3
    contents = {body["messages"][0]["content"][1]["text"] for body in script.asked}
    assert contents == {one["task"] for one in shown}


@pytest.mark.slow
def test_the_emulator_judges_what_a_model_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.start(tmp_path)
    with serving(answer) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        args = ["--model", "claude-opus-4-8", "--techniques", "loop-unrolling", "--backend", "emulator"]
        code = cli.run(["deopt", str(tmp_path / "given"), "-w", str(tmp_path / "work"), "--json", *args])
    out, err = capsys.readouterr()
    assert (code, json.loads(out)["items"]["attempts"]) == (0, {"mismatch": 1, "correct": 1}), err
    feedback = server.said(script.asked[1])
    assert "Its results are wrong: y:" in feedback
    (found,) = store.find_candidates(tmp_path / "work" / "pairs")
    assert store.read_candidate(found).slow.code == NO_UNROLL


TRITON = """\
import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2.0 * tl.load(x + at, mask=at < n), mask=at < n)
"""
TRITON_PLAN = [
    {"launch": "scale", "grid": ["ceil_div(n, 256)"], "args": ["x", "y", "n"], "constexprs": {"BLOCK": 256}}
]


def translated(handler: server.Handler, body: dict[str, Any]) -> None:
    """In Triton; wrong in the first round."""
    again = "What was found" in server.said(body)
    code = TRITON if again else TRITON.replace("2.0", "3.0")
    server.message(tool={"code": code, "plan": TRITON_PLAN})(handler, body)


def test_a_side_is_translated_and_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton", reason="the extra triton is not installed")
    workbench.start(tmp_path, slow=NO_UNROLL)
    with serving(translated) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        args = ["--model", "claude-opus-4-8", "--direction", "translate", "--backend", "emulator"]
        code = cli.run(["deopt", str(tmp_path / "given"), "-w", str(tmp_path / "work"), "--json", *args])
    out, err = capsys.readouterr()
    assert (code, json.loads(out)["items"]["attempts"]) == (0, {"mismatch": 1, "correct": 1}), err
    assert "You write Triton modules" in script.asked[0]["system"][0]["text"]
    shown, told = map(server.said, script.asked)
    assert "Write it as a Triton module" in shown and "What was found" in told
    (found,) = store.find_candidates(tmp_path / "work" / "pairs")
    pair = store.read_candidate(found)
    assert (pair.slow.language, pair.fast.language) == ("cuda", "triton")
    assert pair.id.endswith("/to-triton-claude-opus-4-8-plain-1-climb2")


def test_a_translation_takes_no_technique(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workbench.start(tmp_path)
    args = ["--model", "claude-opus-4-8", "--direction", "translate", "--techniques", "warp-shuffle"]
    assert cli.run(["deopt", str(tmp_path / "given"), "-w", str(tmp_path / "work"), *args]) == 2
    *_, line = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: --direction translate takes neither --techniques nor --policy")


def test_a_source_tree_is_extracted_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = resources.sources_dir() / "demo"
    args = ["-w", str(tmp_path / "work"), "--model", "claude", "--dry-run", "--json"]
    code = cli.run(["deopt", str(tree), *args])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert "extracting first" in err
    goals = [one["goal"] for one in json.loads(out)["prompts"]]
    assert any(goal.startswith("demo/matvec/") for goal in goals)
    assert all(len(goal.split()) == 3 for goal in goals)  # each names its technique


def test_kernels_without_a_technique_are_asked_for_and_without_a_problem_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.start(tmp_path)
    pair = store.read_candidate(tmp_path / "given" / "scale")
    for name, changed in {
        "plain": replace(pair, fast=workbench.side(workbench.SLOW)),
        "unknown": replace(pair, problem=None),
    }.items():
        store.write_candidate(tmp_path / "given" / name, replace(changed, id=f"own/{name}"))
    with serving(answer) as (url, _):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        config = workbench.config(tmp_path, "claude-opus-4-8", techniques=workbench.BOTH)
        summary = run(config, seams=seams(ScriptedJudge()))
    assert summary.items["kernels"] == {"variants": 2, "no_problem": 1}
