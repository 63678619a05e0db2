"""Rejection fine-tuning: sample, judge, and SFT on the model's own confirmed answers that are not copies.

It uses GRPO's prompts. Not covered: sampling and judging (`evaluation`), the training itself (`sft`).
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kcurate import prompts
from kcurate.cuda_source.compare.similarity import fingerprint
from kcurate.errors import InputError
from kcurate.evaluation import completions
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.judging import answer_of, judge
from kcurate.evaluation.local_model import LocalModel, SamplingOptions
from kcurate.evaluation.sampling import generate
from kcurate.local_models import weights
from kcurate.records import Outcome
from kcurate.reward.answers import Readable, read
from kcurate.reward.task import Pool, Task
from kcurate.train import driving, sft
from kcurate.train.driving import Stage

# The file of the sampled completions, in the run's `completions/`.
SAMPLED = "rft-sampled"


def train(stage: Stage, tasks: Sequence[Task], pool: Pool, adapter: Path | None, *, timed: bool) -> int:
    """Run the stage to its end; returns the number of steps. `adapter` None: sample from the base model.

    One process samples and judges. A resumed stage reuses the completions on file.

    Raises:
        InputError: no completion is right. StoppedError, MissingDependencyError: as in `driving.drive`.
    """
    place = stage.run.completions(SAMPLED)
    with driving.state().main_process_first():
        if not place.exists():
            rows = _sampled(stage, tasks, pool, adapter)
            completions.write(place, rows)
    rows = completions.read(place, hint="delete it")
    kept = answers(tasks, rows, timed=timed, most=stage.settings.rft.answers)
    families = len({task.family for task in kept})
    stage.note(f"rft: {len(kept)} of {len(rows)} completions are kept, for tasks of {families} families")
    if not kept:
        raise InputError(
            f"none of {len(rows)} completions is {'confirmed' if timed else 'correct'} and no copy",
            where="train rft",
            hint="raise rft.samples, or start from an adapter that SFT made",
        )
    return sft.train(stage, kept, adapter)


def _sampled(stage: Stage, tasks: Sequence[Task], pool: Pool, adapter: Path | None) -> list[Completion]:
    rft, limits = stage.settings.rft, stage.settings.grpo
    drawing = SamplingOptions(
        limits.max_completion_tokens,
        rft.temperature,
        rft.top_p,
        stage.settings.seed,
        rft.batch,
        "--set rft.batch={}",
    )
    with contextlib.closing(LocalModel(stage.settings.model, adapter, drawing)) as model:
        fitting = model.fitting(tasks, limits.max_prompt_tokens)
        stage.note(f"rft: samples {rft.samples} completions for each of {len(fitting)} tasks")
        rows = generate(fitting, model, samples=rft.samples)
    weights.free()
    return judge(rows, fitting, pool)[0]


def answers(tasks: Sequence[Task], rows: Sequence[Completion], *, timed: bool, most: int) -> list[Task]:
    """The tasks with the model's right completions as answers: for each at most `most`, the fastest first.

    `timed` false: correct is enough, since nothing is confirmed without times.
    """
    right = Outcome.CONFIRMED if timed else Outcome.CORRECT
    tasks_by_id = {task.id: task for task in tasks}
    by_task: dict[str, dict[str, Task]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: -(row.speedup or 0.0)):
        if row.outcome != right:
            continue
        task, answer = tasks_by_id[row.task], answer_of(row)
        if isinstance(answer, str):
            parsed = prompts.read_reply(answer, "text")
            if isinstance(parsed, prompts.Unreadable):
                continue
            answer = parsed
        readable = read(task, answer)
        if isinstance(readable, Readable) and not readable.copied and len(by_task[task.id]) < most:
            code = fingerprint(readable.candidate.fast.code).exact
            by_task[task.id].setdefault(code, replace(task, answer=prompts.write_answer(answer)))
    return [task for kept in by_task.values() for task in kept.values()]
