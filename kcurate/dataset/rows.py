"""A pair and its verdicts as one flat, typed row of the `pairs` config; its profiles as rows of `profiles`.

Nested parts of the record (problem, plans, extra buffers) are JSON text in the row: their shape differs
between pairs, and a column has one type. Not covered: which pairs become rows (`kcurate.dataset.stage`),
reading a pair back from a row (`kcurate.hub.published_rows`), the counters (`kcurate.profiling.counters`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from kcurate.core import codec, store
from kcurate.dataset import licences
from kcurate.dataset.columns import CONFIGS
from kcurate.dataset.contamination import relatives
from kcurate.problem.neutral import neutral
from kcurate.profiling.on_file import Profiles
from kcurate.records import Candidate, Environment, Kernel, Resources, Side, SideReport, Verdict

# Of `pairs`.
COLUMNS = CONFIGS["pairs"]


def whole(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `pairs` with all columns, from one that was read from a file, which lacks empty `SPARSE`
    columns."""
    return {name: row.get(name, [] if isinstance(kind, list) else None) for name, kind in COLUMNS.items()}


def _json(data: Any) -> str:
    return codec.canonical_json(data).decode()


def _parts(candidate: Candidate) -> dict[str, Any]:
    """Problem and sides as data, without the sides' code."""
    data = {key: codec.to_data(getattr(candidate, key)) for key in ("slow", "fast")}
    sides = {f"{key}_side": {k: v for k, v in side.items() if k != "code"} for key, side in data.items()}
    problem = None if candidate.problem is None else codec.to_data(candidate.problem)
    return {"problem": problem, **sides}


def content_of(candidate: Candidate) -> str:
    """The hash of a row's content: both codes, plans and the problem, as published."""
    return store.content_id(candidate.slow.code, candidate.fast.code, codec.canonical_json(_parts(candidate)))


def row(
    candidate: Candidate, verdict: Verdict, others: Sequence[Verdict] = (), kernels: Sequence[Kernel] = ()
) -> dict[str, Any]:
    """One row: every column of `COLUMNS`, in order. `others` are verdicts of other devices.

    `kernels`: the extracted kernels that the pair was made from, for their places in the source tree.
    """
    shown = neutral(candidate)
    columns = {
        **_who(candidate),
        **{key: None if data is None else _json(data) for key, data in _parts(shown).items()},
        "sources": [_place(kernel) for kernel in kernels],
        "slow_language": shown.slow.language,
        "fast_language": shown.fast.language,
        "changed": _changed(shown),
        "slow_code": shown.slow.code,
        "fast_code": shown.fast.code,
        "content": content_of(shown),
        **_verdict(verdict),
        "devices": [_on_device(judged) for judged in (verdict, *others)],
        "other_verdicts": [_json(codec.to_data(other)) for other in others],
    }
    if licences.keeps_original(candidate.license):
        columns |= {"slow_original": candidate.slow.code, "fast_original": candidate.fast.code}
    return {name: columns.get(name) for name in COLUMNS}


def _place(kernel: Kernel) -> dict[str, Any]:
    span = kernel.span
    lines = {"first_line": span.start_line, "last_line": span.end_line}
    return {"kernel": kernel.id, "path": span.path, **lines}


def _changed(candidate: Candidate) -> list[str]:
    """The fields in which the two sides differ, such as code, plan, buffers."""
    parts = (member.name for member in fields(Side))
    return [name for name in parts if getattr(candidate.slow, name) != getattr(candidate.fast, name)]


def _who(candidate: Candidate) -> dict[str, Any]:
    origin = candidate.origin
    same = ("id", "family", "domain", "license", "description")
    return {
        **{name: getattr(candidate, name) for name in same},
        **_likeness(candidate),
        "techniques": list(candidate.techniques),
        "worth": [{"technique": name, "ratio": ratio} for name, ratio in candidate.worth.items()],
        "origin": origin.kind,
        **{name: getattr(origin, name) for name in ("suite", "url", "revision", "made", "model", "parent")},
        "kernels": list(origin.kernels),
        "rules": list(origin.rules),
        "problem_source": origin.problem,
    }


def _likeness(candidate: Candidate) -> dict[str, Any]:
    """The similarity columns of a row: the hash of its operator graph, and related tasks of evaluation
    sets."""
    graph = candidate.id.split("/")[1] if candidate.origin.kind == "minted" else None
    return {"graph": graph, "relatives": list(relatives(candidate.family))}


def poses_task(candidate: Candidate) -> bool:
    """Whether an unjudged pair is a minted problem with its plain side."""
    return candidate.origin.kind == "minted" and candidate.slow.language == "torch"


