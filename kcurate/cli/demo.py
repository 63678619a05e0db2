"""`kcurate demo`: the whole pipeline on data shipped with the package; only composes the stages."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcurate.backends.choice import choose
from kcurate.cli import output
from kcurate.cli.failing import FailOnOption, split
from kcurate.core.options import Backend, BackendOption, JsonOption, WorkspaceOption
from kcurate.dataset.settings import BuildConfig
from kcurate.deopt.settings import DeoptConfig
from kcurate.extract.settings import ExtractConfig
from kcurate.validate.settings import ValidateConfig

if TYPE_CHECKING:
    from kcurate.records import Summary

DEMO_WORKSPACE = Path("kcurate-demo")
# About one built-in pair per domain; the emulator takes well under a minute on two cores.
EMULATED_PAIRS = 9


def demo(
    workspace: WorkspaceOption = DEMO_WORKSPACE,
    backend: BackendOption = "auto",
    built_in: Annotated[
        int | None,
        typer.Option(
            "--built-in",
            min=0,
            metavar="N",
            help=f"How many built-in pairs to validate.  [default: all on a GPU, else {EMULATED_PAIRS}]",
        ),
    ] = None,
    fail_on: FailOnOption = None,
    json: JsonOption = False,
) -> None:
    """Run the whole pipeline on what ships with kcurate: extract, deopt, validate, build.

    Example: kcurate demo --built-in 3
    """
    started_s = time.perf_counter()
    resolved = choose(backend).backend
    where = "the emulator (correctness only, no times)" if resolved == "emulator" else "the GPU"
    output.note(f"kcurate demo runs on {where}; all of its output is in {workspace}/")
    pairs = _pick(EMULATED_PAIRS if built_in is None and resolved == "emulator" else built_in)
    summaries = [_step(text, run) for text, run in _stages(workspace, resolved, pairs)]
    _finish(summaries, workspace, time.perf_counter() - started_s, as_json=json, fail_on=split(fail_on))


def _stages(
    workspace: Path, backend: Backend, pairs: Sequence[Path]
) -> tuple[tuple[str, Callable[[], Summary]], ...]:
    from kcurate.core import resources
    from kcurate.core.workspace import Workspace
    from kcurate.dataset import stage as dataset
    from kcurate.deopt import stage as deopt
    from kcurate.extract import stage as extract
    from kcurate.validate import stage as validate

    tree = resources.sources_dir() / "demo"
    candidates = (Workspace(workspace).pairs, *pairs)
    return (
        (
            f"extract {tree}",
            lambda: extract.run(ExtractConfig(paths=(tree,), workspace=workspace), note=output.note),
        ),
        ("deopt by rule", lambda: deopt.run(DeoptConfig(workspace))),
        (
            f"validate the candidates and {len(pairs)} built-in pairs",
            lambda: validate.run(
                ValidateConfig(workspace=workspace, paths=candidates, backend=backend), note=output.note
            ),
        ),
        ("build the dataset", lambda: dataset.run(BuildConfig(workspace, built_in=True))),
    )


def _step(text: str, run: Callable[[], Summary]) -> Summary:

    output.note(f"== {text}")
    return run()


def _pick(count: int | None) -> list[Path]:
    """`count` built-in pairs, alternating between domains; None: all."""
    from kcurate.core import resources, store

    folders = store.find_candidates(resources.pairs_dir())
    by_domain: dict[str, list[Path]] = {}
    for folder in folders:
        by_domain.setdefault(folder.parent.name, []).append(folder)
    turns = [
        by_domain[domain][turn]
        for turn in range(len(folders))
        for domain in sorted(by_domain)
        if turn < len(by_domain[domain])
    ]
    return turns[:count]


def _finish(
    summaries: Sequence[Summary], workspace: Path, wall_s: float, *, as_json: bool, fail_on: Sequence[str]
) -> None:
    from dataclasses import replace

    from kcurate.records import Summary

    counts = {
        f"{summary.stage} {kind}": outcomes
        for summary in summaries
        for kind, outcomes in summary.counts.items()
    }
    results = tuple(
        replace(item, kind=f"{summary.stage} {item.kind}")
        for summary in summaries
        for item in summary.results
    )
    whole = Summary("demo", counts, round(wall_s, 3), str(workspace), results)
    output.note(f"next: kcurate show demo/dot/dot -w {workspace}   kcurate doctor   README.md")
    output.report(whole, as_json=as_json, fail_on=fail_on)
