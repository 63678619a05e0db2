"""Which kernels a launch refers to when several namespaces define one with its name.

Not covered: using-directives inside a launch's scope; overloads in one namespace, which all match.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcurate.core.grouping import grouped
from kcurate.cuda_source.launches.launch_sites import Launch
from kcurate.cuda_source.parse.items import Item, Parsed, innermost


class Scopes:
    """A unit's kernels by name, and the functions that enclose its launches."""

    def __init__(self, parsed: Parsed) -> None:
        kernels = (item for item in parsed.items if item.kernel and item.names)
        self._kernels = grouped((item.names[-1], item) for item in kernels)
        self._functions = [item for item in parsed.items if item.kind == "function" and item.names]
        self._aliases = {name for item in parsed.items if item.kind == "using" for name in item.names}

    def meant(self, launch: Launch) -> Sequence[Item]:
        """The kernels that a launch may refer to: those in the nearest scope where that name exists.

        A name found in no scope matches by suffix; one unqualified, or behind an alias, matches all.
        """
        named = self._kernels.get(launch.kernel, [])
        if not named:
            return ()
        written = launch.qualified.removeprefix(b"::")
        scope = [] if launch.qualified.startswith(b"::") else self._scope(launch.at)
        for depth in range(len(scope), -1, -1):
            exact = b"::".join([*scope[:depth], written])
            if exactly_named := [item for item in named if item.qualified == exact]:
                return exactly_named
        if b"::" not in written or written.split(b"::")[0] in self._aliases:
            return named
        return [item for item in named if item.qualified.endswith(b"::" + written)]

    def _scope(self, at: int) -> list[bytes]:
        """The namespaces around a byte position."""
        inner = innermost(self._functions, at)
        return inner.qualified.split(b"::")[:-1] if inner is not None else []
