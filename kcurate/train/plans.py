"""What a run is to do, so that `--resume` does the same: its stages, and the adapter that GRPO starts from.

Not covered: settings (`config`), where in a stage a run was cut (the trainer's checkpoints).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from kcurate import store
from kcurate.errors import InputError
from kcurate.train.run_folder import RunFolder, StageName

STAGES: tuple[StageName, ...] = ("sft", "grpo")


@dataclass(frozen=True)
class Plan:
    """Stages, and what GRPO starts from (None: the run's own SFT, or a new adapter where there is none)."""

    stages: tuple[StageName, ...] = ()
    adapter: Path | None = None


def settle(
    stages: tuple[StageName, ...] | None, adapter: Path | None, begun: Plan, *, learnt: bool = False
) -> Plan:
    """What one call does: what it was told, else what the run was begun with, else all.

    `learnt`: GRPO of this run has a checkpoint.

    Raises:
        InputError: an adapter for a stage that takes none, or another than GRPO has started from.
    """
    stages = stages if stages is not None else begun.stages or STAGES
    if "grpo" not in stages:
        if stages and adapter is not None:
            raise _refused("SFT starts from no adapter", "it is for grpo and measure")
        return Plan(stages)
    if adapter is not None and learnt and adapter.resolve() != begun.adapter:
        raise _refused(f"GRPO of this run started from {begun.adapter or 'its own SFT'}", "leave it out")
    adapter = adapter or begun.adapter
    if adapter is not None and "sft" in stages and "sft" not in begun.stages:
        raise _refused("GRPO would not start from what SFT makes", "kcurate train grpo --adapter DIR")
    return Plan(stages, adapter)


def read(folder: RunFolder) -> Plan:
    """What the run was begun with; nothing, where none was.

    Raises:
        InputError: the file is no such thing.
    """
    if not folder.plan.is_file():
        return Plan()
    try:
        data = json.loads(folder.plan.read_bytes())
        stages = tuple(name for name in STAGES if name in data["stages"])
        return Plan(stages, None if data["adapter"] is None else Path(data["adapter"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("not the plan of a run", where=str(folder.plan), hint="delete it") from error


def write(folder: RunFolder, begun: Plan, plan: Plan) -> None:
    """Put down what the run does, with what it did before."""
    stages = [name for name in STAGES if name in (*begun.stages, *plan.stages)]
    adapter = plan.adapter or begun.adapter
    data = {"stages": stages, "adapter": None if adapter is None else str(adapter.resolve())}
    store.write_bytes(folder.plan, store.pretty_json(data))


def _refused(what: str, hint: str) -> InputError:
    return InputError(what, where="--adapter", hint=hint)
