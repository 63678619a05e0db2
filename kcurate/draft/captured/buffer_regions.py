"""Buffers behind recorded pointers: an allocation, or the parts of it that several arguments use.

Pointers into one allocation share a buffer if their elements are alike and their offsets can be explained;
else each has the part up to the next one. Not covered: expressions for offsets and extents
(`expression_choice`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kcurate.core.grouping import grouped
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
    groups = grouped((pointer.targets[0].buffer, pointer) for pointer in pointers)
    places: list[Region] = []
    offsets: dict[str, Expr] = {}
    for group in groups.values():
        known = _shared(group, offset)
        places += [_whole(group, launches)] if known is not None else _parts(group, launches)
        offsets |= known or {}
    return places, offsets


def _shared(group: Sequence[Pointer], offset: Offset) -> dict[str, Expr] | None:
    """The offsets of pointers that share a buffer; None: they do not."""
    element, offsets = group[0].element, {}
    for pointer in group:
        bytes_in = [target.offset for target in pointer.targets]
        if pointer.element != element or any(at % element.size_bytes for at in bytes_in):
            return None
        known = offset(pointer, tuple(at // element.size_bytes for at in bytes_in))
        if known is None:
            return None
        offsets[pointer.name] = known
    return offsets


def _whole(group: Sequence[Pointer], launches: Sequence[CapturedLaunch]) -> Region:
    size = group[0].element.size_bytes
    seen = [launch.buffers[target.buffer] for launch, target in zip(launches, group[0].targets, strict=True)]
    before = next((stored.before for stored in seen if stored.before is not None), None)
    changed = any(bool(stored.changed) for stored in seen)
    return Region(tuple(group), tuple(stored.size_bytes // size for stored in seen), True, changed, before)


def _parts(group: Sequence[Pointer], launches: Sequence[CapturedLaunch]) -> list[Region]:
    """A buffer for each place that pointers point to, up to the next place or the allocation's end."""
    places = grouped(
        ((pointer.element, *(target.offset for target in pointer.targets)), pointer) for pointer in group
    )
    parts = []
    for sharing in places.values():
        elements = []
        for at, launch in enumerate(launches):
            start = sharing[0].targets[at].offset
            later = [pointer.targets[at].offset for pointer in group if pointer.targets[at].offset > start]
            end = min(later, default=launch.buffers[sharing[0].targets[at].buffer].size_bytes)
            elements.append((end - start) // sharing[0].element.size_bytes)
        parts.append(Region(tuple(sharing), tuple(elements)))
    return parts
