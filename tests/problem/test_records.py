"""Records whose members all have the buffer's own dtype: arrays of structs of one kind of number."""

from __future__ import annotations

import numpy as np
import pytest

from kcurate.errors import ProblemError
from kcurate.problem.inputs.contents import make
from kcurate.records import Buffer, Init


def test_members_of_the_buffers_dtype_are_its_elements() -> None:
    how = Init("records", {"fields": "float32*2 uniform low=1 high=2; float32 constant value=1.5e-45"})
    values = make("x", Buffer("float32", (50, 3), how), {}, 1)
    assert values.dtype == np.float32 and values.shape == (50, 3)
    assert ((values[:, :2] >= 1) & (values[:, :2] < 2)).all() and np.unique(values[:, :2]).size > 50
    assert (values[:, 2].view(np.uint32) == 1).all()


def test_members_of_another_dtype_are_refused() -> None:
    how = Init("records", {"fields": "float32 uniform; int32 zeros"})
    with pytest.raises(ProblemError, match="a member of int32 in records of float32"):
        make("x", Buffer("float32", (5, 2), how), {}, 1)
