"""The card of a run, and pushing it with curves and adapters to a model repository on the Hub, in one commit.

Paths of this machine (in settings, arguments, the name of an adapter's base model) are removed first. Not
covered: datasets (`kcurate.dataset.push`), the scores (`kcurate.evaluation.scores`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from kcurate.core import store
from kcurate.core.notes import Note, silent
from kcurate.errors import InputError
from kcurate.evaluation import scores
from kcurate.hub.repository import Hub
from kcurate.train.config import to_toml
from kcurate.train.plans import ALL
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


def write_card(run: RunFolder, settings: TrainSettings, facts: Mapping[str, Any]) -> None:
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


_FILES = ("README.md", "curves.png", "config.toml", "environment.json", "metrics.jsonl", "measured.json")


def push(
    run: RunFolder,
    repo: str,
    *,
    private: bool = False,
    endpoint: str | None = None,
    token: str | None = None,
    note: Note = silent,
) -> str:
    """Create the repository if it is missing, commit the run's files, and return the commit.

    Raises:
        InputError: not a repository name, or nothing to push. MissingDependencyError: no token.
        RemoteError: the Hub refused, or cannot be reached.
    """
    hub = Hub(repo, kind="model", endpoint=endpoint, token=token)
    files = {name: _public(run, path) for name, path in _files(run)}
    if not any(name.endswith("adapter_config.json") for name in files):
        raise InputError("no stage is done, so there is no adapter to push", where=str(run.root))
    hub.create(private=private)
    commit = hub.commit(files, message="Adapters made by kcurate train")
    note(f"{repo}: {len(files)} files in commit {commit[:10]}")
    return commit


def _public(run: RunFolder, path: Path) -> str | bytes:
    """The file to push: its path, or its text if paths of this machine had to be removed."""
    if path == run.config:
        return to_toml(public(run.settings())).encode()
    if path.name == "environment.json":
        return store.pretty_json({**json.loads(path.read_bytes()), "argv": None})
    if path.name == "adapter_config.json":
        base = run.settings().model.shown
        return store.pretty_json({**json.loads(path.read_bytes()), "base_model_name_or_path": base})
    return str(path)


def _files(run: RunFolder) -> Iterator[tuple[str, Path]]:
    """(name in the repository, file); the adapter of the last stage is at the top level, ready to load."""
    for name in _FILES:
        if (run.root / name).is_file():
            yield name, run.root / name
    for path in sorted((run.root / "completions").glob("*.parquet")):
        yield f"completions/{path.name}", path
    done = [name for name in ALL if run.done(name)]
    for name in done:
        for path in sorted(run.adapter(name).rglob("*")):
            if path.is_file():
                relative = path.relative_to(run.adapter(name)).as_posix()
                yield (relative if name == done[-1] else f"{name}/{relative}"), path
