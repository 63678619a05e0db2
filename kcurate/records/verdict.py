"""The judge's result for a candidate: one named outcome, and the measurements behind it.

Times are device times in microseconds. `speedup = slow_us / fast_us`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto

from kcurate.records.pair import SIDES, SideName

# A copy reaches 0.9 of the data sheet's bandwidth; no side that moves all its buffers is so much faster.
FASTEST_SHARE = 1.2


class Trait(Flag):
    """Properties of an outcome."""

    # The verdict says something about the candidate: it has a problem, this backend can run it, and the
    # harness did not fail.
    JUDGED = auto()
    # A resumed run does not judge it again.
    FINAL = auto()
    # Both sides computed the same results, whatever the times.
    CORRECT = auto()
    # A run showed different results: a counterexample, which no later pass overrides.
    REFUTES = auto()
    # The candidate is refused, and earlier passes on the same device no longer count. `malformed` lacks this
    # trait: a negative control can fail by chance, which proves nothing about a candidate that passed.
    WITHDRAWS = auto()


_ENDS = Trait.JUDGED | Trait.FINAL
_RIGHT = _ENDS | Trait.CORRECT
_WRONG = _ENDS | Trait.REFUTES
_REFUSED = _ENDS | Trait.WITHDRAWS


class Outcome(StrEnum):
    """Every candidate ends with exactly one; listed in the order of the judge's steps.

    Each has its traits, and a sentence for a model about its answer.
    """

    NO_PROBLEM = "no_problem", Trait(0), "It cannot be judged"
    MALFORMED = "malformed", _ENDS, "The plan does not fit the problem or the code"
    STATIC_REJECT = "static_reject", _REFUSED, "The code contains what is not allowed"
    COMPILE_ERROR = "compile_error", _REFUSED, "It does not compile"
    UNSUPPORTED = "unsupported", Trait(0), "It needs something that is not available here"
    LAUNCH_ERROR = "launch_error", _REFUSED, "It fails when it runs"
    TIMEOUT = "timeout", _ENDS, "It does not end"
    MISMATCH = "mismatch", _WRONG, "Its results are wrong"
    NONDETERMINISTIC = "nondeterministic", _WRONG, "Its results differ from run to run"
    PADDED = "padded", _REFUSED, "It is slower than the problem explains"
    NOT_FASTER = "not_faster", _RIGHT, "Its results are right, but it is not faster"
    AMBIGUOUS_TIMING = (
        "ambiguous_timing",
        Trait.JUDGED | Trait.CORRECT,
        "The times do not tell the two sides apart",
    )
    CORRECT = "correct", _RIGHT, "Its results are right"
    CONFIRMED = "confirmed", _RIGHT, "Its results are right"
    HARNESS_ERROR = "harness_error", Trait(0), "It cannot be judged"

    traits: Trait
    sentence: str

    def __new__(cls, value: str, traits: Trait, sentence: str) -> Outcome:
        """A member that equals its value, with its traits and its sentence."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.traits, member.sentence = traits, sentence
        return member

    @property
    def final(self) -> bool:
        """False for the outcomes that a resumed run judges again."""
        return Trait.FINAL in self.traits

    @property
    def judged(self) -> bool:
        """False if the verdict says nothing about the candidate."""
        return Trait.JUDGED in self.traits

    @property
    def correct(self) -> bool:
        """True if both sides computed the same results, whatever the times."""
        return Trait.CORRECT in self.traits

    @property
    def refutes(self) -> bool:
        """True if a run showed different results."""
        return Trait.REFUTES in self.traits

    @property
    def withdraws(self) -> bool:
        """True if the candidate is refused: earlier passes on the same device no longer count."""
        return Trait.WITHDRAWS in self.traits


@dataclass(frozen=True)
class Resources:
    """The resources of one compiled kernel; None if the tool does not report them. Sizes in bytes."""

    kernel: str
    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    constant_bytes: int | None = None
    spill_bytes: int | None = None


