"""`kcurate pair` and `kcurate optimize`: commands on one's own kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kcurate.backends.choice import choose
from kcurate.cli import output
from kcurate.cli.capture import ProgramArgument, record
from kcurate.core.options import BackendOption, GpuOption, JsonOption, Option
from kcurate.errors import InputError
from kcurate.own.settings import OptimizeConfig, PairConfig

if TYPE_CHECKING:
    from kcurate.own.optimize import Optimized


def pair(config: PairConfig, program: ProgramArgument = (), json: JsonOption = False) -> None:
    """Make a pair of two kernels of your own, with one problem that both solve alike on the emulator.

    Example: kcurate pair slow.cu fast.cu --licence MIT -w work
    """
    from kcurate.own.pair import run

    record(program, config.workspace)
    output.report(run(config, ask=asker(), note=output.note), as_json=json)


def asker() -> Callable[[str, str], str] | None:
    """A function that asks on the terminal; None if stdin or stderr is not a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(question: str, value: str) -> str:
        answer: str = typer.prompt(question, default=value, show_default=bool(value), err=True)
        return answer

    return ask


def optimize(
    config: OptimizeConfig,
    program: ProgramArgument = (),
    backend: BackendOption = "auto",
    gpu: GpuOption = "auto",
    apply: Annotated[
        bool, Option("Write the faster kernel into FILE, if nothing else has to change.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Have a model write a faster version of your kernel, prove it, and show the diff.

    Example: kcurate optimize mine.cu --model claude --max-usd 1
    """
    from kcurate.own import optimize as stage

    config = replace(config, place=choose(backend, gpu, note=output.note))
    record(program, config.workspace)
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
        raise InputError(what, where=config.kernel, hint="--rounds asks more often")


def _print(done: Optimized, *, applied: bool) -> None:
    from kcurate.own.optimize import speedup_text

    print("\n".join(done.attempts))
    if not done.found:
        return
    if done.speedup is not None:
        print(f"{done.outcome} on {done.device}: {speedup_text(done.speedup)}")
    else:
        print(
            f"{done.outcome} on {done.device}: no times are taken here, so whether it is faster is not known"
        )
    print(f"pair: {done.pair}")
    if done.alone is not None:
        print(f"the diff is that of the extracted kernel: {done.alone}")
    if applied and done.user_kernel is not None:
        print(f"applied to {done.user_kernel.path}")
    print(f"\n{done.diff}", end="")


def _print_json(done: Optimized, *, applied: bool) -> None:
    from kcurate.core import codec

    speedup = codec.to_data(done.speedup) if done.speedup else None
    more = {"found": done.found, "outcome": done.outcome, "detail": done.detail, "device": done.device}
    more |= {"speedup": speedup, "attempts": done.attempts, "pair": str(done.pair) if done.pair else None}
    more |= {"diff": done.diff, "diff_of_kernel_because": done.alone, "applied": applied}
    output.show(done.summary, as_json=True, more={"optimized": more})
