"""The lists of opcodes in docs/emulator.md are those of the table."""

from __future__ import annotations

import re
from pathlib import Path

from kcurate.ptx import rows, table

PAGE = (Path(__file__).parents[2] / "docs" / "emulator.md").read_text()


def listed(after: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", PAGE.split(after, 1)[1].strip().split("\n\n", 1)[0]))


def test_the_page_lists_every_opcode() -> None:
    assert listed("Opcodes with at least one emulated form:") == set(table.forms())
    assert listed("Allowed in a side, but not emulated:") == set(rows.NOT_EMULATED.split())


def test_the_page_names_every_matrix_shape() -> None:
    shapes = set(re.findall(r"m16n8k\d+", rows.EMULATED))
    assert shapes == set(re.findall(r"m16n8k\d+", PAGE))
