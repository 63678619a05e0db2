"""`kcurate optimize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kcurate.cli.capture import ProgramArgument, record
from kcurate.cli.options import (
    DEFAULT_WORKSPACE,
    BackendOption,
    GpuOption,
    JsonOption,
    PriceOption,
    WorkspaceOption,
)
from kcurate.cli.pair import LAUNCH_HELP, asker

if TYPE_CHECKING:
    from kcurate.own.optimize import Optimized


def optimize(
    kernel: Annotated[
        str,
        typer.Argument(metavar="FILE.cu[:KERNEL]", help="The kernel; :KERNEL where the file has several."),
    ],
    program: ProgramArgument = None,
    *,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Who writes: claude, claude-<version>, or openai:<model>@<base-url>."
        ),
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    launch: Annotated[
        str | None, typer.Option(metavar="LAUNCH", help=f"How the kernel is launched, {LAUNCH_HELP}")
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(min=1, metavar="R", help="Rounds at most, each from the fastest answer so far."),
    ] = 3,
    candidates: Annotated[
        int, typer.Option(min=1, metavar="K", help="For a fast side: answers asked for in a round.")
    ] = 1,
    max_usd: Annotated[
        float | None, typer.Option(min=0, metavar="X", help="Spend at most this much in this run.")
    ] = None,
    price: PriceOption = None,
    backend: BackendOption = "auto",
    gpu: GpuOption = "auto",
    apply: Annotated[
        bool,
        typer.Option("--apply", help="Write the faster kernel into FILE, if nothing else has to change."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Have a model write a faster version of your kernel, prove it, and show the diff.

    Example: kcurate optimize mine.cu --model claude --max-usd 1
    """
    from kcurate.backends.choice import choose
    from kcurate.cli import output
    from kcurate.errors import InputError
    from kcurate.own import optimize as stage

    place = choose(backend, gpu, note=output.note)
    record(program, workspace)
    config = stage.OptimizeConfig(kernel, model, workspace, launch, rounds, candidates, max_usd, price, place)
    done = stage.run(config, ask=asker(), note=output.note)
    failure: InputError | None = None
    if apply and done.found:
        try:
            stage.apply(done)
        except InputError as error:
            failure = error
    applied = apply and done.found and failure is None
    _print_json(done, applied=applied) if json else _print(done, applied=applied)
    if failure is not None:
        raise failure
    if not done.found:
        what = f"no faster kernel in {len(done.attempts)} answers"
        raise InputError(what, where=kernel, hint="--rounds asks more often")


def _print(done: Optimized, *, applied: bool) -> None:
    from kcurate.own.optimize import spelled

    print("\n".join(done.attempts))
    if not done.found:
        return
    if done.speedup is not None:
        print(f"{done.outcome} on {done.device}: {spelled(done.speedup)}")
    else:
        print(
            f"{done.outcome} on {done.device}: no times are taken here, so whether it is faster is not known"
        )
    print(f"pair: {done.pair}")
    if done.alone is not None:
        print(f"the diff is that of the extracted kernel: {done.alone}")
    if applied and done.own is not None:
        print(f"applied to {done.own.path}")
    print(f"\n{done.diff}", end="")


def _print_json(done: Optimized, *, applied: bool) -> None:
    from kcurate.cli import output
    from kcurate.core import codec

    speedup = codec.to_data(done.speedup) if done.speedup else None
    more = {"found": done.found, "outcome": done.outcome, "detail": done.detail, "device": done.device}
    more |= {"speedup": speedup, "attempts": done.attempts, "pair": str(done.pair) if done.pair else None}
    more |= {"diff": done.diff, "diff_of_kernel_because": done.alone, "applied": applied}
    output.report(done.summary, as_json=True, more={"optimized": more})
