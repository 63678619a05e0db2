"""`kcurate validate`: judges the candidates in pair folders and stores the verdicts.

Resumable: a candidate with a final verdict for the same content on the same device is not judged again,
unless `again` is set. Each new verdict is appended to the workspace's `verdicts/<device>.jsonl` at once; one
from a GPU is also written into the pair folder. Not covered: how a verdict is made (`kcurate.judge`).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import kcurate.judge as judge
from kcurate.backends.choice import choose
from kcurate.core import names, own_files, progress, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import ordered, recorded
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError, OptionError
from kcurate.judge import JudgeConfig
from kcurate.problem.size_gaps import advice
from kcurate.records import SIDES, Candidate, Environment, Item, Outcome, Summary, Verdict
from kcurate.validate.settings import ValidateConfig
from kcurate.verdicts import items, standing
from kcurate.verdicts.keys import PROTOCOL, verdict_key
from kcurate.verdicts.ledger import Ledger
from kcurate.verdicts.readable import Unreadable


@dataclass(frozen=True)
class PairFolder:
    """One pair folder; `problem` says why `candidate` is None."""

    index: int
    folder: Path
    candidate: Candidate | None
    problem: str = ""


@store.without_collector()
def read(folders: Iterable[Path]) -> tuple[PairFolder, ...]:
    """Read every folder; one without a readable candidate is an item too."""
    items = []
    for index, folder in enumerate(folders):
        try:
            items.append(PairFolder(index, folder, store.read_candidate(folder)))
        except InputError as error:
            items.append(PairFolder(index, folder, None, str(error)))
    return tuple(items)


def unjudged(item: PairFolder, environment: Environment) -> Verdict:
    """The verdict on a folder that cannot be judged: no readable candidate, or one without a problem.

    The key of an unreadable one is the hash of its `pair.json`.
    """
    if item.candidate is not None:
        return Verdict(
            candidate=item.candidate.id,
            key=verdict_key(item.candidate),
            outcome=Outcome.NO_PROBLEM,
            environment=environment,
            detail="the pair has no problem yet: run kcurate problem draft, or write one",
            protocol=PROTOCOL,
        )
    path = item.folder / "pair.json"
    try:
        content = own_files.read(path)
    except InputError:
        content = b""
    return Verdict(
        candidate=item.folder.name,
        key=store.content_id("unreadable", str(item.folder), content),
        outcome=Outcome.MALFORMED,
        environment=environment,
        detail=item.problem.replace("\n", " "),
        protocol=PROTOCOL,
    )


STAGE = "validate"


def run(config: ValidateConfig, *, note: Note = silent, vouched: frozenset[str] = frozenset()) -> Summary:
    """Judge candidates without a final verdict; the counts are over all candidates given.

    `vouched`: keys of candidates that the caller has just made itself (`kcurate.judge.JudgeConfig`).

    Raises:
        InputError: nothing to validate, or unusable paths or options.
        MissingDependencyError: the backend is not available.
    """
    with recorded(STAGE, config.workspace, note=note) as record:
        workspace = Workspace(config.workspace)
        folders = read(_folders(config, workspace))
        place = choose(config.backend, config.gpu, note=record.note, ray=config.ray)
        if config.sanitize and place.backend == "emulator":
            why = "the emulator has no compute-sanitizer; it looks for races and wrong addresses by itself"
            raise OptionError(why, where="--sanitize", hint="leave it out, or judge on a GPU")
        trusted = config.trust_python
        judging = JudgeConfig(
            place.backend,
            place.gpus[0],
            sanitize=config.sanitize,
            torch=trusted,
            workspace=config.workspace.resolve(),
            vouched=vouched,
        )
        record.begin(config)
        with contextlib.ExitStack() as stack:
            referees = None
            if config.ray is not None:
                referees = judge.open_referees(judging, jobs=config.jobs, ray=config.ray)
                stack.callback(referees.close)
            environment = referees.environment() if referees else judge.describe_environment(judging)
            book = Ledger(workspace, environment)
            verdicts = _known(folders, book, config)
            known = ((folders[index].candidate, verdict) for index, verdict in verdicts.items())
            minimal = standing.minimal_templates((pair, verdict) for pair, verdict in known if pair)
            rest = [
                (item.index, item.candidate)
                for item in folders
                if item.index not in verdicts and item.candidate is not None
            ]

            searched = replace(judging, minimal=minimal)
            judged = _in_waves(rest, searched, gpus=place.gpus, jobs=config.jobs, referees=referees)
            _record_rest(folders, verdicts, judged, book)
        for item in folders:
            record.add(_item(item, verdicts[item.index], workspace))
        items.say_earlier_code(((item.folder, item.candidate) for item in folders), workspace, record.note)
        for index, candidate in rest:
            # Report a problem's gaps once, on the original pair.
            derived = candidate.origin.made is not None
            if verdicts[index].outcome.correct and not derived and (line := _advice(candidate)) is not None:
                record.note(f"{candidate.id}: {line}")
        counts = Counter[str](verdict.outcome for verdict in verdicts.values())
        return record.finish({"candidates": ordered(counts, Outcome)})


def _in_waves(
    waiting: Sequence[tuple[int, Candidate]], judging: JudgeConfig, **where: Any
) -> Generator[tuple[int, Verdict], None, None]:
    """Judge made slow sides last, since verdicts on naive variants set their allowed speedup.

    Short ones first: a search of theirs ends, and longer ones by the same rules do without. `where`: as for
    `judge_many`.
    """
    made_slow = [entry for entry in waiting if entry[1].origin.made == "slow"]
    others = [entry for entry in waiting if entry[1].origin.made != "slow"]
    for wave in (others, sorted(made_slow, key=lambda entry: len(entry[1].slow.code))):
        if wave:
            yield from judge.judge_many(wave, judging, **where)


def _advice(candidate: Candidate) -> str | None:
    """What the test sizes leave untested, for whoever wrote the problem."""
    assert candidate.problem is not None, "it was judged correct"
    return advice(candidate.problem, {side: getattr(candidate, side) for side in SIDES})


def _item(item: PairFolder, verdict: Verdict, workspace: Workspace) -> Item:
    if item.candidate is None:
        broken = Unreadable(item.folder, "pair.json", item.problem)
        return items.unreadable("candidates", verdict.outcome, broken, workspace)
    return items.item("candidates", item.candidate.id, verdict, item.folder, workspace)


def _folders(config: ValidateConfig, workspace: Workspace) -> list[Path]:
    """The pair folders, each once."""
    if not config.paths and not store.is_folder(workspace.pairs):
        raise InputError(
            "no pairs in the workspace",
            where=str(workspace.pairs),
            hint="name pair folders, or run kcurate pair SLOW.cu FAST.cu, or kcurate extract",
        )
    return names.pairs(map(str, config.paths or (workspace.pairs,)), workspace)


def _known(folders: tuple[PairFolder, ...], book: Ledger, config: ValidateConfig) -> dict[int, Verdict]:
    """Verdicts that need no judging: unreadable folders, pairs without a problem, stored final verdicts."""
    known: dict[int, Verdict] = {}
    for item in folders:
        if item.candidate is None or item.candidate.problem is None:
            known[item.index] = unjudged(item, book.environment)
            book.add(known[item.index])
        elif not config.again:
            verdict = book.find(item.folder, verdict_key(item.candidate))
            if verdict is not None and verdict.outcome.final:
                known[item.index] = verdict
    return known


def _record_rest(
    folders: tuple[PairFolder, ...],
    verdicts: dict[int, Verdict],
    judged: Generator[tuple[int, Verdict], None, None],
    book: Ledger,
) -> None:
    """Record verdicts as they come."""
    counts = Counter[str](verdict.outcome for verdict in verdicts.values())
    with (
        contextlib.closing(judged),
        progress.bar(
            f"{STAGE} on {book.environment.device}", len(folders), "pair", done=len(verdicts)
        ) as bar,
    ):
        bar.set_postfix(counts, refresh=False)
        for index, verdict in judged:
            book.add(verdict, beside=folders[index].folder)
            verdicts[index] = verdict
            counts[verdict.outcome] += 1
            bar.set_postfix(counts, refresh=False)
            bar.update()
