"""Whether pairs teach a code model: arms by protocol (docs/results/training.md), in units that go on.

    python benchmarks/experiment.py prepare --model MODEL --dataset DIR --tasks FILE    # no GPU
    python benchmarks/experiment.py ARM... --model MODEL --tasks FILE --state DIR [--from DIR] [--out DIR]
    python benchmarks/experiment.py merge --state DIR --from DIR        # what a machine sent back
    python benchmarks/experiment.py report [--state DIR]                # the tables of the page
    python benchmarks/experiment.py alike --tasks FILE [--state DIR]    # held-out answers in taught ones

MODEL is a `.gguf` file or a folder; DIR of `--dataset` comes from `kcurate build`. An arm is cut into units
(train, likelihood, sample, judge; `rate` before GRPO and RFT). Each ends with a row in STATE/ARM/rows.jsonl,
and none is made twice. No unit begins that would not end within `--budget-s`; SFT stops there with a
checkpoint in `--work`. `--from` is what earlier machines left, `--out` gets what this call made, in pieces.
With several GPUs, run one call for each, with CUDA_VISIBLE_DEVICES and other arms. `--units judge` reads no
model.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import pickle
import shutil
import signal
import sys
import tarfile
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import fetch_model

from kcurate import prompts
from kcurate.core import codec, store
from kcurate.errors import InputError, KcurateError
from kcurate.evaluation import completions, intervals, scores, taught
from kcurate.evaluation.completions import Completion
from kcurate.hub.published_rows import candidate_of, read_rows
from kcurate.local_models import weights
from kcurate.local_models.form import Form
from kcurate.local_models.settings import ModelSettings
from kcurate.problem import shown
from kcurate.records import Prompt
from kcurate.reward import devices, pair_tasks, schemes
from kcurate.reward.task import Task
from kcurate.train.config import resolve
from kcurate.train.run_folder import RunFolder
from kcurate.train.run_tasks import Tasks
from kcurate.train.settings import TrainSettings
from kcurate.train.stopping import StoppedError

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs/data/nvidia-h200/teaching"
ROWS = "rows.jsonl"
# What KernelBench's prompts name; those of pairs name the GPU of the pair's verdict.
GPU = "NVIDIA H200 (compute capability 9.0)"
# The protocol: fixed before the first row.
PROMPT, ANSWER = 4096, 1280
HELD_OUT, FAMILIES, NOT_MINTED, SAMPLES, LIKELY, RATED = 100, 50, 40, 4, 300, 300
RIGHT_FOR_GRPO = 0.05
# The share of a packed sequence that holds rows.
PACKED = 0.95
SETTINGS = (
    "model.attention=packed", "model.sampling=static", "lora.r=8", "lora.alpha=16", "lora.dropout=0.0",
    "sft.learning_rate=2e-4", "sft.packing=true", "sft.max_tokens=16384", "sft.batch=1", "sft.micro_batch=1",
    "sft.max_steps=256", "sft.warmup_steps=16", "sft.scheduler=cosine", "sft.gradient_checkpointing=false",
    "sft.save_steps=64",
    f"grpo.max_prompt_tokens={PROMPT}", f"grpo.max_completion_tokens={ANSWER}", "grpo.learning_rate=2e-5",
    "grpo.prompts=16", "grpo.generations=8", "grpo.generate_every=2", "grpo.micro_batch=2", "grpo.beta=0.0",
    "grpo.epsilon_high=0.28", "grpo.max_steps=16", "grpo.save_steps=2", "grpo.gradient_checkpointing=false",
    "rft.samples=8", "rft.batch=256",
    "measure.batch=200", "measure.temperature=0.7",
)  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """What is trained: by SFT on some rows, or by GRPO or RFT from the adapter of `all`.

    `share`: of the rows, by whole families. `answers`: the known ones, the given code itself, or those of
    other families. `without`: which rows are left out.
    """

    name: str
    stage: Literal["", "sft", "grpo", "rft"] = "sft"
    seed: int = 42
    share: float = 1.0
    answers: Literal["known", "given", "shuffled"] = "known"
    without: Literal["", "explained", "minted"] = ""

    @property
    def units(self) -> tuple[str, ...]:
        """The units, in order."""
        rated = ("rate",) if self.stage in ("grpo", "rft") else ()
        return (*rated, *(("train",) if self.stage else ()), "likelihood", "sample", "judge")


ARMS = {
    arm.name: arm
    for arm in (
        Arm("base", ""),
        Arm("all"),
        Arm("form", answers="given"),
        Arm("shuffled", answers="shuffled"),
        Arm("half", share=1 / 2),
        Arm("quarter", share=1 / 4),
        Arm("eighth", share=1 / 8),
        Arm("no-explanations", without="explained"),
        Arm("no-minted", without="minted"),
        Arm("all-2", seed=43),
        Arm("half-2", seed=43, share=1 / 2),
        Arm("shuffled-2", seed=43, answers="shuffled"),
        Arm("grpo", "grpo"),
        Arm("rft", "rft"),
    )
}


@dataclass(frozen=True)
class Row:
    """A row that SFT may see: a task with its known answer; `given`: the answer that hands its code back."""

    task: Task
    given: str
    explained: bool
    minted: bool

    @property
    def family(self) -> str:
        """The family of its task."""
        return self.task.family


@dataclass(frozen=True)
class Likely:
    """An answer whose likelihood is measured; `kind`: answer, given, chosen or rejected."""

    kind: str
    task: str
    family: str
    prompt: Prompt
    answer: str


@dataclass(frozen=True)
class Prepared:
    """What all arms share. `model`, `tokenizer`: hashes of those that it was made for."""

    model: str
    tokenizer: str
    rows: tuple[Row, ...]
    held_out: tuple[Task, ...]
    likely: tuple[Likely, ...]
    rated: tuple[Task, ...]
    kernelbench: tuple[Task, ...] = ()


def settings_of(options: argparse.Namespace) -> TrainSettings:
    """The settings of every arm."""
    model = {"name": str(options.model)}
    return resolve(recipe="pairs", sets=[*SETTINGS, *options.sets], options={"model": model})


def hash_of_model(path: Path) -> str:
    """The SHA-256 of a model's file, or of the files of its folder."""
    if path.is_file():
        return fetch_model.content(path).sha256
    files = [*sorted(path.glob("*.safetensors")), path / "config.json"]
    return hashlib.sha256("".join(fetch_model.content(file).sha256 for file in files).encode()).hexdigest()


