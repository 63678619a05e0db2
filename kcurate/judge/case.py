"""One candidate while it is judged: the facts so far (`Case`), and the ruling that ends the case (`Ruling`).

Not covered: the decisions (`kcurate.judge.judging`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kcurate.records import (
    Candidate,
    Environment,
    Outcome,
    Sanitized,
    SideReport,
    SizeTiming,
    Speedup,
    Verdict,
)
from kcurate.records.pair import SideName
from kcurate.verdicts.keys import PROTOCOL


class Ruling(Exception):  # noqa: N818 - the way a stage ends a case, not an error
    """Ends a case: the outcome, one line for a person, the side at fault, a trimmed log.

    `unexplained`: a worker died without an error. It may have been killed from outside, so the judge retries.
    """

    def __init__(
        self,
        outcome: Outcome,
        detail: str,
        *,
        side: SideName | None = None,
        log: str | None = None,
        unexplained: bool = False,
    ) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = " ".join(detail.split())
        self.side = side
        self.log = log
        self.unexplained = unexplained


@dataclass
class Case:
    """The facts about a candidate so far. `checks` and `stages_s` are in execution order.

    Besides stages, `stages_s` has the seconds of the GPU's lock (`GpuLock.seconds`), which overlap with them.
    """

    candidate: Candidate
    key: str
    environment: Environment
    started_s: float = field(default_factory=time.perf_counter)
    checks: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    stages_s: dict[str, float] = field(default_factory=dict)
    reports: dict[SideName, SideReport] = field(default_factory=dict)
    speedup: Speedup | None = None
    timing_method: str | None = None
    sizes: list[SizeTiming] = field(default_factory=list)
    sanitized: list[Sanitized] = field(default_factory=list)
    needless: str | None = None

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the wall time of the `with` block to a stage, even if it raises."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add_seconds({name: time.perf_counter() - started})

    def add_seconds(self, seconds: Mapping[str, float]) -> None:
        """Add seconds to entries of `stages_s`."""
        for name, more in seconds.items():
            self.stages_s[name] = round(self.stages_s.get(name, 0.0) + more, 6)

    def passed(self, *checks: str) -> None:
        """Record checks that the candidate passed; each name once."""
        self.checks += [check for check in checks if check not in self.checks]

    def replace_environment(self, environment: Environment) -> None:
        """Replace the environment by a newer reading; details added before are kept."""
        details = {**self.environment.details, **environment.details}
        self.environment = replace(environment, details=details)

    def add_details(self, **details: str | float | int | bool | None) -> None:
        """Add readings to the environment record."""
        self.environment = replace(self.environment, details={**self.environment.details, **details})

    def update_report(self, side: SideName, **changes: object) -> None:
        """Set fields of one side's report."""
        known = self.reports.get(side, SideReport())
        self.reports[side] = replace(known, **changes)  # type: ignore[arg-type]

    def verdict(self, ruling: Ruling) -> Verdict:
        """The verdict that this ruling gives the case."""
        return Verdict(
            candidate=self.candidate.id,
            key=self.key,
            outcome=ruling.outcome,
            environment=self.environment,
            detail=ruling.detail,
            side=ruling.side,
            log=ruling.log,
            checks=tuple(self.checks),
            slow=self.reports.get("slow"),
            fast=self.reports.get("fast"),
            speedup=self.speedup,
            timing_method=self.timing_method,
            seeds=tuple(self.seeds),
            wall_s=round(time.perf_counter() - self.started_s, 6),
            stages_s=self.stages_s,
            sizes=tuple(self.sizes),
            needless=self.needless,
            protocol=PROTOCOL,
            sanitizers=tuple(self.sanitized),
        )
