"""Answers in both forms for the comparison with KernelBench's evaluator, to modules of our own."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.kernelbench import tasks

MODULE = '''
import torch


class Model(torch.nn.Module):
    """A forward pass."""

    def forward(self, x):
        return OPERATOR


LATER = 4
wide = (1024,)


def get_inputs():
    return [torch.rand(LATER, *wide)]


def get_init_inputs():
    return []
'''
FILES = {
    "19_ReLU.py": MODULE.replace("OPERATOR", "torch.relu(x)").replace("LATER", "batch"),
    "22_Tanh.py": MODULE.replace("OPERATOR", "torch.tanh(x)").replace("LATER", "batch"),
}


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
        import kernelbench_agree

        yield kernelbench_agree
        for name in [name for name in sys.modules if name.startswith("kernelbench_")]:
            del sys.modules[name]


@pytest.mark.slow
def test_only_the_honest_answers_are_right(bench: ModuleType, tmp_path: Path) -> None:
    level = tmp_path / "KernelBench" / "level1"
    level.mkdir(parents=True)
    for name, text in FILES.items():
        (level / name).write_text(text)
    found = bench.prepare(tmp_path)
    assert len(found) == len(FILES)
    with closing(Judge(JudgeConfig("emulator", torch=True))) as judge:
        outcomes = {
            (bench.number(one.task), each.kind): bench.ours(judge, one.task, each.ours)[0]
            for one in found
            for each in one.answers
        }
    right = {name for name, outcome in outcomes.items() if outcome in bench.ACCEPTED}
    assert right == {(which, kind) for which in (19, 22) for kind in bench.HONEST}, outcomes
    assert outcomes[19, "edge"] == "mismatch", "the test sizes are no multiples of 256"
    assert outcomes[19, "torch"] == "malformed" and (22, "no-build") in outcomes


def test_a_module_gets_the_sizes_of_the_judge_and_its_rival_launches_them(
    bench: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "KernelBench" / "level1").mkdir(parents=True)
    (tmp_path / "KernelBench" / "level1" / "19_ReLU.py").write_text(FILES["19_ReLU.py"])
    assert bench.tasks is tasks
    (one,) = bench.prepare(tmp_path)
    space: dict[str, object] = {}
    exec(bench.at_sizes(FILES["19_ReLU.py"], {"batch": 2, "wide_0": 24}), space)
    (x,) = space["get_inputs"]()  # type: ignore[operator]
    assert x.shape == (2, 24)
    code = {each.kind: each.theirs for each in one.answers}
    for text in code.values():
        ast.parse(text)
    assert "pointwise<<<dim3(16), dim3(256)>>>(At{p_x}, At{p_out}, (int)4096);" in code["plain"]
    assert "torch.empty((4, 1024), dtype=torch.float32" in code["plain"]
    assert "detour<<<" in code["slow"] and "away = torch.empty(" in code["slow"]
    assert "pass" not in code["torch"] and "class ModelNew(Model)" in code["torch"]


def test_rows_are_compared_by_what_is_accepted(
    bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (
        ("plain", "confirmed", "not_faster"),
        ("slow", "mismatch", "confirmed"),
        ("edge", "mismatch", "x"),
    )
    path = tmp_path / "rows.jsonl"
    line = '{{"task": "t", "answer": "{}", "ours": "{}", "theirs": "{}", "ours_detail": "why"}}\n'
    path.write_text("".join(line.format(*one) for one in rows))
    bench.report(path)
    said = capsys.readouterr().out.splitlines()
    assert "t slow: mismatch (why), confirmed" in said
    assert said[-1] == "honest answers: the judges agree on 1 of 2"
