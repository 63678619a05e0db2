"""The folder of an evaluation.

eval.json            the settings: model, tasks, sampling; read by the later steps
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
from typing import Any

from kcurate.core import codec, store
from kcurate.core.workspace import Inside
from kcurate.errors import InputError, OptionError
from kcurate.evaluation import completions
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.settings import Evaluated
from kcurate.reward import own_reward
from kcurate.reward.schemes import OURS, STANDINGS
from kcurate.reward.splits import check_held_out


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

    def write_about(self, evaluated: Evaluated, **facts: Any) -> None:
        """Write `eval.json`; `found`: what a later step learned."""
        from kcurate import __version__

        data = {"kcurate": __version__, "evaluated": asdict(evaluated), **facts}
        store.write_bytes(self.about, store.pretty_json(data))


def check(evaluated: Evaluated) -> None:
    """Refuse settings that cannot be evaluated.

    Raises:
        InputError: such as no such tasks, or a number out of range.
    """
    own_reward.chosen(evaluated.reward, {})
    check_held_out(evaluated.held_out)
    kind, _, path = evaluated.tasks.partition(":")
    if kind not in ("pairs", "kernelbench") or (kind == "pairs" and path):
        what, hint = f"no tasks {evaluated.tasks!r}", "pairs or kernelbench[:PATH]"
        raise OptionError(what, where="--tasks", hint=hint)
    if evaluated.protocol == "kernelbench":
        _check_protocol(evaluated, kind, path)
    if evaluated.temperature is not None and not 0 < evaluated.temperature < math.inf:
        raise OptionError(f"not a finite number above 0: {evaluated.temperature}", where="--temperature")
    if evaluated.top_p is not None and not 0 < evaluated.top_p <= 1:
        raise OptionError(f"not above 0 and at most 1: {evaluated.top_p}", where="--top-p")


def _check_protocol(evaluated: Evaluated, kind: str, path: str) -> None:
    """Refuse what KernelBench's own protocol does not have."""
    where = "--protocol kernelbench"
    if kind != "kernelbench":
        raise InputError("is for KernelBench's tasks", where=where, hint="--tasks kernelbench:PATH")
    if evaluated.turns != 1:
        raise InputError("has one turn", where=where, hint="leave out --turns")
    if evaluated.model == "claude" or evaluated.model.startswith("claude-"):
        hint = f"--model openai:{evaluated.model}@URL, a server of chat completions"
        raise InputError("asks for a Python file as text, and Claude is given a tool", where=where, hint=hint)
    from kcurate.evaluation import kernelbench_protocol

    kernelbench_protocol.checkout(path)
