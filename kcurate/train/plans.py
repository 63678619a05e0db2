"""The plan of a run, so that `--resume` continues it: its stages, and the adapter that GRPO starts from.

Not covered: settings (`config`), how far a stage got (the trainer's checkpoints).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from kcurate.core import store
from kcurate.errors import InputError, OptionError
from kcurate.train.run_folder import RunFolder, StageName

# The stages of a run that names none.
STAGES: tuple[StageName, ...] = ("sft", "grpo")
# All stages; each starts from the adapter of the one before.
ALL: tuple[StageName, ...] = ("sft", "rft", "grpo")


@dataclass(frozen=True)
class Plan:
    """Stages, and the adapter that GRPO starts from (None: the adapter of the run's SFT, else a new one)."""

    stages: tuple[StageName, ...] = ()
    adapter: Path | None = None


def settle(
    stages: tuple[StageName, ...] | None, adapter: Path | None, earlier: Plan, *, grpo_begun: bool = False
) -> Plan:
    """What this call does: what the command asks for, else the plan of the earlier calls, else `STAGES`.

    `grpo_begun`: GRPO of this run has a checkpoint.

    Raises:
        InputError: an adapter for a stage that takes none, or not the one that GRPO started from.
    """
    stages = stages if stages is not None else earlier.stages or STAGES
    if "grpo" not in stages and "rft" not in stages:
        if stages and adapter is not None:
            raise _refused("SFT takes no adapter", "--adapter is for rft, grpo and measure")
        return Plan(stages)
    if adapter is not None and grpo_begun and adapter.resolve() != earlier.adapter:
        raise _refused(f"GRPO of this run started from {earlier.adapter or 'its own SFT'}", "omit --adapter")
    adapter = adapter or earlier.adapter
    if adapter is not None and "sft" in stages and "sft" not in earlier.stages:
        raise _refused("GRPO would ignore the adapter that SFT trains", "kcurate train grpo --adapter DIR")
    return Plan(stages, adapter)


def read(folder: RunFolder) -> Plan:
    """The plan of the earlier calls for this run; an empty one if there is none.

    Raises:
        InputError: not a plan file.
    """
    if not folder.plan.is_file():
        return Plan()
    try:
        data = json.loads(folder.plan.read_bytes())
        stages = tuple(name for name in ALL if name in data["stages"])
        return Plan(stages, None if data["adapter"] is None else Path(data["adapter"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("not a plan file", where=str(folder.plan), hint="delete it") from error


def write(folder: RunFolder, earlier: Plan, plan: Plan) -> None:
    """Record what this call does, together with what earlier calls did."""
    stages = [name for name in ALL if name in (*earlier.stages, *plan.stages)]
    adapter = plan.adapter or earlier.adapter
    data = {"stages": stages, "adapter": None if adapter is None else str(adapter.resolve())}
    store.write_bytes(folder.plan, store.pretty_json(data))


def _refused(reason: str, hint: str) -> InputError:
    return OptionError(reason, where="--adapter", hint=hint)
