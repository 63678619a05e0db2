"""What passes between this project and a language model, and what became of each answer.

A `Transcript` is one exchange as it happened (paid for once, replayed for nothing); an `Attempt` is one
step of a search: the answer of one transcript, judged. Not covered: how prompts read (`kcurate.prompts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from kcurate.records.pair import SideName
from kcurate.records.verdict import Verdict


class ReplyStatus(StrEnum):
    """How an exchange ended. `interrupted`: paid for in part; `rejected`: the server took no such request."""

    ANSWERED = "answered"
    REFUSAL = "refusal"
    TRUNCATED = "truncated"
    REJECTED = "rejected"
    INTERRUPTED = "interrupted"

    @property
    def final(self) -> bool:
        """False where asking again may bring an answer."""
        return self not in (ReplyStatus.REJECTED, ReplyStatus.INTERRUPTED)


class AttemptOutcome(StrEnum):
    """What became of one attempt, in the order in which it can fail; `judged` has a verdict.

    The first three are the exchange's; `malformed` is an answer that is no code and plan; the others are
    refused before (or, for machine code, after) they are judged.
    """

    REFUSAL = "refusal"
    TRUNCATED = "truncated"
    REJECTED = "rejected"
    MALFORMED = "malformed"
    UNCHANGED = "unchanged"
    SHAM = "sham"
    LABEL_LEAK = "label_leak"
    TECHNIQUE_KEPT = "technique_kept"
    NOT_PERMITTED = "not_permitted"
    NEAR_DUPLICATE = "near_duplicate"
    SAME_MACHINE_CODE = "same_machine_code"
    JUDGED = "judged"

    @property
    def final(self) -> bool:
        """False where trying the same again may end differently (a verdict has its own say)."""
        return self is not AttemptOutcome.REJECTED


@dataclass(frozen=True)
class Prompt:
    """What a model is shown: the same for all, the same for one kernel, and what is asked this time."""

    system: str
    context: str
    task: str


@dataclass(frozen=True)
class Usage:
    """Tokens of one exchange; those written to and read from the prompt cache are not in `input_tokens`."""

    input_tokens: int
    output_tokens: int
    cache_write_tokens: int = 0
    cache_read_tokens: int = 0


@dataclass(frozen=True)
class Exchange:
    """A reply. `form` says whether `reply` is free text or the JSON input of the answer tool.

    `cost_usd` is None where no price is known; `batch` is the id of the batch that it came with.
    """

    status: ReplyStatus
    reply: str = ""
    form: Literal["text", "tool"] = "text"
    usage: Usage | None = None
    cost_usd: float | None = None
    stop_reason: str | None = None
    request_id: str | None = None
    batch: str | None = None
    wall_s: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class Transcript:
    """One line of `transcripts/*.jsonl`. `key` is the hash of model, prompt, `sample` and `max_tokens`.

    `sample` tells equal prompts apart that are meant to get different answers. `created` is UTC, ISO 8601.
    """

    key: str
    model: str
    prompt: Prompt
    exchange: Exchange
    created: str
    sample: int = 0
    max_tokens: int | None = None


@dataclass(frozen=True)
class BatchRequest:
    """One request of a batch; its fields are those of its transcript to be."""

    key: str
    prompt: Prompt
    sample: int
    max_tokens: int


@dataclass(frozen=True)
class BatchJob:
    """Requests handed in together, under a name of our own (`intent`).

    Written with its requests before the batch is created (so that a batch whose answer was lost is found
    again), without them when the server's `id` is known, and once more when all results are on file.
    """

    intent: str
    model: str
    created: str
    requests: tuple[BatchRequest, ...] = ()
    id: str | None = None
    collected: bool = False


@dataclass(frozen=True)
class Attempt:
    """One step of a search for one variant of one kernel.

    `id` is the hash of everything that names the step (kernel, model, direction, policy, technique,
    variant, round), so that a resumed search finds it again; `prompt` is its transcript's key. `made` is
    the side that the model wrote. `parent` is the attempt that it set out from. `candidate` is the id
    under which an accepted answer was written.
    """

    id: str
    start: str
    model: str
    made: SideName
    policy: Literal["plain", "sqd"]
    technique: str | None
    variant: int
    round: int
    action: Literal["write", "repair", "deepen", "improve"]
    prompt: str
    outcome: AttemptOutcome
    detail: str = ""
    verdict: Verdict | None = None
    parent: str | None = None
    candidate: str | None = None
