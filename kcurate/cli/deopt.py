"""`kcurate deopt`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kcurate.cli.failing import FailOnOption, split
from kcurate.cli.options import (
    DEFAULT_WORKSPACE,
    BackendOption,
    GpuOption,
    JobsOption,
    JsonOption,
    RayOption,
    WorkspaceOption,
    given_path,
)

if TYPE_CHECKING:
    from kcurate.deopt.models.run import ModelConfig
    from kcurate.records import Summary

# Options that apply only to models, and only to rules.
OF_MODELS = (
    "techniques", "variants", "rounds", "candidates", "idle_rounds", "policy", "max_usd", "price", "batch",
    "max_tokens", "concurrency", "dry_run", "ray",
)  # fmt: skip
OF_RULES = ("rules",)


def deopt(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH",
            help="Kernels or pairs: paths, ids, or unique prefixes of ids; source trees (extracted first); "
            "default: the workspace's kernels.",
            parser=given_path,
        ),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Who writes: rules, claude, claude-<version>, or openai:<model>@<base-url>."
        ),
    ] = "rules",
    rules: Annotated[
        list[str] | None,
        typer.Option("--rules", metavar="NAME", help="Only this rule; may be repeated.  [default: all]"),
    ] = None,
    techniques: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...",
            help="Models: the techniques to remove (or add).  [default: those that the code shows]",
        ),
    ] = None,
    variants: Annotated[int, typer.Option(min=1, metavar="N", help="Models: variants per technique.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, metavar="R", help="Models: attempts per variant.")] = 3,
    candidates: Annotated[
        int, typer.Option(min=1, metavar="K", help="For a fast side: answers asked for in a round.")
    ] = 1,
    idle_rounds: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Models, for a fast side: end after N rounds that gain less than 5%."
        ),
    ] = 2,
    direction: Annotated[
        Literal["slow", "fast", "translate"],
        typer.Option(
            help="Models: write the slow side for fast code, the fast side for slow code, or a fast side in "
            "the other language (CUDA, Triton)."
        ),
    ] = "slow",
    policy: Annotated[
        Literal["plain", "sqd"],
        typer.Option(help="Models: how to choose the next attempt; sqd works through techniques in stages."),
    ] = "plain",
    max_usd: Annotated[
        float | None, typer.Option(min=0, metavar="X", help="Models: spend at most this much in this run.")
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="IN,OUT", help="Models: price in USD per million tokens.  [default: the built-in table]"
        ),
    ] = None,
    batch: Annotated[
        bool,
        typer.Option("--batch", help="Claude: use the Batch API: half the price, slower."),
    ] = False,
    max_tokens: Annotated[
        int, typer.Option(min=256, metavar="N", help="Models: longest answer, thinking included.")
    ] = 16_000,
    concurrency: Annotated[
        int, typer.Option(min=1, max=256, metavar="N", help="Models: concurrent requests.")
    ] = 8,
    backend: BackendOption = "auto",
    gpu: GpuOption = "auto",
    jobs: JobsOption = 0,
    ray: RayOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the first prompts and what a run may cost; send nothing.")
    ] = False,
    fail_on: FailOnOption = None,
    json: JsonOption = False,
) -> None:
    """Write slow variants of fast kernels, each without one technique, by rules or by a model.

    Example: kcurate deopt -w work --rules unroll
    """
    from kcurate.backends.choice import choose
    from kcurate.cli import output

    if model == "rules":
        _refuse(context, OF_MODELS, "does not apply to rules", "choose a --model")
    else:
        _refuse(context, OF_RULES, "does not apply to models", "leave out --model, or give --techniques")
    if model == "rules":
        if (backend, gpu) != ("auto", "auto"):  # which asks the driver, and rules judge nothing
            choose(backend, gpu)
        roots = _extracted(paths or [], workspace, jobs)
        summary = _by_rules(roots, workspace, rules or [], direction, jobs)
        output.report(summary, as_json=json, fail_on=split(fail_on))
        return
    from kcurate.deopt.models.run import ModelConfig, run

    place = choose(backend, gpu, note=output.note, ray=ray)  # before anything is extracted
    config = ModelConfig(
        workspace=workspace,
        model=model,
        paths=_extracted(paths or [], workspace, jobs),
        techniques=tuple(techniques or ()),
        variants=variants,
        rounds=rounds,
        candidates=candidates,
        idle_rounds=idle_rounds,
        direction=direction,
        policy=policy,
        max_usd=max_usd,
        price=price,
        batch=batch,
        max_tokens=max_tokens,
        concurrency=concurrency,
        place=place,
        jobs=jobs,
        ray=ray,
    )
    if dry_run:
        _show_preview(config, as_json=json)
    else:
        failing = split(fail_on)
        run(config, note=output.note, report=lambda one: output.report(one, as_json=json, fail_on=failing))


def _refuse(context: typer.Context, names: Sequence[str], why: str, hint: str) -> None:
    """Refuse options without effect on the command line; as settings they may serve other runs."""
    from kcurate.errors import InputError

    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name in names and source is not None and source.name == "COMMANDLINE":
            raise InputError(why, where=option.opts[0], hint=hint)


def _by_rules(
    roots: tuple[Path, ...], workspace: Path, rules: list[str], direction: str, jobs: int
) -> Summary:
    from kcurate.core.worker_pool import warm_up
    from kcurate.errors import InputError

    if direction != "slow":
        raise InputError("rules only make code slower", where="--direction", hint="choose a --model")
    warm_up(jobs, ("kcurate.deopt.stage",))
    from kcurate.cli import output
    from kcurate.deopt.stage import DeoptConfig, run

    return run(DeoptConfig(workspace, roots, tuple(rules), jobs), note=output.note)


def _extracted(paths: list[Path], workspace: Path, jobs: int) -> tuple[Path, ...]:
    """The paths, with source trees replaced by the kernels extracted from them."""
    from kcurate.core import names
    from kcurate.core.workspace import Workspace

    kinds = (names.KERNEL, names.PAIR)
    paths = [names.some(str(path), Workspace(workspace), kinds) for path in paths]
    trees = [path for path in paths if not _has_records(path)]
    if not trees:
        return tuple(paths)
    from kcurate.cli import output
    from kcurate.extract.stage import ExtractConfig, run

    output.note(f"no kernels or pairs in {', '.join(map(str, trees))}: extracting first")
    run(ExtractConfig(paths=tuple(trees), workspace=workspace, jobs=jobs), note=output.note)
    return (*(path for path in paths if path not in trees), Workspace(workspace).kernels)


def _has_records(path: Path) -> bool:
    if path.is_file():
        return path.name in ("pair.json", "kernel.json")
    return any(next(path.rglob(name), None) is not None for name in ("pair.json", "kernel.json"))


def _show_preview(config: ModelConfig, *, as_json: bool) -> None:
    from kcurate.cli import ending, output
    from kcurate.deopt.models.preview import preview

    shown = list(preview(config))
    costs = [one for one in shown if one.likely_usd is not None and one.most_usd is not None]
    likely = sum(one.likely_usd or 0.0 for one in costs if not one.on_file)
    most = sum(one.most_usd or 0.0 for one in costs)
    if as_json:
        prompts = [{"goal": one.label, "on_file": one.on_file, **vars(one.request.prompt)} for one in shown]
        known = bool(costs)
        cost = {"likely_usd": likely if known else None, "most_usd": most if known else None}
        ending.listed("deopt", (), {"prompts": prompts, **cost}, str(config.workspace))
        return
    for one in shown:
        prompt = one.request.prompt
        print(f"===== {one.label}{' (already answered)' if one.on_file else ''}")
        print(f"{prompt.system}\n{prompt.context}\n{prompt.task}")
    total = f"{len(shown)} searches, {sum(one.on_file for one in shown)} first answers already saved"
    if not shown:
        total = "nothing to ask: no kernel has both a known problem and a technique to remove"
    elif costs:
        total += f"; the first round costs about ${likely:.2f}, the whole run at most ${most:.2f}"
    else:
        total += "; price unknown (set --price IN,OUT)"
    output.note(total)