@dataclass(frozen=True)
class SideReport:
    """One side's compile and timing. `samples_us` are the raw per-sample device times, per block."""

    resources: tuple[Resources, ...] = ()
    binary_sha256: str | None = None
    median_us: float | None = None
    samples_us: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Speedup:
    """`slow_us / fast_us` with its bootstrap interval, and the margin that `low` had to clear."""

    ratio: float
    low: float
    high: float
    confidence: float
    blocks: int
    margin: float


@dataclass(frozen=True)
class SizeTiming:
    """Times at a bench size other than the headline: medians in microseconds, and the speedup's interval."""

    name: str
    outcome: Outcome
    slow_us: float
    fast_us: float
    speedup: Speedup | None = None


@dataclass(frozen=True)
class Environment:
    """Where a verdict was made. `details` holds raw readings (clocks, temperatures, limits)."""

    backend: str
    device: str
    device_uuid: str | None = None
    driver: str | None = None
    compiler: str | None = None
    kcurate: str | None = None
    details: Mapping[str, str | float | int | bool | None] = field(default_factory=dict)

    @property
    def copy_fraction(self) -> float | None:
        """The fast side's share of the copy bandwidth if it moves every buffer once; None if unknown.

        Also None if no memory is so fast: then the side need not move all of its buffers.
        """
        share = self.details.get("fast_copy_fraction")
        return float(share) if isinstance(share, int | float) and share <= FASTEST_SHARE else None


@dataclass(frozen=True)
class Sanitized:
    """One run of a sanitizer: tool (`memcheck`, `racecheck` ...), its version, side, sizes; `clean`: it found
    nothing."""

    tool: str
    version: str
    side: SideName
    sizes: Mapping[str, int]
    clean: bool


@dataclass(frozen=True)
class Verdict:
    """The judge's result for one candidate on one device.

    `key` is the content hash of everything judged (code, plans, problem, protocol version); a stored verdict
    is reused only if it matches. `side` names the side at fault, `detail` explains it in one line, `log` is
    the trimmed compiler or sanitizer output. `checks` lists the checks that ran, in order. `speedup` is for
    the headline bench size, `sizes` has the others. `protocol` is the version of the judge's rules.
    `sanitizers` lists the runs under compute-sanitizer; `needless` is a part of a made slow side without
    which it is still right, and faster.
    """

    candidate: str
    key: str
    outcome: Outcome
    environment: Environment
    detail: str = ""
    side: SideName | None = None
    log: str | None = None
    checks: tuple[str, ...] = ()
    slow: SideReport | None = None
    fast: SideReport | None = None
    speedup: Speedup | None = None
    timing_method: str | None = None
    seeds: tuple[int, ...] = ()
    wall_s: float | None = None
    stages_s: Mapping[str, float] = field(default_factory=dict)
    sizes: tuple[SizeTiming, ...] = ()
    protocol: str = "2"
    sanitizers: tuple[Sanitized, ...] = ()
    needless: str | None = None

    def __repr__(self) -> str:
        """One line for people; the fields have the rest."""
        times = ""
        if self.speedup is not None:
            low, high = self.speedup.low, self.speedup.high
            times = f", {self.speedup.ratio:.2f} times as fast ({low:.2f} to {high:.2f})"
        at_fault = f" ({self.side} side)" if self.side else ""
        errors = [line.strip() for line in (self.log or "").splitlines() if "error" in line]
        why = f": {errors[0][:200]}" if errors and self.outcome is Outcome.COMPILE_ERROR else ""
        where = f"{self.candidate} on {self.environment.device}"
        return f"<Verdict {self.outcome}{at_fault}{times}: {self.detail}{why} [{where}]>"

    @property
    def unsanitized(self) -> bool:
        """True unless both sides were clean under memcheck and racecheck, which publishing strangers' code
        requires."""
        clean = {(run.tool, run.side) for run in self.sanitizers if run.clean}
        return not clean >= {(tool, side) for tool in ("memcheck", "racecheck") for side in SIDES}
