"""Our own device code (`helpers.cu`): the kernels behind `arrays` and `timer`, as one small binary.

Memory between the buffers of a side, and outputs before a run, hold noise: the word at address `8 w` is
`hidden(w, salt, key)`. Reading part of it does not reveal the rest. Expected outputs are stored xored with
it, so that a side that finds them reads noise. Inputs are bit for bit those of the host
(`kcurate.problem.inputs.counter_based`).
"""

from __future__ import annotations

import itertools
from pathlib import Path

from kcurate.backends.base import EntryPoint

# The most axes of a `Layout` in `helpers.cu`.
MAX_RANK = 6
SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")
# The frames that `kc_local_*` overwrite, in bytes per thread. The hardware leaves 16 bytes between frames, so
# a second kernel with a slightly larger frame is needed to reach all of the memory (measured on an H200).
LOCAL_FRAMES = {size << 10: (f"kc_local_{size}", f"kc_local_{size}_more") for size in (1, 8, 64)}
ENTRIES = tuple(
    EntryPoint(name)
    for name in (
        "kc_read", "kc_copy", "kc_empty", "kc_spin", "kc_scrub", "kc_noise",
        *itertools.chain(*LOCAL_FRAMES.values()),
        "kc_noise_changed", "kc_differs", "kc_checksum", "kc_fingerprint", "kc_fold",
        "kc_rows", "kc_scales", "kc_close", "kc_groups",
        "kc_make", "kc_range", "kc_narrow", "kc_put", "kc_hide", "kc_largest", "kc_squares",
    )
)  # fmt: skip
