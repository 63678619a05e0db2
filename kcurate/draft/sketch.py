"""What a draft is: a known problem, perhaps with open places, and remarks on all that is not certain.

Not covered: how it is made (`infer`), its file (`form`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kcurate.draft.sizes import Settings
from kcurate.records import Expr, KnownProblem

OPEN = "?"


class Reason(StrEnum):
    """Why a place of a draft is open, or why there is no draft at all."""

    NO_LAUNCH_SITE = "no_launch_site"
    POINTER_TO_POINTERS = "pointer_to_pointers"
    STRUCT_ARGUMENT = "struct_argument"
    STRUCT_ELEMENTS = "struct_elements"
    TEXTURE = "texture"
    CONSTANT_MEMORY = "constant_memory"
    TEMPLATE = "template"
    NO_OUTPUT = "no_output"
    NO_EXTENT = "no_extent"
    NO_GRID = "no_grid"
    NO_VALUE = "no_value"
    ONE_SIZE = "one_size"


@dataclass(frozen=True)
class Remark:
    """One thing that the file says about a place such as `buffers.a.init`; open ones have a reason."""

    place: str
    text: str
    reason: Reason | None = None

    @property
    def open(self) -> bool:
        """Whether a person has to fill something in."""
        return self.reason is not None


@dataclass(frozen=True)
class Draft:
    """A draft of one kernel. `ladder` are the settings of sizes to try it on.

    `loose` are sizes that neither a buffer nor the grid follows, and that the host gives no value.
    `needs` are buffers whose indices end elsewhere than their allocation: name and elements.
    """

    kernel: str
    known: KnownProblem
    remarks: tuple[Remark, ...] = ()
    ladder: tuple[Settings, ...] = ()
    needs: tuple[tuple[str, Expr], ...] = ()
    loose: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why it is not finished, most basic first."""
        found = {remark.reason for remark in self.remarks if remark.reason is not None}
        return tuple(reason for reason in Reason if reason in found)
