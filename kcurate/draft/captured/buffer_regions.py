"""Buffers behind recorded pointers: an allocation, or the parts of it that several arguments use.

Pointers into one allocation share a buffer if their elements are alike and their offsets can be explained;
else each has the part up to the next one. Not covered: expressions for offsets and extents
(`expression_choice`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kcurate.draft.captured.candidate_expressions import Values
from kcurate.draft.captured.launch_arguments import Pointer
from kcurate.problem.c_types import Element
from kcurate.records import CapturedLaunch, Contents, Expr

# A pointer and its offset in elements in each launch; None: nothing explains it.
Offset = Callable[[Pointer, Values], Expr | None]


@dataclass(frozen=True)
class Region:
    """One buffer: its pointers, its elements in each launch, and what was seen (`before`: at the largest).

    `whole`: it is an allocation, not a part of one whose end is only known to lie before the next part.
    """

    pointers: tuple[Pointer, ...]
    elements: Values
    whole: bool = False
    changed: bool = False
    before: Contents | None = None

    @property
    def name(self) -> str:
        """The buffer's name in the problem."""
        return self.pointers[0].name

    @property
    def path(self) -> str:
        """How the kernel's text writes the first pointer."""
        return self.pointers[0].path

    @property
    def element(self) -> Element:
        """What the pointers point to."""
        return self.pointers[0].element


def regions(
    pointers: Sequence[Pointer], launches: Sequence[CapturedLaunch], offset: Offset
) -> tuple[list[Region], Mapping[str, Expr]]:
    """The buffers in the order of the first pointer into each, and offsets by the pointer's name."""
    groups: dict[int, list[Pointer]] = {}
    for one in pointers:
        groups.setdefault(one.targets[0].buffer, []).append(one)
    found: list[Region] = []
    offsets: dict[str, Expr] = {}
    for group in groups.values():
        known = _shared(group, offset)
        found += [_whole(group, launches)] if known is not None else _parts(group, launches)
        offsets |= known or {}
    return found, offsets


def _shared(group: Sequence[Pointer], offset: Offset) -> dict[str, Expr] | None:
    """The offsets of pointers that share a buffer; None: they do not."""
    element, found = group[0].element, {}
    for one in group:
        bytes_in = [target.offset for target in one.targets]
        if one.element != element or any(at % element.size_bytes for at in bytes_in):
            return None
        known = offset(one, tuple(at // element.size_bytes for at in bytes_in))
        if known is None:
            return None
        found[one.name] = known
    return found


def _whole(group: Sequence[Pointer], launches: Sequence[CapturedLaunch]) -> Region:
    size = group[0].element.size_bytes
    seen = [launch.buffers[one.buffer] for launch, one in zip(launches, group[0].targets, strict=True)]
    before = next((one.before for one in seen if one.before is not None), None)
    changed = any(bool(one.changed) for one in seen)
    return Region(tuple(group), tuple(one.size_bytes // size for one in seen), True, changed, before)


def _parts(group: Sequence[Pointer], launches: Sequence[CapturedLaunch]) -> list[Region]:
    """A buffer for each place that pointers point to, up to the next place or the allocation's end."""
    places: dict[tuple[object, ...], list[Pointer]] = {}
    for one in group:
        places.setdefault((one.element, *(target.offset for target in one.targets)), []).append(one)
    found = []
    for own in places.values():
        elements = []
        for at, launch in enumerate(launches):
            start = own[0].targets[at].offset
            later = [one.targets[at].offset for one in group if one.targets[at].offset > start]
            end = min(later, default=launch.buffers[own[0].targets[at].buffer].size_bytes)
            elements.append((end - start) // own[0].element.size_bytes)
        found.append(Region(tuple(own), tuple(elements)))
    return found
