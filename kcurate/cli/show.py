"""`kcurate show`: a pair side by side with its plan, problem and verdicts; or a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcurate.cli import completing, ending, output
from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import JsonOption, WorkspaceOption

if TYPE_CHECKING:
    from kcurate.core.workspace import Workspace
    from kcurate.lookup.show import ShownKernel, ShownPair
    from kcurate.records import Item, Kernel, Side, Verdict

# Terminal width needed for two columns of code; on narrower ones the sides are printed in sequence.
SIDE_BY_SIDE_COLUMNS = 120


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID|PATH",
            help="A pair or kernel: its id, or its folder.",
            autocompletion=completing.either,
        ),
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    json: JsonOption = False,
) -> None:
    """Show a pair (both sides, plan, problem, verdicts, profiles) or an extracted kernel.

    Example: kcurate show deep-learning/softmax-block-online
    """
    from kcurate.core.workspace import Workspace
    from kcurate.lookup.show import ShownKernel, find

    in_workspace = Workspace(workspace)
    shown = find(name, in_workspace)
    if json:
        ending.listed("show", [_item(shown, in_workspace)], _data(shown), str(workspace))
    elif isinstance(shown, ShownKernel):
        _draw_kernel(shown)
    else:
        _draw_pair(shown, _item(shown, in_workspace))


def _item(shown: ShownPair | ShownKernel, workspace: Workspace) -> Item:
    from kcurate.lookup.listing import kernel_item
    from kcurate.lookup.show import ShownKernel
    from kcurate.verdicts import items

    if isinstance(shown, ShownKernel):
        return kernel_item(shown.kernel, shown.folder, workspace)
    return items.of_pair(items.Judged(shown.folder, shown.candidate, shown.verdicts), workspace)


def _data(shown: ShownPair | ShownKernel) -> dict[str, Any]:
    from kcurate.core import codec
    from kcurate.lookup.show import ShownKernel

    if isinstance(shown, ShownKernel):
        return {"folder": str(shown.folder), "kernel": codec.to_data(shown.kernel), "code": shown.code}
    return {
        "folder": str(shown.folder),
        "pair": codec.to_data(shown.candidate),
        "verdicts": codec.to_data(list(shown.verdicts)),
        "profiles": [
            codec.to_data(profile) for sides in shown.profiles.values() for profile in sides.values()
        ],
    }


def _draw_pair(shown: ShownPair, item: Item) -> None:
    from kcurate.lookup.show import with_worth

    candidate = shown.candidate
    origin = candidate.origin
    maker = f", {origin.made} side made by {', '.join(origin.rules) or origin.model}" if origin.made else ""
    _facts(
        candidate.id,
        {
            "folder": shown.folder,
            "family": f"{candidate.family} ({candidate.domain})",
            "licence": candidate.license or "unknown",
            "origin": origin.kind + maker,
            "techniques": with_worth(candidate) or "none named",
            "description": candidate.description,
            "judged": f"{item.outcome}{f': {item.why}' if item.why else ''}",
        },
    )
    _sides([("slow", candidate.slow), ("fast", candidate.fast)])
    _pair_data(shown)
    _draw_verdicts(shown.verdicts)
    _draw_profiles(shown)


def _pair_data(shown: ShownPair) -> None:
    from kcurate.core import codec, store

    candidate = shown.candidate
    plans = {side: codec.to_data(getattr(candidate, side)) for side in ("slow", "fast")}
    for plan in plans.values():
        del plan["code"]
    if plans["slow"] == plans["fast"]:
        _block("plan of both sides", store.pretty_json(plans["slow"]).decode(), "json")
    else:
        for side, plan in plans.items():
            _block(f"plan of {side}", store.pretty_json(plan).decode(), "json")
    if candidate.problem is None:
        _block("problem", "unknown: without a problem, the pair cannot be judged\n", "text")
    else:
        _block("problem", store.pretty_json(codec.to_data(candidate.problem)).decode(), "json")


def _draw_verdicts(verdicts: tuple[Verdict, ...]) -> None:

    if not verdicts:
        _block("verdicts", "none: run kcurate validate\n", "text")
        return
    rows = []
    for verdict in verdicts:
        speedup = verdict.speedup
        ratio = f"{speedup.ratio:.3f}x [{speedup.low:.3f}, {speedup.high:.3f}]" if speedup else "not timed"
        detail = " ".join(part for part in (verdict.side, verdict.detail) if part)
        rows.append((verdict.environment.device, verdict.outcome.value, ratio, detail))
    output.table("verdicts", ("device", "outcome", "speedup", "detail"), rows)
    last = {verdict.environment.device: verdict for verdict in verdicts}
    for device, verdict in last.items():
        if verdict.log:
            _block(f"log on {device}", verdict.log, "text")


def _draw_profiles(shown: ShownPair) -> None:
    from kcurate.profiling.counters import compared

    for device, sides in shown.profiles.items():
        output.table(f"profiles on {device}", ("counter", "slow", "fast"), compared(sides))
    if shown.stale_profiles:
        _block("profiles", "of other code than this: run kcurate profile again\n", "text")


def _draw_kernel(shown: ShownKernel) -> None:
    kernel = shown.kernel
    compiled = kernel.compiled
    _facts(
        kernel.name,
        {
            "folder": shown.folder,
            "from": f"{kernel.source.suite}, {kernel.span.path} line {kernel.span.start_line}",
            "licence": kernel.source.license or "unknown",
            "parameters": ", ".join(f"{param.type} {param.name}" for param in kernel.params) or "none",
            "launched as": _launches(kernel),
            "techniques": ", ".join(kernel.techniques) or "none found",
            "compiles": "not checked"
            if compiled is None
            else f"{'yes' if compiled.ok else 'no'}, {compiled.arch}",
        },
    )
    if kernel.language == "triton":
        _block("kernel.py", shown.code, "python")
    else:
        _block("kernel.cu", shown.code, "cuda")


def _launches(kernel: Kernel) -> str:
    sites = [
        f"{f'[{site.grid}]' if kernel.language == 'triton' else f'<<<{site.grid}, {site.block}>>>'} "
        f"({site.path} line {site.line})"
        for site in kernel.launch_sites
    ]
    return "; ".join(sites) or "no launch found"


def _facts(title: str, facts: dict[str, Any]) -> None:

    if not output.on_terminal():
        print(title)
        for key, value in facts.items():
            print(f"  {key + ':':<13}{value}")
        return
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for key, value in facts.items():
        grid.add_row(Text(key, style="dim"), Text(str(value)))
    console = output.console()
    console.rule(Text(title, style="bold"), align="left")
    console.print(grid)


def _block(title: str, text: str, language: str) -> None:

    if not output.on_terminal():
        print(f"\n== {title}\n{text.rstrip()}")
        return
    from rich.syntax import Syntax
    from rich.text import Text

    console = output.console()
    console.rule(Text(title, style="bold"), align="left")
    console.print(Syntax(text.rstrip(), language, theme="ansi_dark", word_wrap=True))


def _sides(sides: list[tuple[str, Side]]) -> None:
    from kcurate.core import store

    named = [
        (f"{name}{store.SUFFIXES[side.language]}", side.code, "cuda" if side.language == "cuda" else "python")
        for name, side in sides
    ]
    console = output.console() if output.on_terminal() else None
    if console is None or console.width < SIDE_BY_SIDE_COLUMNS:
        for file, code, language in named:
            _block(file, code, language)
        return
    from rich.box import SIMPLE_HEAD
    from rich.syntax import Syntax
    from rich.table import Table

    grid = Table(box=SIMPLE_HEAD, expand=True, padding=(0, 1))
    for file, _, _ in named:
        grid.add_column(file, ratio=1)
    grid.add_row(
        *(
            Syntax(code.rstrip(), language, theme="ansi_dark", word_wrap=True, line_numbers=True)
            for _, code, language in named
        )
    )
    console.print(grid)
