"""What a problem's buffers hold, from what a program's held: recorded values, related to the problem's sizes.

Values below another extent stay below it at every size; row starts and columns of a matrix fit together. Not
covered: what values are like (`kcurate.capture.describing` says), how the kernel uses them
(`buffer_contents`).
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

# Of so many uniform values below a limit, the largest is this near to it, in parts of the mean distance.
NEAR = 10
Found = tuple[Init, str]


def plain(seen: Contents | None, element: Element) -> Found:
    """Values as recorded, and a comment where there is more to say."""
    if seen is None or seen.dtype != element.dtype or "lowest" not in seen.facts:
        real = element.dtype in types.FLOATS
        init = Init("uniform", {"low": -1, "high": 1}) if real else Init("integers", {"low": 0, "high": 2})
        return init, "guess: nothing is recorded of its values"
    if seen.init is not None:
        return seen.init, ""
    low, high = seen.facts["lowest"], seen.facts["highest"]
    if element.dtype in types.FLOATS and max(-low, high) > MOST_VALUE:
        return plain(None, element)[0], "guess: recorded, it looks like memory that nothing was written to"
    if element.dtype in types.FLOATS and not seen.facts.get("integral"):
        range_ = {"low": low, "high": high if high > low else low + 1}
        return Init("uniform", range_), "the recorded range; no generator makes such values"
    range_ = {"low": int(low), "high": int(high) + 1}
    return Init("integers", range_), "the recorded range; no generator makes such values"


@dataclass(frozen=True)
class Known:
    """The buffers of a draft: `counts` are their elements over the sizes `names`."""

    regions: Sequence[Region]
    counts: Mapping[str, Expr]
    names: candidate_expressions.Names
    bounds: Bounds

    def init(self, region: Region, written: bool) -> Found:
        """What a buffer holds before the launch, and a comment where there is more to say.

        Of one that the kernel only reads, a single value everywhere tells nothing: memory that was allocated
        and that an earlier kernel would have filled. A kernel that never reads it would give the same.
        """
        seen, element = region.before, region.element
        if not written and seen is not None and seen.count > 1 and _one_value(seen):
            inferred = self._read_off(region)
            return inferred.init, f"guess: recorded, all its values are one; {inferred.why}"
        integers = element.dtype not in types.FLOATS
        if seen is None or seen.dtype != element.dtype or "lowest" not in seen.facts:
            inferred = self._read_off(region)
            return inferred.init, f"guess: nothing is recorded of its values; {inferred.why}"
        if not integers or seen.init in (Init("zeros"), Init("permutation")):
            return plain(seen, element)
        matrix = self._matrix(region)
        if matrix is not None:
            return matrix, ""
        init, why = plain(seen, element)
        high = self._high(region, seen)
        kind = init.kind if init.kind in ("sorted", "integers") else "sorted" if seen.facts["sorted"] else ""
        if high is None or init.kind == "arange" or (not kind and init.kind != "sparse"):
            return (init, why) if init.kind != "csr_offsets" else (self._ascending(seen), "")
        return Init(kind or "integers", {"low": min(int(seen.facts["lowest"]), 0), "high": high}), ""

    def _high(self, region: Region, seen: Contents) -> str | None:
        """What integers lie below: as the kernel uses them, or an extent; None: nothing is near."""
        lowest, highest = int(seen.facts["lowest"]), int(seen.facts["highest"])
        used = self._used(region)
        if used is not None and lowest >= 0:
            text = used.params.get("high")
            value = self._value(text)
            if isinstance(text, str) and value is not None and value > highest:
                return text
        return self._limit(highest, seen.count, lowest)

    def _read_off(self, region: Region) -> Inferred:
        """What the kernel's text tells of the values."""
        extents = {region.path: self._poly(region) for region in self.regions}
        known = Extents(extents, {region.path: region.element for region in self.regions})
        return contents(region.path, self.bounds, known)

    def _used(self, region: Region) -> Init | None:
        """What the kernel's text tells of the values as indices into other buffers."""
        init = self._read_off(region).init
        bounded = init.kind == "integers" and isinstance(init.params.get("high"), str)
        return init if bounded or region.element.fields else None

    def _poly(self, region: Region) -> Poly:
        return candidate_expressions.poly_of(self.counts[region.name])

    def _value(self, text: object) -> int | None:
        return candidate_expressions.value_in(text, self.names, 0) if isinstance(text, str | int) else None

    def _ascending(self, seen: Contents) -> Init:
        return Init("sorted", {"low": int(seen.facts["lowest"]), "high": int(seen.facts["highest"]) + 1})

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
                seen = columns[0].before
                used = self._used(columns[0])
                limit = used.params["high"] if used else None
                near = self._limit(int(seen.facts["highest"]), seen.count, 0)
                params["cols"] = limit or near or int(seen.facts["highest"]) + 1
            return Init("csr_offsets" if region is starts else "csr_columns", params)
        return None

    def _entries(self, starts: Region) -> list[Region] | None:
        """The buffers with one element for each entry that row starts count; None: these are none."""
        seen = starts.before
        if seen is None or seen.init is None or seen.init.kind != "csr_offsets":
            return None
        total = int(seen.facts["last"])
        as_long = (each for each in self.regions if each is not starts and each.elements[0] == total)
        whole = (each for each in as_long if each.before and each.element.dtype not in types.FLOATS)
        return [each for each in whole if each.before and each.before.facts.get("lowest", -1) >= 0] or None


def _one_value(seen: Contents) -> bool:
    """Whether all recorded values are equal."""
    return "lowest" in seen.facts and seen.facts["lowest"] == seen.facts["highest"]


def values(init: Init) -> Iterable[object]:
    """What an initialiser's parameters are; those of the members of structs stand in one text."""
    if init.kind == "records":
        return re.findall(r"=([^\s;]+)", str(init.params["fields"]))
    return init.params.values()
