"""Plugins: the template is installed and used by the ordinary commands; a broken one costs one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deopt.models import server
from deopt.models.server import serving
from train.asked import reply
from train.tiny import write_pairs

ROOT = Path(__file__).resolve().parent.parent
NOTES = """# Notes

```cuda
__global__ void twice(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}
```
"""
BROKEN = """
from kcurate.deopt.rules import Rule
class Wrong:
    suffixes = (".cu",)
    def read(self, path, data): return data
class Failing:
    suffixes = (".txt",)
    def read(self, path, data): raise ValueError("no text")
def number(subject): return 3
def failing(subject): return subject.nothing
TWO = [Rule("number", "t", "w", number), Rule("unroll", "t", "w", number), Rule("failing", "t", "w", failing)]
WRONG, FAILING, NUMBER = Wrong(), Failing(), 3
def lost(group): raise KeyError("lost")
"""
POINTS = """
[kcurate.rules]
a-module = no_such_module:RULE
number = broken:NUMBER
two = broken:TWO
[kcurate.readers]
a-class = broken:Failing
cuda = broken:WRONG
text = broken:FAILING
[kcurate.rewards]
lost = broken:lost
number = broken:NUMBER
"""


def kcurate(*words: str, path: Path, cwd: Path, fails: bool = False) -> subprocess.CompletedProcess[str]:
    """The command with the plugins of a folder."""
    environment = {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run(
        [sys.executable, "-m", "kcurate", *words],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert (done.returncode != 0) is fails, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template as a user installs it, into a folder, without a network."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(ROOT / "examples" / "plugin", folder / "source")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    target = folder / "site"
    subprocess.run([*pip, "--target", str(target), str(source)], check=True, timeout=120)
    return target


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package whose plugins are wrong in every way."""
    folder = tmp_path_factory.mktemp("broken")
    about = folder / "broken-1.0.dist-info"
    about.mkdir()
    (folder / "broken.py").write_text(BROKEN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    return folder


def test_a_rule_of_a_plugin_makes_slow_sides(installed: Path, tmp_path: Path) -> None:
    kcurate("deopt", "crc32", "--rules", "plain-loads", "-w", "work", path=installed, cwd=tmp_path)
    (pair,) = (tmp_path / "work").rglob("deopt-plain-loads/pair.json")
    about = json.loads(pair.read_text())
    assert about["origin"]["rules"] == ["plain-loads"] and about["techniques"] == ["read-only-cache"]
    assert "__ldg" not in pair.with_name("slow.cu").read_text()
    words = ("validate", str(pair.parent), "--backend", "emulator", "-w", "work", "--json")
    done = kcurate(*words, path=installed, cwd=tmp_path)
    assert json.loads(done.stdout)["counts"]["candidates"] == {"correct": 1}


def test_a_reader_of_a_plugin_gives_kernels_with_spans_of_the_file(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "notes.md").write_text(NOTES)
    for jobs in ("1", "2"):
        work = f"work{jobs}"
        words = ("extract", "tree", "--no-compile", "-w", work, "-j", jobs, "--json")
        done = kcurate(*words, path=installed, cwd=tmp_path)
        assert json.loads(done.stdout)["counts"]["files"] == {"extracted": 1}
        (record,) = (tmp_path / work).rglob("kernel.json")
        span = json.loads(record.read_text())["span"]
        assert (span["path"], span["start_line"]) == ("notes.md", 4)
        assert NOTES[span["start_byte"] :].startswith("__global__ void twice")


def test_a_reward_of_a_plugin_pays(installed: Path, tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path)
    with serving(server.completion(reply())) as (url, _):
        model = ("--model", f"openai:m@{url}/v1", "--samples", "1", "--limit", "1")
        tasks = ("--dataset", str(pairs), "--split", "all", "--untimed", "--brief", "--backend", "emulator")
        words = ("eval", *model, *tasks, "--reward", "brevity", "--out", "run", "-j", "1", "--json")
        done = kcurate(*words, path=installed, cwd=tmp_path)
    assert 0.5 < json.loads(done.stdout)["scores"]["reward"]["value"] < 1
    lost = kcurate(
        "eval", *model, *tasks, "--reward", "brevit", "--out", "x", path=installed, cwd=tmp_path, fails=True
    )
    assert (
        "unknown reward 'brevit' (one of pairs, kernelcompare, staged-tiers, continuous, brevity)"
        in lost.stderr
    )


def test_broken_rules_cost_a_line_each_and_the_rest_goes_on(broken: Path, tmp_path: Path) -> None:
    for jobs in ("1", "2"):
        words = ("deopt", "crc32", "sgemm-tiled-blocked", "-w", f"work{jobs}", "-j", jobs)
        done = kcurate(*words, path=broken, cwd=tmp_path)
        lines = [line for line in done.stderr.splitlines() if "plugin" in line]
        assert [line.partition("of broken (kcurate.rules)")[::2] for line in lines] == [
            ("plugin 'a-module' ", " is not used: ModuleNotFoundError: No module named 'no_such_module'"),
            ("plugin 'number' ", " is not used: 3 is no rule"),
            ("plugin 'two' ", ": its rule 'unroll' is not used: the name is taken"),
            (
                "plugin 'two' ",
                ": rule 'failing' failed: AttributeError: 'Subject' object has no attribute 'nothing'",
            ),
            ("plugin 'two' ", ": rule 'number' returned int, not a Side or NotApplicable"),
        ]
        assert list((tmp_path / f"work{jobs}").rglob("deopt-unroll/pair.json"))


def test_broken_readers_cost_a_line_each_and_the_rest_goes_on(broken: Path, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "notes.txt").write_text(NOTES)
    (tmp_path / "tree" / "twice.cu").write_text(NOTES.split("```")[1].removeprefix("cuda"))
    done = kcurate("extract", "tree", "--no-compile", "-w", "work", "--json", path=broken, cwd=tmp_path)
    assert json.loads(done.stdout)["counts"]["files"] == {"extracted": 1, "reader_failed": 1}
    lines = [line for line in done.stderr.splitlines() if "plugin" in line]
    label = "of broken (kcurate.readers)"
    assert lines[0].startswith(f"plugin 'a-class' {label} is not used: <class 'broken.Failing'> is no reader")
    assert lines[1:] == [
        f"plugin 'cuda' {label} is not used: kcurate reads .cu itself",
        f"notes.txt: plugin 'text' {label} failed: ValueError: no text",
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "number",
            "error: number: plugin 'number' of broken (kcurate.rewards) is not used: 3 is not a function",
        )
    ],
)
def test_a_broken_reward_that_is_asked_for_is_one_line(
    broken: Path, tmp_path: Path, name: str, line: str
) -> None:
    done = kcurate(
        "eval", "--model", "m", "--reward", name, "--out", "x", path=broken, cwd=tmp_path, fails=True
    )
    assert line in done.stderr.splitlines()


def test_a_plugin_is_no_load_for_commands_that_use_none(broken: Path, tmp_path: Path) -> None:
    done = kcurate("list", "pairs", "--built-in", path=broken, cwd=tmp_path)
    assert "plugin" not in done.stderr
