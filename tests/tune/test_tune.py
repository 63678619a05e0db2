"""`tune`: what can be set in a side, in which order it is tried, and what becomes of the trials."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import small

from kcurate import cli, judge
from kcurate.core import store
from kcurate.errors import InputError
from kcurate.records import (
    BufferArg,
    Candidate,
    Configuration,
    Environment,
    For,
    Kernel,
    Launch,
    Outcome,
    Side,
    SideReport,
    Source,
    Span,
    Verdict,
    steps,
)
from kcurate.tune import knobs, stage
from kcurate.verdicts.keys import verdict_key

TILED = """
#define ITEMS 4 // a thread
static constexpr int THREADS = 128;
#define TILE (THREADS * ITEMS)
extern "C" __global__ void __launch_bounds__(THREADS)
    scale(const float* x, float* y, float a, int n) {
    for (int k = 0; k < ITEMS; k++) {
        int i = blockIdx.x * TILE + k * THREADS + threadIdx.x;
        if (i < n) y[i] = a * x[i];
    }
}
"""
LAUNCH = Launch("scale", ("ceil_div(n, 512)",), (128,), ("x", "y", "a", "n"))
SIDE = Side(TILED, (LAUNCH,))


def launches(side: Side) -> list[Launch]:
    return [step for step in steps(side.plan) if isinstance(step, Launch)]


def pair() -> Candidate:
    return small.candidate("tiled", small.problem(1 << 12), Side(small.SCALE, (small.EACH,)), SIDE)


def test_knobs_are_constants_with_halves_and_doubles() -> None:
    items, threads = knobs.find(SIDE)
    assert items == knobs.Knob("ITEMS", 4, (1, 2, 3, 4, 5, 8, 16))
    assert threads == knobs.Knob("THREADS", 128, (32, 64, 128, 256, 512))
    assert threads.near(32) == (64,)
    assert threads.near(128) == (64, 256)
    assert knobs.find(SIDE, {"ITEMS": [8, 6]}) == (knobs.Knob("ITEMS", 4, (4, 6, 8)),)
    with pytest.raises(InputError, match="no constant 'TILES' in this side \\(it has ITEMS, THREADS\\)"):
        knobs.find(SIDE, {"TILES": [1]})


def test_the_block_size_is_a_knob_unless_constants_give_it() -> None:
    plain = Side(small.SCALE.replace("void scale", "void __launch_bounds__(128) scale"), (small.EACH,))
    (block,) = knobs.find(plain)
    assert (block.name, block.value) == ("block", 128)
    made = knobs.changed(plain, (block,), {"block": 256}, {"block": "product"})
    assert "__launch_bounds__(256)" in made.code
    assert made.plan == (replace(small.EACH, grid=("ceil_div(n, 256)",), block=(256,)),)
    assert [one.name for one in knobs.find(replace(plain, code="#define WARPS 4\n" + plain.code))] == [
        "WARPS"
    ]


@pytest.mark.parametrize(
    ("link", "grid", "block"),
    [
        ("product", "ceil_div(n, 256)", 64),
        ("multiple", "ceil_div(n, 256)", 64),
        ("alone", "ceil_div(n, 512)", 128),
    ],
)
def test_the_plan_follows_a_constant_as_its_link_says(link: knobs.Link, grid: str, block: int) -> None:
    loop = replace(SIDE, plan=(For("p", "n / 128", (LAUNCH,), step=128),))
    for side in (SIDE, loop):
        made = knobs.changed(side, knobs.find(side), {"ITEMS": 4, "THREADS": 64}, {"THREADS": link})
        (launch,) = launches(made)
        assert "THREADS = 64;" in made.code
        assert (launch.grid, launch.block, launch.args) == ((grid,), (block,), LAUNCH.args)


def test_names_with_digits_are_no_numbers() -> None:
    odd = replace(SIDE, plan=(replace(LAUNCH, args=(BufferArg("x128", "128 * n"), "y", "a", "n")),))
    made = knobs.changed(odd, knobs.find(odd), {"ITEMS": 4, "THREADS": 64}, {"THREADS": "product"})
    (launch,) = launches(made)
    assert launch.args == (BufferArg("x128", "64 * n"), "y", "a", "n")


def test_climbing_ends_on_the_top_and_sampling_sees_all() -> None:
    ranges = (knobs.Knob("a", 1, (1, 2, 4, 8)), knobs.Knob("b", 1, (1, 2, 4)))
    asked: list[tuple[int, ...]] = []

    def score(setting: stage.Setting) -> float | None:
        asked.append(tuple(setting.values()))
        return None if setting["a"] == 8 else float(setting["a"] * setting["b"])

    stage.climb(ranges, score, random.Random(1))
    assert asked[0] == (1, 1)
    assert (4, 4) in asked
    asked.clear()
    stage.sample(ranges, score, random.Random(1))
    assert asked[0] == (1, 1)
    assert len(set(asked)) == 12


def written(tmp_path: Path) -> stage.TuneConfig:
    store.write_candidate(tmp_path / "pair", pair())
    return stage.TuneConfig(str(tmp_path / "pair"), workspace=tmp_path / "work", backend="emulator", trials=8)


@pytest.mark.slow
def test_the_emulator_only_tells_what_computes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = replace(written(tmp_path), values={"THREADS": [64], "ITEMS": [2]})
    done = stage.run(config)
    assert (done.timed, done.best, done.pair) == (False, None, None)
    assert {stage.spelled(one.setting): one.outcome for one in done.trials} == {
        "ITEMS=4 THREADS=128": Outcome.CORRECT,
        "ITEMS=2 THREADS=128": Outcome.CORRECT,
        "ITEMS=4 THREADS=64": Outcome.CORRECT,
    }
    monkeypatch.setattr(judge.Judge, "judge", lambda *_: pytest.fail("a verdict on file is not made again"))
    again = stage.run(config)
    assert again.trials == done.trials
    words = ["tune", config.pair, "--value", "ITEMS=2", "--value", "THREADS=64", "-w", str(config.workspace)]
    assert cli.run([*words, "--backend", "emulator"]) == 0
    assert "nothing is timed here" in capsys.readouterr().out
    assert cli.run([*words, "--value", "ITEMS=x"]) == 2


def test_a_constant_that_the_plan_does_not_follow_is_wrong(tmp_path: Path) -> None:
    config = replace(written(tmp_path), values={"ITEMS": [2]})
    other = replace(pair(), fast=replace(SIDE, plan=(replace(LAUNCH, grid=("ceil_div(n + 1, 513)",)),)))
    store.write_candidate(tmp_path / "pair", other)
    (_, tried) = stage.run(config).trials
    assert tried.outcome is Outcome.MISMATCH


GPU = Environment("cuda", "A GPU")


class Timed:
    """A judge on a GPU that likes few items: by the text alone."""

    def __init__(self, _: judge.JudgeConfig) -> None:
        """Needs nothing."""

    def environment(self) -> Environment:
        return GPU

    def judge(self, trial: Candidate) -> Verdict:
        ratio = {1: 1.3, 2: 1.2, 3: 1.1}.get(knobs.find(trial.fast)[0].value, 0.5)
        outcome = Outcome.CONFIRMED if ratio > 1 else Outcome.NOT_FASTER
        slow, fast = SideReport(median_us=13.0), SideReport(median_us=13.0 / ratio)
        return Verdict(trial.id, verdict_key(trial), outcome, GPU, slow=slow, fast=fast)

    def close(self) -> None:
        """Holds nothing."""


def test_the_best_confirmed_setting_becomes_a_pair_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = written(tmp_path)
    before = store.read_candidate(tmp_path / "pair")
    monkeypatch.setattr(judge, "Judge", Timed)
    done = stage.run(replace(config, trials=30))
    assert done.best is not None
    assert done.best.setting["ITEMS"] == 1
    assert done.best.ratio == pytest.approx(1.3)
    assert done.pair == config.workspace / "pairs" / "test" / "tiled-tuned-a-gpu"
    made = store.read_candidate(done.pair)
    assert "#define ITEMS 1 // a thread" in made.fast.code
    assert made.slow == before.slow
    assert launches(made.fast)[0].grid == ("ceil_div(n, 128)",)
    assert store.read_candidate(tmp_path / "pair") == before


def test_what_cannot_be_tuned_is_refused_in_one_line(tmp_path: Path) -> None:
    config = written(tmp_path)
    bare = replace(pair(), fast=Side(small.SCALE, (replace(small.EACH, block=("n",)),)))
    store.write_candidate(tmp_path / "pair", bare)
    with pytest.raises(InputError, match="no named constant"):
        stage.run(config)
    listless = replace(config, strategy="listed")
    store.write_candidate(tmp_path / "pair", pair())
    with pytest.raises(InputError, match="lists configurations"):
        stage.run(listless)
    torch = Side("def f(x): return x", (), language="torch")
    store.write_candidate(tmp_path / "pair", replace(pair(), slow=torch))
    with pytest.raises(InputError, match="only sides in CUDA or Triton"):
        stage.run(replace(config, side="slow"))


ROWS = """
import triton
import triton.language as tl

