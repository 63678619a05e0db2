"""Mint problems and judge their answers on a GPU; time their modules in eager PyTorch and compiled.

    python benchmarks/mint.py judge --workspace DIR --out ROWS.jsonl [--count 500] [--seed 0] [--gpus 0,1]
        [--seconds 300] [--jobs 0]
    python benchmarks/mint.py modules --out MODULES.jsonl [--workspace DIR] [--seconds 120] [--compile 50]
        [--jobs 0]
    python benchmarks/mint.py take MODULES.jsonl [ROWS.jsonl]
    python benchmarks/mint.py board

`judge` mints into the workspace (what is there stays), and appends a row for each answer: facts only, and
the key of the content, which the seed gives again; answers in CUDA come first. `modules` times the PyTorch
modules of the workspace at the headline size, all in eager mode and every so many compiled; without a
workspace those of docs/data/minted whose confirmed answers have no such times yet. Run again, both go on
where they stopped. `take` adds both to a Parquet file in docs/data; `board` fills docs/minting.md from it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import minted_texts
from marked import fill

from kcurate.backends.choice import gpu_numbers
from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.judge.judging import JudgeConfig
from kcurate.judge.referees.batch import default_jobs, judge_many
from kcurate.mint.settings import MintConfig
from kcurate.mint.stage import run as mint
from kcurate.records import Candidate, Outcome, Verdict
from kcurate.verdicts.keys import verdict_key

Row = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs/data/nvidia-h200/minted.parquet"
PLOT, PAGE = DATA.with_suffix(".svg"), ROOT / "docs/minting.md"
LANGUAGES = {"schedules": "CUDA", "triton": "Triton"}


def rows(path: Path) -> list[Row]:
    """The rows of a file, none if there is no such file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def pairs(workspace: Path) -> Iterator[Candidate]:
    """All minted pairs of a workspace."""
    for folder in store.find_candidates(Workspace(workspace).pairs / "minted"):
        yield store.read_candidate(folder)


def answer_row(candidate: Candidate, verdict: Verdict) -> Row:
    """The facts of one verdict."""
    assert candidate.problem is not None, "minted"
    speedup = verdict.speedup
    return {
        "graph": candidate.id.split("/")[1],
        "answer": candidate.id.rsplit("/", 1)[1],
        "key": verdict.key,
        "text_seed": candidate.origin.seed,
        "schedules": candidate.origin.rules,
        "operators": candidate.description.removeprefix("Composed of ").partition(", in ")[0].split(", "),
        "dtype": candidate.description.partition(", in ")[2].partition(";")[0],
        "outcome": verdict.outcome.value,
        "detail": verdict.detail if verdict.outcome not in (Outcome.CONFIRMED, Outcome.NOT_FASTER) else "",
        "speedup": speedup and round(speedup.ratio, 3),
        "interval": speedup and [round(speedup.low, 3), round(speedup.high, 3)],
        "slow_us": speedup and verdict.slow and round(verdict.slow.median_us or 0.0, 2),
        "fast_us": speedup and verdict.fast and round(verdict.fast.median_us or 0.0, 2),
        "device": verdict.environment.device,
        "driver": verdict.environment.driver,
    }


def judge(options: argparse.Namespace) -> None:
    """Mint, then judge every answer that has no row."""
    started = time.monotonic()
    mint(MintConfig(options.workspace, count=options.count, seed=options.seed, jobs=options.mint_jobs))
    print(f"minted in {time.monotonic() - started:.0f} s", flush=True)
    known = {row["key"] for row in rows(options.out)}
    answers = [pair for pair in pairs(options.workspace) if not pair.id.endswith("/plain")]
    waiting = [pair for pair in answers if verdict_key(pair) not in known]
    waiting.sort(key=lambda pair: pair.id.endswith("/triton"))  # each problem has one answer before two
    config = JudgeConfig("cuda", gpu=options.gpus[0], vouched=frozenset(map(verdict_key, waiting)))
    started, judged = time.monotonic(), Counter[str]()
    jobs = options.jobs or default_jobs("cuda", len(options.gpus))
    with contextlib.closing(
        judge_many(list(enumerate(waiting)), config, gpus=options.gpus, jobs=jobs)
    ) as verdicts:
        for number, verdict in verdicts:
            store.append_line(options.out, json.dumps(answer_row(waiting[number], verdict)), durable=False)
            judged[verdict.outcome.value] += 1
            if time.monotonic() - started > options.seconds:
                break
    wall_s = time.monotonic() - started
    print(f"{judged.total()} of {len(waiting)} judged in {wall_s:.0f} s: {dict(judged)}", flush=True)


