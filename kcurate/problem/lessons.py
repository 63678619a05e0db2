"""Selects the pairs that become training examples, and their prompts; shared by datasets and training.

A prompt occurs once, with the fastest known answer. Other answers to it (rungs of a ladder) get a prompt that
asks for a technique by name. Not covered: which pairs are proved (`kcurate.verdicts`), the text of prompts
(`kcurate.prompts`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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

# A pair whose slow side was made by a rule needs this speedup. At most a fifth of such pairs come from one
# rule and at most a third are local edits; at most a fifth of minted answers have the same schedules. `FEW`
# of each are always allowed.
RULE_GAIN = 1.5
SHARE, LOCAL_SHARE = 1 / 5, 1 / 3
FEW = 4
# An answer is a local edit if more than this share of its lines occurs in the given code.
LOCAL = 0.85
_ARCHITECTURE = re.compile(r"\bsm_(\d+)(\d)[a-z]?\b")


class Untaught(StrEnum):
    """Why a proved pair is not a training example.

    `layout`: prompts do not show how its given side lays out buffers. `single_size`: its problem has one
    size. `same_prompt`: another answer to the same prompt is faster, and no technique distinguishes the two.
    `local_edit`: the answer is a local edit, and the pair would be in the test split. For pairs made by a
    rule: `small_gain`: the speedup is below `RULE_GAIN`; `many_of_a_rule`, `many_local_edits`: their share is
    used up. `many_of_a_schedule`: enough minted answers have the same schedules.
    """

    LAYOUT = "layout"
    SINGLE_SIZE = "single_size"
    SAME_PROMPT = "same_prompt"
    SMALL_GAIN = "small_gain"
    MANY_OF_A_RULE = "many_of_a_rule"
    MANY_LOCAL_EDITS = "many_local_edits"
    MANY_OF_A_SCHEDULE = "many_of_a_schedule"
    LOCAL_EDIT = "local_edit"


@dataclass(frozen=True)
class Proved:
    """A pair as it is published, with its measured speedup (None: not timed) and the GPU of the measurement.

    `interval`: the speedup's confidence interval. `target`: the attainable time on that GPU, in words.
    """

    pair: Candidate
    speedup: float | None = None
    gpu: str = ""
    interval: tuple[float, float] | None = None
    target: str = ""

    @property
    def where(self) -> str:
        """The GPU and the target on it, one per line, for the prompt; empty if the GPU is unknown."""
        return "\n".join(part for part in (self.gpu, self.target) if part and self.gpu)

    @classmethod
    def of_row(cls, pair: Candidate, row: Mapping[str, Any], target: str = "") -> Proved:
        """The pair in a published row, with the measurement in that row."""
        interval = None if row["speedup"] is None else (row["speedup_low"], row["speedup_high"])
        details = json.loads(row.get("environment_details") or "{}")
        gpu = gpu_named(row["device"], row.get("compiler"), details)
        return cls(pair, row["speedup"], gpu, interval, target)


@dataclass(frozen=True)
class Answered:
    """A proved pair with its fast side as a completion (None: the answer format cannot express it)."""

    of: Proved
    answer: str | None


@dataclass(frozen=True)
class Lesson:
    """A prompt with its answer. `technique`: the technique that the prompt requests; None: it requests the
    fastest side.

    `pair` has the answer as its fast side, as if a model had made it. `answer` is None if the answer format
    cannot express that side: the prompt can then be used for rollouts, but not as a training example.
    `local_edit`: more than `LOCAL` of the answer's lines occur in the given code.
    """

    pair: Candidate
    prompt: Prompt
    answer: str | None
    technique: str | None = None
    speedup: float | None = None
    local_edit: bool = False


@dataclass(frozen=True)
class Lessons:
    """The training examples (`taught`), sorted by the id of their pair, and why other pairs were left out.

    `answers`: all answers to each prompt, the fastest first.
    """

    taught: tuple[Lesson, ...]
    untaught: dict[str, Untaught]
    answers: tuple[tuple[Answered, ...], ...]


def lessons(proved: Iterable[Proved], *, brief: bool = False) -> Lessons:
    """Select the training examples.

    Of equally fast answers to a prompt, the pair whose id sorts first wins.
    """
    groups, untaught = _answers(proved)
    taught = []
    for group in groups:
        answers: dict[str | None, str | None] = {}
        for answered in group:
            technique = _technique(answered.of.pair, answers.keys()) if answers else None
            repeated = answered.answer is None or answered.answer in answers.values()
            if answers and (technique is None or repeated):
                untaught[answered.of.pair.id] = Untaught.SAME_PROMPT
                continue
            answers[technique.name if technique else None] = answered.answer
            taught.append(_lesson(answered, technique, brief=brief))
    # Taken from the proved pairs, since the origin of a lesson's pair says `model`.
    pairs = (answered.of.pair for group in groups for answered in group)
    minted = {pair.id for pair in pairs if pair.origin.kind == "minted"}
    selected = _of_rules(taught, minted, untaught)
    return Lessons(tuple(sorted(selected, key=lambda lesson: lesson.pair.id)), untaught, groups)


def _of_rules(
    taught: Iterable[Lesson], minted: Collection[str], untaught: dict[str, Untaught]
) -> list[Lesson]:
    """Drop pairs of rules and schedules that gain little or are too similar, keeping the largest speedups.

    Otherwise a model would learn to invert a few rules, or to repeat a few templates. `minted`: ids of pairs
    whose rules are schedules.
    """
    lessons = sorted(taught, key=lambda lesson: (-(lesson.speedup or 0.0), lesson.pair.id))
    ruled = [lesson for lesson in lessons if lesson.pair.origin.rules]
    templates = [lesson for lesson in ruled if lesson.pair.id in minted]
    by_rules = [lesson for lesson in ruled if lesson.pair.id not in minted]
    large_gain = [lesson for lesson in by_rules if lesson.speedup is None or lesson.speedup >= RULE_GAIN]
    untaught |= {lesson.pair.id: Untaught.SMALL_GAIN for lesson in by_rules if lesson not in large_gain}
    return [
        *(lesson for lesson in lessons if not lesson.pair.origin.rules),
        *_within(large_gain, _of_a_rule, untaught),
        *_within(templates, _of_a_schedule, untaught),
    ]


Capped = Iterator[tuple[str, float, Untaught]]  # name, largest share of it, reason beyond that


def _of_a_rule(lesson: Lesson) -> Capped:
    yield from ((rule, SHARE, Untaught.MANY_OF_A_RULE) for rule in set(lesson.pair.origin.rules))
    if lesson.local_edit:
        yield "", LOCAL_SHARE, Untaught.MANY_LOCAL_EDITS


def _of_a_schedule(lesson: Lesson) -> Capped:
    yield "+".join(sorted(set(lesson.pair.origin.rules))), SHARE, Untaught.MANY_OF_A_SCHEDULE


def _within(
    lessons: list[Lesson], capped: Callable[[Lesson], Capped], untaught: dict[str, Untaught]
) -> list[Lesson]:
    """Keep lessons in order, so that each name from `capped` has at most its share of those kept.

    Each dropped lesson shrinks the total that shares refer to, so this repeats until the total is stable.
    """
    size = len(lessons)
    while True:
        counts, kept, dropped = Counter[str](), list[Lesson](), dict[str, Untaught]()
        for lesson in lessons:
            names = list(capped(lesson))
            full = (why for name, share, why in names if counts[name] >= max(FEW, int(share * size)))
            if (why := next(full, None)) is not None:
                dropped[lesson.pair.id] = why
                continue
            counts.update(name for name, _, _ in names)
            kept.append(lesson)
        if len(kept) >= size:
            untaught |= dropped
            return kept
        size = len(kept)


def _answers(proved: Iterable[Proved]) -> tuple[tuple[tuple[Answered, ...], ...], dict[str, Untaught]]:
    """The answers to each prompt, the fastest first, and the pairs that have no prompt."""
    untaught: dict[str, Untaught] = {}
    groups: dict[Prompt, list[Answered]] = {}
    for proof in sorted(proved, key=lambda proof: proof.pair.id):
        if why := unasked(proof.pair):
            untaught[proof.pair.id] = why
        else:
            answer = completion_of(proof.pair)
            groups.setdefault(shown.request(proof.pair), []).append(Answered(proof, answer))
    for group in groups.values():
        group.sort(key=lambda answered: (answered.answer is None, -(answered.of.speedup or 0.0)))
    return tuple(map(tuple, groups.values())), untaught


def unasked(pair: Candidate) -> Untaught | None:
    """Why no prompt can request the fast side; None if one can."""
    if pair.slow.views:
        return Untaught.LAYOUT
    return Untaught.SINGLE_SIZE if pair.problem is not None and pair.problem.single_size else None


def completion_of(pair: Candidate, *, whole: bool = False) -> str | None:
    """The fast side as a completion, if that reads back as the fast side; `whole`: always with its plan."""
    assert pair.problem is not None, "a prompt shows it"
    answer = shown.whole_answer(pair.fast) if whole else shown.answer_of(pair.fast, pair.slow)
    side = side_of(answer, pair.slow, pair.problem, pair.fast.language)
    if isinstance(side, str):
        return None
    published = replace(pair.fast, code=side.code, nondeterministic=side.nondeterministic)
    return prompts.write_answer(answer, pair.fast.language) if side == published else None


def _technique(pair: Candidate, used: Collection[str | None]) -> Technique | None:
    """The first of the pair's techniques that no prompt with the same given code requests yet."""
    techniques = vocabulary()
    return next(
        (techniques[name] for name in pair.techniques if name in techniques and name not in used), None
    )


