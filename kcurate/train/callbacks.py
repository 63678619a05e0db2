"""What happens between two training steps: write metrics, print progress, check the time limit.

Not covered: what a reward is made of (`reward.trl_reward`), the trainers themselves (`sft`, `grpo`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from transformers import TrainerCallback

from kcurate.core.notes import Note
from kcurate.train.run_folder import RunFolder, StageName
from kcurate.train.stopping import Stop

# The metrics that a line on stderr shows, if they are logged.
_SHOWN = ("loss", "reward", "learning_rate", "mean_token_accuracy", "waited_s", "step_time")


class StepCallback(TrainerCallback):  # type: ignore[misc]
    """Logs a stage's steps and stops it when asked; `more` returns further metrics for a line.

    The first of every `period` steps takes longer: it samples the completions for all of them. Only the main
    process writes; `more` is called in all processes, since it may gather.
    """

    def __init__(
        self,
        stage: StageName,
        run: RunFolder,
        stop: Stop,
        note: Note,
        more: Callable[[], Mapping[str, Any]] = dict,
        *,
        period: int = 1,
    ) -> None:
        self._stage = stage
        self._run = run
        self._stop = stop
        self._note = note
        self._more = more
        self.period = period
        self._started_s = self._begun_s = time.monotonic()
        self._first = 0
        self.stopped = False
        self.late = False

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Write a line of metrics."""
        more = self._more()
        if not state.is_world_process_zero or not logs or "train_runtime" in logs:
            return
        own = {key: _number(value) for key, value in logs.items()}
        line = {
            "stage": self._stage,
            "step": state.global_step,
            "steps": state.max_steps,
            "wall_s": round(time.monotonic() - self._started_s, 3),
            **own,
            **more,
        }
        self._run.metrics.append(line)
        shown = ", ".join(
            f"{key} {line[key]:.4g}" for key in _SHOWN if isinstance(line.get(key), int | float)
        )
        left = self._left(state.global_step, state.max_steps)
        self._note(f"{self._stage} {state.global_step}/{state.max_steps}: {shown}{left}")

    def _left(self, step: int, steps: int) -> str:
        """About how long the rest of the stage takes."""
        self._first = self._first or step - 1  # a resumed stage begins later
        done = step - self._first
        left_s = (time.monotonic() - self._started_s) / max(done, 1) * (steps - step)
        return f", about {left_s / 60:.0f} min left" if left_s >= 60 else ""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note the time."""
        self._begun_s = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Save and stop after a signal, or when time is up."""
        self._stop.took(time.monotonic() - self._begun_s, light=(state.global_step - 1) % self.period != 0)
        within = state.global_step % self.period != 0  # sampled completions are still unused
        stopped, self.late = self._stop.agreed(light=within)
        self.stopped = stopped and not within  # resuming here would sample the same prompts again
        if self.stopped or self.late:
            control.should_save = True
            control.should_training_stop = True
        return control


def _number(value: Any) -> Any:
    """A metric as JSON can hold it: NaN and infinity become None."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return value
    if not math.isfinite(number):
        return None
    return int(number) if isinstance(value, int) else number
