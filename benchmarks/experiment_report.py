"""The tables and the curve of docs/results/training.md, from the rows of `experiment.py`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from marked import fill

from kcurate import prompts
from kcurate.cuda_source.compare.containment import standing_in
from kcurate.errors import InputError
from kcurate.evaluation import completions, intervals, scores
from kcurate.evaluation.scores import Group
from kcurate.reward.task import Task

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/results/training.md"
# First, second; the difference is the second less the first.
COMPARED = (
    ("base", "all"),
    ("form", "all"),
    ("shuffled", "all"),
    ("eighth", "all"),
    ("half", "all"),
    ("no-explanations", "all"),
    ("no-minted", "all"),
    ("all", "all-2"),
    ("all", "grpo"),
    ("all", "rft"),
)
CURVE = ("base", "eighth", "quarter", "half", "all")
SHARES: Mapping[str, Callable[[Group], float]] = {
    "compiles": lambda group: fmean(sample.compiles for sample in group.samples),
    "right, no copy": lambda group: fmean(sample.correct for sample in group.samples),
    "copied": lambda group: fmean(sample.copied for sample in group.samples),
    "pass@1 of fast_1.2": lambda group: fmean(sample.faster_than(1.2) for sample in group.samples),
    "pass@4 of fast_1.2": lambda group: float(any(sample.faster_than(1.2) for sample in group.samples)),
    "attained share": lambda group: fmean(sample.attained or 0.0 for sample in group.samples),
}
# Outcome to task to (value, family).
Outcomes = dict[str, dict[str, tuple[float, str]]]


def outcomes(arm: Path) -> Outcomes:
    """The outcomes of an arm by task: those whose files are there."""
    import pyarrow.parquet as pq

    found: Outcomes = {}
    if (path := arm / "likelihoods.parquet").exists():
        each = {(row["kind"], row["task"]): row for row in pq.read_table(path).to_pylist()}
        found["nats a token"] = {
            task: (row["nats"] / row["tokens"], row["family"])
            for (kind, task), row in each.items()
            if kind == "answer"
        }
        for name, better, worse in (
            ("preferred", "chosen", "rejected"),
            ("answer over given", "answer", "given"),
        ):
            found[name] = {
                task: (float(row["nats"] / row["tokens"] < other["nats"] / other["tokens"]), row["family"])
                for (kind, task), row in each.items()
                if kind == better and (other := each.get((worse, task)))
            }
    judged = any(row["unit"] == "judge" for row in rows_of(arm))
    if judged:
        groups = scores.grouped(completions.read(arm / "completions.parquet", hint="run the arm"))
        found |= {
            name: {group.task: (share(group), group.family) for group in groups}
            for name, share in SHARES.items()
        }
    return {name: values for name, values in found.items() if values}


def rows_of(arm: Path) -> list[dict[str, Any]]:
    """The rows of an arm."""
    path = arm / "rows.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def estimate(values: Sequence[tuple[float, str]], low: float, name: str) -> intervals.Estimate:
    """The mean with its interval by family; `low`: 0 for a share, -1 for a difference of shares."""
    bounds = None if name == "nats a token" else (low, 1.0)
    return intervals.mean([value for value, _ in values], [family for _, family in values], bounds)


def tables(state: Path) -> str:
    """Every outcome of every arm; differences; where the minutes went."""
    from experiment import ARMS, TABLE1

    of = {name: outcomes(state / name) for name in ARMS}
    done = [name for name in ARMS if of[name]]
    if not done:
        raise InputError("no rows here", where=str(state), hint="run an arm")
    names = list(dict.fromkeys(outcome for name in done for outcome in of[name]))
    first = rows_of(state / done[0])[0]
    packages = ", ".join(f"{name} {first['packages'].get(name)}" for name in ("torch", "transformers", "trl"))
    missing = ", ".join(f"`{name}`" for name in ARMS if name not in done)
    parts = [
        f"{', '.join(first['gpus']) or 'CPU'}; {packages}.{f' Not run: {missing}.' if missing else ''}\n"
    ]
    parts += [f"| arm | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for name in done:
        cells = [
            estimate(list(of[name][outcome].values()), 0.0, outcome).shown() if outcome in of[name] else ""
            for outcome in names
        ]
        parts.append(f"| `{name}` | {' | '.join(cells)} |")
    parts += [
        "",
        "Paired by task; once more for the tasks whose problem nobody minted:",
        "",
        "| second less first | outcome | tasks | difference | detectable |",
        "|---|---|---:|---:|---:|",
    ]
    unminted = {name: without_minted(arm) for name, arm in of.items()}
    for before, after in COMPARED:
        for outcome in names:
            parts += difference(before, after, outcome, of)
            parts += difference(before, after, outcome, unminted, "not minted")
    parts += ["", "| arm | unit | seconds | |", "|---|---|---:|---|"]
    for name in done:
        for row in rows_of(state / name):
            told = ", ".join(
                f"{key} {row[key]}" for key in ("rows", "tokens", "tokens_per_s") if row.get(key)
            )
            parts.append(f"| `{name}` | {row['unit']} | {row['seconds']:.0f} | {told} |")
    level1 = {
        row["arm"]: row for name in TABLE1 for row in rows_of(state / name) if row["unit"] == "kernelbench"
    }
    if level1:
        parts += [
            "",
            "| KernelBench level 1 | tasks | compiles | right, no copy | faster |",
            "|---|---:|---:|---:|---:|",
        ]
    for name, row in level1.items():
        score = row["scores"]
        shares = [score["compiles"]["1"], score["correct"]["1"], score["fast"].get("1", {}).get("1")]
        cells = ["" if share is None else intervals.Estimate(**share).shown() for share in shares]
        parts.append(f"| `{name}` | {score['tasks']} | {' | '.join(cells)} |")
    return "\n".join(parts)


def without_minted(arm: Outcomes) -> Outcomes:
    """The outcomes of the problems that nobody minted, whose answers no template wrote."""
    return {
        outcome: {task: value for task, value in values.items() if not task.startswith("minted/")}
        for outcome, values in arm.items()
    }


def difference(
    before: str, after: str, outcome: str, of: Mapping[str, Outcomes], part: str = "all"
) -> list[str]:
    """The line of one outcome of two arms, on the tasks that both have; none if one has it not."""
    first, second = of[before].get(outcome), of[after].get(outcome)
    if not first or not second:
        return []
    apart = [(second[task][0] - value, family) for task, (value, family) in first.items() if task in second]
    size = intervals.detectable([value for value, _ in apart], [family for _, family in apart])
    cells = (
        f"`{after}` less `{before}`",
        outcome,
        f"{len(apart)} {part}" if part != "all" else str(len(apart)),
        estimate(apart, -1.0, outcome).shown("+.3f"),
        "" if size is None else f"{size:.3f}",
    )
    return [f"| {' | '.join(cells)} |"]


def alike(taught: Sequence[Task], held_out: Sequence[Task], state: Path) -> None:
    """Print how many held-out answers stand in a taught one, and the outcomes of other minted tasks."""
    tested, shown = ([text_of(task) for task in tasks] for tasks in (held_out, taught))
    for within_runs in (False, True):
        found = {held_out[at].id for at, *_ in standing_in(tested, shown, within_runs=within_runs)}
        print(f"names numbered within {'runs' if within_runs else 'the code'}: {len(found)} of {len(tested)}")
        for arm in CURVE:
            for outcome in ("right, no copy", "pass@4 of fast_1.2"):
                values = outcomes(state / arm).get(outcome, {})
                minted = {task: value for task, (value, _) in values.items() if task.startswith("minted/")}
                if apart := [value for task, value in minted.items() if task not in found]:
                    print(f"  {arm}: {outcome} {fmean(apart):.3f} on the other {len(apart)} minted ones")


def text_of(task: Task) -> str:
    """The code of a task's known answer."""
    answer = prompts.read_reply(task.answer or "", "text", task.template.fast.language)
    return answer.code or "" if isinstance(answer, prompts.Answer) else ""


