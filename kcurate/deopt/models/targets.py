"""Goals of searches: a kernel to start from, a technique to remove or add, and the number of the variant.

Turns a start into the material of a prompt. Not covered: reading the side from an answer
(`kcurate.problem.answered`), refusing answers (`gates`), prompt wording (`kcurate.prompts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kcurate.core import store
from kcurate.cuda_source import techniques
from kcurate.deopt.starts import Start
from kcurate.errors import OptionError
from kcurate.problem import shown
from kcurate.problem.techniques import LADDER_FAST, vocabulary
from kcurate.prompts import Material, Technique
from kcurate.records import Candidate, Language, Problem, Side, SideName, other_side


@dataclass(frozen=True)
class Target:
    """The goal of a search. `ladder`: its techniques in the order of the stages (`plain`: at most one).

    `given` is the existing side, `made` the name of the side to write, `wants` its language; `variant` counts
    from 1.
    """

    start: Start
    given: Side
    problem: Problem
    made: SideName
    ladder: tuple[Technique, ...]
    variant: int = 1
    wants: Language = "cuda"

    @property
    def label(self) -> str:
        """A short name for the goal."""
        names = "+".join(technique.name for technique in self.ladder) or "plain"
        return f"{self.start.id} {names} {self.variant}"

    def material(self, gpu: str = "") -> Material:
        """The material of the prompts, with comments removed as in published code; `gpu`: its description."""
        start = self.start
        return shown.material_of(self.problem, self.given, self.made, start.family, gpu, self.wants)

    def key(self) -> str:
        """The hash of the start and the request."""
        names = ",".join(technique.name for technique in self.ladder)
        suffix = () if self.wants == "cuda" else (self.wants,)
        return store.content_id(
            "target", self.start.content_id(), self.made, names, str(self.variant), *suffix
        )

    def candidate(self, name: str, side: Side, model: str, technique: Technique | None) -> Candidate:
        """The pair of the given side and an answer."""
        start, given_side = self.start, self.given
        sides = (side, given_side) if self.made == "slow" else (given_side, side)
        is_cuda = all(side.language == "cuda" for side in sides)
        shown_in = [set(techniques(side.code.encode())) for side in sides] if is_cuda else [set(), set()]
        gained = shown_in[1] - shown_in[0]
        labels = {technique.name} if technique else gained
        about = f"without {technique.name}" if technique and self.made == "slow" else ""
        about = f"with {technique.name}" if technique and self.made == "fast" else about
        return Candidate(
            id=f"{start.id}/{name}",
            family=start.family,
            domain=start.domain,
            license=start.license,
            origin=replace(start.origin, kind="model", made=self.made, model=model, rules=()),
            techniques=tuple(sorted(labels)),
            description=f"The {other_side(self.made)} side is {start.id}; the {self.made} side was written "
            f"from it {about}".rstrip()
            + ".",
            problem=self.problem,
            slow=sides[0],
            fast=sides[1],
        )


def chosen_techniques(names: Sequence[str]) -> tuple[Technique, ...]:
    """The techniques in `--techniques`; names may also be separated by commas.

    Raises:
        InputError: a technique is unknown.
    """
    known = vocabulary()
    names_in_order = dict.fromkeys(part.strip() for name in names for part in name.split(",") if part.strip())
    for name in names_in_order:
        if name not in known:
            raise OptionError(f"unknown technique {name!r}", where="--techniques", hint=", ".join(known))
    return tuple(known[name] for name in names_in_order)


def targets(
    start: Start,
    written: SideName,
    requested: Sequence[Technique],
    variants: int,
    *,
    ladders: bool,
    language: Language = "cuda",
) -> list[Target]:
    """The goals of a start: one per technique and variant, or with `ladders` one ladder per variant.

    If no techniques are `requested`, a slow side gets those named for the start, or else those detected in
    the code, plus once a naive side without any (in ladders only if none is detected). A fast side gets the
    usual ladder, or without `ladders` no technique.
    """
    if start.problem is None:
        return []
    given_side, known = start.given, vocabulary()
    naive = not requested and written == "slow"
    if naive:
        names = [name for name in start.techniques if name in known] or techniques(given_side.code.encode())
        requested = [known[name] for name in names if name in known]
    elif not requested and ladders:
        requested = [known[name] for name in LADDER_FAST]
    steps: list[tuple[Technique, ...]] = [(technique,) for technique in requested] or [()]
    if ladders:
        steps = [tuple(requested)]
    targets = [
        Target(start, given_side, start.problem, written, step, variant, language)
        for step in steps
        for variant in range(1, variants + 1)
    ]
    adds_naive = naive and not ladders and () not in steps
    return [*targets, Target(start, given_side, start.problem, written, ())] if adds_naive else targets
