"""Operators that move elements: gathers, scatters, pooling, positional masks of attention."""

from __future__ import annotations

from kcurate.mint.graph import Operator
from kcurate.mint.operators.entry import fold, operator

MOVED = ("keeps", "exact")
ROWS = "x[... j] -> ... j"
IMAGE = "x[n c y x_] -> n c p q"
HALF = {"p": "y / 2", "q": "x_ / 2", "r": "2", "s": "2"}
WINDOW = "x[n c, 2 * p + r, 2 * q + s]".replace("n c", "n, c")
SCORES = "x[b h i j] -> b h i j"

# fmt: off
TABLE: tuple[Operator, ...] = (
    operator("transpose", "gather", "x[... i j] -> ... j i", "{x}.transpose(-1, -2).contiguous()", "x",
        "{x} with its last two axes exchanged", "the transpose of {x}", gives=MOVED),
    operator("swap_heads", "gather", "x[b i h d] -> b h i d", "{x}.transpose(1, 2).contiguous()", "x",
        "{x} with its second and third axes exchanged", gives=MOVED),
    operator("flip", "gather", ROWS, "{x}.flip(-1)", "x[..., size(j) - 1 - j]",
        "{x} reversed along its last axis", gives=MOVED),
    operator("roll", "gather", ROWS, "torch.roll({x}, {shift}, -1)",
        "x[..., (j + size(j) - shift % size(j)) % size(j)]",
        "{x} rotated to the right by {shift} along its last axis, the end wrapping to the start",
        attributes={"shift": (1, 2, 3, 5)}, gives=MOVED),
    operator("delay", "gather", ROWS, "F.pad({x}, ({shift}, 0))[..., :{x}.shape[-1]]",
        "x[..., j - shift] if j >= shift else 0.0",
        "{x} shifted to the right by {shift} along its last axis, zeros moving in",
        attributes={"shift": (1, 2, 3)}, gives=MOVED),
    operator("difference", "gather", ROWS, "{x} - F.pad({x}, (1, 0))[..., :-1]",
        "x - (x[..., j - 1] if j >= 1 else 0.0)",
        "each element of {x} minus the one before it in its row (the first minus zero)", gives=("keeps",)),
    operator("even_columns", "gather", "x[... j] -> ... t", "{x}[..., 1::2].contiguous()",
        "x[..., 2 * t + 1]", "the elements of {x} at odd places of its last axis (1, 3, 5, ...)",
        extents={"t": "j / 2"}, gives=MOVED),
    operator("pad_columns", "gather", "x[... j] -> ... t", "F.pad({x}, ({before}, {after}))",
        "x[..., t - before] if (t >= before) & (t < size(j) + before) else 0.0",
        "{x} padded along its last axis with zeros: {before} before, {after} behind",
        extents={"t": "j + before + after"},
        attributes={"before": (1, 2, 3), "after": (1, 2, 4)}, gives=MOVED),
    operator("repeat_columns", "gather", "x[... j] -> ... t", "{x}.repeat_interleave({times}, -1)",
        "x[..., t / times]", "every element of {x} repeated {times} times along its last axis",
        extents={"t": "j * times"}, attributes={"times": (2, 3)}, gives=MOVED),
    operator("gather_rows", "gather", "x[v j], !ids[i]:index<v -> i j", "{x}[{ids}]", "x[ids, j]",
        "the rows of {x} that {ids} names, in its order", gives=MOVED),
    operator("embedding", "gather", "!table[v d], !ids[b i]:index<v -> b i d",
        "F.embedding({ids}, {table})", "table[ids, d]",
        "the embedding of {ids}: the rows of {table} that they name", gives=MOVED),
    operator("embedding_sum", "gather", "!table[v d], !ids[i t]:index<v -> i d",
        "{table}[{ids}].sum(1)", "a", "for each row of {ids} the sum of the rows of {table} that it names",
        "embedding bag: the rows of {table} that each row of {ids} names, added up",
        folds=(fold("a", "sum", "t", "table[ids, d]"),)),
    operator("gather_columns", "gather", "x[i j], !ids[i t]:index<j -> i t", "{x}.gather(-1, {ids})",
        "x[i, ids]", "from each row of {x} the elements that the same row of {ids} names", gives=MOVED),
    operator("rotary", "gather", "x[... j], !cosine[j], !sine[j] -> ... j",
        "{x} * {cosine} + torch.cat((-{x}[..., {x}.shape[-1] // 2 :], {x}[..., : {x}.shape[-1] // 2]), -1) "
        "* {sine}",
        "x * cosine + (-x[..., j + size(j) / 2] if j < size(j) - size(j) / 2 else x[..., j - (size(j) - "
        "size(j) / 2)]) * sine",
        "{x} rotated by halves: {x} times {cosine} plus its halves exchanged (the second one negated) times "
        "{sine}", gives=("keeps",)),
    operator("concat_columns", "gather", "x[... j], y[... k] -> ... t", "torch.cat(({x}, {y}), -1)",
        "x[..., t] if t < size(j) else y[..., t - size(j)]", "{x} and {y} side by side along the last axis",
        extents={"t": "j + k"}, gives=MOVED),
    operator("index_add", "scatter", "x[i j], !ids[i]:index<v, !base[v j] -> v j",
        "{base}.index_add(0, {ids}, {x})", "base + s",
        "{base} with each row of {x} added to the row that {ids} names",
        folds=(fold("s", "sum", "i", "x if ids == v else 0.0"),)),
    operator("row_histogram", "scatter", "!ids[i j]:index<v, !w[v] -> i v",
        "torch.zeros({ids}.shape[0], {w}.shape[0], device={w}.device, dtype={w}.dtype).scatter_add_(1, "
        "{ids}, torch.ones({ids}.shape, device={w}.device, dtype={w}.dtype)) * {w}", "c * w",
        "how often each class is named in each row of {ids}, times its weight {w}",
        folds=(fold("c", "sum", "j", "1 if ids == v else 0", dtype="int"),)),
    operator("one_hot_scale", "scatter", "!ids[i]:index<v, !w[v] -> i v",
        "F.one_hot({ids}, {w}.shape[0]) * {w}", "w if ids == v else 0.0",
        "one row per element of {ids}: the weight {w} at the class that it names, zero elsewhere",
        gives=MOVED),
    operator("scatter_columns", "scatter", "x[i j], !ids[i]:index<j, !u[i] -> i j",
        "{x}.scatter(1, {ids}.unsqueeze(1), {u}.unsqueeze(1))", "u if ids == j else x",
        "{x} with the element that {ids} names in each row replaced by that of {u}", gives=MOVED),
    operator("max_pool", "pooling", IMAGE, "F.max_pool2d({x}, 2)", "m",
        "2 x 2 max pooling of {x} with stride 2", extents=HALF, folds=(fold("m", "max", "r s", WINDOW),),
        gives=MOVED),
    operator("average_pool", "pooling", IMAGE, "F.avg_pool2d({x}, 2)", "a / 4.0",
        "2 x 2 average pooling of {x} with stride 2", extents=HALF,
        folds=(fold("a", "sum", "r s", WINDOW),), gives=("keeps",)),
    operator("max_pool_same", "pooling", "x[n c y x_] -> n c y x_", "F.max_pool2d({x}, 3, 1, 1)", "m",
        "3 x 3 max pooling of {x} with stride 1, ignoring places outside the image",
        extents={"r": "3", "s": "3"},
        folds=(fold("m", "max", "r s",
            "x[n, c, y + r - 1, x_ + s - 1] if (y + r >= 1) & (y + r <= size(y)) & (x_ + s >= 1) & (x_ + s "
            "<= size(x_)) else -inf"),), gives=MOVED),
    operator("upsample", "gather", IMAGE, 'F.interpolate({x}, scale_factor=2, mode="nearest")',
        "x[n, c, p / 2, q / 2]", "{x} at twice the height and width, each pixel repeated",
        extents={"p": "y * 2", "q": "x_ * 2"}, gives=MOVED),
    operator("pixel_norm", "normalization", "x[n c y x_] -> n c y x_",
        "{x} * torch.rsqrt({x}.square().mean(1, keepdim=True) + {eps})", "x / sqrt(z / size(c) + eps)",
        "{x} over the root of the mean of the squares over its channels plus {eps}, at every pixel",
        attributes={"eps": (1e-06, 1e-05, 0.001)}, folds=(fold("z", "sum", "c", "x * x"),), gives=("small",)),
    operator("causal_mask", "attention", SCORES,
        "{x}.masked_fill(torch.ones({x}.shape[-2:], dtype=torch.bool, device={x}.device).triu(1), -10000.0)",
        "x if j <= i else -10000.0", "the scores {x} with -10000 above the diagonal (causal mask)",
        needs={"x": ("scores",)}, gives=("scores",)),
    operator("window_mask", "attention", SCORES,
        "{x}.masked_fill(~torch.ones({x}.shape[-2:], dtype=torch.bool, device={x}.device).tril().triu(1 - "
        "{window}), -10000.0)", "x if (j <= i) & (j > i - window) else -10000.0",
        "the scores {x} with -10000 outside a causal window of {window} keys",
        attributes={"window": (4, 8, 16)}, needs={"x": ("scores",)}, gives=("scores",)),
    operator("length_mask", "attention", "x[b h i j], !lengths[b]:index<j -> b h i j",
        "{x}.masked_fill(torch.arange({x}.shape[-1], device={x}.device) > {lengths}.view(-1, 1, 1, 1), "
        "-10000.0)", "x if j <= lengths else -10000.0",
        "the scores {x} with -10000 at the keys after place {lengths} of each sequence",
        needs={"x": ("scores",)}, gives=("scores",)),
    operator("distance_bias", "attention", "x[b h i j], !slopes[h] -> b h i j",
        "{x} - {slopes}.view(1, -1, 1, 1) * (torch.arange({x}.shape[-2], device={x}.device).unsqueeze(1) - "
        "torch.arange({x}.shape[-1], device={x}.device)).abs() * 0.0625",
        "x - slopes * abs(i - j) * 0.0625",
        "the scores {x} minus the slope of each head ({slopes}) times the distance of query and key over 16 "
        "(ALiBi)", needs={"x": ("scores",)}, gives=("scores", "keeps")),
)
# fmt: on
