"""The process under a profiler: runs one side after the other, each from the state that timing starts from.

Before a side's launches its buffers get new places and new noise, inputs are copied in, and the L2 cache is
flushed. `log` says how many launches of each side are recorded, and what each stands for. Not covered: which
launches (`kcurate.backends.cuda.recorded_launches`), the profiler (`kcurate.profiling.profiler`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kcurate.backends.base import EntryPoint, KernelFault
from kcurate.backends.cuda.recorded_launches import ProfiledDevice, spread
from kcurate.backends.cuda.timer import GpuTimer
from kcurate.judge.workers.inside import isolation
from kcurate.judge.workers.inside.arena import Arena
from kcurate.judge.workers.inside.execute import DeviceProgram
from kcurate.judge.workers.inside.input_sets import InputSet
from kcurate.judge.workers.messages import read_request, unpack_compiled
from kcurate.judge.workers.requests import Generate, Load
from kcurate.judge.workers.timing_requests import Helpers
from kcurate.problem.bind_once import bind_once
from kcurate.problem.inputs import contents


def main(folder: str) -> None:
    """Run the sides of `job.json`, until one fails. The first recorded launch is our own."""
    root = Path(folder)
    job: Mapping[str, Any] = json.loads((root / "job.json").read_text())
    with (root / "log").open("a", buffering=1) as log:
        device = ProfiledDevice(job["gpu"])
        helpers = read_request(job["helpers"])
        assert isinstance(helpers, Helpers)
        timer = GpuTimer(device, unpack_compiled(helpers.compiled, {"binary": binary(root, "helpers")}))
        device.record(timer.empty)
        isolation.enter("run", "cuda", also=[root / job["writable"]])
        for name, load, inputs in sides(job):
            tell(log, side=name)
            try:
                recorded, launches = profile(device, timer, load, inputs, binary(root, name))
            except KernelFault as fault:  # this process's context is unusable
                tell(log, side=name, recorded=device.recorded, failed=f"{fault.reason}: {fault.what}")
                return
            tell(log, side=name, recorded=recorded, launches=launches)


def sides(job: Mapping[str, Any]) -> Iterator[tuple[str, Load, Generate]]:
    """The sides of a job: a name, what to load, and which inputs."""
    for name, load, inputs in job["sides"]:
        loaded, asked = read_request(load), read_request(inputs)
        assert isinstance(loaded, Load)
        assert isinstance(asked, Generate)
        yield name, loaded, asked


def binary(root: Path, name: str) -> Any:
    """The bytes of a cubin."""
    return np.frombuffer((root / f"{name}.bin").read_bytes(), np.uint8)


def tell(log: TextIO, **what: Any) -> None:
    """Write one line of the log."""
    log.write(json.dumps(what) + "\n")


def profile(
    device: ProfiledDevice, timer: GpuTimer, load: Load, inputs: Generate, code: Any
) -> tuple[list[float], int]:
    """Run a side once to count its launches, then with the profiler; the weights recorded, and the count."""
    module = device.load(unpack_compiled(load.compiled, {"binary": code}))
    bound = bind_once(load.problem, load.side, inputs.sizes)
    recipes = contents.recipes(load.problem, load.side, inputs.sizes, inputs.seed)
    arena = Arena(timer)
    input_set = InputSet(timer, bound, *recipes, arena)
    device.recorded = []
    counts: Counter[EntryPoint] = Counter()
    for recording in (False, True):
        prepared: DeviceProgram = input_set.at_new_addresses(module)
        arena.renew()
        prepared.reset(arena.salt)
        timer.reset_persisting()
        timer.flush()
        device.synchronize()
        device.chosen, device.counts = spread(counts) if recording else {}, Counter()
        prepared.run()
        device.synchronize()
        device.chosen, counts = {}, device.counts
    input_set.close()
    arena.close()
    device.shrink()
    return device.recorded, counts.total()
