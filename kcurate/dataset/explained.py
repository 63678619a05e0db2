"""Rows of `explained`: the answers of `sft`, with comments, after a diagnosis and what the answer changes.

The prompt lists the measurements of the given side (`measured`); the answer states nothing else. Its
diagnosis repeats times, launches and the counters that limit the given side: above a threshold, most
significant first, and only if the answer changes it enough (`material`). Its change names a technique as a
cause only if removing it cost time, or if the rung of a ladder that adds only this technique gains. Not
covered: the sentences (`kcurate.prompts.explained`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcurate import prompts
from kcurate.core import store
from kcurate.problem import shown
from kcurate.problem.neutral import commented
from kcurate.problem.outputs import logical_bytes
from kcurate.problem.program import launch_count, names_of
from kcurate.problem.techniques import shown_in, vocabulary
from kcurate.profiling import counters, technique_counters
from kcurate.prompts.explained import Fact, say, write
from kcurate.records import Candidate, Problem, Profile, Side

Both = tuple[Profile, Profile]
# At most this many facts about a side's counters, and techniques explained in words.
MOST = 3
# A counter is mentioned from this value on: sectors per access of a warp (coalesced accesses of 16 bytes a
# thread touch up to `technique_counters.WIDE[1]`), and stall cycles per instruction.
SECTORS, CYCLES = 8.0, 4.0
WIDE = "vectorized-access"
# Less than this is no cause; a technique whose name says nothing of what was done.
LEAST_GAIN = 1.05
_SAYS_NOTHING = "algorithmic-improvement"
_RESOURCES = {
    "registers": "registers a thread",
    "shared_bytes": "bytes of static shared memory a block",
    "local_bytes": "bytes of local memory a thread",
}
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


def explained(
    row: Mapping[str, Any],
    pair: Candidate,
    both: Both | None,
    causes: Mapping[str, float],
    technique: str | None = None,
) -> str | None:
    """The answer to a pair's prompt in three parts; None without a cause, or if the prompt's `technique` is
    not one.

    `pair`: as published; `row`: its row of `pairs`. `both`: the profiles of the slow and the fast side on the
    row's GPU. `causes`: by technique, how many times as long the answer takes without it.
    """
    answer, language = shown.answer_of(pair.fast, pair.slow), pair.fast.language
    code = commented(row["fast_original"]) if row["fast_original"] and language == "cuda" else ""
    if not code or shown.shown_code(code) != pair.fast.code:
        code = answer.code
    written = prompts.write_answer(prompts.Answer(code, answer.plan, answer.buffers), language)
    diagnosis_facts, change_facts = diagnosis(row, pair, both), list(techniques(causes))
    if not change_facts or technique not in (None, *named(causes)):
        return None
    change_facts += _launched(pair)
    return write(_sentences(pair.id, diagnosis_facts), _sentences(pair.id, iter(change_facts)), written)


def measured(row: Mapping[str, Any], pair: Candidate, given: Profile | None) -> Iterator[str]:
    """The lines of a prompt about the given side: times, launches, resources, and counters if it has a
    profile."""
    for fact in _measurements(row, pair):
        yield say(fact, 0)
    for kernel in _named(row, pair):
        parts = ((kernel.get(key), words) for key, words in _RESOURCES.items())
        if listed := ", ".join(f"{amount} {words}" for amount, words in parts if amount is not None):
            yield f"Kernel {kernel['kernel']}: {listed}."
    if given is None:
        return
    for name, value in given.counters.items():
        yield f"{counters.BY_NAME[name].text}: {counters.shown(name, value)}"
    if share_of := _conflicts(given.counters):
        yield f"passes of shared memory that bank conflicts add: {share(share_of)}"


def _sentences(name: str, facts: Iterator[Fact]) -> list[str]:
    """A sentence for each fact; the number chooses among several wordings, always the same for one pair."""
    return [say(fact, int(store.content_id(name, fact.kind, str(i)), 16)) for i, fact in enumerate(facts)]


def number(value: float) -> str:
    """A number to three significant digits; from 1,000 on, with all digits before the decimal point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def share(value: float) -> str:
    """A share from 0 to 1 as a percentage."""
    return f"{100 * value:.3g}%"


def _measurements(row: Mapping[str, Any], pair: Candidate) -> Iterator[Fact]:
    """The given side's time, its share of the copy bandwidth, and its number of launches."""
    yield Fact("time", {"us": number(row["slow_us"]), "gpu": row["device"]})
    if row["copy_fraction"]:
        yield Fact("reach", {"share": share(row["copy_fraction"] * row["fast_us"] / row["slow_us"])})
    if (count := launches(pair.problem, pair.slow)) is not None and count > 1:
        yield Fact("launches", {"count": _launches(count)})


