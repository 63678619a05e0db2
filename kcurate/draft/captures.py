"""Finds the recorded launches of a kernel: `captures/*/*.json` of the workspace.

Not covered: making a draft of them (`recorded`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kcurate import store
from kcurate.cuda_source import kernel_signatures
from kcurate.draft.meaning import split
from kcurate.errors import RecordError
from kcurate.notes import Note
from kcurate.problem import c_types as types
from kcurate.records import Capture, Kernel, Param
from kcurate.workspace import Workspace

_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|_NV_ANON_NAMESPACE::")


@dataclass(frozen=True)
class Instance:
    """A demangled kernel name: qualified, without template arguments; and those."""

    name: str
    template: tuple[str, ...] = ()

    @staticmethod
    def of(demangled: str) -> Instance:
        """Reads `void space::scale<float, (int)4>(float*, int)`, with or without types around it."""
        text, depth, start = _ANONYMOUS.sub("", demangled), 0, 0
        opening = end = len(text)
        for at, symbol in enumerate(text):
            if symbol == "(" and depth == 0:
                end = at
                break
            if symbol == "<":
                opening = at if depth == 0 else opening
                depth += 1
            depth -= symbol == ">"
            if symbol == " " and depth == 0:
                start = at + 1
        inside = text[opening + 1 : end].strip().removesuffix(">") if opening < end else ""
        return Instance(
            text[start : min(opening, end)].strip(), tuple(split(inside, angles=True)) if inside else ()
        )


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
            self._by_name.setdefault(Instance.of(one.kernel).name.rpartition("::")[2], []).append(one)

    def of(self, kernel: Kernel, code: str) -> Capture | None:
        """The record of a kernel's most launched instance, with the launches of all its programs.

        Kernels that share a name are told apart by their parameters, their namespace, and by a program named
        like their benchmark.
        """
        found = [
            one for one in self._by_name.get(kernel.name, ()) if one.launches and _fits(one, kernel.params)
        ]
        spaces = [name for name in kernel_signatures(code.encode()) if name.split("::")[-1] == kernel.name]
        found = _preferred(found, (one for one in found if Instance.of(one.kernel).name in spaces))
        found = _preferred(found, (one for one in found if kernel.benchmark in one.program))
        by_instance: dict[str, list[Capture]] = {}
        for one in found:
            by_instance.setdefault(one.mangled, []).append(one)
        listed = {"".join(one.split()) for one in kernel.instantiations}

        def rank(some: list[Capture]) -> tuple[bool, int]:
            template = Instance.of(some[0].kernel).template
            known = "".join(f"{kernel.name}<{','.join(template)}>".split()) in listed
            return known, sum(launch.times for one in some for launch in one.launches)

        best = max(by_instance.values(), key=rank, default=None)
        if best is None:
            return None
        return replace(best[0], launches=tuple(launch for one in best for launch in one.launches))


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
