"""Which pairs teach, and what each prompt asks for: one selection for datasets and training.

A prompt stands once, with the fastest answer known. Other answers to it (rungs of a ladder) ask for a
technique by name. Not covered: which pairs are proved (`kcurate.verdicts`), the words (`kcurate.prompts`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from kcurate import prompts
from kcurate.cuda_source.compare.containment import held
from kcurate.problem import shown
from kcurate.problem.answered import side_of
from kcurate.problem.techniques import vocabulary
from kcurate.prompts import Technique
from kcurate.records import Candidate, Prompt

# What sides made by rules must gain to be taught; a fifth of them are of one rule at most, a third are local
# edits at most, `FEW` of each in any case.
RULE_GAIN = 1.5
FEW = 4
# The share of an answer's lines in the given code from which the answer is a local edit.
LOCAL = 0.85
_ARCHITECTURE = re.compile(r"\bsm_(\d+)(\d)[a-z]?\b")


class Untaught(StrEnum):
    """Why a proved pair is in no prompt.

    `layout`: no prompt shows how its given side lays buffers out. `same_prompt`: another answer to the same
    prompt is faster, and no technique tells the two apart. Of given sides that rules made: `small_gain`: the
    speedup is below `RULE_GAIN`; `many_of_a_rule`, `many_local_edits`: their share is reached. `local_edit`:
    most of the answer is given, and the pair would be in the test split.
    """

    LAYOUT = "layout"
    SINGLE_SIZE = "single_size"
    SAME_PROMPT = "same_prompt"
    SMALL_GAIN = "small_gain"
    MANY_OF_A_RULE = "many_of_a_rule"
    MANY_LOCAL_EDITS = "many_local_edits"
    LOCAL_EDIT = "local_edit"


@dataclass(frozen=True)
class Proved:
    """A pair as it is published, with its measured speedup (None: not timed) and the GPU of that verdict.

    `interval`: the speedup's lower and upper end.
    """

    pair: Candidate
    speedup: float | None = None
    gpu: str = ""
    interval: tuple[float, float] | None = None

    @classmethod
    def of_row(cls, pair: Candidate, row: Mapping[str, Any]) -> Proved:
        """The pair in a published row, with what the row says of its verdict."""
        interval = None if row["speedup"] is None else (row["speedup_low"], row["speedup_high"])
        return cls(pair, row["speedup"], gpu_named(row["device"], row.get("compiler")), interval)


@dataclass(frozen=True)
class Answered:
    """A proved pair with its fast side as a completion (None: the form of answers cannot express it)."""

    of: Proved
    answer: str | None


@dataclass(frozen=True)
class Lesson:
    """A prompt with its answer. `technique`: what the prompt asks for by name; None: the fastest side known.

    `pair` has the answer as its fast side, as if a model had made it. `answer` is None where the form of
    answers cannot express that side: such a prompt can be asked, and not taught. `local_edit`: more than
    `LOCAL` of the answer's lines stand in the given code.
    """

    pair: Candidate
    prompt: Prompt
    answer: str | None
    technique: str | None = None
    speedup: float | None = None
    local_edit: bool = False


@dataclass(frozen=True)
class Lessons:
    """The lessons by id of their pair, in order of the ids, and why other pairs teach nothing.

    `answers`: all of each prompt, the fastest first.
    """

    taught: tuple[Lesson, ...]
    untaught: dict[str, Untaught]
    answers: tuple[tuple[Answered, ...], ...]


def lessons(proved: Iterable[Proved], *, brief: bool = False) -> Lessons:
    """The selection. Of equally fast answers to a prompt the pair whose id sorts first stays."""
    groups, untaught = _answers(proved)
    taught = []
    for group in groups:
        asked: dict[str | None, str | None] = {}
        for answered in group:
            technique = _technique(answered.of.pair, asked.keys()) if asked else None
            if asked and (technique is None or answered.answer is None or answered.answer in asked.values()):
                untaught[answered.of.pair.id] = Untaught.SAME_PROMPT
                continue
            asked[technique.name if technique else None] = answered.answer
            taught.append(_lesson(answered, technique, brief=brief))
    kept = _of_rules(taught, untaught)
    return Lessons(tuple(sorted(kept, key=lambda lesson: lesson.pair.id)), untaught, groups)


def _of_rules(taught: Iterable[Lesson], untaught: dict[str, Untaught]) -> list[Lesson]:
    """The lessons without those that would teach the inverse of a few rules, the largest speedups first."""
    kept = [lesson for lesson in taught if not lesson.pair.origin.rules]
    by_rules = sorted(
        (lesson for lesson in taught if lesson.pair.origin.rules),
        key=lambda lesson: (-(lesson.speedup or 0.0), lesson.pair.id),
    )
    worth = [lesson for lesson in by_rules if lesson.speedup is None or lesson.speedup >= RULE_GAIN]
    untaught |= {lesson.pair.id: Untaught.SMALL_GAIN for lesson in by_rules if lesson not in worth}
    most = {rule: max(FEW, len(worth) // 5) for lesson in worth for rule in lesson.pair.origin.rules}
    local = max(FEW, len(worth) // 3)
    for lesson in worth:
        rules = lesson.pair.origin.rules
        if any(most[rule] == 0 for rule in rules):
            untaught[lesson.pair.id] = Untaught.MANY_OF_A_RULE
        elif lesson.local_edit and local == 0:
            untaught[lesson.pair.id] = Untaught.MANY_LOCAL_EDITS
        else:
            most |= {rule: most[rule] - 1 for rule in rules}
            local -= lesson.local_edit
            kept.append(lesson)
    return kept


def _answers(proved: Iterable[Proved]) -> tuple[tuple[tuple[Answered, ...], ...], dict[str, Untaught]]:
    """The answers to each prompt, the fastest first, and why other pairs have no prompt."""
    untaught: dict[str, Untaught] = {}
    groups: dict[Prompt, list[Answered]] = {}
    for proof in sorted(proved, key=lambda proof: proof.pair.id):
        if why := unasked(proof.pair):
            untaught[proof.pair.id] = why
        else:
            groups.setdefault(shown.request(proof.pair), []).append(Answered(proof, _answer(proof.pair)))
    for group in groups.values():
        group.sort(key=lambda answered: (answered.answer is None, -(answered.of.speedup or 0.0)))
    return tuple(map(tuple, groups.values())), untaught


def unasked(pair: Candidate) -> Untaught | None:
    """Why no prompt can ask for the fast side; None if one can."""
    if pair.slow.views:
        return Untaught.LAYOUT
    return Untaught.SINGLE_SIZE if pair.problem is not None and pair.problem.single_size else None


def _answer(pair: Candidate) -> str | None:
    """The fast side as a completion, if that reads back as the fast side."""
    assert pair.problem is not None, "a prompt shows it"
    answer = shown.answer_of(pair.fast, pair.slow)
    read = side_of(answer, pair.slow, pair.problem)
    if isinstance(read, str):
        return None
    wanted = replace(pair.fast, code=read.code, nondeterministic=read.nondeterministic)
    return prompts.write_answer(answer) if read == wanted else None


def _technique(pair: Candidate, asked: Collection[str | None]) -> Technique | None:
    """The first of the pair's techniques that no other answer to its prompt is asked for by."""
    known = vocabulary()
    return next((known[name] for name in pair.techniques if name in known and name not in asked), None)


