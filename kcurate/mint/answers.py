"""Answers to admitted problems: fast sides from schedule templates, as pairs against the plain side.

Not covered: the templates (`schedules`), which pairs hold on a GPU (`kcurate.judge`).
"""

from __future__ import annotations

from dataclasses import replace

from kcurate.cuda_source.text.features import techniques
from kcurate.mint.graph import Graph
from kcurate.mint.schedules.sides import Answer, fast_side
from kcurate.mint.schedules.triton_side import triton_side
from kcurate.records import Candidate

CUDA, TRITON = "schedules", "triton"


def answers_of(graph: Graph, plain: Candidate, text_seed: int) -> tuple[Candidate, ...]:
    """The plain side against an answer in CUDA, and against one in Triton where its language suffices.

    `plain`: the pair of the module and the plain side.
    """
    answers = {CUDA: fast_side(graph, text_seed), TRITON: triton_side(graph)}
    return tuple(_pair(plain, name, answer) for name, answer in answers.items() if answer is not None)


def _pair(plain: Candidate, name: str, answer: Answer) -> Candidate:
    fused = ["kernel-fusion"] if len(answer.side.plan) < len(plain.fast.plan) else []
    shown = techniques(answer.side.code.encode()) if name == CUDA else ()
    return replace(
        plain,
        id=f"{plain.id.rsplit('/', 1)[0]}/{name}",
        origin=replace(plain.origin, rules=answer.schedules),
        techniques=tuple(sorted({*shown, *fused})),
        description=_description(plain, answer),
        slow=plain.fast,
        fast=answer.side,
    )


def _description(plain: Candidate, answer: Answer) -> str:
    composed = plain.description.partition(";")[0]
    schedules = ", ".join(dict.fromkeys(answer.schedules))
    return f"{composed}; a kernel an operator, against {len(answer.side.plan)} by schedules: {schedules}."
