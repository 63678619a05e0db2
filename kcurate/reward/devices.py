"""Which GPU trains and which GPUs judge; decided before any is opened.

A single process sees the training GPU first, then the judge's GPUs. Under `accelerate launch` each process
has its own GPU, and the judge's GPUs are divided among the processes. Timing needs an otherwise idle GPU. The
training GPU can also judge: trainer and judge take turns on it, since a step waits for its rewards. Not
covered: the locks between judges (`kcurate.judge.gpu_lock`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from kcurate import backends
from kcurate.backends.choice import require_gpus
from kcurate.errors import MissingDependencyError, OptionError
from kcurate.problem import lessons
from kcurate.reward.settings import JudgeSettings

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class JudgePlace:
    """Where completions are judged: GPUs as this process numbers them, and whether they are timed."""

    backend: str
    gpus: tuple[int, ...]
    timed: bool


def launched() -> bool:
    """Whether this is one of the processes of `accelerate launch` or `torchrun`."""
    return "LOCAL_RANK" in os.environ


def settle(settings: JudgeSettings) -> JudgePlace:
    """Choose the backend and the GPUs, and hide all others from this process and its children.

    Raises:
        MissingDependencyError: no such GPU. InputError: no such backend, or judging GPUs for the emulator.
    """
    backend = backends.resolve(settings.backend)
    count = backends.gpu_count()
    if backend == "emulator":
        if settings.gpus:
            raise OptionError("the emulator uses no GPU", where="--judge-gpus", hint="leave it out")
        if settings.train_gpu and not count:
            why = "there is no GPU here, so training is on the CPU"
            raise MissingDependencyError(why, where=f"--train-gpu {settings.train_gpu}", hint="leave it out")
        if count and not launched():
            _show((settings.train_gpu,), count)
        return JudgePlace(backend, (0,), timed=False)
    require_gpus((), count, where="--backend cuda")
    if launched():
        gpus = _share(settings.gpus, int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]))
        return JudgePlace(backend, gpus, settings.timed)
    judges = settings.gpus or (settings.train_gpu,)
    order = tuple(dict.fromkeys((settings.train_gpu, *judges)))
    _show(order, count)
    return JudgePlace(backend, tuple(order.index(gpu) for gpu in judges), settings.timed)


def gpu_named(place: JudgePlace) -> str | None:
    """The GPU that judges, as prompts name it; None on the emulator."""
    if place.backend == "emulator":
        return None
    import torch

    major, minor = torch.cuda.get_device_capability(place.gpus[0])
    return lessons.gpu_named(torch.cuda.get_device_name(place.gpus[0]), f"sm_{major}{minor}")


def _share(gpus: Sequence[int], rank: int, size: int) -> tuple[int, ...]:
    """The GPUs on which one process judges: every `size`-th of `gpus`, or its own GPU if `gpus` is empty.

    Raises:
        OptionError: fewer GPUs than processes.
    """
    if not gpus:
        return (rank,)
    if len(gpus) < size:
        raise OptionError(
            f"too few GPUs: {len(gpus)} for {size} processes", where="--judge-gpus", hint="one per process"
        )
    return tuple(gpus[rank::size])


def _show(order: Sequence[int], count: int) -> None:
    """Make only these GPUs visible, in this order; the numbers index the GPUs that are visible now."""
    visible = os.environ.get(VISIBLE)
    names = (
        [number.strip() for number in visible.split(",") if number.strip()]
        if visible
        else [str(i) for i in range(count)]
    )
    require_gpus(order, len(names), where="--train-gpu, --judge-gpus")
    os.environ[VISIBLE] = ",".join(names[gpu] for gpu in order)


def name() -> str:
    """The name of the device that this process trains on."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "the CPU"
