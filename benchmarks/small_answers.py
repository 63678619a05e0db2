"""How often is an honest problem with one small answer refused by chance? Ten problems, judged repeatedly.

    python benchmarks/small_answers.py --out FILE.jsonl [--repeats 200] [--backend cuda]

Both sides of a problem are the same code, judged with fresh seeds; the negative controls run
every time (a judge otherwise runs them once per reference). Each judgement is appended to the file as one
row; run again, it goes on where it stopped. Prints how many judgements were refused, by problem.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import common

from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.records import Buffer, Candidate, Init, Launch, Problem, Side, Sizes

BITS = Init("integers", {"low": 0, "high": 2})
DIGITS = Init("integers", {"low": 0, "high": 10})
# For each problem: the inputs, how many there are at the largest test size, and code that sets `answer`.
PROBLEMS: Mapping[str, tuple[Init, int, str]] = {
    "parity": (BITS, 300, "for (int i = 0; i < n; i++) answer ^= x[i];"),
    "majority": (BITS, 301, "for (int i = 0; i < n; i++) answer += 2 * x[i] - 1; answer = answer > 0;"),
    "longest-run": (
        BITS, 300,
        "for (int i = 0, run = 0; i < n; i++) { run = x[i] ? run + 1 : 0; answer = max(answer, run); }",
    ),
    "count": (BITS, 16, "for (int i = 0; i < n; i++) answer += x[i];"),
    "first-nonzero": (BITS, 100, "while (answer < n && !x[answer]) answer++;"),
    "sum-modulo-ten": (DIGITS, 200, "for (int i = 0; i < n; i++) answer = (answer + x[i]) % 10;"),
    "largest-of-three": (DIGITS, 3, "for (int i = 0; i < n; i++) answer = max(answer, x[i]);"),
    "median-of-five": (
        DIGITS, 5,
        "for (int i = 0; i < n; i++) { int less = 0, same = 0;"
        " for (int j = 0; j < n; j++) { less += x[j] < x[i]; same += x[j] == x[i]; }"
        " if (less <= n / 2 && less + same > n / 2) answer = x[i]; }",
    ),
    "place-of-the-largest": (
        Init("permutation"), 8, "for (int i = 1; i < n; i++) if (x[i] > x[answer]) answer = i;",
    ),
    "fixed-points": (Init("permutation"), 50, "for (int i = 0; i < n; i++) answer += x[i] == i;"),
}  # fmt: skip


def small_answer(name: str) -> Candidate:
    """One thread computes one int32."""
    init, count, body = PROBLEMS[name]
    code = (
        'extern "C" __global__ void work(const int* x, int* result, int n) {\n'
        f"    int answer = 0;\n    {body}\n    *result = answer;\n}}\n"
    )
    problem = Problem(
        Sizes(({"n": count}, {"n": max(3, count - 1)}, {"n": max(3, count // 2)}), {"n": 1000}),
        {"x": Buffer("int32", ("n",), init), "result": Buffer("int32", (1,), role="out")},
    )
    side = Side(code, (Launch("work", (1,), (1,), ("x", "result", "n")),))
    return common.candidate(name, problem, side, replace(side, code=code + "\n"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--backend", choices=("emulator", "cuda"), default="emulator")
    options = parser.parse_args()
    config = JudgeConfig(options.backend, timed=False)
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = Counter(row["problem"] for row in rows)
    with contextlib.closing(Judge(config)) as judge, options.out.open("a") as file:
        for repeat in range(options.repeats):
            for name in PROBLEMS:
                if done[name] > repeat:
                    continue
                judge.controls.passed.clear()
                verdict = judge.judge(small_answer(name))
                row = {
                    "problem": name,
                    "outcome": str(verdict.outcome),
                    "detail": verdict.detail,
                    "seeds": len(verdict.seeds),
                    "wall_s": verdict.wall_s,
                }
                rows.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
    for name in PROBLEMS:
        own = [row for row in rows if row["problem"] == name]
        more = sum(row["seeds"] > min(one["seeds"] for one in own) for row in own)
        print(f"{name:22s}", dict(Counter(row["outcome"] for row in own)), f"{more} needed more seeds")
    refused = sum(row["outcome"] != "correct" for row in rows)
    print(f"{refused} of {len(rows)} judgements refused; {sum(row['wall_s'] for row in rows):.0f} s")


if __name__ == "__main__":
    main()
