"""What a problem's buffers hold, from what a program's held: recorded values, related to the problem's sizes.

Integers that stay below an extent in the record stay below it at every size; row starts and columns of a
sparse matrix are generated together. Not covered: what values are like (`kcurate.capture.describing` says),
how the kernel uses them (`buffer_contents`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kcurate.draft import size_settings
from kcurate.draft.algebra import Poly, number
from kcurate.draft.captured import candidate_expressions
from kcurate.draft.captured.buffer_regions import Region
from kcurate.draft.inferred.buffer_contents import Contents as Inferred
from kcurate.draft.inferred.buffer_contents import Extents, contents
from kcurate.draft.inferred.index_bounds import Bounds
from kcurate.problem import c_types as types
from kcurate.problem.c_types import Element
from kcurate.records import MOST_VALUE, Contents, Expr, Init

# How far below their limit the largest of n uniform values may lie, in mean gaps (range / n).
NEAR = 10
InitAndComment = tuple[Init, str]


def plain(record: Contents | None, element: Element) -> InitAndComment:
    """The generator for recorded values, and a comment on it (empty if it gives what is recorded)."""
    if record is None or record.dtype != element.dtype or "lowest" not in record.facts:
        real = element.dtype in types.FLOATS
        init = Init("uniform", {"low": -1, "high": 1}) if real else Init("integers", {"low": 0, "high": 2})
        return init, "guess: nothing is recorded of its values"
    if record.init is not None:
        return record.init, ""
    low, high = record.facts["lowest"], record.facts["highest"]
    if element.dtype in types.FLOATS and max(-low, high) > MOST_VALUE:
        return plain(None, element)[0], "guess: recorded, it looks like memory that nothing was written to"
    if element.dtype in types.FLOATS and not record.facts.get("integral"):
        range_ = {"low": low, "high": high if high > low else low + 1}
        return Init("uniform", range_), "the recorded range; no generator makes such values"
    range_ = {"low": int(low), "high": int(high) + 1}
    return Init("integers", range_), "the recorded range; no generator makes such values"


@dataclass(frozen=True)
class DraftBuffers:
    """The buffers of a draft: `counts` are their elements over the sizes `names`."""

    regions: Sequence[Region]
    counts: Mapping[str, Expr]
    names: candidate_expressions.Names
    bounds: Bounds

    def init(self, region: Region, written: bool) -> InitAndComment:
        """The generator for a buffer's contents before the launch, and a comment on it (empty if exact).

        A read-only buffer whose recorded values are all equal counts as not recorded: probably it was only
        allocated, and the kernel that fills it was not captured. With equal values a kernel that never reads
        it would pass.
        """
        record, element = region.before, region.element
        if not written and record is not None and record.count > 1 and _one_value(record):
            inferred = self._inferred_contents(region)
            return inferred.init, f"guess: recorded, all its values are one; {inferred.why}"
        integers = element.dtype not in types.FLOATS
        if record is None or record.dtype != element.dtype or "lowest" not in record.facts:
            inferred = self._inferred_contents(region)
            return inferred.init, f"guess: nothing is recorded of its values; {inferred.why}"
        if not integers or record.init in (Init("zeros"), Init("permutation")):
            return plain(record, element)
        matrix = self._matrix(region)
        if matrix is not None:
            return matrix, ""
        init, why = plain(record, element)
        high = self._high(region, record)
        kind = (
            init.kind if init.kind in ("sorted", "integers") else "sorted" if record.facts["sorted"] else ""
        )
        if high is None or init.kind == "arange" or (not kind and init.kind != "sparse"):
            return (init, why) if init.kind != "csr_offsets" else (self._ascending(record), "")
        return Init(kind or "integers", {"low": min(int(record.facts["lowest"]), 0), "high": high}), ""

    def _high(self, region: Region, record: Contents) -> str | None:
        """The exclusive upper bound of integers: how the kernel uses them, or an extent; None: no extent is
        near."""
        lowest, highest = int(record.facts["lowest"]), int(record.facts["highest"])
        used = self._used(region)
        if used is not None and lowest >= 0:
            text = used.params.get("high")
            value = self._value(text)
            if isinstance(text, str) and value is not None and value > highest:
                return text
        return self._limit(highest, record.count, lowest)

    def _inferred_contents(self, region: Region) -> Inferred:
        """The contents inferred from the kernel's code."""
        extents = {region.path: self._poly(region) for region in self.regions}
        kernel_extents = Extents(extents, {region.path: region.element for region in self.regions})
        return contents(region.path, self.bounds, kernel_extents)

    def _used(self, region: Region) -> Init | None:
        """The generator inferred from how the kernel indexes with the values; None if it does not."""
        init = self._inferred_contents(region).init
        bounded = init.kind == "integers" and isinstance(init.params.get("high"), str)
        return init if bounded or region.element.fields else None

    def _poly(self, region: Region) -> Poly:
        return candidate_expressions.poly_of(self.counts[region.name])

    def _value(self, text: object) -> int | None:
        return candidate_expressions.value_in(text, self.names, 0) if isinstance(text, str | int) else None

    def _ascending(self, record: Contents) -> Init:
        return Init("sorted", {"low": int(record.facts["lowest"]), "high": int(record.facts["highest"]) + 1})

    def _extents(self) -> Iterator[tuple[str, int]]:
        """Every expression that may limit values, with its recorded value."""
        for text in dict.fromkeys([*self.names, *self.counts.values()]):
            value = self._value(text) if isinstance(text, str) else None
            if isinstance(text, str) and value is not None and value > size_settings.SMALL:
                yield text, value
                yield f"{text} + 1", value + 1

    def _limit(self, highest: int, count: int, lowest: int) -> str | None:
        """The smallest extent that the values lie below, if the largest of them is near enough to it."""
        above = [(value, text) for text, value in self._extents() if value > highest]
        value, text = min(above, default=(0, ""), key=lambda pair: pair[0])
        near = text and value - 1 - highest <= NEAR * max(0, value - max(lowest, 0)) / max(count, 1)
        return text if near else None

    def _matrix(self, region: Region) -> Init | None:
        """Row starts, or the columns that belong to them, of a sparse matrix."""
        for starts in self.regions:
            entries = self._entries(starts)
            if entries is None or region not in (starts, *entries):
                continue
            columns = [region for region in entries if region.element.dtype not in types.FLOATS]
            rows = self._poly(starts) - number(1)
            params: dict[str, int | float | str | bool] = {"rows": rows.expr()}
            params["nnz"] = self.counts[entries[0].name]
            if columns and columns[0].before is not None:
                record = columns[0].before
                used = self._used(columns[0])
                limit = used.params["high"] if used else None
                near = self._limit(int(record.facts["highest"]), record.count, 0)
                params["cols"] = limit or near or int(record.facts["highest"]) + 1
            return Init("csr_offsets" if region is starts else "csr_columns", params)
        return None

    def _entries(self, starts: Region) -> list[Region] | None:
        """The integer buffers with one element per matrix entry if `starts` holds row starts, else None."""
        record = starts.before
        if record is None or record.init is None or record.init.kind != "csr_offsets":
            return None
        total = int(record.facts["last"])
        as_long = (region for region in self.regions if region is not starts and region.elements[0] == total)
        integer_buffers = (
            region for region in as_long if region.before and region.element.dtype not in types.FLOATS
        )
        return [
            region
            for region in integer_buffers
            if region.before and region.before.facts.get("lowest", -1) >= 0
        ] or None


def _one_value(record: Contents) -> bool:
    """Whether all recorded values are equal."""
    return "lowest" in record.facts and record.facts["lowest"] == record.facts["highest"]


def values(init: Init) -> Iterable[object]:
    """The values of an initialiser's parameters; for `records`, those of every member."""
    if init.kind == "records":
        return re.findall(r"=([^\s;]+)", str(init.params["fields"]))
    return init.params.values()