def hash_of_tokenizer(tokenizer: Any) -> str:
    """The SHA-256 of its vocabulary and of its chat template."""
    parts = [sorted(tokenizer.get_vocab().items()), tokenizer.chat_template]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


# --- without a GPU: rows and tasks ----------------------------------------------------------------------


def prepare(options: argparse.Namespace) -> Prepared:
    """Rows and tasks of the dataset's own split that fit what is sampled.

    Raises:
        InputError: the held-out part is smaller than the protocol says, unless `--few` does.
    """
    settings, folder = settings_of(options), options.dataset
    tokenizer = weights.load_tokenizer(settings.model)
    form = Form(tokenizer, settings.model)

    def fits(prompt: Prompt, *answers: str | None) -> bool:
        lengths = [tuple(map(len, form.row(prompt, answer or ""))) for answer in answers]
        return all(length[0] <= PROMPT and length[1] <= ANSWER for length in lengths)

    rows = [row for row in rows_of(folder) if fits(row.task.prompt, row.task.answer, row.given)]
    rows = seen_once(rows, form, settings.sft.max_steps * settings.sft.max_tokens)
    tests = pair_tasks.scored(pair_tasks.load(str(folder), split="test"))
    held_out = chosen([task for task in tests if task.answer and fits(task.prompt, task.answer)])
    families = len({task.family for task in held_out})
    not_minted = sum(not minted(task) for task in held_out)
    if len(held_out) < HELD_OUT or families < FAMILIES or not_minted < NOT_MINTED:
        why = f"{len(held_out)} tasks of {families} families, {not_minted} of them not minted"
        if not options.few:
            raise InputError(f"too few held-out tasks: {why}", where=str(folder), hint="--few N")
        print(f"held out: {why}")
    training = pair_tasks.load(str(folder), split="train")
    few = options.few or None
    prepared = Prepared(
        hash_of_model(options.model),
        hash_of_tokenizer(tokenizer),
        tuple(rows),
        tuple(held_out[:few]),
        tuple(
            row
            for row in likely(folder, tests, held_out[:few], few or LIKELY)
            if fits(row.prompt, row.answer)
        ),
        tuple(
            spread(
                [task for task in training if task.technique is None and fits(task.prompt, "")], few or RATED
            )
        ),
    )
    if options.checkout is not None:
        level1 = unrelated(options.checkout, {row.task.family for row in rows})
        kept = [task for task in level1 if fits(task.prompt, "")][:few]
        prepared = replace(prepared, kernelbench=tuple(kept))
    options.tasks.write_bytes(pickle.dumps(prepared))
    return prepared