def _lesson(answered: Answered, technique: Technique | None, *, brief: bool) -> Lesson:
    pair = answered.of.pair
    template = replace(pair, origin=replace(pair.origin, kind="model", made="fast"))
    prompt = shown.request(template, brief=brief, technique=technique, gpu=answered.of.gpu)
    name = technique.name if technique else None
    return Lesson(
        template,
        prompt,
        answered.answer,
        name,
        answered.of.speedup,
        _is_local(pair.slow.code, pair.fast.code),
    )


def _is_local(start: str, answer: str) -> bool:
    """Whether more than `LOCAL` of an answer's lines stand in the given code."""
    known = {"".join(line.split()) for line in start.splitlines()}
    lines = [text for line in answer.splitlines() if (text := "".join(line.split())) not in ("", "{", "}")]
    return sum(line in known for line in lines) > LOCAL * len(lines)


def gpu_named(device: str, compiler: str | None) -> str:
    """A GPU as prompts name it, such as `NVIDIA H200 (compute capability 9.0)`; empty for the emulator.

    `compiler` is that of a verdict's environment, such as `nvrtc 13.0 sm_90a`.
    """
    architecture = _ARCHITECTURE.search(compiler or "")
    return f"{device} (compute capability {architecture[1]}.{architecture[2]})" if architecture else ""


def together(codes: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """The families that belong in one split, by family: those of which one holds a function of the other.

    `codes`: a family and one side's code, for every side.
    """
    listed = sorted(set(codes))
    groups = {family: {family} for family, _ in listed}
    for inclusion in held([code for _, code in listed]):
        first, second = groups[listed[inclusion.of][0]], groups[listed[inclusion.by][0]]
        if first is not second:
            first |= second
            groups |= dict.fromkeys(second, first)
    return {family: frozenset(group) for family, group in groups.items()}
