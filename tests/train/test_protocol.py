"""KernelBench's own protocol, with an evaluator of the same interface that needs no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate.cli import run as cli
from kcurate.core import time_limits
from kcurate.errors import InputError
from kcurate.evaluation import kernelbench_protocol
from kcurate.evaluation.completions import Completion
from kcurate.reward import schemes
from kcurate.reward.task import given_hash

MODULE = "class Model: ...\n\n\ndef get_inputs():\n    return [3]\n"
# What stands in for KernelBench's evaluator: an answer says how long it takes, and is called once.
EVALUATOR = """
import litellm  # which nobody here has


class Result:
    def __init__(self, compiled, correct=False, took=-1.0, **metadata):
        self.compiled, self.correctness, self.runtime, self.ref_runtime = compiled, correct, took, 8.0
        self.metadata = metadata


def build_compile_cache(code, build_dir):
    try:
        compile(code, "answer", "exec")
    except SyntaxError as error:
        return False, "", str(error)
    return True, "", None


def eval_kernel_against_ref(module, code, *, device, backend, build_dir, measure_performance,
                            num_correct_trials, num_perf_trials, precision):
    assert (num_correct_trials, num_perf_trials, measure_performance, str(device)) == (5, 100, True, "cuda:0")
    space = {}
    exec(module, space)
    try:
        exec(code, space)
        made = space["ModelNew"]()
        right = made(*space["get_inputs"]()) == 9
    except Exception as error:
        return Result(True, runtime_error=error)
    return Result(True, right, made.took)
"""
PROMPTS = """
import tomli


def get_prompt_for_backend(code, backend, option, precision):
    return f"{backend} {option} {precision}: {code}"
"""
# What the evaluator's process takes of torch; the real one takes 1.7 s to import in each process.
TORCH = "device, float32 = str, 'float32'\n"
STATIC = """
def validate_kernel_static(code, backend, precision):
    return "torch.square" not in code, ["the operator itself"], []
"""


def answer(body: str, took: float = 4.0) -> str:
    code = f"class ModelNew:\n    took = {took}\n    def __call__(self, x):\n        {body}\n"
    return f"Here:\n```python\n{code}```\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package = tmp_path / "tree" / "src" / "kernelbench"
    level = tmp_path / "tree" / "KernelBench" / "level1"
    package.mkdir(parents=True)
    level.mkdir(parents=True)
    files = {
        "__init__": "",
        "eval": EVALUATOR,
        "prompt_constructor_toml": PROMPTS,
        "kernel_static_checker": STATIC,
    }
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    (level / "19_ReLU.py").write_text(MODULE)
    return tmp_path / "tree"


def judged(tree: Path, *replies: str) -> list[Completion]:
    (task,) = kernelbench_protocol.load(tree, 1)
    rows = [
        Completion(task.id, task.family, given_hash(task), at, 1, "", "", reply, "text", "answered")
        for at, reply in enumerate(replies)
    ]
    return kernelbench_protocol.judge(rows, [task], tree, schemes.make("kernelcompare"), gpu=0)


def test_the_prompt_is_the_checkouts_own(tree: Path) -> None:
    (task,) = kernelbench_protocol.load(tree, 1)
    assert (task.id, task.family) == ("kernelbench/level1/19_ReLU", "relu")
    assert task.prompt.task == f"cuda one_shot fp32: {MODULE}"


def test_libraries_can_be_installed_anywhere(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `pip install --target` and `--user` do."""
    libraries = tmp_path / "libraries"
    (libraries / "squares-1.dist-info").mkdir(parents=True)
    (libraries / "squares.py").write_text("def of(x):\n    return x * x\n")
    monkeypatch.syspath_prepend(str(libraries))
    (row,) = judged(tree, answer("import squares; return squares.of(x)"))
    assert row.outcome == "confirmed", row.detail


def test_a_result_becomes_an_outcome_and_the_ratio_is_theirs(tree: Path) -> None:
    (tree / "src" / "torch.py").write_text(TORCH)
    rows = judged(
        tree,
        answer("return x * x"),
        answer("return x * x", took=10.0),
        answer("return x + x"),
        answer("return 1 / 0"),
        answer("return (x"),
        answer("return torch.square(x)"),
        "no code",
        answer("return x * x"),
    )
    assert [(row.outcome, row.speedup) for row in rows] == [
        ("confirmed", 2.0),
        ("not_faster", 0.8),
        ("mismatch", None),
        ("launch_error", None),
        ("compile_error", None),
        ("static_reject", None),
        ("unreadable", None),
        ("confirmed", 2.0),
    ]
    assert [round(row.reward or 0.0, 2) for row in rows] == [1.0, 0.8, 0.4, 0.4, 0.0, 0.0, 0.0, 1.0]
    assert "division by zero" in (rows[3].detail or "") and rows[5].detail == "the operator itself"


@pytest.mark.slow
def test_an_answer_harms_nothing_outside_its_process(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limits, "KERNELBENCH_ANSWER_S", 10.0)
    (tmp_path / "secret").write_text("9")
    escaped = tmp_path / "escaped"
    rows = judged(
        tree,
        answer(f"open({str(escaped)!r}, 'w').write('x'); return 9"),
        answer(f"return int(open({str(tmp_path / 'secret')!r}).read())"),
        answer("import socket; socket.create_connection(('127.0.0.1', 9), 1); return 9"),
        answer("import os; os._exit(0)"),
        answer("import os; os.kill(os.getppid(), 9); return 1"),
        answer("while True: pass"),
        answer("return x * x"),
        answer("import os; os.mkfifo('evaluate.json'); os._exit(0)"),
        answer("import os; open('evaluate.json', 'w').write('[1]'); os._exit(0)"),
    )
    assert [row.outcome for row in rows] == [
        *["launch_error"] * 4,
        *(rows[4].outcome, "timeout", "confirmed", "launch_error", "launch_error"),
    ]
    assert all("Permission denied" in (row.detail or "") for row in rows[:2])
    assert rows[4].outcome in ("launch_error", "mismatch") and not escaped.exists()


@pytest.mark.parametrize(
    ("more", "said", "code"),
    [
        (("--tasks", "pairs"), "is for KernelBench's tasks", 2),
        (("--tasks", "kernelbench"), "needs its evaluator", 1),
        (("--tasks", "kernelbench:TREE", "--turns", "2"), "has one turn", 2),
    ],
)
def test_what_the_protocol_does_not_have_is_one_line(
    tree: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    said: str,
    code: int,
) -> None:
    given = [one.replace("TREE", str(tree)) for one in more]
    command = ["eval", "--model", "none", "--protocol", "kernelbench", "--out", str(tmp_path / "out"), *given]
    assert cli(command) == code
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


def test_without_a_gpu_it_is_not_judged(tree: Path, tmp_path: Path) -> None:
    from kcurate.evaluation.folder import Evaluated
    from kcurate.evaluation.sampling import Reply
    from kcurate.evaluation.stage import EvalConfig, run

    class Knows:
        def sample(self, asked: list[object]) -> list[Reply]:
            return [Reply(answer("return x * x")) for _ in asked]

    evaluated = Evaluated("none", tasks=f"kernelbench:{tree}", protocol="kernelbench", samples=1)
    config = EvalConfig(tmp_path / "out", evaluated, backend="emulator", sampler=Knows())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="KernelBench's evaluator needs a GPU"):
        run(config)
    assert (tmp_path / "out" / "completions.parquet").exists()
