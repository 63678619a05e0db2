"""Backward passes: the gradient of an operator's operand, from that of its result (`g`)."""

from __future__ import annotations

from kcurate.mint.graph import Operator
from kcurate.mint.operators.entry import fold, operator

SAME = "g[...], !x[...] -> ..."
ROWS = "g[... j], !x[... j] -> ... j"
ERF = "0.5 * (1.0 + erf(x * 0.7071067811865476))"
SIGMOID = "(1.0 / (1.0 + exp(-x)))"
SOFTMAX = (fold("m", "max", "j", "x"), fold("s", "sum", "j", "exp(x - m)"))
EPS = {"eps": (1e-6, 1e-5, 1e-3)}

# fmt: off
TABLE: tuple[Operator, ...] = (
    operator("relu_backward", "backward", SAME, "torch.where({x} > 0, {g}, 0.0)", "g if x > 0.0 else 0.0",
        "backward pass of ReLU: {g} where {x} is positive, else zero", gives=("keeps",)),
    operator("leaky_relu_backward", "backward", SAME, "torch.where({x} > 0, {g}, {g} * {slope})",
        "g if x > 0.0 else g * slope",
        "backward pass of leaky ReLU with slope {slope}: gradient {g}, input {x}",
        attributes={"slope": (0.01, 0.1, 0.2)}, gives=("keeps",)),
    operator("sigmoid_backward", "backward", "g[...], !y[...] -> ...", "{g} * {y} * (1.0 - {y})",
        "g * y * (1.0 - y)", "backward pass of the sigmoid: gradient {g}, result {y}",
        needs={"y": ("unit",)}, gives=("keeps",)),
    operator("tanh_backward", "backward", "g[...], !y[...] -> ...", "{g} * (1.0 - {y} * {y})",
        "g * (1.0 - y * y)", "backward pass of tanh: gradient {g}, result {y}", needs={"y": ("unit",)},
        gives=("keeps",)),
    operator("gelu_backward", "backward", SAME, "torch.ops.aten.gelu_backward({g}, {x})",
        f'g * ({ERF} + x * 0.3989422804014327 * exp(-0.5 * x * x))',
        "backward pass of exact (erf) GELU: gradient {g}, input {x}", gives=("keeps",)),
    operator("silu_backward", "backward", SAME, "torch.ops.aten.silu_backward({g}, {x})",
        f'g * {SIGMOID} * (1.0 + x * (1.0 - {SIGMOID}))', "backward pass of SiLU: gradient {g}, input {x}",
        gives=("keeps",)),
    operator("softplus_backward", "backward", SAME, "{g} * torch.sigmoid({x})", "g / (1.0 + exp(-x))",
        "backward pass of softplus: gradient {g}, input {x}", gives=("keeps",)),
    operator("hardtanh_backward", "backward", SAME, "torch.where({x}.abs() < 1.0, {g}, 0.0)",
        "g if abs(x) < 1.0 else 0.0",
        "backward pass of hard tanh (-1 .. 1): {g} where {x} is between -1 and 1, else zero",
        "gradient {g} through a clamp of {x} to -1 .. 1: zero outside", gives=("keeps",)),
    operator("elu_backward", "backward", SAME, "torch.where({x} > 0, {g}, {g} * {alpha} * torch.exp({x}))",
        "g if x > 0.0 else g * alpha * exp(x)",
        "backward pass of ELU with alpha {alpha}: gradient {g}, input {x}",
        attributes={"alpha": (0.5, 1.0, 1.5)}, gives=("keeps",)),
    operator("hardswish_backward", "backward", SAME,
        "{g} * torch.where({x} < -3.0, 0.0, torch.where({x} <= 3.0, {x} / 3.0 + 0.5, 1.0))",
        "g * (0.0 if x < -3.0 else (x / 3.0 + 0.5 if x <= 3.0 else 1.0))",
        "backward pass of hard swish: gradient {g}, input {x}", gives=("keeps",)),
    operator("rotary_backward", "backward", "g[... j], !cosine[j], !sine[j] -> ... j",
        "{g} * {cosine} + torch.cat((({g} * {sine})[..., {g}.shape[-1] - {g}.shape[-1] // 2 :], "
        "-({g} * {sine})[..., : {g}.shape[-1] - {g}.shape[-1] // 2]), -1)",
        "g * cosine + (g[..., j + size(j) - size(j) / 2] * sine[j + size(j) - size(j) / 2] if j < size(j) / "
        "2 else -g[..., j - size(j) / 2] * sine[j - size(j) / 2])",
        "backward pass of a rotation by halves (rotary embedding): gradient {g}, cosines {cosine}, sines "
        "{sine}", gives=("keeps",)),
    operator("l2_normalize_backward", "backward", ROWS,
        "({g} - {x} * ({g} * {x}).sum(-1, keepdim=True) / ({x}.square().sum(-1, keepdim=True) + {eps})) * "
        "torch.rsqrt({x}.square().sum(-1, keepdim=True) + {eps})",
        "(g - x * c / (q + eps)) / sqrt(q + eps)",
        "backward pass of scaling each row of {x} to unit length (eps {eps}): gradient {g}, input {x}",
        folds=(fold("q", "sum", "j", "x * x"), fold("c", "sum", "j", "g * x")), attributes=EPS,
        needs={"g": ("small",)}, gives=("keeps",)),
    operator("softmax_backward", "backward", "g[... j], !y[... j] -> ... j",
        "{y} * ({g} - ({g} * {y}).sum(-1, keepdim=True))", "y * (g - d)",
        "backward pass of softmax over the last axis: gradient {g}, result {y}",
        folds=(fold("d", "sum", "j", "g * y"),), needs={"g": ("small",), "y": ("shares",)}, gives=("keeps",)),
    operator("log_softmax_backward", "backward", ROWS,
        "{g} - torch.softmax({x}, -1) * {g}.sum(-1, keepdim=True)", "g - exp(x - m) / s * d",
        "backward pass of log-softmax over the last axis: gradient {g}, logits {x}",
        folds=(*SOFTMAX, fold("d", "sum", "j", "g"))),
    operator("cross_entropy_backward", "backward", "x[... j], !t[...]:index<j, !g[...] -> ... j",
        "(torch.softmax({x}, -1) - F.one_hot({t}, {x}.shape[-1])) * {g}.unsqueeze(-1)",
        "(exp(x - m) / s - (1.0 if j == t else 0.0)) * g",
        "backward pass of cross entropy: softmax of the logits {x} minus one at the class {t}, times the "
        "gradient {g} of each row", folds=SOFTMAX, gives=("small",)),
    operator("layer_norm_backward", "backward", "g[... j], !x[... j], !w[j] -> ... j",
        "torch.ops.aten.native_layer_norm_backward({g}, {x}, [{x}.shape[-1]], {x}.mean(-1, keepdim=True), "
        "torch.rsqrt({x}.var(-1, correction=0, keepdim=True) + {eps}), {w}, None, [True, False, False])[0]",
        "(g * w - d / size(j) - (x - s / size(j)) / sqrt(v / size(j) + eps) * c / size(j)) / sqrt(v / "
        "size(j) + eps)",
        "backward pass of layer normalisation (eps {eps}) to its input: gradient {g}, input {x}, scale {w}",
        folds=(fold("s", "sum", "j", "x"), fold("v", "sum", "j", "(x - s / size(j)) * (x - s / size(j))"),
            fold("d", "sum", "j", "g * w"), fold("c", "sum", "j",
            "g * w * (x - s / size(j)) / sqrt(v / size(j) + eps)")), attributes=EPS, needs={"g": ("small",)}),
    operator("rms_norm_backward", "backward", "g[... j], !x[... j], !w[j] -> ... j",
        "({g} * {w} - {x} * ({g} * {w} * {x}).mean(-1, keepdim=True) / ({x}.square().mean(-1, keepdim=True) "
        "+ {eps})) * torch.rsqrt({x}.square().mean(-1, keepdim=True) + {eps})",
        "(g * w - x * (c / size(j)) / (q / size(j) + eps)) / sqrt(q / size(j) + eps)",
        "backward pass of RMS normalisation (eps {eps}) to its input: gradient {g}, input {x}, scale {w}",
        folds=(fold("q", "sum", "j", "x * x"), fold("c", "sum", "j", "g * w * x")), attributes=EPS,
        needs={"g": ("small",)}),
    operator("norm_scale_backward", "backward", "g[i j], !x[i j] -> j", "({g} * {x}).sum(0)", "a",
        "gradient of a scale along the last axis: the sum over all rows of {g} times {x}",
        folds=(fold("a", "sum", "i", "g * x"),), needs={"g": ("small",)}),
    operator("linear_input_backward", "backward", "g[... j], !w[j k] -> ... k", "{g} @ {w}", "a",
        "backward pass of a linear layer to its input: gradient {g}, weights {w} (one row per feature of "
        "the layer's result)", folds=(fold("a", "sum", "j", "g * w"),), native=True),
    operator("linear_weight_backward", "backward", "g[i j], !x[i k] -> j k", "{g}.t() @ {x}", "a",
        "backward pass of a linear layer to its weights: the transpose of the gradient {g} times the input "
        "{x}", folds=(fold("a", "sum", "i", "g * x"),), native=True),
    operator("mse_backward", "backward", "x[... j], !y[... j], !g[...] -> ... j",
        "2.0 * ({x} - {y}) / {x}.shape[-1] * {g}.unsqueeze(-1)", "2.0 * (x - y) / size(j) * g",
        "backward pass of the mean squared error of each row of {x} against {y}: gradient {g} of each row"),
)
# fmt: on
