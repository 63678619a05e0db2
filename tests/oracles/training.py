"""References of the training pairs: losses with their gradients, optimisers, dropout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.oracles.normalisation import doubles

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def log_softmax(x: Array) -> Array:
    """Along the last axis."""
    shifted = x - x.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def cross_entropy_backward(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """-log softmax(logits)[label] of each row, and `scale` times its gradient."""
    (logits,) = doubles(arrays, "logits")
    logs, rows = log_softmax(logits), np.arange(sizes["rows"])
    gradient = np.exp(logs)
    gradient[rows, arrays["labels"]] -= 1.0
    return {"loss": -logs[rows, arrays["labels"]], "logits": gradient * scalars["scale"]}


ORACLES = {
    "cross-entropy-backward": cross_entropy_backward,
}