def diagnosis(row: Mapping[str, Any], pair: Candidate, both: Both | None) -> Iterator[Fact]:
    """Measurements of the given side."""
    yield from _measurements(row, pair)
    for kernel in _named(row, pair):
        if kernel.get("local_bytes"):
            yield Fact("local", {"kernel": kernel["kernel"], "bytes": str(kernel["local_bytes"])})
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
        yield Fact("atomics", {"count": counters.shown("atomics", improved["atomics"]).split()[0]})
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
    conflicts = _conflicts(before)
    if "shared_conflicts" in improved and conflicts >= CONFLICTS:
        yield Fact("conflicts", {"share": share(conflicts)})


def _conflicts(values: Mapping[str, float]) -> float:
    """The share of shared-memory passes that bank conflicts add; 0 if unknown."""
    passes = values.get("shared_wavefronts", 0.0)
    return values.get("shared_conflicts", 0.0) / passes if passes else 0.0


def material(counter: str, pair: Candidate, both: Both) -> bool:
    """Whether a counter changes by `LEAST_CHANGE` of its total from the given side to the answer.

    The total is: for traffic of device memory the reads and writes of the given side; for a stall reason the
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
    """The share of the buffers' bytes that a sector counter covers; 1 for other counters."""
    if counter not in _SECTORS or pair.problem is None:
        return 1.0
    problem = pair.problem
    buffers = [*problem.buffers.values(), *pair.slow.buffers.values()]
    sizes = [(buffer.role, logical_bytes(buffer, problem.sizes.headline)) for buffer in buffers]
    total = sum(size for _, size in sizes)
    return sum(size for role, size in sizes if role in _SECTORS[counter]) / total if total else 0.0


def named(causes: Mapping[str, float]) -> list[str]:
    """The techniques that an answer names as causes, the one that saves most first."""
    defined = vocabulary()
    causing = [
        name for name in causes if name in defined and name != _SAYS_NOTHING and causes[name] >= LEAST_GAIN
    ]
    return sorted(causing, key=lambda name: (-causes[name], name))[:MOST]


def techniques(causes: Mapping[str, float]) -> Iterator[Fact]:
    """The techniques that an answer names, with their meaning."""
    defined = vocabulary()
    for name in named(causes):
        meaning = defined[name].meaning.rstrip(".")
        yield Fact("technique", {"name": name, "meaning": meaning[0].lower() + meaning[1:]})


def _launched(pair: Candidate) -> Iterator[Fact]:
    """The fact on the number of launches, if it differs between the sides."""
    before, after = (launches(pair.problem, side) for side in (pair.slow, pair.fast))
    if before is not None and after is not None and before != after:
        yield Fact("other_launches", {"count": _launches(after), "before": _launches(before)})


def causes_of(
    pair: Candidate, speedup: float | None, slower: Iterable[tuple[Candidate, float]]
) -> Mapping[str, float]:
    """By technique, how many times as long a pair's fast side takes without it.

    From ablations (`worth`), from `slower` answers to the same prompt (with the least ratio of times) that
    lack one of the pair's techniques, and from the pair itself if a rule removed its only technique.
    """
    ratios = dict(pair.worth)
    for other, ratio in slower:
        added = set(pair.techniques) - set(other.techniques)
        if len(added) == 1 and set(other.techniques) <= set(pair.techniques):
            ratios[added.pop()] = ratio
    if pair.origin.rules and len(pair.techniques) == 1 and speedup is not None:
        ratios.setdefault(pair.techniques[0], speedup)
    return ratios


def _launches(count: int) -> str:
    return f"{count} launch" if count == 1 else f"{count} launches"


def launches(problem: Problem | None, side: Side) -> int | None:
    """The number of launches in a plan at the headline size; None if it depends on data."""
    if problem is None or side.language == "torch":
        return None
    return launch_count(side.plan, names_of(problem, problem.sizes.headline))


def _named(row: Mapping[str, Any], pair: Candidate) -> Iterator[Mapping[str, Any]]:
    """The resources of the given side's kernels that its code names.

    Kernels that are compiled once per size (templates, Triton) are left out: their names are the compiler's,
    and no record says which of them was timed.
    """
    words = frozenset(re.findall(r"\w+", pair.slow.code))
    yield from (kernel for kernel in json.loads(row["slow_resources"]) if kernel["kernel"] in words)
