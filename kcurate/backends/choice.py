"""Chooses an available backend and its GPU indices from `--backend` and `--gpu`.

Not covered: the GPUs of a training run, which are renumbered (`kcurate.reward.devices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kcurate import backends
from kcurate.backends import BackendName
from kcurate.core.notes import Note, silent
from kcurate.errors import MissingDependencyError, OptionError


@dataclass(frozen=True)
class Place:
    """Where candidates are judged; the emulator counts as one GPU. `auto`: the cluster decides."""

    backend: BackendName | Literal["auto"]
    gpus: tuple[int, ...] = (0,)


EMULATED = Place("emulator")


def choose(backend: str, gpu: str = "auto", *, note: Note = silent, ray: str | None = None) -> Place:
    """The place that the options name; `gpu`: `0`, `0,1`, `all`, or `auto`, the first GPU if there is one.

    Named GPUs must exist. With `ray`, the address of a cluster, this machine needs no GPU, and the cluster
    chooses among its own.

    Raises:
        InputError: no such backend, not a list of GPUs, or GPUs are named for a backend or cluster that does
        not take them. MissingDependencyError: a GPU that does not exist.
    """
    named = gpu != "auto"
    if named and (ray is not None or backend == "emulator"):
        why = "the emulator uses no GPU" if ray is None else "a Ray cluster chooses among its own GPUs"
        raise OptionError(why, where=f"--gpu {gpu}", hint="leave it out, or give auto")
    if ray is not None:
        return Place("auto" if backend == "auto" else backends.resolve(backend))
    resolved = backends.resolve("cuda" if named and backend == "auto" else backend)
    if resolved == "emulator":
        if backend == "auto":
            note("no GPU here: the emulator checks correctness, and no times are taken")
        return EMULATED
    numbers = gpu_numbers(gpu) if named and gpu != "all" else (0,)
    count = backends.gpu_count()
    require_gpus(numbers, count, where=f"--gpu {gpu}" if named else "--backend cuda")
    return Place(resolved, tuple(range(count)) if gpu == "all" else numbers)


def check_gpus(text: str) -> None:
    """Refuse a value of `--gpu` that `choose` would refuse.

    Raises:
        OptionError: neither auto, nor all, nor a list of GPUs.
    """
    if text not in ("auto", "all"):
        gpu_numbers(text)


def gpu_numbers(text: str, *, where: str = "--gpu") -> tuple[int, ...]:
    """The numbers of a list such as `0` or `0,1`, each once.

    Raises:
        OptionError: not a list of GPUs.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise OptionError(f"not a list of GPUs: {text!r}", where=where, hint="such as 0 or 0,1")
    return tuple(dict.fromkeys(int(part) for part in parts))


def require_gpus(numbers: Sequence[int], count: int, *, where: str = "--gpu") -> None:
    """Check that this machine, with `count` GPUs, has these.

    Raises:
        MissingDependencyError: one of them is absent, or there is no GPU at all.
    """
    absent = [number for number in numbers if number >= count]
    if absent or not count:
        problem = f"there is no GPU {absent[0]}" if count else "there is no GPU here"
        more = f"{count} here, see nvidia-smi -L" if count else "see kcurate doctor"
        hint = f"{more}; --backend emulator needs none"
        raise MissingDependencyError(problem, where=where, hint=hint)