def median_us(run: Callable[[], object], samples: int = 15) -> float:
    """The median time of a call on the GPU, each after the cache was overwritten."""
    import torch

    flush = torch.empty(1 << 26, dtype=torch.float32, device="cuda")
    run()
    times = []
    for _ in range(samples):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(1000 * begin.elapsed_time(end))
    return statistics.median(times)


def modules(options: argparse.Namespace) -> None:
    """Time the modules; these are our own texts, so they run in this process."""
    known = {row["graph"] for row in rows(options.out)}
    texts = {
        pair.id.split("/")[1]: pair.slow.code
        for pair in (pairs(options.workspace) if options.workspace else untimed())
        if pair.id.endswith("/plain")
    }
    texts = {graph: text for graph, text in texts.items() if graph not in known}
    compiled = set(list(texts)[:: options.compile])
    started = time.monotonic()
    # Compiling takes seconds of one core, and its results are found again in Inductor's cache.
    with ProcessPoolExecutor(options.jobs or None, mp_context=get_context("spawn")) as workers:
        for warmed in [workers.submit(module_times, texts[graph], compiled=True) for graph in compiled]:
            with contextlib.suppress(Exception):
                warmed.result(timeout=max(1.0, started + options.seconds / 2 - time.monotonic()))
        workers.shutdown(wait=False, cancel_futures=True)
    timed = 0
    for graph, text in texts.items():
        row = {"graph": graph, **module_times(text, compiled=graph in compiled)}
        store.append_line(options.out, json.dumps(row), durable=False)
        timed += 1
        if time.monotonic() - started > options.seconds:
            break
    print(f"{timed} of {len(texts)} modules timed in {time.monotonic() - started:.0f} s", flush=True)


def untimed() -> Iterator[Candidate]:
    """The committed problems that have a confirmed answer, and no time of their module."""
    import pyarrow.parquet as pq

    graphs = {
        row["graph"] for row in pq.read_table(DATA).to_pylist() if holds(row) and row["eager_us"] is None
    }
    for path in sorted(minted_texts.TEXTS.glob("*.parquet")):
        yield from (pair for pair in minted_texts.candidates(path) if pair.id.split("/")[1] in graphs)


def module_times(code: str, *, compiled: bool) -> Row:
    """Microseconds of a module in eager mode, and compiled if asked for."""
    import torch

    scope: dict[str, Any] = {}
    exec(compile(code, "module", "exec"), scope)
    model, inputs = scope["Model"](), [value.cuda() for value in scope["get_inputs"]()]
    times: Row = {"eager_us": round(median_us(lambda: model(*inputs)), 2)}
    if compiled:
        torch.compiler.reset()
        fused = torch.compile(model)
        times["compiled_us"] = round(median_us(lambda: fused(*inputs)), 2)
    return times


def take(options: argparse.Namespace) -> None:
    """Add rows of graphs that have none to the Parquet file, and times of modules to rows that lack them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    joined = pq.read_table(DATA).to_pylist() if DATA.exists() else []
    judged = {row["graph"] for row in joined}
    times = {row["graph"]: row for row in rows(options.modules)}
    new = rows(options.rows) if options.rows else []
    joined += [{"eager_us": None, "compiled_us": None, **row} for row in new if row["graph"] not in judged]
    for row in joined:
        row |= {name: us for name, us in times.get(row["graph"], {}).items() if row[name] is None}
    pq.write_table(pa.Table.from_pylist(joined), DATA, compression="zstd", compression_level=19)
    print(f"{len(joined)} rows in {DATA.stat().st_size >> 10} KB")


def board(_: argparse.Namespace) -> None:
    """Fill the page."""
    import pyarrow.parquet as pq

    answers = pq.read_table(DATA).to_pylist()
    graphs = {row["graph"] for row in answers}
    strong = {row["graph"] for row in answers if holds(row) and row["speedup"] >= 1.2}
    stronger = {row["graph"] for row in answers if holds(row) and row["speedup"] >= 1.5}
    text = "\n".join(
        [
            f"{len(answers)} answers to {len(graphs)} problems, on {answers[0]['device']}s.",
            f"{len(strong)} problems have a confirmed answer of 1.2 times or more,",
            f"{len(stronger)} of 1.5 times or more.",
            "",
            "| answers | judged | confirmed | 1.2 | 1.5 | median | faster than eager | than compiled |",
            "|---|---:|---:|---:|---:|---:|---:|---:|",
            *(yields(name, [row for row in answers if row["answer"] == name]) for name in LANGUAGES),
            "",
            "| outcome | CUDA | Triton |",
            "|---|---:|---:|",
            *outcomes(answers),
            "",
            "| schedule | confirmed answers with it (of all) | its CUDA template | its Triton template |",
            "|---|---:|---:|---:|",
            *shares(answers),
        ]
    )
    fill(PAGE, Path(__file__).name, text)
    draw([row for row in answers if holds(row)], PLOT)


def draw(confirmed: Sequence[Row], into: Path) -> None:
    """How many times faster confirmed answers are than the plain side and than eager PyTorch, and what the
    problems are made of."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "minted"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3))
    edges = [2 ** (step / 3) for step in range(-9, 25)]
    for name, language in LANGUAGES.items():
        rows = [row for row in confirmed if row["answer"] == name]
        of_plain = [row["speedup"] for row in rows]
        of_eager = [row["eager_us"] / row["fast_us"] for row in rows if row["eager_us"] is not None]
        for axis, ratios in zip(axes, (of_plain, of_eager), strict=False):
            axis.hist(ratios, edges, histtype="step", label=f"{language}, {len(ratios)} answers")
    for axis, rival in zip(axes, ("the plain side", "eager PyTorch"), strict=False):
        axis.axvline(1, color="grey", linewidth=0.8)
        axis.set(xscale="log", title=f"times as fast as {rival}", ylabel="answers")
        axis.set_xticks([0.25, 1, 4, 16, 64], ["1/4", "1", "4", "16", "64"])
        axis.set_ylim(0, 1.4 * axis.get_ylim()[1])  # room for the legend
        axis.minorticks_off()
        axis.legend(fontsize="small")
    counts = Counter(operator for row in confirmed for operator in set(row["operators"]))
    axes[2].plot(sorted(counts.values(), reverse=True))
    axes[2].set(title="confirmed answers with an operator", xlabel="operators, by frequency", ylim=(0, None))
    figure.tight_layout()
    figure.savefig(into, metadata={"Date": None})
    plt.close(figure)


