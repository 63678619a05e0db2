"""What the rewrite rules of `kcurate deopt` come to: on every built-in fast side, on source trees, on a GPU.

    python benchmarks/deopt_rules.py [TREE ...] [--no-pairs] [--no-judge] [--only TEXT]
    python benchmarks/deopt_rules.py --gpu 0[,1] --out DIR --minutes 5 [--labels | --pairs DIR]
    python benchmarks/deopt_rules.py --facts captured.jsonl --out DIR --pairs DIR

The first prints a table rule x outcome over the fast sides of `pairs/**` (compiled for sm_90 with NVRTC,
compared as machine code, verified on the emulator), and one of applications over the kernels that extract
finds in each TREE; there a rule sees the plan only where `sources/` knows the kernel's problem, and what it
makes is compiled, not run. The second judges every candidate on a GPU with times, rule by rule in turns until
all are done or the minutes are over, and writes `verdicts.jsonl`, `summary.json` and `speedups.svg`. Run
again, it goes on where it stopped. Candidates are one a rule and pair, and `all`: every rule that still
applies after those before it; with `--labels` only those whose rule takes away a technique that the pair
names. With `--pairs` they are all by rules below that folder, such as those that `kcurate deopt` made from
records of running programs: those with one size only are left out, and of each rule they come in an order
drawn by a seed.
`--facts` appends what the verdicts say of these, without code, and prints a table.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from deopt_rules_plot import plot

from kcurate.backends.base import Compiled, CompileFailure
from kcurate.backends.choice import gpu_numbers
from kcurate.backends.cuda.compiler import CudaCompiler
from kcurate.core import resources, store
from kcurate.core.workspace import Workspace
from kcurate.deopt.rules import RULES, NotApplicable
from kcurate.deopt.starts import starts
from kcurate.errors import InputError
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.judge import compile_side
from kcurate.judge.checks import binary
from kcurate.judge.checks.static import check_source
from kcurate.judge.judging import JudgeConfig
from kcurate.judge.referees.batch import default_jobs, judge_many
from kcurate.records import SIDES, Candidate, Origin, Outcome, Side, Verdict
from kcurate.records.pair import SideName
from kcurate.verdicts.keys import verdict_key

Table = dict[str, Counter[str]]
Case = tuple[str, Candidate]
CHUNK = 48


def fast_sides(only: str) -> Iterator[Candidate]:
    """The built-in pairs whose id holds a text."""
    for folder in sorted(store.find_candidates(resources.pairs_dir())):
        try:
            pair = store.read_candidate(folder)
        except InputError:  # moved while we look
            continue
        if only in pair.id and pair.problem is not None:
            yield pair


def made(pair: Candidate, table: Table) -> Iterator[Case]:
    """What every rule makes of a pair's fast side, then what all make together."""
    together = pair.fast
    applied: list[str] = []
    for rule in RULES:
        slow = rule.apply(pair.fast, pair.problem)
        if isinstance(slow, NotApplicable):
            table[rule.name]["not_applicable"] += 1
            continue
        yield rule.name, _candidate(pair, slow, rule.name, (rule.name,))
        further = rule.apply(together, pair.problem) if rule.ladder else None
        if isinstance(further, Side):
            together = further
            applied.append(rule.name)
    if len(applied) > 1:
        yield "all", _candidate(pair, together, "all", tuple(applied))


def _candidate(pair: Candidate, slow: Side, label: str, rules: tuple[str, ...]) -> Candidate:
    origin = Origin("rule", made="slow", rules=rules, parent=pair.id)
    return replace(pair, id=f"{pair.id}/deopt-{label}", slow=slow, origin=origin)


def by_rules(root: Path, seed: int = 1) -> list[Case]:
    """What deopt's rules made, in the workspaces below a folder."""
    cases = []
    for folder in store.find_candidates(root):
        pair = store.read_candidate(folder)
        by_rule = pair.origin.kind == "rule"
        if by_rule and pair.problem is not None and not pair.problem.single_size:
            cases.append((pair.id.rsplit("/deopt-", 1)[-1], pair))
    random.Random(seed).shuffle(cases)
    return cases


def facts(root: Path, verdicts: Path, out: Path) -> None:
    """One row a verdict of a captured candidate, those written earlier left out; a table of all rows."""
    known = {pair.id: (rule, pair) for rule, pair in by_rules(root)}
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    seen = {row["candidate"] for row in rows}
    for verdict in store.read_jsonl(verdicts, Verdict):
        if verdict.candidate not in known or verdict.candidate in seen:
            continue
        rule, pair = known[verdict.candidate]
        speedup = verdict.speedup
        seen.add(verdict.candidate)
        row = {
            "candidate": verdict.candidate,
            "program": program(verdict.candidate),
            "kernel": pair.origin.kernels[0].rsplit("/", 1)[-1],
            "rule": rule,
            "outcome": verdict.outcome.value,
            "speedup": speedup and round(speedup.ratio, 3),
            "interval": speedup and [round(speedup.low, 3), round(speedup.high, 3)],
            "device": verdict.environment.device,
            "driver": verdict.environment.driver,
        }
        rows.append(row)
        store.append_line(out, json.dumps(row))
    table: Table = defaultdict(Counter)
    for row in rows:
        for name in (row["rule"], "sum"):
            table[name][row["outcome"]] += 1
            table[name]["1.5x or more"] += row["outcome"] == "confirmed" and row["speedup"] >= 1.5
    show(f"{len(rows)} candidates", table)


