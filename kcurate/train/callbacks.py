"""What happens between two training steps: write metrics, print progress, check the time limit, skip steps
whose gradient is NaN or infinite.

Not covered: the reward (`trl_reward`), the trainers themselves (`sft`, `grpo`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from transformers import TrainerCallback

from kcurate.core.notes import Note
from kcurate.errors import InputError
from kcurate.train.run_folder import RunFolder, StageName
from kcurate.train.stopping import Stop

# The metrics that a line on stderr shows, if they are logged.
_SHOWN = ("loss", "reward", "learning_rate", "mean_token_accuracy", "waited_s", "step_time")
# A run that skips this many steps in a row has diverged.
MAX_SKIPPED = 5


class StepCallback(TrainerCallback):  # type: ignore[misc]
    """Logs the steps of a stage, and stops it when asked; `extra_metrics` returns more numbers for a line.

    The first of every `period` steps takes longer: it samples the completions for all of them. Only the main
    process writes; `extra_metrics` is called in all processes, since it may gather from them.
    """

    def __init__(
        self,
        stage: StageName,
        run: RunFolder,
        stop: Stop,
        note: Note,
        extra_metrics: Callable[[], Mapping[str, Any]] = dict,
        *,
        period: int = 1,
    ) -> None:
        self._stage = stage
        self._run = run
        self._stop = stop
        self._note = note
        self._extra_metrics = extra_metrics
        self.period = period
        self._started_s = self._step_started_s = time.monotonic()
        self._steps_before = 0
        self.stopped = False
        self.late = False

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Write a line of metrics."""
        extra = self._extra_metrics()
        if not state.is_world_process_zero or not logs or "train_runtime" in logs:
            return
        line = {
            "stage": self._stage,
            "step": state.global_step,
            "steps": state.max_steps,
            "wall_s": round(time.monotonic() - self._started_s, 3),
            **{key: _number(value) for key, value in logs.items()},
            **extra,
        }
        self._run.metrics.append(line)
        shown = ", ".join(
            f"{key} {line[key]:.4g}" for key in _SHOWN if isinstance(line.get(key), int | float)
        )
        remaining = self._remaining(state.global_step, state.max_steps)
        self._note(f"{self._stage} {state.global_step}/{state.max_steps}: {shown}{remaining}")

    def _remaining(self, step: int, steps: int) -> str:
        """An estimate of the time left; empty below a minute."""
        self._steps_before = self._steps_before or step - 1  # a resumed stage begins later
        done = step - self._steps_before
        left_s = (time.monotonic() - self._started_s) / max(done, 1) * (steps - step)
        return f", about {left_s / 60:.0f} min left" if left_s >= 60 else ""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note the time."""
        self._step_started_s = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Save and stop after a signal, or when time is up."""
        step_s = time.monotonic() - self._step_started_s
        self._stop.took(step_s, light=(state.global_step - 1) % self.period != 0)
        mid_period = state.global_step % self.period != 0  # some sampled completions are still unused
        stopped, self.late = self._stop.agreed(light=mid_period)
        self.stopped = stopped and not mid_period  # resuming here would sample the same prompts again
        if self.stopped or self.late:
            control.should_save = True
            control.should_training_stop = True
        return control


class GradientGuard(TrainerCallback):  # type: ignore[misc]
    """Skips steps whose gradient is not finite, logs it, and ends a run that has diverged.

    Taking one such step would make every weight NaN. With float16 the loss scaler skips them itself.
    """

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
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        weights = [weight for weight in weights if weight.grad is not None]
        if _finite([weight.grad for weight in weights]):
            self._in_a_row = 0
            return
        for weight in weights:
            weight.grad = None
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


def _number(value: Any) -> Any:
    """A metric as JSON can hold it: NaN and infinity become None."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return value
    if not math.isfinite(number):
        return None
    return int(number) if isinstance(value, int) else number