def unrelated(checkout: Path, families: set[str]) -> list[Task]:
    """KernelBench's level 1 without the tasks that a trained family has a relative in."""
    from kcurate.kernelbench import tasks as kernelbench

    loaded = kernelbench.load(str(checkout), level=1, gpu=GPU, note=print)
    return [task for task in loaded.tasks if task.family not in families]


def seen_once(rows: Sequence[Row], form: Form, tokens: int) -> list[Row]:
    """As many rows as `all` sees once in so many tokens; arms of fewer rows see theirs more often.

    Rows of our own problems, of minted ones and explained ones take turns, as far as there are any: by
    families alone nearly all would be minted, each of which is a family of its own.
    """
    kinds: dict[tuple[bool, bool], list[Row]] = defaultdict(list)
    for row in rows:
        kinds[row.minted, row.explained].append(row)
    turns = itertools.zip_longest(*(spread(kinds[kind], len(rows)) for kind in sorted(kinds)))
    kept, length = [], 0
    for row in (row for turn in turns for row in turn if row is not None):
        length += sum(map(len, form.row(row.task.prompt, row.task.answer or "")))
        if length > PACKED * tokens:
            break
        kept.append(row)
    return kept


def rows_of(folder: Path) -> Iterator[Row]:
    """The rows of `sft` and `explained` whose prompt shows a given side."""
    pairs = {str(row["id"]): row for row in read_rows(folder).get("train", ())}
    for config in ("sft", "explained"):
        for row in read_rows(folder, config).get("train", ()):
            if (pair := pairs.get(str(row["id"]))) is None:
                continue
            candidate = candidate_of(pair)
            answer, prompt = row["completion"][0]["content"], prompt_of(row["prompt"])
            task = Task(candidate.id, candidate.family, prompt, candidate, answer)
            yield Row(task, given(task), config == "explained", minted(task))


def prompt_of(messages: Sequence[Mapping[str, str]]) -> Prompt:
    """The prompt that `prompts.chat` writes as these messages."""
    context, _, request = messages[-1]["content"].partition("\n")
    prompt = Prompt(messages[0]["content"], context, request)
    assert prompts.chat(prompt) == list(messages), "a system message and one of the user"
    return prompt


def given(task: Task) -> str:
    """The answer that hands the given code back, as it was given."""
    slow = task.template.slow
    return prompts.write_answer(shown.answer_of(slow, slow))


def minted(task: Task) -> bool:
    """Whether its problem is one of `kcurate mint`."""
    return task.template.origin.kind == "minted" or task.id.startswith("minted/")


def place(*parts: object) -> str:
    """A place in an order that has nothing to do with names."""
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()


def spread(items: Iterable[Any], most: int) -> list[Any]:
    """At most `most` items with a `family`: the first of each family, then the second of each, and so on."""
    by_family: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        by_family[item.family].append(item)
    ranked = [
        (rank, place(family), item) for family, group in by_family.items() for rank, item in enumerate(group)
    ]
    return [item for *_, item in sorted(ranked, key=lambda entry: entry[:2])[:most]]


