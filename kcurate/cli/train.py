"""`kcurate train`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kcurate.cli.options import (
    DEFAULT_WORKSPACE,
    BackendOption,
    DatasetOption,
    JobsOption,
    JsonOption,
    RayOption,
    WorkspaceOption,
    given_path,
)

if TYPE_CHECKING:
    from kcurate.train.settings import TrainSettings
    from kcurate.train.stage import TrainConfig


def train(
    stage: Annotated[
        Literal["all", "sft", "rft", "grpo", "measure"] | None,
        typer.Argument(
            help="Only this stage; rft: SFT on the model's own right answers; measure: only score on the "
            "held-out tasks.  [default: sft and grpo, or those of the resumed run]",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Hub name, folder, or .gguf file.  [default: deepseek-ai/DeepSeek-R1-Distill-Qwen-7B]",
        ),
    ] = None,
    dataset: DatasetOption = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="GRPO prompts: pairs, or kernelbench[:PATH].  [default: the recipe's]"
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="pairs, modern, kernelcompare, sqd, staged-tiers, continuous, or tiny (a random model, two "
            "minutes on a CPU; learns nothing useful).  [default: pairs]",
        ),
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="pairs, kernelcompare, staged-tiers, continuous, or MODULE:FUNCTION, your own "
            "(docs/rewards.md).  [default: the recipe's]",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A TOML file that overrides the recipe.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="One setting, such as sft.epochs=2; may be repeated."
        ),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            parser=given_path,
            help="The run's folder.  [default: runs/train-<time> in the workspace]",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    adapter: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="rft, grpo: start from this adapter; measure: score only this one."),
    ] = None,
    row: Annotated[
        str | None, typer.Option(metavar="NAME", help="measure: name of the score row for --adapter.")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Completions per score on held-out tasks; 0: no scores.  [default: 256]"
        ),
    ] = None,
    max_minutes: Annotated[
        float, typer.Option(min=0, metavar="M", help="Stop training gracefully after M minutes; 0: no limit.")
    ] = 0.0,
    backend: BackendOption = "auto",
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A kcurate serve with the same --dataset that judges instead of this machine.",
        ),
    ] = None,
    train_gpu: Annotated[int, typer.Option(min=0, metavar="N", help="The GPU that trains.")] = 0,
    judge_gpus: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="GPUs that judge, such as 1,2.  [default: the training GPU]"),
    ] = None,
    jobs: JobsOption = 0,
    ray: RayOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Download the default model without --model.")] = False,
    push: Annotated[
        str | None, typer.Option(metavar="USER/NAME", help="Publish card and adapters on the Hub at the end.")
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Log to these as well: trackio, wandb, tensorboard."),
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Create the repository on the Hub as private.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Fine-tune a model on pairs (SFT), then train it with the judge as reward (GRPO).

    Example: kcurate train --model HuggingFaceTB/SmolLM2-135M-Instruct --out runs/first
    """
    from kcurate.backends.choice import gpu_numbers
    from kcurate.cli import output
    from kcurate.train.extra import require_extra

    require_extra()
    given = {
        "model.name": model,
        "tasks.dataset": dataset or None,
        "tasks.source": tasks,
        "judge.backend": None if backend == "auto" else backend,
        "judge.train_gpu": train_gpu or None,
        "judge.gpus": None if judge_gpus is None else gpu_numbers(judge_gpus, where="--judge-gpus"),
        "judge.jobs": jobs or None,
        "judge.ray": ray,
        "judge.url": judge,
        "measure.samples": samples,
        "report": None if report is None else [name.strip() for name in report.split(",")],
    }
    folder = out or _new_folder(workspace, resume=resume)
    every = (*([f"reward.scheme={reward}"] if reward else ()), *(sets or ()))
    settings = _settings(given, recipe, config, every, folder if resume else None)
    if not (model or yes or resume):
        _refuse_default(settings.model.name)
    from kcurate.train.plans import ALL, STAGES
    from kcurate.train.stage import TrainConfig

    named = STAGES if stage == "all" else tuple(one for one in ALL if one == stage)
    made = TrainConfig(
        settings=settings,
        out=folder,
        stages=None if stage is None else named,
        adapter=adapter,
        row=row or (adapter.name if adapter else None) if stage == "measure" else None,
        resume=resume,
        budget_s=max_minutes * 60,
        push=push,
        private=private,
    )
    summary = _run(made)
    if os.environ.get("RANK", "0") == "0":
        output.note(f"run folder: {folder}")
        output.report(summary, as_json=json)


def _refuse_default(name: str) -> None:
    """The default model is large: nobody downloads it by leaving out an option."""
    from kcurate.errors import InputError
    from kcurate.train.settings import LARGE_BYTES

    if name in LARGE_BYTES:
        size = f"{LARGE_BYTES[name] / 1e9:.1f} GB"
        raise InputError(
            f"the default model is {name}, {size} to download unless it is in the Hub's cache",
            where="kcurate train",
            hint="--yes goes on, --model NAME takes another, --recipe tiny makes a random one in two minutes",
        )


def _run(config: TrainConfig) -> Any:
    from kcurate.cli import ending, output
    from kcurate.train.stage import run
    from kcurate.train.stopping import EXIT_TERMINATED, StoppedError

    try:
        return run(config, note=output.note)
    except KeyboardInterrupt:
        if (config.out / "config.toml").is_file():
            ending.resumed_by(shlex.join(["kcurate", "train", "--resume", "--out", str(config.out)]))
        raise
    except StoppedError as stopped:
        output.note(str(stopped))
        raise typer.Exit(EXIT_TERMINATED) from stopped


def _settings(
    given: dict[str, Any],
    recipe: str | None,
    config: Path | None,
    sets: tuple[str, ...],
    resumed: Path | None,
) -> TrainSettings:
    """The settings of a new run, or those of the run that goes on, with what is set anew."""
    from kcurate.errors import InputError
    from kcurate.train.config import resolve
    from kcurate.train.run_folder import RunFolder

    options: dict[str, Any] = {}
    for name, value in given.items():
        if value is not None:
            table, _, key = name.rpartition(".")
            (options.setdefault(table, {}) if table else options)[key] = value
    if resumed is None:
        return resolve(recipe=recipe, file=config, sets=sets, options=options)
    if recipe is not None or config is not None:
        raise InputError("a run keeps its recipe and file", where="--resume", hint="change it with --set")
    return RunFolder(resumed).settings(sets, options)


def _new_folder(workspace: Path, *, resume: bool) -> Path:
    from kcurate.core.runs import new_folder
    from kcurate.errors import InputError

    if resume:
        raise InputError("which run?", where="--resume", hint="give --out RUN")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("several processes need one folder", where="--out", hint="give --out RUN")
    return new_folder(workspace, "train")
