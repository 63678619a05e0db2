"""Rows of `repair`: a wrong answer, the judge's findings, and the right answer.

`pairs/repairs.jsonl` lists wrong answers: changes, which are applied to the published pair again, and answers
of models. An entry that no longer gives the same code, or whose pair's prompt has changed, is left out. A row
is in the split of its pair. Not covered: judging wrong answers (`benchmarks/repairs.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kcurate import prompts
from kcurate.core import codec, resources, store
from kcurate.mutate.broken import ATTEMPTS
from kcurate.mutate.choosing import results_of_change
from kcurate.problem import shown
from kcurate.problem.answered import side_of
from kcurate.records import Candidate, Prompt, Side, WrongAttempt

# What a prompt names where the findings are an emulator's.
EMULATOR = "emulator"
NO_GPU = "any, judged on an emulator"
# Before the name of the model that gave an answer.
MODEL = "model "
# The wrong answer that models give most often: the given code, unchanged.
GIVEN_BACK = "given_back"


def facts() -> Path:
    """The file of wrong answers to the built-in pairs."""
    return resources.pairs_dir() / "repairs.jsonl"


def side_id(side: Side) -> str:
    """The hash of a wrong side."""
    return store.content_id(side.code, codec.canonical_json(shown.launch_data(side)))


def wrong_sides(pair: Candidate, change: str) -> Sequence[Side]:
    """The wrong answers that a change makes from a published pair; `WrongAttempt.place` is the index."""
    if change == GIVEN_BACK:
        return (pair.slow,)
    return (
        [attempt.side for attempt in results_of_change(pair.fast, ATTEMPTS, change)]
        if change in ATTEMPTS
        else ()
    )


def answer_id(pair: Candidate, side: Side) -> str:
    """The hash of a model's wrong side, and of the problem and given side that it answers, without the
    statement."""
    assert pair.problem is not None, "an answer is one to a problem"
    parts = (replace(pair.problem, statement=None), pair.slow)
    asked = (codec.canonical_json(codec.to_data(part)) for part in parts)
    return store.content_id("answer", *asked, side_id(side))


def answered(pair: Candidate, answer: str) -> Side | None:
    """The side in the text of an answer to a pair; None if it cannot be read."""
    language = pair.fast.language
    answer_read = prompts.read_reply(answer, "text", language)
    if isinstance(answer_read, prompts.Unreadable) or pair.problem is None:
        return None
    side = side_of(answer_read, pair.slow, pair.problem, language)
    return side if isinstance(side, Side) else None


def reapplied(pair: Candidate, fact: WrongAttempt) -> Side | None:
    """The wrong side of a published pair; None if it is no longer what was judged."""
    if fact.answer:
        side = answered(pair, fact.answer)
        return side if side is not None and answer_id(pair, side) == fact.side else None
    sides = wrong_sides(pair, fact.change)
    side = sides[fact.place] if fact.place < len(sides) else None
    return side if side is not None and side_id(side) == fact.side else None


def repairs(
    pairs: Mapping[str, Candidate], wrong_answers: Iterable[WrongAttempt], gpus: Mapping[str, str]
) -> Iterator[tuple[WrongAttempt, Prompt]]:
    """The prompts with a wrong answer; the right answer is the pair's fast side. `gpus`: by pair id."""
    for fact in wrong_answers:
        pair = pairs.get(fact.pair)
        wrong = reapplied(pair, fact) if pair is not None else None
        if pair is None or wrong is None or pair.problem is None:
            continue
        earlier = shown.earlier(wrong, pair.slow, fact.findings)
        gpu = NO_GPU if fact.device == EMULATOR else gpus[fact.pair]
        material = shown.material_of(pair.problem, pair.slow, "fast", pair.family, gpu, pair.fast.language)
        yield fact, prompts.build(material, None, action="repair", earlier=earlier)
