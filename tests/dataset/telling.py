"""What an explained answer tells, sentence by sentence, compared with the records that it must come from."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any

from kcurate.core import resources
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.prompts.explained import CHANGE, DIAGNOSIS, TEMPLATES, Fact
from kcurate.records import Candidate, For, Launch, Profile, Side, WhileNonzero, steps

Row = Mapping[str, Any]
Both = tuple[Profile, Profile] | None
Values = Mapping[str, str]
_END = re.compile(r"(?<=\.) (?=[A-Z])")
_FIELD = re.compile(r"\{(\w+)\}")
# Fields that hold words; the others hold a number, possibly with a unit.
WORDS = frozenset({"gpu", "kernel", "name", "meaning"})
_TEXT, _NUMBER = r".+?", r"[\d,.e+-]+[kMGT]?%?(?: \w+)?"
DRAM = ("dram_read_bytes", "dram_write_bytes")
STALLS = ("stall_memory", "stall_shared", "stall_barrier", "stall_math")
PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
# The part that a kind of fact belongs to: the given side's counters, or both sides.
OF_BOTH = {"technique", "other_launches"}
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


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(
        (kind, _pattern(template)) for kind, templates in TEMPLATES.items() for template in templates
    )


def _pattern(template: str) -> re.Pattern[str]:
    pieces = _FIELD.split(template)
    named = (
        f"(?P<{piece}>{_TEXT if piece in WORDS else _NUMBER})" if at % 2 else re.escape(piece)
        for at, piece in enumerate(pieces)
    )
    return re.compile("".join(named))


def heard(sentence: str) -> list[Fact]:
    """The facts that a sentence may state; exactly one if templates are unambiguous."""
    matches = ((kind, pattern.fullmatch(sentence)) for kind, pattern in _patterns())
    return [Fact(kind, match.groupdict()) for kind, match in matches if match is not None]


def sentences(answer: str) -> Iterator[tuple[str, str]]:
    """The sentences of an answer in three parts, each with the heading of its part."""
    for paragraph in answer.partition("```")[0].split("\n\n"):
        heading, _, text = paragraph.strip().partition(" ")
        if text:
            yield from ((heading, sentence) for sentence in _END.split(text))


def near(text: str, value: float) -> bool:
    """Whether a text says this value, to three digits; a unit may follow."""
    number, _, unit = text.replace(",", "").partition(" ")
    scale = PREFIXES.get(number[-1:], 1.0)
    number = number.rstrip("kMGT%")
    if unit.endswith("B") and len(unit) == 2:
        scale = PREFIXES[unit[0]]
    return abs(float(number) * scale - value) <= 0.0051 * abs(value) + 1e-9


def launched(text: str, side: Side) -> bool:
    """At least as many launches as steps that launch, and exactly so many without loops."""
    number, _, noun = text.partition(" ")
    known = [step for step in steps(side.plan) if isinstance(step, Launch)]
    loops = any(isinstance(step, For | WhileNonzero) for step in steps(side.plan))
    exact = int(number) >= 1 if loops else int(number) == len(known)
    return exact and noun == ("launch" if number == "1" else "launches")


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


def mended(name: str, pair: Candidate, both: Both) -> bool:
    """Whether the answer lowers what a diagnosis tells of, occupancy apart, by a tenth of its whole."""
    assert both is not None
    slow, fast = (counter(side, name) or 0.0 for side in both)
    return (fast > slow) == (name == "occupancy_pct") and tenth(name, pair, both)


def a_meaning(values: Values) -> bool:
    known = json.loads((resources.schemas_dir() / "techniques.json").read_text())["oneOf"]
    (meaning,) = [one["description"] for one in known if one["const"] == values["name"]]
    return bool(meaning.lower() == f"{values['meaning']}.".lower())


def holds(fact: Fact, row: Row, pair: Candidate, both: Both, causes: Collection[str]) -> bool:
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
        "technique": lambda: values["name"] in causes and a_meaning(values),
        "other_launches": lambda: (
            launched(values["count"], pair.fast) and launched(values["before"], pair.slow)
        ),
    }
    return checks[fact.kind]()


def told(
    answer: str, row: Row, pair: Candidate, both: Both, causes: Collection[str], prompt: str = ""
) -> list[Fact]:
    """The facts of an explained answer, each held against the records, and its numbers against the prompt."""
    found = []
    for heading, sentence in sentences(answer):
        facts = heard(sentence)
        assert len(facts) == 1, (sentence, facts)
        assert heading == (CHANGE if facts[0].kind in OF_BOTH else DIAGNOSIS), sentence
        assert holds(facts[0], row, pair, both, causes), (row["id"], sentence)
        if prompt and facts[0].kind != "other_launches":  # which the plan of the answer shows
            for name in facts[0].values.keys() - {"meaning", "name"}:
                assert facts[0].values[name] in prompt, (row["id"], sentence)
        found += facts
    assert found[0].kind == "time"
    return found
