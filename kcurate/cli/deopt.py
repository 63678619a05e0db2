"""`kcurate deopt`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcurate.backends.choice import choose
from kcurate.cli import ending, failing, output
from kcurate.cli.failing import FailOnOption
from kcurate.cli.signatures import declared
from kcurate.core.options import BackendOption, GpuOption, JsonOption, Option
from kcurate.deopt.settings import BY_RULES, RULES_OPTIONS, DeoptConfig
from kcurate.errors import OptionError

if TYPE_CHECKING:
    from kcurate.records import Summary

OF_MODELS = frozenset(name for name, _, _ in declared(DeoptConfig)) - RULES_OPTIONS | {"dry_run"}


def deopt(
    context: typer.Context,
    config: DeoptConfig,
    backend: BackendOption = "auto",
    gpu: GpuOption = "auto",
    dry_run: Annotated[
        bool, Option("Print the first prompts and what a run may cost; send nothing.")
    ] = False,
    fail_on: FailOnOption = None,
    json: JsonOption = False,
) -> None:
    """Write slow variants of fast kernels, each without one technique, by rules or by a model.

    Example: kcurate deopt -w work --rules unroll
    """
    fails = failing.split(fail_on)
    if config.model == BY_RULES:
        _refuse(context, OF_MODELS, "does not apply to rules", "choose a --model")
        if (backend, gpu) != ("auto", "auto"):  # which asks the driver, and rules judge nothing
            choose(backend, gpu)
        output.report(_by_rules(_extracted(config)), as_json=json, fail_on=fails)
        return
    _refuse(context, {"rules"}, "does not apply to models", "leave out --model, or give --techniques")
    from kcurate.deopt.models.run import run

    place = choose(backend, gpu, note=output.note, ray=config.ray)  # before anything is extracted
    config = replace(_extracted(config), place=place)
    if dry_run:
        _show_preview(config, as_json=json)
    else:
        summary = run(config, note=output.note, report=lambda summary: output.show(summary, as_json=json))
        failing.check(summary, fails)


def _refuse(context: typer.Context, names: Collection[str], why: str, hint: str) -> None:
    """Refuse options without effect on the command line; as settings they may serve other runs."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name in names and source is not None and source.name == "COMMANDLINE":
            raise OptionError(why, where=option.opts[0], hint=hint)


def _by_rules(config: DeoptConfig) -> Summary:
    from kcurate.core.worker_pool import warm_up

    if config.direction != "slow":
        raise OptionError("rules only make code slower", where="--direction", hint="choose a --model")
    warm_up(config.jobs, ("kcurate.deopt.stage",))
    from kcurate.deopt.stage import run

    return run(config, note=output.note)


def _extracted(config: DeoptConfig) -> DeoptConfig:
    """The settings with source trees replaced by the kernels extracted from them."""
    from kcurate.core import names
    from kcurate.core.workspace import Workspace

    workspace = Workspace(config.workspace)
    paths = [names.some(str(path), workspace, (names.KERNEL, names.PAIR)) for path in config.paths]
    trees = tuple(path for path in paths if not _has_records(path))
    if not trees:
        return replace(config, paths=tuple(paths))
    from kcurate.extract.settings import ExtractConfig
    from kcurate.extract.stage import run

    output.note(f"no kernels or pairs in {', '.join(map(str, trees))}: extracting first")
    run(ExtractConfig(trees, config.workspace, jobs=config.jobs), note=output.note)
    return replace(config, paths=(*(path for path in paths if path not in trees), workspace.kernels))


def _has_records(path: Path) -> bool:
    from kcurate.core import store

    if store.exists(path):
        return path.name in ("pair.json", "kernel.json")
    return next(store.find(path, "pair.json", "kernel.json"), None) is not None


def _show_preview(config: DeoptConfig, *, as_json: bool) -> None:
    from kcurate.deopt.models.preview import preview

    searches = list(preview(config))
    costs = [search for search in searches if search.likely_usd is not None and search.most_usd is not None]
    likely = sum(search.likely_usd or 0.0 for search in costs if not search.on_file)
    most = sum(search.most_usd or 0.0 for search in costs)
    if as_json:
        prompts = [
            {"goal": search.label, "on_file": search.on_file, **vars(search.request.prompt)}
            for search in searches
        ]
        cost = {"likely_usd": likely, "most_usd": most} if costs else {"likely_usd": None, "most_usd": None}
        ending.listed("deopt", (), {"prompts": prompts, **cost}, str(config.workspace))
        return
    for search in searches:
        prompt = search.request.prompt
        print(f"===== {search.label}{' (already answered)' if search.on_file else ''}")
        print(f"{prompt.system}\n{prompt.context}\n{prompt.task}")
    total = (
        f"{len(searches)} searches, {sum(search.on_file for search in searches)} first answers already saved"
    )
    if not searches:
        total = "nothing to ask: no kernel has both a known problem and a technique to remove"
    elif costs:
        total += f"; the first round costs about ${likely:.2f}, the whole run at most ${most:.2f}"
    else:
        total += "; price unknown (set --price IN,OUT)"
    output.note(total)
