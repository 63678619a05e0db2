"""Finds the recorded launches of a kernel: `captures/*/*.json` of the workspace.

Not covered: making a draft of them (`from_launches`).
"""

from __future__ import annotations

from dataclasses import replace

from kcurate.core import store
from kcurate.core.grouping import grouped
from kcurate.core.notes import Note
from kcurate.core.workspace import Workspace
from kcurate.cuda_source import kernel_signatures
from kcurate.cuda_source.text.demangled_names import Demangled
from kcurate.errors import RecordError
from kcurate.problem import c_types as types
from kcurate.records import Capture, Kernel, Param


class Captures:
    """All records of a workspace, by the kernel's bare name."""

    def __init__(self, workspace: Workspace, note: Note) -> None:
        self._by_name: dict[str, list[Capture]] = {}
        for path in sorted(workspace.captures.glob("*/*.json")):
            try:
                capture = store.read_json(path, Capture)
            except RecordError as error:
                note(f"not used: {error}")
                continue
            self._by_name.setdefault(Demangled.of(capture.kernel).base, []).append(capture)

    def of_triton(self, kernel: Kernel) -> Capture | None:
        """The record of a kernel in Triton: of its most launched signature, preferably of its own file."""
        captures = [
            capture
            for capture in self._by_name.get(kernel.name, ())
            if capture.source == "triton" and capture.launches and _names_constants(capture, kernel.params)
        ]
        of_file = [capture for capture in captures if (capture.file or "").endswith(kernel.span.path)]
        captures = of_file or captures
        by_types = grouped((capture.params, capture) for capture in captures)
        return _joined(max(by_types.values(), key=_launch_count, default=None))

    def of(self, kernel: Kernel, code: str) -> Capture | None:
        """The record of a kernel's most launched instance, with the launches of all its programs.

        Among kernels of one name, a record is matched by its parameters, then by its namespace, then by a
        program named after the benchmark.
        """
        captures = [
            capture
            for capture in self._by_name.get(kernel.name, ())
            if capture.source != "triton" and capture.launches and _fits(capture, kernel.params)
        ]
        spaces = [name for name in kernel_signatures(code.encode()) if name.split("::")[-1] == kernel.name]
        captures = [
            capture for capture in captures if Demangled.of(capture.kernel).name in spaces
        ] or captures
        captures = [capture for capture in captures if kernel.benchmark in capture.program] or captures
        by_instance = grouped((capture.mangled, capture) for capture in captures)
        listed = {"".join(instance.split()) for instance in kernel.instantiations}

        def rank(captures_of_instance: list[Capture]) -> tuple[bool, int]:
            template = Demangled.of(captures_of_instance[0].kernel).template
            is_listed = "".join(f"{kernel.name}<{','.join(template)}>".split()) in listed
            return is_listed, _launch_count(captures_of_instance)

        return _joined(max(by_instance.values(), key=rank, default=None))


def _names_constants(capture: Capture, params: tuple[Param, ...]) -> bool:
    """Whether a record in Triton has as many parameters, and its constants the same names."""
    if len(capture.params) != len(params):
        return False
    fixed = {param.name for param, kind in zip(params, capture.params, strict=True) if kind == "constexpr"}
    return all(fixed == launch.constexprs.keys() for launch in capture.launches)


def _launch_count(captures: list[Capture]) -> int:
    return sum(launch.times for capture in captures for launch in capture.launches)


def _joined(captures: list[Capture] | None) -> Capture | None:
    """The first record with the launches of all."""
    if captures is None:
        return None
    return replace(captures[0], launches=tuple(launch for capture in captures for launch in capture.launches))


def _fits(capture: Capture, params: tuple[Param, ...]) -> bool:
    """Whether a record may be of a kernel with these parameters, by their number and built-in types."""
    if any(len(launch.args) != len(params) for launch in capture.launches):
        return False
    if len(capture.params) != len(params):
        return True
    for text, param in zip(capture.params, params, strict=True):
        declared, other = types.element(param.type, {}), types.element(text, {})
        if ("*" in text) != param.pointer or (
            declared is not None and other is not None and declared != other
        ):
            return False
    return True
