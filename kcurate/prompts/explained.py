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

from kcurate.core import resources

DIAGNOSIS, CHANGE = "Diagnosis:", "Change:"
_END = re.compile(r"(?<=\.) (?=[A-Z])")
_FIELD = re.compile(r"\{(\w+)\}")
# Fields that hold words; the others hold a number, possibly with a unit.
WORDS = frozenset({"gpu", "kernel", "name", "meaning"})
_TEXT, _NUMBER = r".+?", r"[\d,.e+-]+[kMGT]?%?(?: \w+)?"

# By kind of fact; every template uses each field of its kind once.
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    kind: tuple(templates)
    for kind, templates in resources.table("kcurate.prompts", "texts.toml")["explained"].items()
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
