"""Best sides of built-in families against what a practitioner would call: same inputs, process and clock.

    python benchmarks/corpus_libraries.py --gpu 0 [--budget-s 280] [--blocks 8] [FAMILY ...]
    python benchmarks/corpus_libraries.py --gpu 0 --at m=8192,n=8192,k=8192 FAMILY ...
    python benchmarks/corpus_libraries.py --docs    writes tables of docs/results

Needs a GPU, torch and CuPy; the calls are in `library_calls.py`. Of a family's sides the one that is fastest
in its verdicts runs. Inputs are made on the device once, for both; outputs are compared first. Each sample
follows a flush of the L2 cache and is taken with events on one stream; of several calls the one that is
fastest in a few samples is measured; it and our side take turns in random order. The ratio is the median over
blocks of the library's time over ours: above 1, ours is faster. A row a family is appended to
docs/data/GPU/libraries.jsonl, with its reason if there is no ratio; families that have a row of their code
and calls as they are now, of any GPU, are left out unless they are named. With `--at` the named families run
at those sizes in place of their headline's; such rows, `FAMILY@SIZES`, are not in the tables.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from library_calls import CALLS, LibraryCall, compared, scalars_of, torch_dtype
from marked import fill
from roofline import MODELS, Best, best_sides, of_device, rows_of, standing

from kcurate.backends import open_compiler
from kcurate.backends.base import Compiled, EntryPoint, Memory
from kcurate.backends.cuda import helpers
from kcurate.backends.cuda.device import CudaDevice
from kcurate.backends.cuda.timer import GpuTimer
from kcurate.core import resources, store
from kcurate.errors import KcurateError
from kcurate.judge.workers.inside.arena import Arena
from kcurate.judge.workers.inside.execute import DeviceProgram, Image
from kcurate.judge.workers.inside.input_sets import InputSet
from kcurate.problem import program
from kcurate.problem.inputs import contents
from kcurate.problem.ops import BoundBuffer
from kcurate.records import Problem, Side, Verdict
from kcurate.roofline import least_work

ROOT = Path(__file__).resolve().parent.parent
# Rows of the page on Triton.
TRITON_SHOWN = 12
SEED = 20261121
SAMPLES = 4
WARM_UPS = 3
FLUSHES = 12
# Relative norm of the difference; by the narrowest type of a family's buffers.
TOLERANCES = {"float8_e4m3": 0.06, "bfloat16": 0.02, "float16": 0.01}
TOLERANCE = 2e-3


class Bench:
    """One GPU with its timing primitives."""

    def __init__(self, gpu: int) -> None:
        self.device = CudaDevice(gpu)
        compiled = open_compiler("cuda").compile(helpers.SOURCE, helpers.ENTRIES)
        assert isinstance(compiled, Compiled), compiled
        self.timer = GpuTimer(self.device, compiled)

    def sample(self, work: Callable[[], Any], before: Callable[[], None] = lambda: None) -> float:
        """Microseconds of one run after `before` and a flush."""
        before()
        events = (self.timer.event(), self.timer.event())
        for _ in range(FLUSHES):  # while they run, all of the work is queued
            self.timer.flush()
        self.timer.span(events, work, gated=False)
        self.device.synchronize()
        wall_us = self.timer.elapsed_us(*events)
        for event in events:
            self.timer.drop_event(event)
        return wall_us

    def copy_bytes_per_s(self) -> float:
        """Bytes read plus bytes written a second, of a plain copy of 1 GB."""
        size = 1 << 30
        a, b = self.device.allocate(size), self.device.allocate(size)
        self.device.fill(a, 0, size, b"\x11")
        best = min(self.sample(lambda: self.timer.copy(b, a, size)) for _ in range(20))
        self.device.free(a)
        self.device.free(b)
        return 2 * size / (best * 1e-6)

    def inputs(self, problem: Problem, side: Side) -> InputSet:
        """A side's inputs at the headline size, made on the device."""
        bound = program.bind(problem, side, problem.sizes.headline)
        made, arena = contents.recipes(problem, side, problem.sizes.headline, SEED), Arena(self.timer)
        inputs = InputSet(self.timer, bound, *made, arena)
        arena.close()  # sides run in memory of their own here
        return inputs

    def load(self, problem: Problem, side: Side) -> tuple[DeviceProgram, InputSet]:
        """A side with its inputs, run once; to be closed, both."""
        inputs = self.inputs(problem, side)
        entries = [EntryPoint(*entry) for entry in inputs.program.entry_points]
        compiled = open_compiler("cuda").compile(side.code, entries, inputs.program.symbols)
        if not isinstance(compiled, Compiled):
            raise KcurateError(f"does not compile: {compiled.log[:200]}")
        prepared = DeviceProgram(self.device, self.device.load(compiled), inputs.program, inputs.images)
        prepared.reset(0xDEADBEEF)
        prepared.run()
        self.device.synchronize()
        return prepared, inputs


