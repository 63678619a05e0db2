"""Exchanges with a language model, and the outcome of each answer.

A `Transcript` is one exchange as it happened (paid for once, replayed for free); an `Attempt` is one step of
a search: the answer in one transcript, judged. Not covered: prompt wording (`kcurate.prompts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from kcurate.records.pair import SideName
from kcurate.records.verdict import Verdict


class ReplyStatus(StrEnum):
    """How an exchange ended. `interrupted`: partly paid for; `rejected`: the server refused the request."""

    ANSWERED = "answered"
    REFUSAL = "refusal"
    TRUNCATED = "truncated"
    REJECTED = "rejected"
    INTERRUPTED = "interrupted"

    @property
    def final(self) -> bool:
        """False if asking again may yield an answer."""
        return self not in (ReplyStatus.REJECTED, ReplyStatus.INTERRUPTED)


class AttemptOutcome(StrEnum):
    """How an attempt ended, in the order of the checks.

    `refusal`, `truncated` and `rejected` come from the exchange; `malformed`: no usable code and plan in the
    answer; the next ones are refused before judging, except `same_machine_code`, which is found after it;
    `judged`: there is a verdict.
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
        """False if the same attempt may end differently when repeated (a verdict has its own `final`)."""
        return self is not AttemptOutcome.REJECTED


@dataclass(frozen=True)
class Prompt:
    """A prompt in three parts: `system` for all kernels, `context` for one kernel, and the current `task`."""

    system: str
    context: str
    task: str


@dataclass(frozen=True)
class Usage:
    """Tokens of one exchange; `input_tokens` excludes those written to or read from the prompt cache."""

    input_tokens: int
    output_tokens: int
    cache_write_tokens: int = 0
    cache_read_tokens: int = 0


@dataclass(frozen=True)
class Exchange:
    """The reply to one request, and what it cost.

    `form` says whether `reply` is free text or the JSON input of the answer tool.
    `cost_usd` is None without a known price; `batch` is the id of the batch that it came with. `content` has
    the blocks of a message as the server sent them, thinking with its signature included: the next turn of
    the conversation returns them.
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
    content: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Turn:
    """What a model is told after an exchange: the result of its tool call `call` (None: plain words).

    `failed`: the call could not be run.
    """

    text: str
    call: str | None = None
    failed: bool = False


@dataclass(frozen=True)
class Transcript:
    """One line of `transcripts/*.jsonl`. `key` is the hash of model, prompt, `sample` and `max_tokens`.

    `sample` distinguishes equal prompts that need different answers. `created` is UTC, ISO 8601. In a
    conversation, `after` is the key of the exchange before, and `turn` what was said in between (None: the
    model had paused).
    """

    key: str
    model: str
    prompt: Prompt
    exchange: Exchange
    created: str
    sample: int = 0
    max_tokens: int | None = None
    after: str | None = None
    turn: Turn | None = None


@dataclass(frozen=True)
class BatchRequest:
    """One request in a batch, with the fields of its future transcript."""

    key: str
    prompt: Prompt
    sample: int
    max_tokens: int
    after: str | None = None
    turn: Turn | None = None


@dataclass(frozen=True)
class BatchJob:
    """Requests submitted together, under a name that kcurate chooses (`intent`).

    Written with its requests before the batch is created (so that a batch whose response was lost can be
    found), without them once the server's `id` is known, and once more when all results are saved.
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

    `id` is the hash of everything that identifies the step (kernel, model, direction, policy, technique,
    variant, round), so that a resumed search finds it; `prompt` is its transcript's key. `made` is the side
    that the model wrote. `parent` is the attempt that it started from. `candidate` is the id under which an
    accepted answer was written. `sample` numbers the answers of a round. `counters`: a profiler's counters,
    by side.
    """

    id: str
    start: str
    model: str
    made: SideName
    policy: Literal["plain", "sqd", "climb"]
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
    sample: int = 1
    counters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The round and, if there are several, the number of the answer, in words."""
        return f"round {self.round}" if self.sample == 1 else f"round {self.round}, answer {self.sample}"


# Why an answer counts as wrong: the judge's outcomes, and `unchanged`, which is found before judging.
WrongOutcome = Literal[
    "malformed", "static_reject", "compile_error", "launch_error", "timeout", "mismatch", "nondeterministic",
    "padded", "not_faster", "unchanged",
]  # fmt: skip


@dataclass(frozen=True)
class WrongAttempt:
    """A judged wrong answer to a pair: its fast side with one mistake, its given side, or what a model wrote.

    `change` and `place` (which occurrence was changed) reproduce the first two from the published pair;
    `side` is the hash of the result. Of a model, `change` is `model` and its name, `place` counts its answers
    to the pair, `answer` is one of them, and `side` the hash of what it gives together with what was asked.
    `findings` is the text for a model. `device`: where it was judged.
    """

    pair: str
    change: str
    place: int
    side: str
    outcome: WrongOutcome
    findings: str
    device: str
    answer: str = ""