def chosen(tasks: Sequence[Task]) -> list[Task]:
    """The held-out tasks: as many as there are that nobody minted, up to 60; minted ones for the rest."""
    ours = spread([task for task in tasks if not minted(task)], 60)
    return ours + spread([task for task in tasks if minted(task)], HELD_OUT - len(ours))


def likely(folder: Path, tests: Sequence[Task], held_out: Sequence[Task], most: int) -> Iterator[Likely]:
    """Known answers of the test part, the given code of the held-out tasks, and the preferences."""
    for task in spread([task for task in tests if task.answer], most):
        yield Likely("answer", task.id, task.family, task.prompt, task.answer or "")
    for task in held_out:
        yield Likely("given", task.id, task.family, task.prompt, given(task))
    for number, row in enumerate(read_rows(folder, "preferences").get("test", ())):
        for kind in ("chosen", "rejected"):
            answer, prompt = row[kind][0]["content"], prompt_of(row["prompt"])
            yield Likely(kind, f"{row['id']} {number}", row["family"], prompt, answer)


def taught_by(arm: Arm, rows: Sequence[Row]) -> list[Task]:
    """The tasks that SFT of an arm sees, with the answers that it sees."""
    kept = [
        row
        for row in rows
        if not (row.explained and arm.without == "explained") and not (row.minted and arm.without == "minted")
    ]
    order = sorted(kept, key=lambda row: (place(arm.seed, row.task.family), row.task.id, row.explained))
    wanted, families = arm.share * len(order), set[str]()
    for count, row in enumerate(order):
        if count < wanted:
            families.add(row.task.family)
    order = [row for row in order if row.task.family in families]
    if arm.answers == "given":
        return [replace(row.task, answer=row.given) for row in order]
    if arm.answers == "known":
        return [row.task for row in order]
    parts = [[row.task for row in order if row.explained is explained] for explained in (False, True)]
    return [task for part in parts if part for task in shuffled(part)]


def shuffled(tasks: Sequence[Task]) -> list[Task]:
    """Each task, which come family by family, with the answer of a task of another family.

    Raises:
        InputError: one family has more than half of them.
    """
    counts: dict[str, int] = defaultdict(int)
    for task in tasks:
        counts[task.family] += 1
    step = max(counts.values())
    if 2 * step > len(tasks):
        raise InputError("one family has more than half of the rows", where="shuffled")
    return [replace(task, answer=tasks[(i + step) % len(tasks)].answer) for i, task in enumerate(tasks)]


# --- units -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Session:
    """One call: what is prepared, the settings with the unpacked model, and the folders."""

    prepared: Prepared
    settings: TrainSettings
    state: Path
    work: Path
    ends_s: float
    place: devices.JudgePlace

    def note(self, text: str) -> None:
        """Print a line with the seconds that are left."""
        print(f"[{self.ends_s - time.monotonic():4.0f} s left] {text}", flush=True)

    def rows(self, arm: str) -> list[dict[str, Any]]:
        """The rows of an arm."""
        path = self.state / arm / ROWS
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def model(self, arm: Arm) -> ModelSettings:
        """How an arm's model is loaded: GRPO's small updates would be lost in weights of 16 bits."""
        return replace(self.settings.model, merged=arm.stage != "grpo")

    def adapter(self, arm: Arm) -> Path | None:
        """The adapter of an arm, read back from its pieces; None for `base`."""
        return unpacked(self.state / arm.name / "adapter", self.work, self.prepared) if arm.stage else None

    def judged(
        self, rows: Sequence[Completion], tasks: Sequence[Task], *, modules: bool = False, timed: bool = True
    ) -> list[Completion]:
        """The completions with the judge's findings; `modules`: of tasks whose reference is PyTorch."""
        from kcurate.evaluation.judging import judge
        from kcurate.reward.pool import PoolConfig, RewardPool

        config = PoolConfig(
            self.place.backend,
            self.place.gpus,
            self.settings.judge.jobs,
            timed and self.place.timed,
            cache_file=self.work / "verdicts.jsonl",
            torch=modules,
        )
        with contextlib.closing(RewardPool(schemes.make("pairs"), config)) as pool:
            return judge(rows, tasks, pool)[0]

    def sampled(self, arm: Arm, tasks: Sequence[Task], samples: int) -> list[Completion]:
        """Completions of an arm's model."""
        from kcurate.evaluation.local_model import LocalModel, SamplingOptions
        from kcurate.evaluation.sampling import generate

        measure = self.settings.measure
        most = measure.max_completion_tokens or ANSWER
        drawing = SamplingOptions(most, measure.temperature, measure.top_p, measure.seed, measure.batch)
        adapter = self.adapter(arm)
        if arm.stage and adapter is not None:
            taught.refuse(adapter, [task for task in tasks if task in self.prepared.held_out], hint="prepare")
        with contextlib.closing(LocalModel(self.model(arm), adapter, drawing)) as model:
            return generate(tasks, model, samples=samples)


