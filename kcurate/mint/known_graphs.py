"""Graphs that others ask about: KernelBench's tasks, and the computations of built-in families.

Compared by their operators in order, with variants of one operator made equal. A graph of KernelBench gets a
family that no dataset takes (`KERNELBENCH`); one of a built-in family gets that family, so that both are on
the same side of a split.
"""

from __future__ import annotations

from kcurate.mint.graph import Graph
from kcurate.reward.splits import KERNELBENCH

# Variants of one operator.
_SAME = {
    "linear": "product", "linear_bias": "product", "matmul": "product", "matmul_left": "product",
    "matmul_tn": "product", "batched_matmul": "product", "batched_matmul_nt": "product", "gelu_tanh": "gelu",
    "conv1x1": "conv2d", "conv2d_stride": "conv2d", "standardize": "layer_norm", "shift": "shift",
    "channel_bias": "bias", "add_bias": "bias", "max_pool_same": "max_pool",
}  # fmt: skip
# KernelBench's level 1: tasks of one operator, by its names of files (revision of November 2026).
_LEVEL_1 = frozenset(
    [
        "product", "matvec", "gram", "scale", "relu", "leaky_relu", "sigmoid", "tanh", "softmax",
        "log_softmax", "silu", "gelu", "softplus", "softsign", "elu", "hardsigmoid", "hardtanh", "relu6",
        "instance_norm", "rms_norm", "l1_normalize", "l2_normalize", "layer_norm", "row_norm", "max_pool",
        "average_pool", "row_sum", "row_mean", "row_max", "row_min", "column_sum", "column_mean",
        "column_max", "argmax", "argmin", "conv2d", "depthwise_conv2d", "conv1d_causal", "depthwise_conv1d",
        "cumsum", "reverse_cumsum", "exclusive_cumsum", "mean_squared_error", "cross_entropy", "huber",
        "kl_divergence", "cosine_similarity", "hardswish", "logsigmoid", "mish",
    ]
)  # fmt: skip
# Level 2: tasks of several.
_LEVEL_2 = frozenset(
    tuple(line.split())
    for line in """
    conv2d relu bias
    product shift scale relu
    product scale leaky_relu
    product scale row_sum scale
    product scale add hardtanh logsumexp mish
    product mish mish
    product scale add
    product sigmoid logsumexp
    product scale hardtanh gelu
    conv2d scale leaky_relu gelu
    product sigmoid row_sum
    conv2d relu hardswish
    product silu scale
    product relu scale
    product softmax
    product dropout_mask softmax
    conv2d gelu channel_mean
    conv2d hardswish relu
    product sigmoid scale add
    conv2d scale leaky_relu
    product bias relu
    product silu scale hardtanh tanh hardtanh
    conv2d tanh scale bias max_pool
    product scale gelu
    conv2d shift shift mish
    conv2d shift hardswish max_pool mish
    product bias silu tanh gelu hardtanh
    product gelu softmax
    conv2d average_pool sigmoid row_sum
    """.strip().splitlines()
)
# Built-in families whose computation a graph can be.
_FAMILIES = {
    ("causal_mask", "softmax"): "causal-softmax",
    ("cummax",): "cummax-rows",
    ("scores", "softmax", "attend"): "attention",
    ("scores", "causal_mask", "softmax", "attend"): "attention",
    ("scores", "window_mask", "softmax", "attend"): "attention-window",
    ("swiglu",): "swiglu",
    ("softmax_backward",): "softmax-backward",
    ("cross_entropy_backward",): "cross-entropy-backward",
    ("rms_norm_backward",): "rmsnorm-backward",
    ("quantize_rows",): "quantize-int8",
    ("topk",): "topk",
    ("embedding",): "embedding",
    ("rotary",): "rope",
    ("product", "gelu"): "linear-gelu",
    ("product", "relu"): "linear-relu",
    ("product", "bias", "gelu"): "bias-gelu",
    ("add", "layer_norm"): "residual-layernorm",
    ("add", "rms_norm"): "residual-rmsnorm",
    ("product", "logsumexp", "mish"): "linear-logsumexp-mish",
}  # fmt: skip


def family_of(graph: Graph) -> str:
    """The family of a graph's problem."""
    names = tuple(_SAME.get(node.operator, node.operator) for node in graph.nodes)
    if names in _LEVEL_2 or (len(names) == 1 and names[0] in _LEVEL_1):
        return f"{KERNELBENCH}{'-'.join(names)}"
    return _FAMILIES.get(names, f"minted-{graph.key[:12]}")
