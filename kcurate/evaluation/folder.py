"""The folder of an evaluation.

eval.json            the settings: model, tasks, sampling; read by the later steps completions.parquet  the
model's completions judged.parquet       the same with the judge's findings scores.json          the scores
transcripts/         the exchanges with an API, so that none is paid twice verdicts.jsonl       the judges'
verdicts, so that nothing is judged twice
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
                why = f"{row.task}: no outcome {row.outcome!r}"
                raise InputError(why, where=str(self.judged), hint=f"delete it and {hint}")
        return rows

    def read_about(self) -> Mapping[str, Any]:
        """`eval.json`.

        Raises:
            InputError: it is missing, or not written by `kcurate eval`.
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
        """Write `eval.json`; `facts`: added by a later step, such as the device that judged."""
        from kcurate import __version__

        data = {"kcurate": __version__, "evaluated": asdict(evaluated), **facts}
        store.write_bytes(self.about, store.pretty_json(data))


def check(evaluated: Evaluated) -> None:
    """Refuse settings that cannot be evaluated.

    Raises:
        InputError: for example unknown tasks, or a number out of range.
    """
    own_reward.chosen(evaluated.reward, {})
    check_held_out(evaluated.held_out)
    source, _, path = evaluated.tasks.partition(":")
    if source not in ("pairs", "minted", "kernelbench") or (source != "kernelbench" and path):
        what, hint = f"no tasks {evaluated.tasks!r}", "pairs, minted or kernelbench[:PATH]"
        raise OptionError(what, where="--tasks", hint=hint)
    if evaluated.tool_calls and (not evaluated.of_claude or evaluated.protocol != "kcurate"):
        what = "only Claude has tools, and not in KernelBench's protocol"
        raise OptionError(what, where="--tool-calls", hint="leave it out")
    if evaluated.protocol == "kernelbench":
        _check_protocol(evaluated, source, path)
    if evaluated.temperature is not None and not 0 < evaluated.temperature < math.inf:
        raise OptionError(f"not a finite number above 0: {evaluated.temperature}", where="--temperature")
    if evaluated.top_p is not None and not 0 < evaluated.top_p <= 1:
        raise OptionError(f"not above 0 and at most 1: {evaluated.top_p}", where="--top-p")


def _check_protocol(evaluated: Evaluated, source: str, path: str) -> None:
    """Refuse settings that KernelBench's own protocol does not support."""
    where = "--protocol kernelbench"
    if source != "kernelbench":
        raise OptionError("is for KernelBench's tasks", where=where, hint="--tasks kernelbench:PATH")
    if evaluated.turns != 1:
        raise OptionError("has one turn", where=where, hint="leave out --turns")
    from kcurate.evaluation import kernelbench_protocol

    kernelbench_protocol.checkout(path)
