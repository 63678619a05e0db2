"""Skips steps whose gradient is NaN or infinite: taking one would make every weight NaN.

Not covered: float16, whose loss scaler skips them itself; where they come from (`grpo.ATTENTION`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import TrainerCallback

from kcurate.core.notes import Note
from kcurate.errors import InputError
from kcurate.train.run_folder import StageName

# A run that skips this many steps in a row has diverged.
MAX_SKIPPED = 5


class GradientGuard(TrainerCallback):  # type: ignore[misc]
    """Hides gradients that are not finite from the optimizer, logs it, and ends a run that has diverged."""

    def __init__(self, stage: StageName, note: Note) -> None:
        self._stage = stage
        self._note = note
        self._in_a_row = 0

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any
    ) -> None:
        """Check the gradients of one step.

        Raises:
            InputError: `MAX_SKIPPED` steps in a row were not finite.
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
            f"{self._stage} {state.global_step + 1}: the gradient is NaN or infinite; the step is skipped"
        )
        if self._in_a_row == MAX_SKIPPED:
            raise InputError(
                f"the gradients of {MAX_SKIPPED} steps in a row are NaN or infinite",
                where=f"train {self._stage}",
                hint=f"lower {self._stage}.learning_rate, or --set model.dtype=float32",
            )


def _finite(gradients: Sequence[torch.Tensor]) -> bool:
    """Whether all gradients are finite; with sharded gradients every process gets the same answer."""
    norm = torch.nn.utils.get_total_norm(gradients)
    whole = getattr(norm, "full_tensor", None)
    return bool(torch.isfinite(whole() if whole else norm))
