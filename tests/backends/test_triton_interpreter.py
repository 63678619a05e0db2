"""Triton's interpreter as the emulator's workers run it: conversions of floats agree with a GPU's.

The module changes Triton where it is imported, so it is imported in a process of its own.
"""

import subprocess
import sys

import pytest

from kcurate.backends.triton import installed

pytestmark = pytest.mark.skipif(installed.version() is None, reason="Triton is not installed")

# Every value is compared with the nearest of all finite values of the narrow type, found by search.
NEAREST = """
import numpy as np
from kcurate.backends.triton import interpreter as ours
from triton.runtime import interpreter as tritons
import triton.language as tl

target = tl.{target}
narrow = ours._FLOATS[target]
unsigned = np.dtype(f"u{{narrow.itemsize}}")
every = np.arange(1 << 8 * narrow.itemsize).astype(unsigned).view(narrow).astype(np.float32)
finite = np.unique(every[np.isfinite(every)])
middles = (finite[1:] + finite[:-1]) / 2
values = np.concatenate([finite, middles, np.nextafter(middles, np.float32(np.inf)),
                         np.nextafter(middles, np.float32(-np.inf)), [np.float32(31.9), finite[-1] * 2]])
got = tritons._convert_float(values.astype(np.float32), tl.float32, target, None).view(narrow)
seen = got.astype(np.float64)
at = np.clip(np.searchsorted(finite, values), 1, finite.size - 1)
least = np.minimum(np.abs(finite[at] - values), np.abs(finite[at - 1] - values))
assert (np.abs(seen - values) == least).all(), values[np.abs(seen - values) != least]
ties = np.isin(values, middles)
assert (got.view(unsigned)[ties] % 2 == 0).all()
back = tritons._convert_float(got.view(unsigned), target, tl.float32, None).view(np.float32)
assert (back == seen).all()
"""


@pytest.mark.parametrize("target", ["float8e4nv", "float8e5"])
def test_a_float_becomes_the_nearest_of_its_narrow_type(target: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", NEAREST.format(target=target)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
