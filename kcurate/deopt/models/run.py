"""A whole run with a model: sets up searches from starts, drives them and counts their outcomes.

With the same input, options and model, a run reuses everything that an earlier run saved. Not covered: rules
(`kcurate.deopt.rules`), the output of commands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kcurate.core import progress, resources, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.core.workspace import Workspace
from kcurate.cuda_source.compare.similarity import fingerprint
from kcurate.deopt.models import run_counts
from kcurate.deopt.models.answer_counters import Counting
from kcurate.deopt.models.attempts import Attempts
from kcurate.deopt.models.batches import POLL_S, Batches
from kcurate.deopt.models.drivers import drive, drive_batched
from kcurate.deopt.models.examples import Examples
from kcurate.deopt.models.gates import Known, Variants, known_of
from kcurate.deopt.models.policy import Tried, make_policy
from kcurate.deopt.models.run_counts import StartSearches
from kcurate.deopt.models.search import CountFunction, JudgeFunction, Search, Surroundings
from kcurate.deopt.models.targets import Target, chosen_techniques, targets
from kcurate.deopt.settings import IDLE_ROUNDS, DeoptConfig
from kcurate.deopt.starts import Start, starts
from kcurate.errors import KcurateError, OptionError
from kcurate.evaluation.local_client import client_of
from kcurate.judge import JudgeConfig, open_referees
from kcurate.models.asking import Asking
from kcurate.models.claude import ClaudeClient
from kcurate.models.client import Patience
from kcurate.models.naming import ModelName, parse_model
from kcurate.models.opening import Spending, open_asking
from kcurate.records import Candidate, Environment, SideName, Summary, Verdict
from kcurate.verdicts import ledger
from kcurate.verdicts.readable import Unreadable

Report = Callable[[Summary], None]


@dataclass(frozen=True)
class Seams:
    """What a test may replace. `judge` None: the judges and the profiler of this machine."""

    judge: JudgeFunction | None = None
    device: Environment = field(default_factory=lambda: Environment("cuda", "test"))
    count: CountFunction = lambda _, __: {}
    patience: Patience = field(default_factory=Patience)
    timeout_s: float | None = None
    poll_s: float = POLL_S


def run(
    config: DeoptConfig, *, note: Note = silent, seams: Seams | None = None, report: Report = lambda _: None
) -> Summary:
    """Write `pairs/<id>/deopt-<model>-.../` for every variant that the judge accepts.

    Raises: as `search`.
    """
    return search(config, note=note, seams=seams, report=report)[0]


def search(
    config: DeoptConfig, *, note: Note = silent, seams: Seams | None = None, report: Report = lambda _: None
) -> tuple[Summary, list[Tried]]:
    """The summary, and every attempt at every goal; `report` gets the summary before anything is raised.

    Raises:
        InputError: unusable options, or nothing to start from.
        MissingDependencyError: no judge on this machine, or no key.
        BudgetSpentError, RemoteError: the run ended early; all results so far are saved and counted.
    """
    seams = seams or Seams()
    workspace = Workspace(config.workspace)
    with recorded("deopt", config.workspace, note=note) as record:
        all_starts, name = find_starts(config, workspace, record.note), parse_model(config.model)
        asking = _asking(config, name, workspace, seams, record.note)
        record.begin(config, model=name.model, base_url=name.base_url)
        with contextlib.ExitStack() as stack:
            stack.callback(asking.client.close)
            judge, device = _judge(config, seams, stack)
            count = _count(config, seams, stack, record.note)
            around = _surroundings(config, asking, judge, device, count, name, workspace)
            searches = _searches(all_starts, config, around, workspace)
            failure = _drive(config, searches, asking, workspace, name, seams, record.note, device.device)
        items = run_counts.count(searches, asking)
        record.note(asking.spent())
        run_counts.add_results(record, searches, around.attempts.path)
        summary = record.finish(items)
        report(summary)
        if failure is not None:
            raise failure
        return summary, [attempt for group in searches for each in group.searches for attempt in each.tried]


def spending(config: DeoptConfig) -> Spending:
    """What the run may spend."""
    return Spending(config.max_usd, config.price, config.max_tokens)


def find_starts(config: DeoptConfig, workspace: Workspace, note: Note = silent) -> tuple[Start, ...]:
    """The starts of a run.

    Raises:
        InputError: unusable options, or nothing to start from.
    """
    if min(config.variants, config.rounds, config.candidates, config.idle_rounds) < 1:
        raise OptionError("--variants, --rounds, --candidates and --idle-rounds must be at least 1")
    climbs = config.direction != "slow" and config.policy == "plain"
    if not climbs and (config.candidates, config.idle_rounds) != (1, IDLE_ROUNDS):
        what = "--candidates and --idle-rounds are for searches that go on from the best answer"
        raise OptionError(what, hint="give --direction fast, and no --policy")
    spending(config).price_of(parse_model(config.model))
    chosen_techniques(config.techniques)
    if config.direction == "translate" and (config.techniques or config.policy != "plain"):
        raise OptionError(
            "--direction translate takes neither --techniques nor --policy", hint="leave them out"
        )
    all_starts = tuple(starts(config.paths, workspace, made=config.written_side, note=note))
    for start in all_starts:
        if isinstance(start, Unreadable):
            note(f"left out: {start}")
    readable = (start for start in all_starts if isinstance(start, Start))
    if config.direction != "slow":
        return tuple(readable)
    # A slow side that a model wrote in Triton cannot be judged: there are no counts of what Triton runs.
    return tuple(start for start in readable if start.given.language != "triton")


def _asking(config: DeoptConfig, name: ModelName, workspace: Workspace, seams: Seams, note: Note) -> Asking:
    if config.batch and name.provider != "anthropic":
        raise OptionError("--batch works only with Claude models", hint="leave it out")
    return open_asking(
        name,
        workspace.transcripts,
        spending(config),
        patience=seams.patience,
        timeout_s=config.timeout_s or seams.timeout_s,
        options=config.options,
        client=client_of(name, config.max_tokens),
        note=note,
    )


def _judge(
    config: DeoptConfig, seams: Seams, stack: contextlib.ExitStack
) -> tuple[JudgeFunction, Environment]:
    if seams.judge is not None:
        return seams.judge, seams.device
    judging = JudgeConfig(backend=config.place.backend, workspace=config.workspace.resolve())
    referees = open_referees(judging, gpus=config.place.gpus, jobs=config.jobs, ray=config.ray)
    stack.callback(referees.close)
    return lambda candidate: referees.submit(candidate).result(), referees.environment()


def _count(config: DeoptConfig, seams: Seams, stack: contextlib.ExitStack, note: Note) -> CountFunction:
    """The counting function of a search that climbs: the profiler of the first GPU, if there is one."""
    local = seams.judge is None and config.ray is None and config.place.backend == "cuda"
    if not local or config.direction == "slow" or config.policy != "plain":
        return seams.count
    counters = Counting(config.place.gpus[0], note)
    stack.callback(counters.close)
    return counters


def _surroundings(
    config: DeoptConfig,
    asking: Asking,
    judge: JudgeFunction,
    device: Environment,
    count: CountFunction,
    name: ModelName,
    workspace: Workspace,
) -> Surroundings:
    def keep(candidate: Candidate, verdict: Verdict, *, again: bool) -> None:
        folder = workspace.pairs / candidate.id
        if again and store.exists(folder / "pair.json"):
            return
        store.write_candidate(folder, candidate)
        ledger.record(workspace, verdict, beside=folder)

    return Surroundings(
        asking=asking,
        attempts=Attempts(workspace.attempts / f"{name.slug}.jsonl"),
        judge=judge,
        device=device,
        slug=name.slug,
        examples=Examples(resources.pairs_dir()),
        keep=keep,
        count=count,
        limits=config.limits,
    )


def goals(config: DeoptConfig, start: Start) -> list[Target]:
    """The goals for a start; empty if its problem is unknown."""
    wanted = chosen_techniques(config.techniques)
    ladders, language = config.policy == "sqd", config.written_language(start.given)
    return targets(start, config.written_side, wanted, config.variants, ladders=ladders, language=language)


def _searches(
    all_starts: Sequence[Start], config: DeoptConfig, around: Surroundings, workspace: Workspace
) -> list[StartSearches]:
    """The searches of every start; goals that an earlier start already has are skipped."""
    searches_of: list[StartSearches] = []
    seen: set[str] = set()
    archives: dict[str, Variants] = {}
    for start in all_starts:
        every = goals(config, start)
        wanted = [goal for goal in every if goal.key() not in seen]
        seen |= {goal.key() for goal in wanted}
        variants = archives.setdefault(start.content_id(), Variants())
        _add_existing(variants, start, workspace.pairs / start.id, config.written_side)
        searches = [Search(goal, make_policy(config, goal), around, variants) for goal in wanted]
        searches_of.append(StartSearches(start, searches, run_counts.skipped(start, len(wanted))))
    return searches_of


def _add_existing(variants: Variants, start: Start, folder: Path, made: SideName) -> None:
    """Add existing variants: a pair's own side, and those on disk, made by rules or by any model."""
    if start.other is not None:
        variants.add(Known(start.id, None, fingerprint(start.other.code)))
    for path in store.find(folder, "pair.json"):
        candidate = store.read_candidate(path.parent)
        if path.parent.parent == folder and candidate.origin.made == made:
            variants.add(known_of(candidate.id, candidate, getattr(candidate, made)))


def _drive(
    config: DeoptConfig,
    searches: Sequence[StartSearches],
    asking: Asking,
    workspace: Workspace,
    name: ModelName,
    seams: Seams,
    note: Note,
    where: str,
) -> KcurateError | None:
    every = [search for group in searches for search in group.searches]
    most = len(every) * config.rounds * config.candidates
    with progress.bar(f"deopt {name.slug}, {where}", most, "attempt") as bar:

        def heard(what: str) -> None:
            spent = [f"${asking.budget.spent_usd:.4f}"] if asking.price is not None else []
            bar.set_postfix_str(", ".join([*spent, what]), refresh=False)

        def moved() -> None:
            bar.update()
            heard("")

        asking.heard = heard

        if config.batch and isinstance(asking.client, ClaudeClient):
            path = workspace.batches / f"{name.slug}.jsonl"
            batches = Batches(asking.client, asking, path, poll_s=seams.poll_s, note=note)
            return drive_batched(every, asking, batches, threads=config.concurrency, moved=moved)
        return drive(every, asking, threads=config.concurrency, moved=moved)
