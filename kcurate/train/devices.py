"""Which GPU trains and which judge: settled before anything opens one.

A process alone sees the GPU that trains as its first and the judge's after it. Under `accelerate launch` each
process has a GPU of its own; the judge's are shared out among them. Times are worth something only on a GPU
that nothing else uses: on the one that trains, judge and trainer take turns, since a step waits for its
rewards. Not covered: the locks by which judges heed each other (`kcurate.judge`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kcurate import backends
from kcurate.backends.choice import require_gpus
from kcurate.errors import InputError
from kcurate.train.settings import JudgeSettings

VISIBLE = "CUDA_VISIBLE_DEVICES"


# Where the GPU that judges is the one that draws, all but the times ("untimed").
Meanwhile = Literal["nothing", "untimed", "everything"]


@dataclass(frozen=True)
class JudgePlace:
    """Where answers are judged: GPUs as this process numbers them, and whether times are taken.

    `meanwhile`: what may be judged of answers while others are drawn.
    """

    backend: str
    gpus: tuple[int, ...]
    timed: bool
    meanwhile: Meanwhile


def launched() -> bool:
    """Whether this is one of the processes of `accelerate launch` or `torchrun`."""
    return "LOCAL_RANK" in os.environ


def settle(settings: JudgeSettings) -> JudgePlace:
    """Choose the backend and the GPUs, and hide the others from this process and its children.

    Raises:
        MissingDependencyError: a GPU that is not there. InputError: no such backend.
    """
    backend = backends.resolve(settings.backend)
    count = backends.gpu_count()
    if backend == "emulator":
        if count and not launched():
            _show((settings.train_gpu,), count)
        return JudgePlace(backend, (0,), timed=False, meanwhile="everything")
    require_gpus((), count, where="--backend cuda")
    if launched():
        rank, size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
        gpus = _share(settings.gpus, rank, size)
        return _place(backend, gpus, settings, training=range(size))
    judges = settings.gpus or (settings.train_gpu,)
    order = tuple(dict.fromkeys((settings.train_gpu, *judges)))
    _show(order, count)
    return _place(backend, tuple(order.index(gpu) for gpu in judges), settings, training=(0,))


def _place(
    backend: str, gpus: tuple[int, ...], settings: JudgeSettings, training: Sequence[int]
) -> JudgePlace:
    """A place on GPUs; of a Ray cluster's nobody knows here whether they are others than those that train."""
    meanwhile: Meanwhile = "nothing"
    if not settings.timed or not (settings.ray or set(gpus) & set(training)):
        meanwhile = "everything"
    elif not settings.ray and len(set(gpus)) == 1:
        meanwhile = "untimed"
    return JudgePlace(backend, gpus, settings.timed, meanwhile)


def _share(gpus: Sequence[int], rank: int, size: int) -> tuple[int, ...]:
    """The judge's GPUs of one process: every `size`-th; its own where none were named.

    Raises:
        InputError: fewer than processes, so that two would judge on one.
    """
    if not gpus:
        return (rank,)
    if len(gpus) < size:
        raise InputError(f"{len(gpus)} for {size} processes", where="--judge-gpus", hint="one a process")
    return tuple(gpus[rank::size])


def _show(order: Sequence[int], count: int) -> None:
    """Make these GPUs the only ones, in this order; numbers count what was visible before."""
    given = os.environ.get(VISIBLE)
    names = (
        [one.strip() for one in given.split(",") if one.strip()] if given else [str(i) for i in range(count)]
    )
    require_gpus(order, len(names), where="--train-gpu, --judge-gpus")
    os.environ[VISIBLE] = ",".join(names[gpu] for gpu in order)
