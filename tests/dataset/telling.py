"""What an explained answer tells, sentence by sentence, compared with the records that it must come from."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from kcurate.core import resources
from kcurate.cuda_source import techniques
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.profiles.counters import BY_NAME
from kcurate.profiles.labels import EXPECTED
from kcurate.prompts.explained import CHANGE, DIAGNOSIS, Fact, heard, sentences
from kcurate.records import Candidate, For, Launch, Profile, Side, WhileNonzero, steps

Row = Mapping[str, Any]
Both = tuple[Profile, Profile] | None
Values = Mapping[str, str]
DRAM = ("dram_read_bytes", "dram_write_bytes")
STALLS = ("stall_memory", "stall_shared", "stall_barrier", "stall_math")
PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
# The part that a kind of fact belongs to: the given side's counters, or both sides.
OF_BOTH = {"technique", "worth", "further", "moves", "other_launches", "registers", "shared", "gain"}
COUNTED = {
    "load_sectors": "load_sectors",
    "store_sectors": "store_sectors",
    "stall_memory": "stall_memory",
    "stall_shared": "stall_shared",
    "stall_barrier": "stall_barrier",
    "stall_math": "stall_math",
    "local_traffic": "local_bytes",
    "issue": "issue_pct",
    "occupancy": "occupancy_pct",
    "fp64": "fp64_pct",
    "atomics": "atomics",
}


def near(text: str, value: float) -> bool:
    """Whether a text says this value, to three digits; a unit may follow."""
    number, _, unit = text.replace(",", "").partition(" ")
    scale = PREFIXES.get(number[-1:], 1.0)
    number = number.rstrip("kMGT%")
    if unit.endswith("B") and len(unit) == 2:
        scale = PREFIXES[unit[0]]
    return abs(float(number) * scale - value) <= 0.0051 * abs(value) + 1e-9


def shared(text: str, resources: str, side: Side) -> bool:
    """What the compiler counts of a kernel, and exactly that if no launch asks for more."""
    known = {int(one["shared_bytes"]) for one in json.loads(resources)}
    dynamic = [step.shared_bytes for step in steps(side.plan) if isinstance(step, Launch)]
    if all(isinstance(one, int) for one in dynamic):
        return int(text) in {a + int(b) for a in known for b in dynamic}
    return int(text) > min(known)


def launched(text: str, side: Side) -> bool:
    """At least as many launches as steps that launch, and exactly so many without loops."""
    number, _, noun = text.partition(" ")
    known = [step for step in steps(side.plan) if isinstance(step, Launch)]
    loops = any(isinstance(step, For | WhileNonzero) for step in steps(side.plan))
    exact = int(number) >= 1 if loops else int(number) == len(known)
    return exact and noun == ("launch" if number == "1" else "launches")


def supported(name: str, pair: Candidate, both: Both) -> bool:
    """Whether taking the technique away cost time, or one of its counters, if it has any, moves by a tenth of
    its whole as it should."""
    if both is None or name not in EXPECTED or name in pair.worth:
        return True
    found = list[bool]()
    for one in EXPECTED[name]:
        slow, fast = (counter(side, one[1:]) for side in both)
        if slow is None or fast is None:
            continue
        wide = name == "vectorized-access" and one.endswith("_sectors")
        bare = wide and (name not in techniques(pair.fast.code.encode()) or fast > 16.8)
        if one[0] == "=":
            level = fast < 5 if one[1:] == "conflict_pct" else 7.6 <= fast <= 16.8
            found.append(level and not bare and tenth(one[1:], pair, both))
        elif one[0] == "+" or slow >= least(one[1:], fast):
            more, less = (fast, slow) if one[0] == "+" else (slow, fast)
            found.append(more >= 1.05 * less and not bare and tenth(one[1:], pair, both))
    return any(found) or not found


def tenth(name: str, pair: Candidate, both: tuple[Profile, Profile]) -> bool:
    """Whether a counter changes by a tenth of its whole: the rule of docs/publishing.md, written again."""
    slow, fast = (counter(side, name) for side in both)
    if slow is None or fast is None or slow == fast:
        return False
    given = {one: counter(both[0], one) or 0.0 for one in (*DRAM, *STALLS, "instructions", "l2_bytes")}
    wholes = {
        **dict.fromkeys(DRAM, sum(given[one] for one in DRAM)),
        **dict.fromkeys(STALLS, sum(given[one] for one in STALLS)),
        **dict.fromkeys(("shared_wavefronts", "shared_conflicts"), given["instructions"] / 4),
        "atomics": given["instructions"] / 32,
        "local_bytes": given["l2_bytes"],
    }
    whole = 100.0 if name.endswith("_pct") else wholes.get(name, max(slow, fast))
    if name in ("load_sectors", "store_sectors"):
        whole /= part(pair, name == "store_sectors") or 1e-9
    return abs(fast - slow) >= 0.1 * whole * (1 - 1e-9)


def part(pair: Candidate, stored: bool) -> float:
    """The part of all buffers' bytes that is stored, or loaded."""
    assert pair.problem is not None
    sizes = pair.problem.sizes.headline
    total = moved = 0
    for one in (*pair.problem.buffers.values(), *pair.slow.buffers.values()):
        size = math.prod(evaluate(extent, sizes) for extent in one.shape) * numpy_dtype(one.dtype).itemsize
        total += size
        moved += size if one.role != ("in" if stored else "out") else 0
    return moved / total


