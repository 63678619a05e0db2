"""A pair's data for the page: `line` for the table, `part` for the details that the page shows on demand.

The scripts in `assets/` read the keys. Times are microseconds, rounded for display.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kcurate.core import codec, json_text
from kcurate.profiling.counters import BY_NAME, compared, shown
from kcurate.profiling.on_file import Profiles
from kcurate.profiling.technique_counters import Move, moves
from kcurate.records import (
    SIDES,
    Candidate,
    Launch,
    OriginKind,
    ProblemOrigin,
    Profile,
    Side,
    SideName,
    SideReport,
    Verdict,
    steps,
)
from kcurate.verdicts import items, standing

# At most this many counters are shown as the reason of a speedup; all of them are further down.
MOST_COUNTERS = 8
# The last part of a reading's key, longest first, and the unit as it is spelled.
UNITS: Mapping[str, str] = {
    "bytes_per_s": "bytes per second",
    "bytes": "bytes",
    "mhz": "MHz",
    "us": "microseconds",
    "s": "seconds",
    "c": "°C",
}
# What a pair's page says of its sides, by the origin's kind.
SIDES_FROM: Mapping[OriginKind, str] = {
    "curated": "both written for kcurate",
    "natural": "both from source files",
    "rule": "{made} side by rewrite rule: {makers}",
    "model": "{made} side by a model: {makers}",
    "minted": "both from templates, for a composed problem",
    "imported": "published by others",
    "history": "one kernel before and after a commit",
}
# And of its problem, by the problem's origin.
PROBLEMS: Mapping[ProblemOrigin, str] = {
    "written": "",
    "known": "The problem is what the suite's benchmark computes.",
    "drafted": "Guessed from the code: sizes, inputs, tolerances, and launches that no host code gives.",
    "captured": "Recorded from a running program.",
    "model": "The problem was written by a model.",
    "composed": "",
}


@dataclass(frozen=True)
class Entry:
    """A pair, every verdict on its id (oldest first), the standing one, and its sides' profiles by device.

    `outdated`: a kernel of it has other code in the workspace since.
    """

    candidate: Candidate
    verdicts: tuple[Verdict, ...]
    best: Verdict | None
    profiles: Mapping[str, Mapping[SideName, Profile]] = field(default_factory=dict)
    outdated: bool = False

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
        "why": best.detail if best and not best.outcome.correct else "",
        "outdated": items.OUTDATED if entry.outcome == "stale" else items.EARLIER_CODE * entry.outdated,
        "files": pair.description if pair.origin.kind in ("natural", "history") else "",
        "text": pair.description,
    }


def _elsewhere(verdict: Verdict) -> list[Any]:
    """Device, outcome and speedup of a verdict other than the standing one."""
    speedup = _rounded(verdict.speedup.ratio) if verdict.speedup else None
    return [verdict.environment.device, verdict.outcome.value, speedup]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def part(entry: Entry) -> dict[str, Any]:
    """The details beyond the line: codes, plans, problem, origin, verdicts, counters."""
    pair, best = entry.candidate, entry.best
    sides = entry.profiles.get(best.environment.device, {}) if best else {}
    return {
        "slow": pair.slow.code,
        "fast": pair.fast.code,
        "launches": [f"{name} side: {_launches(getattr(pair, name))}" for name in SIDES],
        "slow_plan": _launch(pair.slow),
        "fast_plan": _launch(pair.fast),
        "problem": json_text.pretty(codec.to_data(pair.problem)) if pair.problem else "not known",
        "origin": dict(_origin(pair)),
        "inferred": PROBLEMS[pair.origin.problem],
        "why": _evidence(pair.techniques, sides) if len(sides) == len(SIDES) else [],
        "verdicts": [
            {
                **_verdict(verdict),
                "current": bool(best and verdict.key == best.key),
                "standing": verdict is best,
            }
            for verdict in entry.verdicts[::-1]
        ],
        "profiles": {
            device: [(_meaning(name), _spelled(slow), _spelled(fast)) for name, slow, fast in compared(sides)]
            for device, sides in entry.profiles.items()
        },
    }


def _evidence(techniques: Sequence[str], sides: Mapping[SideName, Profile]) -> list[tuple[str, ...]]:
    """The counters that changed as a technique predicts, most changed first.

    Each row: the counter's meaning, its value on the slow and on the fast side, its change, the techniques.
    """
    speaks_for: dict[str, list[str]] = {}
    changed: dict[str, Move] = {}
    for technique in techniques:
        shifted = {
            move.counter: move for move in moves(technique, sides["slow"], sides["fast"]) if move.right
        }
        changed |= shifted
        for counter in shifted:
            speaks_for.setdefault(counter, []).append(technique)
    by_change = sorted(changed.values(), key=lambda move: -_factor(move))[:MOST_COUNTERS]
    return [
        (
            _meaning(move.counter),
            *(_spelled(shown(move.counter, value)) for value in (move.slow, move.fast)),
            _change(move),
            ", ".join(speaks_for[move.counter]),
        )
        for move in by_change
    ]


def _factor(move: Move) -> float:
    low, high = sorted((move.slow, move.fast))
    return high / low if low else float("inf")


def _change(move: Move) -> str:
    way = "less" if move.fast < move.slow else "more"
    if move.counter.endswith("_pct"):
        return f"{three(abs(move.fast - move.slow))} points {way}"
    return f"{three(_factor(move))} times {way}" if min(move.slow, move.fast) else f"none on one side ({way})"


def _meaning(counter: str) -> str:
    known = {"conflict_pct": "passes of shared memory caused by bank conflicts"}
    return BY_NAME[counter].text if counter in BY_NAME else known.get(counter, counter)


def _spelled(value: str) -> str:
    return f"{value.removesuffix(' us')} microseconds" if value.endswith(" us") else value


def three(value: float) -> str:
    """A number to three significant digits, without an exponent: 0.0352, 6.10, 805, 12,300."""
    return format(Decimal(f"{value:#.3g}"), ",f") if value else "0"


def _origin(pair: Candidate) -> Iterator[tuple[str, str]]:
    """The origin of the sides, without unknown facts and those that the page shows elsewhere."""
    origin = pair.origin
    makers = ", ".join(origin.rules) or origin.model or ""
    yield "sides", SIDES_FROM[origin.kind].format(made=origin.made, makers=makers)
    if origin.suite and not pair.id.startswith(f"{origin.suite}/"):
        yield "suite", origin.suite
    for name in ("url", "base_revision", "revision", "path", "parent", "item", "claim", "seed"):
        yield name, _text(getattr(origin, name) or "")
    if origin.kind != "natural":
        yield "kernels", _text(list(origin.kernels))


def _launches(side: Side) -> str:
    """The launches of a side in CUDA or Triton syntax, without the arguments."""
    shown: list[str] = []
    for step in steps(side.plan):
        if isinstance(step, Launch):
            grid, block = (" x ".join(map(str, extents)) for extents in (step.grid, step.block))
            template = f"<{', '.join(step.template)}>" if step.template else ""
            configured = f"<<<{grid}, {block}>>>" if block else f"[{grid}]"
            shown.append(f"{step.launch}{template}{configured}")
    return ", ".join([*shown[:4], *(["..."] if len(shown) > 4 else [])]) or "no launch"


def _launch(side: Side) -> str:
    return json_text.pretty({key: value for key, value in codec.to_data(side).items() if key != "code"})


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _verdict(verdict: Verdict) -> dict[str, Any]:
    speedup, environment = verdict.speedup, verdict.environment
    named = {
        "backend": environment.backend,
        "device": environment.device,
        "driver": environment.driver,
        "compiler": environment.compiler,
        "kcurate": environment.kcurate,
        "protocol": verdict.protocol,
        **environment.details,
    }
    return {
        "outcome": verdict.outcome.value,
        "sentence": verdict.outcome.sentence,
        "detail": verdict.detail,
        "side": verdict.side or "",
        "log": verdict.log or "",
        "device": environment.device,
        "emulated": environment.backend == "emulator",
        "speedup": [speedup.ratio, speedup.low, speedup.high] if speedup else None,
        "confidence": speedup.confidence if speedup else None,
        "slow": _side(verdict.slow),
        "fast": _side(verdict.fast),
        "checks": list(verdict.checks),
        "environment": dict(_reading(key, value) for key, value in named.items() if value not in (None, "")),
    }


def _reading(key: str, value: Any) -> tuple[str, str]:
    """A reading with a readable name and unit."""
    unit = next((unit for unit in UNITS if key.endswith(f"_{unit}")), "")
    words = key.removesuffix(f"_{unit}").replace("_", " ").split()
    name = " ".join(word.upper() if word in ("sm", "l2", "cuda") else word for word in words)
    if isinstance(value, bool):
        return name, "yes" if value else "no"
    if isinstance(value, int | float):
        return (
            name,
            f"{f'{value:,}' if isinstance(value, int) else three(value)} {UNITS.get(unit, '')}".strip(),
        )
    return name, str(value)


def _side(report: SideReport | None) -> Mapping[str, Any] | None:
    if report is None:
        return None
    return {
        "us": _rounded(report.median_us),
        "samples": sum(len(block) for block in report.samples_us),
        "kernels": [codec.to_data(resources) for resources in report.resources],
    }
