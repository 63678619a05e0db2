"""A pair's data for the page: `line` for the table, `part` for the details that the page shows on demand.

The scripts in `assets/` read the keys. Times are microseconds, rounded for display.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kcurate.core import codec, json_text
from kcurate.profiling.counters import compared
from kcurate.profiling.on_file import Profiles
from kcurate.records import Candidate, Profile, Side, SideName, SideReport, Verdict
from kcurate.verdicts import standing


@dataclass(frozen=True)
class Entry:
    """A pair, every verdict on its id (oldest first), the standing one, and its sides' profiles by device."""

    candidate: Candidate
    verdicts: tuple[Verdict, ...]
    best: Verdict | None
    profiles: Mapping[str, Mapping[SideName, Profile]] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """The outcome that the table shows."""
        if self.best is None:
            return "stale" if self.verdicts else "not judged"
        return self.best.outcome.value

    @property
    def copy_share(self) -> float | None:
        """The fast side's share of the measured copy bandwidth, 0 to about 1; None if unknown."""
        return self.best.environment.copy_fraction if self.best else None

    @property
    def roofline(self) -> tuple[float, float, float] | None:
        """The fast side's operations per byte of device memory and per second, and the GPU's copy bandwidth
        in bytes per second; None if one is unknown, or the side has no floating-point operations."""
        device = self.best.environment.device if self.best else ""
        profile = self.profiles.get(device, {}).get("fast")
        roof = self.best.environment.details.get("copy_bytes_per_s") if self.best else None
        if profile is None or not isinstance(roof, int | float):
            return None
        counted = profile.counters
        moved = counted.get("dram_read_bytes", 0.0) + counted.get("dram_write_bytes", 0.0)
        flops, us = counted.get("flops", 0.0), counted.get("time_us", 0.0)
        return (flops / moved, flops / us * 1e6, float(roof)) if flops and moved and us else None


def entry(candidate: Candidate, verdicts: Sequence[Verdict], profiles: Profiles | None = None) -> Entry:
    """The pair with its standing verdict."""
    best = standing.best(standing.current(candidate, verdicts))
    return Entry(candidate, tuple(verdicts), best, profiles.by_device(candidate) if profiles else {})


def line(entry: Entry) -> dict[str, Any]:
    """The data of a row in the table, and of the search and the filters."""
    pair, best = entry.candidate, entry.best
    speedup = best.speedup if best else None
    others = standing.elsewhere(standing.current(pair, entry.verdicts), best)
    return {
        "id": pair.id,
        "family": pair.family,
        "domain": pair.domain,
        "techniques": list(pair.techniques),
        "origin": pair.origin.suite or pair.origin.kind,
        "license": pair.license or "unknown",
        "outcome": entry.outcome,
        "device": best.environment.device if best else "",
        "devices": [verdict.environment.device for verdict in (best, *others)] if best else [],
        "others": [_elsewhere(verdict) for verdict in others],
        "speedup": _rounded(speedup.ratio if speedup else None),
        "low": _rounded(speedup.low if speedup else None),
        "high": _rounded(speedup.high if speedup else None),
        "slow_us": _rounded(best.slow.median_us if best and best.slow else None),
        "fast_us": _rounded(best.fast.median_us if best and best.fast else None),
        "copy": _rounded(entry.copy_share),
        **({"roofline": [_rounded(value) for value in entry.roofline]} if entry.roofline else {}),
        "text": pair.description,
    }


def _elsewhere(verdict: Verdict) -> list[Any]:
    """Device, outcome and speedup of a verdict other than the standing one."""
    speedup = _rounded(verdict.speedup.ratio) if verdict.speedup else None
    return [verdict.environment.device, verdict.outcome.value, speedup]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def part(entry: Entry) -> dict[str, Any]:
    """What the details add to the line: codes, plans, problem, origin, verdicts."""
    pair, best = entry.candidate, entry.best.key if entry.best else None
    return {
        "slow": pair.slow.code,
        "fast": pair.fast.code,
        "slow_plan": _launch(pair.slow),
        "fast_plan": _launch(pair.fast),
        "problem": json_text.pretty(codec.to_data(pair.problem)) if pair.problem else "not known",
        "origin": {key: _text(value) for key, value in codec.to_data(pair.origin).items()},
        "verdicts": [_verdict(verdict, current=verdict.key == best) for verdict in entry.verdicts[::-1]],
        "profiles": {device: compared(sides) for device, sides in entry.profiles.items()},
    }


def _launch(side: Side) -> str:
    return json_text.pretty({key: value for key, value in codec.to_data(side).items() if key != "code"})


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _verdict(verdict: Verdict, *, current: bool) -> dict[str, Any]:
    speedup, environment = verdict.speedup, verdict.environment
    named = {
        "backend": environment.backend,
        "device": environment.device,
        "driver": environment.driver,
        "compiler": environment.compiler,
        "kcurate": environment.kcurate,
        **environment.details,
    }
    return {
        "current": current,
        "outcome": verdict.outcome.value,
        "detail": verdict.detail,
        "log": verdict.log or "",
        "device": environment.device,
        "speedup": [speedup.ratio, speedup.low, speedup.high] if speedup else None,
        "confidence": speedup.confidence if speedup else None,
        "slow": _side(verdict.slow),
        "fast": _side(verdict.fast),
        "method": verdict.timing_method or "",
        "checks": list(verdict.checks),
        "environment": {key: str(value) for key, value in named.items() if value not in (None, "")},
    }


def _side(report: SideReport | None) -> Mapping[str, Any] | None:
    if report is None:
        return None
    return {
        "us": _rounded(report.median_us),
        "samples": sum(len(block) for block in report.samples_us),
        "kernels": [codec.to_data(resources) for resources in report.resources],
    }
