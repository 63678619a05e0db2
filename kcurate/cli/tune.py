"""`kcurate tune`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcurate.cli import failing, output
from kcurate.core.options import JsonOption
from kcurate.tune.settings import TuneConfig

if TYPE_CHECKING:
    from kcurate.tune.stage import Tuned


def tune(config: TuneConfig, json: JsonOption = False) -> None:
    """Search a side's block size and named constants with the judge; the best becomes a pair of its own.

    Example: kcurate tune reduction-scan/reduce-sum-shuffle --gpu 0 --trials 20
    """
    from kcurate.tune import stage

    done = stage.run(config, note=output.note)
    if json:
        output.show(done.summary, as_json=True, more={"tuned": _plain(done)})
    else:
        _print(done)
    failing.check(done.summary, ())


def _print(done: Tuned) -> None:
    from kcurate.tune.stage import spelled

    rows = [
        (spelled(trial.setting), trial.outcome, _number(trial.us, 1), _number(trial.ratio, 3), trial.detail)
        for trial in done.trials
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

    trials = [codec.to_data(trial) for trial in done.trials]
    best = codec.to_data(done.best) if done.best else None
    more = {"device": done.device, "timed": done.timed, "trials": trials, "best": best}
    return {**more, "pair": str(done.pair) if done.pair else None}
