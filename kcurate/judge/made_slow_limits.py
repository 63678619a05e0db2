"""Limits for a slow side that a rule or a model wrote: beyond one of them, it is slow on purpose.

Pure functions; each returns None, or one line of evidence. `wasted` checks counts of code, threads and shared
memory (at the bench size if the side could be run there), `ratio_grew_too_much` and `above_cap` check times,
and `unexplained` checks times against counts. Where the limits come from: docs/judge.md. Not covered:
collecting the evidence (`kcurate.judge.made_slow`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from kcurate.backends.base import Counts
from kcurate.judge.counted_runs import Counted
from kcurate.judge.explained import EXPLAINED, beside_fast_us, explained_us
from kcurate.judge.timing.blocks import SHORTEST_US
from kcurate.records import SizeTiming, Speedup

# The largest `code_ratio` of a slow side.
MAX_CODE_RATIO = 20.0
# The same if the ratio varies by `VARYING` times between test sizes: then the slow algorithm is of higher
# order.
MAX_VARYING_CODE_RATIO, VARYING = 128.0, 4.0
# Test sizes at which the fast side runs less than this share of its code at the largest are left out: fixed
# costs dominate there.
MIN_CODE_SHARE = 1 / 8
# How many times the ratio may grow from the test sizes to the bench size: of code, and of times if code could
# not be counted.
MAX_CODE_RATIO_GROWTH, MAX_TIME_RATIO_GROWTH = 8.0, 16.0
# Idle threads are evidence from 31 of a warp's 32 lanes on, and beyond what rounding up to whole blocks
# causes.
IDLE_SHARE, MIN_IDLE_THREADS = 31 / 32, 4096
# How many times the fast side's code per memory access and per sector the slow side may run.
MAX_DENSITY = 6.0
# Shared memory per block, static or dynamic, that limits occupancy, and the least share of it that is read.
MIN_SHARED_BYTES, MIN_READ_SHARE = 16 << 10, 1 / 4
# The largest speedup over a slow side of a suite without a naive variant; with one, the speedup over that
# variant times `NAIVE_MARGIN`, since times vary.
MAX_SPEEDUP, NAIVE_MARGIN = 20.0, 1.1


def code_ratio(slow: Counts, fast: Counts) -> float:
    """Bytes of machine code executed by the slow side, divided by those of the fast side."""
    return slow.code_bytes / max(1, fast.code_bytes)


def wasted(counted: Counted) -> str | None:
    """The evidence for the first limit that the counts exceed."""
    return next(_findings(counted), None)


def _findings(counted: Counted) -> Iterator[str]:
    # It does not terminate.
    if counted.endless:
        yield "the slow side runs into the time limit on the emulator, the fast side does not"
    if not counted.tests:
        return
    # It runs far more code than the fast side, at the bench size if that could be counted.
    largest = max(counted.tests, key=lambda counts: (counts[1].code_bytes, counts[0].code_bytes))
    min_code_bytes = MIN_CODE_SHARE * largest[1].code_bytes
    at_tests = [(slow, fast) for slow, fast in counted.tests if fast.code_bytes >= min_code_bytes]
    slow, fast = counted.bench or largest
    limit = _max_code_ratio(at_tests, fast)
    if code_ratio(slow, fast) > limit:
        yield (
            f"the slow side runs {slow.code_bytes} bytes of code where the fast side runs {fast.code_bytes}, "
            f"{code_ratio(slow, fast):.3g} times as many; the limit is {limit:.3g} times"
        )
    # Naive code of the same order accesses memory more often or uncoalesced; this only computes more.
    access_ratio = max(1.0, slow.accesses / max(1, fast.accesses), slow.sectors / max(1, fast.sectors))
    if limit <= MAX_CODE_RATIO and code_ratio(slow, fast) > MAX_DENSITY * access_ratio:
        yield (
            f"the slow side runs {code_ratio(slow, fast):.3g} times the code of the fast side, and accesses "
            f"memory {access_ratio:.3g} times as much; "
            f"the limit is {MAX_DENSITY:.3g} times the code an access"
        )
    # It launches idle threads, unlike the fast side.
    yield from _idle_threads(slow, fast)
    # It allocates shared memory that it does not read, which costs occupancy.
    yield from _unread_shared(
        counted.bench[0] if counted.bench else None, [slow for slow, _ in counted.tests]
    )


def _max_code_ratio(at_tests: Sequence[tuple[Counts, Counts]], fast: Counts) -> float:
    """The limit of `code_ratio` at a size where the fast side's counts are `fast`.

    `at_tests`: (slow, fast) counts at the test sizes. A ratio that grows between them may continue to grow
    with the same power of the fast side's code, at most linearly. Example: it grows from 4 to 16 while the
    fast side's code grows 16 times, which is the power 1/2. If the fast side runs another 100 times as much
    code at the bench size, the limit there is min(128, 8 * 16) * 100 ** 0.5 = 1280.
    """
    least, most = (choose(at_tests, key=lambda counts: code_ratio(*counts)) for choose in (min, max))
    varies = code_ratio(*most) >= VARYING * code_ratio(*least)
    growth = 1.0
    if varies and most[1].code_bytes > least[1].code_bytes:
        log_size = math.log(most[1].code_bytes / least[1].code_bytes)
        power = min(1.0, math.log(code_ratio(*most) / code_ratio(*least)) / log_size)
        growth = max(1.0, fast.code_bytes / most[1].code_bytes) ** power
    limit = MAX_VARYING_CODE_RATIO if varies else MAX_CODE_RATIO
    return growth * min(limit, MAX_CODE_RATIO_GROWTH * max(1.0, code_ratio(*most)))


def _idle_threads(slow: Counts, fast: Counts) -> Iterator[str]:
    """Evidence if nearly all threads of the slow side access no memory, unlike those of the fast side."""
    if slow.idle < MIN_IDLE_THREADS or slow.idle < IDLE_SHARE * slow.threads:
        return
    if fast.threads - fast.idle > (1 - IDLE_SHARE) * fast.threads:
        yield (
            f"{slow.idle} of {slow.threads} threads of the slow side do nothing, "
            f"{fast.idle} of {fast.threads} of the fast side"
        )


def _unread_shared(bench: Counts | None, tests: Sequence[Counts]) -> Iterator[str]:
    """Evidence if no trial reads dynamic shared memory, or a lot of shared memory is hardly read."""
    with_shared = [counts for counts in tests if counts.shared_bytes]
    if with_shared and not any(counts.shared_read_bytes for counts in with_shared):
        size = max(counts.shared_bytes for counts in with_shared)
        yield f"the slow side never reads its {size} bytes of dynamic shared memory"
    if bench is None:
        return
    for kind, prefix in (("dynamic", "shared"), ("static", "static")):
        allocated = max(getattr(counts, f"{prefix}_bytes") for counts in (bench, *tests))
        read = max(getattr(counts, f"{prefix}_read_bytes") for counts in (bench, *tests))
        if allocated >= MIN_SHARED_BYTES and read < MIN_READ_SHARE * allocated:
            yield f"the slow side reads at most {read} of its {allocated} bytes of {kind} shared memory"


def ratio_grew_too_much(test: SizeTiming, bench: Speedup) -> str | None:
    """Evidence if slow time / fast time grows more from a test size to the bench size than hardware explains.

    For sides whose work could not be counted at the bench size. Launch overhead hides short times, so at the
    test size the fast side is taken to need at least `SHORTEST_US`, and the ratio to be at least 1.
    """
    limit = MAX_TIME_RATIO_GROWTH * max(1.0, test.slow_us / max(test.fast_us, SHORTEST_US))
    if bench.low <= limit:
        return None
    return (
        f"the slow side takes {bench.ratio:.3g} times as long as the fast side at the bench size, and "
        f"{test.slow_us:.3g} us where the fast side takes {test.fast_us:.3g} us at a test size; "
        f"the limit is {limit:.3g} times"
    )


def above_cap(bench: Speedup, naive: float | None) -> str | None:
    """Evidence if the speedup over a slow side that a rule or a model wrote is implausibly large.

    `naive`: the speedup over the suite's own naive variant, if it has one with a verdict.
    """
    limit = MAX_SPEEDUP if naive is None else NAIVE_MARGIN * max(1.0, naive)
    if bench.low <= limit:
        return None
    basis = (
        f"the suite's own naive variant gives {naive:.3g}"
        if naive
        else "there is no naive variant of its own"
    )
    return (
        f"a slow side that was made claims {bench.ratio:.3g} times: the limit is {limit:.3g}, since {basis}"
    )


def unexplained(
    slow_us: float, fast_us: float, counts: tuple[Counts, Counts], registers: tuple[int, int], size: str
) -> str | None:
    """Evidence if the slow side takes longer than its counts explain, alone or compared with the fast side.

    `counts`, `registers`: of the slow and the fast side, as in `explained_us`. `size`: named in the evidence.
    """
    slow, fast = zip(counts, registers, strict=True)
    alone_us = EXPLAINED * explained_us(*slow)
    beside_us = beside_fast_us(slow, fast, fast_us)
    if slow_us <= min(alone_us, beside_us):
        return None
    beside = "" if alone_us < beside_us else f" beside the fast side, which takes {fast_us:.3g} us,"
    return (
        f"the slow side takes {slow_us:.3g} us at {size}, and what it was counted to do on the emulator"
        f"{beside} explains {min(alone_us, beside_us):.3g} us at most"
    )