def program(candidate: str) -> str:
    """The program whose run was recorded: a folder of captured programs, or of the suite that HeCBench is."""
    first, second, *_ = candidate.split("/")
    return f"{second}-cuda" if first == "hecbench" else first


def before_judging(candidate: Candidate) -> str | None:
    """The outcome of a candidate that need not be judged: refused, not compiled, or the same machine code."""
    if check_source(candidate.slow):
        return "static_reject"
    compiled: dict[SideName, Compiled] = {}
    for side in SIDES:
        answer = compile_side(candidate, side, CudaCompiler())
        if isinstance(answer, CompileFailure):
            return "compile_error"
        compiled[side] = answer
    return "same_machine_code" if binary.same(candidate, compiled) else None


def on_emulator(only: str, rules: frozenset[str], *, judged: bool, jobs: int, minutes: float) -> Table:
    """Outcomes by rule over the built-in pairs; what is not reached in time is counted as such."""
    table: Table = defaultdict(Counter)
    started = time.monotonic()
    waiting: list[Case] = []
    for pair in fast_sides(only):
        for name, candidate in made(pair, table):
            if rules and name not in rules:
                continue
            if time.monotonic() - started > 60 * minutes:
                table[name]["not_reached"] += 1
                continue
            outcome = before_judging(candidate)
            if outcome is None and judged:
                waiting.append((name, candidate))
            else:
                table[name][outcome or "differs"] += 1
        if len(waiting) >= CHUNK:
            _judge(waiting, table, jobs)
            waiting = []
    _judge(waiting, table, jobs)
    return table


def _judge(waiting: list[Case], table: Table, jobs: int) -> None:
    """Verify on the emulator; what is not correct is also told on stderr."""
    config = JudgeConfig(backend="emulator", timed=False, calibrate=False)
    numbered = [(i, candidate) for i, (_, candidate) in enumerate(waiting)]
    for i, verdict in judge_many(numbered, config, gpus=(0,), jobs=jobs) if numbered else ():
        table[waiting[i][0]][verdict.outcome.value] += 1
        if verdict.outcome != Outcome.CORRECT:
            print(f"{verdict.candidate}: {verdict.outcome}: {verdict.detail}", file=sys.stderr)


def on_tree(tree: Path, jobs: int) -> tuple[Table, Counter[str]]:
    """Applications by rule over the kernels that extract finds in a tree."""
    table: Table = defaultdict(Counter)
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        extract(ExtractConfig((tree,), Path(folder), jobs=jobs, compile=False))
        for start in starts((), Workspace(Path(folder))):
            seen["kernels"] += 1
            seen["with a plan"] += bool(start.given.plan)
            compiles = _compiles(start.given.code)
            seen["compile"] += compiles
            for rule in RULES:
                slow = rule.apply(start.given, start.problem)
                if isinstance(slow, NotApplicable):
                    table[rule.name]["not_applicable"] += 1
                else:
                    table[rule.name]["applied"] += 1
                    table[rule.name]["compiles"] += compiles and _compiles(slow.code)
                    table[rule.name]["breaks"] += compiles and not _compiles(slow.code)
    return table, seen


def _compiles(code: str) -> bool:
    """Whether NVRTC takes the code (templates that nothing instantiates count as read)."""
    return not isinstance(CudaCompiler().compile(code, ()), CompileFailure)


def in_turns(cases: Iterable[Case]) -> list[Case]:
    """One of every rule, then the next of every rule: what is done first is as good a sample as any."""
    by_rule: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_rule[case[0]].append(case)
    most = max(map(len, by_rule.values()), default=0)
    return [same[i] for i in range(most) for same in by_rule.values() if i < len(same)]


