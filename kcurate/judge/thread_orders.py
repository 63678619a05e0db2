"""Runs both sides again on the emulator with threads in random orders, since a race changes answers.

CUDA lets lanes of a warp, warps and blocks run in any order between two synchronisations; earlier runs only
alternate between forward and reverse order. Here both sides are compiled so that the emulator may switch
threads at any memory access, and other blocks may see stores late. They run at the first test size and, if
that is quick, at the largest. If a GPU cannot hold all blocks, they start in any order, a few at a time.
Not covered: the order (`kcurate/backends/emulator/runtime/scheduler.h`), late stores (`stores.h` there).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping

from kcurate.backends.base import Compiled, EntryPoint
from kcurate.core import time_limits
from kcurate.judge.agreement import Outputs, differs
from kcurate.judge.case import Ruling
from kcurate.judge.checks.unread import launches
from kcurate.judge.trials import Trial, largest_test
from kcurate.judge.verifying import RunReply, Verification
from kcurate.judge.workers.compiling import CompileWorkers, request_of
from kcurate.judge.workers.requests import Run
from kcurate.problem.bind_once import bind_once
from kcurate.problem.inputs.contents import VARIATIONS
from kcurate.records import Outcome
from kcurate.records.pair import SideName

WHY = "depends on the order of threads (a missing barrier or fence?), or on memory that nothing has set"
SEED_BITS = 32
# After this much CPU time no further order and no larger size is tried; the first order always runs.
QUICK_S = 0.4
DIFFERS = "differs from its answer in the usual order"
# No GPU of 2026 has more multiprocessors (RTX PRO 6000: 188), or holds more blocks, threads and shared bytes
# in one; each block takes `RESERVED_BYTES` (CUDA C++ Programming Guide, "Compute Capabilities").
MULTIPROCESSORS, BLOCKS, THREADS, SHARED_BYTES, RESERVED_BYTES = 192, 32, 2048, 228 << 10, 1 << 10


def examine_orders(verification: Verification, compilers: CompileWorkers, count: int) -> None:
    """Run both sides in up to `count` orders at one or two test sizes, after all other runs in their workers.

    If a side cannot be compiled for this or times out, the check neither passes nor fails.

    Raises:
        Ruling: `nondeterministic`: a side's answers differ, or it fails in one of the orders.
    """
    with verification.case.stage("thread_orders"):
        if _same_in_all(verification, compilers, count):
            verification.case.passed("thread_orders")


def _same_in_all(verification: Verification, compilers: CompileWorkers, count: int) -> bool:
    """Whether all CUDA sides finished in every order; raises a ruling if answers differ."""
    case = verification.case
    sides = [side for side in verification.order if getattr(case.candidate, side).language == "cuda"]
    binaries = compilers.compile([request_of(case.candidate, side, turns=True) for side in sides])
    finished = True
    for side, compiled in zip(sides, binaries, strict=True):
        finished &= isinstance(compiled, Compiled) and _keeps_its_answers(verification, side, compiled, count)
    return finished


def _keeps_its_answers(verification: Verification, side: SideName, compiled: Compiled, count: int) -> bool:
    """Whether a side finished in every order tried; raises a ruling if its answers differ."""
    proxy = verification.sides[side]
    proxy.load(verification.case.candidate, compiled, "turns")
    rng = random.Random(verification.seed ^ 0x07D3)
    room = _room(verification, side)
    usual = {trial.slot: verification.answered[trial.slot][side] for trial in _chosen(verification)}
    until_cpu_s = proxy.worker.cpu_s + QUICK_S
    for trial, _ in itertools.product(_chosen(verification), range(count)):
        try:
            reply = _reply(verification, trial, side, rng.randrange(1, 1 << SEED_BITS), room)
            usual[trial.slot] = _agreed(verification, trial, side, reply, usual[trial.slot])
        except Ruling as failed:
            if failed.outcome is Outcome.TIMEOUT or failed.unexplained:
                return False
            raise Ruling(Outcome.NONDETERMINISTIC, f"{WHY}: {failed.detail}", side=side) from failed
        if proxy.worker.cpu_s > until_cpu_s:
            break
    return True


def _chosen(verification: Verification) -> list[Trial]:
    """The nominal trials at the first and at the largest test size."""
    wanted = {f"test{at}-{VARIATIONS[0]}" for at in (0, largest_test(verification.problem))}
    return [trial for trial in verification.tried if trial.slot in wanted]


def _room(verification: Verification, side: SideName) -> dict[str, int]:
    """For each kernel, the most static shared bytes per block at which a GPU can hold all blocks at once.

    The minimum over all sizes of the problem; negative if no GPU can.
    """
    problem, room = verification.problem, dict[str, int]()
    for sizes in problem.sizes.all:
        for launch in launches(bind_once(problem, getattr(verification.case.candidate, side), sizes)):
            if launch.cooperative:
                continue
            name = EntryPoint(launch.kernel, launch.template).expression
            blocks = -(-math.prod(launch.grid) // MULTIPROCESSORS)
            left = SHARED_BYTES // max(1, blocks) - RESERVED_BYTES - launch.shared_bytes
            if blocks > BLOCKS or blocks * math.prod(launch.block) > THREADS:
                left = -1
            room[name] = min(left, room.get(name, left))
    return room


def _agreed(
    verification: Verification, trial: Trial, side: SideName, reply: RunReply, usual: Outputs
) -> Outputs:
    """Check the answers of a random order; returns those of the usual order that they equal.

    This build contracts to FMA, so it may round differently from `usual`. Then its own answers in the usual
    order count, if they agree with `usual`, or with the reference's from the same build.

    Raises:
        Ruling: they are not equal.
    """
    try:
        verification.check_repeats(trial, side, reply, usual, range(1), DIFFERS)
        return usual
    except Ruling:
        contracted, reference = _contracted(verification, trial, side, usual), verification.reference
        if _differ(verification, trial, usual, contracted) and side != reference:
            if "turns" not in verification.sides[reference].loaded:
                raise
            if _differ(verification, trial, _contracted(verification, trial, reference, usual), contracted):
                raise
    verification.check_repeats(trial, side, reply, contracted, range(1), DIFFERS)
    return contracted


def _contracted(verification: Verification, trial: Trial, side: SideName, usual: Outputs) -> Outputs:
    """A side's answers in the usual order from the build for random orders, which contracts to FMA."""
    reply = _reply(verification, trial, side, 0, {})
    return {**usual, **verification.outputs(trial, side, reply, 0, verification.output_names())}


def _differ(verification: Verification, trial: Trial, plain: Outputs, outputs: Outputs) -> bool:
    names = verification.output_names()
    return any(differs(verification.problem, trial.sizes, name, plain, outputs) for name in names)


def _reply(
    verification: Verification, trial: Trial, side: SideName, order: int, room: Mapping[str, int]
) -> RunReply:
    """A side's reply for one order of threads, given by its seed (0: the usual order).

    Raises:
        Ruling: it failed.
    """
    verification.sides[side].ask(
        Run(trial.slot, verification.salts(1), text="turns", orders=(order,), room=room)
    )
    reply = verification.answer(trial, side, time_limits.ORDERS_S)
    verification.check_integrity(trial, side, reply)
    return reply
