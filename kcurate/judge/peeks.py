"""Random parts of outputs, copied to the host by the driver.

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

# Of each output so many parts of so many elements.
PARTS, ELEMENTS = 8, 64


def places(problem: Problem, trial: Trial) -> tuple[Place, ...]:
    """Random parts of the outputs of which every element counts, at its place."""
    found = []
    for name in output_names(problem):
        buffer, rule = problem.buffers[name], problem.buffers[name].tolerance
        size = math.prod(shape(buffer, trial.sizes))
        if size and (rule is None or (rule.order == "exact" and rule.valid is None)):
            count = min(ELEMENTS, size)
            found += [Place(name, secrets.randbelow(size - count + 1), count) for _ in range(PARTS)]
    return tuple(found)


def peek(proxy: SideProxy, problem: Problem, trial: Trial, where: Sequence[Place]) -> tuple[Blob, ...]:
    """The bytes of these parts of a side's last run.

    Raises:
        Ruling: the worker failed, or sent anything else.
    """
    if not where:
        return ()
    proxy.ask(Peek(trial.slot, tuple(where)))
    blobs = proxy.answer(REPLY_SLACK_BYTES).blobs
    with proxy.untrusted_answer():
        found = tuple(blobs[str(number)] for number in range(len(where)))
        kinds = (numpy_dtype(problem.buffers[place.name].dtype) for place in where)
        wanted = [place.count * kind.itemsize for place, kind in zip(where, kinds, strict=True)]
        if [blob.size for blob in found] != wanted:
            raise ValueError("parts of another size")
    return found


def differing(
    problem: Problem,
    where: Sequence[Place],
    plain: Sequence[Blob],
    got: Sequence[Blob],
    loose: Mapping[str, Bound],
) -> Place | None:
    """The first part in which two sides differ; outputs in `loose` may, within their bound."""
    for place, one, other in zip(where, plain, got, strict=True):
        if np.array_equal(one, other):
            continue
        if place.name not in loose:
            return place
        kind = numpy_dtype(problem.buffers[place.name].dtype)
        wanted, seen = (widened(blob.view(kind)) for blob in (one, other))
        with np.errstate(invalid="ignore"):
            near = np.abs(seen - wanted) <= loose[place.name].of(np.abs(wanted))
        if not (near | (seen == wanted) | (np.isnan(seen) & np.isnan(wanted))).all():
            return place
    return None
