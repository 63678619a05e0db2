"""The folder of an evaluation, and what is evaluated there.

eval.json            what is evaluated: model, tasks, sampling; read by the later steps
completions.parquet  what the model returned
judged.parquet       the same with what the judge found
scores.json          the numbers
transcripts/         the exchanges with an API, so that none is paid for twice
verdicts.jsonl       the judges' verdicts, so that nothing is judged twice
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from kcurate.core import codec, store
from kcurate.core.workspace import Inside
from kcurate.errors import InputError
from kcurate.train.evaluation import completions
from kcurate.train.evaluation.completions import Completion
from kcurate.train.reward import own_reward
from kcurate.train.reward.schemes import OURS, STANDINGS
from kcurate.train.task import check_held_out

Split = Literal["held_out", "train", "all"]


@dataclass(frozen=True)
class Evaluated:
    """What is evaluated: `eval.json`.

    `model`: as `kcurate deopt` names those behind an API, else as `kcurate train` names them. `split` None:
    held_out for pairs, all for KernelBench. `samples`: per task. `temperature`, `top_p` None: the server's
    own, or 1. `gpu`: what prompts name; None: the GPU of each pair's verdict. `allow_taught`: tasks of
    families that the adapter was taught are marked instead of refused. `sampling`, `merged`: of a model in
    this process, as `train.settings.ModelSettings` has them. `protocol`: kernelbench judges `ModelNew` by
    KernelBench's own evaluator.
    """

    model: str
    adapter: str | None = None
    tasks: str = "pairs"
    level: int = 1
    dataset: tuple[str, ...] = ("builtin",)
    split: Split | None = None
    held_out: float = 0.2
    split_seed: int = 42
    untimed: bool = False
    brief: bool = False
    limit: int = 0
    samples: int = 8
    turns: int = 1
    max_tokens: int = 4096
    temperature: float | None = None
    top_p: float | None = None
    seed: int = 0
    reward: str = "pairs"
    gpu: str | None = None
    allow_taught: bool = False
    sampling: Literal["plain", "static", "continuous"] = "plain"
    merged: bool = False
    protocol: Literal["kcurate", "kernelbench"] = "kcurate"


@dataclass(frozen=True)
class EvalFolder:
    """Paths of an evaluation; creating the object touches nothing."""

    root: Path

    about = Inside("eval.json")
    completions = Inside("completions.parquet")
    judged = Inside("judged.parquet")
    scores = Inside("scores.json")
    transcripts = Inside("transcripts")
    verdicts = Inside("verdicts.jsonl")

    def read_judged(self) -> list[Completion]:
        """The judged completions.

        Raises:
            InputError: there are none, or one has no outcome.
        """
        hint = f"run kcurate eval judge {self.root}"
        rows = completions.read(self.judged, hint=hint)
        for row in rows:
            if row.outcome not in STANDINGS and row.outcome != OURS:
                what = f"{row.task}: no outcome {row.outcome!r}"
                raise InputError(what, where=str(self.judged), hint=f"delete it and {hint}")
        return rows

    def read_about(self) -> Mapping[str, Any]:
        """`eval.json`.

        Raises:
            InputError: there is none, or it is not one.
        """
        try:
            data: Mapping[str, Any] = json.loads(self.about.read_bytes())
            codec.from_data(Evaluated, data["evaluated"], where=str(self.about))
            return data
        except FileNotFoundError as error:
            hint = "run kcurate eval generate first"
            raise InputError("no evaluation here", where=str(self.root), hint=hint) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError("not an evaluation", where=str(self.about), hint="choose a new --out") from error

    def write_about(self, evaluated: Evaluated, **found: Any) -> None:
        """Write `eval.json`; `found`: what a later step learned."""
        from kcurate import __version__

        data = {"kcurate": __version__, "evaluated": asdict(evaluated), **found}
        store.write_bytes(self.about, store.pretty_json(data))


def check(given: Evaluated) -> None:
    """Refuse settings that cannot be evaluated.

    Raises:
        InputError: such as no such tasks, or a number out of range.
    """
    own_reward.chosen(given.reward, {})
    check_held_out(given.held_out)
    kind, _, path = given.tasks.partition(":")
    if kind not in ("pairs", "kernelbench") or (kind == "pairs" and path):
        raise InputError(f"no tasks {given.tasks!r}", where="--tasks", hint="pairs or kernelbench[:PATH]")
    if given.protocol == "kernelbench":
        _check_protocol(given, kind, path)
    if given.temperature is not None and not 0 < given.temperature < math.inf:
        raise InputError(f"not a finite number above 0: {given.temperature}", where="--temperature")
    if given.top_p is not None and not 0 < given.top_p <= 1:
        raise InputError(f"not above 0 and at most 1: {given.top_p}", where="--top-p")


def _check_protocol(given: Evaluated, kind: str, path: str) -> None:
    """Refuse what KernelBench's own protocol does not have."""
    where = "--protocol kernelbench"
    if kind != "kernelbench":
        raise InputError("is for KernelBench's tasks", where=where, hint="--tasks kernelbench:PATH")
    if given.turns != 1:
        raise InputError("has one turn", where=where, hint="leave out --turns")
    if given.model == "claude" or given.model.startswith("claude-"):
        hint = f"--model openai:{given.model}@URL, a server of chat completions"
        raise InputError("asks for a Python file as text, and Claude is given a tool", where=where, hint=hint)
    from kcurate.train.kernelbench import protocol

    protocol.checkout(path)
