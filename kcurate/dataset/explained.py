"""Rows of `explained`: the answers of `sft`, with comments, after a diagnosis and what the answer changes.

The diagnosis states measurements of the given side, the change compares them with those of the answer: times
and resources from the verdict, launches from the plans, and hardware counters if both sides have profiles on
the row's GPU. A counter is mentioned only above a threshold, most significant first, and only if the answer
changes it enough (`material`). A technique that counters can show is named only if they do, or if an ablation
showed that it saves time. Not covered: the sentences (`kcurate.prompts.explained`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kcurate import prompts
from kcurate.core import store
from kcurate.errors import ProblemError
from kcurate.problem import shown
from kcurate.problem.expressions import evaluate
from kcurate.problem.neutral import commented
from kcurate.problem.outputs import logical_bytes
from kcurate.problem.program import launch_count, names_of
from kcurate.problem.techniques import shown_in, vocabulary
from kcurate.profiling import counters, technique_counters
from kcurate.prompts.explained import Fact, say, write
from kcurate.records import SIDES, Candidate, Launch, Problem, Profile, Side, steps

Both = tuple[Profile, Profile]
# At most this many facts about a side's counters, and techniques explained in words.
MOST = 3
# A counter is mentioned from this value on: sectors per access of a warp (coalesced accesses of 16 bytes a
# thread touch up to `technique_counters.WIDE[1]`), and stall cycles per instruction.
SECTORS, CYCLES = 8.0, 4.0
WIDE = "vectorized-access"
# The only counter that improves by rising.
OCCUPIED = "occupancy_pct"
# Conflicts as a share of shared memory's passes; issue, FP64 and occupancy (a maximum) in percent; local
# memory's share of L2 traffic.
CONFLICTS, ISSUE, FP64, OCCUPANCY, LOCAL_SHARE = 0.2, 60.0, 50.0, 25.0, 0.1
# A change is material from this share of the counter's whole on.
LEAST_CHANGE = 0.1
DRAM = ("dram_read_bytes", "dram_write_bytes")
STALLS = ("stall_memory", "stall_shared", "stall_barrier", "stall_math")
# How many issued instructions one unit of a counter stands for: a pass of shared memory takes a cycle, in
# which the four schedulers of a multiprocessor issue; an atomic is counted for each of a warp's 32 threads.
ISSUED = {"shared_wavefronts": 4.0, "shared_conflicts": 4.0, "atomics": 32.0}
_SECTORS = {"load_sectors": ("in", "inout", "scratch"), "store_sectors": ("out", "inout", "scratch")}


def explained(row: Mapping[str, Any], pair: Candidate, both: Both | None) -> str:
    """The answer to a pair's prompt in three parts; `pair` as published, `row` its row of `pairs`.

    `both`: the profiles of the slow and the fast side on the row's GPU.
    """
    answer, language = shown.answer_of(pair.fast, pair.slow), pair.fast.language
    code = commented(row["fast_original"]) if row["fast_original"] and language == "cuda" else ""
    if not code or shown.shown_code(code) != pair.fast.code:
        code = answer.code
    written = prompts.write_answer(prompts.Answer(code, answer.plan, answer.buffers), language)
    first, second = diagnosis(row, pair, both), change(row, pair, both)
    return write(_sentences(pair.id, first), _sentences(pair.id, second), written)


def _sentences(name: str, facts: Iterator[Fact]) -> list[str]:
    """A sentence for each fact; the number chooses among several wordings, always the same for one pair."""
    return [say(fact, int(store.content_id(name, fact.kind, str(i)), 16)) for i, fact in enumerate(facts)]


def number(value: float) -> str:
    """A number to three significant digits; from 1,000 on all digits before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def share(value: float) -> str:
    """A share from 0 to 1 as a percentage."""
    return f"{100 * value:.3g}%"


def diagnosis(row: Mapping[str, Any], pair: Candidate, both: Both | None) -> Iterator[Fact]:
    """Measurements of the given side."""
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
    """Limits of the given side, shown by its counters, that the answer improves; most significant first."""
    before, after = (side.counters for side in both)
    improved = {
        name: value
        for name, value in before.items()
        if material(name, pair, both) and (after[name] > value) == (name == OCCUPIED)
    }
    yield from _access_limits(pair.slow.code, before, improved)
    stalls = {name: improved[name] for name in STALLS if improved.get(name, 0.0) >= CYCLES}
    if stalls:
        longest = max(stalls, key=lambda name: stalls[name])
        yield Fact(longest, {"cycles": number(stalls[longest])})
    for kind, name, least in (("fp64", "fp64_pct", FP64), ("issue", "issue_pct", ISSUE)):
        if improved.get(name, 0.0) >= least:
            yield Fact(kind, {"share": share(improved[name] / 100)})
    if 0 < improved.get(OCCUPIED, 100.0) < OCCUPANCY:
        yield Fact("occupancy", {"share": share(improved[OCCUPIED] / 100)})
    if improved.get("atomics"):
        yield Fact("atomics", {"count": number(improved["atomics"])})
    if any(name in improved for name in DRAM) and all(name in before for name in DRAM):
        read, wrote = (counters.shown(name, before[name]) for name in DRAM)
        yield Fact("dram", {"read": read, "write": wrote})


