"""The settings of `kcurate mint`, and of its step `rate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import (
    JobsOption,
    MaxUsdOption,
    Option,
    PackOption,
    PriceOption,
    RayWorkersOption,
    TimeoutOption,
    WorkspaceOption,
)


@dataclass(frozen=True)
class MintConfig:
    """How many problems to mint, and from which operators and types. `kinds` or `types` empty: all."""

    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    count: Annotated[int, Option("Problems to mint, those of earlier runs included.", metavar="N", min=1)] = (
        100
    )
    seed: Annotated[int, Option("Equal seeds give equal problems.", metavar="N", min=0)] = 0
    kinds: Annotated[
        tuple[str, ...],
        Option(
            "Only operators of this kind (gemm, softmax, ...) or name. May be repeated.",
            metavar="NAME",
            check="kcurate.mint.stage:chosen_operators",
        ),
    ] = ()
    types: Annotated[
        tuple[str, ...],
        Option(
            "Only problems in this type: float32, bfloat16, float16. May be repeated.",
            metavar="NAME",
            check="kcurate.mint.stage:chosen_types",
        ),
    ] = ()
    gpu: Annotated[
        str | None,
        Option(
            "Then judge the minted pairs on these GPUs: 0, or 0,1, or all.  [default: no GPU]",
            metavar="LIST",
            default=None,
        ),
    ] = None
    jobs: JobsOption = 0
    ray: RayWorkersOption = None
    pack: PackOption = False


@dataclass(frozen=True)
class RatingConfig:
    """The model that `kcurate mint rate` samples, on how many problems, and limits on cost and time."""

    model: Annotated[
        str, Option("rate: the model, named as in kcurate eval.", metavar="NAME", default=None)
    ] = ""
    samples: Annotated[int, Option("rate: samples per problem.", metavar="N", min=1)] = 4
    limit: Annotated[int, Option("rate: at most this many problems; 0: all.", metavar="N", min=0)] = 0
    max_usd: MaxUsdOption = None
    price: PriceOption = None
    timeout_s: TimeoutOption = None
