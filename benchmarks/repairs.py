"""Judges wrong versions of the built-in pairs' fast sides, for the dataset's config `repair`.

    python benchmarks/repairs.py [--backend emulator|cuda] [--each 4] [--seed 1] [--minutes 10] [--jobs 2]
    python benchmarks/repairs.py --model NAME --device "NVIDIA H200" [--dataset DIR] COMPLETIONS.parquet ...

Each pair's published fast side gets `--each` single mistakes (kcurate.mutate.broken). CUDA is compiled by
NVRTC first, so that a compile error is what users see; the rest goes to the judge. What the judge refuses is
appended to pairs/repairs.jsonl as a fact without code. One pair in eight also gets the given code back as an
answer, which is refused before judging. Run again, it goes on where it stopped, with the pairs
that have fewer facts than `--each`; facts whose change gives something else by now are dropped. Prints counts
by outcome and by change.

With COMPLETIONS, judged ones of `kcurate eval` or `experiment.py`, nothing is judged: what the model NAME
wrote and the judge refused is added with its text, at most `--each` answers to a task, those first that ran.
Tasks are those of DIR, a dataset, or the built-in pairs. NVRTC says again why CUDA does not compile. Left out
are the given code, and replies without code, with many mistakes at once, or caught in a loop.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harmless_changes import in_turns
from kcurate import prompts
from kcurate.backends.base import CompileFailure
from kcurate.core import resources, store
from kcurate.dataset import repairs
from kcurate.errors import ProblemError
from kcurate.evaluation import completions
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.judging import answer_of
from kcurate.judge import compile_side
from kcurate.judge.judging import JudgeConfig
from kcurate.judge.referees import batch
from kcurate.judge.referees.local import Referees
from kcurate.mutate.broken import ATTEMPTS
from kcurate.mutate.choosing import results_of_change
from kcurate.problem import shown
from kcurate.problem.neutral import neutral
from kcurate.records import AttemptOutcome, Candidate, Environment, Outcome, Prompt, Verdict, WrongAttempt
from kcurate.reward import pair_tasks
from kcurate.reward.answers import Readable, Refusal, Refused, read
from kcurate.reward.task import Task, given_hash

# What tells a writer that the answer is wrong; other outcomes say nothing of it, or that it is right.
WRONG = frozenset(
    (
        Outcome.MALFORMED, Outcome.STATIC_REJECT, Outcome.COMPILE_ERROR, Outcome.LAUNCH_ERROR,
        Outcome.TIMEOUT, Outcome.MISMATCH, Outcome.NONDETERMINISTIC,
    )
)  # fmt: skip
# An empty statement tells where one was taken out, so that nobody has to find the mistake.
LEFT_OVER = re.compile(r"\n[ \t]*;\n")
# Of a model's answers, in the order in which they are taken: what ran tells most.
OF_MODELS = (
    Outcome.MISMATCH, Outcome.NONDETERMINISTIC, Outcome.LAUNCH_ERROR, Outcome.TIMEOUT, Outcome.COMPILE_ERROR,
    Outcome.STATIC_REJECT, Outcome.MALFORMED,
)  # fmt: skip
# A reply with more mistakes that a compiler or a check of the text lists is no attempt to learn from.
MOST_MISTAKES = 4
_LISTED = re.compile(r": error: | and (\d+) more\)")
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
            if LEFT_OVER.search(made.side.code):
                continue
            sides = [one.side for one in results_of_change(pair.fast, ATTEMPTS, made.change)]
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


def of_model(
    rows: Iterable[Completion], tasks: Mapping[str, Task], model: str, device: str, each: int
) -> Iterator[WrongAttempt]:
    """The facts of a model's judged completions, sorted by task."""
    wrong: dict[str, list[tuple[Completion, Candidate]]] = defaultdict(list)
    for row in rows:
        task = tasks.get(row.task)
        if task is not None and row.outcome in OF_MODELS and row.given == given_hash(task):
            answer = read(task, answer_of(row))
            if isinstance(answer, Readable) and not answer.copied and not loops(answer.candidate.fast.code):
                wrong[row.task].append((row, answer.candidate))
    for name, completions_of in sorted(wrong.items()):
        sides: list[str] = []
        completions_of.sort(
            key=lambda entry: (OF_MODELS.index(Outcome(entry[0].outcome or "")), entry[0].reply)
        )
        for row, candidate in completions_of:
            side = repairs.answer_id(candidate, candidate.fast)
            told = findings(row, candidate, device)
            if side not in sides and len(sides) < each and told is not None:
                text = shown.answer_of(candidate.fast, candidate.slow)
                answer = prompts.write_answer(text, candidate.fast.language)
                place, change = len(sides), f"{repairs.MODEL}{model}"
                sides.append(side)
                yield WrongAttempt(name, change, place, side, row.outcome, *told, answer)  # type: ignore[arg-type]


