"""`kcurate eval`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from kcurate.cli import ending, output
from kcurate.core.options import Argument, JsonOption, Option
from kcurate.errors import OptionError
from kcurate.evaluation.settings import STEPS, EvalConfig, Evaluated

if TYPE_CHECKING:
    from kcurate.evaluation.scores import Scores


def evaluate(
    evaluated: Evaluated,
    config: EvalConfig,
    step: Annotated[
        Literal["all", "generate", "judge", "score", "compare"],
        Argument("Only this step; compare: two evaluations, paired by task."),
    ] = "all",
    folders: Annotated[
        tuple[Path, ...], Argument("judge, score: an evaluation; compare: two.", metavar="[FOLDER...]")
    ] = (),
    plot: Annotated[Path | None, Option("compare: draw the differences (SVG).", metavar="FILE")] = None,
    json: JsonOption = False,
) -> None:
    """Score a model: generate completions, judge them, and summarise them (docs/evaluation.md).

    Example: kcurate eval --model openai:qwen3@http://localhost:8000/v1 --out runs/qwen3
    """
    if step == "compare":
        return _compare(folders, plot, as_json=json)
    if plot is not None:
        raise OptionError(
            "draws a comparison only", where="--plot", hint="kcurate eval compare A B --plot FILE"
        )
    config = replace(
        config,
        folder=_folder(step, folders, config.folder, evaluated.model),
        evaluated=evaluated if step in ("all", "generate") else None,
        steps=STEPS if step == "all" else (step,),
        reward=evaluated.reward,
    )
    return _run(config, as_json=json)


def _run(config: EvalConfig, *, as_json: bool) -> None:
    """Run the steps, and show the results."""
    from kcurate.core import codec
    from kcurate.evaluation.stage import run

    summary, scores = run(config, note=output.note)
    output.report(summary, as_json=as_json, more={} if scores is None else {"scores": codec.to_data(scores)})
    if scores is not None and not as_json:
        _show(scores)


def _folder(step: str, folders: Sequence[Path], out: Path | None, model: str) -> Path | None:
    """The folder that the command names; None: a new one.

    Raises:
        OptionError: two folders, none where one is needed, or no model where one is needed.
    """
    where = f"kcurate eval {step}"
    if len(folders) + (out is not None) > 1:
        raise OptionError("more than one folder", where=where, hint="name one")
    folder = folders[0] if folders else out
    if step in ("all", "generate"):
        if not model:
            raise OptionError("which model?", where=where, hint="--model NAME")
    elif folder is None:
        raise OptionError("which evaluation?", where=where, hint="name its folder")
    return folder


def _show(scores: Scores) -> None:
    """Print the scores as a table: a line per score, a column per k."""
    ks = list(scores.compiles)
    rows: list[list[str]] = []
    shares = {"compiles": scores.compiles, "correct": scores.correct}
    shares |= {f"faster than {p}x": share for p, share in scores.fast.items() if p != "0"}
    for title, share in shares.items():
        rows.append([title, *(share[k].shown(".1%") for k in ks)])
    if scores.best:
        rows.append(["speedup of the best", *(scores.best[k].shown(".2f") for k in ks)])
    single = {"copied": scores.copied.shown(".1%"), "reward": scores.reward.shown()}
    if scores.attained is not None:
        single["attained share"] = scores.attained.shown(".1%")
    if scores.median_speedup is not None:
        single["median speedup of correct ones"] = f"{scores.median_speedup:.2f}"
    rows += [[title, text, *[""] * (len(ks) - 1)] for title, text in single.items()]
    what = f"{scores.name}: {scores.tasks} tasks of {scores.families} families, {scores.samples} samples each"
    output.table(f"\n{what}, {scores.turns} turns", ("", *(f"any of {k}" for k in ks)), rows)
    costs = [f"{scores.solved} tasks solved", f"{scores.judge_s:.0f} s of judging"]
    costs += [f"{count:.0f} tokens {way} a completion" for way, count in scores.tokens.items()]
    if scores.usd is not None:
        costs.append(
            f"${scores.usd:.2f}"
            + (f" (${scores.usd / scores.solved:.2f} a solved task)" if scores.solved else "")
        )
    if scores.gpu_s is not None:
        each = f" ({scores.gpu_s / scores.solved:.1f} a solved task)" if scores.solved else ""
        costs.append(f"{scores.gpu_s:.0f} GPU seconds{each}")
    if scores.taught:
        costs.append(f"{scores.taught} of these tasks were taught to the adapter")
    if scores.compiles["1"].low is None:
        costs.append("no intervals below 10 families")
    print("; ".join(costs))


def _compare(folders: Sequence[Path], plot: Path | None, *, as_json: bool) -> None:
    """Print the differences, and draw them into the file `plot`."""
    from kcurate.core import codec, store
    from kcurate.evaluation.comparing import svg
    from kcurate.evaluation.stage import run_compare

    if len(folders) != 2:
        raise OptionError(f"{len(folders)} folders", where="kcurate eval compare", hint="name two")
    first, second = folders
    comparison = run_compare(first, second)
    if plot is not None:
        store.write_bytes(plot, svg(comparison, first.name, second.name).encode())
    if as_json:
        more: dict[str, Any] = {"comparison": codec.to_data(comparison)}
        return ending.listed("eval compare", (), more)
    rows = [
        (
            metric.name,
            f"{metric.first:.3f}",
            f"{metric.second:.3f}",
            metric.difference.shown(),
            "" if metric.detectable is None else f"{metric.detectable:.3f}",
        )
        for metric in comparison.differences
    ]
    title = f"{second} less {first}: {comparison.tasks} tasks of {comparison.families} families in both"
    columns = ("", first.name, second.name, "difference", "detectable")
    output.table(f"{title}, {comparison.left_out} in one only", columns, rows)
    return None
