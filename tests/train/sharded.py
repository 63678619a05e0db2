"""`kcurate` for `accelerate launch` with a sharded model on CPUs, which accelerate shards on GPUs alone.

torch shards over gloo too; all that is changed is what accelerate makes of its launcher's word.
"""

from __future__ import annotations

from typing import Any

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType

from kcurate.cli import main


def shard_on_cpus() -> None:
    """From now on an accelerator that was given a plugin for sharding uses it."""
    usual = AcceleratorState.__init__

    def init(self: Any, *args: Any, **given: Any) -> None:
        usual(self, *args, **given)
        if given.get("fsdp_plugin") is not None:
            self.fsdp_plugin = given["fsdp_plugin"]
            self.distributed_type = DistributedType.FSDP
            PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = init


if __name__ == "__main__":
    shard_on_cpus()
    main()
