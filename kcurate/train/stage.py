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
from kcurate.local_models.libraries import require_extra, require_reports
from kcurate.records import Summary
from kcurate.reward import devices, own_reward
from kcurate.reward.devices import JudgePlace
from kcurate.reward.pool import PoolConfig, RewardPool
from kcurate.reward.remote import RETRY_S, RemotePool
from kcurate.train import curves, hub, model_card, plans, run_tasks
from kcurate.train.plans import Plan
from kcurate.train.run_folder import RunFolder, StageName, write_environment
from kcurate.train.run_tasks import Tasks, load_tasks
from kcurate.train.settings import TrainSettings
from kcurate.train.stopping import Stop
from kcurate.train.trl_reward import sampled

# The rows of the table of scores.
ROWS = {"base": "base", "sft": "SFT", "rft": "SFT+RFT", "grpo": "SFT+GRPO"}


@dataclass(frozen=True)
class TrainConfig:
    """One call. `stages`: those to run; None: all, or when resuming those that the run began with.

    `adapter`: what GRPO starts from instead of the run's SFT adapter; a resumed run remembers it. `measure`:
    score on the held-out tasks afterwards. `row`: score only `adapter`, under this name. `budget_s`: training
    stops after this time (0: no limit). `push`: the repository on the Hub for the card and the adapters.
    `tasks`: instead of those of the settings.
    """

    settings: TrainSettings
    out: Path
    stages: tuple[StageName, ...] | None = None
    adapter: Path | None = None
    row: str | None = None
    resume: bool = False
    measure: bool = True
    budget_s: float = 0.0
    push: str | None = None
    private: bool = False
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
        from kcurate.local_models import weights
        from kcurate.local_models.libraries import quiet
        from kcurate.train.driving import processes

        rank, world = processes()
        note = silent if rank else record.note
        if rank == 0:
            folder.admit(resume=config.resume)
        begun = plans.read(folder) if config.resume else Plan()
        plan = plans.settle(
            config.stages, config.adapter, begun, grpo_begun=folder.checkpoint("grpo") is not None
        )
        if (adapter := plan.adapter or config.adapter) is not None:
            weights.check_adapter(adapter)
        if config.push is not None and rank == 0:
            hub.token_for(config.push)
        _check_names(config.settings, note)  # here, so that a wrong name leaves no run folder behind
        tasks = config.tasks or load_tasks(config.settings, note, gpu=devices.gpu_named(place))
        if rank == 0:
            record.begin()
            folder.start(config.settings)
            plans.write(folder, begun, plan)
            write_environment(folder, world)
            run_tasks.write(folder, tasks)
        with quiet():
            config = replace(config, settings=_unpacked(config.settings, folder, tasks))
        steps: dict[str, int] = {}
        stop = Stop(config.budget_s)
        with quiet(), stop.listening(), judges(config, folder, place, tasks, rank, note) as pool:
            if {"rft", "grpo"} & {*plan.stages} or (config.measure and config.settings.measure.samples):
                # A machine that cannot judge should fail before training, not after.
                where = config.settings.judge.url or place.backend
                note(f"judge: {where}, {'timed' if pool.timed else 'not timed'}")
            note(f"trains on {devices.name()}")
            for name in plan.stages:
                steps[name] = _train(name, config, plan.adapter, folder, tasks, stop, pool, note)
                if rank == 0:
                    curves.draw(folder.metrics, folder.curves, f"{config.settings.model.shown}, {name}")
            if rank == 0 and config.measure and config.settings.measure.samples:
                try:
                    with stop.at_once(
                        "train measure", f"finished rows are kept; --resume --out {folder.root}"
                    ):
                        _measure(config, folder, tasks, pool, note)
                except InputError as error:
                    if not plan.stages:
                        raise
                    note(f"not scored: {error}")
        return _finish(config, folder, tasks, steps, record) if rank == 0 else record.summary({})


def _check_names(settings: TrainSettings, note: Note) -> None:
    """Refuse a reward or a model that is not there."""
    own_reward.chosen(settings.reward.scheme, settings.reward.values)
    require_reports(settings.report)
    from kcurate.local_models import weights
    from kcurate.train import random_model

    if settings.model.name == random_model.NAME:
        note(random_model.SAID)
    else:
        weights.check_there(settings.model)


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
        InputError, RemoteError: the server is not there, or cannot judge this run.
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
    """The server that a run names.

    Raises:
        InputError: not an address, a wrong token, or a setting that a server cannot follow.
        RemoteError: no server there.
    """
    judge_settings = settings.judge
    if ":" in settings.reward.scheme:
        raise OptionError("a server has no reward of your own", where="--judge", hint="choose a scheme")
    if settings.curriculum.policy == "sqd" or settings.curriculum.pool or settings.tasks.source != "pairs":
        what = "a server judges pairs, and permits all techniques"
        raise OptionError(what, where="--judge", hint="leave it out")
    token = own_files.token(Path(judge_settings.token_file)) if judge_settings.token_file else None
    Client(
        judge_settings.url, token=token, retry_s=0
    ).health()  # here, so that a wrong address is an error at once
    client = Client(judge_settings.url, token=token, retry_s=RETRY_S, note=note)
    return RemotePool(client, settings.reward.scheme, settings.reward.values)


