"""References of convolutions, pooling and resampling of images and volumes."""

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


def conv(x: Array, weights: Array, stride: int = 1, dilation: int = 1) -> Array:
    """3x3 cross-correlation of (n, h, w, c) with weights (k, 9, c); zeros around the images."""
    h, w = x.shape[1:3]
    padded = np.pad(x, ((0, 0), (dilation, dilation), (dilation, dilation), (0, 0)))
    parts = [
        padded[:, dy : dy + h : stride, dx : dx + w : stride] @ weights[:, 3 * i + j].T
        for i, dy in enumerate((0, dilation, 2 * dilation))
        for j, dx in enumerate((0, dilation, 2 * dilation))
    ]
    return np.asarray(sum(parts))


def conv2d_strided(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """relu(conv + bias) at every second row and column."""
    x, weights, bias = doubles(arrays, "in weights bias")
    return {"out": np.maximum(conv(x, weights, stride=2) + bias, 0.0)}


def conv2d_dilated_pool(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The largest of each 2x2 pixels of relu(conv + bias)."""
    x, weights, bias = doubles(arrays, "in weights bias")
    y = np.maximum(conv(x, weights, dilation=sizes["dilation"]) + bias, 0.0)
    n, h, w, k = y.shape
    return {"out": y.reshape(n, h // 2, 2, w // 2, 2, k).max(axis=(2, 4))}


def conv3d_hardswish(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """v * clip(v + 3, 0, 6) / 6 of the 3x3x3 convolution with bias."""
    x, weights, bias = doubles(arrays, "in weights bias")
    _, d, h, w, _ = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (1, 1), (0, 0)))
    v = bias + sum(
        padded[:, tap // 9 : tap // 9 + d, tap // 3 % 3 : tap // 3 % 3 + h, tap % 3 : tap % 3 + w]
        @ weights[:, tap].T
        for tap in range(27)
    )
    return {"out": v * np.clip(v + 3.0, 0.0, 6.0) / 6.0}


def conv_transpose2d_tanh(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """tanh of bias and of each pixel times 4x4 taps laid over the result, two apart, one pixel cropped."""
    x, weights, bias = doubles(arrays, "in weights bias")
    n, h, w, _ = x.shape
    out = np.zeros((n, 2 * h + 2, 2 * w + 2, sizes["k"]))
    for tap in range(16):
        out[:, tap // 4 : tap // 4 + 2 * h : 2, tap % 4 : tap % 4 + 2 * w : 2] += x @ weights[tap].T
    return {"out": np.tanh(out[:, 1:-1, 1:-1] + bias)}


def maxpool2d_indices(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The largest of each 3x3 window, two apart, and the first place in the plane where it stands."""
    (x,) = doubles(arrays, "in")
    h, w = sizes["h"], sizes["w"]
    around = ((0, 0), (1, 1), (1, 1))
    places = np.pad(np.arange(h * w).reshape(1, h, w), around, constant_values=-1)[0]

    def windows(values: Array) -> Array:
        found = np.lib.stride_tricks.sliding_window_view(values, (3, 3), axis=(-2, -1))[..., ::2, ::2, :, :]
        return found.reshape(*found.shape[:-2], 9)

    seen = windows(np.pad(x, around, constant_values=-np.inf))
    best = seen.argmax(axis=-1)[..., None]
    chosen = np.take_along_axis(np.broadcast_to(windows(places), seen.shape), best, axis=-1)
    return {"out": np.take_along_axis(seen, best, axis=-1)[..., 0], "places": chosen[..., 0]}


def doubled(x: Array, axis: int) -> Array:
    """Twice as long along an axis: three quarters of the nearer element, a quarter of the farther one."""
    size = x.shape[axis]
    at = np.arange(2 * size)
    far = np.clip(at // 2 + np.where(at % 2 == 0, -1, 1), 0, size - 1)
    return 0.75 * x.take(at // 2, axis) + 0.25 * x.take(far, axis)


def upsample_bilinear(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Both axes of each plane doubled."""
    (x,) = doubles(arrays, "in")
    return {"out": doubled(doubled(x, 1), 2)}


def pixel_shuffle(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Channel 4 c + 2 dy + dx becomes the pixels (2 y + dy, 2 x + dx) of channel c."""
    (x,) = doubles(arrays, "in")
    n, c, h, w = (sizes[name] for name in ("n", "channels", "h", "w"))
    return {"out": x.reshape(n, c, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c, 2 * h, 2 * w)}


def conv2d_grouped(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """3x3 cross-correlation of (n, c, h, w) in groups of four channels; zeros around the images."""
    x, weights = doubles(arrays, "in weights")
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    windows = windows.reshape(len(x), -1, 4, *windows.shape[2:])
    grouped = weights.reshape(-1, 4, *weights.shape[1:])
    return {"out": np.einsum("ngchwij,gkcij->ngkhw", windows, grouped).reshape(x.shape)}


def maxpool3d(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The largest of each 2x2x2 voxels."""
    (x,) = doubles(arrays, "in")
    volumes, d, h, w = (sizes[name] for name in ("volumes", "d", "h", "w"))
    return {"out": x.reshape(volumes, d, 2, h, 2, w, 2).max(axis=(2, 4, 6))}


def conv2d_weight_gradient(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """For each of 3x3 taps, the sum over pixels of the gradient times the pixel that the tap meets."""
    x, gradient = doubles(arrays, "in gradient")
    h, w = sizes["h"], sizes["w"]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    taps = [padded[:, tap // 3 : tap // 3 + h, tap % 3 : tap % 3 + w] for tap in range(9)]
    return {"dweights": np.stack([np.einsum("nhwk,nhwc->kc", gradient, part) for part in taps], axis=1)}


ORACLES = {
    "conv2d-strided": conv2d_strided,
    "conv2d-dilated-pool": conv2d_dilated_pool,
    "conv3d-hardswish": conv3d_hardswish,
    "conv-transpose2d-tanh": conv_transpose2d_tanh,
    "maxpool2d-indices": maxpool2d_indices,
    "upsample-bilinear": upsample_bilinear,
    "pixel-shuffle": pixel_shuffle,
    "conv2d-grouped": conv2d_grouped,
    "maxpool3d": maxpool3d,
    "conv2d-weight-gradient": conv2d_weight_gradient,
}
