"""Both sides once more on the emulator, with their threads in random orders: a race changes answers.

CUDA lets lanes of a warp, warps and blocks run in any order between two synchronisations; the usual runs have
two of these. Both sides are compiled so that a thread may lose its turn at any access to memory, and run
at the first test size and, where that is quick, at the largest. Not covered: the order
(`kcurate/backends/emulator/runtime/scheduler.h`).
"""

from __future__ import annotations

import itertools
import random
import time

from kcurate.backends.base import Compiled
from kcurate.core import time_limits
from kcurate.judge.case import Ruling
from kcurate.judge.trials import Trial, largest_test
from kcurate.judge.verifying import Verification
from kcurate.judge.workers.compiling import CompileWorkers, request_of
from kcurate.judge.workers.requests import Run
from kcurate.problem.inputs.contents import VARIATIONS
from kcurate.records import Outcome
from kcurate.records.pair import SideName

WHY = "depends on the order of threads (a missing barrier?)"
SEED_BITS = 32
# Further orders and the largest test size are tried for so long; one order is always.
QUICK_S = 0.3


def examine_orders(verification: Verification, compilers: CompileWorkers, count: int) -> None:
    """Run both sides in up to `count` orders at one or two test sizes, after all other runs in their workers.

    Nothing follows where a side cannot be compiled for it, or runs into a time limit.

    Raises:
        Ruling: `nondeterministic`: a side's answers differ, or it fails in one of the orders.
    """
    with verification.case.stage("thread_orders"):
        if _same_in_all(verification, compilers, count):
            verification.case.passed("thread_orders")


def _same_in_all(verification: Verification, compilers: CompileWorkers, count: int) -> bool:
    """Whether all sides could be run, and gave the same answers."""
    case = verification.case
    sides = [side for side in verification.order if getattr(case.candidate, side).language == "cuda"]
    binaries = compilers.compile([request_of(case.candidate, side, turns=True) for side in sides])
    finished = True
    for side, compiled in zip(sides, binaries, strict=True):
        finished &= isinstance(compiled, Compiled) and _keeps_its_answers(verification, side, compiled, count)
    return finished


def _keeps_its_answers(verification: Verification, side: SideName, compiled: Compiled, count: int) -> bool:
    """Whether a side finished in every order; each order gave the same answers."""
    proxy = verification.sides[side]
    proxy.load(verification.case.candidate, compiled, "turns")
    dice = random.Random(verification.seed ^ 0x07D3)
    until_s = time.monotonic() + QUICK_S
    for trial, _ in itertools.product(_chosen(verification), range(count)):
        try:
            _run(verification, trial, side, dice.randrange(1, 1 << SEED_BITS))
        except Ruling as failed:
            if failed.outcome is Outcome.TIMEOUT or failed.unexplained:
                return False
            raise Ruling(Outcome.NONDETERMINISTIC, f"{WHY}: {failed.detail}", side=side) from failed
        if time.monotonic() > until_s:
            break
    return True


def _chosen(verification: Verification) -> list[Trial]:
    """The nominal trials at the first and at the largest test size."""
    wanted = {f"test{at}-{VARIATIONS[0]}" for at in (0, largest_test(verification.problem))}
    return [trial for trial in verification.tried if trial.slot in wanted]


def _run(verification: Verification, trial: Trial, side: SideName, order: int) -> None:
    """Run one side on one trial in an order.

    Raises:
        Ruling: it failed, or its answers are not those of the usual orders.
    """
    verification.sides[side].ask(Run(trial.slot, verification.salts(1), text="turns", orders=(order,)))
    reply = verification.answer(trial, side, time_limits.ORDERS_S)
    verification.check_integrity(trial, side, reply)
    first = verification.answered[trial.slot][side]
    verification.check_repeats(
        trial, side, reply, first, range(1), "differs from its answer in the usual order"
    )
