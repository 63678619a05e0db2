"""Judges wrong versions of the built-in pairs' fast sides, for the dataset's config `repair`.

    python benchmarks/repairs.py [--backend emulator|cuda] [--each 4] [--seed 1] [--minutes 10] [--jobs 2]

Each pair's published fast side gets `--each` single mistakes (kcurate.mutate.broken). CUDA is compiled by
NVRTC first, so that a compile error is what users see; the rest goes to the judge. What the judge refuses is
appended to pairs/repairs.jsonl as a fact without code. One pair in eight also gets the given code back as an
answer, which is refused before judging. Run again, it goes on where it stopped, with the pairs
that have fewer facts than `--each`; facts whose change gives something else by now are dropped. Prints counts
by outcome and by change.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kcurate import prompts
from kcurate.backends.base import CompileFailure
from kcurate.core import resources, store
from kcurate.dataset import repairs
from kcurate.errors import ProblemError
from kcurate.judge import compile_side
from kcurate.judge.judging import JudgeConfig
from kcurate.judge.referees import batch
from kcurate.judge.referees.local import Referees
from kcurate.mutate.broken import ATTEMPTS
from kcurate.mutate.choosing import every, in_turns
from kcurate.problem import shown
from kcurate.problem.neutral import neutral
from kcurate.records import AttemptOutcome, Candidate, Environment, Outcome, Prompt, Verdict, WrongAttempt
from kcurate.reward.answers import Refusal, Refused, read
from kcurate.reward.task import Task

# What tells a writer that the answer is wrong; other outcomes say nothing of it, or that it is right.
WRONG = frozenset(
    (
        Outcome.MALFORMED, Outcome.STATIC_REJECT, Outcome.COMPILE_ERROR, Outcome.LAUNCH_ERROR,
        Outcome.TIMEOUT, Outcome.MISMATCH, Outcome.NONDETERMINISTIC,
    )
)  # fmt: skip
NVRTC = "NVRTC for sm_90"
DIED = "the worker process died"
# One pair in so many is answered with its own code.
GIVEN_BACK_EVERY = 8
# Trials between two looks at the clock.
CHUNK = 8


@dataclass(frozen=True)
class Trial:
    """A wrong version of a pair's fast side, and where it comes from."""

    pair: Candidate
    change: str
    place: int
    candidate: Candidate


def trials(pairs: Sequence[Candidate], each: int, seed: int) -> Iterator[Trial]:
    for number, pair in enumerate(pairs):
        for made in in_turns(pair.fast, ATTEMPTS, each, seed * 100_003 + number):
            sides = [one.side for one in every(pair.fast, ATTEMPTS, made.change)]
            place = sides.index(made.side)
            name = f"{pair.id}#{made.change}-{place}"
            origin = replace(pair.origin, kind="model", made="fast")
            yield Trial(pair, made.change, place, replace(pair, id=name, origin=origin, fast=sides[place]))


def fact(trial: Trial, verdict: Verdict, device: str) -> WrongAttempt:
    return WrongAttempt(
        pair=trial.pair.id,
        change=trial.change,
        place=trial.place,
        side=repairs.side_id(trial.candidate.fast),
        outcome=verdict.outcome.value,
        findings=prompts.feedback("fast", AttemptOutcome.JUDGED, verdict=verdict),
        device=device,
    )


