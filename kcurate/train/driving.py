"""What SFT and GRPO share: trainer arguments, resuming, out-of-memory errors, saving the finished adapter.

Not covered: training data (`sft`, `grpo`), the training loop (`transformers.Trainer`).
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers.trainer_callback import PrinterCallback

from kcurate.core.config import near
from kcurate.core.notes import Note
from kcurate.errors import InputError, MissingDependencyError
from kcurate.evaluation import taught
from kcurate.train.callbacks import GradientGuard, StepCallback
from kcurate.train.run_folder import RunFolder, StageName, step_of
from kcurate.train.settings import GrpoSettings, SftSettings, TrainSettings
from kcurate.train.stopping import Stop, StoppedError

# Warm-up takes at most this share of a run: 100 steps (KernelCompare's paper) are too many for short ones.
WARMUP_SHARE = 0.25
# Files of a checkpoint that are not part of its adapter.
NOT_OF_ADAPTERS = (
    "optimizer.*", "scheduler.*", "scaler.*", "rng_state*", "trainer_state.json", "pytorch_model_fsdp*",
)  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """One stage of one run: its folder, settings, stop signal and progress messages.

    `push`: the repository on the Hub that the run is pushed to.
    """

    name: StageName
    run: RunFolder
    settings: TrainSettings
    stop: Stop
    note: Note
    push: str | None = None
    private: bool = False


def state() -> Any:
    """The state of this process under `accelerate launch`; on the CPU if there is no GPU."""
    from accelerate import PartialState

    return PartialState(cpu=not torch.cuda.is_available())


def processes() -> tuple[int, int]:
    """(rank, world size) under `accelerate launch`; (0, 1) for a single process."""
    process = state()
    return int(process.process_index), int(process.num_processes)


def warmup(wanted: int, steps: int, stage: StageName, note: Note) -> int:
    """The number of warm-up steps in a run of `steps` steps, with a note if that is fewer than wanted."""
    most = math.floor(steps * WARMUP_SHARE)
    if wanted > most:
        note(f"{stage}: warm-up shortened from {wanted} to {most} steps, since the run has {steps}")
    return min(wanted, most)


def batches(settings: SftSettings | GrpoSettings, rows: int, most: int) -> dict[str, int]:
    """The batch arguments for steps of `rows` rows, divided equally among the processes.

    The micro batch is `micro_batch`, or the largest divisor of a process's share up to `most`.

    Raises:
        InputError: `micro_batch` does not divide the rows of a process.
    """
    share, size = rows // processes()[1], settings.micro_batch
    if size and share % size:
        raise InputError(
            f"{share} rows per step and process are not a multiple of {size}", where="micro_batch"
        )
    size = size or next(size for size in range(min(most, share), 0, -1) if share % size == 0)
    return {"per_device_train_batch_size": size, "gradient_accumulation_steps": share // size}


def common(stage: Stage, part: SftSettings | GrpoSettings, steps: int) -> dict[str, Any]:
    """The arguments that both trainers share; `steps`: of the whole run."""
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
        "report_to": list(stage.settings.report) or "none",
        "run_name": f"{stage.run.root.name}-{stage.name}",
        "disable_tqdm": True,
        **_push_arguments(stage),
    }


def _push_arguments(stage: Stage) -> dict[str, Any]:
    """The arguments that push checkpoints while a stage runs."""
    if stage.push is None or stage.settings.push_checkpoints == "off":
        return {}
    return {
        "push_to_hub": True,
        "hub_model_id": f"{stage.push}-{stage.name}-checkpoints",
        "hub_strategy": stage.settings.push_checkpoints,
        "hub_private_repo": stage.private,
    }


def arguments(cls: Any, ours: Mapping[str, Any], extra: Mapping[str, Any], where: str) -> Any:
    """A trainer's arguments: ours, overridden by those that the user passes through.

    Raises:
        InputError: an argument that the trainer does not have, or a value that it rejects.
    """
    names = [field.name for field in fields(cls)]
    for name in extra:
        if name not in names:
            raise InputError(
                f"trl.{cls.__name__} has no {name!r}",
                where=where,
                hint=near(name, names, otherwise="see its documentation"),
            )
    try:
        built = cls(**{**ours, **extra})
    except (ValueError, TypeError) as error:
        raise InputError(" ".join(str(error).split())[:300], where=where) from error
    if "LOCAL_RANK" not in os.environ:
        _ = built.device
        built._n_gpu = min(built.n_gpu, 1)  # the other visible GPUs belong to the judge
    return built


@contextlib.contextmanager
def opening(where: str) -> Iterator[None]:
    """Turns the exceptions of a trainer's constructor, which checks its arguments again, into ours.

    Raises:
        InputError: an argument is invalid, or needs a package that is not installed.
    """
    try:
        yield
    except (ValueError, TypeError, ImportError) as error:
        raise InputError(" ".join(str(error).split())[:300], where=where) from error


def drive(trainer: Any, stage: Stage, callback: StepCallback, memory_hint: str) -> int:
    """Train from the newest checkpoint to the end and save the adapter; returns the number of steps.

    Raises:
        StoppedError: told to stop; a checkpoint is saved. MissingDependencyError: out of GPU memory.
        InputError: the gradients of several steps in a row are NaN or infinite.
    """
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(callback)
    trainer.add_callback(GradientGuard(stage.name, stage.note))
    last = stage.run.checkpoint(stage.name)
    # Training was complete and only the adapter is missing; the trainer would take one more step.
    if last and 0 < trainer.args.max_steps <= step_of(last):
        _put_adapter(trainer, stage, last)
        return step_of(last)
    checkpoint = stage.run.checkpoint(stage.name, every=callback.period)
    if trainer.is_world_process_zero():
        step = step_of(checkpoint) if checkpoint else 0
        stage.run.metrics.rewind(stage.name, step)
        stage.run.judged.rewind(stage.name, step)
        if checkpoint:
            stage.note(f"{stage.name}: resuming from step {step}")
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except torch.OutOfMemoryError as error:
        raise MissingDependencyError(
            "out of GPU memory", where=f"train {stage.name}", hint=memory_hint
        ) from error
    except SafetensorError as error:
        hint = "delete it to resume from the one before"
        raise InputError(f"cannot be read: {error}", where=str(checkpoint), hint=hint) from error
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}", where=str(stage.run.root)) from error
    except RuntimeError as error:
        if "PytorchStreamWriter" not in str(error) and "unexpected pos" not in str(error):
            raise
        raise InputError("cannot write a checkpoint: disk full?", where=str(stage.run.root)) from error
    if callback.stopped:
        raise StoppedError(
            f"stopped and saved at step {trainer.state.global_step}",
            where=f"train {stage.name}",
            hint=f"--resume --out {stage.run.root}",
        )
    if callback.late:
        stage.note(f"{stage.name}: stopped by the time limit at step {trainer.state.global_step}")
    _put_adapter(trainer, stage)
    return int(trainer.state.global_step)


def _put_adapter(trainer: Any, stage: Stage, checkpoint: Path | None = None) -> None:
    """Save the trainer's adapter, or a checkpoint's adapter, as the adapter of the stage."""
    part = stage.run.stage(stage.name) / "adapter.part"
    if trainer.is_world_process_zero():
        shutil.rmtree(part, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()
    if checkpoint is None:
        trainer.save_model(str(part))
    elif trainer.is_world_process_zero():
        shutil.copytree(checkpoint, part, ignore=shutil.ignore_patterns(*NOT_OF_ADAPTERS))
    trainer.accelerator.wait_for_everyone()
    if trainer.is_world_process_zero():
        shutil.rmtree(part / "ref", ignore_errors=True)
        for leftover in (part / "training_args.bin", part / "README.md"):
            leftover.unlink(missing_ok=True)
        shutil.copyfile(stage.run.stage(stage.name) / taught.NAME, part / taught.NAME)
        stage.run.put_adapter(stage.name, part)
        (stage.run.stage(stage.name) / "README.md").unlink(missing_ok=True)
    trainer.accelerator.wait_for_everyone()
