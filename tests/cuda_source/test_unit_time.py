"""A unit of many kernels: each is looked at once, not once for every other one."""

from __future__ import annotations

from collections import Counter

import pytest

from kcurate.cuda_source import extract_unit
from kcurate.cuda_source.parse.items import Item
from kcurate.cuda_source.standalone.closure import Unit
from kcurate.cuda_source.standalone.unit import Mark

COUNT = 60


def test_kernels_on_one_line_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[int] = Counter()
    around: list[int] = []
    plain_header, plain_around = Unit._device_header, Unit.marked_around

    def header(unit: Unit, item: Item) -> bool:
        asked[item.start] += 1
        return plain_header(unit, item)

    def marked(unit: Unit, at: int) -> list[Item]:
        around.append(len(plain_around(unit, at)))
        return plain_around(unit, at)

    monkeypatch.setattr(Unit, "_device_header", header)
    monkeypatch.setattr(Unit, "marked_around", marked)
    text = " ".join(f"__global__ void k{n}(float *x) {{ x[0] *= {n}.0f; }}" for n in range(COUNT)).encode()
    report = extract_unit("a.cu", lambda path: text, lambda name, by: None)
    assert len(report.kernels) == COUNT and report.marks == {"a.cu": {Mark.KERNEL: COUNT}}
    assert max(asked.values(), default=0) <= 1 and around == [1] * COUNT
