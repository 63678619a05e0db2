"""`kcurate train`: tasks, supervised fine-tuning, GRPO, scores on the held-out tasks, curves, card.

Finished stages and scores are kept, so an interrupted run continues where it stopped. Under `accelerate
launch` every process trains and judges its own completions; only the first one scores and writes. Not
covered: the options (`kcurate.cli.train`), a stage of training (`sft`, `grpo`).
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kcurate.client import Client
from kcurate.core import own_files
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, recorded
from kcurate.errors import InputError, OptionError
from kcurate.evaluation import completions, scores, taught
from kcurate.evaluation.judging import judge
from kcurate.evaluation.sampling import generate
from kcurate.hub.repository import Hub
from kcurate.local_models.libraries import require_extra, require_reports
from kcurate.records import Summary
from kcurate.reward import devices, own_reward
from kcurate.reward.devices import JudgePlace
from kcurate.reward.pool import PoolConfig, RewardPool
from kcurate.reward.remote import RETRY_S, RemotePool
from kcurate.train import curves, hub, plans, run_tasks
from kcurate.train.plans import Plan
from kcurate.train.run_folder import RunFolder, StageName, write_environment
from kcurate.train.run_tasks import Tasks, load_tasks
from kcurate.train.settings import CallOptions, TrainSettings
from kcurate.train.stopping import Stop
from kcurate.train.trl_reward import how_completions_ended

# The rows of the table of scores.
ROWS = {"base": "base", "sft": "SFT", "rft": "SFT+RFT", "grpo": "SFT+GRPO"}


@dataclass(frozen=True, kw_only=True)
class TrainConfig(CallOptions):
    """One call. `stages` None: SFT and GRPO, or for a resumed run the stages of the earlier calls.

    `measure`: score on the held-out tasks afterwards. `tasks`: instead of those that the settings select.
    """

    settings: TrainSettings
    out: Path
    stages: tuple[StageName, ...] | None = None
    measure: bool = True
    tasks: Tasks | None = None


def run(config: TrainConfig, *, note: Note = silent) -> Summary:
    """Run the stages that are not done yet; the counts are over tasks, steps and judged completions.

    Raises:
        InputError: unusable settings, data or folder. MissingDependencyError: a package, a GPU or memory is
            missing. StoppedError: told to stop; a checkpoint is saved.
    """
    with recorded("train", config.out, note=note, folder=config.out) as record:
        require_extra()
        folder = RunFolder(config.out)
        place = devices.settle(config.settings.judge)
        from kcurate.local_models.libraries import quiet
        from kcurate.train.driving import processes

        rank, world = processes()
        note = silent if rank else record.note
        earlier, plan = _checked_plans(config, folder, rank, note)
        tasks = config.tasks or load_tasks(config.settings, note, gpu=devices.gpu_named(place))
        if rank == 0:
            record.begin()
            folder.start(config.settings)
            plans.write(folder, earlier, plan)
            write_environment(folder, world)
            run_tasks.write(folder, tasks)
        with quiet():
            config = replace(config, settings=_unpacked(config.settings, folder, tasks))
        steps: dict[str, int] = {}
        stop = Stop(config.max_minutes * 60)
        with quiet(), stop.listening(), judges(config, folder, place, tasks, rank, note) as pool:
            if {"rft", "grpo"} & {*plan.stages} or (config.measure and config.settings.measure.samples):
                # `pool.timed` starts the judges: a machine that cannot judge fails before training.
                where = config.settings.judge.url or place.backend
                note(f"judge: {where}, {'timed' if pool.timed else 'not timed'}")
            note(f"trains on {devices.name()}")
            open_run = _OpenRun(config, folder, tasks, pool, stop, note)
            for name in plan.stages:
                steps[name] = open_run.train(name, plan.adapter)
                if rank == 0:
                    curves.draw(folder.metrics, folder.curves, f"{config.settings.model.shown}, {name}")
            if rank == 0 and config.measure and config.settings.measure.samples:
                open_run.measure(required=not plan.stages)
        return _finish(config, folder, tasks, steps, record) if rank == 0 else record.summary({})


def _checked_plans(config: TrainConfig, folder: RunFolder, rank: int, note: Note) -> tuple[Plan, Plan]:
    """The plans of the earlier calls and of this call.

    Also refuses a folder, adapter, reward, report package or model that cannot be used, so that a mistake
    leaves no run folder behind.
    """
    from kcurate.local_models import weights
    from kcurate.train import random_model

    if rank == 0:
        folder.admit(resume=config.resume)
    earlier = plans.read(folder) if config.resume else Plan()
    grpo_begun = folder.checkpoint("grpo") is not None
    plan = plans.settle(config.stages, config.adapter, earlier, grpo_begun=grpo_begun)
    if (adapter := plan.adapter or config.adapter) is not None:
        weights.check_adapter(adapter)
    if config.push is not None and rank == 0:
        Hub(config.push, kind="model")  # whose name and token are wrong now rather than after the run
    settings = config.settings
    own_reward.chosen(settings.reward.scheme, settings.reward.values)
    require_reports(settings.report)
    if settings.model.name == random_model.NAME:
        note(random_model.NOTE)
    else:
        weights.check_there(settings.model)
    return earlier, plan


def _unpacked(settings: TrainSettings, folder: RunFolder, tasks: Tasks) -> TrainSettings:
    """The settings with the unpacked or random model; the first process writes it."""
    from kcurate.local_models import weights
    from kcurate.train import driving, random_model

    with driving.state().main_process_first():
        if settings.model.name != random_model.NAME:
            return replace(settings, model=weights.unpacked(settings.model, folder.base))
        if not folder.base.exists():
            random_model.write(folder.base, (*tasks.sft, *tasks.grpo), seed=settings.seed)
        random_model.on_one_thread()
        return replace(settings, model=replace(settings.model, name=str(folder.base), base=random_model.NAME))


@contextlib.contextmanager
def judges(
    config: TrainConfig, folder: RunFolder, place: JudgePlace, tasks: Tasks, rank: int, note: Note
) -> Iterator[RewardPool | RemotePool]:
    """The judges of this process, which start on first use; or a server.

    Raises:
        InputError, RemoteError: the server cannot be reached, or cannot judge this run.
    """
    settings = config.settings
    if settings.judge.url:
        remote = remote_pool(settings, note)
        remote.check((*tasks.grpo, *tasks.held_out))
        yield remote
        return
    scheme = own_reward.chosen(settings.reward.scheme, settings.reward.values)
    cache = folder.root / ("verdicts.jsonl" if rank == 0 else f"verdicts-{rank}.jsonl")
    pool_config = PoolConfig(
        backend=place.backend,
        gpus=place.gpus,
        jobs=settings.judge.jobs,
        timed=place.timed,
        cache_file=cache,
        torch=settings.tasks.source != "pairs",
        ray=settings.judge.ray or None,
    )
    with contextlib.closing(RewardPool(scheme, pool_config)) as pool:
        yield pool


def remote_pool(settings: TrainSettings, note: Note) -> RemotePool:
    """The server that `--judge` names.

    Raises:
        InputError: not an address, a wrong token, or a setting that a server does not support.
        RemoteError: the server cannot be reached.
    """
    url, token_file = settings.judge.url, settings.judge.token_file
    if ":" in settings.reward.scheme:
        raise OptionError("a server has no reward of your own", where="--judge", hint="choose a scheme")
    if settings.curriculum.policy == "sqd" or settings.curriculum.pool or settings.tasks.source != "pairs":
        why = "a server judges pairs, and permits all techniques"
        raise OptionError(why, where="--judge", hint="leave it out")
    token = own_files.token(Path(token_file)) if token_file else None
    Client(url, token=token, retry_s=0).health()  # a wrong address is an error at once
    client = Client(url, token=token, retry_s=RETRY_S, note=note)
    return RemotePool(client, settings.reward.scheme, settings.reward.values)


@dataclass(frozen=True)
class _OpenRun:
    """A run while its judges are open: trains its stages and scores the results."""

    config: TrainConfig
    folder: RunFolder
    tasks: Tasks
    pool: RewardPool | RemotePool
    stop: Stop
    note: Note

    def train(self, name: StageName, first_adapter: Path | None) -> int:
        """Run one stage unless it is done; returns the number of steps taken in this call."""
        if self.folder.done(name):
            self.note(f"{name}: already done")
            return 0
        from kcurate.local_models import weights
        from kcurate.train import grpo, rft, sft
        from kcurate.train.driving import Stage

        config, folder, tasks = self.config, self.folder, self.tasks
        stage = Stage(name, folder, config.settings, self.stop, self.note, config.push, config.private)
        if name == "sft":
            taught.write(folder.stage(name), (task for task in tasks.sft if task.answer is not None), None)
            steps = sft.train(stage, tasks.sft)
        else:
            adapter = self._start(name, first_adapter)
            taught.write(folder.stage(name), tasks.grpo, adapter)
            if name == "rft":
                steps = rft.train(stage, tasks.grpo, self.pool, adapter, timed=self.pool.timed)
            else:
                steps = grpo.train(stage, tasks.grpo, self.pool, adapter)
        weights.free()
        return steps

    def _start(self, name: StageName, first_adapter: Path | None) -> Path | None:
        """The adapter that RFT or GRPO starts from; None: a new one."""
        folder, tasks = self.folder, self.tasks.grpo
        if name == "grpo" and folder.done("rft") and self.config.adapter is None:
            first_adapter = None  # RFT started from it; GRPO starts from what RFT made
        before = [earlier for earlier in plans.ALL[: plans.ALL.index(name)] if folder.done(earlier)]
        adapter = first_adapter or (folder.adapter(before[-1]) if before else None)
        self.note(f"{name}: starts from {adapter or 'a new adapter'}")
        taught_before = taught.read(adapter) if adapter else None
        if taught_before is not None and (again := taught_before.among(tasks)):
            count = f"{len(again)} of {len(tasks)}"
            self.note(f"{name}: {count} tasks are of families that the adapter was taught")
        return adapter

    def measure(self, *, required: bool) -> None:
        """Score the base model and the adapters of finished stages; existing rows are kept.

        Raises:
            InputError: they cannot be scored; a note if that is not `required`. StoppedError: a signal.
        """
        hint = f"finished rows are kept; --resume --out {self.folder.root}"
        try:
            with self.stop.at_once("train measure", hint):
                self._measure()
        except InputError as error:
            if required:
                raise
            self.note(f"not scored: {error}")

    def _measure(self) -> None:
        config, folder, measure = self.config, self.folder, self.config.settings.measure
        if not self.tasks.held_out:
            self.note("measure: no held-out tasks to score on")
            return
        if config.row is not None:
            self._measure_row(config.row, config.adapter)
            return
        measured = {row.name for row in scores.read_rows(folder.measured)}
        models: list[tuple[str, Path | None]] = [(ROWS["base"], None)] if measure.base else []
        stages = plans.ALL if measure.sft else plans.ALL[1:]
        models += [(ROWS[name], folder.adapter(name)) for name in stages if folder.done(name)]
        for name, adapter in models:
            if name not in measured:
                self._measure_row(name, adapter)

    def _measure_row(self, name: str, adapter: Path | None) -> None:
        """Score one model on the held-out tasks as `kcurate eval` does, and add its row to `measured.json`.

        It samples at least `measure.samples` completions, the same number for each task.
        """
        from kcurate.evaluation.local_model import LocalModel, SamplingOptions

        settings, held_out = self.config.settings, self.tasks.held_out
        measure = settings.measure
        longest = measure.max_completion_tokens or settings.grpo.max_completion_tokens
        hint = "--set measure.batch={}"
        drawing = SamplingOptions(
            longest, measure.temperature, measure.top_p, measure.seed, measure.batch, hint
        )
        with contextlib.closing(LocalModel(settings.model, adapter, drawing)) as model:
            fitting = model.fitting(held_out, settings.grpo.max_prompt_tokens)
            if not fitting:
                raise InputError(
                    f"all {len(held_out)} held-out tasks have prompts over "
                    f"{settings.grpo.max_prompt_tokens} tokens or answers over {longest}",
                    where="measure",
                    hint="raise grpo.max_prompt_tokens, measure.max_completion_tokens, or tasks.held_out",
                )
            hint = "use the --held-out, --split-seed and --dataset of its training"
            taught.refuse(adapter, fitting, hint=hint)
            rows = generate(fitting, model, samples=math.ceil(measure.samples / len(fitting)))
        self.note(f"{name}: {len(rows)} completions for {len(fitting)} of {len(held_out)} held-out tasks")
        rows, _ = judge(rows, fitting, self.pool)
        completions.write(self.folder.completions(name), rows)
        scored = scores.score(name, settings.model.shown, rows, timed=self.pool.timed)
        scores.add_row(self.folder.measured, scored)
        self.note(scores.line(scored))


def _finish(
    config: TrainConfig, folder: RunFolder, tasks: Tasks, steps: dict[str, int], record: Run
) -> Summary:
    """Draw the curves, write card and summary, and push to the Hub."""
    name = config.settings.model.shown
    curves.draw(folder.metrics, folder.curves, f"{name}, recipe {config.settings.recipe}")
    counts: dict[str, Any] = {
        "tasks": {"taught": len(tasks.sft), "asked": len(tasks.grpo), "held_out": len(tasks.held_out)},
        "steps": steps,
        "completions": how_completions_ended(folder.judged.lines()),
        "answers": dict(sorted(Counter(line["outcome"] for line in folder.judged.lines()).items())),
    }
    on_card = ("tasks", "steps", *(["completions"] if counts["answers"] else []))
    facts = {f"{group} {key}": value for group in on_card for key, value in counts[group].items()}
    hub.write_card(folder, config.settings, {"recipe": config.settings.recipe, **facts})
    summary = record.finish(counts)
    if config.push is not None:
        hub.push(folder, config.push, private=config.private, note=record.note)
    return summary
