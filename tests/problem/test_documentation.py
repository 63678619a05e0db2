"""docs/problems.md names every part of the language: steps, fields, functions, dtypes, kinds of issue."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

from kcurate.core import codec, resources
from kcurate.problem.check import check
from kcurate.problem.dtypes import DTYPES
from kcurate.problem.expressions import FUNCTIONS
from kcurate.problem.inputs.contents import VARIATIONS
from kcurate.problem.program import MAX_BLOCK, MAX_GRID, MAX_NESTING, MAX_OPERATIONS, MAX_SHARED_BYTES
from kcurate.records import Buffer, Candidate, Origin, Problem, Scalar, Side, StructField, Tolerance, View

ROOT = resources.pairs_dir().parent
TEXT = (ROOT / "docs" / "problems.md").read_text()


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def fields(cls: type[Any]) -> list[str]:
    return [field.name.rstrip("_") for field in dataclasses.fields(cls)]


@pytest.mark.parametrize("key", sorted(codec.STEP_KEYS))
def test_every_step_has_a_row_with_its_fields(key: str) -> None:
    (row,) = [line for line in section("Steps").splitlines() if line.startswith(f"| `{key}` |")]
    for name in set(fields(codec.STEP_KEYS[key])) - {key}:
        assert f"`{name}`" in row


@pytest.mark.parametrize(
    ("title", "cls", "unlisted"),
    [("Buffers", Buffer, set()), ("Tolerance", Tolerance, set()), ("Sides", Side, {"code"})],
)
def test_every_field_has_a_row(title: str, cls: type[Any], unlisted: set[str]) -> None:
    rows = {match[1] for match in re.finditer(r"^\| `(\w+)`", section(title), re.MULTILINE)}
    assert set(fields(cls)) - unlisted <= rows


def test_other_fields_are_named() -> None:
    for title, cls in (("Scalars", Scalar), ("Scalars", StructField), ("Sides", View)):
        for name in fields(cls):
            assert re.search(rf"[`\"]{name}[`\"]", section(title)), name


def test_functions_dtypes_variations_and_limits_are_named() -> None:
    for name in FUNCTIONS:
        assert f"`{name}(" in section("Expressions")
    for name in (*DTYPES, *VARIATIONS[1:]):
        assert f"`{name}`" in TEXT
    limits = section("Limits").replace(",", "")
    for number in (
        MAX_OPERATIONS,
        MAX_NESTING,
        MAX_GRID[0],
        MAX_GRID[1],
        MAX_BLOCK[0],
        MAX_BLOCK[2],
        MAX_SHARED_BYTES,
    ):
        assert re.search(rf"\b{number}\b", limits), number


def test_the_example_is_a_problem_without_issues() -> None:
    example = json.loads("{" + TEXT.split("```json\n")[1].split("```")[0] + "}")
    side = {"code": "__global__ void row_sum(const float *a, float *s, float f, int m, int n) {}"}
    data = {**example["slow"], **side}
    del data["file"]
    candidate = Candidate(
        "x", "x", "x", None, Origin("curated"), (), "", codec.from_data(Problem, example["problem"]),
        codec.from_data(Side, data), codec.from_data(Side, data),
    )  # fmt: skip
    assert check(candidate) == ()