def task_rows(rows: Iterable[Mapping[str, Any]], problems: Iterable[Candidate]) -> Iterator[dict[str, Any]]:
    """The rows of `tasks`: each problem once, of rows of `pairs` and of pairs that only pose one."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["problem"], []).append(row)
    tasks = [_judged_task(problem, group) for problem, group in groups.items()]
    tasks += [task for pair in problems if (task := _posed_task(pair))["problem"] not in groups]
    for task in sorted(tasks, key=lambda task: str(task["id"])):
        problem = json.loads(task["problem"])
        types = sorted({buffer["dtype"] for buffer in problem["buffers"].values()})
        statement = problem.get("statement") or task["description"].partition(";")[0]
        module = problem.get("reference", {}).get("code")
        values = {**task, "types": types, "statement": statement, "module": module}
        yield {name: values.get(name) for name in CONFIGS["tasks"]}


def _judged_task(problem: str, group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The task of pairs with one problem: its given side is the slowest."""
    confirmed = [row for row in group if row["speedup"]]
    plain = max(group, key=lambda row: (row["slow_us"] or 0.0, row["id"]))
    return {
        **plain,
        **{f"given_{name}": plain[f"slow_{name}"] for name in ("language", "code", "side", "us")},
        "problem": problem,
        "answers": len({row["fast_code"] for row in confirmed}),
        "best_us": min((row["fast_us"] for row in confirmed if row["fast_us"]), default=None),
    }


def _posed_task(candidate: Candidate) -> dict[str, Any]:
    plain = _parts(candidate)
    return {
        **{name: getattr(candidate, name) for name in ("id", "family", "domain", "license", "description")},
        **_likeness(candidate),
        "origin": candidate.origin.kind,
        "problem": _json(plain["problem"]),
        "given_language": candidate.fast.language,
        "given_code": candidate.fast.code,
        "given_side": _json(plain["fast_side"]),
        "answers": 0,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    speedup = verdict.speedup
    return {
        "outcome": verdict.outcome.value,
        "detail": verdict.detail,
        "checks": list(verdict.checks),
        **_environment(verdict.environment),
        **_side("slow", verdict.slow),
        **_side("fast", verdict.fast),
        "speedup": speedup.ratio if speedup else None,
        **{f"speedup_{name}": getattr(speedup, name, None) for name in ("low", "high", "confidence")},
        # Both are 0 where neither is on record.
        **{f"speedup_{name}": getattr(speedup, name, None) or None for name in ("blocks", "margin")},
        "timing_method": verdict.timing_method,
        "seeds": list(verdict.seeds),
        "judge_wall_s": verdict.wall_s,
        "key": verdict.key,
        "protocol": verdict.protocol,
    }


def _on_device(verdict: Verdict) -> dict[str, Any]:
    """An entry of `devices`: the outcome and times on one device."""
    columns = _verdict(verdict)
    names = ("device", "outcome", "slow_us", "fast_us", "speedup", "speedup_low", "speedup_high")
    return {name: columns.get(name) for name in names}


def _environment(environment: Environment) -> dict[str, Any]:
    names = ("backend", "device", "device_uuid", "driver", "compiler", "kcurate", "copy_fraction")
    columns = {name: getattr(environment, name) for name in names}
    return {**columns, "environment_details": _json(dict(environment.details))}


def _side(name: str, report: SideReport | None) -> dict[str, Any]:
    if report is None:
        return {f"{name}_samples_us": [], f"{name}_resources": "[]"}
    return {
        f"{name}_us": report.median_us,
        f"{name}_samples_us": [list(block) for block in report.samples_us],
        f"{name}_resources": _json([codec.to_data(kernel) for kernel in report.resources]),
        f"{name}_registers": _registers(report.resources),
        f"{name}_binary_sha256": report.binary_sha256,
    }


def _registers(resources: Sequence[Resources]) -> int | None:
    """Registers per thread, of the kernel that uses the most."""
    return max((kernel.registers for kernel in resources if kernel.registers is not None), default=None)


def profile_rows(
    row: Mapping[str, Any], candidate: Candidate, profiles: Profiles
) -> Iterator[dict[str, Any]]:
    """The rows of `profiles`: one for each side and device; `row` is the candidate's row of `pairs`."""
    for device, sides in profiles.by_device(candidate).items():
        for side, profile in sides.items():
            facts = {name: getattr(profile, name) for name in CONFIGS["profiles"] if hasattr(profile, name)}
            values = {**row, **profile.counters, **facts, "side": side, "device": device}
            yield {name: values.get(name) for name in CONFIGS["profiles"]}
