"""Which pairs teach, and what each prompt asks for: one selection for datasets and training.

A prompt stands once, with the fastest answer known. Other answers to it (rungs of a ladder) ask for a
technique by name. Not covered: which pairs are proved (`kcurate.verdicts`), the words (`kcurate.prompts`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from kcurate import prompts
from kcurate.cuda_source.containment import held
from kcurate.problem import shown
from kcurate.problem.answered import side_of
from kcurate.problem.techniques import vocabulary
from kcurate.prompts import Technique
from kcurate.records import Candidate, Prompt

_ARCHITECTURE = re.compile(r"\bsm_(\d+)(\d)[a-z]?\b")


class Untaught(StrEnum):
    """Why a proved pair is in no prompt.

    `layout`: no prompt shows how its given side lays buffers out. `same_prompt`: another answer to the same
    prompt is faster, and no technique tells the two apart.
    """

    LAYOUT = "layout"
    SINGLE_SIZE = "single_size"
    SAME_PROMPT = "same_prompt"


@dataclass(frozen=True)
class Proved:
    """A pair as it is published, with its measured speedup (None: not timed) and the GPU of that verdict.

    `interval`: the speedup's lower and upper end.
    """

    pair: Candidate
    speedup: float | None = None
    gpu: str = ""
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Answered:
    """A proved pair with its fast side as a completion (None: the form of answers cannot express it)."""

    of: Proved
    answer: str | None


@dataclass(frozen=True)
class Lesson:
    """A prompt with its answer. `technique`: what the prompt asks for by name; None: the fastest side known.

    `pair` has the answer as its fast side, as if a model had made it. `answer` is None where the form of
    answers cannot express that side: such a prompt can be asked, and not taught.
    """

    pair: Candidate
    prompt: Prompt
    answer: str | None
    technique: str | None = None
    speedup: float | None = None


@dataclass(frozen=True)
class Lessons:
    """The lessons by id of their pair, in order of the ids, and why other pairs teach nothing."""

    taught: tuple[Lesson, ...]
    untaught: dict[str, Untaught]


def lessons(proved: Iterable[Proved], *, brief: bool = False) -> Lessons:
    """The selection. Of equally fast answers to a prompt the pair whose id sorts first stays."""
    groups, untaught = answers(proved)
    taught = []
    for group in groups:
        asked: dict[str | None, str | None] = {}
        for one in group:
            technique = _technique(one.of.pair, asked.keys()) if asked else None
            if asked and (technique is None or one.answer is None or one.answer in asked.values()):
                untaught[one.of.pair.id] = Untaught.SAME_PROMPT
                continue
            asked[technique.name if technique else None] = one.answer
            taught.append(_lesson(one, technique, brief=brief))
    return Lessons(tuple(sorted(taught, key=lambda one: one.pair.id)), untaught)


def answers(proved: Iterable[Proved]) -> tuple[list[list[Answered]], dict[str, Untaught]]:
    """The answers to each prompt, the fastest first, and why other pairs have no prompt."""
    untaught: dict[str, Untaught] = {}
    groups: dict[Prompt, list[Answered]] = {}
    for one in sorted(proved, key=lambda one: one.pair.id):
        if why := _unasked(one.pair):
            untaught[one.pair.id] = why
        else:
            groups.setdefault(shown.request(one.pair), []).append(Answered(one, _answer(one.pair)))
    for group in groups.values():
        group.sort(key=lambda one: (one.answer is None, -(one.of.speedup or 0.0)))
    return list(groups.values()), untaught


def _unasked(pair: Candidate) -> Untaught | None:
    """Why no prompt can ask for the fast side."""
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


def _lesson(one: Answered, technique: Technique | None, *, brief: bool) -> Lesson:
    pair = one.of.pair
    template = replace(pair, origin=replace(pair.origin, kind="model", made="fast"))
    prompt = shown.request(template, brief=brief, technique=technique, gpu=one.of.gpu)
    return Lesson(template, prompt, one.answer, technique.name if technique else None, one.of.speedup)


def gpu_named(device: str, compiler: str | None) -> str:
    """A GPU as prompts name it, such as `NVIDIA H200 (compute capability 9.0)`; empty for the emulator.

    `compiler` is that of a verdict's environment, such as `nvrtc 13.0 sm_90a`.
    """
    found = _ARCHITECTURE.search(compiler or "")
    return f"{device} (compute capability {found[1]}.{found[2]})" if found else ""


def together(codes: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """The families that belong in one split, by family: those of which one holds a function of the other.

    `codes`: a family and one side's code, for every side.
    """
    listed = sorted(set(codes))
    groups = {family: {family} for family, _ in listed}
    for one in held([code for _, code in listed]):
        first, second = groups[listed[one.of][0]], groups[listed[one.by][0]]
        if first is not second:
            first |= second
            groups |= dict.fromkeys(second, first)
    return {family: frozenset(group) for family, group in groups.items()}
