"""References of attention in its forms: masked, over sequences of several lengths, over caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def weights_of(scores: Array, visible: Array | bool = True) -> Array:
    """Softmax along the last axis over what is visible."""
    seen = np.where(visible, scores, -np.inf)
    powers = np.exp(seen - seen.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def attend(q: Array, k: Array, v: Array, scale: float, visible: Array | bool = True) -> Array:
    """softmax(scale Q K^T) V over the last two axes."""
    return np.asarray(weights_of(scale * (q @ np.swapaxes(k, -1, -2)), visible) @ v)


def wide_inputs(arrays: Arrays) -> tuple[Array, Array, Array]:
    """Queries, keys and values."""
    q, k, v = (arrays[name].astype(np.float64) for name in ("q", "k", "v"))
    return q, k, v


def attention_causal(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each query sees the keys up to its own place."""
    visible = np.tri(sizes["n"], dtype=bool)
    return {"out": attend(*wide_inputs(arrays), scalars["scale"], visible)}


def attention_window(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each query sees `window` places up to its own, and the sink of its head, a score without a value."""
    n = sizes["n"]
    q, k, v = (np.swapaxes(x, 0, 1) for x in wide_inputs(arrays))
    k, v = (np.repeat(x, sizes["group"], axis=0) for x in (k, v))
    visible = np.tri(n, dtype=bool) & ~np.tri(n, k=-sizes["window"], dtype=bool)
    scores = np.where(visible, scalars["scale"] * (q @ np.swapaxes(k, 1, 2)), -np.inf)
    sinks = np.broadcast_to(arrays["sinks"].astype(np.float64)[:, None, None], (len(q), n, 1))
    weights = weights_of(np.concatenate([scores, sinks], axis=2))[:, :, :n]
    return {"out": np.swapaxes(weights @ v, 0, 1)}


def attention_gqa(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The queries are the last of n places; `group` heads in turn share keys and values."""
    q, k, v = (np.swapaxes(x, 1, 2) for x in wide_inputs(arrays))
    k, v = (np.repeat(x, sizes["group"], axis=1) for x in (k, v))
    visible = np.tri(sizes["queries"], sizes["n"], k=sizes["n"] - sizes["queries"], dtype=bool)
    return {"out": np.swapaxes(attend(q, k, v, scalars["scale"], visible), 1, 2)}


def attention_varlen(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Within each sequence, of which `offsets` says where it begins and ends."""
    q, k, v = (np.swapaxes(x, 0, 1) for x in wide_inputs(arrays))
    out = np.zeros_like(q)
    for begin, end in zip(arrays["offsets"], arrays["offsets"][1:], strict=False):
        if end > begin:
            inside = (slice(None), slice(int(begin), int(end)))
            out[inside] = attend(q[inside], k[inside], v[inside], scalars["scale"])
    return {"out": np.swapaxes(out, 0, 1)}


def paged_decode(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """One query a head; eight heads share the keys and values in the pages that the table names."""
    q, k, v = wide_inputs(arrays)
    out = np.zeros_like(q)
    for sequence, length in enumerate(arrays["lengths"]):
        if length:
            pages = arrays["table"][sequence]
            keys, values = (
                np.repeat(x[pages].reshape(-1, sizes["kv_heads"], 128)[:length], 8, axis=1).swapaxes(0, 1)
                for x in (k, v)
            )
            out[sequence] = attend(q[sequence][:, None, :], keys, values, scalars["scale"])[:, 0, :]
    return {"out": out}


def mla_decode(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Every head attends to all latents; their first 512 numbers are the values."""
    q, latents = (arrays[name].astype(np.float64) for name in ("q", "latents"))
    return {"out": attend(q, latents, latents[:, :, :512], scalars["scale"])}


def kv_cache_write(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The caches with new keys, their halves turned by the angles of the position, and new values."""
    slots = arrays["slot_of"][: sizes["tokens"]]
    cos, sin = (
        arrays[name].astype(np.float64)[arrays["positions"]][:, None, :] for name in ("cosines", "sines")
    )
    first, second = np.split(arrays["k"].astype(np.float64), 2, axis=-1)
    k_cache, v_cache = (arrays[name].astype(np.float64) for name in ("k_cache", "v_cache"))
    k_cache[slots] = np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    v_cache[slots] = arrays["v"].astype(np.float64)
    return {"k_cache": k_cache, "v_cache": v_cache}


def attention_backward(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The gradients of causal attention, from its result and the logarithms of its sums as they are given."""
    q, k, v = wide_inputs(arrays)
    out, dout, lse = (arrays[name].astype(np.float64) for name in ("out", "dout", "lse"))
    scores = scalars["scale"] * (q @ np.swapaxes(k, 1, 2))
    weights = np.where(np.tri(sizes["n"], dtype=bool), np.exp(scores - lse[..., None]), 0.0)
    change = weights * (dout @ np.swapaxes(v, 1, 2) - (out * dout).sum(axis=-1, keepdims=True))
    return {
        "dq": scalars["scale"] * (change @ k),
        "dk": scalars["scale"] * (np.swapaxes(change, 1, 2) @ q),
        "dv": np.swapaxes(weights, 1, 2) @ dout,
    }


def attention_block_sparse(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Each 128 queries see the blocks of 64 keys that are listed for them; without any, the answer is 0."""
    q, k, v = wide_inputs(arrays)
    out = np.zeros_like(q)
    for number, (begin, end) in enumerate(zip(arrays["offsets"], arrays["offsets"][1:], strict=False)):
        if end > begin:
            places = (arrays["blocks"][begin:end, None].astype(np.int64) * 64 + np.arange(64)).ravel()
            places = places[places < sizes["n"]]
            rows = slice(128 * number, 128 * (number + 1))
            out[:, rows] = attend(q[:, rows], k[:, places], v[:, places], scalars["scale"])
    return {"out": out}


def kv_page_copy(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The cache after each move: the first page of two in `order` to the second."""
    cache = arrays["cache"].astype(np.float64)
    moves = arrays["order"][: 2 * sizes["copies"]].reshape(-1, 2)
    cache[moves[:, 1]] = cache[moves[:, 0]]
    return {"cache": cache}


ORACLES = {
    "attention-causal": attention_causal,
    "attention-window": attention_window,
    "attention-gqa": attention_gqa,
    "attention-varlen": attention_varlen,
    "paged-decode": paged_decode,
    "mla-decode": mla_decode,
    "kv-cache-write": kv_cache_write,
    "attention-backward": attention_backward,
    "attention-block-sparse": attention_block_sparse,
    "kv-page-copy": kv_page_copy,
}
