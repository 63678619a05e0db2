"""The parts of one draft that is being built: the launch that it is for, buffers, scalars, remarks.

Not covered: where each of them comes from (`scalar_parameters`, `pointer_parameters`), the draft
(`one_launch`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcurate.cuda_source.semantics.code_index import Code, Function
from kcurate.cuda_source.semantics.pointer_usage import Usage
from kcurate.draft.algebra import Poly
from kcurate.draft.inferred import launch_configuration
from kcurate.draft.inferred.launch_configuration import Site
from kcurate.draft.sketch import OPEN, Reason, Remark
from kcurate.problem import c_types as types
from kcurate.records import Buffer, Kernel, Param, Scalar


@dataclass
class Parts:
    """The parts of one draft. Sizes keep their names from the host code."""

    kernel: Kernel
    device: Code
    function: Function
    site: Site
    template: Mapping[str, str]
    buffers: dict[str, Buffer] = field(default_factory=dict)
    counts: dict[str, Poly] = field(default_factory=dict)
    elements: dict[str, types.Element] = field(default_factory=dict)
    usages: dict[str, Usage] = field(default_factory=dict)
    scalars: dict[str, Scalar] = field(default_factory=dict)
    values: dict[str, Poly] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    offsets: list[Poly] = field(default_factory=list)
    # By buffer: the parameters that point into it, each with its offset in elements.
    pointers: dict[str, list[tuple[str, Poly]]] = field(default_factory=dict)

    def note(self, place: str, text: str, reason: Reason | None = None) -> None:
        """Add a remark on a place of the draft."""
        self.remarks.append(Remark(place, text, reason))

    def text_of(self, param: Param) -> str:
        """The argument that the launch passes for a parameter."""
        index = next(i for i, declared in enumerate(self.kernel.params) if declared is param)
        return self.site.launch.arguments[index].expression

    def element(self, type_text: str) -> types.Element | None:
        """A C type as the element of a buffer; None if a problem has no such type."""
        return types.element(type_text, self.names, self.device.text)

    @property
    def names(self) -> Mapping[str, str]:
        """What names of types and constants stand for."""
        host = self.site.host_values.host
        return {**host.types, **host.macros, **self.device.types, **self.device.macros, **self.template}

    def sizes(self, grid: tuple[Poly, ...]) -> dict[str, int | None]:
        """Every name in grid, shapes and arguments, with its host value if known."""
        used: set[str] = set()
        for poly in (*self.counts.values(), *grid, *self.offsets):
            used |= launch_configuration.names_of(poly)
        for poly in self.values.values():
            used |= launch_configuration.names_of(poly)
        return {
            name: self.site.default(name) for name in sorted(used - {OPEN} - launch_configuration.FUNCTIONS)
        }