def given_back(pairs: Iterable[Candidate]) -> Iterator[WrongAttempt]:
    """The facts of answers that are the given code."""
    for pair in pairs:
        if int(store.content_id(pair.id), 16) % GIVEN_BACK_EVERY or pair.slow.language != pair.fast.language:
            continue
        task = Task(pair.id, pair.family, Prompt("", "", ""), pair)
        found = read(task, prompts.write_answer(shown.answer_of(pair.slow, pair.slow)))
        if not isinstance(found, Refused) or found.outcome is not Refusal.COPIED:
            raise SystemExit(f"{pair.id}: its own code is no copy: {found}")
        unchanged = AttemptOutcome.UNCHANGED
        text = prompts.feedback("fast", unchanged, found.detail)
        place = repairs.side_id(pair.slow)
        yield WrongAttempt(pair.id, repairs.GIVEN_BACK, 0, place, unchanged.value, text, "before judging")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--backend", default="emulator", choices=["emulator", "cuda"])
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    until = time.perf_counter() + 60 * options.minutes
    folders = store.find_candidates(resources.pairs_dir())
    pairs = {pair.id: pair for pair in (neutral(store.read_candidate(folder)) for folder in folders)}
    path = repairs.facts()
    known = [
        one
        for one in store.read_jsonl(path, WrongAttempt)
        if one.pair in pairs and repairs.remade(pairs[one.pair], one) is not None
    ]
    done = {(one.pair, one.change, one.place) for one in known}
    facts = Counter(one.pair for one in known)
    lacking = [name for name in pairs if facts[name] < options.each]
    random.Random(options.seed).shuffle(lacking)
    lacking.sort(key=lambda name: facts[name])
    todo = [
        one
        for one in trials([pairs[name] for name in lacking], options.each, options.seed)
        if (one.pair.id, one.change, one.place) not in done
    ]
    known += judged(todo, options, until)
    done = {(one.pair, one.change, one.place) for one in known}
    known += [one for one in given_back(pairs.values()) if (one.pair, one.change, one.place) not in done]
    known.sort(key=lambda one: (one.pair, one.change, one.place))
    path.unlink(missing_ok=True)
    for one in known:
        store.append_jsonl(path, one)
    for what in ("outcome", "change", "device"):
        print(what, dict(Counter(str(getattr(one, what)) for one in known).most_common()))
    print(f"{len(known)} facts in {path}")


def judged(todo: Sequence[Trial], options: argparse.Namespace, until: float) -> list[WrongAttempt]:
    """The facts of what is refused, as time allows."""
    found: list[WrongAttempt] = []
    seen: Counter[str] = Counter()
    config = JudgeConfig(options.backend, timed=False, calibrate=False)
    with contextlib.closing(Referees(config, gpus=(0,), jobs=options.jobs)) as referees:
        for start in range(0, len(todo), CHUNK):
            if time.perf_counter() > until:
                print(f"out of time after {start} of {len(todo)}")
                break
            rest = []
            for trial in todo[start : start + CHUNK]:
                refused = refused_by_nvrtc(trial)
                if refused is None:
                    rest.append(trial)
                else:
                    seen[str(Outcome.COMPILE_ERROR)] += 1
                    found.append(refused)
            numbered = [(i, one.candidate) for i, one in enumerate(rest)]
            for index, verdict in batch.judge_many(numbered, config, referees=referees):
                seen[str(verdict.outcome)] += 1
                died = verdict.detail.endswith(DIED)  # which says nothing of the code
                if verdict.outcome in WRONG and verdict.side != "slow" and not died:
                    device = verdict.environment.device if options.backend == "cuda" else "emulator"
                    found.append(fact(rest[index], verdict, device))
    print("judged", dict(seen))
    return found


def refused_by_nvrtc(trial: Trial) -> WrongAttempt | None:
    """The fact of a wrong version in CUDA that does not compile."""
    if trial.candidate.fast.language != "cuda":
        return None
    from kcurate.backends.cuda.compiler import CudaCompiler

    try:
        made = compile_side(trial.candidate, "fast", CudaCompiler())
    except ProblemError:  # the judge says it better
        return None
    if not isinstance(made, CompileFailure) or made.reason != "error":
        return None
    detail = "the compiler rejected the code"
    environment = Environment("cuda", NVRTC)
    verdict = Verdict(trial.candidate.id, "", Outcome.COMPILE_ERROR, environment, detail, "fast", made.log)
    return fact(trial, verdict, NVRTC)


if __name__ == "__main__":
    main()
