"""`kcurate tune`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kcurate.cli.options import DEFAULT_WORKSPACE, BackendOption, GpuOption, JsonOption, WorkspaceOption

if TYPE_CHECKING:
    from kcurate.tune.stage import Tuned


class Which(StrEnum):
    """The side to tune."""

    SLOW = "slow"
    FAST = "fast"


class Strategy(StrEnum):
    """The order of trials."""

    GREEDY = "greedy"
    RANDOM = "random"
    LISTED = "listed"


def tune(
    pair: Annotated[str, typer.Argument(metavar="PAIR", help="A path, an id, or a unique prefix of one.")],
    side: Annotated[Which, typer.Option(help="Which side.")] = Which.FAST,
    value: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N,N...",
            help="Vary this constant (`block`: the block size) at these values; may be repeated.  "
            "[default: every named constant, halved and doubled]",
        ),
    ] = None,
    strategy: Annotated[
        Strategy | None,
        typer.Option(
            help="Uphill to better neighbours, settings by chance, or those that a kernel in Triton lists "
            "for autotuning.  [default: listed if it does, else greedy]"
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, metavar="N", help="At most so many trials, those on file included.")
    ] = 40,
    search_seed: Annotated[int, typer.Option(metavar="N", help="Of the order of trials.")] = 0,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    backend: BackendOption = "auto",
    gpu: GpuOption = "auto",
    json: JsonOption = False,
) -> None:
    """Search a side's block size and named constants with the judge; the best becomes a pair of its own.

    Example: kcurate tune reduction-scan/reduce-sum-shuffle --gpu 0 --trials 20
    """
    from kcurate.cli import output
    from kcurate.tune import stage

    values, order = _values(value or []), strategy and strategy.value
    config = stage.TuneConfig(workspace, pair, side.value, values, order, trials, search_seed, backend, gpu)
    done = stage.run(config, note=output.note)
    if json:
        output.report(done.summary, as_json=True, more={"tuned": _plain(done)})
    else:
        _print(done)


def _values(given: list[str]) -> dict[str, list[int]]:
    from kcurate.errors import InputError

    found = {}
    for text in given:
        name, _, values = text.partition("=")
        parts = values.split(",")
        if not name or not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise InputError(f"not NAME=N,N: {text!r}", where="--value", hint="such as THREADS=64,128")
        found[name] = [int(part) for part in parts]
    return found


def _print(done: Tuned) -> None:
    from kcurate.cli import output
    from kcurate.tune.stage import spelled

    rows = [
        (spelled(one.setting), one.outcome, _number(one.us, 1), _number(one.ratio, 3), one.detail)
        for one in done.trials
    ]
    columns = ("setting", "outcome", "us", "times as fast", "detail")
    output.table(f"tune on {done.device}: {done.summary.wall_s:.1f} s", columns, rows)
    if not done.timed:
        print("nothing is timed here: the trials only tell which settings compute the same")
    elif done.best is None:
        print("no setting is confirmed as faster than what the side has")
    else:
        print(f"best: {spelled(done.best.setting)}\npair: {done.pair}")


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _plain(done: Tuned) -> dict[str, object]:
    from kcurate.core import codec

    trials = [codec.to_data(one) for one in done.trials]
    best = codec.to_data(done.best) if done.best else None
    more = {"device": done.device, "timed": done.timed, "trials": trials, "best": best}
    return {**more, "pair": str(done.pair) if done.pair else None}
