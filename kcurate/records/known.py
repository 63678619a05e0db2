"""Facts about a suite's benchmark that are not in its code: the problem, and how each variant is launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcurate.records.pair import ProblemOrigin
from kcurate.records.problem import Buffer, Language, Problem, Side, Step, View


@dataclass(frozen=True)
class KnownSide:
    """A `Side` without its code, which stays in the suite's tree."""

    plan: tuple[Step, ...]
    buffers: Mapping[str, Buffer] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    nondeterministic: tuple[str, ...] = ()
    language: Language = "cuda"

    def side(self, code: str) -> Side:
        """The `Side` with a variant's code."""
        return Side(code, self.plan, self.buffers, self.views, self.nondeterministic, self.language)


@dataclass(frozen=True)
class KnownProblem:
    """A file `sources/problems/<suite>/<name>.json`: facts about a benchmark, none of its code.

    `sides` maps a variant's folder name to how that variant is launched; the name is empty for suites
    without variants. `paths` are suffixes of the paths of the files that define the kernels (empty: any file
    of the benchmark), for benchmarks that reuse a kernel's name in another file. `pipeline` lists the files
    of a variant (without `.cu`) whose kernels only together make one side, in order. `code_id` is the content
    id of the code that a single kernel's problem was tried with (None: not tied to any code), `source` the
    origin of the problem (None: not recorded).
    """

    suite: str
    benchmark: str
    problem: Problem
    sides: Mapping[str, KnownSide]
    paths: tuple[str, ...] = ()
    pipeline: tuple[str, ...] = ()
    code_id: str | None = None
    source: ProblemOrigin | None = None

    def covers(self, path: str | None) -> bool:
        """Whether it applies to kernels of this file; None: the file is unknown."""
        return not self.paths or path is None or any(f"/{path}".endswith(f"/{end}") for end in self.paths)