def opened(options: argparse.Namespace) -> Session:
    """What a call needs, after the checks.

    Raises:
        InputError: no tasks, or those of another model or tokenizer.
    """
    ends_s = time.monotonic() + options.budget_s
    settings = settings_of(options)
    prepared = read_tasks(options.tasks)
    judges = devices.settle(settings.judge)
    options.work.mkdir(parents=True, exist_ok=True)
    if options.units != ["judge"]:  # which needs no model: the completions are there
        settings = replace(settings, model=checked(settings.model, options, prepared))
    return Session(prepared, settings, options.state, options.work, ends_s, judges)


def read_tasks(path: Path) -> Prepared:
    """What all arms share, from its file.

    Raises:
        InputError: no tasks.
    """
    try:
        prepared: Prepared = pickle.loads(path.read_bytes())
    except (OSError, pickle.UnpicklingError, EOFError) as error:
        raise InputError("no prepared tasks", where=str(path), hint="prepare them") from error
    return prepared


def checked(model: ModelSettings, options: argparse.Namespace, prepared: Prepared) -> ModelSettings:
    """The unpacked model, which is the one that the tasks were prepared for.

    Raises:
        InputError: it is another one, or has another tokenizer.
    """
    if hash_of_model(options.model) != prepared.model:
        raise InputError("not the model that the tasks were prepared for", where=str(options.model))
    unpacked_model = weights.unpacked(model, options.work / "base")
    if hash_of_tokenizer(weights.load_tokenizer(unpacked_model)) != prepared.tokenizer:
        raise InputError("not the tokenizer that the tasks were prepared with", where=str(options.model))
    return unpacked_model


def train(session: Session, arm: Arm) -> dict[str, Any]:
    """Train an arm, or go on from its checkpoint; its adapter goes into the state."""
    from kcurate.train.stage import TrainConfig
    from kcurate.train.stage import run as train_run

    stage: Any = arm.stage
    folder = RunFolder(session.work / arm.name)
    rows = taught_by(arm, session.prepared.rows) if stage == "sft" else []
    start = None if stage == "sft" else session.adapter(ARMS["all"])
    tasks = Tasks(tuple(rows), () if stage == "sft" else middle(session, arm), ())
    settings = replace(session.settings, seed=arm.seed)
    config = TrainConfig(
        settings=settings,
        out=folder.root,
        stages=(stage,),
        adapter=start,
        measure=False,
        resume=folder.config.exists(),
        tasks=tasks,
    )
    with told_to_stop(session.ends_s - time.monotonic() - 20):
        train_run(config, note=session.note)
    pack(folder.adapter(stage), session.state / arm.name / "adapter", session.prepared)
    if (own := folder.completions("rft-sampled")).exists():
        shutil.copyfile(own, session.state / arm.name / "rft-sampled.parquet")
    lines = list(folder.metrics.lines(stage))
    last = [line["loss"] for line in lines[-16:] if "loss" in line]
    return {
        "rows": len(rows) or len(tasks.grpo),
        "families": len({task.family for task in rows or tasks.grpo}),
        "steps": lines[-1]["step"],
        "tokens": lines[-1].get("num_tokens"),
        "loss": sum(last) / len(last) if last else None,
        "train_s": lines[-1]["wall_s"],
    }