def _access_limits(code: str, before: Mapping[str, float], improved: Mapping[str, float]) -> Iterator[Fact]:
    """Uncoalesced accesses, traffic of local memory, and bank conflicts."""
    sectors = technique_counters.WIDE[1] if WIDE in shown_in(code) else SECTORS
    for name in ("load_sectors", "store_sectors"):
        if improved.get(name, 0.0) >= sectors:
            yield Fact(name, {"count": number(improved[name])})
    local = improved.get("local_bytes", 0.0)
    if local and local >= LOCAL_SHARE * before.get("l2_bytes", 0.0):
        yield Fact("local_traffic", {"bytes": counters.shown("local_bytes", local)})
    passes = before.get("shared_wavefronts", 0.0)
    if passes and improved.get("shared_conflicts", 0.0) >= CONFLICTS * passes:
        yield Fact("conflicts", {"share": share(improved["shared_conflicts"] / passes)})


def material(counter: str, pair: Candidate, both: Both) -> bool:
    """Whether a counter changes by `LEAST_CHANGE` of its whole from the given side to the answer.

    The whole is: for traffic of device memory the reads and writes of the given side; for a stall reason the
    sum of its `STALLS`; for passes of shared memory and atomics its instructions (`ISSUED`); for local memory
    its L2 traffic; for a percentage 100; for launches, instructions, L2 traffic and sectors the larger of
    both sides' values. A change in sectors is weighted by the part of the problem's bytes that is loaded, or
    stored.
    """
    slow, fast = (technique_counters.value(side, counter) for side in both)
    if slow is None or fast is None:
        return False
    before = both[0].counters
    if counter.endswith("_pct"):
        whole = 100.0
    elif counter in DRAM or counter in STALLS:
        whole = sum(before.get(name, 0.0) for name in (DRAM if counter in DRAM else STALLS))
    elif counter in ISSUED:
        whole = before.get("instructions", 0.0) / ISSUED[counter]
    elif counter == "local_bytes":
        whole = before.get("l2_bytes", 0.0)
    else:
        whole = max(slow, fast)
    change = abs(fast - slow) * _weight(counter, pair)
    return change > 0 and change >= LEAST_CHANGE * whole


def _weight(counter: str, pair: Candidate) -> float:
    """The share of the buffers' bytes that a sector counter is about; 1 for other counters."""
    if counter not in _SECTORS or pair.problem is None:
        return 1.0
    problem = pair.problem
    buffers = [*problem.buffers.values(), *pair.slow.buffers.values()]
    sizes = [(buffer.role, logical_bytes(buffer, problem.sizes.headline)) for buffer in buffers]
    total = sum(size for _, size in sizes)
    return sum(size for role, size in sizes if role in _SECTORS[counter]) / total if total else 0.0


def change(row: Mapping[str, Any], pair: Candidate, both: Both | None) -> Iterator[Fact]:
    """Measurements of the answer compared with those of the given side; the speedup comes last."""
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
    """The techniques, the first ones with their meaning and the counter that each changes.

    No counter is mentioned twice; launches and bank conflicts are left to their own facts.
    """
    defined = vocabulary()
    evidence: dict[str, list[technique_counters.Move]] = {}
    for name in pair.techniques:
        moves = technique_counters.moves(name, *both) if both is not None else []
        right = [move for move in moves if move.right and both and material(move.counter, pair, both)]
        right = [move for move in right if name != WIDE or _widened(move, pair.fast.code)]
        if name in defined and (right or not moves or name in pair.worth):
            evidence[name] = right
    mentioned = {technique_counters.LAUNCHES, technique_counters.CONFLICTS}
    for name in list(evidence)[:MOST]:
        meaning = defined[name].meaning.rstrip(".")
        yield Fact("technique", {"name": name, "meaning": meaning[0].lower() + meaning[1:]})
        if name in pair.worth:
            yield Fact("worth", {"name": name, "ratio": f"{pair.worth[name]:.2f}"})
        move = next((move for move in evidence[name] if move.counter not in mentioned), None)
        if move is not None:
            mentioned.add(move.counter)
            yield _move(move)
    if further := list(evidence)[MOST:]:
        yield Fact("further", {"names": ", ".join(further)})


def _widened(move: technique_counters.Move, code: str) -> bool:
    """Whether a move is evidence of vectorized access: for sectors, the code has it and they are few.

    Loads of matrix fragments touch as many sectors, in pieces of 4 bytes.
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
    """The number of launches in a plan at the headline size; None if it depends on data."""
    if problem is None or side.language != "cuda":
        return None
    return launch_count(side.plan, names_of(problem, problem.sizes.headline))


def _local(resources: str) -> Iterator[tuple[str, int]]:
    """The kernels that use local memory, and its bytes per thread."""
    for kernel in json.loads(resources):
        if kernel.get("local_bytes"):
            yield kernel["kernel"], kernel["local_bytes"]


def _shared(problem: Problem | None, side: Side, resources: str) -> int | None:
    """The largest shared memory of a block, static and dynamic, over a plan's launches; None if unknown."""
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
            # Resources may have the mangled name, in which the name follows its length (`5scale`).
            of_kernel = [size for kernel, size in static if kernel == name or f"{len(name)}{name}" in kernel]
            try:
                sizes_of_launches.append(max(of_kernel, default=0) + evaluate(step.shared_bytes, names))
            except ProblemError:  # data-dependent
                return None
    return max(sizes_of_launches, default=0)


def _most(resources: str, name: str) -> int | None:
    amounts = [kernel[name] for kernel in json.loads(resources) if kernel.get(name) is not None]
    return max(amounts, default=None)
