"""Rows of `explained`: the answers of `sft`, preceded by the measurements, and with comments.

The diagnosis has facts of the given side, the change those of the answer beside it: times and resources of
the verdict, launches of the plans, and counters where both sides have profiles on the row's GPU. A counter is
mentioned only above a threshold, most significant first, and only if the answer changes it (`material`); a
technique that counters can show is named only if they do, or if taking it away was measured to cost time. Not
covered: the sentences (`kcurate.prompts.explained`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kcurate import prompts
from kcurate.core import store
from kcurate.dataset.material import DRAM, STALLS, material
from kcurate.errors import ProblemError
from kcurate.problem import shown
from kcurate.problem.expressions import evaluate
from kcurate.problem.neutral import commented
from kcurate.problem.program import launch_count, names_of
from kcurate.problem.techniques import shown_in, vocabulary
from kcurate.profiling import counters, technique_counters
from kcurate.prompts.explained import Fact, say, write
from kcurate.records import SIDES, Candidate, Launch, Problem, Profile, Side, steps

Both = tuple[Profile, Profile]
# The most facts about a side's counters, and the most techniques with their meaning.
MOST = 3
# The minimum value at which a counter is mentioned: sectors a warp's access (coalesced accesses of 16 bytes a
# thread touch up to `technique_counters.WIDE[1]`), and cycles of a stall an instruction.
SECTORS, CYCLES = 8.0, 4.0
WIDE = "vectorized-access"
# The only counter that improves by rising.
OCCUPIED = "occupancy_pct"
# Conflicts as a share of shared memory's passes; issue, FP64 and occupancy (a maximum) in percent; local
# memory's share of L2 traffic.
CONFLICTS, ISSUE, FP64, OCCUPANCY, LOCAL_SHARE = 0.2, 60.0, 50.0, 25.0, 0.1


def explained(row: Mapping[str, Any], pair: Candidate, both: Both | None) -> str:
    """The answer to a pair's prompt in three parts; `pair` as published, `row` its row.

    `both`: the profiles of its sides on the row's GPU.
    """
    code = row["fast_original"] and commented(row["fast_original"])
    if not code or shown.shown_code(code) != pair.fast.code:
        code = pair.fast.code
    answer = shown.answer_of(pair.fast, pair.slow)
    written = prompts.write_answer(prompts.Answer(code, answer.plan, answer.buffers))
    first, second = diagnosis(row, pair, both), change(row, pair, both)
    return write(_said(pair.id, first), _said(pair.id, second), written)


def _said(name: str, facts: Iterator[Fact]) -> list[str]:
    return [say(fact, int(store.content_id(name, fact.kind, str(at)), 16)) for at, fact in enumerate(facts)]


def number(value: float) -> str:
    """A number with three digits, or all of a large one."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def share(value: float) -> str:
    """A share of one as percent."""
    return f"{100 * value:.3g}%"


def diagnosis(row: Mapping[str, Any], pair: Candidate, both: Both | None) -> Iterator[Fact]:
    """What was measured of the given side."""
    yield Fact("time", {"us": number(row["slow_us"]), "gpu": row["device"]})
    if row["copy_fraction"]:
        yield Fact("reach", {"share": share(row["copy_fraction"] * row["fast_us"] / row["slow_us"])})
    if (count := launches(pair.problem, pair.slow)) is not None and count > 1:
        yield Fact("launches", {"count": _launches(count)})
    for kernel, local in _local(row["slow_resources"]):
        yield Fact("local", {"kernel": kernel, "bytes": str(local)})
    if both is not None:
        yield from list(limits(pair, both))[:MOST]


def limits(pair: Candidate, both: Both) -> Iterator[Fact]:
    """What the counters of the given side show that the answer improves, most significant first."""
    every, after = (side.counters for side in both)
    sectors = technique_counters.WIDE[1] if WIDE in shown_in(pair.slow.code) else SECTORS
    measured = {
        name: value
        for name, value in every.items()
        if material(name, pair, both) and (after[name] > value) == (name == OCCUPIED)
    }
    for name in ("load_sectors", "store_sectors"):
        if measured.get(name, 0.0) >= sectors:
            yield Fact(name, {"count": number(measured[name])})
    if measured.get("local_bytes", 0.0) >= LOCAL_SHARE * every.get("l2_bytes", 0.0) and measured.get(
        "local_bytes"
    ):
        yield Fact("local_traffic", {"bytes": counters.shown("local_bytes", measured["local_bytes"])})
    passes = every.get("shared_wavefronts", 0.0)
    if passes and measured.get("shared_conflicts", 0.0) >= CONFLICTS * passes:
        yield Fact("conflicts", {"share": share(measured["shared_conflicts"] / passes)})
    waits = {name: measured[name] for name in STALLS if measured.get(name, 0.0) >= CYCLES}
    if waits:
        most = max(waits, key=lambda name: waits[name])
        yield Fact(most, {"cycles": number(waits[most])})
    for kind, name, least in (("fp64", "fp64_pct", FP64), ("issue", "issue_pct", ISSUE)):
        if measured.get(name, 0.0) >= least:
            yield Fact(kind, {"share": share(measured[name] / 100)})
    if 0 < measured.get(OCCUPIED, 100.0) < OCCUPANCY:
        yield Fact("occupancy", {"share": share(measured[OCCUPIED] / 100)})
    if measured.get("atomics"):
        yield Fact("atomics", {"count": number(measured["atomics"])})
    if any(name in measured for name in DRAM) and all(name in every for name in DRAM):
        read, wrote = (counters.shown(name, every[name]) for name in DRAM)
        yield Fact("dram", {"read": read, "write": wrote})