@triton.jit
def scale(x, y, a, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(y + at, tl.load(x + at, mask=at < n) * a, mask=at < n)
"""
IN_TRITON = Side(
    ROWS,
    (Launch("scale", ("ceil_div(n, 4 * 4)",), (), ("x", "y", "a", "n"), constexprs={"ROWS": 4, "COLS": 4}),),
    language="triton",
)


def test_a_grid_in_triton_follows_the_constants_in_every_way() -> None:
    names = [one.name for one in knobs.find(IN_TRITON)]
    assert names == ["ROWS", "COLS", "num_warps", "num_stages"]
    made = list(knobs.relaunched(IN_TRITON, {"ROWS": 8, "COLS": 2, "num_warps": 2, "num_stages": 3}))
    found = [launches(one)[0] for one in made]
    assert [one.grid[0] for one in found[:3]] == [
        "ceil_div(n, 8 * 2)", "ceil_div(n, 8 * 8)", "ceil_div(n, 8 * 4)",
    ]  # fmt: skip
    assert all(one.constexprs == {"ROWS": 8, "COLS": 2} and one.num_warps == 2 for one in found)
    assert len(made) == knobs.MOST_WAYS


def test_configurations_that_a_launch_cannot_have_are_left_out() -> None:
    lists = (
        Configuration({"ROWS": 8, "COLS": 2}, 2, 4),
        Configuration({"ROWS": 8, "COLS": "n"}),
        Configuration({"ROWS": 8, "OTHER": 2}),
    )
    assert knobs.listed(IN_TRITON, lists) == [{"ROWS": 8, "COLS": 2, "num_warps": 2, "num_stages": 4}]


class TimedByWarps(Timed):
    """Likes many warps."""

    def judge(self, trial: Candidate) -> Verdict:
        (launch,) = launches(trial.fast)
        ratio = int(launch.num_warps) / 4
        outcome = Outcome.CONFIRMED if ratio > 1 else Outcome.NOT_FASTER
        slow, fast = SideReport(median_us=13.0), SideReport(median_us=13.0 / ratio)
        return Verdict(trial.id, verdict_key(trial), outcome, GPU, slow=slow, fast=fast)


def test_the_fastest_of_the_configurations_that_a_kernel_lists_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = written(tmp_path)
    own = Kernel(
        id="tree/scale", source=Source("tree"), benchmark="tree", variant=None, name="scale",
        span=Span("scale.py", 0, 1, 1, 1), root="scale.py", params=(), language="triton",
        configurations=tuple(Configuration({"ROWS": n, "COLS": 4}, n, 4 - n // 4) for n in (8, 2)),
    )  # fmt: skip
    store.write_json(config.workspace / "kernels" / own.id / "kernel.json", own)
    origin = replace(pair().origin, kernels=(own.id,))
    store.write_candidate(tmp_path / "pair", replace(pair(), fast=IN_TRITON, origin=origin))
    monkeypatch.setattr(judge, "Judge", TimedByWarps)
    done = stage.run(config)
    assert [stage.spelled(one.setting) for one in done.trials] == [
        "ROWS=4 COLS=4 num_warps=4 num_stages=3",
        "ROWS=8 COLS=4 num_warps=8 num_stages=2",
        "ROWS=2 COLS=4 num_warps=2 num_stages=4",
    ]
    assert done.pair is not None
    (launch,) = launches(store.read_candidate(done.pair).fast)
    assert (launch.constexprs["ROWS"], launch.num_warps, launch.num_stages) == (8, 8, 2)
    assert launch.grid == ("ceil_div(n, 8 * 4)",)


def test_settings_in_triton_are_right_or_wrong_without_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    config = replace(written(tmp_path), values={"ROWS": [8]})
    store.write_candidate(tmp_path / "pair", replace(pair(), fast=IN_TRITON))
    (_, tried) = stage.run(config).trials
    assert (tried.outcome, tried.ratio) == (Outcome.CORRECT, None)
