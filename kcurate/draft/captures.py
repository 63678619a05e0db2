"""Finds the recorded launches of a kernel: `captures/*/*.json` of the workspace.

Not covered: making a draft of them (`recorded`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kcurate.core import store
from kcurate.core.notes import Note
from kcurate.core.workspace import Workspace
from kcurate.cuda_source import kernel_signatures
from kcurate.cuda_source.demangled import Demangled
from kcurate.errors import RecordError
from kcurate.problem import c_types as types
from kcurate.records import Capture, Kernel, Param


class Captures:
    """All records of a workspace, by the kernel's bare name."""

    def __init__(self, workspace: Workspace, note: Note) -> None:
        self._by_name: dict[str, list[Capture]] = {}
        for path in sorted(workspace.captures.glob("*/*.json")):
            try:
                one = store.read_json(path, Capture)
            except RecordError as error:
                note(f"not used: {error}")
                continue
            self._by_name.setdefault(Demangled.of(one.kernel).base, []).append(one)

    def of_triton(self, kernel: Kernel) -> Capture | None:
        """The record of a kernel in Triton: of its most launched signature, preferably of its own file."""
        found = [
            one
            for one in self._by_name.get(kernel.name, ())
            if one.source == "triton" and one.launches and _names_constants(one, kernel.params)
        ]
        found = _preferred(found, (one for one in found if (one.file or "").endswith(kernel.span.path)))
        by_types: dict[tuple[str, ...], list[Capture]] = {}
        for one in found:
            by_types.setdefault(one.params, []).append(one)
        return _joined(max(by_types.values(), key=_times, default=None))

    def of(self, kernel: Kernel, code: str) -> Capture | None:
        """The record of a kernel's most launched instance, with the launches of all its programs.

        Kernels that share a name are told apart by their parameters, their namespace, and by a program named
        like their benchmark.
        """
        found = [
            one
            for one in self._by_name.get(kernel.name, ())
            if one.source != "triton" and one.launches and _fits(one, kernel.params)
        ]
        spaces = [name for name in kernel_signatures(code.encode()) if name.split("::")[-1] == kernel.name]
        found = _preferred(found, (one for one in found if Demangled.of(one.kernel).name in spaces))
        found = _preferred(found, (one for one in found if kernel.benchmark in one.program))
        by_instance: dict[str, list[Capture]] = {}
        for one in found:
            by_instance.setdefault(one.mangled, []).append(one)
        listed = {"".join(one.split()) for one in kernel.instantiations}

        def rank(some: list[Capture]) -> tuple[bool, int]:
            template = Demangled.of(some[0].kernel).template
            known = "".join(f"{kernel.name}<{','.join(template)}>".split()) in listed
            return known, _times(some)

        return _joined(max(by_instance.values(), key=rank, default=None))


def _names_constants(capture: Capture, params: tuple[Param, ...]) -> bool:
    """Whether a record in Triton has as many parameters, and its constants the same names."""
    if len(capture.params) != len(params):
        return False
    fixed = {one.name for one, kind in zip(params, capture.params, strict=True) if kind == "constexpr"}
    return all(fixed == launch.constexprs.keys() for launch in capture.launches)


def _times(some: list[Capture]) -> int:
    return sum(launch.times for one in some for launch in one.launches)


def _joined(some: list[Capture] | None) -> Capture | None:
    """The first record with the launches of all."""
    if some is None:
        return None
    return replace(some[0], launches=tuple(launch for one in some for launch in one.launches))


def _preferred(all_: list[Capture], better: Iterable[Capture]) -> list[Capture]:
    return list(better) or all_


def _fits(capture: Capture, params: tuple[Param, ...]) -> bool:
    """Whether a record may be of a kernel with these parameters, by their number and built-in types."""
    if any(len(launch.args) != len(params) for launch in capture.launches):
        return False
    if len(capture.params) != len(params):
        return True
    for text, param in zip(capture.params, params, strict=True):
        own, other = types.element(param.type, {}), types.element(text, {})
        if ("*" in text) != param.pointer or (own is not None and other is not None and own != other):
            return False
    return True
