"""Rows for training: `sft`, `grpo` (prompts, and the data for rewards), `explained`, `write`, `preferences`,
`repair`, `trajectories`, `tool_trajectories`.

Prompts and completions are chat messages in the format of `kcurate.prompts`, which deopt and training share.
Only confirmed pairs become rows. Not covered: which of these become prompts (`kcurate.problem.lessons`),
training itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kcurate import prompts, roofline
from kcurate.core import store
from kcurate.dataset.columns import CONFIGS, Kind
from kcurate.dataset.explained import Both, causes_of, explained, measured, named
from kcurate.dataset.preferences import Preference, preferences
from kcurate.dataset.repairs import EMULATOR, GIVEN_BACK, NO_GPU, reapplied, repairs
from kcurate.hub.published_rows import candidate_of
from kcurate.problem import shown
from kcurate.problem.lessons import FEW, Answered, Lesson, Lessons, Proved, Untaught, lessons
from kcurate.problem.techniques import names_technique
from kcurate.prompts.tools import JUDGE
from kcurate.records import AttemptOutcome, Environment, Outcome, Prompt, Speedup, Verdict, WrongAttempt

# All rows of more than 4,096 or 8,192 tokens have at least so many bytes a token, by the tokenizers in
# `BYTES`, which has the mean over all rows (`benchmarks/whole_dataset.py --tokens`, 28 November 2026).
LEAST_BYTES = 2.5
BYTES: Mapping[str, float] = {"Qwen": 3.11, "SmolLM2": 2.80}


def trainable(row: Mapping[str, Any]) -> bool:
    """Whether a `pairs` row is used for training: its speedup is confirmed."""
    return str(row["outcome"]) == Outcome.CONFIRMED.value


def tables(
    rows: Iterable[Mapping[str, Any]],
    wrong: Iterable[WrongAttempt] = (),
    *,
    test: bool = False,
    counted: Mapping[str, Both] | None = None,
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Untaught]]:
    """The rows of every config for training, from the `pairs` rows of one split; pairs without a prompt.

    `wrong`: judged wrong answers, for `repair`. `test`: leave out local edits, which are too easy to count in
    scores. `counted`: for `explained`, by pair id, the profiles of both sides on the row's GPU.

    Splits share no prompt: each holds whole families, and a prompt names its family.
    """
    by_id = {str(row["id"]): row for row in rows if trainable(row)}
    proved = [_proved(row) for row in by_id.values()]
    known = lessons(proved)
    if test:
        local = {lesson.pair.id: Untaught.LOCAL_EDIT for lesson in known.taught if lesson.local_edit}
        scored = tuple(lesson for lesson in known.taught if not lesson.local_edit)
        known = replace(known, taught=scored, untaught=known.untaught | local)
    answered = [(by_id[lesson.pair.id], lesson) for lesson in known.taught if lesson.answer is not None]
    profiles, causes = counted or {}, _causes(known.answers)
    conversations = [*_climbs(known.answers, by_id), *_mended(known, by_id, wrong)]
    configs = {
        "sft": [sft_row(row, lesson) for row, lesson in answered],
        "grpo": [
            grpo_row(by_id[lesson.pair.id], lesson) for lesson in known.taught if lesson.technique is None
        ],
        "explained": _varied(
            [
                in_parts
                for row, lesson in answered
                if (in_parts := explained_row(row, lesson, profiles.get(row["id"]), causes[row["id"]]))
            ],
            causes,
        ),
        "write": list(_written(proved, by_id)),
        "preferences": [_preference(preference, by_id) for preference in preferences(proved, by_id)],
        "repair": list(_repairs(known, proved, by_id, wrong)),
        "trajectories": [_trajectory(conversation) for conversation in conversations],
        "tool_trajectories": [_with_tool(conversation) for conversation in conversations],
    }
    return configs, known.untaught


def _proved(row: Mapping[str, Any]) -> Proved:
    pair = candidate_of(row)
    target = roofline.target(pair.problem, pair.family, row["device"]) if pair.problem is not None else ""
    return Proved.of_row(pair, row, target)


def _written(proved: Iterable[Proved], rows: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """For each problem the fastest known CUDA side, as the answer to a prompt in words with the plainest
    side."""
    by_problem: dict[tuple[str, str], list[Proved]] = {}
    for proof in proved:
        problem, fast = proof.pair.problem, proof.pair.fast
        if fast.language == "cuda" and problem is not None and not problem.single_size and not fast.views:
            by_problem.setdefault((proof.pair.family, rows[proof.pair.id]["problem"]), []).append(proof)
    for _, group in sorted(by_problem.items()):
        plainest = min(
            (proof.pair for proof in group if not proof.pair.slow.views),
            key=lambda pair: (
                pair.slow.language != "torch",
                bool(pair.origin.rules),
                len(pair.slow.code),
                pair.id,
            ),
            default=None,
        )
        best = min(group, key=lambda proof: (rows[proof.pair.id]["fast_us"], proof.pair.id))
        if plainest is not None and best.pair.problem is not None:
            row, reference = rows[best.pair.id], plainest.slow
            words = _words(group)
            yield _row(
                CONFIGS["write"],
                row,
                prompt=shown.first_request(best.pair.problem, reference, best.pair.family, words, best.where),
                completion=prompts.write_answer(shown.whole_answer(best.pair.fast)),
                us=row["fast_us"],
            )


def _words(group: Iterable[Proved]) -> str:
    """The shortest description of a problem's computation, among its pairs, that names no technique."""
    texts = (shown.words_of(proof.pair) for proof in group)
    return min((text for text in texts if text and not names_technique(text)), key=len, default="")


