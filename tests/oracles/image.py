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


def integral_image(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum of all pixels above and to the left, the own one included."""
    return {"sums": arrays["image"].astype(np.int64).cumsum(axis=0).cumsum(axis=1)}


def erode(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The least pixel within the radius in both directions."""
    padded = np.pad(arrays["image"].astype(np.int64), sizes["radius"], constant_values=255)
    side = 2 * sizes["radius"] + 1
    return {"eroded": np.lib.stride_tricks.sliding_window_view(padded, (side, side)).min(axis=(2, 3))}


def label_components(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The least index in each 4-connected part of the pixels below the limit, by a flood from each."""
    inside = arrays["image"] < scalars["limit"]
    height, width = inside.shape
    labels = np.full(inside.shape, -1, np.int64)
    for first in np.flatnonzero(inside):
        if labels.flat[first] >= 0:
            continue
        labels.flat[first] = first
        stack = [divmod(int(first), width)]
        while stack:
            y, x = stack.pop()
            for i, j in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if 0 <= i < height and 0 <= j < width and inside[i, j] and labels[i, j] < 0:
                    labels[i, j] = first
                    stack.append((i, j))
    return {"labels": labels}


def nms_boxes(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """1 for each box that no earlier kept box overlaps by more than half (common over united area)."""
    low, extent = arrays["corners"].astype(np.int64), arrays["extents"].astype(np.int64)
    high, area = low + extent, extent.prod(axis=1)
    keep = np.ones(sizes["n"], np.int64)
    for i in range(sizes["n"]):
        if keep[i]:
            sides = np.minimum(high, high[i]) - np.maximum(low, low[i])
            common = sides.clip(0).prod(axis=1)
            keep[i + 1 :][(2 * common > area + area[i] - common)[i + 1 :]] = 0
    return {"keep": keep}


def canny_suppress(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """0, 1 (from `low` on) or 2 (from `high` on) where Sobel's |gx| + |gy| is greatest along the gradient."""
    p = np.pad(arrays["image"].astype(np.int64), 1, mode="edge")
    smooth_y, smooth_x = p[:-2] + 2 * p[1:-1] + p[2:], p[:, :-2] + 2 * p[:, 1:-1] + p[:, 2:]
    gx, gy = smooth_y[:, 2:] - smooth_y[:, :-2], smooth_x[2:] - smooth_x[:-2]
    own = np.abs(gx) + np.abs(gy)
    padded = np.pad(own, 1)
    steep = 32 * np.abs(gy) > 77 * np.abs(gx)
    flat = 77 * np.abs(gy) <= 32 * np.abs(gx)
    dx = np.where(steep, 0, np.where(flat | ((gx < 0) == (gy < 0)), 1, -1))
    dy = np.where(flat & ~steep, 0, 1)
    y, x = np.indices(own.shape) + 1
    greatest = (own > padded[y - dy, x - dx]) & (own >= padded[y + dy, x + dx])
    return {"edges": np.where(greatest, (own >= scalars["low"]) * 1 + (own >= scalars["high"]), 0)}


def cubic_matrix(before: int, after: int) -> Array:
    """How each of `after` samples is made of `before` ones: Keys' cubic of -0.5, edges repeated."""
    centres = (np.arange(after) + 0.5) * before / after - 0.5
    matrix = np.zeros((after, before))
    for shift in range(-1, 3):
        taken = np.floor(centres) + shift
        d = np.abs(taken - centres)
        weight = np.where(d <= 1, (1.5 * d - 2.5) * d**2 + 1, ((-0.5 * d + 2.5) * d - 4) * d + 2)
        np.add.at(matrix, (np.arange(after), taken.clip(0, before - 1).astype(np.int64)), weight)
    return matrix


def resize_bicubic(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Cubic interpolation along columns and rows."""
    down = cubic_matrix(sizes["height"], sizes["out_height"])
    across = cubic_matrix(sizes["width"], sizes["out_width"])
    return {"resized": down @ arrays["image"].astype(np.float64) @ across.T}


def gaussian_pyramid(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Three times: five binomial taps in each direction, edges repeated, then every second pixel."""
    taps = np.array([1, 4, 6, 4, 1]) / 16
    levels, image = {}, arrays["image"].astype(np.float64)
    for name in ("half", "quarter", "eighth"):
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(image, 2, mode="edge"), (5, 5))
        image = np.einsum("yxij,i,j->yx", windows[::2, ::2], taps, taps)
        levels[name] = image
    return levels


def haar2d(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Three levels of half sums and half differences along rows and columns, averages in the corner."""
    out = arrays["image"].astype(np.float64)
    for level in range(3):
        part = out[: out.shape[0] >> level, : out.shape[1] >> level]
        part[:] = np.concatenate([part[:, ::2] + part[:, 1::2], part[:, ::2] - part[:, 1::2]], axis=1) / 2
        part[:] = np.concatenate([part[::2] + part[1::2], part[::2] - part[1::2]]) / 2
    return {"out": out}


def fft2d(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The discrete Fourier transform of each image."""
    values = arrays["in"].astype(np.float64)
    out = np.fft.fft2(values[..., 0] + 1j * values[..., 1])
    return {"out": np.stack([out.real, out.imag], axis=-1)}


def joint_histogram(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """How many places have each pair of levels, four grey levels to one."""
    bins = arrays["first"].astype(np.int64) // 4 * 64 + arrays["second"] // 4
    return {"counts": np.bincount(bins.ravel(), minlength=4096).reshape(64, 64)}


def template_match(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The sum of squared differences at each place where the pattern fits."""
    windows = np.lib.stride_tricks.sliding_window_view(arrays["image"].astype(np.int64), (16, 16))
    return {"differences": ((windows - arrays["pattern"].astype(np.int64)) ** 2).sum(axis=(2, 3))}


def fft(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The discrete Fourier transform of each signal."""
    values = arrays["in"].astype(np.float64)
    out = np.fft.fft(values[..., 0] + 1j * values[..., 1])
    return {"out": np.stack([out.real, out.imag], axis=-1)}


def motion_search(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The first of the 17x17 moves with the least sum of differences for each block, and that sum."""
    now, before = arrays["now"].astype(np.int64), np.pad(arrays["before"].astype(np.int64), 8, mode="edge")
    down, across = (extent // 16 for extent in now.shape)
    sums = np.zeros((289, down, across), np.int64)
    for move in range(289):
        dy, dx = divmod(move, 17)
        difference = np.abs(now - before[dy : dy + now.shape[0], dx : dx + now.shape[1]])
        blocks = difference[: 16 * down, : 16 * across].reshape(down, 16, across, 16)
        sums[move] = blocks.sum(axis=(1, 3))
    return {"moves": sums.argmin(axis=0), "costs": sums.min(axis=0)}


def stereo_sad(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The first of the shifts 0 to 31 with the least sum of differences over 7x7 pixels, edges repeated."""
    left = np.pad(arrays["left"].astype(np.int64), 3, mode="edge")
    right = np.pad(arrays["right"].astype(np.int64), ((3, 3), (34, 3)), mode="edge")
    sums = []
    for shift in range(32):
        difference = np.abs(left - right[:, 31 - shift : 31 - shift + left.shape[1]])
        sums.append(np.lib.stride_tricks.sliding_window_view(difference, (7, 7)).sum(axis=(2, 3)))
    return {"shifts": np.stack(sums).argmin(axis=0)}


def fir_int8(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The inner product of the taps with the samples from each place on."""
    windows = np.lib.stride_tricks.sliding_window_view(arrays["samples"].astype(np.int64), 64)
    return {"out": windows @ arrays["taps"].astype(np.int64)}


def iir_first_order(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """y = decay * (y before) + x, for each channel."""
    x, decays = arrays["in"].astype(np.float64), arrays["decays"].astype(np.float64)
    out, y = np.zeros_like(x), np.zeros(x.shape[0])
    for t in range(sizes["n"]):
        y = decays * y + x[:, t]
        out[:, t] = y
    return {"out": out}


def distance_transform(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The squared distance to the nearest pixel below the limit; along a column without one it is 30000."""
    below = arrays["image"] < scalars["limit"]
    rows, columns = np.arange(below.shape[0]), np.arange(below.shape[1])
    steps = np.abs(rows[:, None] - rows[None])
    gaps = np.where(below[None], steps[..., None], 30000).min(axis=1)
    squares = (columns[:, None] - columns[None]) ** 2
    return {"squares": (squares[None] + gaps[:, None, :] ** 2).min(axis=2)}


def hough_lines(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """How many bright pixels each line meets: distances in units of 2^14, their zero in the middle."""
    y, x = np.nonzero(arrays["image"] >= scalars["limit"])
    bins = 2 * (sizes["height"] + sizes["width"])
    directions = arrays["directions"].astype(np.int64)
    places = ((directions[:, :1] * x + directions[:, 1:] * y) >> 14) + bins // 2
    return {"votes": np.stack([np.bincount(row, minlength=bins) for row in places])}


def warp_affine(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Linear interpolation with weights of 8 bits at places of 16 fractional bits, zeros outside."""
    xx, xy, x0, yx, yy, y0 = (int(scalars[name]) for name in ("xx", "xy", "x0", "yx", "yy", "y0"))
    y, x = np.indices((sizes["out_height"], sizes["out_width"]))
    from_x, from_y = xx * x + xy * y + x0, yx * x + yy * y + y0
    fx, fy = (from_x >> 8) & 255, (from_y >> 8) & 255
    total = np.full((*x.shape, 3), 32768, np.int64)
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        row, column = (from_y >> 16) + i, (from_x >> 16) + j
        inside = (row >= 0) & (row < sizes["height"]) & (column >= 0) & (column < sizes["width"])
        weight = np.where(inside, (fy if i else 256 - fy) * (fx if j else 256 - fx), 0)
        taken = arrays["image"][row.clip(0, sizes["height"] - 1), column.clip(0, sizes["width"] - 1)]
        total += weight[..., None] * taken
    return {"out": total >> 16}


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
    "integral-image": integral_image,
    "erode": erode,
    "label-components": label_components,
    "nms-boxes": nms_boxes,
    "canny-suppress": canny_suppress,
    "resize-bicubic": resize_bicubic,
    "gaussian-pyramid": gaussian_pyramid,
    "haar2d": haar2d,
    "fft2d": fft2d,
    "joint-histogram": joint_histogram,
    "template-match": template_match,
    "fft-65536": fft,
    "motion-search": motion_search,
    "stereo-sad": stereo_sad,
    "fir-int8": fir_int8,
    "iir-first-order": iir_first_order,
    "distance-transform": distance_transform,
    "hough-lines": hough_lines,
    "warp-affine": warp_affine,
}