def on_gpu(
    gpus: tuple[int, ...],
    out: Path,
    only: str,
    rules: frozenset[str],
    minutes: float,
    jobs: int,
    pairs: Path | None = None,
    labels: bool = False,
) -> Table:
    """Judge with times; verdicts as they come, then the summary and a plot."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "verdicts.jsonl"
    earlier = {one.key: one for one in store.read_jsonl(file, Verdict)} if file.exists() else {}
    table: Table = defaultdict(Counter)
    built_in = (case for pair in fast_sides(only) for case in made(pair, table))
    found: Iterable[Case] = by_rules(pairs) if pairs else built_in
    found = filter(labelled, found) if labels else found
    cases = in_turns(case for case in found if not rules or case[0] in rules)
    speedups: dict[str, list[float]] = defaultdict(list)
    left = Counter(name for name, _ in cases)
    started = time.monotonic()
    devices: set[str] = set()

    def add(name: str, verdict: Verdict) -> None:
        table[name][verdict.outcome.value] += 1
        left[name] -= 1
        devices.add(verdict.environment.device)
        if verdict.speedup is not None:
            speedups[name].append(verdict.speedup.ratio)

    numbered = []
    for i, (name, candidate) in enumerate(cases):
        known = earlier.get(verdict_key(candidate))
        if known is None:
            numbered.append((i, candidate))
        else:
            add(name, known)
    # What rules make of built-in pairs is ours to the letter; records of running programs are not.
    vouched = frozenset(verdict_key(candidate) for _, candidate in numbered if pairs is None)
    config = JudgeConfig(backend="cuda", gpu=gpus[0], vouched=vouched)
    verdicts = judge_many(numbered, config, gpus=gpus, jobs=jobs or default_jobs("cuda", len(gpus)))
    for judged, (i, verdict) in enumerate(verdicts, 1):
        name, candidate = cases[i]
        store.append_jsonl(file, verdict)
        add(name, verdict)
        if verdict.outcome == Outcome.CONFIRMED:
            store.write_candidate(out / "pairs" / candidate.id, candidate)
        if judged % CHUNK == 0:
            print(f"{judged} of {len(numbered)} after {time.monotonic() - started:.0f} s", file=sys.stderr)
        if time.monotonic() - started > 60 * minutes:
            break
    if isinstance(verdicts, Generator):
        verdicts.close()  # ends the judging processes
    for name, count in left.items():
        if count:
            table[name]["not_judged"] += count
    summary = {
        "devices": sorted(devices),
        "wall_s": round(time.monotonic() - started, 1),
        "outcomes": {name: dict(counts) for name, counts in table.items()},
        "speedups": {name: sorted(speedups[name]) for name in in_order(speedups)},
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    (out / "speedups.svg").write_text(plot({name: speedups[name] for name in in_order(speedups)}))
    return table


def labelled(case: Case) -> bool:
    """Whether the rule takes away a technique that the pair names."""
    name, candidate = case
    return any(rule.name == name and rule.technique in candidate.techniques for rule in RULES)


def in_order(names: Iterable[str]) -> list[str]:
    """The rules in their order, then rungs of ladders, then the last rung, then the sum."""
    known = set(names)
    rungs = sorted(name for name in known if name.startswith("rung"))
    return [name for name in (*(rule.name for rule in RULES), *rungs, "all", "sum") if name in known]


def show(title: str, table: Mapping[str, Counter[str]]) -> None:
    """Print a table rule x outcome in Markdown."""
    outcomes = list(dict.fromkeys(outcome for counts in table.values() for outcome in sorted(counts)))
    print(f"\n{title}\n\n| rule | {' | '.join(outcomes)} |\n|---|{'---:|' * len(outcomes)}")
    for name in in_order(table):
        print(f"| {name} | {' | '.join(str(table[name][outcome]) for outcome in outcomes)} |")


def main() -> None:
    """Parse the command line and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE")
    parser.add_argument("--no-pairs", action="store_true", help="only the trees")
    parser.add_argument("--no-judge", action="store_true", help="compile, but do not run")
    parser.add_argument("--only", default="", help="only pairs whose id holds this text")
    parser.add_argument("--rules", default="", help="only these, joined by commas (`all` is one)")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--gpu", type=gpu_numbers, metavar="LIST", help="judge on these GPUs, with times")
    parser.add_argument("--out", type=Path, default=Path("deopt-rules"))
    parser.add_argument("--minutes", type=float, default=60.0, help="stop to begin new work then")
    parser.add_argument("--pairs", type=Path, metavar="DIR", help="candidates that rules made")
    parser.add_argument("--labels", action="store_true", help="only what takes away a label of the pair")
    parser.add_argument("--facts", type=Path, metavar="ROWS", help="append what their verdicts say")
    given = parser.parse_args()
    rules = frozenset(filter(None, given.rules.split(",")))
    if given.facts is not None:
        facts(given.pairs, given.out / "verdicts.jsonl", given.facts)
        return
    if given.gpu is not None:
        table = on_gpu(
            given.gpu, given.out, given.only, rules, given.minutes, given.jobs, given.pairs, given.labels
        )
        show("On the GPU", {name: table[name] for name in table if not rules or name in rules})
        return
    if not given.no_pairs:
        table = on_emulator(
            given.only, rules, judged=not given.no_judge, jobs=given.jobs or 2, minutes=given.minutes
        )
        show("Fast sides of pairs/", {name: table[name] for name in table if not rules or name in rules})
    for tree in given.trees:
        table, seen = on_tree(tree, given.jobs or 2)
        show(f"{tree.name}: {', '.join(f'{count} {what}' for what, count in seen.items())}", table)


if __name__ == "__main__":
    main()
