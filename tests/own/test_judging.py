"""`kcurate.judge(slow, fast, ...)`: texts and example calls to a verdict; what does not fit is one line."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kcurate as kc
from kcurate.own.judging import Judge
from kcurate.records import Launch, Outcome, Problem, Tolerance

ADD = """
__global__ void add(const float *x, const float *y, float *z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
"""
ADD2 = ADD.replace("add(", "add2(").replace("x[i] + y[i]", "y[i] + x[i]")
SUMS = """
__global__ void sums(const float *x, float *y, int m, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < m) { float s = 0; for (int k = 0; k < n; ++k) s += x[r * n + k]; y[r] = s; }
}
"""
BY_BLOCK = """
__global__ void sums_by_block(const float *x, float *y, int m, int n) {
  __shared__ float part[128];
  float s = 0;
  for (int k = threadIdx.x; k < n; k += 128) s += x[blockIdx.x * n + k];
  part[threadIdx.x] = s;
  for (int half = 64; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
"""
X = np.arange(1000, dtype=np.float32)
ARGS = {"x": X, "y": X + 1, "z": X * 0, "n": 1000}
HOW: dict[str, Any] = {"grid": "(n + 255) // 256", "block": 256, "args": ARGS}
ROWS: dict[str, Any] = {"grid": {"slow": "ceil_div(m, 128)", "fast": lambda m: m}, "block": 128}


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with kc.Judge("emulator") as judge:
        yield judge


def problem_of(judge: Judge, slow: str, fast: str, **call: Any) -> Problem:
    problem = judge.pair(slow, fast, **call).problem
    assert problem is not None
    return problem


def test_arrays_are_buffers_integers_sizes_and_expressions_launches(judge: Judge) -> None:
    pair = judge.pair(ADD, ADD2, **HOW)
    problem = pair.problem
    assert problem is not None
    assert {name: (buffer.shape, buffer.role) for name, buffer in problem.buffers.items()} == {
        "x": (("n",), "in"), "y": (("n",), "in"), "z": (("n",), "out"),
    }  # fmt: skip
    assert problem.sizes.headline == {"n": 1000}
    assert len({setting["n"] for setting in problem.sizes.test}) > 2
    (launch,) = pair.fast.plan
    assert getattr(launch, "grid", None) == ("(n + 255) / 256",)
    assert judge.judge(ADD, ADD2, **HOW).outcome is Outcome.CORRECT


def test_each_side_has_its_own_launch_and_a_wrong_one_is_refuted(judge: Judge) -> None:
    args = np.ones((200, 300), np.float32), np.empty(200, np.float32), 200, 300
    assert judge.judge(SUMS, BY_BLOCK, args=args, **ROWS).outcome is Outcome.CORRECT
    verdict = judge.judge(SUMS, BY_BLOCK.replace("s += x[", "s += 1.01f * x["), args=args, **ROWS)
    assert (verdict.outcome, verdict.side) == (Outcome.MISMATCH, "fast")
    assert repr(verdict).startswith("<Verdict mismatch (fast side): y: ")
    assert "\n" not in repr(verdict) and len(repr(verdict)) < 400


def test_a_kernel_that_ignores_its_block_is_refuted(judge: Judge) -> None:
    wrong = ADD2.replace("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x")
    small = {name: value[:60] if isinstance(value, np.ndarray) else 60 for name, value in ARGS.items()}
    for args in (ARGS, small):
        assert judge.judge(ADD, wrong, **{**HOW, "args": args}).outcome is Outcome.MISMATCH


def test_numbers_of_a_small_example_are_sizes_too(judge: Judge) -> None:
    args = np.ones((4, 8), np.float32), np.empty(4, np.float32), 4, 8
    problem = problem_of(judge, SUMS, BY_BLOCK, args=args, **ROWS)
    assert problem.buffers["x"].shape == ("m*n",) and set(problem.sizes.headline) == {"m", "n"}
    assert not problem.single_size


def test_numbers_of_a_launch_are_explained_by_each_side_s_own_example(judge: Judge) -> None:
    code = """
__global__ void turn(const float *x, float *y, int rows, int cols) {
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (r < rows && c < cols) y[c * rows + r] = x[r * cols + c];
}
"""
    args = np.ones((50, 70), np.float32), np.empty((70, 50), np.float32), 50, 70
    grid, block = {"slow": (5, 4), "fast": (9, 7)}, {"slow": (16, 16), "fast": (8, 8)}
    fast = code.replace("turn", "turn8").replace("16", "8")
    pair = judge.pair(code, fast, grid=grid, block=block, args=args)
    (slow_launch,), (fast_launch,) = pair.slow.plan, pair.fast.plan
    assert isinstance(slow_launch, Launch) and isinstance(fast_launch, Launch)
    assert (slow_launch.grid, slow_launch.block) == (("ceil_div(cols, 16)", "ceil_div(rows, 16)"), (16, 16))
    assert (fast_launch.grid, fast_launch.block) == (("ceil_div(cols, 8)", "ceil_div(rows, 8)"), (8, 8))
    one = (
        "__global__ void sum(const float *x, float *out, int n) { for (int i = 0; i < n; ++i) *out += x[i]; }"
    )
    inputs = np.ones(1000, np.float32), np.zeros(1, np.float32), 1000
    many = one.replace("sum", "sum2").replace("int i = 0", "int i = threadIdx.x").replace("++i", "i += 64")
    launch: dict[str, Any] = {"grid": 1, "block": {"slow": 1, "fast": 64}}
    pair = judge.pair(one, many.replace("*out += x[i]", "atomicAdd(out, x[i])"), args=inputs, **launch)
    # Random terms may cancel, and nothing beside a single sum says how large they are.
    assert pair.problem is not None and pair.problem.buffers["out"].tolerance == Tolerance(
        terms="n", scale=1.0
    )


def test_the_shape_of_an_array_tells_which_sizes_it_has(judge: Judge) -> None:
    """60 x 90 could be many products; each axis is that of one argument."""
    args = {"x": np.ones((60, 90), np.float32), "y": np.empty(60, np.float32), "m": 60, "n": 90}
    assert problem_of(judge, SUMS, BY_BLOCK, args=args, **ROWS).buffers["x"].shape == ("m*n",)


def test_several_examples_tell_what_one_leaves_open(judge: Judge) -> None:
    code = """
__global__ void take(const float *x, const int *at, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[at[i]];
}
"""
    rng = np.random.default_rng(0)
    calls = [
        (
            rng.normal(size=many).astype(np.float32),
            rng.integers(0, many, n, np.int32),
            np.empty(n, np.float32),
            n,
        )
        for many, n in ((5000, 1000), (2000, 700))
    ]
    how: dict[str, Any] = {"grid": lambda n: -(-n // 128), "block": 128, "args": calls}
    fast = code.replace("take(", "take2(").replace("x[at[i]]", "__ldg(x + at[i])")
    problem = problem_of(judge, code, fast, **how)
    assert problem.buffers["at"].init is not None and problem.buffers["at"].init.params["high"] == "x_count"
    assert judge.judge(code, fast, **how).outcome is Outcome.CORRECT


def test_torch_tensors_are_arrays_and_templates_name_their_instance(judge: Judge) -> None:
    torch = pytest.importorskip("torch")
    head = "#include <cuda_fp16.h>\n"
    slow = head + ADD.replace("__global__", "template <typename T>\n__global__").replace("float", "T")
    half = head + ADD2.replace("float", "__half")
    args = [torch.randn(1000).half(), torch.randn(1000).half(), torch.empty(1000).half(), 1000]
    call = {**HOW, "args": tuple(args), "kernel": {"slow": "add<__half>", "fast": "add2"}}
    assert judge.judge(slow, half, **call).outcome is Outcome.CORRECT
    with pytest.raises(kc.KcurateError, match="add is a template over T"):
        judge.judge(slow, half, **{**call, "kernel": None})


def test_outputs_that_are_not_named_are_not_compared(judge: Judge) -> None:
    with_scratch = ADD.replace("int n)", "float *w, int n)").replace("z[i] =", "w[i] = x[i], z[i] =")
    other = ADD2.replace("int n)", "float *w, int n)").replace("z[i] =", "w[i] = y[i], z[i] =")
    call = {**HOW, "args": {**ARGS, "w": X * 0}}
    assert judge.judge(with_scratch, other, **call).outcome is Outcome.MISMATCH
    assert judge.judge(with_scratch, other, outputs=["z"], **call).outcome is Outcome.CORRECT
    assert judge.judge(with_scratch, other, outputs="z", **call).outcome is Outcome.CORRECT


def test_files_are_read_and_a_broken_side_is_a_verdict(judge: Judge, tmp_path: Path) -> None:
    (tmp_path / "both.cu").write_text(ADD + ADD2)
    file = tmp_path / "both.cu"
    assert (
        judge.judge(f"{file}:add", file, kernel={"slow": None, "fast": "add2"}, **HOW).outcome
        is Outcome.CORRECT
    )
    verdict = judge.judge(
        file, ADD2.replace("y[i] +", "lost +"), kernel={"slow": "add", "fast": "add2"}, **HOW
    )
    assert (verdict.outcome, verdict.side) == (Outcome.COMPILE_ERROR, "fast") and "lost" in (
        verdict.log or ""
    )


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in ARGS.items() if key != name}


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ({"args": {**ARGS, "x": X.astype(np.float64)}}, r"args\['x'\]: takes float32, not float64"),
        ({"args": {**ARGS, "x": X.astype(np.complex64)}}, r"args\['x'\]: no buffer holds complex64"),
        ({"args": {**ARGS, "x": np.zeros((1000, 2), np.float32)[:, 0]}}, r"args\['x'\]: is not contiguous"),
        ({"args": {**ARGS, "x": X[:0]}}, r"args\['x'\]: is empty"),
        ({"args": {**ARGS, "x": 3.0}}, r"args\['x'\]: takes an array, not float"),
        (
            {"args": {**ARGS, "x": X[:500].copy()}},
            r"args\['x'\]: has 500 elements where add needs 1000 \(n\)",
        ),
        ({"args": {**ARGS, "n": X}}, r"args\['n'\]: takes int32, not an array of float32"),
        ({"args": {**ARGS, "n": 1000.0}}, r"args\['n'\]: takes int32, not float"),
        ({"args": {**ARGS, "n": 1 << 40}}, r"args\['n'\]: 1099511627776 does not fit int32"),
        ({"args": {**ARGS, "w": 1}}, r"args: no parameter 'w' \(add2 has \(x, y, z, n\)"),
        ({"args": without("n")}, "args: no value for n of add2"),
        ({"args": (X, X, 1000)}, r"args: 3 values for \(x, y, z, n\) of add2"),
        ({"args": [ARGS, {**ARGS, "x": None}]}, r"args\['x'\]: the examples disagree: float32 and None"),
        ({"args": None}, "args: takes the arguments of a call"),
        ({"args": []}, "args: takes the arguments of a call by name or in order, not no arguments"),
        ({"slow": ADD + ADD2}, "slow: 2 kernels in the text: add, add2 .name one: kernel='add'"),
        ({"slow": "int x;"}, "slow: no kernel in the text"),
        ({"slow": "lost.cu"}, "lost.cu: cannot read"),
        ({"slow": 3}, "slow: takes text or a file, not int"),
        ({"fast": None}, "fast: no fast side"),
        ({"fast": ADD}, "slow, fast: both sides are the same code"),
        (
            {"fast": ADD2.replace("int n)", "int n, const int *q)")},
            "args: add2: no parameter for const int. q",
        ),
        ({"kernel": "lost"}, "slow: no kernel 'lost' in the text: add"),
        ({"kernel": {"slow": "add"}}, "is not one value a side"),
        ({"outputs": ["x"]}, "outputs: add does not write x .it writes z"),
        ({"grid": None}, "grid: None is no launch configuration"),
        ({"grid": 0}, "grid: 0 is 0 for these arguments"),
        ({"grid": (1, 1, 1, 1)}, "grid: has 4 axes"),
        ({"grid": "k + 1"}, r"grid: k \+ 1: unknown name 'k' \(the sizes are n\)"),
        ({"grid": "n +"}, r"grid: 'n \+': the expression ends"),
        ({"grid": lambda n: n / 256}, "grid: computes something from n that is not"),
        ({"grid": lambda n: max(1, n)}, "grid: computes something from n that is not"),
        ({"slow": ADD + "// \ud800"}, "slow: has characters that UTF-8 cannot write"),
        ({"args": [ARGS, {**ARGS, "n": 1040}]}, r"args\['x'\]: has 1000 elements where add needs 1040 \(n\)"),
        ({"outputs": 3}, "outputs: takes the names of buffers, not 3"),
        ({"outputs": []}, "outputs: takes the names of buffers"),
        ({"grid": lambda n: 1 // 0}, "grid: the function of sizes failed: integer division"),
        ({"grid": lambda n: n.size}, "grid: the function of sizes failed"),
        ({"block": True}, "block: True is no launch configuration"),
    ],
)
def test_what_does_not_fit_is_one_line(judge: Judge, call: dict[str, Any], line: str) -> None:
    whole: dict[str, Any] = {"slow": ADD, "fast": ADD2, **HOW, **call}
    with pytest.raises(kc.KcurateError, match=line) as caught:
        judge.judge(whole.pop("slow"), whole.pop("fast"), **whole)
    assert "\n" not in str(caught.value) and "/tmp" not in str(caught.value)


def test_what_is_known_of_a_reference_is_kept() -> None:
    lines: list[str] = []
    with kc.Judge("emulator", note=lines.append) as judge:
        for _ in range(2):
            args = {**ARGS, "z": np.random.default_rng().normal(size=1000).astype(np.float32)}
            assert judge.judge(ADD, ADD2, **{**HOW, "args": args}).outcome is Outcome.CORRECT
    assert len(lines) == 1 and lines[0].startswith("add: admitted at sizes ")


def test_a_pair_is_loaded_and_judged(judge: Judge, tmp_path: Path) -> None:
    pair = kc.load("reduce-sum-shuffle", tmp_path)
    assert isinstance(pair, kc.ShownPair) and pair.candidate.id == "reduction-scan/reduce-sum-shuffle"
    assert pair.verdicts and isinstance(pair.verdicts[0], kc.Verdict)
    assert judge.judge(pair).outcome is judge.judge(pair.candidate).outcome is Outcome.CORRECT
    with pytest.raises(kc.KcurateError, match="a pair has its own sides"):
        judge.judge(pair, grid=1)
    with pytest.raises(kc.KcurateError, match="did you mean"):
        kc.load("reduce-sum-shufle", tmp_path)


def test_a_pair_that_is_written_by_hand_is_judged(judge: Judge) -> None:
    problem = kc.Problem(
        kc.Sizes(({"n": 1000}, {"n": 7}), {"n": 4096}),
        {name: kc.Buffer("float32", ("n",), kc.Init("normal", {"mean": 0})) for name in ("x", "y")}
        | {"z": kc.Buffer("float32", ("n",), role="out")},
    )
    sides = [
        kc.Side(code, (kc.Launch(name, ("ceil_div(n, 128)",), (128,), ("x", "y", "z", "n")),))
        for name, code in (("add", ADD), ("add2", ADD2))
    ]
    pair = kc.Candidate("own/add", "add", "unclassified", None, kc.Origin("natural"), (), "", problem, *sides)
    assert judge.judge(pair).outcome is kc.Outcome.CORRECT


def test_the_package_of_the_judge_is_called_as_the_function() -> None:
    """Importing `kcurate.judge` binds that name in `kcurate`, whichever came first."""
    import kcurate.judge

    assert kc.judge is kcurate.judge and callable(kcurate.judge.judge)
    assert list(inspect.signature(kc.judge).parameters)[:2] == ["slow", "fast"]
    assert {*kc.__all__} <= {*dir(kc)} and all(getattr(kc, name) is not None for name in kc.__all__)
    with pytest.raises(AttributeError, match="no attribute 'lost'"):
        _ = kc.lost


SCRIPT = f"""
import numpy as np
import kcurate as kc
from kcurate.judge import JudgeConfig, judge_many
x = np.ones(1000, np.float32)
how = dict(grid="(n + 255) // 256", block=256, args=(x, x + 1, x * 0, 1000))
print(kc.judge({ADD!r}, {ADD2!r}, backend="emulator", **how).outcome)
pair = kc.load("reduce-sum-shuffle").candidate
print(*(verdict.outcome for _, verdict in judge_many([(0, pair), (1, pair)], JudgeConfig(), jobs=2)))
"""


def test_a_script_without_a_main_guard_judges(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "correct\ncorrect correct\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_importing_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import time, sys; started = time.perf_counter(); import kcurate; "
        "print(time.perf_counter() - started); "
        "print({'torch', 'numpy', 'kcurate.records'} & set(sys.modules)); "
        "kcurate.Judge, kcurate.judge, kcurate.load; print('torch' in sys.modules)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )
        for _ in range(3)
    ]
    assert min(float(run[0]) for run in runs) < 0.1
    assert runs[0][1:3] == ["set()", "False"]


@pytest.mark.gpu
def test_on_a_gpu_both_sides_are_timed_at_the_largest_example() -> None:
    """With arrays that lie on the GPU; the slow side reads rows across, the fast one along."""
    torch = pytest.importorskip("torch")
    x = torch.randn(4096, 4096, device="cuda")
    with kc.Judge("cuda") as judge:
        verdict = judge.judge(SUMS, BY_BLOCK, args=(x, torch.empty(4096, device="cuda"), 4096, 4096), **ROWS)
        wrong = BY_BLOCK.replace("s += x[", "s += 1.01f * x[")
        args = (x, torch.empty(4096, device="cuda"), 4096, 4096)
        assert judge.judge(SUMS, wrong, args=args, **ROWS).outcome is Outcome.MISMATCH
    assert verdict.outcome is Outcome.CONFIRMED and verdict.speedup is not None, verdict
    assert f"{verdict.speedup.ratio:.2f} times as fast" in repr(verdict)
