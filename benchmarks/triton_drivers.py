"""Programs that call public Triton kernels as tests do, with random inputs of two sizes.

    PYTHONPATH=TREE/src python benchmarks/triton_drivers.py NAME

`NAME` is a function below; `triton_capture.py` runs them all. On a GPU sizes are those of models, elsewhere
(`TRITON_INTERPRET=1`) a few rows.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
# Rows and columns.
SIZES = ((2048, 4096), (4096, 1000)) if DEVICE == "cuda" else ((24, 200), (12, 96))
LIGER, GEMS = "liger_kernel.ops.", "flag_gems.ops."


def of(place: str, name: str) -> Any:
    return getattr(importlib.import_module(place), name)


def real(*shape: int) -> Any:
    import torch

    return torch.randn(*shape, device=DEVICE, requires_grad=True)


def whole(high: int, *shape: int) -> Any:
    import torch

    return torch.randint(0, high, shape, device=DEVICE)


def back(out: Any) -> None:
    """The backward pass of whatever came out."""
    outs = [
        one for one in (out if isinstance(out, tuple) else (out,)) if getattr(one, "requires_grad", False)
    ]
    sum(one.float().sum() for one in outs).backward()


def each(call: Callable[[int, int], Any]) -> None:
    for rows, cols in SIZES:
        back(call(rows, cols))


def geglu() -> None:
    each(lambda n, m: of(LIGER + "geglu", "LigerGELUMulFunction").apply(real(n, m), real(n, m)))


def jsd() -> None:
    each(
        lambda n, m: of(LIGER + "jsd", "LigerJSDFunction").apply(
            real(n, m).log_softmax(-1), real(n, m).log_softmax(-1).detach()
        )
    )


def tvd() -> None:
    each(
        lambda n, m: of(LIGER + "tvd", "LigerTVDLossFunction").apply(
            real(n, m).softmax(-1), real(n, m).softmax(-1).detach()
        )
    )


def kl_div() -> None:
    each(
        lambda n, m: of(LIGER + "kl_div", "LigerKLDivLossFunction").apply(
            real(n, m).log_softmax(-1), real(n, m).softmax(-1).detach()
        )
    )


def poly_norm() -> None:
    each(lambda n, m: of(LIGER + "poly_norm", "LigerPolyNormFunction").apply(real(n, m), real(3), real(1)))


def rms_norm() -> None:
    each(lambda n, m: of(LIGER + "rms_norm", "LigerRMSNormFunction").apply(real(n, m), real(m), 1e-6))


def block_rms_norm() -> None:
    for rows, cols in ((1 << 16, 256), (1 << 15, 128)):
        back(of(LIGER + "rms_norm", "LigerRMSNormFunction").apply(real(rows, cols), real(cols), 1e-6))


def fused_add_rms_norm() -> None:
    norm = of(LIGER + "fused_add_rms_norm", "LigerFusedAddRMSNormFunction")
    each(lambda n, m: norm.apply(real(n, m), real(n, m), real(m), 1e-6))


def layer_norm() -> None:
    each(
        lambda n, m: of(LIGER + "layer_norm", "LigerLayerNormFunction").apply(
            real(n, m), real(m), real(m), 1e-6
        )
    )


def group_norm() -> None:
    norm = of(LIGER + "group_norm", "LigerGroupNormFunction")
    each(lambda n, m: norm.apply(real(4, 16, n * m // 256), real(16), real(16), 16, 4, 1e-6))


def dyt() -> None:
    each(lambda n, m: of(LIGER + "dyt", "LigerDyTFunction").apply(real(n, m), real(1), real(m), real(m)))


def softmax() -> None:
    each(lambda n, m: of(LIGER + "softmax", "LigerSoftmaxFunction").apply(real(n, m)))


def sparsemax() -> None:
    each(lambda n, m: of(LIGER + "sparsemax", "LigerSparsemaxFunction").apply(real(n, m), -1))


def cross_entropy() -> None:
    loss = of(LIGER + "cross_entropy", "LigerCrossEntropyFunction")
    each(lambda n, m: loss.apply(real(n, m), whole(m, n), None)[0])


def vocab_parallel_cross_entropy() -> None:
    loss = of(LIGER + "vocab_parallel_cross_entropy", "LigerVocabParallelCEFunction")
    each(lambda n, m: loss.apply(real(n, 1, m), whole(m, n, 1), None, -100, 0.0, "megatron", "global"))


def rope() -> None:
    def call(rows: int, cols: int) -> Any:
        q, k, angle = real(1, 8, rows, 64), real(1, 2, rows, 64), real(1, rows, 64).detach()
        return of(LIGER + "rope", "LigerRopeFunction").apply(q, k, angle.cos(), angle.sin())

    each(call)


def qwen2vl_mrope() -> None:
    def call(rows: int, cols: int) -> Any:
        q, k, angle = real(1, 8, rows, 64), real(1, 2, rows, 64), real(3, 1, rows, 64).detach()
        turn = of(LIGER + "qwen2vl_mrope", "LigerQwen2VLMRopeFunction")
        return turn.apply(q, k, angle.cos(), angle.sin(), [8, 12, 12])

    each(call)


def neighborhood_attention() -> None:
    attend = of(LIGER + "fused_neighborhood_attention", "LigerFusedNeighborhoodAttentionFunction")
    lengths = (1024, 512) if DEVICE == "cuda" else (48, 32)
    for length in lengths:
        back(attend.apply(*(real(2, 4, length, 64) for _ in range(3)), 7, 1))


def cumsum() -> None:
    for length in (1 << 22, 1 << 21):
        of(GEMS + "cumsum", "cumsum")(real(length).detach(), 0)


def embedding() -> None:
    for rows, cols in ((4096, 1024), (2048, 512)):
        indices = whole(rows, 8192)
        of(GEMS + "embedding", "embedding")(real(rows, cols).detach(), indices)
        grad = real(8192, cols).detach()
        of(GEMS + "embedding", "embedding_backward")(grad, indices, rows, -1, True, False)


def mse_loss() -> None:
    for length in (1 << 24, 1 << 22):
        of(GEMS + "mse_loss", "mse_loss")(real(length).detach(), real(length).detach())


def vdot() -> None:
    for length in (1 << 24, 1 << 22):
        of(GEMS + "vdot", "vdot")(real(length).detach(), real(length).detach())


def pointwise() -> None:
    for rows, cols in SIZES:
        x, y = real(rows, cols).detach(), real(rows, cols).detach()
        of(GEMS + "clamp", "clamp")(x, -1.0, 1.0)
        of(GEMS + "logical_or", "logical_or")(x > 0, y > 0)
        of(GEMS + "threshold", "threshold")(x, 0.5, 0.0)
        of(GEMS + "copy", "copy_")(x, y)
        of(GEMS + "normal", "normal_tensor_tensor")(x, y.abs())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
