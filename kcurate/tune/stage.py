"""`kcurate tune`: a side's knobs searched on one device; the best confirmed setting becomes a pair.

A trial is a candidate of the side as it is against the side at a setting: the judge compares their results at
the test sizes and, on a GPU, times them in turn at the headline. Every verdict is on file by content, so that
a stopped search goes on where it was. Which numbers of the plan follow a constant is found with it: the first
link (`knobs.LINKS`) with right results. On the emulator nothing is timed: trials only tell which settings
compute the same, and no pair is written. A strategy asks for the score of a setting, higher is better (None:
it is wrong there, or not timed), until it has no more to ask or no trials are left. Random sampling and
greedy hill climbing over neighbours are in Kernel Tuner too (van Werkhoven, 2019). Not covered: knobs, the
judge.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import kcurate.judge as judge
from kcurate.backends.choice import choose
from kcurate.core import names, progress, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import ordered, recorded
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError
from kcurate.judge import JudgeConfig
from kcurate.records import Candidate, Kernel, Outcome, Side, SideName, Sizes, Summary, Verdict
from kcurate.tune.knobs import LINKS, Knob, Link, changed, find, listed, relaunched
from kcurate.tune.settings import TuneConfig
from kcurate.verdicts.keys import verdict_key
from kcurate.verdicts.ledger import Ledger

Setting = Mapping[str, int]
Score = Callable[[Setting], float | None]
# A neighbour counts as better from here on: less is noise between judgements.
LEAST_GAIN = 0.01


def start(knobs: Sequence[Knob]) -> Setting:
    """The side's own setting."""
    return {knob.name: knob.value for knob in knobs}


def sample(knobs: Sequence[Knob], score: Score, rng: random.Random) -> None:
    """Settings in random order, without repeats, after the side's own."""
    score(start(knobs))
    seen: set[tuple[int, ...]] = set()
    total = math.prod(len(knob.values) for knob in knobs)
    while len(seen) < total:
        values = tuple(rng.choice(knob.values) for knob in knobs)
        if values not in seen:
            seen.add(values)
            score({knob.name: value for knob, value in zip(knobs, values, strict=True)})


def climb(knobs: Sequence[Knob], score: Score, rng: random.Random) -> None:
    """From the side's own setting to the first better neighbour, again and again."""
    at = start(knobs)
    best = score(at) or 0.0  # without a score of its own, any scored neighbour is better
    better = True
    while better:
        better = False
        moves = [(knob.name, value) for knob in knobs for value in knob.near(at[knob.name])]
        rng.shuffle(moves)
        for name, value in moves:
            neighbour_score = score({**at, name: value})
            if neighbour_score is not None and neighbour_score > best * (1 + LEAST_GAIN):
                at, best, better = {**at, name: value}, neighbour_score, True
                break


def each(settings: Sequence[Setting]) -> Strategy:
    """The side's own setting, then these."""

    def strategy(knobs: Sequence[Knob], score: Score, _: random.Random) -> None:
        for setting in (start(knobs), *settings):
            score({knob.name: setting[knob.name] for knob in knobs})

    return strategy


Strategy = Callable[[Sequence[Knob], Score, random.Random], None]
STRATEGIES: Mapping[str, Strategy] = {"greedy": climb, "random": sample}


STAGE = "tune"
LISTED = "listed"


@dataclass(frozen=True)
class Trial:
    """A setting and its verdict; `ratio`: how many times as fast as the side as it is, None if not timed."""

    setting: Setting
    outcome: Outcome
    detail: str
    us: float | None
    ratio: float | None

    @property
    def key(self) -> tuple[int, ...]:
        """The values of the setting."""
        return tuple(self.setting.values())


@dataclass(frozen=True)
class Tuned:
    """The trials in order, the best of them if one is confirmed as faster, and the pair written from it."""

    summary: Summary
    device: str
    timed: bool
    trials: tuple[Trial, ...]
    best: Trial | None = None
    pair: Path | None = None


class _NoTrialsLeftError(Exception):
    """No trials are left."""


def run(config: TuneConfig, *, note: Note = silent) -> Tuned:
    """Search; the counts are over settings.

    Raises:
        InputError: no such pair or constant, or nothing to vary. MissingDependencyError: no such GPU.
    """
    with recorded(STAGE, config.workspace, note=note) as record:
        workspace = Workspace(config.workspace)
        folder = names.one(config.pair, workspace, (names.PAIR,))
        candidate = store.read_candidate(folder)
        side: Side = getattr(candidate, config.side)
        if candidate.problem is None or side.language not in ("cuda", "triton"):
            what = "only sides in CUDA or Triton with a problem can be tuned"
            raise InputError(what, where=str(folder))
        settings = _listed(config, workspace, candidate, side)
        values = {name: [trial[name] for trial in settings] for name in (settings or [{}])[0]}
        knobs = find(side, values or config.values)
        if not knobs:
            raise InputError(f"the {config.side} side has no named constant", where=str(folder))
        place = choose(config.backend, config.gpu, note=record.note)
        record.begin(config)
        with contextlib.closing(judge.Judge(JudgeConfig(place.backend, place.gpus[0]))) as judging:
            book = Ledger(workspace, judging.environment())
            trials = _Trials(candidate, side, knobs, judging, book, config)
            trials.search(each(settings) if settings else STRATEGIES[config.strategy or "greedy"])
        trials_done = tuple(trials.done.values())
        for trial in trials_done:
            why = f"{trial.ratio:.3f}x" if trial.ratio is not None else trial.detail
            record.item("settings", spelled(trial.setting), trial.outcome, why, passed=trial.outcome.correct)
        counts = Counter[str](trial.outcome for trial in trials_done)
        summary = record.finish({"settings": ordered(counts, Outcome)})
        confirmed = [
            trial for trial in trials_done if trial.outcome is Outcome.CONFIRMED and trial.ratio is not None
        ]
        best = max(confirmed, key=lambda trial: trial.ratio or 0.0, default=None)
        device = book.environment.device
        pair = _write(workspace, candidate, config.side, trials.sides[best.key], device) if best else None
        return Tuned(summary, device, trials.timed, trials_done, best, pair)