def counter(side: Profile, name: str) -> float | None:
    if name == "conflict_pct":
        passes, found = side.counters.get("shared_wavefronts"), side.counters.get("shared_conflicts")
        return 100 * found / passes if passes and found is not None else None
    return float(side.launches) if name == "launches" else side.counters.get(name)


def least(name: str, fast: float) -> float:
    """From where on a counter of the slow side could fall."""
    if name == "launches":
        return 2
    if name.startswith("stall_"):
        return 0.5
    part = 0.300001 if name.startswith("shared_") else 0.0100001
    return 1.0 if name.endswith("_pct") else max(part * fast, 1e-9)


def a_move(values: Values, pair: Candidate, both: Both) -> bool:
    assert both is not None
    (name,) = [one.name for one in BY_NAME.values() if one.text == values["counter"]]
    slow, fast = (side.counters[name] for side in both)
    return near(values["before"], slow) and near(values["after"], fast) and tenth(name, pair, both)


def mended(name: str, pair: Candidate, both: Both) -> bool:
    """Whether the answer lowers what a diagnosis tells of, occupancy apart, by a tenth of its whole."""
    assert both is not None
    slow, fast = (counter(side, name) or 0.0 for side in both)
    return (fast > slow) == (name == "occupancy_pct") and tenth(name, pair, both)


def a_meaning(values: Values) -> bool:
    known = json.loads((resources.schemas_dir() / "techniques.json").read_text())["oneOf"]
    (meaning,) = [one["description"] for one in known if one["const"] == values["name"]]
    return bool(meaning.lower() == f"{values['meaning']}.".lower())


def holds(fact: Fact, row: Row, pair: Candidate, both: Both) -> bool:
    """Whether a fact is what the records say."""
    values = fact.values
    if fact.kind in COUNTED:
        assert both is not None
        (text,) = values.values()
        name = COUNTED[fact.kind]
        return near(text, both[0].counters[name]) and mended(name, pair, both)
    checks: dict[str, Callable[[], bool]] = {
        "time": lambda: near(values["us"], row["slow_us"]) and values["gpu"] == row["device"],
        "reach": lambda: near(values["share"], 100 * row["copy_fraction"] * row["fast_us"] / row["slow_us"]),
        "launches": lambda: launched(values["count"], pair.slow),
        "local": lambda: (
            (values["kernel"], int(values["bytes"]))
            in [(one["kernel"], one["local_bytes"]) for one in json.loads(row["slow_resources"])]
        ),
        "dram": lambda: (
            both is not None
            and near(values["read"], both[0].counters["dram_read_bytes"])
            and near(values["write"], both[0].counters["dram_write_bytes"])
            and any(mended(name, pair, both) for name in DRAM)
        ),
        "conflicts": lambda: (
            both is not None
            and near(
                values["share"],
                100 * both[0].counters["shared_conflicts"] / both[0].counters["shared_wavefronts"],
            )
            and mended("shared_conflicts", pair, both)
        ),
        "technique": lambda: (
            values["name"] in pair.techniques and supported(values["name"], pair, both) and a_meaning(values)
        ),
        "worth": lambda: (
            values["name"] in pair.techniques and float(values["ratio"]) == pair.worth[values["name"]] > 1
        ),
        "further": lambda: all(
            name in pair.techniques and supported(name, pair, both) for name in values["names"].split(", ")
        ),
        "moves": lambda: a_move(values, pair, both),
        "other_launches": lambda: (
            launched(values["count"], pair.fast) and launched(values["before"], pair.slow)
        ),
        "registers": lambda: (
            (values["count"], values["before"]) == (str(row["fast_registers"]), str(row["slow_registers"]))
        ),
        "shared": lambda: (
            shared(values["bytes"], row["fast_resources"], pair.fast)
            and shared(values["before"], row["slow_resources"], pair.slow)
        ),
        "gain": lambda: (
            near(values["us"], row["fast_us"])
            and near(values["before"], row["slow_us"])
            and (values["ratio"], values["low"], values["high"])
            == tuple(f"{row[name]:.2f}" for name in ("speedup", "speedup_low", "speedup_high"))
        ),
    }
    return checks[fact.kind]()


def told(answer: str, row: Row, pair: Candidate, both: Both) -> list[Fact]:
    """The facts of an explained answer, each held against the records."""
    found = []
    for heading, sentence in sentences(answer):
        facts = heard(sentence)
        assert len(facts) == 1, (sentence, facts)
        assert heading == (CHANGE if facts[0].kind in OF_BOTH else DIAGNOSIS), sentence
        assert holds(facts[0], row, pair, both), (row["id"], sentence)
        found += facts
    assert found[0].kind == "time" and found[-1].kind == "gain"
    return found