@contextlib.contextmanager
def told_to_stop(after_s: float) -> Iterator[None]:
    """SIGTERM to this process, on which training writes a checkpoint and ends."""
    timer = threading.Timer(max(1.0, after_s), os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def rate(session: Session, arm: Arm) -> dict[str, Any]:
    """The pass rates of training tasks under `all`, if it is right often enough for more to be learned."""
    judged = [row for row in session.rows("all") if row["unit"] == "judge"]
    right = judged[-1]["scores"]["correct"]["1"]["value"] if judged else 0.0
    if right < RIGHT_FOR_GRPO:
        why = f"`all` is right and no copy in {right:.1%} of its completions, below {RIGHT_FOR_GRPO:.0%}"
        raise InputError(f"{arm.name} is not run: {why}", where="protocol")
    path, waiting = session.state / "rated.parquet", session.work / "rated-waiting.parquet"
    if not path.exists():
        if not waiting.exists():
            completions.write(waiting, session.sampled(ARMS["all"], session.prepared.rated, SAMPLES))
        rows = completions.read(waiting, hint="rate")
        # How fast the answers are does not count here, so they are not timed.
        completions.write(path, session.judged(rows, session.prepared.rated, timed=False))
    return {"middle": len(middle(session, arm))}


def middle(session: Session, arm: Arm) -> tuple[Task, ...]:
    """The rated tasks that are solved sometimes."""
    groups = scores.grouped(completions.read(session.state / "rated.parquet", hint="rate"))
    solved = {group.task: sum(sample.correct for sample in group.samples) for group in groups}
    return tuple(task for task in session.prepared.rated if 0 < solved.get(task.id, 0) < SAMPLES)


def likelihood(session: Session, arm: Arm) -> dict[str, Any]:
    """The likelihoods of known answers; kept one a line of a Parquet file."""
    import pyarrow as pa
    from likelihood import likelihoods

    rows = session.prepared.likely
    found = likelihoods(session.model(arm), session.adapter(arm), [(row.prompt, row.answer) for row in rows])
    table = [
        {"kind": row.kind, "task": row.task, "family": row.family, "nats": each.nats, "tokens": each.tokens}
        for row, each in zip(rows, found, strict=True)
    ]
    completions.write_table(session.state / arm.name / "likelihoods.parquet", pa.Table.from_pylist(table))
    return {name: codec.to_data(estimate) for name, estimate in of_likelihoods(table).items()}


def of_likelihoods(table: Sequence[Mapping[str, Any]]) -> dict[str, intervals.Estimate]:
    """The outcomes of the likelihoods: nats a token, and how often the better of two is the likelier."""
    each = {(row["kind"], row["task"]): row["nats"] / row["tokens"] for row in table}
    families = {row["task"]: row["family"] for row in table}

    def over(better: str, worse: str) -> intervals.Estimate | None:
        both = [task for kind, task in each if kind == better and (worse, task) in each]
        if not both:
            return None
        wins = [float(each[better, task] < each[worse, task]) for task in both]
        return intervals.mean(wins, [families[task] for task in both], (0.0, 1.0))

    known = [(value, families[task]) for (kind, task), value in each.items() if kind == "answer"]
    estimates = {
        "nats a token": intervals.mean([value for value, _ in known], [family for _, family in known]),
        "preferred": over("chosen", "rejected"),
        "answer over given": over("answer", "given"),
    }
    return {name: estimate for name, estimate in estimates.items() if estimate is not None}


def sample(session: Session, arm: Arm) -> dict[str, Any]:
    """The completions for the held-out tasks, not judged yet."""
    begun_s = time.monotonic()
    rows = session.sampled(arm, session.prepared.held_out, SAMPLES)
    seconds = time.monotonic() - begun_s
    completions.write(session.state / arm.name / "completions.parquet", rows)
    tokens = sum(row.output_tokens or 0 for row in rows)
    return {"completions": len(rows), "tokens": tokens, "tokens_per_s": round(tokens / seconds, 1)}


def judge(session: Session, arm: Arm) -> dict[str, Any]:
    """Judge the completions; only adapters that others start from, or KernelBench is asked with, are kept."""
    path = session.state / arm.name / "completions.parquet"
    rows = session.judged(completions.read(path, hint="sample"), session.prepared.held_out)
    completions.write(path, rows)
    scored = scores.score(arm.name, session.settings.model.shown, rows, timed=session.place.timed)
    if arm.name not in ("all", *TABLE1):
        shutil.rmtree(session.state / arm.name / "adapter", ignore_errors=True)
    return {"scores": codec.to_data(scored)}


def kernelbench(session: Session, arm: Arm) -> dict[str, Any]:
    """Scores on KernelBench's level 1; its completions are not kept, since they can repeat its modules."""
    tasks = session.prepared.kernelbench
    rows = session.judged(session.sampled(arm, tasks, SAMPLES), tasks, modules=True)
    scored = scores.score(arm.name, session.settings.model.shown, rows, timed=session.place.timed)
    return {"scores": codec.to_data(scored)}


UNITS: dict[str, Callable[[Session, Arm], dict[str, Any]]] = {
    "rate": rate,
    "train": train,
    "likelihood": likelihood,
    "sample": sample,
    "judge": judge,
    "kernelbench": kernelbench,
}
# The rows of the KernelCompare paper's Table 1.
TABLE1 = ("base", "all", "grpo")


def run(options: argparse.Namespace) -> None:
    """The units of the arms that are not done yet, as far as the time goes."""
    from kcurate.local_models.libraries import quiet
    from kcurate.train.run_folder import environment

    if options.source is not None:
        merge(options.source, options.state)
    session = opened(options)
    longest: dict[str, float] = defaultdict(float)
    about = {name: value for name, value in environment(1).items() if name != "argv"}
    for arm in [ARMS[name] for name in options.arms]:
        done = {row["unit"] for row in session.rows(arm.name)}
        last = ("kernelbench",) if arm.name in TABLE1 and session.prepared.kernelbench else ()
        wanted = set(options.units or UNITS) - done
        for unit in [unit for unit in (*arm.units, *last) if unit in wanted]:
            if time.monotonic() + longest[unit] > session.ends_s:
                session.note(f"stopped before {arm.name}, {unit}; run it again to go on")
                return
            begun_s = time.monotonic()
            session.note(f"{arm.name}, {unit}")
            with quiet():
                numbers = UNITS[unit](session, arm)
            longest[unit] = max(longest[unit], time.monotonic() - begun_s)
            row = {"arm": arm.name, "unit": unit, "seconds": round(time.monotonic() - begun_s, 1), **about}
            store.append_line(session.state / arm.name / ROWS, json.dumps(row | numbers))
            if options.out is not None:
                send(session.state, options.out, options.arms)


# --- travelling --------------------------------------------------------------------------------------------


def pack(adapter: Path, into: Path, prepared: Prepared) -> None:
    """An adapter in 16 bits as pieces below 16 MiB, with the hashes of its base and tokenizer."""
    import torch
    from safetensors.torch import load_file, save_file

    part = into.with_name("adapter.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    tensors = load_file(adapter / "adapter_model.safetensors")
    save_file(
        {name: tensor.to(torch.bfloat16) for name, tensor in tensors.items()},
        part / "adapter_model.safetensors",
    )
    config = json.loads((adapter / "adapter_config.json").read_bytes()) | {"base_model_name_or_path": ""}
    (part / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True))
    shutil.copyfile(adapter / taught.NAME, part / taught.NAME)
    (part / "base.json").write_text(json.dumps({"model": prepared.model, "tokenizer": prepared.tokenizer}))
    archive = into.with_name("adapter.tar")
    with tarfile.open(archive, "w") as file:
        for path in sorted(part.iterdir()):
            file.add(path, path.name)
    fetch_model.cut(archive, into, 15 << 20)
    archive.unlink()
    shutil.rmtree(part)


def unpacked(pieces: Path, work: Path, prepared: Prepared) -> Path:
    """The folder of an adapter that is in pieces.

    Raises:
        InputError: none there, a piece is missing or damaged, or it is of another model or tokenizer.
    """
    name = fetch_model.content(pieces / fetch_model.LIST).sha256[:12]
    folder, archive = work / f"adapter-{name}", work / f"adapter-{name}.tar"
    if not folder.exists():
        here, count = fetch_model.join(pieces, archive)
        if here < count:
            raise InputError(f"{here} of {count} pieces of the adapter are here", where=str(pieces))
        part = folder.with_suffix(".part")
        with tarfile.open(archive) as file:
            file.extractall(part, filter="data")
        archive.unlink()
        part.replace(folder)
    base = json.loads((folder / "base.json").read_text())
    for what in ("model", "tokenizer"):
        if base[what] != getattr(prepared, what):
            raise InputError(f"an adapter of another {what}", where=str(pieces), hint="train it again")
    return folder


def send(state: Path, out: Path, arms: Sequence[str]) -> None:
    """Arms of the state as pieces below 16 MiB in `out`, a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "state.tar")
        with tarfile.open(archive, "w") as file:
            for name in [*arms, "rated.parquet"]:
                if (state / name).exists():
                    file.add(state / name, name)
        fetch_model.cut(archive, out, 15 << 20)


def merge(source: Path, state: Path) -> None:
    """Take over the arms of another state, a folder or its pieces: those that have more rows.

    Raises:
        InputError: an arm has other rows in both; nothing is changed.
    """
    if (source / fetch_model.LIST).exists():
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder, "state.tar")
            here, count = fetch_model.join(source, archive)
            if here < count:
                raise InputError(f"{here} of {count} pieces are here", where=str(source))
            with tarfile.open(archive) as file:
                file.extractall(Path(folder, "state"), filter="data")
            merge(Path(folder, "state"), state)
        return
    newer = []
    for rows in sorted(source.glob(f"*/{ROWS}")):
        place_ = state / rows.parent.name
        text, known = rows.read_text(), ""
        with contextlib.suppress(FileNotFoundError):
            known = (place_ / ROWS).read_text()
        if not text.startswith(known) and not known.startswith(text):
            raise InputError("two runs of one arm", where=f"{rows}, {place_}", hint="keep one of them")
        if len(text) > len(known):
            newer.append((rows.parent, place_))
    for arm, place_ in newer:
        shutil.rmtree(place_, ignore_errors=True)
        shutil.copytree(arm, place_)
    if (source / "rated.parquet").exists() and not (state / "rated.parquet").exists():
        state.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / "rated.parquet", state / "rated.parquet")


def main() -> None:
    """Prepare, run arms, merge or report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "arms", nargs="+", metavar="STEP", help=f"prepare, merge, report, alike, or {', '.join(ARMS)}"
    )
    parser.add_argument("--model", type=Path)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--checkout", type=Path, help="prepare: KernelBench")
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--state", type=Path, default=DATA)
    parser.add_argument("--from", dest="source", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path, default=Path("/tmp/kcurate-experiment"))
    parser.add_argument("--budget-s", type=float, default=560.0)
    parser.add_argument("--units", nargs="+", choices=UNITS, help="only these; judging needs an idle GPU")
    parser.add_argument("--few", type=int, default=0, help="prepare: a rehearsal with so many tasks")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    step = options.arms[0]
    if step not in ("prepare", "merge", "report", "alike") and (unknown := set(options.arms) - set(ARMS)):
        parser.error(f"no such arm: {', '.join(sorted(unknown))}")
    try:
        if step == "prepare":
            prepared = prepare(options)
            parts = {name: len(getattr(prepared, name)) for name in ("rows", "held_out", "likely", "rated")}
            print(", ".join(f"{name} {count}" for name, count in parts.items()))
        elif step == "merge":
            merge(options.source, options.state)
        elif step == "report":
            from experiment_report import report

            report(options.state)
        elif step == "alike":
            from experiment_report import alike

            prepared = read_tasks(options.tasks)
            alike([row.task for row in prepared.rows], prepared.held_out, options.state)
        else:
            run(options)
    except StoppedError as error:
        print(f"{error}; run it again to go on")
    except KcurateError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
