"""Products: matrices, batches, convolutions, attention. Sums over the axes that the result lacks."""

from __future__ import annotations

from typing import Any

from kcurate.mint.graph import Kind, Operator
from kcurate.mint.operators.entry import fold, operator

INSIDE = "(y + r >= {pad}) & (y + r < size(y) + {pad}) & (x_ + s >= {pad}) & (x_ + s < size(x_) + {pad})"


def _product(
    name: str,
    kind: Kind,
    shapes: str,
    torch: str,
    over: str,
    *words: str,
    term: str = "x * w",
    result: str = "a",
    **others: Any,
) -> Operator:
    return operator(
        name,
        kind,
        shapes,
        torch,
        result,
        *words,
        folds=(fold("a", "sum", over, term),),
        native=True,
        **others,
    )


# fmt: off
TABLE: tuple[Operator, ...] = (
    _product("matmul", "gemm", "x[... k], !w[k j] -> ... j", "{x} @ {w}", "k",
        "matrix product of {x} and {w}"),
    _product("linear", "gemm", "x[... k], !w[j k] -> ... j", "F.linear({x}, {w})", "k",
        "{x} times the transpose of the weights {w}",
        "linear layer with the weights {w}, one row per feature of the result, on {x}"),
    _product("linear_bias", "gemm", "x[... k], !w[j k], !b[j] -> ... j", "F.linear({x}, {w}, {b})", "k",
        "{x} times the transpose of the weights {w}, plus the bias {b}", result="a + b"),
    _product("matmul_left", "gemm", "!w[i k], x[k j] -> i j", "{w} @ {x}", "k",
        "matrix product of {w} and {x}"),
    _product("matmul_tn", "gemm", "x[k i], !w[k j] -> i j", "{x}.t() @ {w}", "k",
        "the transpose of {x} times {w}"),
    _product("gram", "gemm", "x[... i k] -> ... i j", "{x} @ {x}.transpose(-1, -2)", "k",
        "{x} times its own transpose", term="x * x[..., j, k]", extents={"j": "i"}),
    _product("matvec", "gemm", "x[... k], !w[k] -> ...", "{x} @ {w}", "k", "{x} times the vector {w}"),
    _product("batched_matmul", "gemm", "x[b i k], !w[b k j] -> b i j", "torch.bmm({x}, {w})", "k",
        "batched matrix product of {x} and {w}"),
    _product("batched_matmul_nt", "gemm", "x[b i k], !w[b j k] -> b i j",
        "torch.bmm({x}, {w}.transpose(1, 2))", "k", "batched matrix product of {x} and the transpose of {w}"),
    operator("int8_linear", "gemm", "!q[i k]:int8, !w[j k]:int8, !s[j]:float32 -> i j",
        "({q}.float() @ {w}.float().t()) * {s}", "a * s",
        "int8 matrix product of {q} and the transpose of {w}, scaled by {s} for each column",
        folds=(fold("a", "sum", "k", "q * w", dtype="int"),)),
    operator("weight_only_linear", "gemm", "x[... k], !w[j k]:int8, !s[j]:float32 -> ... j",
        "F.linear({x}, {w}.to({x}.dtype)) * {s}", "a * s",
        "{x} times the transpose of the int8 weights {w}, scaled by {s} for each column",
        folds=(fold("a", "sum", "k", "x * w"),)),
    _product("scores", "attention", "x[b h i d], !w[b h j d] -> b h i j",
        "({x} @ {w}.transpose(-1, -2)) * {factor}", "d",
        "attention scores: {x} times the transpose of the keys {w} in each head, times {factor}",
        gives=("scores",), result="a * factor", attributes={"factor": (0.125, 0.25, 0.0883)}),
    _product("attend", "attention", "x[b h i j], !w[b h j d] -> b h i d", "{x} @ {w}", "j",
        "{x} times the values {w} in each head", needs={"x": ("shares",)}),
    _product("conv2d", "convolution", "x[n c y x_], !w[o c r s] -> n o y x_",
        "F.conv2d({x}, {w}, padding={pad})", "c r s",
        "2-D convolution (cross-correlation) of {x} with the filters {w} of 3 x 3, stride 1, zero padding "
        "{pad}",
        term=f'x[n, c, y + r - {{pad}}, x_ + s - {{pad}}] * w if {INSIDE} else 0.0'.replace("{pad}", "pad"),
        extents={"r": "3", "s": "3"}, attributes={"pad": (1,)}),
    _product("conv2d_stride", "convolution", "x[n c y x_], !w[o c r s] -> n o p q",
        "F.conv2d({x}, {w}, stride=2)", "c r s",
        "2-D convolution (cross-correlation) of {x} with the filters {w} of 2 x 2, stride 2, no padding",
        term="x[n, c, 2 * p + r, 2 * q + s] * w", extents={"r": "2", "s": "2", "p": "y / 2", "q": "x_ / 2"}),
    _product("conv1x1", "convolution", "x[n c y x_], !w[o c] -> n o y x_",
        "F.conv2d({x}, {w}[:, :, None, None])", "c",
        "1 x 1 convolution of {x} with {w} over the channels"),
    _product("depthwise_conv2d", "convolution", "x[n c y x_], !w[c r s] -> n c y x_",
        "F.conv2d({x}, {w}.unsqueeze(1), padding={pad}, groups={w}.shape[0])", "r s",
        "depthwise 2-D convolution (cross-correlation) of {x} with a 3 x 3 filter {w} a channel, zero "
        "padding {pad}",
        term=f'x[n, c, y + r - {{pad}}, x_ + s - {{pad}}] * w if {INSIDE} else 0.0'.replace("{pad}", "pad"),
        extents={"r": "3", "s": "3"}, attributes={"pad": (1,)}),
    _product("conv1d_causal", "convolution", "x[b c t], !w[o c r] -> b o t",
        "F.conv1d(F.pad({x}, (2, 0)), {w})", "c r",
        "causal 1-D convolution (cross-correlation) of {x} with the filters {w} of width 3, two zeros "
        "before each row", term="x[b, c, t + r - 2] * w if t + r >= 2 else 0.0", extents={"r": "3"}),
    _product("depthwise_conv1d", "convolution", "x[b c t], !w[c r] -> b c t",
        "F.conv1d(F.pad({x}, (3, 0)), {w}.unsqueeze(1), groups={w}.shape[0])", "r",
        "causal depthwise 1-D convolution (cross-correlation) of {x} with a filter {w} of width 4 a "
        "channel, three zeros before each row", term="x[b, c, t + r - 3] * w if t + r >= 3 else 0.0",
        extents={"r": "4"}),
)
# fmt: on