def _train(
    name: StageName,
    config: TrainConfig,
    first_adapter: Path | None,
    folder: RunFolder,
    tasks: Tasks,
    stop: Stop,
    pool: RewardPool | RemotePool,
    note: Note,
) -> int:
    """Run one stage unless it is done; the number of steps taken now."""
    if folder.done(name):
        note(f"{name}: already done")
        return 0
    from kcurate.local_models import weights
    from kcurate.train import grpo, rft, sft
    from kcurate.train.driving import Stage

    stage = Stage(name, folder, config.settings, stop, note, config.push, config.private)
    if name == "sft":
        taught.write(folder.stage(name), (task for task in tasks.sft if task.answer is not None), None)
        steps = sft.train(stage, tasks.sft)
    else:
        if name == "grpo" and folder.done("rft") and config.adapter is None:
            first_adapter = None  # what was given is what RFT started from
        before = [earlier for earlier in plans.ALL[: plans.ALL.index(name)] if folder.done(earlier)]
        adapter = first_adapter or (folder.adapter(before[-1]) if before else None)
        note(f"{name}: starts from {adapter or 'a new adapter'}")
        known = taught.read(adapter) if adapter else None
        if known is not None and (again := known.among(tasks.grpo)):
            note(
                f"{name}: {len(again)} of {len(tasks.grpo)} tasks are of families that the adapter was taught"
            )
        taught.write(folder.stage(name), tasks.grpo, adapter)
        if name == "rft":
            steps = rft.train(stage, tasks.grpo, pool, adapter, timed=pool.timed)
        else:
            steps = grpo.train(stage, tasks.grpo, pool, adapter)
    weights.free()
    return steps


def _measure(
    config: TrainConfig, folder: RunFolder, tasks: Tasks, pool: RewardPool | RemotePool, note: Note
) -> None:
    """Score the base model and the adapters of finished stages; existing rows are kept."""
    measure = config.settings.measure
    if not tasks.held_out:
        note("measure: no held-out tasks to score on")
        return
    if config.row is not None:
        measure_row(config.row, config, folder, tasks, pool, config.adapter, note)
        return
    there = {row.name for row in scores.read_rows(folder.measured)}
    wanted: list[tuple[str, Path | None]] = [(ROWS["base"], None)] if measure.base else []
    stages = plans.ALL if measure.sft else plans.ALL[1:]
    wanted += [(ROWS[name], folder.adapter(name)) for name in stages if folder.done(name)]
    for name, adapter in wanted:
        if name not in there:
            measure_row(name, config, folder, tasks, pool, adapter, note)


def measure_row(
    name: str,
    config: TrainConfig,
    folder: RunFolder,
    tasks: Tasks,
    pool: RewardPool | RemotePool,
    adapter: Path | None,
    note: Note,
) -> None:
    """Score one model on the held-out tasks as `kcurate eval` does, and add its row to `measured.json`.

    At least `measure.samples` completions, equally many per task.

    Raises:
        InputError: no held-out task fits.
    """
    from kcurate.evaluation.local_model import Drawing, LocalModel

    settings, measure = config.settings, config.settings.measure
    longest = measure.max_completion_tokens or settings.grpo.max_completion_tokens
    hint = "--set measure.batch={}"
    drawing = Drawing(longest, measure.temperature, measure.top_p, measure.seed, measure.batch, hint)
    with contextlib.closing(LocalModel(settings.model, adapter, drawing)) as model:
        fitting = model.fitting(tasks.held_out, settings.grpo.max_prompt_tokens)
        if not fitting:
            raise InputError(
                f"all {len(tasks.held_out)} held-out tasks have prompts over "
                f"{settings.grpo.max_prompt_tokens} tokens or answers over {longest}",
                where="measure",
                hint="raise grpo.max_prompt_tokens, measure.max_completion_tokens, or tasks.held_out",
            )
        taught.refuse(adapter, fitting, hint="use the --held-out, --split-seed and --dataset of its training")
        rows = generate(fitting, model, samples=math.ceil(measure.samples / len(fitting)))
    note(f"{name}: {len(rows)} completions for {len(fitting)} of {len(tasks.held_out)} held-out tasks")
    rows, _ = judge(rows, fitting, pool)
    completions.write(folder.completions(name), rows)
    scored = scores.score(name, settings.model.shown, rows, timed=pool.timed)
    scores.add_row(folder.measured, scored)
    note(scores.line(scored))


def _finish(
    config: TrainConfig, folder: RunFolder, tasks: Tasks, steps: dict[str, int], record: Run
) -> Summary:
    """Curves, card, summary, and the Hub."""
    name = config.settings.model.shown
    curves.draw(folder.metrics, folder.curves, f"{name}, recipe {config.settings.recipe}")
    counts: dict[str, Any] = {
        "tasks": {"taught": len(tasks.sft), "asked": len(tasks.grpo), "held_out": len(tasks.held_out)},
        "steps": steps,
        "sampled": sampled(folder.judged.lines()),
        "answers": dict(sorted(Counter(line["outcome"] for line in folder.judged.lines()).items())),
    }
    kinds = ("tasks", "steps", *(["sampled"] if counts["answers"] else []))
    about = {f"{kind} {key}": value for kind in kinds for key, value in counts[kind].items()}
    model_card.write(folder, config.settings, {"recipe": config.settings.recipe, **about})
    summary = record.finish(counts)
    if config.push is not None:
        hub.push(folder, config.push, private=config.private, note=record.note)
    return summary
