"""What both stages share of a trainer: its arguments, resuming, running out of memory, the finished adapter.

Not covered: what is trained on (`sft`, `grpo`), the loop itself (`transformers.Trainer`).
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers.trainer_callback import PrinterCallback

from kcurate.config import near
from kcurate.errors import InputError, MissingDependencyError
from kcurate.notes import Note
from kcurate.train.callbacks import StepCallback
from kcurate.train.gradients import GradientGuard
from kcurate.train.run_folder import RunFolder, StageName, step_of
from kcurate.train.settings import GrpoSettings, SftSettings, TrainSettings
from kcurate.train.stopping import Stop, StoppedError

# Warm-up takes no more than this share of a run: 100 steps suit the paper's runs, not every one.
WARMUP_SHARE = 0.25
# What a checkpoint has beside its adapter.
NOT_OF_ADAPTERS = (
    "optimizer.*", "scheduler.*", "scaler.*", "rng_state*", "trainer_state.json", "pytorch_model_fsdp*",
)  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """One stage of one run: where it writes, what tells it to stop, and how it speaks to the person."""

    name: StageName
    run: RunFolder
    settings: TrainSettings
    stop: Stop
    note: Note


def state() -> Any:
    """What `accelerate launch` says of this process; without a GPU it must be told so before it looks."""
    from accelerate import PartialState

    return PartialState(cpu=not torch.cuda.is_available())


def processes() -> tuple[int, int]:
    """(this process's number, how many there are) under `accelerate launch`; (0, 1) alone."""
    found = state()
    return int(found.process_index), int(found.num_processes)


def warmup(wanted: int, steps: int, stage: StageName, note: Note) -> int:
    """The warm-up steps of a run of so many steps; says so when they are fewer than wanted."""
    most = math.floor(steps * WARMUP_SHARE)
    if wanted > most:
        note(f"{stage}: {steps} steps in all, so {most} of warm-up instead of {wanted}")
    return min(wanted, most)


def batches(settings: SftSettings | GrpoSettings, rows: int, most: int) -> dict[str, int]:
    """The trainer's arguments for a step of `rows` rows over all processes, each of which has a whole share.

    So many go through the model at once as are wanted, or as divide the share, up to `most`.

    Raises:
        InputError: the wanted number does not divide the rows of a process.
    """
    share, wanted = rows // processes()[1], settings.micro_batch
    if wanted and share % wanted:
        raise InputError(f"{share} rows a step and process are no multiple of {wanted}", where="micro_batch")
    at_once = wanted or next(size for size in range(min(most, share), 0, -1) if share % size == 0)
    return {"per_device_train_batch_size": at_once, "gradient_accumulation_steps": share // at_once}


def common(stage: Stage, part: SftSettings | GrpoSettings, steps: int) -> dict[str, Any]:
    """The arguments that both trainers take; `steps`: of the whole run."""
    on_gpu = torch.cuda.is_available()
    return {
        "output_dir": str(stage.run.stage(stage.name)),
        "learning_rate": part.learning_rate,
        "num_train_epochs": part.epochs,
        "max_steps": part.max_steps or -1,
        "optim": part.optimizer,
        "lr_scheduler_type": part.scheduler,
        "warmup_steps": warmup(part.warmup_steps, steps, stage.name, stage.note),
        "weight_decay": part.weight_decay,
        "max_grad_norm": part.max_grad_norm,
        "gradient_checkpointing": part.gradient_checkpointing,
        "logging_steps": 1,
        "logging_first_step": True,
        "save_strategy": "steps",
        "save_steps": part.save_steps,
        "save_total_limit": part.keep_checkpoints,
        "seed": stage.settings.seed,
        "bf16": on_gpu and stage.settings.model.dtype in ("auto", "bfloat16"),
        "fp16": on_gpu and stage.settings.model.dtype == "float16",
        "use_cpu": not on_gpu,
        "ddp_find_unused_parameters": False,
        "report_to": "none",
        "disable_tqdm": True,
    }


def arguments(cls: Any, given: Mapping[str, Any], extra: Mapping[str, Any], where: str) -> Any:
    """A trainer's arguments from ours and from those that a person passes on.

    Raises:
        InputError: one that the trainer does not have, or values that it refuses.
    """
    known = [one.name for one in fields(cls)]
    for name in extra:
        if name not in known:
            raise InputError(
                f"trl.{cls.__name__} has no {name!r}",
                where=where,
                hint=near(name, known, otherwise="see its documentation"),
            )
    try:
        made = cls(**{**given, **extra})
    except (ValueError, TypeError) as error:
        raise InputError(" ".join(str(error).split())[:300], where=where) from error
    if "LOCAL_RANK" not in os.environ:
        _ = made.device
        made._n_gpu = min(made.n_gpu, 1)  # the other visible GPUs are the judge's
    return made


@contextlib.contextmanager
def opening(where: str) -> Iterator[None]:
    """Around the making of a trainer, which looks at its arguments once more.

    Raises:
        InputError: it refuses them, or lacks a package that they ask for.
    """
    try:
        yield
    except (ValueError, TypeError, ImportError) as error:
        raise InputError(" ".join(str(error).split())[:300], where=where) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without progress bars, and without the libraries' remarks on each other's names."""
    import datasets
    from transformers.utils import logging

    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*gradient_checkpointing.* is deprecated")
        yield


def drive(trainer: Any, stage: Stage, callback: StepCallback, knobs: str) -> int:
    """Train from the newest checkpoint to the end and put the adapter in place; the number of steps.

    Raises:
        StoppedError: a signal came; a checkpoint is written. MissingDependencyError: out of GPU memory.
        InputError: gradients are no numbers, step after step.
    """
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(callback)
    trainer.add_callback(GradientGuard(stage.name, stage.note))
    last = stage.run.checkpoint(stage.name)
    if last and 0 < trainer.args.max_steps <= step_of(last):  # the trainer would take another step
        _put_adapter(trainer, stage, last)
        return step_of(last)
    checkpoint = stage.run.checkpoint(stage.name, every=callback.period)
    if trainer.is_world_process_zero():
        step = step_of(checkpoint) if checkpoint else 0
        stage.run.metrics.rewind(stage.name, step)
        stage.run.judged.rewind(stage.name, step)
        if checkpoint:
            stage.note(f"{stage.name}: from the checkpoint of step {step}")
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except torch.OutOfMemoryError as error:
        raise MissingDependencyError("out of GPU memory", where=f"train {stage.name}", hint=knobs) from error
    except SafetensorError as error:
        hint = "delete it: the one before is taken then"
        raise InputError(f"cannot be read: {error}", where=str(checkpoint), hint=hint) from error
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}", where=str(stage.run.root)) from error
    except RuntimeError as error:
        if "PytorchStreamWriter" not in str(error) and "unexpected pos" not in str(error):
            raise
        raise InputError("cannot write a checkpoint: disk full?", where=str(stage.run.root)) from error
    if callback.told:
        raise StoppedError(
            f"stopped and saved at step {trainer.state.global_step}",
            where=f"train {stage.name}",
            hint=f"--resume --out {stage.run.root}",
        )
    if callback.late:
        stage.note(f"{stage.name}: the time limit ended it at step {trainer.state.global_step}")
    _put_adapter(trainer, stage)
    return int(trainer.state.global_step)


def _put_adapter(trainer: Any, stage: Stage, checkpoint: Path | None = None) -> None:
    """Put the trainer's adapter in its place, or that of a checkpoint."""
    made = stage.run.stage(stage.name) / "adapter.part"
    if trainer.is_world_process_zero():
        shutil.rmtree(made, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()
    if checkpoint is None:
        trainer.save_model(str(made))
    elif trainer.is_world_process_zero():
        shutil.copytree(checkpoint, made, ignore=shutil.ignore_patterns(*NOT_OF_ADAPTERS))
    trainer.accelerator.wait_for_everyone()
    if trainer.is_world_process_zero():
        for leftover in (made / "training_args.bin", made / "ref", made / "README.md"):
            _remove(leftover)
        stage.run.put_adapter(stage.name, made)
        _remove(stage.run.stage(stage.name) / "README.md")
    trainer.accelerator.wait_for_everyone()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