def _listed(
    config: TuneConfig, workspace: Workspace, candidate: Candidate, side: Side
) -> list[dict[str, int]]:
    """The settings that the side's kernels list, as far as extract left their records in the workspace.

    None if others are asked for.

    Raises:
        InputError: these are asked for, and there are none.
    """
    if config.strategy not in (None, LISTED) or (config.values and not config.strategy):
        return []
    configurations: list[dict[str, int]] = []
    for name in candidate.origin.kernels if side.language == "triton" else ():
        path = workspace.kernels / name / "kernel.json"
        if store.exists(path):
            configurations += listed(side, store.read_json(path, Kernel).configurations)
    if config.strategy == LISTED and not configurations:
        what = "no kernel in the workspace lists configurations for this side"
        raise InputError(what, where=config.pair, hint="extract its tree, or choose --strategy greedy")
    return configurations


def spelled(setting: Setting) -> str:
    """A setting as text."""
    return " ".join(f"{name}={value}" for name, value in setting.items())


@dataclass(eq=False)
class _Trials:
    """The trials of one search, by the values of their settings."""

    candidate: Candidate
    side: Side
    knobs: Sequence[Knob]
    judging: judge.Judge
    book: Ledger
    config: TuneConfig
    done: dict[tuple[int, ...], Trial] = field(default_factory=dict)
    sides: dict[tuple[int, ...], Side] = field(default_factory=dict)
    _links: dict[str, Link] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._left = self.config.trials

    def search(self, strategy: Strategy) -> None:
        """Try settings until the strategy or the number of trials ends."""
        with (
            progress.bar(f"{STAGE} on {self.book.environment.device}", self._left, "trial") as self._bar,
            contextlib.suppress(_NoTrialsLeftError),
        ):
            strategy(self.knobs, self._score, random.Random(self.config.seed))

    def _score(self, setting: Setting) -> float | None:
        key = tuple(setting.values())
        if key not in self.done:
            self.done[key] = self._tried(setting)
        return self.done[key].ratio

    def _tried(self, setting: Setting) -> Trial:
        """The verdict at a setting, and on the way which link each changed constant has."""
        if setting == start(self.knobs):
            return Trial(setting, Outcome.CORRECT, "as it is", None, 1.0 if self.timed else None)
        sides: dict[str, tuple[dict[str, Link], Side]] = {}
        for links, side in self._ways(setting):
            sides.setdefault(repr(side), (links, side))
        for links, side in sides.values():
            verdict = self._judged(side)
            if verdict.outcome.correct:
                self._links, self.sides[tuple(setting.values())] = links, side
                break
        ratio = None
        if verdict.outcome.correct and verdict.fast and verdict.slow:
            ours, theirs = verdict.fast.median_us, verdict.slow.median_us
            ratio = theirs / ours if ours and theirs else None
        us = verdict.fast.median_us if verdict.fast else None
        return Trial(setting, verdict.outcome, verdict.detail, us, ratio)

    def _ways(self, setting: Setting) -> Iterator[tuple[dict[str, Link], Side]]:
        """The sides that a setting may mean, likelier ones first."""
        if self.side.language == "triton":
            yield from ((self._links, side) for side in relaunched(self.side, setting))
            return
        moved = [knob.name for knob in self.knobs if setting[knob.name] != knob.value]
        unknown = [name for name in moved if name not in self._links]
        for link in LINKS:
            links = {**self._links, **dict.fromkeys(unknown, link)}
            yield links, changed(self.side, self.knobs, setting, links)

    @property
    def timed(self) -> bool:
        """Whether this device times; the emulator does not."""
        return self.book.environment.backend != "emulator"

    def _judged(self, side: Side) -> Verdict:
        if not self._left:
            raise _NoTrialsLeftError
        self._left -= 1
        self._bar.update()
        problem = self.candidate.problem
        assert problem is not None
        trial = replace(
            self.candidate,
            id=f"{self.candidate.id}-trial",
            problem=replace(problem, sizes=Sizes(problem.sizes.test, problem.sizes.headline)),
            slow=self.side,
            fast=side,
        )
        key = verdict_key(trial)
        known = self.book.find(Path(self.config.pair), key)
        if known is None or not (known.outcome.correct or known.outcome.final):
            known = self.judging.judge(trial)
            self.book.add(known)
        return known


def _write(workspace: Workspace, candidate: Candidate, which: SideName, side: Side, device: str) -> Path:
    """The pair with the best side in the workspace, under a name of its own."""
    name = f"{candidate.id}-tuned-{store.verdict_path(Path(), device).stem}"
    variant = replace(candidate, id=name)
    variant = replace(variant, slow=side) if which == "slow" else replace(variant, fast=side)
    folder = workspace.pairs / name
    store.write_candidate(folder, variant)
    return folder
