"""Runs both sides on the emulator with threads in random orders, to find data races.

CUDA lets lanes, warps and blocks run in any order between two synchronisations; the verification stage only
alternates between forward and reverse order. Here both sides are compiled so that the emulator can switch
threads at any memory access and delay when other blocks see a store. They run at the first test size and, if
that is quick, at the largest. If a GPU could not hold all blocks of a launch at once, blocks start in random
order, a few at a time, so a block that waits for one not yet started hangs as on a GPU. Example of a race: a
reduction in shared memory without `__syncthreads()` between two steps gives the same sum in forward order
every time, and another one once a random order lets a warp read before its neighbour has written. Not
covered: the order (`kcurate/backends/emulator/runtime/scheduler.h`), late stores (`stores.h` there).
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
# CPU seconds after which no further order and no larger size is tried; the first order always runs.
QUICK_S = 0.4
DIFFERS = "differs from its answer in the usual order"
# Upper limits for all GPUs of 2026: multiprocessors (RTX PRO 6000: 188), and per multiprocessor resident
# blocks, threads and bytes of shared memory, of which each block reserves `RESERVED_BYTES` (CUDA C++
# Programming Guide, "Compute Capabilities").
MULTIPROCESSORS, BLOCKS, THREADS, SHARED_BYTES, RESERVED_BYTES = 192, 32, 2048, 228 << 10, 1 << 10


def examine_orders(verification: Verification, compilers: CompileWorkers, count: int) -> None:
    """Run both sides in up to `count` random orders at one or two test sizes, and compare their outputs.

    If a side does not compile for this or times out, the check neither passes nor fails.

    Raises:
        Ruling: `nondeterministic`: a side's outputs differ, or it fails in one of the orders.
    """
    with verification.case.stage("thread_orders"):
        if _both_finish_in_all_orders(verification, compilers, count):
            verification.case.passed("thread_orders")


def _both_finish_in_all_orders(verification: Verification, compilers: CompileWorkers, count: int) -> bool:
    """Whether all CUDA sides finished in every order; raises a ruling if outputs differ."""
    case = verification.case
    sides = [side for side in verification.order if getattr(case.candidate, side).language == "cuda"]
    binaries = compilers.compile([request_of(case.candidate, side, turns=True) for side in sides])
    finished = True
    for side, compiled in zip(sides, binaries, strict=True):
        finished &= isinstance(compiled, Compiled) and _finishes_in_all_orders(
            verification, side, compiled, count
        )
    return finished


def _finishes_in_all_orders(
    verification: Verification, side: SideName, compiled: Compiled, count: int
) -> bool:
    """Whether a side finished in every order tried; raises a ruling if its outputs differ."""
    proxy = verification.sides[side]
    proxy.load(verification.case.candidate, compiled, "turns")
    rng = random.Random(verification.seed ^ 0x07D3)
    room = _shared_bytes_available(verification, side)
    usual = {trial.slot: verification.answered[trial.slot][side] for trial in _trials_to_repeat(verification)}
    until_cpu_s = proxy.worker.cpu_s + QUICK_S
    for trial, _ in itertools.product(_trials_to_repeat(verification), range(count)):
        try:
            reply = _reply(verification, trial, side, rng.randrange(1, 1 << SEED_BITS), room)
            usual[trial.slot] = _matching_outputs(verification, trial, side, reply, usual[trial.slot])
        except Ruling as failed:
            if failed.outcome is Outcome.TIMEOUT or failed.unexplained:
                return False
            raise Ruling(Outcome.NONDETERMINISTIC, f"{WHY}: {failed.detail}", side=side) from failed
        if proxy.worker.cpu_s > until_cpu_s:
            break
    return True


def _trials_to_repeat(verification: Verification) -> list[Trial]:
    """The nominal trials at the first and at the largest test size."""
    slots = {f"test{at}-{VARIATIONS[0]}" for at in (0, largest_test(verification.problem))}
    return [trial for trial in verification.tried if trial.slot in slots]


def _shared_bytes_available(verification: Verification, side: SideName) -> dict[str, int]:
    """For each kernel, the most static shared memory per block with which some GPU holds all blocks at once.

    In bytes; the minimum over all sizes of the problem; negative if no GPU can hold them. The emulator, which
    knows how much static shared memory a kernel has, starts all its blocks together only up to this amount.
    """
    problem, room = verification.problem, dict[str, int]()
    for sizes in problem.sizes.all:
        for launch in launches(bind_once(problem, getattr(verification.case.candidate, side), sizes)):
            if launch.cooperative:
                continue
            name = EntryPoint(launch.kernel, launch.template).expression
            blocks_per_multiprocessor = -(-math.prod(launch.grid) // MULTIPROCESSORS)
            available_bytes = (
                SHARED_BYTES // max(1, blocks_per_multiprocessor) - RESERVED_BYTES - launch.shared_bytes
            )
            if (
                blocks_per_multiprocessor > BLOCKS
                or blocks_per_multiprocessor * math.prod(launch.block) > THREADS
            ):
                available_bytes = -1
            room[name] = min(available_bytes, room.get(name, available_bytes))
    return room


def _matching_outputs(
    verification: Verification, trial: Trial, side: SideName, reply: RunReply, usual: Outputs
) -> Outputs:
    """Check the outputs of a random order; returns the outputs of the usual order that they match.

    This build contracts multiply-adds to FMA, so its rounding may differ from `usual`. If it does, the
    outputs must match those of this build in the usual order, which in turn must agree with `usual` or with
    the reference's outputs from the same build.

    Raises:
        Ruling: they do not match.
    """
    try:
        verification.check_repeats(trial, side, reply, usual, range(1), DIFFERS)
        return usual
    except Ruling:
        contracted, reference = _contracted(verification, trial, side, usual), verification.reference
        if _any_differs(verification, trial, usual, contracted) and side != reference:
            if "turns" not in verification.sides[reference].loaded:
                raise
            if _any_differs(
                verification, trial, _contracted(verification, trial, reference, usual), contracted
            ):
                raise
    verification.check_repeats(trial, side, reply, contracted, range(1), DIFFERS)
    return contracted


def _contracted(verification: Verification, trial: Trial, side: SideName, usual: Outputs) -> Outputs:
    """A side's outputs in the usual order from the build for random orders, which contracts to FMA."""
    reply = _reply(verification, trial, side, 0, {})
    return {**usual, **verification.outputs(trial, side, reply, 0, verification.output_names())}


def _any_differs(verification: Verification, trial: Trial, plain: Outputs, outputs: Outputs) -> bool:
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
