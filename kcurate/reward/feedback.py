"""What a model is told about a judged completion, in the same words as in `kcurate deopt`."""

from __future__ import annotations

from collections.abc import Mapping

from kcurate import prompts
from kcurate.problem import shown
from kcurate.prompts import Earlier
from kcurate.records import AttemptOutcome, Prompt
from kcurate.reward.answers import Readable, Refusal, read
from kcurate.reward.task import Judged, Task

# The attempt outcome whose wording fits each refusal.
_REFUSED: Mapping[str, AttemptOutcome] = {
    Refusal.UNREADABLE: AttemptOutcome.MALFORMED,
    Refusal.MALFORMED: AttemptOutcome.MALFORMED,
    Refusal.NOT_PERMITTED: AttemptOutcome.NOT_PERMITTED,
    Refusal.COPIED: AttemptOutcome.UNCHANGED,
}


def again(task: Task, reply: str | prompts.Answer, judged: Judged, action: str | None = None) -> Prompt:
    """The task's prompt with an earlier answer and its findings.

    `action` None: improve a right answer, repair a wrong one.
    """
    answer, findings = read(task, reply), feedback_on(judged)
    if not isinstance(answer, Readable):
        return prompts.again(task.prompt, "repair", Earlier("", None, findings))
    earlier = shown.earlier(answer.candidate.fast, task.template.slow, findings)
    right = judged.verdict is not None and judged.verdict.outcome.correct
    return prompts.again(task.prompt, action or ("improve" if right else "repair"), earlier)


def feedback_on(judged: Judged) -> str:
    """One paragraph on a completion, with the compiler's output if there is any."""
    if judged.feedback:
        return judged.feedback
    refused = _REFUSED.get(judged.outcome)
    verdict = None if refused else judged.verdict
    return prompts.feedback("fast", refused or AttemptOutcome.JUDGED, judged.detail, verdict)
