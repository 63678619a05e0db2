"""Write the measurements into docs/results/training.md, between its marks.

    python benchmarks/train_docs.py [DATA]

DATA (default docs/data/nvidia-h200/training) holds what the first training run left (measured.json,
report.json, curves.png, environment.json, metrics.jsonl; its script is gone, the next is `experiment.py`),
and train.json and two.json of `train.py`. Missing files are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from marked import fill

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/results/training.md"
TASKS = {"built-in": "built-in pairs", "rules": "variants made by rules"}


def read(path: Path) -> Any:
    """A JSON file, or None."""
    return json.loads(path.read_bytes()) if path.is_file() else None


def section(data: Path) -> str:
    """The section as Markdown."""
    parts = [models(data), costs(read(data / "train.json"), read(data / "two.json"))]
    return "\n".join(part for part in parts if part)


def models(data: Path) -> str:
    """SmolLM2 before and after."""
    measured, report = read(data / "measured.json"), read(data / "report.json")
    if measured is None or report is None:
        return ""
    where = read(data / "environment.json") or {"gpus": [], "packages": {}}
    rows = measured["rows"]
    grpo, phases = report["grpo"], report["phases_s"]
    versions = ", ".join(f"{name} {where['packages'].get(name)}" for name in ("torch", "transformers", "trl"))
    spent = ", ".join(f"{name} {value:.0f}" for name, value in phases.items())
    lines = [
        "### SmolLM2-135M-Instruct on the built-in pairs and their variants\n",
        f"One {', '.join(where['gpus'])}; {versions}; one run, the first. Each row\n"
        f"scores {rows[0]['samples']} completions for {rows[0]['tasks']} tasks of held-out families, "
        "with 95% intervals: Wilson's over the completions\nfor shares, a bootstrap over the tasks for the "
        "reward.\n",
        table(rows),
        *origins(report.get("by_origin", {})),
        f"GRPO: {grpo['steps']} steps, {grpo['draws']} rollout batches ({grpo['answers']} completions in "
        f"all), {grpo['stepped_s']:.0f} s, of which {grpo['waited_s']:.0f} s waiting for rewards.\n"
        f"Phases in seconds: {spent}.\n",
    ]
    if (data / "curves.png").is_file():
        place = f"../{(data / 'curves.png').relative_to(PAGE.parents[1])}"
        lines.append(f"![loss and reward over the steps]({place})\n")
    return "\n".join(lines)


def origins(counts: dict[str, dict[str, dict[str, int]]]) -> list[str]:
    """The same completions by the origin of their task."""
    if not counts:
        return []
    names = ("compiles", "correct", "copied", "faster")
    lines = [
        "The same completions by the origin of their task:\n",
        "| model | tasks | completions | compile | correct | of these copied | faster |",
        "|---|---|---|---|---|---|---|",
    ]
    for row, kinds in counts.items():
        for kind, found in sorted(kinds.items()):
            cells = " | ".join(str(found[name]) for name in ("answers", *names))
            lines.append(f"| {row} | {TASKS[kind]} | {cells} |")
    return ["\n".join(lines) + "\n"]


def table(rows: list[dict[str, Any]]) -> str:
    """The recorded run was scored before `kcurate eval`: over completions, and copies were correct."""
    names = ("compiles", "correct", "copied", "faster")
    lines = [
        "| model | completions | compiles | correct | of these copied | faster | mean reward |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        shares = (
            f"{100 * row[name]['value']:.1f}% [{100 * row[name]['low']:.1f}, {100 * row[name]['high']:.1f}]"
            for name in names
        )
        reward = "{value:.3f} [{low:.3f}, {high:.3f}]".format(**row["reward"])
        lines.append(
            f"| {row['name']} | {row['samples']} for {row['tasks']} tasks | {' | '.join(shares)} | {reward} |"
        )
    return "\n".join(lines) + "\n"


def costs(found: dict[str, Any] | None, two: dict[str, Any] | None) -> str:
    """The cost of training, next to bare TRL and load_inline."""
    rows: list[tuple[str, str, str]] = []
    found = {**(found or {}), **({"two": two["two"]} if two else {})}
    if "sft" in found:
        rates = [
            " / ".join(f"{one:.0f}" for one in found["sft"][k])
            for k in ("kcurate_tokens_a_s", "bare_trl_tokens_a_s")
        ]
        rows.append(("SFT tokens/s, kcurate", rates[0], ""))
        rows.append(("SFT tokens/s, bare TRL, alternating with it", rates[1], ""))
        rows.append(("ratio of the medians", f"{found['sft']['ratio']:.3f}", "0.97"))
    if "rewards" in found:
        own = found["rewards"]
        name = f"rewards/s, {own['answers']} different correct and timed kernels"
        rows.append((name, f"{own['batches'][-1]['a_second']:.2f}", ""))
        if isinstance(own["load_inline"], dict):
            rows.append(
                ("rewards/s, torch load_inline, one at a time", f"{own['load_inline']['a_second']:.3f}", "")
            )
    for part, how in (("two", "two processes"), ("fsdp", "two processes with a sharded model")):
        if "largest_relative_difference" in found.get(part, {}):
            apart = found[part]["largest_relative_difference"]
            rows.append((f"largest relative difference in loss, {how} and one", f"{apart:.2g}", "noise"))
    if not rows:
        return ""
    lines = [
        "### What it costs\n",
        "`benchmarks/train.py`.\n",
        "| what | measured | aim |",
        "|---|---|---|",
    ]
    return "\n".join([*lines, *(f"| {what} | {value} | {aim} |" for what, value, aim in rows)]) + "\n"


def main() -> None:
    """Replace what lies between the marks."""
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/data/nvidia-h200/training"
    fill(PAGE, Path(__file__).name, section(data.resolve()))


if __name__ == "__main__":
    main()
