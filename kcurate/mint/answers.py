"""Answers to admitted problems: fast sides from schedule templates, as pairs against the plain side.

Not covered: the templates (`schedules`), which pairs hold on a GPU (`kcurate.judge`).
"""

from __future__ import annotations

from dataclasses import replace

from kcurate.cuda_source.text.features import techniques
from kcurate.mint.graph import Graph
from kcurate.mint.schedules.sides import Answer, fast_side
from kcurate.records import Candidate

CUDA = "schedules"


def answer_of(graph: Graph, plain: Candidate, text_seed: int) -> Candidate:
    """The pair of the plain side and an answer by templates, from the pair of the module and the plain side."""
    answer = fast_side(graph, text_seed)
    fused = len(answer.side.plan) < len(plain.fast.plan)
    return replace(
        plain,
        id=f"{plain.id.rsplit('/', 1)[0]}/{CUDA}",
        origin=replace(plain.origin, rules=answer.schedules),
        techniques=tuple(
            sorted({*techniques(answer.side.code.encode()), *(["kernel-fusion"] if fused else [])})
        ),
        description=_description(plain, answer),
        slow=plain.fast,
        fast=answer.side,
    )


def _description(plain: Candidate, answer: Answer) -> str:
    composed = plain.description.partition(";")[0]
    schedules = ", ".join(dict.fromkeys(answer.schedules))
    return f"{composed}; a kernel an operator, against {len(answer.side.plan)} by schedules: {schedules}."
