"""Does the judge refuse mistakes, and nothing else? Mutants and honest variants of the built-in pairs.

    python benchmarks/mutation.py --backend emulator|cuda --out FILE.json [--mutants 8] [--bench-alone 2]
        [--honest 3] [PAIR...]

Each pair's fast side gets `--mutants` single mistakes, `--honest` honest changes and, on a GPU,
`--bench-alone` mistakes that act at the bench size alone; the slow side is the reference. A mutant that does
not compile is set apart, and so is one with the same machine code as the original (compiled by NVRTC, which
needs no GPU). On a GPU, what survives the test sizes is judged in full, with sanitizers where they are
installed. What then survives is run beside the original at `--stress` other sizes, drawn at random: `escaped`
if one shows a difference, `no_difference` if none does (many mistakes change only the way: a fast path that
is not taken, a bound that nothing reaches). A mistake at the bench size is run there without its switch, on
the timed inputs; any bit that differs shows. Refused share: of refused and escaped together. Prints counts
by operator, and every survivor. Run again, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harmless_changes import CHANGES, in_turns
from switched_mistakes import at_bench_alone

from kcurate.backends.base import Compiled
from kcurate.core import resources, store
from kcurate.judge import compile_side
from kcurate.judge.case import Ruling
from kcurate.judge.checks import binary
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.judge.referees import batch
from kcurate.mutate.wrong import OPERATORS
from kcurate.records import Candidate, Outcome, Problem, Side, Sizes, Verdict

SET_APART = (Outcome.COMPILE_ERROR, Outcome.HARNESS_ERROR)


@dataclass(frozen=True)
class Trial:
    """One changed candidate: `kind` is wrong, honest or bench (wrong at the bench size alone).

    `change` is the operator's name. `everywhere`: the mistake without a switch.
    """

    kind: str
    change: str
    what: str
    candidate: Candidate
    original: Candidate
    everywhere: Side | None = None


def trials(pairs: Sequence[Candidate], wrong: int, honest: int, bench: int, seed: int) -> Iterator[Trial]:
    for number, pair in enumerate(pairs):
        assert pair.problem is not None
        for i, mutant in enumerate(in_turns(pair.fast, OPERATORS, bench, seed + 7919 + number)):
            switched = at_bench_alone(pair.fast, mutant.side, pair.problem)
            if switched is not None:
                one = replace(pair, id=f"{pair.id}#bench-{i}", fast=switched)
                yield Trial("bench", mutant.change, mutant.label, one, pair, mutant.side)
        for i, mutant in enumerate(in_turns(pair.fast, OPERATORS, wrong, seed + number)):
            one = replace(pair, id=f"{pair.id}#wrong-{i}", fast=mutant.side)
            yield Trial("wrong", mutant.change, mutant.label, one, pair)
        for i, variant in enumerate(in_turns(pair.fast, CHANGES, honest, seed + number)):
            one = replace(pair, id=f"{pair.id}#honest-{i}", fast=variant.side)
            yield Trial("honest", variant.change, variant.label, one, pair)


def judged(
    given: Sequence[Trial], config: JudgeConfig, jobs: int, until_s: float
) -> list[tuple[Trial, Verdict]]:
    found = []
    for index, verdict in batch.judge_many(
        [(i, trial.candidate) for i, trial in enumerate(given)], config, gpus=(config.gpu,), jobs=jobs
    ):
        found.append((given[index], verdict))
        if len(found) % 50 == 0:
            print(f"{len(found)} of {len(given)}", Counter(str(v.outcome) for _, v in found), flush=True)
        if time.perf_counter() > until_s:
            print(f"out of time after {len(found)} of {len(given)}", flush=True)
            break
    return found


def equivalent(trial: Trial) -> bool:
    """Whether original and mutant are the same to the machine."""
    from kcurate.backends.cuda.compiler import CudaCompiler

    both = replace(trial.candidate, slow=trial.original.fast, fast=trial.everywhere or trial.candidate.fast)
    compiled = {}
    for side in ("slow", "fast"):
        made = compile_side(both, side, CudaCompiler())
        if not isinstance(made, Compiled):
            return False
        compiled[side] = made
    return binary.same(both, compiled)


def row(trial: Trial, verdict: Verdict) -> dict[str, Any]:
    return {
        "candidate": trial.candidate.id,
        "kind": trial.kind,
        "change": trial.change,
        "what": trial.what,
        "outcome": str(verdict.outcome),
        "side": verdict.side,
        "detail": verdict.detail,
        "wall_s": verdict.wall_s,
    }


def report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by operator; the shares that the project promises."""
    table: dict[str, Counter[str]] = {}
    for one in rows:
        table.setdefault(f"{one['kind']} {one['change']}", Counter())[one["class"]] += 1
    for name, counts in sorted(table.items()):
        print(f"{name:32s}", dict(counts))
    found: dict[str, Any] = {
        "operators": len({one["change"] for one in rows if one["kind"] == "wrong"}),
        "by_change": table,
    }
    for kind in ("wrong", "bench", "honest"):
        counts = found[kind] = Counter(one["class"] for one in rows if one["kind"] == kind)
        told = counts["refused"] + counts["escaped"] + counts["survived"]
        found[f"refused_share_{kind}"] = counts["refused"] / told if told else None
        print(kind, dict(counts), "refused share", found[f"refused_share_{kind}"])
    return found


