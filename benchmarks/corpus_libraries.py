"""Fast sides of the built-in corpus against the vendor's libraries: same inputs, same process, same clock.

    python benchmarks/corpus_libraries.py [--gpu 0] [--out FILE] [--blocks 20]

Needs a GPU, torch and CuPy (cuBLAS, cuSPARSE, CUB and torch's own kernels stand behind their calls). Each
sample follows a flush of the L2 cache and is taken with events on one stream; the two sides take turns in
random order, and the ratio is the median over blocks of library time over our time: above 1, ours is
faster. Outputs of both are compared first. Also printed: the share of the copy bandwidth, or of the rate of
the library's best matrix product.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate import resources, roofline, store
from kcurate.backends import open_compiler
from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.cuda import helpers
from kcurate.backends.cuda.device import CudaDevice
from kcurate.backends.cuda.timer import GpuTimer
from kcurate.errors import KcurateError
from kcurate.judge.workers.inside.execute import Prepared
from kcurate.problem import program
from kcurate.problem.inputs import contents
from kcurate.records import Problem, Side

SAMPLES = 4
WARM_UPS = 5
FLUSHES = 12


@dataclass(frozen=True)
class Rival:
    """A library call for a pair: `make` takes the inputs on the GPU; `output` is the buffer to compare."""

    pair: str
    library: str
    make: Callable[[Mapping[str, Any], Any], Callable[[], Any]]
    output: str
    tolerance: float = 1e-3


def _softmax(x: Mapping[str, Any], torch: Any) -> Callable[[], Any]:
    return lambda: torch.softmax(x["in"], dim=1)


def _layernorm(x: Mapping[str, Any], torch: Any) -> Callable[[], Any]:
    shape = (x["in"].shape[1],)
    return lambda: torch.nn.functional.layer_norm(x["in"], shape, x["weight"], x["bias"], 1e-5)


def _spmv(x: Mapping[str, Any], torch: Any) -> Callable[[], Any]:
    rows = x["x"].numel()
    matrix = torch.sparse_csr_tensor(x["offsets"], x["columns"], x["values"], size=(rows, rows))
    return lambda: matrix @ x["x"]


def _sort(x: Mapping[str, Any], torch: Any) -> Callable[[], Any]:
    import cupy

    keys = cupy.from_dlpack(x["keys"].view(torch.int32)).view(cupy.uint32)
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

    def sort() -> Any:
        with stream:
            return cupy.sort(keys)

    return sort


def _histogram(x: Mapping[str, Any], torch: Any) -> Callable[[], Any]:
    return lambda: torch.bincount(x["bytes"], minlength=256)


def _scan(x: Mapping[str, Any], torch: Any) -> Callable[[], Any]:
    import cupy

    values = cupy.from_dlpack(x["values"])
    out = cupy.empty_like(values)
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

    def scan() -> Any:
        with stream:
            return cupy.cumsum(values, out=out)

    return scan


RIVALS = (
    Rival(
        "dense-linear-algebra/sgemm-tiled-blocked", "cuBLAS fp32", lambda x, t: lambda: x["a"] @ x["b"], "c"
    ),
    Rival(
        "dense-linear-algebra/hgemm-wmma-pipelined",
        "cuBLAS fp16",
        lambda x, t: lambda: x["a"] @ x["b"],
        "c",
        1e-2,
    ),
    Rival(
        "dense-linear-algebra/transpose-tiled-padded",
        "torch copy",
        lambda x, t: lambda: x["in"].t().contiguous(),
        "out",
    ),
    Rival(
        "reduction-scan/reduce-sum", "torch sum (CUB)", lambda x, t: lambda: x["values"].sum(), "total", 1e-2
    ),
    Rival("reduction-scan/exclusive-scan-look-back", "CuPy cumsum (CUB, inclusive)", _scan, "sums"),
    Rival("sorting-histogram/radix-sort", "CuPy sort (CUB radix sort)", _sort, "keys"),
    Rival("sorting-histogram/histogram256-warps", "torch bincount", _histogram, "counts"),
    Rival("deep-learning/softmax-block-online", "torch softmax", _softmax, "out"),
    Rival("deep-learning/layernorm-block-registers", "torch layer_norm", _layernorm, "out"),
    Rival("sparse-linear-algebra/spmv-csr-vector-merge", "cuSPARSE csr", _spmv, "y"),
)


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

    def load(self, problem: Problem, side: Side) -> tuple[Prepared, Mapping[str, Any]]:
        """A side with its buffers at the headline size, run once, and their first contents."""
        bound = program.bind(problem, side, problem.sizes.headline)
        values = contents.generate(problem, side, problem.sizes.headline, 20261121)
        entries = [EntryPoint(*entry) for entry in bound.entry_points]
        compiled = open_compiler("cuda").compile(side.code, entries, bound.symbols)
        if not isinstance(compiled, Compiled):
            raise KcurateError(f"does not compile: {compiled.log[:200]}")
        prepared = Prepared(self.device, self.device.load(compiled), bound, values)
        prepared.reset(0xDEADBEEF)
        prepared.run()
        self.device.synchronize()
        return prepared, values


class Table(Bench):
    """A GPU with torch on the same stream."""

    def __init__(self, gpu: int) -> None:
        import torch

        torch.cuda.init()
        torch.cuda.set_device(gpu)
        torch.backends.cuda.matmul.allow_tf32 = False
        self.torch = torch
        super().__init__(gpu)
        self.stream = torch.cuda.ExternalStream(int(self.device.stream))


def measure(table: Table, rival: Rival, blocks: int, rng: random.Random) -> dict[str, Any]:
    """Both sides' times on one set of inputs."""
    torch = table.torch
    candidate = store.read_candidate(resources.pairs_dir() / rival.pair)
    problem, side = candidate.problem, candidate.fast
    assert problem is not None
    prepared, values = table.load(problem, side)
    ours = np.asarray(prepared.outputs()[rival.output], np.float64).ravel()
    prepared.reset(0xDEADBEEF)
    with torch.cuda.stream(table.stream), restorer(table, prepared) as restore:
        inputs = {name: torch.from_numpy(value).cuda() for name, value in values.items()}
        call = rival.make(inputs, torch)
        answer = call()
        table.device.synchronize()
        theirs = np.asarray(_host(answer), np.float64).ravel()
        if "inclusive" in rival.library:
            theirs = np.concatenate([[0.0], theirs[:-1]])
        error = float(np.linalg.norm(ours - theirs) / max(float(np.linalg.norm(theirs)), 1e-300))
        if error > rival.tolerance:
            raise KcurateError(f"the outputs differ, relative norm {error:.2e}")
        work = {"ours": prepared.run, "library": call}
        for _ in range(WARM_UPS):
            for run in work.values():
                table.sample(run, restore)
        samples: dict[str, list[list[float]]] = {"ours": [], "library": []}
        for _ in range(blocks):
            for name in rng.sample(list(work), 2):
                samples[name].append([table.sample(work[name], restore) for _ in range(SAMPLES)])
    medians: dict[str, list[float]] = {
        name: [statistics.median(block) for block in rows] for name, rows in samples.items()
    }
    ratios = [b / a for a, b in zip(medians["ours"], medians["library"], strict=True)]
    least = roofline.least_work(candidate.family, problem)
    assert least is not None
    prepared.close()
    return {
        "pair": rival.pair,
        "library": rival.library,
        "relative_error": error,
        "ours_us": statistics.median(medians["ours"]),
        "library_us": statistics.median(medians["library"]),
        "ratio": statistics.median(ratios),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
        "moved_bytes": least.moved_bytes,
        "sizes": dict(problem.sizes.headline),
        "samples_us": samples,
    }