def holds(row: Row) -> bool:
    """Whether an answer is confirmed."""
    return bool(row["outcome"] == "confirmed")


def yields(name: str, judged: Sequence[Row]) -> str:
    """One line of the table: how many answers hold, and beat PyTorch."""
    confirmed = [row for row in judged if holds(row)]
    ratios = [row["speedup"] for row in confirmed]
    strong, stronger = (sum(ratio >= least for ratio in ratios) for least in (1.2, 1.5))
    beaten = []
    for field in ("eager_us", "compiled_us"):
        timed = [(row["fast_us"], row[field]) for row in confirmed if row[field] is not None]
        beaten.append(f"{sum(fast < module for fast, module in timed)} of {len(timed)}")
    counts = f"{len(judged)} | {len(confirmed)} | {strong} | {stronger} | {statistics.median(ratios):.2f}"
    return f"| {LANGUAGES[name]} | {counts} | {' | '.join(beaten)} |"


def outcomes(answers: Sequence[Row]) -> Iterator[str]:
    """Outcomes by language, the commonest first."""
    counts = Counter((row["outcome"], row["answer"]) for row in answers)
    for outcome, _ in Counter(row["outcome"] for row in answers).most_common():
        yield f"| {outcome} | {counts[outcome, 'schedules']} | {counts[outcome, 'triton']} |"


def shares(answers: Sequence[Row]) -> Iterator[str]:
    """How many confirmed answers have a kernel of each schedule, which has one template a language."""
    confirmed = [row for row in answers if holds(row)]
    counts = Counter((schedule, row["answer"]) for row in confirmed for schedule in set(row["schedules"]))
    both = Counter(schedule for row in confirmed for schedule in set(row["schedules"]))
    for schedule, count in both.most_common():
        cells = [count, *(counts[schedule, language] for language in LANGUAGES)]
        yield f"| `{schedule}` | {' | '.join(f'{cell} ({cell / len(confirmed):.0%})' for cell in cells)} |"


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    for name, action in (
        ("judge", judge),
        ("modules", modules),
        ("take", take),
        ("board", board),
    ):
        part = parts.add_parser(name)
        part.set_defaults(action=action)
        if name == "take":
            part.add_argument("modules", type=Path)
            part.add_argument("rows", type=Path, nargs="?")
        if name not in ("judge", "modules"):
            continue
        part.add_argument("--workspace", type=Path, required=name == "judge")
        part.add_argument("--out", type=Path, required=True)
        part.add_argument("--seconds", type=float, default=300.0, help="stop to begin new work then")
        part.add_argument("--jobs", type=int, default=0)
        if name == "judge":
            part.add_argument("--count", type=int, default=500)
            part.add_argument("--seed", type=int, default=0)
            part.add_argument("--gpus", type=gpu_numbers, default=(0,))
            part.add_argument("--mint-jobs", type=int, default=0)
        else:
            part.add_argument("--compile", type=int, default=20, help="compile every so many modules")
    options = parser.parse_args()
    options.action(options)


if __name__ == "__main__":
    main()
