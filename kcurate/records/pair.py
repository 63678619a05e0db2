"""A candidate (two sides of one problem) and its origin.

A pair is a candidate with a `confirmed` verdict: the folder `<id>/` with `pair.json`, `slow.cu`,
`fast.cu`, and `verdicts/<gpu-model>.json` (see `kcurate.core.store`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kcurate.records.problem import Problem, Side

SideName = Literal["slow", "fast"]
ProblemOrigin = Literal["written", "known", "drafted", "captured", "model", "composed"]
OriginKind = Literal["curated", "natural", "rule", "model", "minted", "imported", "history"]
Trust = Literal["ours", "model", "stranger"]
SIDES: tuple[SideName, SideName] = ("slow", "fast")
# Who wrote the code that a candidate of each origin brings into a judgement.
_TRUST: Mapping[OriginKind, Trust] = {
    "curated": "ours",
    "rule": "ours",
    "minted": "ours",
    "model": "model",
    "natural": "stranger",
    "imported": "stranger",
    "history": "stranger",
}


def other_side(side: SideName) -> SideName:
    """The opposite side."""
    return "fast" if side == "slow" else "slow"


@dataclass(frozen=True)
class Origin:
    """How a candidate was made.

    `curated`: written by this project; `natural`: both sides from a suite; `rule` and `model`: one side from
    a suite, the other made by rewrite rules or by a language model; `minted`: a composed problem with sides
    from templates; `imported`: an answer that others published; `history`: before and after a commit.
    `made` is the side that was made (None for curated, natural and history). `kernels` are ids of extracted
    kernels. `problem`: the origin of the problem: `written` for this pair, `known` (`sources/`), `drafted`
    from the host code, `captured` from a running program, written by a `model`, or `composed`.

    `base_revision` and `path`: of a `history` pair, the commit before the change, and the file. `item`: the
    row of an `imported` answer. `claim`: the speedup that a commit message or a publisher claims, unproved.
    `seed`: the random seed of a `minted` problem.
    """

    kind: OriginKind
    suite: str | None = None
    url: str | None = None
    revision: str | None = None
    kernels: tuple[str, ...] = ()
    made: SideName | None = None
    rules: tuple[str, ...] = ()
    model: str | None = None
    parent: str | None = None
    problem: ProblemOrigin = "written"
    base_revision: str | None = None
    path: str | None = None
    item: str | None = None
    claim: str | None = None
    seed: int | None = None

    @property
    def trust(self) -> Trust:
        """Who wrote the judged code. It decides what shares a process, what runs under the sanitizer, and
        what may be published."""
        return _TRUST[self.kind]

    @property
    def templates(self) -> frozenset[str]:
        """What of ours wrote the made side: rules or schedules, each of which is searched for needless parts
        once, not once a pair. Empty if somebody else, or nothing, wrote it."""
        return frozenset(self.rules) if self.trust == "ours" and self.made is not None else frozenset()


@dataclass(frozen=True)
class Candidate:
    """Two sides that claim to compute the same problem. `problem` is None if unknown.

    `worth`: for each ablated technique, the fast side's time without it over its time with it, on an H200 or
    H100.
    """

    id: str
    family: str
    domain: str
    license: str | None
    origin: Origin
    techniques: tuple[str, ...]
    description: str
    problem: Problem | None
    slow: Side
    fast: Side
    worth: Mapping[str, float] = field(default_factory=dict)
