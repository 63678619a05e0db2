"""`kcurate train`: its options become a `TrainConfig`; the stage itself is `kcurate.train.stage`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kcurate.cli import ending, output
from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import Argument, JsonOption, Option, Overrides, WorkspaceOption
from kcurate.errors import InputError, OptionError
from kcurate.local_models.settings import LARGE_BYTES
from kcurate.train.settings import CallOptions, TrainSettings

if TYPE_CHECKING:
    from kcurate.train.stage import TrainConfig

SetsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One setting, such as sft.epochs=2; may be repeated."),
]


def train(
    options: Annotated[dict[str, Any], Overrides(TrainSettings)],
    stage: Annotated[
        Literal["all", "sft", "rft", "grpo", "measure"] | None,
        Argument(
            "Only this stage; rft: SFT on the model's own right answers; measure: only score on the "
            "held-out tasks.  [default: sft and grpo, or those of the resumed run]"
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        Option(
            "pairs, modern, kernelcompare, sqd, staged-tiers, continuous, or tiny (a random model, two "
            "minutes on a CPU; learns nothing useful).  [default: pairs]",
            metavar="NAME",
        ),
    ] = None,
    reward: Annotated[
        str | None,
        Option(
            "pairs, kernelcompare, staged-tiers, continuous, or MODULE:FUNCTION, your own "
            "(docs/rewards.md).  [default: the recipe's]",
            metavar="NAME",
            check="kcurate.reward.own_reward:check_name",
        ),
    ] = None,
    config: Annotated[Path | None, Option("A TOML file that overrides the recipe.", metavar="FILE")] = None,
    sets: SetsOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    *,
    call: CallOptions,
    json: JsonOption = False,
) -> None:
    """Fine-tune a model on pairs (SFT), then train it with the judge as reward (GRPO).

    Example: kcurate train --model HuggingFaceTB/SmolLM2-135M-Instruct --out runs/first
    """
    from kcurate.local_models.libraries import require_extra

    require_extra()
    folder = call.out or _new_folder(workspace, resume=call.resume)
    overrides = (*([f"reward.scheme={reward}"] if reward else ()), *(sets or ()))
    settings = _settings(options, recipe, config, overrides, folder if call.resume else None)
    if not ("model" in options or call.yes or call.resume):
        _refuse_default(settings.model.name)
    from kcurate.train.plans import ALL, STAGES
    from kcurate.train.stage import TrainConfig

    named = STAGES if stage == "all" else tuple(name for name in ALL if name == stage)
    adapter_name = call.adapter.name if call.adapter else None
    row = (call.row or adapter_name) if stage == "measure" else None
    here: dict[str, Any] = {**vars(call), "out": folder, "row": row}
    summary = _run(TrainConfig(**here, settings=settings, stages=None if stage is None else named))
    if os.environ.get("RANK", "0") == "0":
        output.note(f"run folder: {folder}")
        output.report(summary, as_json=json)


def _refuse_default(name: str) -> None:
    """Refuse to train the default model unnamed: it is large, and would be downloaded by leaving out an
    option."""
    if name in LARGE_BYTES:
        size = f"{LARGE_BYTES[name] / 1e9:.1f} GB"
        raise InputError(
            f"the default model is {name}, {size} to download unless it is in the Hub's cache",
            where="kcurate train",
            hint="--yes goes on, --model NAME takes another, --recipe tiny makes a random one in two minutes",
        )


def _run(config: TrainConfig) -> Any:
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
    options: dict[str, Any],
    recipe: str | None,
    config: Path | None,
    sets: tuple[str, ...],
    resumed: Path | None,
) -> TrainSettings:
    """The settings of a new run, or those of the resumed run with overrides."""
    from kcurate.train.config import resolve
    from kcurate.train.run_folder import RunFolder

    if resumed is None:
        return resolve(recipe=recipe, file=config, sets=sets, options=options)
    if recipe is not None or config is not None:
        raise OptionError("a run keeps its recipe and file", where="--resume", hint="change it with --set")
    return RunFolder(resumed).settings(sets, options)


def _new_folder(workspace: Path, *, resume: bool) -> Path:
    from kcurate.core.runs import new_folder

    if resume:
        raise OptionError("which run?", where="--resume", hint="give --out RUN")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise OptionError("several processes need one folder", where="--out", hint="give --out RUN")
    return new_folder(workspace, "train")
