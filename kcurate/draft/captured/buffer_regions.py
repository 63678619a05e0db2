"""Buffers behind recorded pointers: an allocation, or the parts of it that several arguments use.

Pointers into one allocation share a buffer if they have one element type and an expression gives each offset;
otherwise each gets the part of the allocation up to the next pointer. Not covered: expressions for offsets
and extents (`expression_choice`).
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
    """One buffer of a draft: the pointers into it, and its elements in each launch.

    `whole`: the buffer is a whole allocation; otherwise it is a part, whose end is at most where the next
    part starts. `changed`: some launch changed it. `before`: its recorded contents before the largest launch
    that has a record of them.
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
    buffers: list[Region] = []
    offsets: dict[str, Expr] = {}
    for group in groups.values():
        shared_offsets = _shared(group, offset)
        buffers += [_whole(group, launches)] if shared_offsets is not None else _parts(group, launches)
        offsets |= shared_offsets or {}
    return buffers, offsets


def _shared(group: Sequence[Pointer], offset: Offset) -> dict[str, Expr] | None:
    """The offsets of pointers that share a buffer; None: they do not."""
    element, offsets = group[0].element, {}
    for pointer in group:
        bytes_in = [target.offset for target in pointer.targets]
        if pointer.element != element or any(at % element.size_bytes for at in bytes_in):
            return None
        expression = offset(pointer, tuple(at // element.size_bytes for at in bytes_in))
        if expression is None:
            return None
        offsets[pointer.name] = expression
    return offsets


def _whole(group: Sequence[Pointer], launches: Sequence[CapturedLaunch]) -> Region:
    size = group[0].element.size_bytes
    stored = [
        launch.buffers[target.buffer] for launch, target in zip(launches, group[0].targets, strict=True)
    ]
    before = next((buffer.before for buffer in stored if buffer.before is not None), None)
    changed = any(bool(buffer.changed) for buffer in stored)
    return Region(tuple(group), tuple(buffer.size_bytes // size for buffer in stored), True, changed, before)


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
