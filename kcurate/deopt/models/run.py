"""A whole run with a model: sets up searches from starts, drives them and counts their outcomes.

With the same input, options and model, a run reuses everything that an earlier run saved. Not covered: rules
(`kcurate.deopt.rules`), the output of commands.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from kcurate.core import progress, resources, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, recorded
from kcurate.core.workspace import Workspace
from kcurate.cuda_source.compare.similarity import fingerprint
from kcurate.deopt.models.attempts import Attempts
from kcurate.deopt.models.batches import POLL_S, Batches
from kcurate.deopt.models.drivers import Counting, drive, drive_batched
from kcurate.deopt.models.examples import Examples
from kcurate.deopt.models.gates import Known, Variants, known_of
from kcurate.deopt.models.policy import Tried, hopeless, make_policy
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
from kcurate.records import AttemptOutcome, Candidate, Environment, Outcome, SideName, Summary, Verdict
from kcurate.verdicts import ledger
from kcurate.verdicts.readable import Unreadable


class StartOutcome(StrEnum):
    """Outcome of a kernel (or of a pair's side).

    `duplicate`: an earlier start is identical.
    """

    VARIANTS = "variants"
    NO_VARIANT = "no_variant"
    NO_PROBLEM = "no_problem"
    DUPLICATE = "duplicate"
    UNFINISHED = "unfinished"


class SearchOutcome(StrEnum):
    """How a search ended."""

    ACCEPTED = "accepted"
    OUT_OF_ROUNDS = "out_of_rounds"
    HOPELESS = "hopeless"
    UNFINISHED = "unfinished"


_WHY = {
    StartOutcome.NO_VARIANT: "no answer was accepted",
    StartOutcome.NO_PROBLEM: "no problem is known for it",
    StartOutcome.DUPLICATE: "an earlier kernel is the same",
    StartOutcome.UNFINISHED: "the run ended early: run the same command to go on",
}


@dataclass(frozen=True)
class StartSearches:
    """A start and its searches; `skipped` is the reason if there are none."""

    start: Start
    searches: Sequence[Search]
    skipped: StartOutcome | None = None


def count_outcomes(groups: Sequence[StartSearches], asking: Asking) -> dict[str, dict[str, int]]:
    """The counts for the summary, by kind; every item is counted once per kind."""
    kernels: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    attempts: Counter[str] = Counter()
    for group in groups:
        outcomes = [_search_outcome(search) for search in group.searches]
        ends.update(outcomes)
        for search in group.searches:
            attempts.update(str(tried.ended) for tried in search.tried)
        kernels[group.skipped or _start_outcome(outcomes)] += 1
    order = [*AttemptOutcome, *Outcome]
    return {
        "kernels": {str(outcome): kernels[outcome] for outcome in StartOutcome if kernels[outcome]},
        "searches": {str(outcome): ends[outcome] for outcome in SearchOutcome if ends[outcome]},
        "attempts": {name: attempts[name] for name in dict.fromkeys(map(str, order)) if attempts[name]},
        "requests": {str(source): number for source, number in sorted(asking.counts.items())},
    }


def add_results(record: Run, groups: Sequence[StartSearches], file: Path) -> None:
    """Add every kernel and every attempt to the results; `file` has all attempts."""
    for group in groups:
        outcome = group.skipped or _start_outcome([_search_outcome(search) for search in group.searches])
        passed, name = outcome is StartOutcome.VARIANTS, group.start.id
        then = ("problem", "draft") if outcome is StartOutcome.NO_PROBLEM else ("show", name)
        record.item("kernels", name, outcome, _WHY.get(outcome, ""), passed=passed, file=file, then=then)
        for search in group.searches:
            for tried in search.tried:
                attempt = tried.attempt
                judged = attempt.outcome is AttemptOutcome.JUDGED and attempt.verdict
                label = f"{search.target.label}, {attempt.place}"
                why = attempt.detail or (judged.detail if judged else "")
                record.item("attempts", label, tried.ended, why, passed=tried.accepted, file=file)


def skipped(start: Start, new_goals: int) -> StartOutcome | None:
    """Why a start gets no search, given how many of its goals are new; None if it gets one."""
    if start.problem is None:
        return StartOutcome.NO_PROBLEM
    return None if new_goals else StartOutcome.DUPLICATE


def _start_outcome(outcomes: Sequence[SearchOutcome]) -> StartOutcome:
    if SearchOutcome.ACCEPTED in outcomes:
        return StartOutcome.VARIANTS
    unfinished = SearchOutcome.UNFINISHED in outcomes
    return StartOutcome.UNFINISHED if unfinished else StartOutcome.NO_VARIANT


def _search_outcome(search: Search) -> SearchOutcome:
    if search.accepted:
        return SearchOutcome.ACCEPTED
    if hopeless(search.tried, search.policy.candidates):
        return SearchOutcome.HOPELESS
    over = search.policy.next(search.tried) is None
    return SearchOutcome.OUT_OF_ROUNDS if over else SearchOutcome.UNFINISHED


Report = Callable[[Summary], None]


@dataclass(frozen=True)
class Seams:
    """The parts that a test may replace. `judge` None: the judges and the profiler of this machine."""

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
        items = count_outcomes(searches, asking)
        record.note(asking.spent())
        add_results(record, searches, around.attempts.path)
        summary = record.finish(items)
        report(summary)
        if failure is not None:
            raise failure
        return summary, [attempt for group in searches for each in group.searches for attempt in each.tried]


def spending(config: DeoptConfig) -> Spending:
    """The limits on what the run spends."""
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
    chosen = chosen_techniques(config.techniques)
    ladders, language = config.policy == "sqd", config.written_language(start.given)
    return targets(start, config.written_side, chosen, config.variants, ladders=ladders, language=language)


def _searches(
    all_starts: Sequence[Start], config: DeoptConfig, around: Surroundings, workspace: Workspace
) -> list[StartSearches]:
    """The searches of every start; goals that an earlier start already has are skipped."""
    searches_of: list[StartSearches] = []
    seen_keys: set[str] = set()
    archives: dict[str, Variants] = {}
    for start in all_starts:
        all_goals = goals(config, start)
        new_goals = [goal for goal in all_goals if goal.key() not in seen_keys]
        seen_keys |= {goal.key() for goal in new_goals}
        variants = archives.setdefault(start.content_id(), Variants())
        _add_existing(variants, start, workspace.pairs / start.id, config.written_side)
        searches = [Search(goal, make_policy(config, goal), around, variants) for goal in new_goals]
        searches_of.append(StartSearches(start, searches, skipped(start, len(new_goals))))
    return searches_of


def _add_existing(variants: Variants, start: Start, folder: Path, written: SideName) -> None:
    """Add existing variants: a pair's own side, and those on disk, made by rules or by any model."""
    if start.other is not None:
        variants.add(Known(start.id, None, fingerprint(start.other.code)))
    for path in store.find(folder, "pair.json"):
        candidate = store.read_candidate(path.parent)
        if path.parent.parent == folder and candidate.origin.made == written:
            variants.add(known_of(candidate.id, candidate, getattr(candidate, written)))


def _drive(
    config: DeoptConfig,
    searches: Sequence[StartSearches],
    asking: Asking,
    workspace: Workspace,
    name: ModelName,
    seams: Seams,
    note: Note,
    device: str,
) -> KcurateError | None:
    all_searches = [search for group in searches for search in group.searches]
    most = len(all_searches) * config.rounds * config.candidates
    with progress.bar(f"deopt {name.slug}, {device}", most, "attempt") as bar:

        def show_status(what: str) -> None:
            spent = [f"${asking.budget.spent_usd:.4f}"] if asking.price is not None else []
            bar.set_postfix_str(", ".join([*spent, what]), refresh=False)

        def advanced() -> None:
            bar.update()
            show_status("")

        asking.heard = show_status

        if config.batch and isinstance(asking.client, ClaudeClient):
            path = workspace.batches / f"{name.slug}.jsonl"
            batches = Batches(asking.client, asking, path, poll_s=seams.poll_s, note=note)
            return drive_batched(all_searches, asking, batches, threads=config.concurrency, moved=advanced)
        return drive(all_searches, asking, threads=config.concurrency, moved=advanced)
