"""References of the sequence pairs: running sums and maxima, rotary embedding, state space models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.problem.dtypes import numpy_dtype
from tests.oracles.normalisation import doubles

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def cumsum_rows(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Running sums along the rows."""
    return {"out": arrays["in"].astype(np.float64).cumsum(axis=1)}


def cummax_rows(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Running maxima along the rows, and the latest place of each so far."""
    (x,) = doubles(arrays, "in")
    running = np.maximum.accumulate(x, axis=1)
    places = np.where(x == running, np.arange(x.shape[1]), 0)
    return {"values": running, "places": np.maximum.accumulate(places, axis=1)}


def turned(x: Array, cos: Array, sin: Array) -> Array:
    """Each head's two halves turned by the token's angles."""
    first, second = np.split(x, 2, axis=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def rope_kv_cache(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Turned queries and keys; the keys and values also in their slots of the caches."""
    q, k, v, cos, sin, keys, values = doubles(arrays, "q k v cos sin keys values")
    k = turned(k, cos, sin).astype(numpy_dtype("bfloat16")).astype(np.float64)
    keys[arrays["slots"]], values[arrays["slots"]] = k, v
    return {"q": turned(q, cos, sin), "k": k, "keys": keys, "values": values}


def causal_conv1d(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """silu(bias + sum of weight * the four elements up to each place), zeros before the first."""
    x, weight, bias = doubles(arrays, "x weight bias")
    padded = np.pad(x, ((0, 0), (0, 0), (3, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 4, axis=2)
    y = np.einsum("bctw,cw->bct", windows, weight) + bias[:, None]
    return {"out": y / (1.0 + np.exp(-y))}


def selective_scan(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """y = C h + skip u with h = exp(dt A) h + dt B u and dt = log(1 + exp(delta)), over time."""
    u, delta, a, b, c, skip = doubles(arrays, "u delta a b c skip")
    dt = np.log1p(np.exp(delta))
    state, y = np.zeros((*u.shape[:2], a.shape[1])), np.empty_like(u)
    for t in range(u.shape[2]):
        pushed = (dt[:, :, t] * u[:, :, t])[:, :, None] * b[:, None, :, t]
        state = np.exp(dt[:, :, t, None] * a) * state + pushed
        y[:, :, t] = (state * c[:, None, :, t]).sum(axis=2) + skip * u[:, :, t]
    return {"y": y}


def linear_attention(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum over all earlier steps s and the own one of (q k_s) v_s, for each head."""
    q, k, v = doubles(arrays, "q k v")
    return {"out": np.tril(q @ k.transpose(0, 2, 1)) @ v}


def gated_delta_rule(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """q S with S decayed, then moved by rate * k (v - k S), over time."""
    q, k, v, decay, rate = doubles(arrays, "q k v decay rate")
    state, out = np.zeros((len(q), 64, 64)), np.empty_like(v)
    for t in range(q.shape[1]):
        state *= decay[:, t, None, None]
        change = rate[:, t, None] * (v[:, t] - np.einsum("hi,hij->hj", k[:, t], state))
        state += k[:, t, :, None] * change[:, None, :]
        out[:, t] = np.einsum("hi,hij->hj", q[:, t], state)
    return {"out": out}


def merge_attention_splits(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The mean of the splits' results weighted by the exponentials of their logarithms, and the whole's."""
    parts, logs = doubles(arrays, "parts logs")
    weights = np.exp(logs - logs.max(axis=0))
    total = weights.sum(axis=0)
    out = (weights[:, :, None] * parts).sum(axis=0) / total[:, None]
    return {"out": out, "whole": np.log(total) + logs.max(axis=0)}


def head_norm_rope(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each head over its root mean square, times the weight, then turned by the token's angles."""
    x, weight, cos, sin = doubles(arrays, "x weight cos sin")
    normal = x / np.sqrt((x * x).mean(axis=2, keepdims=True) + scalars["eps"]) * weight
    return {"x": turned(normal, cos, sin)}


ORACLES = {
    "cumsum-rows": cumsum_rows,
    "cummax-rows": cummax_rows,
    "rope-kv-cache": rope_kv_cache,
    "causal-conv1d": causal_conv1d,
    "selective-scan": selective_scan,
    "linear-attention": linear_attention,
    "gated-delta-rule": gated_delta_rule,
    "merge-attention-splits": merge_attention_splits,
    "head-norm-rope": head_norm_rope,
}
