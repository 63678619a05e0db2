"""`kcurate eval`: generate, judge, score; all at once, or one step at a time through a folder.

A step whose output file exists is skipped. Not covered: options (`settings`).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from kcurate.backends.choice import choose
from kcurate.core import codec, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, new_folder, recorded
from kcurate.errors import InputError, OptionError
from kcurate.evaluation import completions, scores, taught
from kcurate.evaluation.comparing import Comparison, compare
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.folder import EvalFolder, check
from kcurate.evaluation.judging import judge, tasks_of
from kcurate.evaluation.sampling import Sampler, generate
from kcurate.evaluation.scores import Scores
from kcurate.evaluation.settings import EvalConfig, Evaluated
from kcurate.local_models.settings import ModelSettings
from kcurate.problem.lessons import gpu_named
from kcurate.records import Summary
from kcurate.reward import devices, own_reward, pair_tasks, splits
from kcurate.reward.devices import JudgePlace
from kcurate.reward.pool import PoolConfig, RewardPool
from kcurate.reward.settings import JudgeSettings
from kcurate.reward.task import Task

STAGE = "eval"


def run(config: EvalConfig, *, note: Note = silent) -> tuple[Summary, Scores | None]:
    """Run the steps that are not done yet; the counts are the outcomes of the completions.

    Raises:
        InputError: unusable settings, tasks or folder. MissingDependencyError: a package, key, GPU or memory
            is missing. RemoteError, BudgetSpentError: no answer from an API.
    """
    root = config.folder or new_folder(config.workspace, STAGE)
    folder = EvalFolder(root)
    with recorded(STAGE, root, note=note, folder=root) as record:
        evaluated = _what_is_evaluated(config, folder)
        with contextlib.closing(_Judges(config, folder, evaluated, record.note)) as judges:
            rows = _completions(config, folder, evaluated, judges, record)
            if "judge" in config.steps and not folder.judged.exists():
                record.begin()
                rows = judges.judged(rows)
                completions.write(folder.judged, rows)
                folder.write_about(
                    evaluated, timed=judges.pool.timed, device=judges.pool.environment().device
                )
        scored = _score(config, folder, evaluated) if "score" in config.steps else None
        judged = folder.read_judged() if folder.judged.exists() else rows
        counts = Counter(row.outcome or "not judged" for row in judged)
        record.note(f"evaluation: {root}")
        return record.finish({"completions": dict(sorted(counts.items()))}), scored


def run_compare(first: Path, second: Path) -> Comparison:
    """The difference, second minus first.

    Raises:
        InputError: not judged, no common task, or judged in ways that cannot be compared.
    """
    folders = [EvalFolder(first), EvalFolder(second)]
    rows = [folder.read_judged() for folder in folders]
    abouts = [folder.read_about() for folder in folders]
    where = f"{first}, {second}"
    timed = [bool(about.get("timed")) for about in abouts]
    if timed[0] != timed[1]:
        raise InputError("one was timed on a GPU and the other was not", where=where)
    devices = [about.get("device") for about in abouts]
    if timed[0] and devices[0] != devices[1]:
        raise InputError(f"timed on different GPUs: {devices[0]} and {devices[1]}", where=where)
    evaluated = [
        codec.from_data(Evaluated, about["evaluated"], where=str(folder.about))
        for about, folder in zip(abouts, folders, strict=True)
    ]
    if evaluated[0].protocol != evaluated[1].protocol:
        raise InputError("judged by different protocols", where=where)
    return compare(*rows, timed=timed[0], one_reward=evaluated[0].reward == evaluated[1].reward)


def _what_is_evaluated(config: EvalConfig, folder: EvalFolder) -> Evaluated:
    """What is evaluated, from the call or from the folder.

    Raises:
        InputError: the folder has another evaluation, or none where one is needed; a value out of range.
    """
    where, evaluated = str(folder.about), config.evaluated
    if evaluated is None:
        evaluated = codec.from_data(Evaluated, folder.read_about()["evaluated"], where=where)
        if "judge" in config.steps and config.reward != evaluated.reward and ":" in evaluated.reward:
            # The folder may come from somebody else, and the function runs with the user's rights.
            why = f"its reward is the function {evaluated.reward}, which judging imports"
            raise InputError(why, where=where, hint=f"--reward {evaluated.reward} if you trust it")
        return evaluated
    check(evaluated)
    if not folder.about.exists():
        return evaluated
    earlier = codec.from_data(Evaluated, folder.read_about()["evaluated"], where=where)
    if replace(earlier, gpu=None) != replace(evaluated, gpu=None):
        raise InputError("another evaluation is here", where=str(folder.root), hint="choose another --out")
    return earlier


class _Judges:
    """The judges and the tasks of an evaluation, opened on first use."""

    def __init__(self, config: EvalConfig, folder: EvalFolder, evaluated: Evaluated, note: Note) -> None:
        self._config, self._folder, self._note = config, folder, note
        self.evaluated = evaluated
        self._pool: RewardPool | None = None

    @cached_property
    def place(self) -> JudgePlace:
        """The backend and GPUs that judge; a model in this process samples on the first of the GPUs."""
        chosen = choose(self._config.backend, self._config.gpu, note=self._note)
        backend: Literal["emulator", "cuda"] = "emulator" if chosen.backend == "emulator" else "cuda"
        gpus = chosen.gpus if backend == "cuda" else ()
        return devices.settle(JudgeSettings(backend, chosen.gpus[0], gpus))

    @property
    def pool(self) -> RewardPool:
        """The judges."""
        if self._pool is None:
            place = self.place
            pool_config = PoolConfig(
                place.backend,
                place.gpus,
                self._config.jobs,
                place.timed,
                cache_file=self._folder.verdicts,
                torch=self.evaluated.tasks.startswith("kernelbench"),
            )
            self._pool = RewardPool(own_reward.chosen(self.evaluated.reward, {}), pool_config)
        return self._pool

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks.

        Raises:
            InputError: there are none.
        """
        return load_tasks(self.evaluated, self._note)

    def judged(self, rows: Sequence[Completion]) -> list[Completion]:
        """The completions with the judge's findings, by the protocol of the evaluation.

        Raises:
            InputError: KernelBench's protocol without a GPU; or as in `judging.judge`.
        """
        evaluated, (_, _, path) = self.evaluated, self.evaluated.tasks.partition(":")
        if evaluated.protocol == "kcurate":
            return judge(rows, self.tasks, self.pool)[0]
        from kcurate.evaluation import kernelbench_protocol

        if self.place.backend != "cuda":
            hint = "judge on a machine with one, or leave out --protocol"
            raise InputError("KernelBench's evaluator needs a GPU", where="--protocol kernelbench", hint=hint)
        scheme = own_reward.chosen(evaluated.reward, {})
        tree, tasks = kernelbench_protocol.checkout(path), tasks_of(rows, self.tasks)
        return kernelbench_protocol.judge(
            rows, tasks, tree, scheme, gpu=self.place.gpus[0], jobs=self._config.jobs
        )

    def close(self) -> None:
        """End the judges."""
        if self._pool is not None:
            self._pool.close()


