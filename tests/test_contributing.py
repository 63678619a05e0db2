"""CONTRIBUTING.md: each change that it shows applies to the code as it is, and adds what the page says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# What each change adds, by a word of the sentence before it.
TRIED = {
    "rewrite rule": """
from kcurate.deopt.rules import RULES
from kcurate.records import Side
(rule,) = [rule for rule in RULES if rule.name == "forced-inlining"]
side = rule.apply(Side("__device__ __forceinline__ float f(float x) { return x; }", ()))
assert side.code == "__device__ inline float f(float x) { return x; }"
""",
    "generator": """
from kcurate.problem.inputs.contents import generate
from kcurate.records import Buffer, Init, Problem, Sizes
buffer = Buffer("float32", ("n",), Init("exponential", {"rate": 2}))
problem = Problem(Sizes(({"n": 100},), {"n": 1000}), {"x": buffer})
assert (generate(problem, None, {"n": 100}, 1)["x"] > 0).all()
""",
    "reward": """
from kcurate.records import Outcome
from kcurate.reward.schemes import Earned, make, terms_of
assert terms_of(make("correctness", {"right": 2}), [Earned(Outcome.CORRECT)]) == [{"correct": 2}]
""",
    "option": """
import contextlib, io
from kcurate.cli import run
with contextlib.redirect_stdout(io.StringIO()) as text:
    run(["validate", "--help"])
assert "--limit" in text.getvalue()
assert run(["validate", "--limit", "-1"]) == 2
""",
    "counter": """
from kcurate.profiling.counters import COUNTERS
assert "branches" in [counter.name for counter in COUNTERS]
""",
    "outcome": """
from kcurate.records import Outcome
from kcurate.reward.schemes import STANDINGS
assert Outcome("too_large").withdraws and not STANDINGS[Outcome.TOO_LARGE].correct
""",
}
SHOWN = dict(re.findall(r"^An? \*\*([\w ]+)\*\*.*?\n```diff\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def apply(change: str, root: Path) -> None:
    """Put added lines beside the lines of context that a change shows, each of which is in its file once."""
    for part in re.split(r"^(?=--- a/)", change, flags=re.MULTILINE)[1:]:
        path = root / re.findall(r"^\+\+\+ b/(\S+)$", part, re.MULTILINE)[0]
        text = path.read_text(encoding="utf-8")
        added, context = "", ""
        for line in part.partition("@@\n")[2].splitlines(keepends=True):
            if line[0] == "+":
                added += line[1:]
            else:
                context = line[1:]
                assert text.count(context) == 1, context
                text = text.replace(context, added + context)
                added = ""
        path.write_text(text.replace(context, context + added), encoding="utf-8")


def test_every_change_is_tried() -> None:
    assert set(SHOWN) == set(TRIED)


@pytest.mark.parametrize("what", sorted(TRIED))
def test_a_change_adds_what_the_page_says(what: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "kcurate", tmp_path / "kcurate", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("schemas", "sources"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    apply(SHOWN[what], tmp_path)
    ran = subprocess.run(
        [sys.executable, "-c", TRIED[what]],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
