"""What an explained answer tells, sentence by sentence, compared with the records that it must come from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kcurate import resources
from kcurate.profiles.counters import BY_NAME
from kcurate.profiles.labels import EXPECTED
from kcurate.prompts.explained import CHANGE, DIAGNOSIS, Fact, heard, sentences
from kcurate.records import Candidate, For, Launch, Profile, Side, WhileNonzero, steps

Row = Mapping[str, Any]
Both = tuple[Profile, Profile] | None
Values = Mapping[str, str]
DRAM = ("dram_read_bytes", "dram_write_bytes")
PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
# The part that a kind of fact belongs to: the given side's counters, or both sides.
OF_BOTH = {"technique", "further", "moves", "other_launches", "registers", "shared", "gain"}
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


def most(row: Row, side: str, what: str) -> str:
    return str(max(one[what] for one in json.loads(row[f"{side}_resources"]) if one.get(what) is not None))


def launched(text: str, side: Side) -> bool:
    """At least as many launches as steps that launch, and exactly so many without loops."""
    number, _, noun = text.partition(" ")
    known = [step for step in steps(side.plan) if isinstance(step, Launch)]
    loops = any(isinstance(step, For | WhileNonzero) for step in steps(side.plan))
    exact = int(number) >= 1 if loops else int(number) == len(known)
    return exact and noun == ("launch" if number == "1" else "launches")


def supported(name: str, both: Both) -> bool:
    """Whether a counter of the technique moves by 5% as it should, where there are counters at all.

    Of traffic to device memory it has to be a tenth of all.
    """
    if both is None or name not in EXPECTED:
        return True
    found = []
    for one in EXPECTED[name]:
        slow, fast = (counter(side, one[1:]) for side in both)
        if slow is None or fast is None:
            continue
        if one[0] == "=":
            found.append(fast < 5 if one[1:] == "conflict_pct" else 7.6 <= fast <= 16.8)
        elif one[0] == "+" or slow >= least(one[1:], fast):
            more, less = (fast, slow) if one[0] == "+" else (slow, fast)
            small = one.endswith("_pct") and abs(fast - slow) < 1
            traffic = sum(counter(both[0], name) or 0 for name in DRAM) if one[1:] in DRAM else 0
            found.append(
                not small and slow != fast and more >= 1.05 * less and abs(fast - slow) >= traffic / 10
            )
    return any(found) or not found


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


def a_move(values: Values, both: Both) -> bool:
    assert both is not None
    (name,) = [one.name for one in BY_NAME.values() if one.text == values["counter"]]
    slow, fast = (side.counters[name] for side in both)
    return near(values["before"], slow) and near(values["after"], fast) and abs(fast - slow) > 0.04 * slow


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
        return near(text, both[0].counters[COUNTED[fact.kind]])
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
        ),
        "conflicts": lambda: (
            both is not None
            and near(
                values["share"],
                100 * both[0].counters["shared_conflicts"] / both[0].counters["shared_wavefronts"],
            )
        ),
        "technique": lambda: (
            values["name"] in pair.techniques and supported(values["name"], both) and a_meaning(values)
        ),
        "further": lambda: all(
            name in pair.techniques and supported(name, both) for name in values["names"].split(", ")
        ),
        "moves": lambda: a_move(values, both),
        "other_launches": lambda: (
            launched(values["count"], pair.fast) and launched(values["before"], pair.slow)
        ),
        "registers": lambda: (
            (values["count"], values["before"]) == (str(row["fast_registers"]), str(row["slow_registers"]))
        ),
        "shared": lambda: (
            (values["bytes"], values["before"])
            == (most(row, "fast", "shared_bytes"), most(row, "slow", "shared_bytes"))
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
