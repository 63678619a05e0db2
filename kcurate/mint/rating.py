"""`kcurate mint rate`: how often a model solves minted problems, as lines of `rates.jsonl`.

`kcurate.evaluation` samples and judges; a sample passes if it is correct and no copy of the given code.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from kcurate.core import codec, store
from kcurate.core.notes import Note, silent
from kcurate.core.workspace import Workspace
from kcurate.errors import OptionError
from kcurate.evaluation import scores, stage
from kcurate.evaluation.folder import EvalFolder
from kcurate.evaluation.settings import EvalConfig, Evaluated
from kcurate.mint.settings import MintConfig, RatingConfig
from kcurate.records import Summary

RATES = "rates.jsonl"
FASTER = 1.05  # `faster` counts samples with a larger confirmed speedup


def rate(config: MintConfig, rating: RatingConfig, *, note: Note = silent) -> Summary:
    """Sample the model, judge its answers, and replace its earlier rates.

    The same call again resumes an interrupted run.

    Raises:
        OptionError: no model. InputError: no minted problem. Others as in `kcurate.evaluation.stage.run`.
    """
    if not rating.model:
        raise OptionError("which model?", where="kcurate mint rate", hint="--model NAME")
    workspace = Workspace(config.workspace)
    evaluated = Evaluated(
        rating.model,
        tasks="minted",
        dataset=(str(config.workspace),),
        limit=rating.limit,
        samples=rating.samples,
    )
    digest = hashlib.sha256(codec.canonical_json(codec.to_data(evaluated))).hexdigest()
    folder = EvalFolder(config.workspace / "runs" / f"rate-{digest[:12]}")
    summary, _ = stage.run(
        EvalConfig(
            folder.root,
            evaluated,
            workspace=config.workspace,
            max_usd=rating.max_usd,
            price=rating.price,
            timeout_s=rating.timeout_s,
            backend="auto" if config.gpu is None else "cuda",
            gpu=config.gpu or "auto",
            jobs=config.jobs,
        ),
        note=note,
    )
    about = folder.read_about()
    lines = {(line["candidate"], line["model"]): line for line in read(workspace)}
    for group in scores.grouped(folder.read_judged()):
        lines[group.task, rating.model] = {
            "candidate": group.task,
            "model": rating.model,
            "samples": len(group.samples),
            "compile": sum(sample.compiles for sample in group.samples),
            "pass": sum(sample.correct for sample in group.samples),
            "faster": sum(sample.faster_than(FASTER) for sample in group.samples) if about["timed"] else None,
            "device": about["device"],
        }
    text = "".join(json.dumps(line) + "\n" for _, line in sorted(lines.items()))
    store.write_bytes(workspace.root / RATES, text.encode())
    note(f"rates of {rating.model}: {workspace.root / RATES}")
    return summary


def read(workspace: Workspace) -> list[dict[str, Any]]:
    """The rates of a workspace, one for each problem and model."""
    path = workspace.root / RATES
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
