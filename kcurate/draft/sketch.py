"""A draft: a known problem, possibly with open places, and remarks on everything uncertain.

Not covered: making one (`from_code`), its file (`toml_writer`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from kcurate.draft.size_settings import Settings
from kcurate.records import Expr, Init, Kernel, KnownProblem, KnownSide, Problem, Sizes

OPEN = "?"


class Reason(StrEnum):
    """Why a place in a draft is open, or why there is no draft."""

    NO_LAUNCH_SITE = "no_launch_site"
    POINTER_TO_POINTERS = "pointer_to_pointers"
    STRUCT_ARGUMENT = "struct_argument"
    STRUCT_ELEMENTS = "struct_elements"
    TEXTURE = "texture"
    CONSTANT_MEMORY = "constant_memory"
    TEMPLATE = "template"
    NO_OUTPUT = "no_output"
    NO_EXTENT = "no_extent"
    NO_VALUE = "no_value"
    ONE_SIZE = "one_size"


@dataclass(frozen=True)
class Remark:
    """A comment on a place such as `buffers.a.init`; open places have a reason."""

    place: str
    text: str
    reason: Reason | None = None

    @property
    def open(self) -> bool:
        """Whether somebody has to fill in the value."""
        return self.reason is not None


@dataclass(frozen=True)
class Draft:
    """A draft of one kernel. `ladder` holds the size settings to try.

    `limits` are all sizes with their values on the host (None: unknown). `loose`: sizes without a host value
    on which no buffer or grid depends. `needs` are buffers whose indices end before or after their
    allocation: name and elements needed. `held`: recorded contents of outputs before the launch.
    `one_of_several`: the kernel has several configurations, of which one was recorded.
    """

    kernel: str
    known: KnownProblem
    remarks: tuple[Remark, ...] = ()
    ladder: tuple[Settings, ...] = ()
    needs: tuple[tuple[str, Expr], ...] = ()
    loose: tuple[str, ...] = ()
    limits: tuple[tuple[str, int | None], ...] = ()
    held: tuple[tuple[str, Init], ...] = ()
    one_of_several: bool = False

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why it is incomplete, most fundamental first."""
        present = {remark.reason for remark in self.remarks if remark.reason is not None}
        return tuple(reason for reason in Reason if reason in present)


def known_problem(kernel: Kernel, problem: Problem, side: KnownSide) -> KnownProblem:
    """A problem as that of one kernel, with how the kernel is launched on it."""
    sides, paths = {kernel.variant or "": side}, (kernel.span.path,)
    return KnownProblem(kernel.source.suite, kernel.benchmark, problem, sides, paths)


def nothing(kernel: Kernel, why: str, place: str = "plan.args", reason: Reason = Reason.NO_VALUE) -> Draft:
    """A draft that stays open, and why."""
    side = KnownSide((), language=kernel.language)
    known = replace(known_problem(kernel, Problem(Sizes((), {}), {}), side), paths=())
    return Draft(kernel.id, known, (Remark(place, why, reason),))