def _lesson(answered: Answered, technique: Technique | None, *, brief: bool) -> Lesson:
    pair = answered.of.pair
    template = replace(pair, origin=replace(pair.origin, kind="model", made="fast"))
    prompt = shown.request(template, brief=brief, technique=technique, gpu=answered.of.where)
    name, local_edit = technique.name if technique else None, _is_local(pair.slow.code, pair.fast.code)
    return Lesson(template, prompt, answered.answer, name, answered.of.speedup, local_edit)


def _is_local(start: str, answer: str) -> bool:
    """Whether more than `LOCAL` of an answer's lines occur in the given code.

    Ignores spaces and lone braces.
    """
    given_lines = {"".join(line.split()) for line in start.splitlines()}
    lines = [text for line in answer.splitlines() if (text := "".join(line.split())) not in ("", "{", "}")]
    return sum(line in given_lines for line in lines) > LOCAL * len(lines)


def gpu_named(device: str, compiler: str | None, details: Mapping[str, Any] | None = None) -> str:
    """A GPU as prompts name it, such as `NVIDIA H200 (compute capability 9.0)`; empty for the emulator.

    `compiler` and `details` are those of a verdict's environment, such as `nvrtc 13.0 sm_90a`.
    """
    architecture = _ARCHITECTURE.search(compiler or "")
    capability = (
        f"{architecture[1]}.{architecture[2]}" if architecture else (details or {}).get("compute_capability")
    )
    return f"{device} (compute capability {capability})" if capability else ""


def together(codes: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """For each family, the families that must be in the same split, because they share a function.

    `codes`: a family and one side's code, for every side.
    """
    listed = sorted(set(codes))
    groups = {family: {family} for family, _ in listed}
    for inclusion in held([code for _, code in listed]):
        merged, other = groups[listed[inclusion.of][0]], groups[listed[inclusion.by][0]]
        if merged is not other:
            merged |= other
            groups |= dict.fromkeys(other, merged)
    return {family: frozenset(group) for family, group in groups.items()}