class Table(Bench):
    """A GPU with torch on the same stream."""

    def __init__(self, gpu: int) -> None:
        import torch

        torch.cuda.init()
        torch.cuda.set_device(gpu)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        self.torch = torch
        super().__init__(gpu)
        self.stream = torch.cuda.ExternalStream(int(self.device.stream))

    def tensor(self, buffer: BoundBuffer, memory: Memory, offset: int) -> Any:
        """A buffer in device memory as torch sees it, without a copy; None for another layout than rows."""
        if buffer.view is not None:
            return None
        kind = {1: "|u1", 2: "<i2", 4: "<i4", 8: "<i8"}[buffer.itemsize]

        seen = {
            "shape": buffer.physical,
            "typestr": kind,
            "data": (memory.address + offset, False),
            "version": 3,
        }
        bits = self.torch.as_tensor(SimpleNamespace(__cuda_array_interface__=seen), device="cuda")
        return bits.view(torch_dtype(buffer.record.dtype, self.torch)).view(buffer.shape)


def measure(
    table: Table, best: Best, blocks: int, rng: random.Random, closing: contextlib.ExitStack
) -> dict[str, Any]:
    """Both sides' times on one set of inputs, which `closing` frees."""
    torch, problem = table.torch, best.candidate.problem
    assert problem is not None
    sizes = problem.sizes.headline
    scalars = scalars_of(problem, sizes)
    prepared, own = table.load(problem, best.candidate.fast)
    given = table.inputs(problem, Side("", ()))
    closing.callback(lambda: [one.close() for one in (prepared, own, given)])
    tolerance = max([TOLERANCES.get(one.dtype, TOLERANCE) for one in problem.buffers.values()])
    restore = restorer(table, prepared)
    with torch.cuda.stream(table.stream), torch.no_grad():
        inputs = {
            name: table.tensor(given.program.buffers[name], image.copy, 0)
            for name, image in given.images.items()
            if isinstance(image, Image) and image.copy is not None
        }
        ours = _outputs(table, prepared)
        calls, failed = [], []
        for one in CALLS[best.family]:
            try:
                run = one.make(inputs, torch, scalars, sizes)
                error = _error(one, ours, run())
                table.device.synchronize()
                if error > tolerance:
                    raise KcurateError(f"the outputs differ, relative norm {error:.2e}")
                quick = statistics.median(table.sample(run, restore) for _ in range(WARM_UPS))
                calls.append((quick, one, run, error))
            except Exception as error:  # noqa: BLE001 - a call that this machine lacks is a row that says so
                failed.append(f"{one.library}: {' '.join(str(error).split())[:160]}")
        if not calls:
            raise KcurateError("; ".join(failed))
        _, one, run, error = min(calls, key=lambda each: each[0])
        work = {"ours": prepared.run, "library": run}
        for _ in range(WARM_UPS):
            table.sample(prepared.run, restore)
        samples: dict[str, list[list[float]]] = {"ours": [], "library": []}
        for _ in range(blocks):
            for name in rng.sample(list(work), 2):
                samples[name].append([table.sample(work[name], restore) for _ in range(SAMPLES)])
    medians = {name: [statistics.median(block) for block in rows] for name, rows in samples.items()}
    ratios = sorted(b / a for a, b in zip(medians["ours"], medians["library"], strict=True))
    return {
        "library": one.library,
        "others_us": {each.library: round(us, 2) for us, each, _, _ in calls if each is not one},
        "failed": failed,
        "relative_error": error,
        "ours_us": statistics.median(medians["ours"]),
        "library_us": statistics.median(medians["library"]),
        "ratio": statistics.median(ratios),
        "ratio_low": ratios[0],
        "ratio_high": ratios[-1],
        "moved_bytes": best.least.moved_bytes,
        "samples_us": {
            name: [[round(us, 2) for us in block] for block in rows] for name, rows in samples.items()
        },
    }


