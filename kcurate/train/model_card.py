"""The README.md of a run, which is the model card on the Hub: what was trained, on what data, and the scores.

Not covered: the scores (`kcurate.evaluation.scores`), uploading it (`hub`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from kcurate.core import store
from kcurate.evaluation import scores
from kcurate.train.config import to_toml
from kcurate.train.run_folder import RunFolder, StageName
from kcurate.train.settings import TrainSettings

_STAGES: Mapping[StageName, str] = {
    "sft": "supervised fine-tuning on the faster sides of CUDA kernel pairs",
    "rft": "SFT on the model's own confirmed answers that are not copies",
    "grpo": "GRPO, rewarded by kcurate's judge",
}
_COUNTS = {
    "tasks taught": "tasks for SFT",
    "tasks asked": "tasks for GRPO",
    "tasks held_out": "held-out tasks",
    "steps sft": "SFT steps",
    "steps rft": "RFT steps",
    "steps grpo": "GRPO steps",
    "completions ended": "completions that GRPO sampled whole",
    "completions truncated": "completions that were cut at the length limit",
}


def write(run: RunFolder, settings: TrainSettings, facts: Mapping[str, Any]) -> None:
    """Write the card; `facts`: such as task counts, name to value."""
    store.write_bytes(run.card, card(run, settings, facts).encode())


def card(run: RunFolder, settings: TrainSettings, facts: Mapping[str, Any]) -> str:
    """The card as Markdown, starting with the metadata for the Hub."""
    done = [name for name in _STAGES if run.done(name)]
    base = settings.model.shown
    parts = [_metadata(settings), f"# {Path(base).name}: CUDA kernels made faster\n"]
    parts.append(f"LoRA adapters on `{base}`, made by `kcurate train`:\n")
    parts += [f"- `{name}/adapter`: {_STAGES[name]}" for name in done]
    parts.append(
        "\nThe prompt is a slow CUDA kernel with its launch plan; the completion is a faster kernel."
    )
    parts.append("A judge compiles every completion, compares its results on secret inputs, and times it.\n")
    if table := scores.markdown(scores.read_rows(run.measured)):
        parts += ["## On held-out tasks\n", table]
        parts.append(
            "No family of these tasks was trained on. Intervals: 95%, by a bootstrap over families; none "
            "below ten families. A completion that repeats the given kernel is copied, not correct.\n"
        )
    if run.curves.is_file():
        parts.append("## Curves\n\n![loss and reward over the steps](curves.png)\n")
    parts.append("## How it was made\n")
    parts += [f"- {_COUNTS.get(name, name)}: {value}" for name, value in facts.items()]
    parts.append(f"- where: {_where(run)}\n")
    parts.append(f"```toml\n{to_toml(public(settings))}```")
    return "\n".join(parts) + "\n"


def public(settings: TrainSettings) -> TrainSettings:
    """The settings without paths of this machine: of a file or folder, only its name remains."""
    short: TrainSettings = _short(settings)
    return replace(short, model=replace(short.model, name=settings.model.shown, base=""))


def _short(value: Any) -> Any:
    """A value with each path in it cut to its last part, also after a colon as in `kernelbench:PATH`."""
    if isinstance(value, str):
        prefix, colon, text = value.rpartition(":")
        path = Path(text)
        local = text and "://" not in value and (path.is_absolute() or path.exists())
        return f"{prefix}{colon}{path.absolute().name}" if local else value
    if isinstance(value, Mapping):
        return {name: _short(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_short, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _short(getattr(value, field.name)) for field in fields(value)})
    return value


def _metadata(settings: TrainSettings) -> str:
    name = settings.model.shown
    base = f"base_model: {name}\n" if "/" in name else ""
    return f"---\nlibrary_name: peft\n{base}tags:\n- cuda\n- code\n- lora\n- trl\n- kcurate\n---\n"


def _where(run: RunFolder) -> str:
    try:
        data = json.loads((run.root / "environment.json").read_bytes())
    except (OSError, ValueError):
        return "not recorded"
    gpus = ", ".join(data["gpus"]) or "no GPU"
    versions = ", ".join(f"{name} {version}" for name, version in data["packages"].items() if version)
    return f"{gpus}; {data['processes']} process(es); {versions}"
