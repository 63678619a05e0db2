"""Where completions are judged: the table `judge` of a recipe, and the options that set it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from kcurate.backends.choice import gpu_numbers
from kcurate.core.options import RAY, BackendOption, JobsOption, Option


def names_in(texts: Sequence[str]) -> tuple[str, ...]:
    """The names in texts that may each list several, with commas between them."""
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())


def _judge_gpus(texts: Sequence[str]) -> tuple[int, ...]:
    return gpu_numbers(",".join(names_in(texts)), where="--judge-gpus")


@dataclass(frozen=True)
class JudgeSettings:
    """Where completions are judged. `gpus` empty: the training GPU, shared. `jobs` 0: chosen automatically.

    Instead of this machine, a Ray cluster (`ray`, its address) or a `kcurate serve` with the same pairs can
    judge (`url`; `token_file`: the file with its token).
    """

    backend: BackendOption = "auto"
    train_gpu: Annotated[int, Option("The GPU that trains.", metavar="N", min=0)] = 0
    gpus: Annotated[
        tuple[int, ...],
        Option(
            "GPUs that judge, such as 1,2.  [default: the training GPU]",
            "--judge-gpus",
            "LIST",
            read=_judge_gpus,
        ),
    ] = ()
    jobs: JobsOption = 0
    timed: bool = True
    ray: Annotated[str, RAY] = ""
    url: Annotated[
        str,
        Option(
            "A kcurate serve with the same --dataset that judges instead of this machine.",
            "--judge",
            "URL",
            default=None,
        ),
    ] = ""
    token_file: str = ""