def draw(state: Path, into: Path) -> None:
    """The curve: each outcome over the share of the rows that was taught."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt
    from experiment import ARMS

    of = {name: outcomes(state / name) for name in CURVE if (state / name).exists()}
    names = [
        name for name in ("nats a token", "answer over given", "right, no copy") if name in of.get("all", {})
    ]
    figure, axes = plt.subplots(1, max(1, len(names)), figsize=(4 * max(1, len(names)), 3), squeeze=False)
    for axis, outcome in zip(axes[0], names, strict=False):
        arms = [name for name in CURVE if outcome in of.get(name, {})]
        means = [estimate(list(of[name][outcome].values()), 0.0, outcome) for name in arms]
        shares = [0.0 if name == "base" else ARMS[name].share for name in arms]
        ends = [
            [mean.value - (mean.low if mean.low is not None else mean.value) for mean in means],
            [(mean.high if mean.high is not None else mean.value) - mean.value for mean in means],
        ]
        axis.errorbar(shares, [mean.value for mean in means], yerr=ends, marker="o", capsize=3)
        axis.set(title=outcome, xlabel="share of the families taught")
    figure.tight_layout()
    figure.savefig(into)
    plt.close(figure)


def report(state: Path) -> None:
    """Fill the page and draw the curve."""
    fill(PAGE, "experiment.py", tables(state))
    draw(state, state / "curve.svg")
