"""The parts of a prompt; plans and problems are JSON as in `pair.json`, ready to be shown."""

from __future__ import annotations

from dataclasses import dataclass

from kcurate.records import Language, SideName


@dataclass(frozen=True)
class Technique:
    """An optimisation technique of `schemas/techniques.json` and what it means."""

    name: str
    meaning: str


@dataclass(frozen=True)
class Example:
    """A confirmed pair that shows a technique: the code without and with it."""

    slow: str
    fast: str
    technique: str


@dataclass(frozen=True)
class Earlier:
    """An earlier answer with the findings about it."""

    code: str
    plan: str | None
    findings: str
    language: Language = "cuda"


@dataclass(frozen=True)
class Material:
    """A kernel to start from. `makes`: the side to be written; the given code is the other one.

    `family`: a plain name of the computation, such as `matrix-vector`. `statement`: the computation in words;
    `module`: the same as a PyTorch module, with the words that introduce it. `language`: of the given code;
    `wants`: of the answer. `gpu`: where the answer will run, such as `NVIDIA H200 (compute capability 9.0)`;
    empty: any GPU; further lines may say what is to be reached. `notes`: lines on keys of the problem and
    the plan that the rules do not explain.
    """

    makes: SideName
    family: str
    code: str
    plan: str
    problem: str
    language: Language = "cuda"
    gpu: str = ""
    wants: Language = "cuda"
    notes: str = ""
    statement: str = ""
    module: str = ""
