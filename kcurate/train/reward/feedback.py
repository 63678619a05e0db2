"""What a model is told of a judged completion, in the words that `kcurate deopt` gives it."""

from __future__ import annotations

from collections.abc import Mapping

from kcurate import prompts
from kcurate.records import AttemptOutcome
from kcurate.train.reward.answers import Refusal
from kcurate.train.task import Judged

# Refusals in the words of attempts.
_REFUSED: Mapping[str, AttemptOutcome] = {
    Refusal.UNREADABLE: AttemptOutcome.MALFORMED,
    Refusal.MALFORMED: AttemptOutcome.MALFORMED,
    Refusal.NOT_PERMITTED: AttemptOutcome.NOT_PERMITTED,
    Refusal.COPIED: AttemptOutcome.UNCHANGED,
}


def feedback_on(one: Judged) -> str:
    """One paragraph on a completion, and what the compiler said if it did."""
    refused = _REFUSED.get(one.outcome)
    verdict = None if refused else one.verdict
    return prompts.feedback("fast", refused or AttemptOutcome.JUDGED, one.detail, verdict)
