"""The least work of each built-in family, and the shortest time that a GPU's data sheet allows for it.

`pairs/roofline.json` has the counts, as expressions over the problem's sizes. Not covered: the bandwidth that
memory reaches in practice, the table and the plot (`benchmarks/roofline.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kcurate.core import resources
from kcurate.errors import ProblemError
from kcurate.problem.expressions import evaluate
from kcurate.problem.outputs import logical_bytes
from kcurate.records import Problem

# Bytes of a sector, the unit in which device memory is read.
SECTOR = 32
GATHER = "gather"
EVERY = "every buffer"
# What a target counts, by limit; any other limit is a type of operations.
_COUNTED = {
    EVERY: "reading every input once and writing every output once takes",
    "bytes": "moving once what must be read and written takes",
    GATHER: "moving once what must be read and written, and 32 bytes for each gather, takes",
    "alu": "the fewest known simple 32-bit operations take",
    "special": "the fewest known operations of the special function units take",
}


@dataclass(frozen=True)
class LeastWork:
    """The least traffic and the fewest operations of a family at its headline size."""

    read_bytes: int
    written_bytes: int
    gathered_bytes: int
    operations: Mapping[str, int]

    @property
    def moved_bytes(self) -> int:
        """Every distinct byte once, bytes of `inout` buffers twice."""
        return self.read_bytes + self.written_bytes

    def times_us(self, peaks: Mapping[str, float]) -> Mapping[str, float]:
        """The shortest time by each limit; `gather` adds to `bytes` the whole sectors that gathers move."""
        seconds = {unit: count / peaks[unit] for unit, count in self.operations.items()}
        seconds["bytes"] = self.moved_bytes / peaks["bytes"]
        if self.gathered_bytes:
            seconds[GATHER] = (self.moved_bytes + self.gathered_bytes) / peaks["bytes"]
        return {limit: time * 1e6 for limit, time in seconds.items()}


@cache
def on_file() -> Mapping[str, Any]:
    """`pairs/roofline.json`: `families` and `peaks`."""
    data: Mapping[str, Any] = json.loads((resources.pairs_dir() / "roofline.json").read_text("utf-8"))
    return data


def least_work(family: str, problem: Problem) -> LeastWork | None:
    """The least work of a family that is on file; None for others, and for other problems of its name.

    Composed problems of a family have other types (only these have a reference), a stranger's other sizes.
    """
    facts = on_file()["families"].get(family)
    if facts is None or problem.reference is not None:
        return None
    names = {**problem.sizes.headline, **facts.get("counts", {})}
    try:
        return LeastWork(
            evaluate(facts["read"], names),
            evaluate(facts["written"], names),
            SECTOR * evaluate(facts.get("sectors", 0), names),
            {unit: evaluate(count, names) for unit, count in facts["operations"].items()},
        )
    except ProblemError:
        return None


def target(problem: Problem, family: str, device: str) -> str:
    """The least time by the data sheet of a GPU, and what it counts; empty where that is not known.

    Of a family that is not on file only memory counts. It is no bound where data name what is read: a gather
    may leave most of an input alone, and a cache may answer. So the text says what is counted.
    """
    peaks = on_file()["peaks"].get(device)
    if peaks is None:
        return ""
    work = least_work(family, problem)
    if work is None:
        moved = sum(
            logical_bytes(buffer, problem.sizes.headline) * (2 if buffer.role == "inout" else 1)
            for buffer in problem.buffers.values()
            if buffer.role != "scratch"
        )
        times: Mapping[str, float] = {EVERY: moved / peaks["bytes"] * 1e6}
    else:
        times = work.times_us(peaks)
    limit, least_us = max(times.items(), key=lambda entry: entry[1])
    counted = _COUNTED.get(limit, f"the fewest known {limit} operations take")
    shown = f"{least_us:,.0f}" if least_us >= 1000 else f"{least_us:.3g}"
    return f"Target: by the data sheet, {counted} {shown} us at the bench size."