def load_tasks(evaluated: Evaluated, note: Note = silent) -> tuple[Task, ...]:
    """The tasks of an evaluation.

    Raises:
        InputError: there are none.
    """
    source, _, path = evaluated.tasks.partition(":")
    if source == "kernelbench":
        from kcurate.kernelbench import tasks as kernelbench

        if evaluated.protocol == "kernelbench":
            from kcurate.evaluation import kernelbench_protocol

            tasks = kernelbench_protocol.load(kernelbench_protocol.checkout(path), evaluated.level)
        else:
            level, brief, gpu = evaluated.level, evaluated.brief, evaluated.gpu or ""
            loaded = kernelbench.load(path or None, level=level, brief=brief, gpu=gpu, note=note)
            note(f"kernelbench: {len(loaded.tasks)} tasks, {len(loaded.left_out)} modules left out")
            tasks = loaded.tasks
    elif source == "minted":
        gpu, brief = evaluated.gpu or "", evaluated.brief
        roots = [Path(name) for name in evaluated.dataset]
        tasks = tuple(task for root in roots for task in pair_tasks.minted(root, gpu=gpu, brief=brief))
    else:
        tasks = pair_tasks.load(
            *evaluated.dataset, brief=evaluated.brief, untimed=evaluated.untimed, gpu=evaluated.gpu, note=note
        )
    parts = splits.split(tasks, evaluated.held_out, evaluated.split_seed)
    split = evaluated.split or ("held_out" if source == "pairs" else "all")
    chosen = pair_tasks.scored({"train": parts[0], "held_out": parts[1], "all": tasks}[split])
    if not chosen:
        raise InputError(
            f"no task to evaluate on: {split} of {evaluated.tasks} is empty", where="kcurate eval"
        )
    chosen = chosen[: evaluated.limit or None]
    note(f"{len(chosen)} tasks of {len({task.family for task in chosen})} families")
    return chosen


