"""curves.png: a run's metrics over its steps, plotted with matplotlib from metrics.jsonl.

Not covered: which metrics there are (`callbacks`, `trl_reward`).
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kcurate.core import store
from kcurate.train.run_folder import MetricsLog

Line = Mapping[str, Any]
# Each panel: title, stage, and curves, each with a label and the keys to its value in a line of metrics.
_PANELS: Sequence[tuple[str, str, Sequence[tuple[str, tuple[str, ...]]]]] = (
    ("SFT: loss", "sft", [("loss", ("loss",))]),
    ("SFT: token accuracy", "sft", [("accuracy", ("mean_token_accuracy",))]),
    ("GRPO: mean reward", "grpo", [("reward", ("judged_reward",))]),
    (
        "GRPO: reward by component",
        "grpo",
        [
            (name, ("components", name))
            for name in ("compiles", "correct", "faster", "reached", "speed", "tier")
        ],
    ),
    ("GRPO: KL divergence from the reference", "grpo", [("kl", ("kl",))]),
    ("GRPO: completion length in tokens", "grpo", [("mean", ("completions/mean_length",))]),
)


def draw(metrics: MetricsLog, path: Path, title: str) -> bool:
    """Plot the curves; False if there is nothing to plot or matplotlib is not installed."""
    lines = list(metrics.lines())
    panels = [
        (title_, curves) for title_, stage, possible in _PANELS if (curves := _drawn(lines, stage, possible))
    ]
    if not panels or importlib.util.find_spec("matplotlib") is None:
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = (len(panels) + 1) // 2
    figure = Figure(figsize=(11, 2.9 * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    for index, (panel_title, curves) in enumerate(panels):
        axes = figure.add_subplot(rows, 2, index + 1)
        for label, steps, values in curves:
            axes.plot(steps, values, marker="o" if len(steps) < 40 else "", markersize=3, label=label)
        axes.set_title(panel_title, fontsize=10)
        axes.set_xlabel("step", fontsize=9)
        axes.grid(visible=True, alpha=0.3)
        if len(curves) > 1:
            axes.legend(fontsize=8)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    store.write_bytes(path, data.getvalue())
    return True


def _drawn(
    lines: Sequence[Line], stage: str, curves: Sequence[tuple[str, tuple[str, ...]]]
) -> list[tuple[str, list[int], list[float]]]:
    """The curves that have data: label, steps, values."""
    drawn = []
    for label, keys in curves:
        points = [
            (line["step"], value)
            for line in lines
            if line.get("stage") == stage and (value := _number(line, keys)) is not None
        ]
        if points:
            drawn.append((label, [step for step, _ in points], [value for _, value in points]))
    return drawn


def _number(line: Any, keys: Sequence[str]) -> float | None:
    value = line
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) else None
