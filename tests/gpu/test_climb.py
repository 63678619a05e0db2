"""A search for a fast side on a real GPU: what was measured there stands in the next prompt."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from deopt.models import server, workbench
from deopt.models.server import serving
from deopt.models.workbench import FAST

from kcurate import cli

pytestmark = pytest.mark.gpu
ONE_THREAD = """\
__global__ void scale(const float *x, float *y, int n) {
  if (blockIdx.x == 0 && threadIdx.x == 0)
    for (int i = 0; i < n; ++i) y[i] = 2.0f * x[i];
}
"""
FASTER = FAST.replace("2.0f", "(1.0f + 1.0f)")


def test_prompts_name_the_gpu_and_list_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-test")
    workbench.start(tmp_path, slow=ONE_THREAD)
    with serving(server.message(tool={"code": FASTER})) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        args = ["--model", "claude-opus-4-8", "--direction", "fast", "--rounds", "2", "--backend", "cuda"]
        code = cli.run(["deopt", str(tmp_path / "given"), "-w", str(tmp_path / "work"), "--json", *args])
    out, err = capsys.readouterr()
    assert (code, json.loads(out)["items"]["attempts"]) == (0, {"near_duplicate": 1, "confirmed": 1}), err
    first, second = script.asked
    context = first["messages"][0]["content"][0]["text"]
    gpu = next(line for line in context.splitlines() if line.startswith("GPU: "))
    assert "compute capability" in gpu and "multiprocessors" in gpu and "KiB a block at most" in gpu
    if "H200" in gpu or "H100" in gpu:
        assert "Target: by the data sheet, " in context
    told = server.said(second).partition("as measured:\n")[2].partition("\n\n")[0]
    given, attempt = told.splitlines()
    for line in (given, attempt):
        assert " us; " in line and "of the copy bandwidth" in line and "registers a thread" in line
    if shutil.which("ncu") and "prompts have no counters" not in err:
        assert "load_sectors" in given and "load_sectors" in attempt


def test_each_tool_tells_what_the_judge_or_the_profiler_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-test")
    workbench.start(tmp_path, slow=ONE_THREAD)
    version = {"version": 1}
    calls = [("compile", {"code": FASTER}), *((name, version) for name in ("run_tests", "time", "profile"))]
    calls.append(("submit_version", version))
    actions = [server.message(tool=given, name=name, call=f"c{n}") for n, (name, given) in enumerate(calls)]
    with serving(*actions) as (url, script):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        args = ["--model", "claude-opus-5-5", "--direction", "fast", "--rounds", "1", "--backend", "cuda"]
        code = cli.run(["deopt", str(tmp_path / "given"), "-w", str(tmp_path / "work"), "--json", *args])
    out, err = capsys.readouterr()
    assert (code, json.loads(out)["items"]["attempts"]) == (0, {"confirmed": 1}), err
    compiled, tested, timed, profiled = map(server.said, script.asked[1:])
    assert compiled.startswith("Version 1 compiles. scale: ") and "registers a thread" in compiled
    assert tested.startswith("All tests pass")
    assert "Measured: " in timed and "\nyours: " in timed and "\ngiven: " in timed and " us" in timed
    counted = shutil.which("ncu") and "prompts have no counters" not in err
    assert ("yours: " in profiled) if counted else ("Nothing can be counted here" in profiled)
