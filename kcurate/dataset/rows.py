"""A pair and its verdict as one flat, typed row of the `pairs` config.

What is nested in the record (problem, plans, extra buffers) is JSON text in the row: its shape differs from
pair to pair, and a column has one type.
"""

from __future__ import annotations

from typing import Any

from kcurate import codec
from kcurate.records import Candidate, Side, Verdict

# Column to the type of `datasets.Value`; a column may be null.
COLUMNS: dict[str, str | list[str]] = {
    "id": "string",
    "family": "string",
    "domain": "string",
    "license": "string",
    "description": "string",
    "techniques": ["string"],
    "origin": "string",
    "suite": "string",
    "url": "string",
    "revision": "string",
    "made": "string",
    "rules": ["string"],
    "model": "string",
    "parent": "string",
    "problem": "string",
    "slow_code": "string",
    "slow_side": "string",
    "fast_code": "string",
    "fast_side": "string",
    "outcome": "string",
    "backend": "string",
    "device": "string",
    "driver": "string",
    "compiler": "string",
    "slow_us": "float64",
    "fast_us": "float64",
    "speedup": "float64",
    "speedup_low": "float64",
    "speedup_high": "float64",
    "speedup_confidence": "float64",
    "key": "string",
}


def _json(data: Any) -> str:
    return codec.canonical_json(data).decode()


def _side(side: Side) -> str:
    return _json({key: value for key, value in codec.to_data(side).items() if key != "code"})


def row(candidate: Candidate, verdict: Verdict) -> dict[str, Any]:
    """One row: every column of `COLUMNS`. Times in microseconds, `speedup = slow_us / fast_us`."""
    origin, environment, speedup = candidate.origin, verdict.environment, verdict.speedup
    return {
        "id": candidate.id,
        "family": candidate.family,
        "domain": candidate.domain,
        "license": candidate.license,
        "description": candidate.description,
        "techniques": list(candidate.techniques),
        "origin": origin.kind,
        "suite": origin.suite,
        "url": origin.url,
        "revision": origin.revision,
        "made": origin.made,
        "rules": list(origin.rules),
        "model": origin.model,
        "parent": origin.parent,
        "problem": None if candidate.problem is None else _json(codec.to_data(candidate.problem)),
        "slow_code": candidate.slow.code,
        "slow_side": _side(candidate.slow),
        "fast_code": candidate.fast.code,
        "fast_side": _side(candidate.fast),
        "outcome": verdict.outcome.value,
        "backend": environment.backend,
        "device": environment.device,
        "driver": environment.driver,
        "compiler": environment.compiler,
        "slow_us": verdict.slow.median_us if verdict.slow else None,
        "fast_us": verdict.fast.median_us if verdict.fast else None,
        "speedup": speedup.ratio if speedup else None,
        "speedup_low": speedup.low if speedup else None,
        "speedup_high": speedup.high if speedup else None,
        "speedup_confidence": speedup.confidence if speedup else None,
        "key": verdict.key,
    }