def loops(code: str) -> bool:
    """Whether a text says mostly the same lines again, as a model does that cannot end."""
    lines = [line for line in map(str.strip, code.splitlines()) if len(line) > 1]
    return 2 * len(set(lines)) < len(lines)


def findings(row: Completion, candidate: Candidate, device: str) -> tuple[str, str] | None:
    """What a model is told of a completion, and where it was found; None if that is of no use."""
    outcome = Outcome(row.outcome or "")
    if outcome is Outcome.COMPILE_ERROR:
        refused = refused_by_nvrtc(Trial(candidate, "", 0, candidate))
        if refused is None:
            return None
        text, device = refused.findings, NVRTC
    else:
        verdict = Verdict(candidate.id, "", outcome, Environment("cuda", device), row.detail or "", "fast")
        text = prompts.feedback("fast", AttemptOutcome.JUDGED, verdict=verdict)
    mistakes = sum(int(match[1] or 1) for match in _LISTED.finditer(text))
    return (text, device) if mistakes <= MOST_MISTAKES else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--backend", default="emulator", choices=["emulator", "cuda"])
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("completions", nargs="*", type=Path, metavar="COMPLETIONS")
    parser.add_argument("--model", help="who gave the completions")
    parser.add_argument("--device", help="where they were judged")
    parser.add_argument("--dataset", default=pair_tasks.BUILT_IN, help="which their tasks are of")
    options = parser.parse_args()
    path = repairs.facts()
    if options.completions:
        if not (options.model and options.device):
            parser.error("COMPLETIONS need --model and --device")
        tasks = {task.id: task for task in pair_tasks.load(options.dataset)}
        rows = [row for file in options.completions for row in completions.read(file, hint="kcurate eval")]
        known = list(of_model(rows, tasks, options.model, options.device, options.each))
        change = f"{repairs.MODEL}{options.model}"
        known += [one for one in store.read_jsonl(path, WrongAttempt) if one.change != change]
    else:
        known = of_changes(options, path)
    known.sort(key=lambda one: (one.pair, one.change, one.place))
    path.unlink(missing_ok=True)
    for one in known:
        store.append_jsonl(path, one)
    for what in ("outcome", "change", "device"):
        print(what, dict(Counter(str(getattr(one, what)) for one in known).most_common()))
    print(f"{len(known)} facts in {path}")


def of_changes(options: argparse.Namespace, path: Path) -> list[WrongAttempt]:
    """What is on file and still holds, and what is judged now."""
    until = time.perf_counter() + 60 * options.minutes
    folders = store.find_candidates(resources.pairs_dir())
    pairs = {pair.id: pair for pair in (neutral(store.read_candidate(folder)) for folder in folders)}
    known = [
        one
        for one in store.read_jsonl(path, WrongAttempt)
        if (repairs.reapplied(pairs[one.pair], one) is not None if one.pair in pairs else one.answer)
    ]
    done = {(one.pair, one.change, one.place) for one in known}
    facts = Counter(one.pair for one in known if not one.answer)
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
    unchanged = given_back(pairs.values())
    return known + [one for one in unchanged if (one.pair, one.change, one.place) not in done]


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
