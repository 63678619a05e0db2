"""What is asked for: from a kernel, without (or with) a technique, one of so many variants.

Owns how a start becomes a prompt's material, and an answer a side. Not covered: which answers are refused
(`gates`), the wording (`kcurate.prompts`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kcurate import codec, prompts, resources, store
from kcurate.cuda_source import features, techniques
from kcurate.deopt.starts import Start
from kcurate.errors import InputError, RecordError
from kcurate.problem import shown
from kcurate.prompts import Answer, Material, Technique
from kcurate.records import Buffer, Candidate, Problem, Side, SideName

# Nothing honest needs a longer or deeper plan (a loop in a loop has depth 9).
MAX_PLAN_CHARS = 20_000
MAX_PLAN_DEPTH = 24
# The longest kernel with all that it needs in Rodinia and Parboil has 50 KB, the longest statement 8 KB.
MAX_CODE_BYTES = 64 * 1024
MAX_STATEMENT_CHARS = 12_000
MAX_SHARED_IN_A_STATEMENT = 20
# A model that has lost its way says the same for ever: of so many tokens, few runs of five are new.
MANY_TOKENS = 4000
FEWEST_NEW = 0.02
# What a naive kernel may gain, in the order in which people try it.
LADDER_FAST = (
    "coalesced-access",
    "shared-memory-tiling",
    "register-blocking",
    "vectorized-access",
    "loop-unrolling",
)


@dataclass(frozen=True)
class Target:
    """One search's goal. `ladder` are the techniques in the order of their stages (plain: one or none).

    `given` is the side that is there, `made` the name of the one to write; `variant` counts from 1.
    """

    start: Start
    given: Side
    problem: Problem
    made: SideName
    ladder: tuple[Technique, ...]
    variant: int = 1

    @property
    def label(self) -> str:
        """A short name of the goal."""
        names = "+".join(technique.name for technique in self.ladder) or "plain"
        return f"{self.start.id} {names} {self.variant}"

    def material(self) -> Material:
        """What the prompts show of it; comments are gone, as in published code."""
        return shown.material_of(self.problem, self.given, self.made, self.start.family)

    def key(self) -> str:
        """The content hash of what is given and what is asked for."""
        names = ",".join(technique.name for technique in self.ladder)
        return store.content_id("target", self.start.content_id(), self.made, names, str(self.variant))

    def candidate(self, name: str, side: Side, model: str, technique: Technique | None) -> Candidate:
        """The pair that an answer makes with the given side."""
        start, given = self.start, self.given
        sides = (side, given) if self.made == "slow" else (given, side)
        gained = set(techniques(sides[1].code.encode())) - set(techniques(sides[0].code.encode()))
        named = {technique.name} if technique else gained
        about = f"without {technique.name}" if technique and self.made == "slow" else ""
        about = f"with {technique.name}" if technique and self.made == "fast" else about
        return Candidate(
            id=f"{start.id}/{name}",
            family=start.family,
            domain=start.domain,
            license=start.license,
            origin=replace(start.origin, kind="model", made=self.made, model=model, rules=()),
            techniques=tuple(sorted(named)),
            description=f"The {_other(self.made)} side is {start.id}; the {self.made} one was written "
            f"from it {about}".rstrip()
            + ".",
            problem=self.problem,
            slow=sides[0],
            fast=sides[1],
        )


def _other(side: SideName) -> SideName:
    return "fast" if side == "slow" else "slow"


@cache
def vocabulary() -> Mapping[str, Technique]:
    """Every technique of `schemas/techniques.json` by name."""
    document = json.loads((resources.schemas_dir() / "techniques.json").read_bytes())
    return {entry["const"]: Technique(entry["const"], entry["description"]) for entry in document["oneOf"]}


def chosen_techniques(names: Sequence[str]) -> tuple[Technique, ...]:
    """The techniques that `--techniques` names; names may also be joined by commas.

    Raises:
        InputError: there is no such technique.
    """
    known = vocabulary()
    wanted = dict.fromkeys(part.strip() for name in names for part in name.split(",") if part.strip())
    for name in wanted:
        if name not in known:
            raise InputError(f"there is no technique {name!r}", where="--techniques", hint=", ".join(known))
    return tuple(known[name] for name in wanted)


def targets(
    start: Start, made: SideName, wanted: Sequence[Technique], variants: int, *, ladders: bool
) -> list[Target]:
    """The goals that a start has: one a technique and variant, or with `ladders` one ladder a variant.

    None wanted: for the slow side those that the start is known for, or else its code shows (there may be
    none: then nothing is asked); for a fast side in stages a usual order, else a side written freely.
    """
    if start.problem is None:
        return []
    given, known = start.given, vocabulary()
    if not wanted and made == "slow":
        names = [name for name in start.techniques if name in known] or techniques(given.code.encode())
        wanted = [known[name] for name in names if name in known]
        if not wanted:
            return []
    elif not wanted and ladders:
        wanted = [known[name] for name in LADDER_FAST]
    steps: list[tuple[Technique, ...]] = [(technique,) for technique in wanted] or [()]
    if ladders:
        steps = [tuple(wanted)]
    return [
        Target(start, given, start.problem, made, step, variant)
        for step in steps
        for variant in range(1, variants + 1)
    ]


def side_of(answer: Answer, target: Target) -> Side | str:
    """The side that an answer makes, its comments gone; or why it makes none.

    Buffers of its own are scratch and nothing else: a model gives no inputs, and names no files.
    """
    if (lost := _lost(answer.code)) is not None:
        return lost
    try:
        code = shown.shown_code(answer.code.encode().decode())
        made = replace(target.given, code=code, nondeterministic=_loose(code, target))
        if answer.plan is None:
            return "buffers without a plan" if answer.buffers else made
        text = json.dumps(answer.plan)
        if len(text) > MAX_PLAN_CHARS:
            return "the plan is too long"
        if _depth(answer.plan) > MAX_PLAN_DEPTH:
            return "the plan nests too deep"
        own = {name: _scratch(name, data, target) for name, data in (answer.buffers or {}).items()}
        kept = {name: buffer for name, buffer in target.given.buffers.items() if f'"{name}"' in text}
        data = {"code": code, "plan": list(answer.plan)}
        return replace(made, plan=codec.from_data(Side, data).plan, buffers={**kept, **own})
    except UnicodeError:
        return "the code is not text"
    except RecursionError:
        return "the plan nests too deep"
    except RecordError as error:
        return error.what


def _lost(code: str) -> str | None:
    """Why code is not worth reading: too long, or going round in circles."""
    if len(code) > MAX_CODE_BYTES:
        return "the code is too long"
    for part in re.split(r"[;{}]", code):
        if len(part) > MAX_STATEMENT_CHARS or part.count("__shared__") > MAX_SHARED_IN_A_STATEMENT:
            return "a statement is too long"
    tokens = re.findall(r"\w+|\S", code)
    runs = set(zip(*(tokens[i:] for i in range(5)), strict=False))
    if len(tokens) > MANY_TOKENS and len(runs) < FEWEST_NEW * len(tokens):
        return "the code repeats itself"
    return None


def _depth(data: object) -> int:
    """How deep lists and objects nest."""
    deepest, waiting = 0, [(data, 1)]
    while waiting:
        item, depth = waiting.pop()
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list | tuple) else ()
        deepest = max(deepest, depth)
        waiting += [(one, depth + 1) for one in inner]
    return deepest


def _scratch(name: str, data: Any, target: Target) -> Buffer:
    if name in target.problem.buffers or name in target.problem.scalars:
        raise RecordError(f"the problem has a {name} already")
    if not isinstance(data, dict) or set(data) - {"role"} != {"dtype", "shape"}:
        raise RecordError(f"the buffer {name} needs dtype and shape, and nothing else")
    if data.get("role", "scratch") != "scratch":
        raise RecordError(f"the buffer {name} can only be scratch")
    return codec.from_data(Buffer, data | {"role": "scratch"})


def _loose(code: str, target: Target) -> tuple[str, ...]:
    """Outputs whose rounding may differ from run to run: floating-point ones, where the code has atomics."""
    if "atomics" not in features(code.encode()):
        return ()
    return tuple(
        name
        for name, buffer in target.problem.buffers.items()
        if buffer.role in ("out", "inout") and "float" in buffer.dtype
    )


def earlier(side: Side, target: Target, findings: str) -> prompts.Earlier:
    """An answer given before, as a prompt shows it."""
    plan = None if side.plan == target.given.plan else shown.shown_launch(side)
    return prompts.Earlier(side.code, plan, findings)
