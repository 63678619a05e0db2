"""Sides and problems as a model sees them; shared by deopt, training and evaluation.

A side is shown as code without comments, its plan and buffers as JSON, a problem as JSON. Not covered: the
surrounding text (`kcurate.prompts`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from kcurate import prompts
from kcurate.core import codec, json_text
from kcurate.cuda_source import normalise
from kcurate.problem.compare import KAPPA, NORM_BOUND, C
from kcurate.problem.techniques import names_technique
from kcurate.prompts import Answer, Earlier, Material, Technique, plan_language
from kcurate.records import Candidate, Language, Problem, Prompt, Reference, Side, SideName
from kcurate.triton_source import bare_python

_LANGUAGES: Mapping[Language, str] = {"cuda": "CUDA", "triton": "Triton", "torch": "PyTorch"}
_TOLERANCE = (
    f"A float element r may be off by {KAPPA:g} (u |r| + {C:g} sqrt(K) a max(|r|, S)): "
    'K is "terms" (how many terms or roundings add up in it, else 1), u and a the unit roundoffs of its type '
    'and of the accumulator ("accumulate", else its type), S "scale", else the RMS of its row. The error '
    "norm of rows and outputs stays below {bounds} of theirs, so narrower arithmetic passes only with split "
    "operands."
)
_NAMES_A_SIDE = re.compile(r"\b(?:slow|fast) side\b")


def material_of(
    problem: Problem, side: Side, makes: SideName, family: str, gpu: str = "", wants: Language = "cuda"
) -> Material:
    """The material of a prompt: one side, and the side (`makes`) and language of the answer.

    A description in words replaces the name of a family, which for composed problems is a hash.
    """
    data: dict[str, Any] = codec.to_data(problem)
    statement, _ = data.pop("statement", ""), data.pop("reference", None)
    return Material(
        makes=makes,
        family="" if statement else family,
        statement=statement,
        module=_module(problem.reference) if problem.reference and side.language != "torch" else "",
        code=_bare(side),
        plan=_shown_launch(side),
        problem=json_text.pretty(data),
        language=side.language,
        gpu=gpu,
        wants=wants,
        notes=_notes(data, side, wants),
    )


def _module(reference: Reference) -> str:
    call = reference.call
    what = (
        f"As a PyTorch module, whose call with {', '.join(map(str, call.args))} gives {', '.join(call.to)}:"
    )
    return f"{what}\n```python\n{reference.code.rstrip()}\n```\n"


def _notes(problem: Mapping[str, Any], side: Side, wants: Language) -> str:
    """Lines on keys of this problem (plain data) and of the given side's plan that the prompt's rules do not
    explain."""
    lines = list(plan_language.explained([problem, launch_data(side)["plan"]]))
    if side.language != wants and side.language != "torch":
        lines.append(f"The plan is one of {_LANGUAGES[side.language]}; yours is one of {_LANGUAGES[wants]}.")
    buffers = problem["buffers"].values()
    types = {buffer["dtype"] for buffer in buffers if buffer.get("role") in ("out", "inout")}
    if bounds := [f"{NORM_BOUND[name]:g} ({name})" for name in sorted(types & NORM_BOUND.keys())]:
        lines.append(_TOLERANCE.format(bounds=", ".join(bounds)))
    return "".join(f"{line}\n" for line in lines)


def request(
    candidate: Candidate,
    makes: SideName = "fast",
    *,
    brief: bool = False,
    technique: Technique | None = None,
    gpu: str = "",
) -> Prompt:
    """The prompt that shows one side of a candidate and requests the other.

    Raises:
        ValueError: the candidate has no problem.
    """
    if candidate.problem is None:
        raise ValueError(f"{candidate.id} has no problem")
    given_side = candidate.slow if makes == "fast" else candidate.fast
    wanted = (candidate.fast if makes == "fast" else candidate.slow).language
    wants = "cuda" if wanted == "torch" else wanted
    material = material_of(candidate.problem, given_side, makes, candidate.family, gpu, wants)
    return prompts.build(material, technique, brief=brief)


def open_request(problem: Problem, given: Side, family: str, gpu: str = "") -> Prompt:
    """The prompt that shows a side and leaves open whether the other one is in CUDA or in Triton."""
    return prompts.in_any_language(material_of(problem, given, "fast", family, gpu, given.language))


def words_of(candidate: Candidate) -> str:
    """The computation of a candidate in words: the part of its description before the difference of the
    sides."""
    words = candidate.description.partition(";")[0].strip().rstrip(".")
    return "" if _NAMES_A_SIDE.search(words) else words


def first_request(problem: Problem, reference: Side, family: str, words: str, gpu: str = "") -> Prompt:
    """The prompt for a first side, with the problem in words, as data and by a reference.

    `family` and `words` are left out if they would name a technique.
    """
    family, words = ("" if names_technique(text) else text for text in (family, words))
    material = material_of(problem, reference, "fast", family, gpu)
    return prompts.write(f"{words}." if words else "", material)


def whole_answer(side: Side) -> Answer:
    """A side as the answer to a prompt that shows no side: with its plan and buffers."""
    data = launch_data(side)
    return Answer(_bare(side), data["plan"], data.get("buffers"))


def answer_of(side: Side, shown_side: Side) -> Answer:
    """A side as the answer to a prompt that shows `shown_side`; with plan and buffers only if they differ."""
    return Answer(_bare(side)) if _launches_alike(side, shown_side) else whole_answer(side)


def earlier(side: Side, shown_side: Side, findings: str) -> Earlier:
    """A side as an earlier answer to a prompt that shows `shown_side`, with the findings about it."""
    plan = None if _launches_alike(side, shown_side) else _shown_launch(side)
    return Earlier(_bare(side), plan, findings, side.language)


def _launches_alike(side: Side, other: Side) -> bool:
    return side.plan == other.plan and side.buffers == other.buffers


def _bare(side: Side) -> str:
    """A side's code without comments; a module that is not Python as it is."""
    if side.language == "cuda":
        return shown_code(side.code)
    with contextlib.suppress(SyntaxError):
        return bare_python(side.code)
    return side.code


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