def _outputs(table: Table, prepared: DeviceProgram) -> dict[str, Any]:
    """Our outputs as tensors; copies, since later runs write over them."""
    found = {}
    for name, slot in prepared.bound.items():
        buffer = prepared.slots[name].buffer
        if buffer.record.role in ("out", "inout"):
            one = table.tensor(buffer, slot.memory, slot.content_offset)
            found[name] = None if one is None else one.clone()
    if None in found.values():
        host = prepared.outputs()
        found = {name: host[name] if one is None else one for name, one in found.items()}
    return found


def _error(one: LibraryCall, ours: Mapping[str, Any], answer: Any) -> float:
    answers = answer if isinstance(answer, tuple) else (answer,)
    pairs = zip(one.outputs, answers, strict=False)
    return max((compared(ours[name], theirs) for name, theirs in pairs), default=0.0)


def restorer(table: Bench, prepared: DeviceProgram) -> Callable[[], None]:
    """What gives every `inout` buffer its first contents again, from their copy on the device."""
    kept = []
    for slot in prepared.slots.values():
        if slot.buffer.record.role == "inout":
            assert slot.image is not None and slot.image.copy is not None
            kept.append((slot, slot.image.copy, slot.buffer.size_bytes))

    def restore() -> None:
        for slot, copy, size in kept:
            table.device.copy(slot.memory, slot.content_offset, copy, 0, size)

    return restore


def at_sizes(best: Best, changed: Mapping[str, int]) -> Best:
    """The same side with some of its headline's sizes changed.

    Raises:
        SystemExit: a size that the problem does not have.
    """
    problem = best.candidate.problem
    assert problem is not None
    known = problem.sizes.headline
    if unknown := set(changed) - set(known):
        raise SystemExit(f"{best.family}: no size {min(unknown)!r}; it has {', '.join(known)}")
    found = replace(problem, sizes=replace(problem.sizes, bench={**known, **changed}))
    least = least_work(best.family, found)
    assert least is not None, "best_sides has none without"
    return replace(best, candidate=replace(best.candidate, problem=found), least=least)


def sizes_of(text: str) -> dict[str, int]:
    """`m=8192,n=8192` as numbers."""
    return {name: int(value) for name, _, value in (one.partition("=") for one in text.split(","))}


def key_of(best: Best) -> str:
    """Of a side's code and of what it is held against."""
    return store.content_id(best.candidate.fast.code, *(one.library for one in CALLS[best.family]))


def current_rows() -> dict[str, dict[str, Any]]:
    """By family, the row of its best side as it is now: an H200's where there is one, else an H100's."""
    found: dict[str, dict[str, Any]] = {}
    for gpu, known in standing().items():
        model, folder = MODELS[gpu]
        rows = rows_of(folder / "libraries.jsonl")
        for best in best_sides(model, "cuda"):
            row = rows.get(best.family) if best.family in CALLS and best.family in known else None
            if row is not None and row["key"] == key_of(best):
                found[best.family] = row
    return found


