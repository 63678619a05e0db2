"""Every operator in 16-bit types; a file of its own, so that another process runs it."""

from __future__ import annotations

import itertools

import pytest
from mint.one_operator import single

from kcurate.mint.admission import CUDA, Admission, Minting, admit
from kcurate.mint.graph import OPERATORS


# Each operator in one of them, in turns: their code differs by the type's name alone, and both take minutes.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype"), list(zip(OPERATORS, itertools.cycle(["bfloat16", "float16"]), strict=False))
)
def test_narrow_types_too(name: str, dtype: str) -> None:
    minted = admit(Minting(single(name, dtype), 1, 1))
    assert minted.outcome in (Admission.ADMITTED, Admission.ROUNDING), f"{minted.outcome}: {minted.why}"
    assert (minted.outcome is Admission.ADMITTED) == any(
        pair.id.endswith(f"/{CUDA}") for pair in minted.candidates
    )
