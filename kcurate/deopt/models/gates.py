"""Refuses answers before judging, and drops some after it; each refusal has an outcome and a reason.

Not covered: the judge's decisions (correctness and speed); the rules for sham work and label leaks
(`kcurate.judge.checks.sham_work`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from kcurate.cuda_source.compare.similarity import NEARLY_THE_SAME, Fingerprint, fingerprint
from kcurate.deopt.models.policy import GAIN
from kcurate.deopt.models.targets import Target
from kcurate.judge import check_source, hints, repeated_steps
from kcurate.problem.answered import misfit
from kcurate.problem.techniques import not_permitted, shown_in
from kcurate.prompts import Technique
from kcurate.records import AttemptOutcome, Candidate, Side, SideName, Verdict

# Techniques that the text shows with certainty: the construct is present or not.
CERTAIN = frozenset(
    """
    async-copy constant-memory cooperative-groups fast-math-intrinsics launch-bounds loop-unrolling
    read-only-cache tensor-cores texture-memory vectorized-access warp-shuffle warp-vote
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Refusal:
    """A refused answer's outcome, and why."""

    outcome: AttemptOutcome
    detail: str


def check_form(candidate: Candidate) -> Refusal | None:
    """Refuse a candidate that cannot be stored as a record."""
    why = misfit(candidate)
    return None if why is None else Refusal(AttemptOutcome.MALFORMED, why)


def check_side(
    side: Side, target: Target, technique: Technique | None, permitted: frozenset[str] | None
) -> Refusal | None:
    """Refuse by the text of an answer, cheapest checks first."""
    given_side = target.given
    if fingerprint(side.code).exact == fingerprint(given_side.code).exact and side.plan == given_side.plan:
        return Refusal(AttemptOutcome.UNCHANGED, "")
    given_already = repeated_steps(given_side.plan)
    repeated = [what for what in repeated_steps(side.plan) if what not in given_already]
    padded = check_source(side, ("sham",)) if target.made == "slow" else ()
    findings = [*map(str, padded), *(f"sham: the plan {what}" for what in repeated)]
    if findings:
        return Refusal(AttemptOutcome.SHAM, "; ".join(findings[:4]))
    known = {finding.what for finding in hints(given_side)}
    leaks = [str(finding) for finding in hints(side) if finding.what not in known]
    if leaks:
        return Refusal(AttemptOutcome.LABEL_LEAK, "; ".join(leaks[:4]))
    return _shown_techniques(side, target, technique, permitted)


def _shown_techniques(
    side: Side, target: Target, technique: Technique | None, permitted: frozenset[str] | None
) -> Refusal | None:
    if permitted is not None and (more := not_permitted(side.code, permitted)):
        return Refusal(AttemptOutcome.NOT_PERMITTED, ", ".join(more))
    if target.made == "slow" and technique and technique.name in CERTAIN & shown_in(side.code):
        return Refusal(AttemptOutcome.TECHNIQUE_KEPT, technique.name)
    return None


@dataclass(frozen=True)
class Known:
    """An existing variant; `binary_sha256` is None until it was compiled.

    `techniques` None: it is compared with variants for any technique. `ratio`: the known speedup of a fast
    side; a near-duplicate counts as a new variant if it is faster by `GAIN`.
    """

    name: str
    techniques: frozenset[str] | None
    fingerprint: Fingerprint
    binary_sha256: str | None = None
    ratio: float | None = None

    def outdone(self, new: Known) -> bool:
        """Whether a near-duplicate of this variant is faster, or not timed yet."""
        return self.ratio is not None and (new.ratio is None or new.ratio >= GAIN * self.ratio)


class Variants:
    """The variants of one start. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._lock = threading.Lock()

    def add(self, known: Known) -> None:
        """Add a variant without checking it."""
        with self._lock:
            self._known[known.name] = known

    def refuse(self, new: Known) -> Refusal | None:
        """Why a variant is not new: nearly the same for the same techniques, or identical to any."""
        with self._lock:
            return self._refuse(new)

    def admit(self, variant: Known) -> Refusal | None:
        """Add a variant unless it is not new; check and addition are atomic."""
        with self._lock:
            refusal = self._refuse(variant)
            if refusal is None:
                self._known[variant.name] = variant
            return refusal

    def _refuse(self, new: Known) -> Refusal | None:
        for known in self._known.values():
            if known.name == new.name:
                continue
            if known.fingerprint.exact == new.fingerprint.exact:
                return Refusal(AttemptOutcome.NEAR_DUPLICATE, f"the same as {known.name} but for names")
            if new.binary_sha256 is not None and known.binary_sha256 == new.binary_sha256:
                return Refusal(AttemptOutcome.SAME_MACHINE_CODE, f"that of {known.name}")
            likeness = known.fingerprint.likeness(new.fingerprint)
            comparable = known.techniques in (None, new.techniques)
            if comparable and likeness >= NEARLY_THE_SAME and not known.outdone(new):
                return Refusal(AttemptOutcome.NEAR_DUPLICATE, f"{likeness:.0%} of it is in {known.name}")
        return None


def known_of(name: str, candidate: Candidate, side: Side, verdict: Verdict | None = None) -> Known:
    """The written side of a candidate as a `Known`, by which variants are compared."""
    made = candidate.origin.made or "slow"
    binary = _machine_code(verdict, made) if verdict else None
    ratio = verdict.speedup.ratio if verdict and verdict.speedup and made == "fast" else None
    return Known(name, frozenset(candidate.techniques), fingerprint(side.code), binary, ratio)


def _machine_code(verdict: Verdict, side: SideName) -> str | None:
    """The hash of a side's GPU code; None for the emulator, whose binaries say nothing about a GPU's."""
    report = verdict.slow if side == "slow" else verdict.fast
    return report.binary_sha256 if report and verdict.environment.backend == "cuda" else None


def same_machine_code(verdict: Verdict, candidate: Candidate) -> Refusal | None:
    """Refuse sides with identical machine code and plans: they are not a pair."""
    slow, fast = _machine_code(verdict, "slow"), _machine_code(verdict, "fast")
    if slow is not None and slow == fast and candidate.slow.plan == candidate.fast.plan:
        return Refusal(AttemptOutcome.SAME_MACHINE_CODE, "that of the given side")
    return None
