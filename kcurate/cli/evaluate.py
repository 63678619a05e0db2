"""`kcurate eval`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kcurate.cli.options import (
    DEFAULT_WORKSPACE,
    BackendOption,
    DatasetOption,
    GpuOption,
    JobsOption,
    JsonOption,
    PriceOption,
    WorkspaceOption,
    given_path,
)

if TYPE_CHECKING:
    from kcurate.train.evaluation.scores import Scores
    from kcurate.train.evaluation.stage import EvalConfig


def evaluate(
    step: Annotated[
        Literal["all", "generate", "judge", "score", "compare"],
        typer.Argument(help="Only this step; compare: two evaluations, paired by task.", show_default=False),
    ] = "all",
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER...]", help="judge, score: an evaluation; compare: two.", show_default=False
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="claude, claude-<version>, openai:<model>@<base-url>, or for transformers a Hub name or a "
            "folder.",
        ),
    ] = None,
    adapter: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A LoRA adapter of a model in this process.")
    ] = None,
    row: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the row of scores.  [default: the folder's]")
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=given_path, help="[default: runs/eval-<time> in the workspace]"),
    ] = None,
    tasks: Annotated[str, typer.Option(metavar="KIND", help="pairs, or kernelbench[:PATH].")] = "pairs",
    level: Annotated[int, typer.Option(min=1, max=3, metavar="N", help="KernelBench's level.")] = 1,
    protocol: Annotated[
        Literal["kcurate", "kernelbench"],
        typer.Option(help="kernelbench: answers are a ModelNew, judged by the checkout's own evaluator."),
    ] = "kcurate",
    dataset: DatasetOption = None,
    split: Annotated[
        Literal["held_out", "train", "all"] | None,
        typer.Option(
            help="Which tasks, as kcurate train splits them.  [default: held_out; kernelbench: all]"
        ),
    ] = None,
    held_out: Annotated[
        float, typer.Option(metavar="SHARE", help="The share of the tasks that is held out.")
    ] = 0.2,
    split_seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the split.")] = 42,
    untimed: Annotated[
        bool, typer.Option("--untimed", help="Also pairs that were never timed on a GPU.")
    ] = False,
    brief: Annotated[bool, typer.Option("--brief", help="Prompts with the short rules.")] = False,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="At most so many tasks; 0: all.")] = 0,
    samples: Annotated[int, typer.Option(min=1, metavar="N", help="Samples per task.")] = 8,
    turns: Annotated[
        int, typer.Option(min=1, metavar="N", help="Turns per sample, with feedback between them.")
    ] = 1,
    max_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="Longest answer.")] = 4096,
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="[default: the server's own; transformers: 1]")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(metavar="P", help="[default: the server's own; transformers: 1]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of transformers' sampling.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="compare: draw the differences (SVG).")
    ] = None,
    allow_taught: Annotated[
        bool, typer.Option("--allow-taught", help="Mark tasks that the adapter was taught; else refuse.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, metavar="N", help="Prompts at a time.")] = 64,
    sampling: Annotated[
        Literal["plain", "static", "continuous"],
        typer.Option(help="transformers: plain generate, a static cache, or continuous batching."),
    ] = "plain",
    merged: Annotated[
        bool, typer.Option("--merged", help="transformers: merge the adapter into the weights.")
    ] = False,
    concurrency: Annotated[
        int, typer.Option(min=1, max=256, metavar="N", help="Models: concurrent requests.")
    ] = 8,
    max_usd: Annotated[
        float | None, typer.Option(metavar="X", help="An API's budget; the command stops before it.")
    ] = None,
    price: PriceOption = None,
    reward: Annotated[
        str, typer.Option(metavar="NAME", help="A scheme, or MODULE:FUNCTION (docs/rewards.md).")
    ] = "pairs",
    backend: BackendOption = "auto",
    gpu: GpuOption = "auto",
    jobs: JobsOption = 0,
    json: JsonOption = False,
) -> None:
    """Score a model: generate completions, judge them, and summarise them (docs/evaluation.md).

    Example: kcurate eval --model openai:qwen3@http://localhost:8000/v1 --out runs/qwen3
    """
    from kcurate.core.runs import new_folder
    from kcurate.errors import InputError
    from kcurate.train.evaluation.folder import Evaluated
    from kcurate.train.evaluation.stage import STEPS, EvalConfig

    if step == "compare":
        return _compare(folders or [], plot, as_json=json)
    if plot is not None:
        raise InputError(
            "draws a comparison only", where="--plot", hint="kcurate eval compare A B --plot FILE"
        )
    folder = _folder(step, folders or [], out, model) or new_folder(workspace, "eval")
    evaluated = Evaluated(
        model=model or "",
        adapter=None if adapter is None else str(adapter),
        tasks=tasks,
        level=level,
        dataset=tuple(dataset or ("builtin",)),
        split=split,
        held_out=held_out,
        split_seed=split_seed,
        untimed=untimed,
        brief=brief,
        limit=limit,
        samples=samples,
        turns=turns,
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        allow_taught=allow_taught,
        sampling=sampling,
        merged=merged,
        protocol=protocol,
        reward=reward,
    )
    config = EvalConfig(
        folder=folder,
        evaluated=evaluated if step in ("all", "generate") else None,
        steps=STEPS if step == "all" else (step,),
        name=row,
        backend=backend,
        gpu=gpu,
        jobs=jobs,
        batch=batch_size,
        concurrency=concurrency,
        max_usd=max_usd,
        price=price,
        reward=reward,
    )
    return _run(config, as_json=json)


def _run(config: EvalConfig, *, as_json: bool) -> None:
    """Run the steps, and show what came of them."""
    from kcurate.cli import output
    from kcurate.core import codec
    from kcurate.train.evaluation.stage import run

    summary, made = run(config, note=output.note)
    output.note(f"evaluation: {config.folder}")
    output.report(summary, as_json=as_json, more={} if made is None else {"scores": codec.to_data(made)})
    if made is not None and not as_json:
        _show(made)


def _folder(step: str, given: list[Path], out: Path | None, model: str | None) -> Path | None:
    """The folder that the command names; None: a new one.

    Raises:
        InputError: two folders, none where one is needed, or no model where one is needed.
    """
    from kcurate.errors import InputError

    where = f"kcurate eval {step}"
    if len(given) + (out is not None) > 1:
        raise InputError("more than one folder", where=where, hint="name one")
    folder = given[0] if given else out
    if step in ("all", "generate"):
        if model is None:
            raise InputError("which model?", where=where, hint="--model NAME")
    elif folder is None:
        raise InputError("which evaluation?", where=where, hint="name its folder")
    return folder


def _show(made: Scores) -> None:
    """The numbers as a table: a line per number, a column per k."""
    from kcurate.cli import output

    ks = list(made.compiles)
    rows: list[list[str]] = []
    shares = {"compiles": made.compiles, "correct": made.correct}
    shares |= {f"faster than {p}x": found for p, found in made.fast.items() if p != "0"}
    for title, found in shares.items():
        rows.append([title, *(found[k].shown(".1%") for k in ks)])
    if made.best:
        rows.append(["speedup of the best", *(made.best[k].shown(".2f") for k in ks)])
    single = {"copied": made.copied.shown(".1%"), "reward": made.reward.shown()}
    if made.attained is not None:
        single["attained share"] = made.attained.shown(".1%")
    if made.median_speedup is not None:
        single["median speedup of correct ones"] = f"{made.median_speedup:.2f}"
    rows += [[title, text, *[""] * (len(ks) - 1)] for title, text in single.items()]
    what = f"{made.name}: {made.tasks} tasks of {made.families} families, {made.samples} samples each"
    output.table(f"\n{what}, {made.turns} turns", ("", *(f"any of {k}" for k in ks)), rows)
    costs = [f"{made.solved} tasks solved", f"{made.judge_s:.0f} s of judging"]
    costs += [f"{count:.0f} tokens {way} a completion" for way, count in made.tokens.items()]
    if made.usd is not None:
        costs.append(
            f"${made.usd:.2f}" + (f" (${made.usd / made.solved:.2f} a solved task)" if made.solved else "")
        )
    if made.gpu_s is not None:
        each = f" ({made.gpu_s / made.solved:.1f} a solved task)" if made.solved else ""
        costs.append(f"{made.gpu_s:.0f} GPU seconds{each}")
    if made.taught:
        costs.append(f"{made.taught} of these tasks were taught to the adapter")
    if made.compiles["1"].low is None:
        costs.append("no intervals below 10 families")
    print("; ".join(costs))


def _compare(folders: list[Path], plot: Path | None, *, as_json: bool) -> None:
    """Print the differences, and draw them into the file `plot`."""
    from kcurate.cli import ending, output
    from kcurate.core import codec, store
    from kcurate.errors import InputError
    from kcurate.train.evaluation.plot import svg
    from kcurate.train.evaluation.stage import run_compare

    if len(folders) != 2:
        raise InputError(f"{len(folders)} folders", where="kcurate eval compare", hint="name two")
    first, second = folders
    found = run_compare(first, second)
    if plot is not None:
        store.write_bytes(plot, svg(found, first.name, second.name).encode())
    if as_json:
        more: dict[str, Any] = {"comparison": codec.to_data(found)}
        return ending.listed("eval compare", (), more)
    rows = [
        (
            one.name,
            f"{one.first:.3f}",
            f"{one.second:.3f}",
            one.difference.shown(),
            "" if one.detectable is None else f"{one.detectable:.3f}",
        )
        for one in found.differences
    ]
    title = f"{second} less {first}: {found.tasks} tasks of {found.families} families in both"
    columns = ("", first.name, second.name, "difference", "detectable")
    output.table(f"{title}, {found.left_out} in one only", columns, rows)
    return None
