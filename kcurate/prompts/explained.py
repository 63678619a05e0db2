"""Answers in three parts (diagnosis, change, code): writes their sentences from facts.

Every sentence is a template filled with the values of one fact, so that it can be checked against the record
of that fact. Templates state only what a counter or a time shows, never a reason. Not covered: which facts an
answer states (`kcurate.dataset.explained`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcurate.core import resources

DIAGNOSIS, CHANGE = "Diagnosis:", "Change:"
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


def write(diagnosis: Sequence[str], change: Sequence[str], code: str) -> str:
    """An answer in three parts; `code` in the form of `replies.write_answer`."""
    return f"{DIAGNOSIS} {' '.join(diagnosis)}\n\n{CHANGE} {' '.join(change)}\n\n{code}"
