"""The open places of a draft's file, one by one: what is asked, and the text with an answer filled in.

Not covered: who is asked, and whether the answers are right (`completed_files`).
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass

from kcurate.draft.file.toml_writer import OPEN_MARK
from kcurate.draft.sketch import OPEN

_FIELD = re.compile(rf"(?P<key>[^=#]+?)\s*=\s*(?P<value>.*?)\s*{re.escape(OPEN_MARK)}(?:\s(?P<what>.*))?")
_TABLE = re.compile(r"\[+(?:problem\.)?(?P<name>.*?)\]+\s*")


@dataclass(frozen=True)
class Field:
    """An open place that one value fills; `line` counts from 1, `place` is such as `buffers.out.shape`."""

    line: int
    place: str
    value: str
    what: str


def open_fields(text: str) -> list[Field]:
    """The open places of a file, in order; those that need more than a value are left out."""
    places, table = [], ""
    for number, line in enumerate(text.splitlines(), 1):
        if head := _TABLE.fullmatch(line):
            table = head["name"].replace('""', "plan").replace("sides.plan.plan", "plan")
        match = _FIELD.fullmatch(line)
        if match is not None and match["value"] not in ("[]", "]"):
            place = f"{table}.{match['key'].strip()}".lstrip(".")
            places.append(Field(number, place, match["value"], match["what"] or "fill this in"))
    return places


def filled(text: str, field: Field, answer: str) -> str | None:
    """The text with an answer in place of the first `"?"` of a field, or of its whole value.

    None: there is no answer, or it leaves the file unreadable as TOML.
    """
    mark = f'"{OPEN}"'
    value = field.value
    if mark in value and not answer.startswith(("[", "{")):
        bare = re.fullmatch(r"-?\d+", answer) is not None
        value = value.replace(mark, answer if bare else json.dumps(answer, ensure_ascii=False), 1)
    else:
        value = answer
    lines = text.splitlines(keepends=True)
    old = lines[field.line - 1]
    match = _FIELD.fullmatch(old.rstrip("\r\n"))
    if match is None or not answer or (answer == field.value and mark in value):
        return None
    more = f"  {OPEN_MARK} {field.what}" if mark in value else ""
    lines[field.line - 1] = f"{match['key'].strip()} = {value}{more}\n"
    changed = "".join(lines)
    try:
        tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        return None
    return changed
