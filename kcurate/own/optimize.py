"""The stage: a kernel in, a faster one asked for from a model and judged, a diff out.

Not covered: asking and refusing answers (`kcurate.deopt`), judging (`kcurate.judge`), timing without a GPU.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.core.workspace import Workspace
from kcurate.deopt.models.policy import Tried
from kcurate.deopt.models.run import Seams, search
from kcurate.deopt.settings import DeoptConfig
from kcurate.errors import InputError, OptionError
from kcurate.models.naming import parse_model
from kcurate.own import launches, patch
from kcurate.own.kernels import UserKernel, find_kernels
from kcurate.own.problems import Ask, KernelRequest, find_problem
from kcurate.own.settings import OptimizeConfig, flag_words
from kcurate.records import Attempt, AttemptOutcome, Speedup, Summary


@dataclass(frozen=True)
class Optimized:
    """The result. `found`: there is a faster side, or on the emulator a correct one.

    `outcome` and `detail` are those of the best side, else of the last answer; `attempts` has one line for
    every answer. `pair` is the folder of the pair, `diff` the change to the user's file, whose new content is
    `text`; or to the extracted kernel alone if the file needs more than a new kernel (`alone`: why).
    """

    summary: Summary
    found: bool
    outcome: str
    detail: str
    device: str
    attempts: tuple[str, ...]
    speedup: Speedup | None = None
    pair: Path | None = None
    diff: str = ""
    alone: str | None = None
    user_kernel: UserKernel | None = None
    text: bytes | None = None


def run(
    config: OptimizeConfig, *, ask: Ask | None = None, note: Note = silent, seams: Seams | None = None
) -> Optimized:
    """Request faster kernels until they gain little; the user's file is not changed yet.

    Raises:
        InputError: unusable files or options, or no admitted problem. RemoteError: the model cannot be asked.
    """
    parse_model(config.model)
    launches.check_form(config.launch, "--launch")
    with recorded("optimize", config.workspace, note=note) as record:
        (kernel,) = find_kernels(
            (config.kernel,), config.workspace, note=record.note,
            define=config.define, include_dirs=config.include_dirs,
        )  # fmt: skip
        if config.launch is not None and (sites := kernel.kernel.launch_sites):
            what = f"{kernel.name} is launched in {sites[0].path}:{sites[0].line}"
            raise OptionError(what, where="--launch", hint="leave it out")
        record.begin(config)
        command = record.command("optimize", config.kernel, "--model", config.model, *flag_words(config))
        request = KernelRequest(kernel, config.launch, "--launch")
        find_problem((request,), config.workspace, ask=ask, command=command, note=record.note)
        search_config = DeoptConfig(
            config.workspace,
            (kernel.extracted.folder,),
            config.model,
            rounds=config.rounds,
            candidates=config.candidates,
            direction="fast",
            max_usd=config.max_usd,
            price=config.price,
            max_tokens=config.max_tokens,
            effort=config.effort,
            tool_calls=config.tool_calls,
            tool_seconds=config.tool_seconds,
            timeout_s=config.timeout_s,
            place=config.place,
            jobs=0,
        )
        _, attempts = search(search_config, note=record.note, seams=seams)
        counts = Counter(_outcome(attempt.attempt) for attempt in attempts)
        for number, attempt in enumerate(attempts, start=1):
            text = f"{kernel.name} {number}", _outcome(attempt.attempt), _line(attempt.attempt)
            record.item("attempts", *text, passed=attempt.accepted)
        return _result(config, kernel, attempts, record.finish({"attempts": dict(sorted(counts.items()))}))


def apply(result: Optimized) -> None:
    """Write the faster kernel into the user's file.

    Raises:
        InputError: the file takes more than a new kernel, or changed since it was read.
    """
    if result.user_kernel is None or result.text is None:
        sites = result.user_kernel.kernel.launch_sites if result.user_kernel else ()
        launched = f"; it is launched in {sites[0].path}:{sites[0].line}" if sites else ""
        hint = f"take it over by hand from {result.pair}/fast.cu{launched}"
        raise InputError(
            f"not applied: {result.alone}",
            where=str(result.user_kernel and result.user_kernel.path),
            hint=hint,
        )
    patch.write(result.user_kernel, result.text)


def _outcome(attempt: Attempt) -> str:
    judged = attempt.outcome is AttemptOutcome.JUDGED and attempt.verdict is not None
    return str(attempt.verdict.outcome if judged and attempt.verdict else attempt.outcome)


def _line(attempt: Attempt) -> str:
    """An attempt in one line: the outcome, the speedup if measured, and the reason."""
    verdict = attempt.verdict
    times = f", {speedup_text(verdict.speedup)}" if verdict and verdict.speedup else ""
    why = attempt.detail or (verdict.detail if verdict else "")
    return f"{attempt.place}: {_outcome(attempt)}{times}{f': {why}' if why else ''}"


def speedup_text(speedup: Speedup) -> str:
    """A speedup with its interval."""
    return (
        f"{speedup.ratio:.2f} times as fast ({speedup.low:.2f} to {speedup.high:.2f} "
        f"at {speedup.confidence:.0%} confidence)"
    )


def _result(config: OptimizeConfig, kernel: UserKernel, attempts: list[Tried], summary: Summary) -> Optimized:
    lines = tuple(_line(attempt.attempt) for attempt in attempts)
    accepted = (attempt for attempt in attempts if attempt.accepted)
    best = max(accepted, key=lambda attempt: attempt.ratio or 0.0, default=None)
    if best is None or best.side is None or best.attempt.verdict is None:
        last = attempts[-1].attempt if attempts else None
        outcome = _outcome(last) if last else "no_answer"
        return Optimized(summary, False, outcome, last.detail if last else "", "", lines)
    verdict, candidate = best.attempt.verdict, best.attempt.candidate
    known = kernel.extracted.known()
    assert known is not None, "the search started from it"
    start = known.side.side(kernel.code)
    changed = patch.patched(kernel, start, best.side)
    if isinstance(changed, str):
        diff = patch.diff(start.code.encode(), best.side.code.encode(), "kernel.cu")
    else:
        diff = patch.diff(kernel.data, changed, kernel.path.name)
    return Optimized(
        summary,
        True,
        str(verdict.outcome),
        verdict.detail,
        verdict.environment.device,
        lines,
        verdict.speedup,
        Workspace(config.workspace).pairs / str(candidate),
        diff,
        changed if isinstance(changed, str) else None,
        kernel,
        None if isinstance(changed, str) else changed,
    )
