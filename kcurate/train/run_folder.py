"""The folder of one training run.

config.toml       every setting, resolved; read by --resume
run.json          the stages, and the adapter that GRPO starts from; read by --resume
tasks.json        the ids of the tasks for SFT, for GRPO, and held out
environment.json  versions, device, processes
metrics.jsonl     one line per step; curves.png is plotted from it
judged.jsonl      one line per completion of GRPO: task, outcome, reward
sft/, rft/, grpo/ checkpoint-N/ while the stage runs, adapter/ when it is done, with taught.json in it
measured.json     scores on the held-out tasks; completions/ has the completions behind them
README.md         the model card
base/             the weights of a .gguf model, unpacked, or of a random one
verdicts.jsonl    the judges' verdicts, so that nothing is judged twice
summary.json      the counts
log               progress messages with timestamps

A stage is done when its adapter/ exists: it is renamed into place when complete. Not covered: the content of
metrics (`callbacks`, `trl_reward`), the curves plotted from them (`curves`).
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kcurate.core import store
from kcurate.core.workspace import Inside
from kcurate.errors import InputError
from kcurate.train.config import resolve, to_toml
from kcurate.train.settings import TrainSettings

StageName = Literal["sft", "rft", "grpo"]
_PACKAGES = ("kcurate", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "vllm")


@dataclass(frozen=True)
class MetricsLog:
    """Lines `{"stage": "sft", "rft" or "grpo", "step": n, ...}`; creating the object touches nothing."""

    path: Path

    def append(self, line: Mapping[str, Any]) -> None:
        """Add one line; if a crash cut the last line short, it starts a new one."""
        store.append_line(self.path, json.dumps(line, ensure_ascii=False), durable=False)

    def lines(self, stage: str | None = None) -> Iterator[dict[str, Any]]:
        """Every complete line, of one stage or of all; none if the file is missing."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for raw in file:
                with contextlib.suppress(ValueError):
                    line = json.loads(raw)
                    if isinstance(line, dict) and stage in (None, line.get("stage")):
                        yield line

    def rewind(self, stage: str, step: int) -> None:
        """Drop the lines of a stage after `step`: the resumed run will write them again."""
        kept = [line for line in self.lines() if line.get("stage") != stage or line.get("step", 0) <= step]
        if self.path.exists():
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept)
            store.write_bytes(self.path, text.encode())


@dataclass(frozen=True)
class RunFolder:
    """Paths of a run; creating the object touches nothing."""

    root: Path

    config = Inside("config.toml")  # the resolved settings
    plan = Inside("run.json")  # the stages, and the adapter that GRPO starts from
    tasks = Inside("tasks.json")  # the split
    base = Inside("base")  # unpacked weights of a `.gguf` model
    curves = Inside("curves.png")
    measured = Inside("measured.json")  # scores on the held-out tasks
    card = Inside("README.md")  # of the model

    @property
    def metrics(self) -> MetricsLog:
        """The metrics, one line per step."""
        return MetricsLog(self.root / "metrics.jsonl")

    @property
    def judged(self) -> MetricsLog:
        """What each completion earned, one line each."""
        return MetricsLog(self.root / "judged.jsonl")

    def completions(self, row: str) -> Path:
        """The completions behind a row of `measured.json`."""
        name = re.sub(r"[^\w.+-]", "-", row)
        return self.root / "completions" / f"{name}.parquet"

    def stage(self, name: StageName) -> Path:
        """The folder of a stage."""
        return self.root / name

    def adapter(self, name: StageName) -> Path:
        """The adapter of a finished stage."""
        return self.root / name / "adapter"

    def done(self, name: StageName) -> bool:
        """Whether the stage is done."""
        return (self.adapter(name) / "adapter_config.json").is_file()

    def checkpoint(self, name: StageName, *, every: int = 1) -> Path | None:
        """The newest complete checkpoint of a stage whose step is a multiple of `every`."""
        steps = {path: step_of(path) for path in self.stage(name).glob("checkpoint-*")}
        complete = [path for path, step in steps.items() if step and step % every == 0]
        return max(complete, key=lambda path: steps[path], default=None)

    def admit(self, *, resume: bool) -> None:
        """Check that a run can begin here, or be resumed; writes nothing.

        Raises:
            InputError: a run is here already, or there is none to resume.
        """
        if resume and not self.config.is_file():
            raise InputError("no run to resume here", where=str(self.root), hint="omit --resume")
        if not resume and self.config.exists():
            raise InputError(
                "a run is here already", where=str(self.root), hint="give --resume, or another --out"
            )

    def start(self, settings: TrainSettings) -> None:
        """Write the settings into the folder of a new or resumed run."""
        store.write_bytes(self.config, to_toml(settings).encode())

    def settings(self, sets: tuple[str, ...] = (), options: Mapping[str, Any] | None = None) -> TrainSettings:
        """The settings of the run to be resumed, with overrides."""
        self.admit(resume=True)
        return resolve(file=self.config, sets=sets, options=options)

    def put_adapter(self, name: StageName, adapter: Path) -> Path:
        """Move a finished adapter into place atomically."""
        place = self.adapter(name)
        if place.exists():
            shutil.rmtree(place)
        adapter.replace(place)
        return place


def step_of(path: Path) -> int:
    """The step of a complete checkpoint, 0 for an incomplete one: the trainer writes this file last."""
    try:
        return int(json.loads((path / "trainer_state.json").read_bytes())["global_step"])
    except (OSError, ValueError, KeyError):
        return 0


def environment(processes: int) -> dict[str, Any]:
    """Versions and hardware: what is needed to reproduce the run."""
    import torch

    versions: dict[str, str | None] = dict.fromkeys(_PACKAGES)
    for name in versions:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions,
        "torch_cuda": torch.version.cuda,
        "gpus": [gpu.name for gpu in gpus],
        "gpu_memory_bytes": [gpu.total_memory for gpu in gpus],
        "processors": len(os.sched_getaffinity(0)),
        "processes": processes,
        "argv": sys.argv[1:],
    }


def write_environment(run: RunFolder, processes: int) -> None:
    """Write `environment.json`."""
    store.write_bytes(run.root / "environment.json", store.pretty_json(environment(processes)))