def _causes(answers: Iterable[Sequence[Answered]]) -> dict[str, Mapping[str, float]]:
    """By pair, the techniques that save time according to ablations or slower answers to its prompt."""
    causes: dict[str, Mapping[str, float]] = {}
    for group in answers:
        for answered in group:
            slower = [
                (other.of.pair, ratio)
                for other in group
                if (ratio := _least_ratio(answered.of, other.of)) is not None and ratio > 1
            ]
            causes[answered.of.pair.id] = causes_of(answered.of.pair, answered.of.speedup, slower)
    return causes


def _varied(rows: list[dict[str, Any]], causes: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """The rows, so that at most half are without counters and name the same techniques in the same words."""
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if not row["counted"]:
            alike.setdefault(tuple(named(causes[row["id"]])), []).append(row)
    dropped: set[str] = set()
    for group in alike.values():
        ranked = sorted(group, key=lambda row: store.content_id(row["id"]))
        dropped |= {row["id"] for row in ranked[max(FEW, len(rows) - len(group)) :]}
    return [row for row in rows if row["id"] not in dropped]


def _least_ratio(better: Proved, worse: Proved) -> float | None:
    """The least ratio of the second's time to the first's; None without times of both on one GPU model."""
    if better.gpu != worse.gpu or better.interval is None or worse.interval is None:
        return None
    return better.interval[0] / worse.interval[1]


def _preference(preference: Preference, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    of = preference.of
    return _row(
        CONFIGS["preferences"],
        rows[of.better.pair.id],
        prompt=preference.prompt,
        chosen=preference.chosen,
        rejected=preference.rejected,
        chosen_language=of.chosen.language,
        rejected_id=of.worse.pair.id,
        rejected_side=of.side,
        rejected_language=of.rejected.language,
        ratio=of.ratio,
        ratio_low=of.low,
        ratio_high=of.high,
    )


@dataclass(frozen=True)
class _Conversation:
    """A prompt and attempts, each with the answer, the instruction and the findings; the last attempt is the
    best."""

    row: Mapping[str, Any]
    prompt: Prompt
    attempts: Sequence[tuple[str, str, str]]


def _climbs(
    answers: Iterable[Sequence[Answered]], rows: Mapping[str, Mapping[str, Any]]
) -> Iterator[_Conversation]:
    """Conversations from answers to one prompt, slower ones first, with the measurements between them."""
    for group in answers:
        climb: list[Answered] = []
        for answered in reversed(
            [answer for answer in group if answer.answer is not None and answer.of.interval]
        ):
            ratio = _least_ratio(answered.of, climb[-1].of) if climb else 2.0
            if ratio is not None and ratio > 1:
                climb.append(answered)
        if len(climb) > 1:
            attempts = [
                (str(answer.answer), "improve", measured_words(rows[answer.of.pair.id])) for answer in climb
            ]
            best = climb[-1].of
            yield _Conversation(rows[best.pair.id], shown.request(best.pair, gpu=best.where), attempts)


def _mended(
    known: Lessons, rows: Mapping[str, Mapping[str, Any]], wrong: Iterable[WrongAttempt]
) -> Iterator[_Conversation]:
    """Conversations for a pair with wrong answers: at most two of them with different outcomes, then the
    right one.

    At most one is the right answer with a single mistake, since correcting one mistake does not introduce
    another.
    """
    facts: dict[str, list[WrongAttempt]] = {}
    # Nearer to the right one as it goes: the given code, what models wrote, single mistakes.
    for fact in sorted(wrong, key=lambda fact: (fact.change != GIVEN_BACK, not fact.answer)):
        facts.setdefault(fact.pair, []).append(fact)
    for lesson in known.taught:
        pair, attempts, outcomes, mistaken = lesson.pair, [], dict[str, str](), False
        for fact in facts.get(pair.id, ()):
            side = reapplied(pair, fact)
            if side is None or fact.outcome in outcomes or len(outcomes) == 2 or mistaken:
                continue
            outcomes[fact.outcome] = fact.device
            mistaken = not fact.answer and fact.change != GIVEN_BACK
            text = prompts.write_answer(shown.answer_of(side, pair.slow), pair.fast.language)
            attempts.append((text, "repair", fact.findings))
        if not attempts or lesson.answer is None or lesson.technique is not None:
            continue
        prompt = shown.request(pair, gpu=NO_GPU) if EMULATOR in outcomes.values() else lesson.prompt
        yield _Conversation(rows[pair.id], prompt, [*attempts, (lesson.answer, "", "")])


def measured_words(row: Mapping[str, Any]) -> str:
    """The message to a model about the answer of a confirmed row."""
    interval = (row["speedup_low"], row["speedup_high"], row["speedup_confidence"])
    speedup = Speedup(row["speedup"], *interval, row["speedup_blocks"] or 0, row["speedup_margin"] or 0.0)
    environment = Environment(row["backend"], row["device"])
    verdict = Verdict(row["id"], row["key"], Outcome.CONFIRMED, environment, speedup=speedup)
    return prompts.feedback("fast", AttemptOutcome.JUDGED, verdict=verdict)


def _trajectory(conversation: _Conversation) -> dict[str, Any]:
    """A row of a conversation in which the judge's findings are user messages."""
    messages = prompts.chat(conversation.prompt)
    for answer, action, findings in conversation.attempts:
        messages.append({"role": "assistant", "content": answer})
        if answer != conversation.attempts[-1][0]:
            messages.append({"role": "user", "content": prompts.go_on(action, findings)})
    return _conversation(CONFIGS["trajectories"], conversation, messages)


def _with_tool(conversation: _Conversation) -> dict[str, Any]:
    """A row of a conversation in which attempts are calls of the judge's tool, and the last one is the
    answer."""
    messages: list[dict[str, Any]] = [*prompts.chat(conversation.prompt)]
    name, best = JUDGE["function"]["name"], conversation.attempts[-1][0]
    for number, (answer, _, findings) in enumerate(conversation.attempts[:-1]):
        identifier, function = f"call_{number}", {"name": name, "arguments": {"answer": answer}}
        call = {"id": identifier, "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "content": findings, "tool_call_id": identifier, "name": name})
    messages.append({"role": "assistant", "content": best})
    parts: Any = CONFIGS["tool_trajectories"]["messages"][0]
    messages = [{part: message.get(part) for part in parts} for message in messages]
    return _conversation(CONFIGS["tool_trajectories"], conversation, messages, tools=json.dumps([JUDGE]))


def _conversation(
    columns: Mapping[str, Kind],
    conversation: _Conversation,
    messages: Sequence[Mapping[str, Any]],
    **more: Any,
) -> dict[str, Any]:
    facts = {"prompt_format": prompts.FORMAT, "messages": messages, "attempts": len(conversation.attempts)}
    answers = [answer for answer, _, _ in conversation.attempts]
    findings = [finding for _, _, finding in conversation.attempts]
    length = _length([*(part["content"] for part in prompts.chat(conversation.prompt)), *answers, *findings])
    row = {**conversation.row, **facts, **length, **more}
    return {name: row[name] for name in columns}


def _repairs(
    known: Lessons,
    proved: Iterable[Proved],
    rows: Mapping[str, Mapping[str, Any]],
    wrong: Iterable[WrongAttempt],
) -> Iterator[dict[str, Any]]:
    """Rows of wrong answers to the prompts for the fastest side, each with that side."""
    right = {
        lesson.pair.id: lesson.answer
        for lesson in known.taught
        if lesson.answer is not None and lesson.technique is None
    }
    gpus = {proof.pair.id: proof.where for proof in proved}
    pairs = {proof.pair.id: proof.pair for proof in proved if proof.pair.id in right}
    for fact, prompt in repairs(pairs, wrong, gpus):
        yield _row(
            CONFIGS["repair"],
            rows[fact.pair],
            prompt=prompt,
            completion=right[fact.pair],
            change=fact.change,
            wrong_outcome=fact.outcome,
            wrong_device=fact.device,
        )


def _row(columns: Mapping[str, Kind], pair_row: Mapping[str, Any], **values: Any) -> dict[str, Any]:
    """A row of these columns, from `values` and the row of `pairs`; prompts and answers as chat messages."""
    messages = prompts.chat(values["prompt"])
    answers = {name: values[name] for name in ("completion", "chosen", "rejected") if name in values}
    row = {**pair_row, **values, "prompt_format": prompts.FORMAT, "prompt": messages}
    row |= {name: [{"role": "assistant", "content": answer}] for name, answer in answers.items()}
    row |= _length([message["content"] for message in messages], max(answers.values(), key=len, default=""))
    return {name: row[name] for name in columns}


def _length(texts: Iterable[str], answer: str = "") -> dict[str, Any]:
    """The columns of `_LENGTH`; tokens are overestimated from bytes, so that an unflagged row is certainly
    shorter."""
    size = sum(len(text.encode()) for text in (*texts, answer))
    flags = {f"over_{limit}k": size > limit * 1024 * LEAST_BYTES for limit in (4, 8)}
    return {"text_bytes": size, **flags}


def sft_row(row: Mapping[str, Any], lesson: Lesson) -> dict[str, Any]:
    """The `sft` row of a lesson that has an answer; `row` is the pair's row of `pairs`."""
    return _row(
        CONFIGS["sft"],
        row,
        prompt=lesson.prompt,
        completion=lesson.answer,
        technique=lesson.technique,
        local_edit=lesson.local_edit,
    )


def explained_row(
    row: Mapping[str, Any], lesson: Lesson, both: Both | None, causes: Mapping[str, float]
) -> dict[str, Any] | None:
    """The `explained` row of a lesson that has an answer; None if nothing shows a cause of its speedup."""
    text = explained(row, lesson.pair, both, causes, lesson.technique)
    if text is None:
        return None
    lines = list(measured(row, lesson.pair, both[0] if both else None))
    return _row(
        CONFIGS["explained"],
        row,
        prompt=prompts.asking_why(lesson.prompt, lines, lesson.pair.fast.language),
        completion=text,
        technique=lesson.technique,
        local_edit=lesson.local_edit,
        counted=both is not None,
    )


def grpo_row(row: Mapping[str, Any], lesson: Lesson) -> dict[str, Any]:
    """The `grpo` row of a lesson whose prompt asks for no technique."""
    return _row(
        CONFIGS["grpo"],
        row,
        prompt=lesson.prompt,
        given_code=row["slow_code"],
        given_side=row["slow_side"],
        given_us=row["slow_us"],
        reference_speedup=row["speedup"],
    )