def table_of(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """How many rows there are, and those where the library is faster as a table for docs, by ratio."""
    timed = sorted((row for row in rows.values() if "ratio" in row), key=lambda row: float(row["ratio"]))
    lines = [
        f"| {row['family']} | [{row['pair'].split('/')[1]}](../../pairs/{row['pair']}/) | {row['library']} "
        f"| {row['device'].split()[1]} | {row['ours_us']:.0f} | {row['library_us']:.0f} "
        f"| {row['ratio']:.2f} |"
        for row in timed
        if row["ratio"] < 1
    ]
    middle = statistics.median(row["ratio"] for row in timed)
    faster = sum(row["ratio"] >= 1 for row in timed)
    said = f"{len(timed)} families; the median ratio is {middle:.2f}, {faster} are at 1 or above. The others:"
    head = (
        "| family | our side | library | GPU | ours, us | library, us | ratio |",
        "|---|---|---|---|---:|---:|---:|",
    )
    return [said, "", *head, *lines]


def triton_table(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Fast sides in Triton beside the family's fastest CUDA side, by their verdicts, and torch.compile.

    All of one GPU: the H200 if it has judged the family's newest sides, else the H100.
    """
    known = standing()
    best_cuda = {
        gpu: {one.family: one.us for one in best_sides(MODELS[gpu][0], "cuda") if one.family in known[gpu]}
        for gpu in ("H200", "H100")
    }
    lines, best = [], []
    for folder in store.find_candidates(resources.pairs_dir()):
        candidate = store.read_candidate(folder)
        gpu = next((gpu for gpu, sides in best_cuda.items() if candidate.family in sides), "H200")
        path = folder / "verdicts" / f"{MODELS[gpu][0]}.json"
        if candidate.fast.language != "triton" or not path.exists():
            continue
        verdict = store.read_json(path, Verdict)
        if verdict.speedup is None or verdict.fast is None or verdict.fast.median_us is None:
            continue
        ratio, us = verdict.speedup.ratio, verdict.fast.median_us
        row = rows.get(candidate.family, {})
        row = row if f" {gpu}" in row.get("device", "") else {}
        made = {row.get("library"): row.get("library_us"), **row.get("others_us", {})}.get("torch.compile")
        cuda = best_cuda[gpu][candidate.family]
        best.append(us / min(cuda, made or cuda))
        name = candidate.id.split("/")[1]
        shown = "" if made is None else f"{made:.1f}"
        lines.append(
            (
                best[-1],
                f"| [{name}](../../pairs/{candidate.id}/) | {gpu} | {ratio:.2f} | {us:.1f} | {cuda:.1f} "
                f"| {shown} | {best[-1]:.2f} |",
            )
        )
    near = sum(one <= 1.3 for one in best)
    return [
        f"{len(best)} sides; against the better of both, {statistics.median(best):.2f} in the median,",
        f"{sum(one <= 1 for one in best)} at 1 or below, {near} within 1.3. The {TRITON_SHOWN} slowest:",
        "",
        "| pair | GPU | over its slow side | Triton, us | CUDA, us | torch.compile, us | of the better |",
        "|---|---|---:|---:|---:|---:|---:|",
        *(line for _, line in sorted(lines)[-TRITON_SHOWN:]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--budget-s", type=float, default=1e9, help="begin no family after so many seconds")
    parser.add_argument("--at", type=sizes_of, metavar="NAME=N,...", help="sizes other than the headline's")
    parser.add_argument("--docs", action="store_true", help="write the table in docs/results/corpus.md")
    options = parser.parse_args()
    if options.at and not options.families:
        parser.error("--at needs the families that it is for")
    if options.docs:
        rows = current_rows()
        fill(ROOT / "docs/results/corpus.md", Path(__file__).name, "\n".join(table_of(rows)))
        fill(ROOT / "docs/results/triton.md", Path(__file__).name, "\n".join(triton_table(rows)))
        return
    until_s = time.monotonic() + options.budget_s
    table = Table(options.gpu)
    environment = table.device.environment()
    copy, rng, known = table.copy_bytes_per_s(), random.Random(7), current_rows()
    model, folder = of_device(environment.device)
    print(f"copy: {copy / 1e12:.2f} TB/s (read plus written)")
    with (folder / "libraries.jsonl").open("a") as out:
        for best in best_sides(model, "cuda"):
            family, chosen = best.family, options.families or set(CALLS) - set(known)
            if family not in CALLS or family not in chosen or time.monotonic() > until_s:
                continue
            row: dict[str, Any] = {"family": family, "pair": best.pair, "key": key_of(best)}
            if options.at:
                row["family"] += "@" + ",".join(f"{name}={value}" for name, value in options.at.items())
                best = at_sizes(best, options.at)
            row |= {"device": environment.device, "driver": environment.driver, "copy_bytes_per_s": copy}
            row["torch"] = table.torch.__version__
            try:
                with contextlib.ExitStack() as closing:
                    row |= measure(table, best, options.blocks, rng, closing)
            except Exception as error:  # noqa: BLE001 - one family's reason, and on with the next
                row["why"] = " ".join(str(error).split())[:400]
            out.write(json.dumps(row) + "\n")
            out.flush()
            if "ratio" in row:
                times = f"{row['ours_us']:9.1f} {row['library_us']:9.1f} {row['ratio']:6.2f}"
                print(f"{row['family']:26} {row['library']:32} {times}", flush=True)
            else:
                print(f"{row['family']:26} {row['why']}", flush=True)
            table.torch.cuda.empty_cache()
            table.device.shrink()


if __name__ == "__main__":
    main()
