"""References of the training pairs: losses with their gradients, optimisers, dropout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.oracles.deep_learning import adamw, moments
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


def adamw_multi_tensor(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each tensor with its own rate and decay."""
    lengths = np.diff(arrays["starts"])
    rate, decay = (np.repeat(values, lengths) for values in doubles(arrays, "rates decays"))
    made = adamw(arrays, scalars, rate, decay)
    return {**made, "rounded": made["weights"]}


def lamb_multi_tensor(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Adam's update with decay, scaled for each tensor by the ratio of the weights' norm to its own."""
    (w,) = doubles(arrays, "weights")
    m, v = moments(arrays, scalars)
    update = m / (np.sqrt(v) + scalars["eps"]) + scalars["decay"] * w
    begins, lengths = arrays["starts"][:-1], np.diff(arrays["starts"])
    ratio = np.sqrt(np.add.reduceat(w * w, begins) / np.add.reduceat(update**2, begins))
    return {"m": m, "v": v, "weights": w - scalars["rate"] * np.repeat(ratio, lengths) * update}


def clip_grad_norm(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The norm, and the gradient scaled down to the limit where it is longer."""
    (g,) = doubles(arrays, "gradient")
    norm = np.sqrt((g * g).sum())
    return {"norm": np.array([norm]), "gradient": g * min(1.0, scalars["limit"] / (norm + 1e-6))}


def philox(counters: Array, key0: int, key1: int) -> Array:
    """Philox 4x32-10 of (counter, 0, 0, 0): four words in each row."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a = counters.astype(np.uint64)
    b, c, d = np.zeros_like(a), np.zeros_like(a), np.zeros_like(a)
    for number in range(10):
        k0, k1 = (key0 + number * 0x9E3779B9) % 2**32, (key1 + number * 0xBB67AE85) % 2**32
        left, right = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, c = (right >> shift) ^ b ^ np.uint64(k0), (left >> shift) ^ d ^ np.uint64(k1)
        b, d = right & mask, left & mask
    return np.stack([a, b, c, d], axis=1)


def dropout_philox(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Elements whose random word reaches the threshold, scaled; zero for the others."""
    (x,) = doubles(arrays, "x")
    counters = np.arange(-(-x.size // 4))
    words = philox(counters, int(scalars["key0"]), int(scalars["key1"])).ravel()[: x.size]
    kept = words >= int(scalars["threshold"])
    return {"mask": kept.astype(np.uint8), "out": np.where(kept, x * scalars["scale"], 0.0)}


def embedding_backward(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The table with each token's gradient added to its row."""
    table, gradient = doubles(arrays, "table gradient")
    np.add.at(table, arrays["tokens"], gradient)
    return {"table": table}


def batchnorm_backward(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Gradients of (x - mean) * rstd * weight + bias, with mean and rstd functions of each channel of x."""
    x, dy = doubles(arrays, "x dy")
    weight, mean, rstd = (values[:, None] for values in doubles(arrays, "weight mean rstd"))
    normal = (x - mean) * rstd
    dweight, dbias = (dy * normal).sum(axis=(0, 2)), dy.sum(axis=(0, 2))
    count = sizes["n"] * sizes["space"]
    pulled = (dbias[:, None] + normal * dweight[:, None]) / count
    return {"dx": weight * rstd * (dy - pulled), "dweight": dweight, "dbias": dbias}


def distillation_kl(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """T^2 sum p (log p - log q), of each row, with the softmax p of the teacher and q of the student."""
    student, teacher = (log_softmax(x / scalars["temperature"]) for x in doubles(arrays, "student teacher"))
    return {"loss": scalars["temperature"] ** 2 * (np.exp(teacher) * (teacher - student)).sum(axis=1)}


def triplet_margin(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """max(0, |anchor - positive| - |anchor - negative| + margin), of each row."""
    anchor, positive, negative = doubles(arrays, "anchor positive negative")
    near, far = (np.sqrt(((anchor - other) ** 2).sum(axis=1)) for other in (positive, negative))
    return {"loss": np.maximum(0.0, near - far + scalars["margin"])}


def label_smoothing_loss(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The cross entropy with a label that shares `smoothing` evenly among all classes."""
    (logits,) = doubles(arrays, "logits")
    logs, share = log_softmax(logits), scalars["smoothing"]
    chosen = logs[np.arange(sizes["rows"]), arrays["labels"]]
    return {"loss": -(1.0 - share) * chosen - share * logs.mean(axis=1)}


def swiglu_backward(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Gradients of gate * sigmoid(gate) * up."""
    gate, up, dy = doubles(arrays, "gate up dy")
    share = 1.0 / (1.0 + np.exp(-gate))
    return {"dgate": dy * up * share * (1.0 + gate * (1.0 - share)), "dup": dy * gate * share}


ORACLES = {
    "cross-entropy-backward": cross_entropy_backward,
    "adamw-multi-tensor": adamw_multi_tensor,
    "lamb-multi-tensor": lamb_multi_tensor,
    "clip-grad-norm": clip_grad_norm,
    "dropout-philox": dropout_philox,
    "embedding-backward": embedding_backward,
    "batchnorm-backward": batchnorm_backward,
    "distillation-kl": distillation_kl,
    "triplet-margin": triplet_margin,
    "label-smoothing-loss": label_smoothing_loss,
    "swiglu-backward": swiglu_backward,
}
