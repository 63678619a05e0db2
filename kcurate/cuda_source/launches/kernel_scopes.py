"""Which kernels a launch may refer to if several namespaces define one with its name.

Not covered: using-directives in a launch's scope; overloads in one namespace, which all match.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcurate.core.grouping import grouped
from kcurate.cuda_source.launches.launch_sites import Launch
from kcurate.cuda_source.parse.items import Item, Parsed, innermost


class Scopes:
    """A unit's kernels by name, its functions, and the aliases of its namespaces and types."""

    def __init__(self, parsed: Parsed) -> None:
        kernels = (item for item in parsed.items if item.kernel and item.names)
        self._kernels = grouped((item.names[-1], item) for item in kernels)
        self._functions = [item for item in parsed.items if item.kind == "function" and item.names]
        self._aliases = {name for item in parsed.items if item.kind == "using" for name in item.names}

    def meant(self, launch: Launch) -> Sequence[Item]:
        """The kernels that a launch may refer to: those in the nearest enclosing scope that has the name.

        If no scope has it, a qualified name matches by suffix; an unqualified name, or one behind an alias,
        matches all kernels of that name.
        """
        named = self._kernels.get(launch.kernel, [])
        if not named:
            return ()
        written_name = launch.qualified.removeprefix(b"::")
        scope = [] if launch.qualified.startswith(b"::") else self._scope(launch.at)
        for depth in range(len(scope), -1, -1):
            exact = b"::".join([*scope[:depth], written_name])
            if exactly_named := [item for item in named if item.qualified == exact]:
                return exactly_named
        if b"::" not in written_name or written_name.split(b"::")[0] in self._aliases:
            return named
        return [item for item in named if item.qualified.endswith(b"::" + written_name)]

    def _scope(self, at: int) -> list[bytes]:
        """The namespaces around byte `at`, outermost first."""
        inner = innermost(self._functions, at)
        return inner.qualified.split(b"::")[:-1] if inner is not None else []