def _completions(
    config: EvalConfig, folder: EvalFolder, evaluated: Evaluated, judges: _Judges, record: Run
) -> list[Completion]:
    """The completions of the folder; generates them if there are none."""
    if folder.completions.exists() or "generate" not in config.steps:
        hint = f"run kcurate eval generate --out {folder.root}"
        return completions.read(folder.completions, hint=hint)
    record.begin()
    # Before `judges.tasks` is first read, which loads the tasks for `judges.evaluated.gpu`.
    if judges.place.backend == "cuda":
        environment = judges.pool.environment()
        judges.evaluated = evaluated = replace(
            evaluated, gpu=gpu_named(environment.device, environment.compiler) or None
        )
    adapter = None if evaluated.adapter is None else Path(evaluated.adapter)
    taught_before = None if adapter is None else taught.read(adapter)
    if adapter is not None and taught_before is None:
        record.note(f"{adapter} does not say what it was taught: no task is refused")
    # The model first: a missing key or model is reported before the tasks are read, which takes a while.
    with _sampler(config, folder, evaluated, record.note) as sampler:
        tasks = judges.tasks
        if not evaluated.allow_taught:
            taught.refuse(adapter, tasks, hint="choose held-out tasks, or --allow-taught to mark these")
        folder.write_about(evaluated)
        turned = judges.pool if evaluated.turns > 1 or evaluated.tool_calls else None
        if evaluated.tool_calls and turned is not None:
            _equip(sampler, tasks, turned, evaluated.tool_calls)
        rows = generate(
            tasks, sampler, samples=evaluated.samples, turns=evaluated.turns, pool=turned, note=record.note
        )
    if taught_before is not None:
        names = {task.id for task in taught_before.among(tasks)}
        rows = [replace(row, taught=row.task in names) for row in rows]
    completions.write(folder.completions, rows)
    record.note(f"{len(rows)} completions: {folder.completions}")
    return rows


def _equip(sampler: Sampler, tasks: Sequence[Task], pool: RewardPool, calls: int) -> None:
    """Give a model behind an API tools for the tasks."""
    from kcurate.evaluation.endpoint import Endpoint, TaskBench
    from kcurate.models.conversation import Limits

    if isinstance(sampler, Endpoint):
        sampler.benches = {task.prompt.context: TaskBench(task, pool) for task in tasks}
        sampler.limits = Limits(calls)


@contextlib.contextmanager
def _sampler(config: EvalConfig, folder: EvalFolder, evaluated: Evaluated, note: Note) -> Iterator[Sampler]:
    """The model, closed on exit."""
    if config.sampler is not None:
        yield config.sampler
    elif evaluated.of_claude or evaluated.model.startswith("openai:"):
        from kcurate.evaluation.endpoint import Endpoint
        from kcurate.models.naming import parse_model
        from kcurate.models.opening import Spending, open_asking

        if evaluated.adapter is not None:
            raise OptionError("an adapter needs a model in this process", where="--adapter")
        spending = Spending(config.max_usd, config.price, evaluated.longest)
        options = {"temperature": evaluated.temperature, "top_p": evaluated.top_p, "effort": evaluated.effort}
        name = parse_model(evaluated.model)
        asking = open_asking(
            name, folder.transcripts, spending, timeout_s=config.timeout_s, options=options, note=note
        )
        with contextlib.closing(asking.client):
            yield Endpoint(asking, config.concurrency)
        note(asking.spent())
    else:
        from kcurate.local_models.libraries import require_extra

        require_extra("kcurate eval")
        from kcurate.evaluation.local_model import LocalModel, SamplingOptions
        from kcurate.local_models.libraries import quiet

        drawing = SamplingOptions(
            evaluated.longest,
            1.0 if evaluated.temperature is None else evaluated.temperature,
            1.0 if evaluated.top_p is None else evaluated.top_p,
            evaluated.seed,
            config.batch,
        )
        adapter = None if evaluated.adapter is None else Path(evaluated.adapter)
        settings = ModelSettings(evaluated.model, sampling=evaluated.sampling, merged=evaluated.merged)
        with quiet(), contextlib.closing(LocalModel(settings, adapter, drawing)) as model:
            yield model


def _score(config: EvalConfig, folder: EvalFolder, evaluated: Evaluated) -> Scores:
    timed, name = bool(folder.read_about().get("timed")), config.name or folder.root.name
    scored = scores.score(name, evaluated.model, folder.read_judged(), timed=timed)
    store.write_bytes(folder.scores, store.pretty_json({"rows": [codec.to_data(scored)]}))
    return scored
