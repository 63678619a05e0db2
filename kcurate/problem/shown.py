"""Sides and problems as a model sees them; shared by deopt, training and evaluation.

A side is shown as code without comments, its plan and buffers as JSON, a problem as JSON. Not covered: the
surrounding text (`kcurate.prompts`).
"""

from __future__ import annotations

import re
from typing import Any

from kcurate import prompts
from kcurate.core import codec, json_text
from kcurate.cuda_source import normalise
from kcurate.prompts import Answer, Earlier, Material, Technique
from kcurate.records import Candidate, Language, Problem, Prompt, Side, SideName
from kcurate.triton_source import bare_python

_NAMES_A_SIDE = re.compile(r"\b(?:slow|fast) side\b")


def material_of(
    problem: Problem, side: Side, makes: SideName, family: str, gpu: str = "", wants: Language = "cuda"
) -> Material:
    """What a prompt shows of a computation: one side, and which side (`makes`) it wants in which language."""
    return Material(
        makes=makes,
        family=family,
        code=_bare(side),
        plan=_shown_launch(side),
        problem=json_text.pretty(codec.to_data(problem)),
        language=side.language,
        gpu=gpu,
        wants=wants,
    )


def request(
    candidate: Candidate,
    makes: SideName = "fast",
    *,
    brief: bool = False,
    technique: Technique | None = None,
    gpu: str = "",
) -> Prompt:
    """The prompt that shows one side of a candidate and asks for the other.

    Raises:
        ValueError: the candidate has no problem.
    """
    if candidate.problem is None:
        raise ValueError(f"{candidate.id} has no problem")
    given = candidate.slow if makes == "fast" else candidate.fast
    material = material_of(candidate.problem, given, makes, candidate.family, gpu)
    return prompts.build(material, technique, brief=brief)


def words_of(candidate: Candidate) -> str:
    """What a candidate computes: the part of its description before the difference between the sides."""
    words = candidate.description.partition(";")[0].strip().rstrip(".")
    return "" if _NAMES_A_SIDE.search(words) else words


def first_request(problem: Problem, family: str, words: str, gpu: str = "") -> Prompt:
    """The prompt that shows a problem without any side, in words and as data."""
    return prompts.write(family, f"{words}.", json_text.pretty(codec.to_data(problem)), gpu)


def whole_answer(side: Side) -> Answer:
    """A side as the answer to a prompt that shows no side: with its plan and buffers."""
    data = launch_data(side)
    return Answer(shown_code(side.code), data["plan"], data.get("buffers"))


def answer_of(side: Side, shown_side: Side) -> Answer:
    """A side as the answer to a prompt that shows `shown_side`; with plan and buffers only if they differ."""
    return Answer(shown_code(side.code)) if _launches_alike(side, shown_side) else whole_answer(side)


def earlier(side: Side, shown_side: Side, findings: str) -> Earlier:
    """A side as an earlier answer to a prompt that shows `shown_side`, with the findings about it."""
    plan = None if _launches_alike(side, shown_side) else _shown_launch(side)
    return Earlier(_bare(side), plan, findings, side.language)


def _launches_alike(side: Side, other: Side) -> bool:
    return side.plan == other.plan and side.buffers == other.buffers


def _bare(side: Side) -> str:
    """A side's code without comments."""
    return shown_code(side.code) if side.language == "cuda" else bare_python(side.code)


def shown_code(code: str) -> str:
    """Code without comments, as it is published."""
    return normalise(code.encode("utf-8", "replace")).decode("utf-8", "replace")


def _shown_launch(side: Side) -> str:
    """A side's plan, and its own buffers if any, as JSON."""
    return json_text.pretty(launch_data(side))


def launch_data(side: Side) -> dict[str, Any]:
    """A side's plan, and its own buffers if any, as plain data."""
    data = codec.to_data(side)
    return {key: data[key] for key in ("plan", "buffers") if data.get(key)}
