"""Answers in three parts (diagnosis, change, code): writes their sentences from facts, and reads them back.

Every sentence is a template filled with the values of one fact, so that it can be checked against the record
of that fact. Templates state only what a counter or a time shows, never a reason. Not covered: which facts an
answer states (`kcurate.dataset.explained`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

DIAGNOSIS, CHANGE = "Diagnosis:", "Change:"
_END = re.compile(r"(?<=\.) (?=[A-Z])")
_FIELD = re.compile(r"\{(\w+)\}")
# Fields that hold words; the others hold a number, possibly with a unit.
WORDS = frozenset({"gpu", "kernel", "name", "meaning"})
_TEXT, _NUMBER = r".+?", r"[\d,.e+-]+[kMGT]?%?(?: \w+)?"

# By kind of fact; every template uses each field of its kind once.
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "time": (
        "The given code takes {us} us on the {gpu}.",
        "On the {gpu} the given code takes {us} us.",
        "Measured on the {gpu}, the given code takes {us} us.",
    ),
    "reach": (
        "With every buffer of the problem moved once, that is {share} of the copy bandwidth of this GPU.",
        "It reaches {share} of the copy bandwidth of this GPU, counting every buffer of the problem once.",
        "Counting every buffer of the problem once, this is {share} of what a plain copy reaches here.",
    ),
    "launches": (
        "Its plan has {count}.",
        "It takes {count}.",
        "The plan comes to {count}.",
    ),
    "local": (
        "A thread of its kernel {kernel} has {bytes} bytes of local memory.",
        "In its kernel {kernel}, {bytes} bytes of a thread lie in local memory.",
    ),
    "load_sectors": (
        "A load of a warp from global memory touches {count} sectors of 32 bytes.",
        "Its warps touch {count} sectors of 32 bytes with each load from global memory.",
        "For each global load a warp fetches {count} sectors of 32 bytes.",
    ),
    "store_sectors": (
        "A store of a warp to global memory touches {count} sectors of 32 bytes.",
        "Its warps touch {count} sectors of 32 bytes with each store to global memory.",
    ),
    "dram": (
        "It reads {read} from device memory and writes {write}.",
        "The profiler counts {read} read from device memory and {write} written.",
        "Device memory is read for {read} and written for {write}.",
    ),
    "stall_memory": (
        "A warp waits {cycles} cycles an instruction for global or local memory.",
        "For each instruction a warp waits {cycles} cycles for global or local memory.",
    ),
    "stall_shared": (
        "A warp waits {cycles} cycles an instruction for shared memory.",
        "For each instruction a warp waits {cycles} cycles for shared memory.",
    ),
    "stall_barrier": (
        "A warp waits {cycles} cycles an instruction at barriers.",
        "For each instruction a warp waits {cycles} cycles at barriers.",
    ),
    "stall_math": (
        "A warp waits {cycles} cycles an instruction for arithmetic.",
        "For each instruction a warp waits {cycles} cycles for arithmetic.",
    ),
    "conflicts": (
        "Bank conflicts are {share} of its passes through shared memory.",
        "Of its passes through shared memory {share} come from bank conflicts.",
    ),
    "issue": (
        "Schedulers issue an instruction in {share} of their cycles.",
        "In {share} of the cycles a scheduler issues an instruction.",
    ),
    "occupancy": (
        "On average {share} of the warps that a multiprocessor can hold are resident.",
        "Its multiprocessors hold {share} of the warps that fit.",
    ),
    "local_traffic": (
        "Local memory moves {bytes}.",
        "The profiler counts {bytes} of local memory traffic.",
    ),
    "fp64": (
        "The FP64 pipe is busy for {share} of its most.",
        "Of what the FP64 pipe can do, {share} is used.",
    ),
    "atomics": (
        "Its warps make {count} atomic requests to global memory.",
        "Global memory gets {count} atomic requests of warps.",
    ),
    "technique": (
        "The answer uses {name}: {meaning}.",
        "It is written with {name}: {meaning}.",
        "Its code has {name}: {meaning}.",
    ),
    "other_launches": (
        "Its plan has {count} in place of {before}.",
        "The plan goes from {before} to {count}.",
    ),
}


@dataclass(frozen=True)
class Fact:
    """A measured fact: its kind, and the values of the kind's fields as text."""

    kind: str
    values: Mapping[str, str]


def say(fact: Fact, pick: int) -> str:
    """A fact as a sentence; `pick` chooses among the templates of its kind."""
    templates = TEMPLATES[fact.kind]
    return templates[pick % len(templates)].format(**fact.values)


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


def write(diagnosis: Sequence[str], change: Sequence[str], code: str) -> str:
    """An answer in three parts; `code` in the form of `replies.write_answer`."""
    return f"{DIAGNOSIS} {' '.join(diagnosis)}\n\n{CHANGE} {' '.join(change)}\n\n{code}"


def sentences(answer: str) -> Iterator[tuple[str, str]]:
    """The sentences of an answer in three parts, each with the heading of its part."""
    for paragraph in answer.partition("```")[0].split("\n\n"):
        heading, _, text = paragraph.strip().partition(" ")
        if text:
            yield from ((heading, sentence) for sentence in _END.split(text))
