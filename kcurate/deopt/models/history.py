"""The parts of a prompt for a fast side besides the code: the GPU, and the measurements of every attempt.

Not covered: the findings on the attempt that the next one starts from (`kcurate.prompts.feedback`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kcurate.deopt.models.policy import Tried
from kcurate.profiling import counters
from kcurate.records import Environment, Resources, SideName, SideReport, Verdict, other_side

_GIVEN = "The given code and all attempts so far, as measured:"
# The time under the profiler differs from the kernel's real time.
_HIDDEN_COUNTER = "time_us"
_SIZES = {
    "shared_bytes_per_multiprocessor": "of shared memory a multiprocessor",
    "shared_bytes_per_block": "a block at most",
    "l2_bytes": "of L2 cache",
}


def gpu_as_text(device: Environment) -> str:
    """A GPU with the limits that matter to kernels; empty for the emulator."""
    if device.backend != "cuda":
        return ""
    details = device.details
    facts = [f"compute capability {details['compute_capability']}"] if "compute_capability" in details else []
    if "multiprocessors" in details:
        facts.append(f"{details['multiprocessors']} multiprocessors")
    facts += [f"{int(size) >> 10} KiB {what}" for name, what in _SIZES.items() if (size := details.get(name))]
    return f"{device.device} ({', '.join(facts)})" if facts else device.device


def attempts_as_text(history: Sequence[Tried]) -> str:
    """One line for the given code, if it was measured, and one for every attempt; empty without attempts."""
    if not history:
        return ""
    return "\n".join([_GIVEN, *_given_line(history), *(_attempt_line(attempt) for attempt in history)])


def _given_line(history: Sequence[Tried]) -> Iterator[str]:
    """The given side's times from the first timed attempt, and its counters."""
    for attempt in history:
        verdict = attempt.attempt.verdict
        if verdict is None or verdict.speedup is None:
            continue
        given_side = other_side(attempt.attempt.made)
        share = verdict.environment.copy_fraction  # the fast side's; the slow side moves as many bytes
        share = None if share is None else share / verdict.speedup.ratio
        counters_of_given = (
            tried.attempt.counters[given_side] for tried in history if given_side in tried.attempt.counters
        )
        facts = _facts(getattr(verdict, given_side), share, next(counters_of_given, {}))
        yield f"- given: {'; '.join(facts)}"
        return


def _attempt_line(tried: Tried) -> str:
    """How an attempt ended, its speedup, and its own side's measurements."""
    attempt, verdict = tried.attempt, tried.attempt.verdict
    facts = [str(tried.ended)]
    if verdict is not None:
        if verdict.speedup is not None:
            facts.append(f"{verdict.speedup.ratio:.3f} times as fast as the given code")
        report = getattr(verdict, attempt.made)
        share = verdict.environment.copy_fraction
        facts += _facts(report, share, attempt.counters.get(attempt.made, {}))
    return f"- {attempt.place}: {'; '.join(facts)}"


def _facts(report: SideReport | None, share: float | None, values: Mapping[str, float]) -> Iterator[str]:
    """A side's time, share of the copy bandwidth, resources and counters, as far as they are known."""
    if report is not None and report.median_us is not None:
        yield f"{report.median_us:.4g} us"
    if share is not None:
        yield f"{100 * share:.3g}% of the copy bandwidth, with every buffer moved once"
    for resources in report.resources if report is not None else ():
        if line := resources_as_text(resources):
            yield line
    if counters_line := _counters_text(values):
        yield f"counters: {counters_line}"


def _counters_text(values: Mapping[str, float]) -> str:
    return ", ".join(
        f"{name} {counters.shown(name, value)}" for name, value in values.items() if name != _HIDDEN_COUNTER
    )


def times_as_text(verdict: Verdict, made: SideName) -> str:
    """The measured times of both sides, one line each."""
    report = getattr(verdict, made)
    share = verdict.environment.copy_fraction
    given_share = share / verdict.speedup.ratio if share is not None and verdict.speedup else None
    shares = (share, given_share) if made == "fast" else (given_share, share)
    given = _facts(getattr(verdict, other_side(made)), shares[1], {})
    return f"yours: {'; '.join(_facts(report, shares[0], {}))}\ngiven: {'; '.join(given)}"


def counters_as_text(by_side: Mapping[str, Mapping[str, float]], made: SideName) -> str:
    """The counters of both sides, one line each; empty without any."""
    names = {made: "yours", other_side(made): "given"}
    texts = ((name, _counters_text(by_side.get(side, {}))) for side, name in names.items())
    return "\n".join(f"{name}: {values}" for name, values in texts if values)


def resources_as_text(resources: Resources) -> str:
    """A kernel's resources; empty if none are known."""
    known = (
        (resources.registers, "registers a thread"),
        (resources.spill_bytes, "bytes spilled"),
        (resources.local_bytes, "bytes of local memory"),
        (resources.shared_bytes, "bytes of static shared memory"),
    )
    facts = ", ".join(f"{value} {what}" for value, what in known if value is not None)
    return f"{resources.kernel}: {facts}" if facts else ""
