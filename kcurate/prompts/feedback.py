"""Findings on an answer, worded so that they help to write the next one; short, and without host paths."""

from __future__ import annotations

import re

from kcurate.records import AttemptOutcome, Outcome, SideName, Verdict

MAX_LOG_LINES = 30
MAX_LOG_CHARS = 3000

_REFUSED = {
    AttemptOutcome.MALFORMED: "The answer cannot be used",
    AttemptOutcome.UNCHANGED: "The answer is the code that was given",
    AttemptOutcome.SHAM: "It is made slow on purpose, which is not what is asked",
    AttemptOutcome.LABEL_LEAK: "A name gives away which side the code is",
    AttemptOutcome.TECHNIQUE_KEPT: "The technique is still in the code",
    AttemptOutcome.NOT_PERMITTED: "The code shows a technique that is not permitted",
    AttemptOutcome.NEAR_DUPLICATE: "Nearly the same answer was given before",
    AttemptOutcome.SAME_MACHINE_CODE: "It compiles to machine code that is known already",
    AttemptOutcome.TRUNCATED: "The answer was cut off before its end; write a shorter one",
}
# Where an allocation lies says nothing; how far an access misses it does.
_ADDRESS = re.compile(r"the address 0x[0-9a-f]+, ")
# The words of a mismatch that is an access, not a value.
_OUTSIDE = re.compile(r"bytes (?:past the end|before)|\boutside\b|it may not change|changed the input")
_PATH = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+[\w.+-]*")


def feedback(
    makes: SideName, outcome: AttemptOutcome, detail: str = "", verdict: Verdict | None = None
) -> str:
    """One paragraph on an attempt, followed by the compiler's log if that says more."""
    if verdict is None:
        return _sentence(_REFUSED.get(outcome, "The answer cannot be used"), detail)
    if verdict.outcome is Outcome.NOT_FASTER:
        direction = "slower" if makes == "slow" else "faster"
        lead = f"Its results are right, but the {makes} side is not {direction} than the given one"
    elif verdict.outcome is Outcome.MISMATCH and _OUTSIDE.search(verdict.detail):
        lead = "It accesses memory that it may not"
    else:
        lead = verdict.outcome.sentence
    if verdict.side is not None and verdict.side != makes:
        lead += " (in the side that was given)"
    text = _sentence(lead, verdict.detail) + _ratio(verdict)
    said = (verdict.log or "").strip() in ("", verdict.detail.strip())
    return text if said else f"{text}\n{trim_log(verdict.log or '')}"


def without_paths(text: str) -> str:
    """The text with paths of this machine replaced."""
    return _PATH.sub("<file>", text)


def _sentence(lead: str, detail: str) -> str:
    detail = _ADDRESS.sub("an address ", detail)
    return f"{lead}: {without_paths(detail.strip())}." if detail.strip() else f"{lead}."


def _ratio(verdict: Verdict) -> str:
    speedup = verdict.speedup
    if speedup is None:
        return ""
    return (
        f" Measured: time of the slow side over time of the fast side is {speedup.ratio:.3f} "
        f"({speedup.low:.3f} to {speedup.high:.3f})."
    )


def trim_log(log: str) -> str:
    """The most useful lines of a log: errors, each with the lines after it, in order."""
    lines = [without_paths(line.rstrip()) for line in log.strip().splitlines()]
    errors = [i for i, line in enumerate(lines) if "error" in line.lower()]
    if errors and len(lines) > MAX_LOG_LINES:
        wanted = sorted({j for i in errors for j in range(i, min(i + 3, len(lines)))})
        lines = [lines[i] for i in wanted]
    excerpt = "\n".join(lines[:MAX_LOG_LINES])[:MAX_LOG_CHARS]
    return f"```\n{excerpt}\n```" if excerpt else ""
