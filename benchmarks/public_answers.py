"""Judge published answers: CUDA-L1's for an H100, and robust-kbench's highlighted kernels.

    python benchmarks/public_answers.py --cuda-l1 h100.json --robust robust-kbench --work .run/public/work
    python benchmarks/public_answers.py --board        writes docs/results/public-answers.md and its plot

The first imports every row that has device code and judges it on GPUs (`--gpus 0,1`), until all are done or
`--seconds` are over; again it goes on where it stopped. Code stays in the work folder. The second reads
docs/data/nvidia-h200/public-answers.jsonl: a row's id, published and proved ratio, outcome, reason.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from kcurate.answers import rows, stage
from kcurate.answers.settings import ImportConfig
from kcurate.core import store
from kcurate.records import Candidate, Sizes, Verdict

ROOT = Path(__file__).resolve().parent.parent
FACTS = ROOT / "docs" / "data" / "nvidia-h200" / "public-answers.jsonl"
PAGE = ROOT / "docs" / "results" / "public-answers.md"
PLOT = FACTS.with_suffix(".svg")
SETS = {
    "cuda-l1": ("kernelbench", "MIT", "https://github.com/deepreinforce-ai/CUDA-L1"),
    "robust-kbench": ("robust-kbench", "Apache-2.0", "https://github.com/SakanaAI/robust-kbench"),
}
GOOD = ("holds", "weaker")
# Outcomes of a fast side that may come from sizes unlike the published one.
FAILING = ("mismatch", "nondeterministic", "launch_error", "timeout")
# What an outcome says of an answer, in the order of the page.
GROUPS = {
    "holds": ("confirmed",),
    "holds at its own sizes only": (),
    "weaker": ("not_faster", "ambiguous_timing"),
    "wrong": ("mismatch", "nondeterministic", "launch_error", "timeout", "static_reject", "compile_error"),
    "not its own CUDA": ("library", "graph", "returns_input", "not_cuda"),
    "not readable": (
        "host_reads",
        "no_code",
        "unreadable",
        "hangs",
        "dies",
        "no_problem",
        "no_plan",
        "malformed",
        "unsupported",
        "harness_error",
    ),
}


def main() -> None:
    """Import and judge, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cuda-l1", type=Path)
    parser.add_argument("--robust", type=Path)
    parser.add_argument("--work", type=Path, default=Path("public-answers"))
    parser.add_argument("--gpus", default="0")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--import-seconds", type=float, default=1e9)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="row ids")
    parser.add_argument("--no-judge", action="store_true")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--board", action="store_true")
    options = parser.parse_args()
    if options.board:
        board()
        return
    started_s = time.monotonic()
    import_rows(options, started_s + options.import_seconds)
    if not options.no_judge:
        judge_rows(options, started_s + options.seconds)
    write_facts(options.work)


def import_rows(options: argparse.Namespace, deadline: float) -> None:
    """Import the rows that are not in `imported.jsonl`."""
    done = {(line["set"], line["id"]) for line in lines(options.work / "imported.jsonl")}
    for name, path in (("robust-kbench", options.robust), ("cuda-l1", options.cuda_l1)):
        if path is None:
            continue
        form, licence, url = SETS[name]
        config = ImportConfig(form, path, options.work, name, licence, url, jobs=options.jobs)
        waiting = [
            row
            for row in rows.read(form, path)
            if (name, row.id) not in done
            and (options.only is None or row.id in options.only)
            and (isinstance(row, rows.Bad) or "__global__" in row.answer)
            and not (name == "cuda-l1" and isinstance(row, rows.Bad))
        ]
        for imported in stage.imported_rows(waiting, config, until_s=deadline) if waiting else ():
            if imported.candidate is not None:
                store.write_candidate(options.work / "pairs" / imported.candidate.id, imported.candidate)
            fact = {
                "set": name, "id": imported.row.id, "claim": getattr(imported.row, "claim", None),
                "outcome": str(imported.outcome), "why": imported.why[:400],
                "repaired": stage.REPAIRED in imported.why,
                "pair": imported.candidate.id if imported.candidate else None,
            }  # fmt: skip
            store.append_line(options.work / "imported.jsonl", json.dumps(fact), durable=False)
            print(f"{name} {imported.row.id}: {imported.outcome} {imported.why[:150]}", flush=True)


