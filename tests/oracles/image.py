"""References of the image and signal pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def gaussian_blur(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Correlation with the outer product of `taps`; borders are clamped."""
    radius, (height, width) = sizes["radius"], arrays["image"].shape
    image = np.pad(arrays["image"].astype(np.float64), radius, mode="edge")
    taps = arrays["taps"].astype(np.float64)
    out = np.zeros((height, width))
    for dy, dx in np.ndindex(taps.size, taps.size):
        out += taps[dy] * taps[dx] * image[dy : dy + height, dx : dx + width]
    return {"out": out}


def _windows(image: Array, radius: int) -> Array:
    """All shifts of a picture inside a window: (2 radius + 1, 2 radius + 1, height, width), clamped."""
    height, width = image.shape
    padded = np.pad(image, radius, mode="edge")
    span = range(2 * radius + 1)
    return np.array([[padded[dy : dy + height, dx : dx + width] for dx in span] for dy in span])


def rgb_to_gray(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Rounded luma with weights 77, 150, 29 of 256."""
    rgb = arrays["rgb"].astype(np.int64).reshape(-1, 3)
    return {"gray": (rgb @ np.array([77, 150, 29]) + 128) // 256}


def sobel(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """|gx| + |gy|, at most 255."""
    window = _windows(arrays["image"].astype(np.int64), 1)
    smooth = np.array([1, 2, 1])
    gx = np.tensordot(smooth, window[:, 2] - window[:, 0], 1)
    gy = np.tensordot(smooth, window[2] - window[0], 1)
    return {"edges": np.minimum(np.abs(gx) + np.abs(gy), 255)}


def median3x3(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The fifth of nine."""
    window = _windows(arrays["image"].astype(np.int64), 1)
    return {"out": np.sort(window.reshape(9, *arrays["image"].shape), axis=0)[4]}


def box_filter(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The mean over the window, halves rounded up (the area is odd)."""
    window = _windows(arrays["image"].astype(np.int64), sizes["radius"])
    area = window.shape[0] * window.shape[1]
    return {"out": (window.sum(axis=(0, 1)) + area // 2) // area}


def dct8x8(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The orthonormal DCT-II along both axes of each square."""
    k, i = np.indices((8, 8))
    basis = np.where(k == 0, np.sqrt(1 / 8), 0.5) * np.cos((2 * i + 1) * k * np.pi / 16)
    image = arrays["image"].astype(np.float64)
    squares = image.reshape(sizes["rows"], 8, sizes["columns"], 8)
    return {"out": np.einsum("vj,ajbi,ui->avbu", basis, squares, basis).reshape(image.shape)}


def fft_batched(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The unscaled forward transform of each line; the last axis is (real, imaginary)."""
    values = arrays["in"].astype(np.float64)
    found = np.fft.fft(values[..., 0] + 1j * values[..., 1], axis=-1)
    return {"out": np.stack([found.real, found.imag], axis=-1)}


def fir_filter(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The convolution with the taps; the signal is zero before its beginning."""
    signal, taps = arrays["signal"].astype(np.float64), arrays["taps"].astype(np.float64)
    return {"out": np.convolve(signal, taps)[: signal.size]}


def bilateral(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The mean over the window, weighted by Gaussians of the distance in space and in value."""
    radius = sizes["radius"]
    image = arrays["image"].astype(np.float64)
    window = _windows(image, radius)
    dy, dx = np.indices((2 * radius + 1,) * 2) - radius
    space = np.exp(-(dx**2 + dy**2) / (2 * scalars["sigma_space"] ** 2))
    weight = space[..., None, None] * np.exp(-((window - image) ** 2) / (2 * scalars["sigma_range"] ** 2))
    return {"out": (weight * window).sum(axis=(0, 1)) / weight.sum(axis=(0, 1))}


def histogram_equalize(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Levels mapped so that their cumulative counts are linear; the lowest level present becomes 0."""
    image = arrays["image"]
    cumulated = np.cumsum(np.bincount(image, minlength=256))
    lowest = cumulated[image.min()]
    table = np.maximum(cumulated - lowest, 0) * 255 // max(1, image.size - lowest)
    return {"out": table[image]}


def correlate2d(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum of the window times the taps; the picture is zero outside."""
    radius, (height, width) = sizes["radius"], arrays["image"].shape
    image = np.pad(arrays["image"].astype(np.float64), radius)
    taps = arrays["taps"].astype(np.float64).reshape(2 * radius + 1, 2 * radius + 1)
    out = np.zeros((height, width))
    for (dy, dx), tap in np.ndenumerate(taps):
        out += tap * image[dy : dy + height, dx : dx + width]
    return {"out": out}


ORACLES = {
    "correlate2d": correlate2d,
    "gaussian-blur": gaussian_blur,
    "rgb-to-gray": rgb_to_gray,
    "sobel": sobel,
    "median3x3": median3x3,
    "box-filter": box_filter,
    "dct8x8": dct8x8,
    "fft-batched": fft_batched,
    "fir-filter": fir_filter,
    "bilateral": bilateral,
    "histogram-equalize": histogram_equalize,
}
