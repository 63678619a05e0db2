"""A step whose gradient is not a number is left out: taken, it would leave no weight that is one.

Not covered: float16, whose scaler does so itself; where such gradients come from (`grpo.ATTENTION`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import TrainerCallback

from kcurate.errors import InputError
from kcurate.notes import Note
from kcurate.train.run_folder import StageName

# A run in which so many follow each other learns nothing any more.
MOST_IN_A_ROW = 5


class GradientGuard(TrainerCallback):  # type: ignore[misc]
    """Takes gradients away from the optimizer that are not finite, says so, and gives up when it goes on."""

    def __init__(self, stage: StageName, note: Note) -> None:
        self._stage = stage
        self._note = note
        self._in_a_row = 0

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any
    ) -> None:
        """Look at the gradients of one step.

        Raises:
            InputError: they were not finite `MOST_IN_A_ROW` times.
        """
        if args.fp16:
            return
        weights = [one for group in optimizer.param_groups for one in group["params"] if one.grad is not None]
        if _finite([one.grad for one in weights]):
            self._in_a_row = 0
            return
        for one in weights:
            one.grad = None
        self._in_a_row += 1
        self._note(
            f"{self._stage} {state.global_step + 1}: its gradient is not a number; the step is left out"
        )
        if self._in_a_row == MOST_IN_A_ROW:
            raise InputError(
                f"gradients of {MOST_IN_A_ROW} steps in a row are no numbers",
                where=f"train {self._stage}",
                hint=f"lower {self._stage}.learning_rate, or --set model.dtype=float32",
            )


def _finite(gradients: Sequence[torch.Tensor]) -> bool:
    """Whether every number is one; of sharded gradients every process finds the same."""
    norm = torch.nn.utils.get_total_norm(gradients)
    whole = getattr(norm, "full_tensor", None)
    return bool(torch.isfinite(whole() if whole else norm))
