"""The tutorials, run as they stand: their files, commands, and every line of output that they show."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from deopt.models import server
from deopt.models.server import serving

from kcurate.cli.app import build
from kcurate.problem.expressions import evaluate

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
COOKBOOK = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
DATASET_PAGE = (ROOT / "docs" / "dataset-tutorial.md").read_text(encoding="utf-8")
ROLLED = """```cuda
__global__ void scale_kernel(const float *in, float *out, float factor, int n) {
  int first = blockIdx.x * 1024 + threadIdx.x;
  for (int i = first; i < first + 1024 && i < n; i += 256) out[i] = in[i] * factor;
}
```"""
WRONG = """
__global__ void row_sums(const float *matrix, float *sums, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float even = 0.0f, odd = 0.0f;
  for (int col = 0; col < cols; col += 2) even += matrix[row * cols + col];
  for (int col = 1; col < cols; col += 2) odd += matrix[row * cols + col];
  sums[row] = even - odd;
}
"""


def blocks(language: str, page: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[tuple[str, list[str]]]:
    """Every command, with the lines of output shown below it."""
    found: list[tuple[str, list[str]]] = []
    for line in (line for block in blocks("console", page) for line in block.splitlines()):
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def plain(text: str) -> str:
    """Text in which times and runs of blanks do not matter."""
    return re.sub(r"\s+", " ", re.sub(r"\d+\.\d s", "T s", text)).strip()


def run(page: str, folder: Path, environment: dict[str, str]) -> None:
    """Run the page's commands in a folder, and look for the lines that it shows."""
    for command, shown in commands(page):
        program, rest = command.split(" ", 1)
        words = {"kcurate": "-m kcurate ", "python": f"{ROOT}/"}[program] + rest
        done = subprocess.run(
            f"{sys.executable} {words}",
            shell=True, cwd=folder, env=environment, check=False, capture_output=True, text=True,
            timeout=240, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        printed = plain(done.stdout + done.stderr)
        for line in shown:
            assert plain(line) in printed, f"{command}: {line!r} is not in {done.stdout}{done.stderr}"


@pytest.mark.slow
def test_the_readmes_own_kernels_run_as_written(tmp_path: Path) -> None:
    """Bare, templated and hosted kernels to a report, with no option that README does not show."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = (text for text in blocks("console", readme) if "cd examples/kernels" in text)
    assert len(block.splitlines()) <= 8
    kernels = Path(shutil.copytree(ROOT / "examples" / "kernels", tmp_path / "kernels"))
    page = "\n".join(line for line in block.splitlines() if line.startswith("$ kcurate "))
    run(f"```console\n{page}\n```\n", kernels, {**os.environ, "KCURATE_BACKEND": "emulator"})
    work = kernels / "kcurate-work"
    assert (work / "report.html").is_file()
    pairs = sorted(path.parent.name for path in (work / "pairs").rglob("pair.json"))
    assert pairs == ["row_sums_serial-row_sums", "saxpy_chunks-saxpy", "transpose_naive-transpose_tiled"]
    for path in (work / "pairs").rglob("pair.json"):
        problem = json.loads(path.read_text())["problem"]
        moved = 0
        for buffer in problem["buffers"].values():
            elements = math.prod(evaluate(extent, problem["sizes"]["bench"]) for extent in buffer["shape"])
            moved += elements * 4 * (2 if buffer.get("role") == "inout" else 1)
        assert moved > 50_000_000, f"{path}: too little to time on a GPU"
    judged = (json.loads(path.read_text()) for path in (work / "runs").glob("validate-*/summary.json"))
    assert [summary["counts"] for summary in judged] == [{"candidates": {"correct": 3}}]


def answer(handler: server.Handler, body: dict[str, Any]) -> None:
    """A wrong kernel, and the right one once the findings are told."""
    code = WRONG.replace("even - odd", "even + odd") if "What was found" in server.said(body) else WRONG
    server.message(tool={"code": code})(handler, body)


@pytest.mark.slow
def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    for text in blocks("cuda", PAGE):
        path = tmp_path / text.splitlines()[0].removeprefix("// ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = (tmp_path / "mine" / "rows.cu").read_text()
    with serving(answer) as (url, script):
        environment = {
            **os.environ,
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "k-test",
            "KCURATE_BACKEND": "emulator",
            "COLUMNS": "200",
        }
        run(PAGE, tmp_path, environment)
        assert len(script.asked) == 2
    after = (tmp_path / "mine" / "rows.cu").read_text()
    kept, _, rest = before.partition("__global__ void row_sums(")
    assert after.startswith(kept) and after.endswith(rest[rest.index("__global__ void row_sums_block") :])
    assert "even + odd" in after
    assert (tmp_path / "work" / "report.html").is_file()
    assert list((tmp_path / "work" / "dataset" / "pairs").glob("*.parquet"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_way_from_suites_to_a_dataset_and_a_model_runs_as_written(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tests" / "suites", tmp_path / "suites")
    with serving(server.completion(ROLLED)) as (url, script):
        environment = {
            **os.environ,
            "SERVER": url,
            "KCURATE_BACKEND": "emulator",
            "COLUMNS": "200",
            "HF_HUB_OFFLINE": "1",
        }
        run(DATASET_PAGE, tmp_path, environment)
        assert len(script.asked) == 1
    assert (tmp_path / "trained" / "model.safetensors").is_file()


def test_training_with_trl_imports_nothing_of_kcurate() -> None:
    text = (ROOT / "examples" / "train_with_trl.py").read_text(encoding="utf-8")
    assert "SFTTrainer(" in text
    assert not re.search(r"^\s*(?:import|from) kcurate", text, re.MULTILINE)


@pytest.mark.slow
def test_the_cookbook_runs_as_written(tmp_path: Path) -> None:
    kernels = Path(shutil.copytree(ROOT / "examples" / "kernels", tmp_path / "kernels"))
    environment = {**os.environ, "KCURATE_BACKEND": "emulator", "COLUMNS": "200", "ANTHROPIC_API_KEY": "k"}
    run(COOKBOOK, kernels, environment)
    script = "\n".join(blocks("python", COOKBOOK))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=kernels,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    printed = done.stdout.splitlines()
    assert printed[1] == "correct" and printed[2].startswith("mismatch ") and printed[3] == "True set()"


def test_what_the_cookbook_does_not_run_can_be_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root: Any = typer.main.get_command(build())
    (listed,) = blocks("sh", COOKBOOK)
    for line in listed.splitlines():
        command, _, reason = line.partition("#")
        _, name, *words = shlex.split(command)
        assert reason and root.commands[name].make_context(name, words).params
