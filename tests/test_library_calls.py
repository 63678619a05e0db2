"""Library calls that sides are timed against compute the same: on the CPU, beside the oracles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.library_calls import CALLS, LibraryCall, compared, scalars_of, tensor
from kcurate.core import store
from kcurate.problem.inputs import contents
from kcurate.records import Problem
from tests.oracles import ORACLES

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = {
    store.read_candidate(path.parent).family: path.parent for path in ROOT.glob("pairs/*/*/pair.json")
}


def problem_of(family: str) -> Problem:
    found = store.read_candidate(FAMILIES[family]).problem
    assert found is not None
    return found


def test_every_family_is_there_and_they_are_sixty() -> None:
    assert set(CALLS) <= set(FAMILIES) and len(CALLS) >= 60


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize(
    ("family", "one"),
    [
        pytest.param(family, one, id=f"{family}: {one.library}")
        for family, calls in sorted(CALLS.items())
        for one in calls
        if not one.gpu_only and one.outputs
    ],
)
def test_a_call_computes_what_the_family_does(family: str, one: LibraryCall) -> None:
    import torch

    problem = problem_of(family)
    sizes = problem.sizes.test[0]
    values: Mapping[str, Any] = contents.generate(problem, None, sizes, 7)
    scalars = scalars_of(problem, sizes)
    expected = ORACLES[family](values, sizes, scalars)
    inputs = {name: tensor(value, problem.buffers[name].dtype, torch) for name, value in values.items()}
    with torch.no_grad():
        found = one.make(inputs, torch, scalars, sizes)()
    for name, theirs in zip(one.outputs, found if isinstance(found, tuple) else (found,), strict=False):
        assert compared(np.asarray(expected[name]), theirs) < 0.02, name
