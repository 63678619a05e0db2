"""What a prompt is made of; plans and problems come as the JSON of `pair.json`, ready to be shown."""

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
    """A confirmed pair that shows a technique: the code without it and with it."""

    slow: str
    fast: str
    technique: str


@dataclass(frozen=True)
class Earlier:
    """An answer given before and what was found about it."""

    code: str
    plan: str | None
    findings: str
    language: Language = "cuda"


@dataclass(frozen=True)
class Material:
    """A kernel to start from. `makes` says which side is asked for: the given code is the other one.

    `family` is a plain name of the computation (such as `matrix-vector`), `language` the given code's,
    `wants` the answer's. `gpu`: what the answer is to run on, such as `NVIDIA H200 (compute capability 9.0)`;
    empty if that is open.
    """

    makes: SideName
    family: str
    code: str
    plan: str
    problem: str
    language: Language = "cuda"
    gpu: str = ""
    wants: Language = "cuda"