def judge_rows(options: argparse.Namespace, deadline: float) -> None:
    """Judge the imported rows that have no verdict yet; those that fail, at sizes like their own too."""
    pairs = [line["pair"] for line in lines(options.work / "imported.jsonl") if line["pair"]]
    candidates = {pair: store.read_candidate(options.work / "pairs" / pair) for pair in pairs}
    judge_wave(options, deadline, candidates, own_sizes=False)
    failing = {
        line["pair"]
        for line in lines(options.work / "judged.jsonl")
        if not line["own_sizes"] and line["side"] == "fast" and line["outcome"] in FAILING
    }
    like_its_own = {pair: at_its_sizes(candidates[pair]) for pair in pairs if pair in failing}
    judge_wave(options, deadline, like_its_own, own_sizes=True)


def at_its_sizes(candidate: Candidate) -> Candidate:
    """The candidate, tested where one of its sizes is half of the published one."""
    assert candidate.problem is not None
    bench = dict(candidate.problem.sizes.headline)
    halves = [{**bench, name: value // 2} for name, value in bench.items() if value % 2 == 0 and value > 2]
    sizes = Sizes(tuple(halves[:3] or [bench]), candidate.problem.sizes.bench)
    return replace(candidate, id=f"{candidate.id}-own", problem=replace(candidate.problem, sizes=sizes))


def judge_wave(
    options: argparse.Namespace, deadline: float, candidates: dict[str, Candidate], own_sizes: bool
) -> None:
    """Judge those that have no line yet."""
    from kcurate import judge
    from kcurate.judge import JudgeConfig

    judged = options.work / "judged.jsonl"
    done = {line["pair"] for line in lines(judged) if line["own_sizes"] == own_sizes}
    pairs = [pair for pair in candidates if pair not in done]
    if not pairs or time.monotonic() > deadline:
        return
    gpus = tuple(map(int, options.gpus.split(",")))
    config = JudgeConfig(options.backend, gpus[0], torch=True)
    waiting = [(index, candidates[pair]) for index, pair in enumerate(pairs)]
    with contextlib.closing(judge.judge_many(waiting, config, gpus=gpus)) as verdicts:
        for index, verdict in verdicts:
            ratio = verdict.speedup
            fact = {
                "pair": pairs[index], "own_sizes": own_sizes, "outcome": str(verdict.outcome),
                "why": first_line(verdict), "device": verdict.environment.device, "side": verdict.side,
                "speedup": ratio and ratio.ratio, "low": ratio and ratio.low, "high": ratio and ratio.high,
            }  # fmt: skip
            store.append_line(judged, json.dumps(fact), durable=False)
            print(f"{pairs[index]}: {verdict!r}"[:250], flush=True)
            if time.monotonic() > deadline:
                print("out of time; run it again")
                return


def first_line(verdict: Verdict) -> str:
    """Why, with the compiler's first error where there is one."""
    errors = [line.strip() for line in (verdict.log or "").splitlines() if "error" in line]
    return (verdict.detail or "".join(errors[:1]))[:400]


def write_facts(work: Path) -> None:
    """One line a row: what may be published."""
    verdicts = list(lines(work / "judged.jsonl"))
    judged = {line["pair"]: line for line in verdicts if not line["own_sizes"]}
    at_own = {line["pair"]: line for line in verdicts if line["own_sizes"]}
    facts = []
    for line in lines(work / "imported.jsonl"):
        verdict = judged.get(line["pair"], {})
        own = at_own.get(line["pair"], {})
        ratio = {key: own[key] for key in ("speedup", "low", "high") if own.get(key)}
        fact = {**line, **verdict, **ratio, "at_its_sizes": own.get("outcome")}
        left_out = ("pair", "own_sizes")
        facts.append({key: value for key, value in fact.items() if key not in left_out and value is not None})
    text = "".join(json.dumps(fact, sort_keys=True) + "\n" for fact in facts)
    (work / "facts.jsonl").write_text(text)
    print(Counter(fact["outcome"] for fact in facts))


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines; nothing if there is none."""
    if path.is_file():
        yield from map(json.loads, path.read_text().splitlines())


def board() -> None:
    """Write the page and its plot from the facts."""
    facts = list(lines(FACTS))
    PLOT.write_text(plot(facts))
    PAGE.write_text(page(facts))


def group_of(fact: dict[str, Any]) -> str:
    """The group of an outcome; of a wrong one, whose side was at fault matters."""
    if fact.get("side") == "slow":
        return "not readable"  # the module itself failed
    if fact.get("at_its_sizes") == "confirmed":
        return "holds at its own sizes only"
    return next((name for name, outcomes in GROUPS.items() if fact["outcome"] in outcomes), "not readable")


def page(facts: list[dict[str, Any]]) -> str:
    """The page: counts, the plot, the commonest reasons, a row for each answer."""
    parts = [HEAD.format(device=next((fact["device"] for fact in facts if "device" in fact), "no GPU yet"))]
    names = list(dict.fromkeys(fact["set"] for fact in facts))
    parts.append("| outcome | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for group in GROUPS:
        counts = [sum(fact["set"] == name and group_of(fact) == group for fact in facts) for name in names]
        parts.append(f"| {group} | " + " | ".join(map(str, counts)) + " |")
    ended = sum(group_of(fact) != "not readable" for fact in facts)
    parts.append(
        f"\n{ended} of {len(facts)} rows ({ended / len(facts):.0%}) end with a verdict on their code.\n"
        + READ
    )
    reasons = Counter(reason(fact) for fact in facts if group_of(fact) not in GOOD)
    parts.append("\n## Commonest reasons\n\n| answers | reason |\n|---|---|")
    parts += [f"| {count} | {text} |" for text, count in reasons.most_common(12)]
    parts.append(
        "\n## Published beside proved ratio\n\n"
        f"![Published and proved ratios](../data/nvidia-h200/{PLOT.name})\n"
    )
    parts.append(
        "| set | row | published | outcome | proved (95% interval) | reason |\n|---|---|---|---|---|---|"
    )
    for fact in sorted(facts, key=lambda fact: (fact["set"], natural(fact["id"]))):
        proved = ""
        if fact.get("speedup"):
            proved = f"{fact['speedup']:.2f} ({fact['low']:.2f} to {fact['high']:.2f})"
        claim = fact.get("claim", "")
        why = reason(fact) if group_of(fact) not in GOOD else ""
        parts.append(f"| {fact['set']} | {fact['id']} | {claim} | {fact['outcome']} | {proved} | {why} |")
    return "\n".join(parts) + "\n"


HEAD = """# Public answers

What others published as faster CUDA, judged: CUDA-L1's answers for an H100 that contain a kernel, and
robust-kbench's highlighted kernels. Each is judged against the PyTorch module that it answers, in eager
PyTorch with full float32 arithmetic, on {device}. `kcurate import` runs an answer's host code once on CPU
tensors, records its launches at several sizes, and turns them into a plan; the judge compares results at
all sizes and times both sides.

*holds*: right, and faster by more than the noise; *holds at its own sizes only*: it fails at other sizes
than those like the published one, and holds there; *weaker*: right, not faster; *wrong*: other results, or
code that the judge refuses; *not its own CUDA*: what runs is PyTorch, a library, or nothing, most often
because the answer's extension does not build, or is never called, and it falls back; *not readable*: no
verdict. The published ratio is the publisher's own, on an H100, and not always against eager PyTorch in
float32. Facts of every row: [public-answers.jsonl](../data/nvidia-h200/public-answers.jsonl). The code
stays with its publishers.
"""


READ = """
## Ten rows read by hand

A second reader drew ten rows (`random.Random(44).sample` of the rows by set and id) and read answer, host
code and verdict. Six agree: 2-4, 2-8 and 2-92 run PyTorch; 1-5 has a thread a row, so neighbours read 16
KB apart; mnist_linear-forward is right and too short to time; 1-97's module gives no strong problem. Four
did not, and the import was changed. 1-15, 1-36 and 1-83 were not readable: with bindings joined for them
their extensions build and refuse the answer's own call, while as published they do not build and the
answer falls back. 2-31 was `mismatch`: it is wrong by its text (the convolution's bias is left out, and
the minimum taken after the addition), but what the judge saw was memory that no plan had filled, a weight
that the answer scales when it is made. All four are now read as published: they fall back to PyTorch, and
the reader agrees with all ten. Answers whose plan would need such a tensor have no plan; the other 24
rows that were judged on a GPU need none."""


def reason(fact: dict[str, Any]) -> str:
    """A reason without what differs from row to row."""
    why = str(fact.get("why", "")).replace("|", "/").replace("`", "'")
    if "its own code was not used" in why:
        kind = "does not build" if "error:" in why else "raises"
        return f"its extension {kind}, so it falls back to PyTorch"
    if fact["outcome"] == "library" and why.startswith("it calls") and why.endswith("of PyTorch"):
        return "operators of PyTorch compute it"
    return " ".join(why.split()).split("; ")[0][:100] or fact["outcome"]


def natural(name: str) -> list[Any]:
    """Numbers in a name by their value."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in name.replace("_", "-").split("-")]


def plot(facts: list[dict[str, Any]]) -> str:
    """Published (x) and proved ratio (y) of the answers that were timed, both on a logarithmic scale."""
    points = [
        (float(f["claim"]), f["speedup"], f["low"], f["high"])
        for f in facts
        if f.get("speedup") and f.get("claim")
    ]
    low, high, size, edge = 0.125, 256.0, 420, 50

    def at(value: float) -> float:
        return edge + size * math.log(min(max(value, low), high) / low) / math.log(high / low)

    def y(value: float) -> float:
        return size + 2 * edge - at(value)

    whole = size + 2 * edge
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{whole}' height='{whole}' "
        "font-family='sans-serif' font-size='12'>",
        f"<rect width='{whole}' height='{whole}' fill='white'/>",
        f"<line x1='{at(low)}' y1='{y(low)}' x2='{at(high)}' y2='{y(high)}' stroke='#999'/>",
    ]
    for tick in (0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256):
        shade = "#888" if tick == 1 else "#e5e5e5"
        parts.append(
            f"<line x1='{at(tick)}' y1='{edge}' x2='{at(tick)}' y2='{size + edge}' stroke='{shade}'/>"
        )
        parts.append(f"<line x1='{edge}' y1='{y(tick)}' x2='{size + edge}' y2='{y(tick)}' stroke='{shade}'/>")
        parts.append(f"<text x='{at(tick)}' y='{size + edge + 16}' text-anchor='middle'>{tick:g}</text>")
        parts.append(f"<text x='{edge - 6}' y='{y(tick) + 4}' text-anchor='end'>{tick:g}</text>")
    for claim, ratio, least, most in points:
        x = at(claim)
        parts.append(
            f"<line x1='{x:.1f}' y1='{y(least):.1f}' x2='{x:.1f}' y2='{y(most):.1f}' stroke='#c33'/>"
        )
        parts.append(f"<circle cx='{x:.1f}' cy='{y(ratio):.1f}' r='3.5' fill='#36c' fill-opacity='0.7'/>")
    parts.append(f"<text x='{whole / 2}' y='{whole - 12}' text-anchor='middle'>published ratio</text>")
    parts.append(
        f"<text x='14' y='{whole / 2}' text-anchor='middle' "
        f"transform='rotate(-90 14 {whole / 2})'>proved ratio</text>"
    )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    main()
