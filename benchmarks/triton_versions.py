"""Whether two versions of Triton agree: ten built-in Triton sides, compiled by each, judged on one GPU.

    PYTHONPATH=WHEEL_OF_3.6 python benchmarks/triton_versions.py --make DIR     # once with each, no GPU
    python benchmarks/triton_versions.py --compare DIR
    python benchmarks/triton_versions.py --judge DIR --out ROWS.jsonl [--gpu 0] [--budget-s 60]

`--make` compiles with the Triton that Python finds, for sm_90 and every size of the problem, assembles with
its ptxas, and keeps the cubins. `--judge` has the judge take them in place of its own compiling; everything
else is as ever: the CUDA slow side, checks, verification at all sizes, times. A row a pair and version is
appended; run again, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pickle
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kcurate.backends.base import Compiled, CompileFailure  # noqa: E402
from kcurate.backends.triton import installed  # noqa: E402
from kcurate.core import resources, store  # noqa: E402
from kcurate.judge.judging import Judge, JudgeConfig  # noqa: E402
from kcurate.judge.workers import compiling  # noqa: E402
from kcurate.judge.workers.requests import Compile  # noqa: E402
from kcurate.records import Candidate  # noqa: E402

NAMES = (
    "softmax-triton", "layernorm-triton", "rope-triton", "cross-entropy-triton", "argmax-triton",
    "cumsum-rows-triton", "transpose-triton", "hgemm-triton", "linear-gelu-triton", "embedding-bag-triton",
)  # fmt: skip


def pairs() -> dict[str, Candidate]:
    found = {path.name: path for path in store.find_candidates(resources.pairs_dir()) if path.name in NAMES}
    return {name: store.read_candidate(found[name]) for name in NAMES}


def make(place: Path) -> None:
    """Compile all ten with this Triton."""
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    from kcurate.backends.cuda.ptxas import assemble, completed
    from kcurate.backends.triton.compiler import TritonCompiler

    compiler = TritonCompiler("sm_90")
    made = {}
    for name, pair in pairs().items():
        wanted = compiling.request_of(pair, "fast")
        text = compiler.compile(wanted.code, wanted.entry_points, wanted.symbols)
        cubin = assemble(text.binary.decode()) if isinstance(text, Compiled) else text
        made[name] = completed(cubin, text) if isinstance(cubin, Compiled) else cubin
        print(name, made[name].compiler if isinstance(made[name], Compiled) else made[name].log[:200])
    place.mkdir(parents=True, exist_ok=True)
    (place / f"triton-{installed.version()}.pickle").write_bytes(pickle.dumps(made))


def archives(place: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: pickle.loads(path.read_bytes()) for path in sorted(place.glob("triton-*.pickle"))}


def compare(place: Path) -> None:
    """What can be told without a GPU: registers and shared memory of the kernels at the last size."""
    found = archives(place)
    print(f"| pair | {' | '.join(f'{one}: registers, shared, spilled' for one in found)} |")
    print(f"|---|{'---|' * len(found)}")
    for name in NAMES:
        cells = []
        for made in (each[name] for each in found.values()):
            if isinstance(made, CompileFailure):
                cells.append(made.log[:80])
                continue
            last = made.resources[-1]
            cells.append(f"{last.registers}, {made.dynamic_shared.get(last.kernel, 0)}, {last.spill_bytes}")
        print(f"| {name} | {' | '.join(cells)} |")


@contextlib.contextmanager
def taking(made: dict[tuple[object, ...], Any]) -> Any:
    """The judge takes these in place of compiling sides in Triton."""
    real = compiling.CompileWorkers.compile

    def compile_(
        self: compiling.CompileWorkers, requests: Sequence[Compile]
    ) -> list[Compiled | CompileFailure]:
        rest = [one for one in requests if (one.code, one.entry_points) not in made]
        found = dict(zip(rest, real(self, rest), strict=True))
        return [found[one] if one in found else made[one.code, one.entry_points] for one in requests]

    compiling.CompileWorkers.compile = compile_  # type: ignore[method-assign]
    try:
        yield
    finally:
        compiling.CompileWorkers.compile = real  # type: ignore[method-assign]


def judge(place: Path, out: Path, gpu: int, budget_s: float) -> None:
    """A verdict a pair and version."""
    until = time.monotonic() + budget_s
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {(row["pair"], row["version"]) for row in rows}
    every, found = pairs(), archives(place)
    with contextlib.closing(Judge(JudgeConfig("cuda", gpu))) as judging:
        for name, pair in every.items():
            wanted = compiling.request_of(pair, "fast")
            for version, made in found.items():
                if (name, version) in done or time.monotonic() > until:
                    continue
                with taking({(wanted.code, wanted.entry_points): made[name]}):
                    verdict = judging.judge(pair)
                speedup = verdict.speedup
                row = {
                    "pair": name,
                    "version": version,
                    "compiler": verdict.environment.details.get("fast_compiler"),
                    "outcome": verdict.outcome.value,
                    "detail": verdict.detail,
                    "speedup": speedup and [speedup.ratio, speedup.low, speedup.high],
                    "fast_us": verdict.fast and verdict.fast.median_us,
                    "device": verdict.environment.device,
                    "driver": verdict.environment.driver,
                }
                rows.append(row)
                store.append_line(out, json.dumps(row))
                print(name, version, row["outcome"], row["fast_us"], flush=True)
    by_pair = {name: [row for row in rows if row["pair"] == name] for name in every}
    agree = sum(
        len({row["outcome"] for row in some}) == 1 and len(some) == len(found) for some in by_pair.values()
    )
    print(f"{agree} of {len(every)} pairs have the same outcome with each of {', '.join(found)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--make", type=Path, metavar="DIR")
    parser.add_argument("--compare", type=Path, metavar="DIR")
    parser.add_argument("--judge", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--budget-s", type=float, default=60.0)
    given = parser.parse_args()
    if given.make:
        make(given.make)
    if given.compare:
        compare(given.compare)
    if given.judge:
        judge(given.judge, given.out, given.gpu, given.budget_s)


if __name__ == "__main__":
    main()