def classify(given: list[tuple[Trial, Verdict]]) -> list[dict[str, Any]]:
    rows = []
    for trial, verdict in given:
        one = row(trial, verdict)
        if verdict.outcome in SET_APART:
            one["class"] = str(verdict.outcome)
        elif not verdict.outcome.correct:
            one["class"] = "refused"
        elif trial.kind == "honest":
            one["class"] = "passed"
        else:
            one["class"] = "equivalent" if equivalent(trial) else "survived"
        if one["class"] == "refused" and trial.kind == "honest":
            one["code"] = trial.candidate.fast.code
            print("honest refused:", one["candidate"], one["change"], one["what"], one["detail"], flush=True)
        rows.append(one)
    return rows


def other_sizes(problem: Problem, count: int, rng: random.Random) -> tuple[Mapping[str, int], ...]:
    """Sizes near the tests', and between them."""
    found: list[Mapping[str, int]] = []
    for _ in range(count):
        near = rng.choice(problem.sizes.test)
        one = {}
        for name, value in near.items():
            top = 2 * max(sizes[name] for sizes in problem.sizes.test)
            far = rng.randint(1, top) if top <= 64 else round(math.exp(rng.uniform(0.0, math.log(top))))
            one[name] = rng.choice((value, max(1, value + rng.randint(-8, 8)), far, 4 * -(-far // 4)))
        found.append(one)
    return tuple(found)


def stressed(
    rows: list[dict[str, Any]],
    given: Sequence[Trial],
    options: argparse.Namespace,
    jobs: int,
    until_s: float,
) -> None:
    """Tell survivors that some valid input gives away from those on which none does, as time allows."""
    trials_by_id = {trial.candidate.id: trial for trial in given}
    rng = random.Random(options.seed)
    todo: list[Candidate] = []
    for one in rows:
        trial = trials_by_id[one["candidate"]]
        if one["class"] == "survived" and trial.everywhere is None:
            assert trial.original.problem is not None
            chosen = other_sizes(trial.original.problem, options.stress, rng)
            for i, sizes in enumerate(chosen):
                problem = replace(trial.original.problem, sizes=Sizes((sizes,), sizes))
                for kind, fast in (("same", trial.original.fast), ("wrong", trial.candidate.fast)):
                    todo.append(
                        replace(
                            trial.candidate, id=f"{one['candidate']}@{i}@{kind}", problem=problem, fast=fast
                        )
                    )
    config = JudgeConfig(options.backend, timed=False, calibrate=False)
    todo.sort(key=lambda one: int(one.id.split("@")[1]))
    outcomes: dict[str, Outcome] = {}
    for index, verdict in batch.judge_many(list(enumerate(todo)), config, gpus=(0,), jobs=jobs):
        outcomes[todo[index].id] = verdict.outcome
        if time.perf_counter() > until_s:
            print(f"out of time after {len(outcomes)} of {len(todo)} runs at other sizes", flush=True)
            break
    for one in rows:
        trial = trials_by_id[one["candidate"]]
        if one["class"] == "survived" and trial.everywhere is None:
            classify_survivor(one, trial, outcomes, options.stress)
    if options.backend == "cuda":
        left = [one for one in rows if one["class"] == "survived" and one["kind"] == "bench"]
        stressed_at_bench(left, trials_by_id, until_s)


def stressed_at_bench(rows: list[dict[str, Any]], trials_by_id: Mapping[str, Trial], until_s: float) -> None:
    with contextlib.closing(Judge(JudgeConfig("cuda", calibrate=False))) as judge:
        for one in rows:
            if time.perf_counter() > until_s:
                print("out of time at the bench size", flush=True)
                return
            trial = trials_by_id[one["candidate"]]
            one["code"] = trial.candidate.fast.code
            one["class"] = "no_difference" if same_bits_at_bench(judge, trial) else "escaped"
            print(one["class"], one["candidate"], one["change"], "|", one["what"], flush=True)


def same_bits_at_bench(judge: Judge, trial: Trial) -> bool:
    """Whether original and mutant give the same outputs at the bench size."""
    assert trial.everywhere is not None
    both = replace(trial.original, id=trial.candidate.id, slow=trial.original.fast, fast=trial.everywhere)
    try:
        with judge.pair_timer(both, seed=11) as timer:
            return timer.job.sums["slow"] == timer.job.sums["fast"]
    except Ruling:
        return False


def classify_survivor(one: dict[str, Any], trial: Trial, outcomes: Mapping[str, Outcome], count: int) -> None:
    """A size counts when the original is right at it."""
    names = [f"{one['candidate']}@{i}" for i in range(count)]
    ran = [name for name in names if {f"{name}@same", f"{name}@wrong"} <= set(outcomes)]
    valid = [name for name in ran if outcomes[f"{name}@same"].correct]
    told = [name for name in valid if not outcomes[f"{name}@wrong"].correct]
    one["stress"] = {"valid": len(valid), "differs": len(told)}
    one["class"] = "escaped" if told else "no_difference" if valid else "survived"
    one["code"] = trial.candidate.fast.code
    print(one["class"], one["candidate"], one["change"], "|", one["what"], one["stress"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs", nargs="*", type=Path)
    parser.add_argument("--backend", choices=("emulator", "cuda"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--mutants", type=int, default=8)
    parser.add_argument("--honest", type=int, default=3)
    parser.add_argument("--bench-alone", type=int, default=2)
    parser.add_argument("--stress", type=int, default=12, help="other sizes that survivors are run at")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--budget-s", type=float, default=480.0)
    options = parser.parse_args()
    started = time.perf_counter()
    roots = options.pairs or [resources.pairs_dir()]
    pairs = [store.read_candidate(folder) for root in roots for folder in store.find_candidates(root)]
    bench = options.bench_alone if options.backend == "cuda" else 0
    earlier = json.loads(options.out.read_text()) if options.out.exists() else {"rows": [], "devices": []}
    known = {row["candidate"] for row in earlier["rows"]}
    every = list(trials(pairs, options.mutants, options.honest, bench, options.seed))
    given = [trial for trial in every if trial.candidate.id not in known]
    print(len(pairs), "pairs,", Counter(trial.kind for trial in given), flush=True)
    jobs = options.jobs or batch.default_jobs(options.backend, 1)
    config = JudgeConfig(options.backend, timed=False, calibrate=False)
    until_s = started + 0.35 * options.budget_s
    done = judged([trial for trial in given if trial.kind != "bench"], config, jobs, until_s)
    if options.backend == "cuda":
        until_s = started + 0.6 * options.budget_s
        done += judged(
            [trial for trial in given if trial.kind == "bench"], replace(config, timed=True), jobs, until_s
        )
        done = again_at_bench(
            done, replace(config, timed=True, sanitize=True), jobs, started + 0.75 * options.budget_s
        )
    rows = earlier["rows"] + classify(done)
    devices = earlier["devices"] + [asdict(verdict.environment) for _, verdict in done[:1]]
    options.out.write_text(json.dumps({"rows": rows, "devices": devices}))
    stressed(rows, every, options, jobs, started + options.budget_s)
    data = {
        "backend": options.backend,
        "devices": devices,
        "options": {name: str(value) for name, value in vars(options).items()},
        "pairs": len(pairs),
        "wall_s": time.perf_counter() - started,
        "summary": report(rows),
        "rows": rows,
    }
    options.out.write_text(json.dumps(data))
    print(f"took {data['wall_s']:.0f} s", flush=True)


def again_at_bench(
    done: list[tuple[Trial, Verdict]], config: JudgeConfig, jobs: int, until_s: float
) -> list[tuple[Trial, Verdict]]:
    """Mutants that the test sizes let through, judged in full."""
    left = [trial for trial, verdict in done if trial.kind == "wrong" and verdict.outcome.correct]
    print(len(left), "go on to the bench size", flush=True)
    again = {trial.candidate.id: verdict for trial, verdict in judged(left, config, jobs, until_s)}
    return [(trial, again.get(trial.candidate.id, verdict)) for trial, verdict in done]


if __name__ == "__main__":
    main()