@contextlib.contextmanager
def restorer(table: Bench, prepared: Prepared) -> Iterator[Callable[[], None]]:
    """What gives every `inout` buffer the contents that it has now, from a copy on the device."""
    kept = []
    for slot in prepared.slots.values():
        if slot.buffer.record.role == "inout":
            size = slot.buffer.size_bytes
            copy = table.device.allocate(size)
            table.device.copy(copy, 0, slot.memory, slot.before, size)
            kept.append((slot, copy, size))

    def restore() -> None:
        for slot, copy, size in kept:
            table.device.copy(slot.memory, slot.before, copy, 0, size)

    yield restore
    for _, copy, _ in kept:
        table.device.free(copy)


def _host(value: Any) -> Any:
    return value.cpu().numpy() if hasattr(value, "cpu") else value.get()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    table = Table(options.gpu)
    copy = table.copy_bytes_per_s()
    rng = random.Random(7)
    rows = []
    print(f"copy: {copy / 1e12:.2f} TB/s (read plus written)")
    print(f"{'pair':46} {'library':30} {'ours us':>9} {'library us':>10} {'ratio':>6} {'of copy':>8}")
    for rival in RIVALS:
        try:
            row = measure(table, rival, options.blocks, rng)
        except (KcurateError, RuntimeError, ImportError) as error:
            print(f"{rival.pair:46} {rival.library:30} failed: {str(error)[:200]}")
            continue
        row["copy_fraction"] = row["moved_bytes"] / (row["ours_us"] * 1e-6) / copy
        rows.append(row)
        print(
            f"{rival.pair:46} {rival.library:30} {row['ours_us']:9.1f} {row['library_us']:10.1f} "
            f"{row['ratio']:6.2f} {100 * row['copy_fraction']:7.0f}%"
        )
    if options.out:
        import dataclasses

        environment = dataclasses.asdict(table.device.environment())
        data = {"copy_bytes_per_s": copy, "environment": environment, "rows": rows}
        options.out.write_text(json.dumps(data, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