def change(row: Mapping[str, Any], pair: Candidate, both: Both | None) -> Iterator[Fact]:
    """What was measured of the answer beside the given side; the gain comes last."""
    yield from techniques(pair, both)
    before, after = (launches(pair.problem, side) for side in (pair.slow, pair.fast))
    if before is not None and after is not None and before != after:
        yield Fact("other_launches", {"count": _launches(after), "before": _launches(before)})
    registers = (_most(row[f"{side}_resources"], "registers") for side in SIDES)
    shared = (_shared(pair.problem, getattr(pair, side), row[f"{side}_resources"]) for side in SIDES)
    for kind, field, (slow, fast) in (("registers", "count", registers), ("shared", "bytes", shared)):
        if slow is not None and fast is not None and slow != fast:
            yield Fact(kind, {field: str(fast), "before": str(slow)})
    yield Fact(
        "gain",
        {
            "us": number(row["fast_us"]),
            "before": number(row["slow_us"]),
            "ratio": f"{row['speedup']:.2f}",
            "low": f"{row['speedup_low']:.2f}",
            "high": f"{row['speedup_high']:.2f}",
        },
    )


def techniques(pair: Candidate, both: Both | None) -> Iterator[Fact]:
    """The techniques, the first ones with their meaning and the counter each changes; no counter twice."""
    known = vocabulary()
    moves_of: dict[str, list[technique_counters.Move]] = {}
    for name in pair.techniques:
        there = technique_counters.moves(name, *both) if both is not None else []
        moved = [move for move in there if move.right and both and material(move.counter, pair, both)]
        moved = [move for move in moved if name != WIDE or _widened(move, pair.fast.code)]
        if name in known and (moved or not there or name in pair.worth):
            moves_of[name] = moved
    mentioned = {technique_counters.LAUNCHES, technique_counters.CONFLICTS}
    for name in list(moves_of)[:MOST]:
        meaning = known[name].meaning.rstrip(".")
        yield Fact("technique", {"name": name, "meaning": meaning[0].lower() + meaning[1:]})
        if name in pair.worth:
            yield Fact("worth", {"name": name, "ratio": f"{pair.worth[name]:.2f}"})
        for move in moves_of[name]:
            if move.counter in mentioned:
                continue
            mentioned.add(move.counter)
            yield _move(move)
            break
    if rest := list(moves_of)[MOST:]:
        yield Fact("further", {"names": ", ".join(rest)})


def _widened(move: technique_counters.Move, code: str) -> bool:
    """Whether sector counts are evidence of vectorized access: the code has some, and few sectors.

    Matrix-fragment loads touch as many sectors, in pieces of 4 bytes.
    """
    if not move.counter.endswith("_sectors"):
        return True
    return WIDE in shown_in(code) and move.fast <= technique_counters.WIDE[1]


def _launches(count: int) -> str:
    return f"{count} launch" if count == 1 else f"{count} launches"


def _move(move: technique_counters.Move) -> Fact:
    before, after = (counters.shown(move.counter, value) for value in (move.slow, move.fast))
    return Fact("moves", {"counter": counters.BY_NAME[move.counter].text, "before": before, "after": after})


def launches(problem: Problem | None, side: Side) -> int | None:
    """The launches of a plan at the headline bench size; None if they are data-dependent."""
    if problem is None or side.language != "cuda":
        return None
    return launch_count(side.plan, names_of(problem, problem.sizes.headline))


def _local(resources: str) -> Iterator[tuple[str, int]]:
    """Kernels with local memory, and how much a thread has."""
    for kernel in json.loads(resources):
        if kernel.get("local_bytes"):
            yield kernel["kernel"], kernel["local_bytes"]


def _shared(problem: Problem | None, side: Side, resources: str) -> int | None:
    """The most shared memory that a block of a plan has, dynamic as well; None if it is not known."""
    static = [
        (kernel_resources["kernel"], kernel_resources["shared_bytes"])
        for kernel_resources in json.loads(resources)
        if "shared_bytes" in kernel_resources
    ]
    if problem is None or not static or None in dict(static).values():
        return None
    names, sizes_of_launches = names_of(problem, problem.sizes.headline), []
    for step in steps(side.plan):
        if isinstance(step, Launch):
            name = step.launch.rpartition("::")[2]
            # Resources may name a kernel as mangled, which has the name after its length (`5scale`).
            of_kernel = [size for kernel, size in static if kernel == name or f"{len(name)}{name}" in kernel]
            try:
                sizes_of_launches.append(max(of_kernel, default=0) + evaluate(step.shared_bytes, names))
            except ProblemError:  # data-dependent
                return None
    return max(sizes_of_launches, default=0)


def _most(resources: str, what: str) -> int | None:
    amounts = [kernel[what] for kernel in json.loads(resources) if kernel.get(what) is not None]
    return max(amounts, default=None)
