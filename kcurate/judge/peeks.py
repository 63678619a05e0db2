"""Random samples of outputs, copied to the host by the driver.

Our kernels make fingerprints and comparisons in the memory of the side that they check, where a hostile side
might change them. What the driver copies it cannot change. Not covered: timed runs, each of which returns one
such part (`kcurate.judge.timing.decision`).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence

import numpy as np

from kcurate.judge.reference_runs import REPLY_SLACK_BYTES
from kcurate.judge.trials import Trial
from kcurate.judge.workers.protocol import Blob
from kcurate.judge.workers.requests import Peek, Place
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.problem.compare import Bound, widened
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.outputs import output_names, shape
from kcurate.records import Problem

# Parts sampled of each output, and elements of each part.
PARTS, ELEMENTS = 8, 64


def random_places(problem: Problem, trial: Trial) -> tuple[Place, ...]:
    """Random parts of the outputs that are compared in full and in order."""
    picked = []
    for name in output_names(problem):
        buffer, rule = problem.buffers[name], problem.buffers[name].tolerance
        size = math.prod(shape(buffer, trial.sizes))
        if size and (rule is None or (rule.order == "exact" and rule.valid is None)):
            count = min(ELEMENTS, size)
            picked += [Place(name, secrets.randbelow(size - count + 1), count) for _ in range(PARTS)]
    return tuple(picked)


def peek(proxy: SideProxy, problem: Problem, trial: Trial, places: Sequence[Place]) -> tuple[Blob, ...]:
    """The bytes of these parts of a side's last run.

    Raises:
        Ruling: the worker failed, or sent anything else.
    """
    if not places:
        return ()
    proxy.ask(Peek(trial.slot, tuple(places)))
    blobs = proxy.answer(REPLY_SLACK_BYTES).blobs
    with proxy.untrusted_answer():
        blobs_in_order = tuple(blobs[str(number)] for number in range(len(places)))
        kinds = (numpy_dtype(problem.buffers[place.name].dtype) for place in places)
        wanted = [place.count * kind.itemsize for place, kind in zip(places, kinds, strict=True)]
        if [blob.size for blob in blobs_in_order] != wanted:
            raise ValueError("a part has the wrong size")
    return blobs_in_order


def differing(
    problem: Problem,
    places: Sequence[Place],
    expected: Sequence[Blob],
    got: Sequence[Blob],
    bounds: Mapping[str, Bound],
) -> Place | None:
    """The first part where the sides differ by more than `bounds` allows; without a bound, in any bit."""
    for place, want, have in zip(places, expected, got, strict=True):
        if np.array_equal(want, have):
            continue
        if place.name not in bounds:
            return place
        kind = numpy_dtype(problem.buffers[place.name].dtype)
        wanted, seen = (widened(blob.view(kind)) for blob in (want, have))
        with np.errstate(invalid="ignore"):
            near = np.abs(seen - wanted) <= bounds[place.name].of(np.abs(wanted))
        if not (near | (seen == wanted) | (np.isnan(seen) & np.isnan(wanted))).all():
            return place
    return None
