"""What a practitioner would call for a family: the libraries behind torch and CuPy, or torch.compile.

Each entry of `CALLS` is a family's calls, of which `corpus_libraries.py` times the fastest: name, function,
outputs. A function takes the inputs by name as tensors (outputs and `inout` buffers are written to where the
library lets one), torch, the scalars and the sizes; it returns a call without arguments, whose result is held
against our side's outputs of these names. What a call needs in another form (a layout, a sparse matrix) is
made before it is timed. `compiled`: the plain formula through torch.compile. Not covered: timing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kcurate.problem.expressions import evaluate
from kcurate.records import Problem

Inputs = Mapping[str, Any]
Make = Callable[[Inputs, Any, Mapping[str, float], Mapping[str, int]], Callable[[], Any]]


@dataclass(frozen=True)
class LibraryCall:
    """`gpu_only`: it has no CPU form, so its meaning is first tried on a GPU."""

    library: str
    make: Make
    outputs: tuple[str, ...]
    gpu_only: bool = False


CALLS: dict[str, list[LibraryCall]] = {}


def torch_dtype(name: str, t: Any) -> Any:
    """A buffer's dtype as torch has it; two 4-bit numbers are a byte."""
    return getattr(t, {"float8_e4m3": "float8_e4m3fn", "uint4x2": "uint8", "bool": "uint8"}.get(name, name))


def tensor(values: Any, dtype: str, t: Any) -> Any:
    """A NumPy array as a tensor of the same bits."""
    if values.dtype.kind in "fiu" and values.dtype.isbuiltin == 1:
        return t.from_numpy(values)
    bits = t.from_numpy(values.view(f"int{8 * values.dtype.itemsize}"))
    return bits.view(torch_dtype(dtype, t))


def scalars_of(problem: Problem, sizes: Mapping[str, int]) -> dict[str, float]:
    """The problem's scalars as numbers."""
    return {
        name: float(evaluate(one.value, sizes) if isinstance(one.value, str) else one.value)
        for name, one in problem.scalars.items()
        if isinstance(one.value, int | float | str)
    }


def compared(ours: Any, theirs: Any) -> float:
    """The norm of the difference over that of ours; NumPy's, torch's or CuPy's arrays.

    Both on a GPU: compared there.
    """
    if all(hasattr(one, "double") and not str(one.dtype).startswith("torch.uint") for one in (ours, theirs)):
        first, second = ours.double().flatten(), theirs.double().flatten()
        if first.shape != second.shape:
            return float("inf")
        return float((first - second).norm() / first.norm().clamp_min(1e-300))
    first, second = (_host(one).ravel() for one in (ours, theirs))
    if first.shape != second.shape:
        return float("inf")
    return float(np.linalg.norm(first - second) / max(float(np.linalg.norm(first)), 1e-300))


def _host(values: Any) -> Any:
    if hasattr(values, "double"):
        values = values.cpu() if str(values.dtype).startswith("torch.uint") else values.double().cpu()
    return np.asarray(values.get() if hasattr(values, "get") else values, np.float64)


def call(library: str, families: str, outputs: str, *, gpu_only: bool = False) -> Callable[[Make], Make]:
    """Register a call for one or more families."""

    def register(make: Make) -> Make:
        for family in families.split():
            CALLS.setdefault(family, []).append(LibraryCall(library, make, tuple(outputs.split()), gpu_only))
        return make

    return register


def compiled(families: str, outputs: str) -> Callable[[Make], Make]:
    """Register a formula: the returned call is compiled as a whole by torch.compile."""

    def register(make: Make) -> Make:
        def compiling(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
            formula = make(x, t, s, z)
            if not t.cuda.is_available():
                return formula
            return t.compile(formula, dynamic=False, fullgraph=True)  # type: ignore[no-any-return]

        call("torch.compile", families, outputs)(compiling)
        return make

    return register


# Products of matrices


@call("cuBLAS fp16", "hgemm batched-gemm-half", "c")
@call("cuBLAS fp32", "sgemm batched-gemm", "c")
@call("cuBLAS bf16", "matmul-bf16", "c")
def _product(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: x["a"] @ x["b"]


@call("cuBLAS bf16", "linear-bf16 linear-split-k linear-stream-k", "c")
def _linear(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.nn.functional.linear(x["a"], x["b"])


@call("cuBLAS bf16", "decode-linear-bf16", "y")
def _decode_linear(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.nn.functional.linear(x["x"], x["w"])


@call("cuBLAS bf16", "batched-gemm-bf16", "c")
def _batched(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.bmm(x["a"].transpose(1, 2), x["b"])


@call("cuBLAS fp32", "gemm", "c")
def _gemm(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    first = x["c"].clone()
    return lambda: t.addmm(first, x["b"].t(), x["a"], beta=s["beta"], alpha=s["alpha"])


@call("cuBLAS fp32", "gemv", "y")
def _gemv(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    first = x["y"].clone()
    return lambda: t.addmv(first, x["a"], x["x"], beta=s["beta"], alpha=s["alpha"])


@call("cuBLAS fp32", "ger", "a")
def _ger(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    # In place, as our side: the first call is compared, what later ones add does not change the time.
    return lambda: x["a"].addr_(x["x"], x["y"], alpha=s["alpha"])


@call("cuBLAS fp32", "gram", "g")
def _gram(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: x["a"].t() @ x["a"]


@call("cuBLAS bf16 (all of the product)", "gram-bf16", "c")
@call("cuBLAS fp16 (all of the product)", "syrk-half", "c")
def _outer(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: x["a"] @ x["a"].t()


@call("cuBLASLt fp8", "linear-fp8", "c", gpu_only=True)
def _linear_fp8(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    one = t.ones((), device="cuda")
    scale = t.full((), s["scale"], device="cuda")
    return lambda: t._scaled_mm(x["a"], x["b"].t(), scale_a=scale, scale_b=one, out_dtype=t.bfloat16)


@call("cuBLASLt int8, then scales", "linear-int8", "c", gpu_only=True)
def _linear_int8(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        sums = t._int_mm(x["a"], x["b"].t()).float()
        return (sums * x["row_scale"][:, None] * x["col_scale"]).bfloat16()

    return t.compile(run, dynamic=False)  # type: ignore[no-any-return]


@call("cuBLAS bf16, a product an expert", "grouped-gemm", "c")
def _grouped(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    ends = x["offsets"].tolist()
    out = t.empty(len(x["a"]), x["b"].shape[1], dtype=x["a"].dtype, device=x["a"].device)

    def run() -> Any:
        for expert, (first, last) in enumerate(pairwise(ends)):
            t.mm(x["a"][first:last], x["b"][expert].t(), out=out[first:last])
        return out

    return run


@call("torch._grouped_mm", "grouped-gemm", "c", gpu_only=True)
def _grouped_mm(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    ends = x["offsets"][1:].contiguous()
    return lambda: t._grouped_mm(x["a"], x["b"].transpose(1, 2), offs=ends)


@compiled("linear-residual", "c")
def _linear_residual(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    bias = x["bias"].bfloat16()
    return lambda: t.nn.functional.linear(x["a"], x["b"], bias) + x["residual"]


@compiled("linear-sigmoid-residual", "y")
def _linear_sigmoid(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        value = t.nn.functional.linear(x["x"], x["w"]).float() + x["bias"]
        return (value + s["scale"] * t.sigmoid(value)).bfloat16()

    return run


@compiled("linear-gelu", "y")
def _linear_gelu(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        value = t.nn.functional.linear(x["x"], x["w"]).float() + x["bias"]
        return t.nn.functional.gelu(value, approximate="tanh").half()

    return run


@compiled("linear-swiglu", "c")
def _linear_swiglu(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    linear = t.nn.functional.linear
    return lambda: t.nn.functional.silu(linear(x["a"], x["gate"])) * linear(x["a"], x["up"])


@compiled("decode-swiglu", "y")
def _decode_swiglu(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    linear = t.nn.functional.linear
    return lambda: t.nn.functional.silu(linear(x["x"], x["gate"])) * linear(x["x"], x["up"])


@compiled("lora-linear", "y")
def _lora(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    linear = t.nn.functional.linear
    return lambda: linear(x["x"], x["w"]) + s["scale"] * linear(linear(x["x"], x["a"]), x["b"])


@compiled("pairwise-distance-half", "out")
def _distances(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        norms = [x[name].float().square().sum(1) for name in "xy"]
        return norms[0][:, None] + norms[1] - 2.0 * (x["x"] @ x["y"].t()).float()

    return run


# Attention


def _sdpa(q: Any, k: Any, v: Any, t: Any, backend: str, **options: Any) -> Callable[[], Any]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def run() -> Any:
        with sdpa_kernel(getattr(SDPBackend, backend)):
            return t.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    return run


def _attention(backend: str, causal: bool) -> Make:
    def make(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
        q, k, v = (x[name][None] for name in "qkv")
        run = _sdpa(q, k, v, t, backend, scale=s["scale"], is_causal=causal)
        return lambda: run()[0]

    return make


for _name, _backend in (("cuDNN", "CUDNN_ATTENTION"), ("flash", "FLASH_ATTENTION")):
    call(f"SDPA, {_name}", "attention-half", "out", gpu_only=True)(_attention(_backend, causal=False))
    call(f"SDPA, {_name}", "attention-causal", "out", gpu_only=True)(_attention(_backend, causal=True))
call("SDPA, memory-efficient", "attention", "out", gpu_only=True)(
    _attention("EFFICIENT_ATTENTION", causal=False)
)
call("SDPA, plain", "attention", "out")(_attention("MATH", causal=False))


def _gqa(backend: str) -> Make:
    def make(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
        # Queries stand at the end of the keys.
        from torch.nn.attention.bias import causal_lower_right

        q, k, v = (x[name].transpose(1, 2) for name in "qkv")
        bias = causal_lower_right(q.shape[2], k.shape[2])
        run = _sdpa(q, k, v, t, backend, scale=s["scale"], attn_mask=bias, enable_gqa=True)
        return lambda: run().transpose(1, 2)

    return make


call("SDPA, flash", "attention-gqa", "out", gpu_only=True)(_gqa("FLASH_ATTENTION"))
call("SDPA, cuDNN", "attention-gqa", "out", gpu_only=True)(_gqa("CUDNN_ATTENTION"))


@call("SDPA, plain", "decode-attention", "out")
def _decode_attention(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    run = _sdpa(x["q"][None, :, None], x["k"][None], x["v"][None], t, "MATH", scale=s["scale"])
    return lambda: run()[0, :, 0]


@call("flash attention's backward", "attention-backward", "dq dk dv", gpu_only=True)
def _attention_backward(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    given = [x[name][None] for name in ("dout", "q", "k", "v", "out", "lse")]
    none = t.zeros((), dtype=t.uint64, device="cuda")
    more = (None, None, z["n"], z["n"], 0.0, True, none, none)
    backward = t.ops.aten._scaled_dot_product_flash_attention_backward
    return lambda: tuple(one[0] for one in backward(*given, *more, scale=s["scale"])[:3])


# Norms, softmax, losses


@compiled("layernorm", "out")
@call("torch layer_norm", "layernorm", "out")
def _layernorm(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    shape = x["in"].shape[1:]
    return lambda: t.nn.functional.layer_norm(x["in"], shape, x["weight"], x["bias"], s["eps"])


@call("torch native_layer_norm_backward", "layernorm-backward", "dx dweight dbias", gpu_only=True)
def _layernorm_backward(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    w, mean, rstd = x["weight"], x["mean"][:, None], x["rstd"][:, None]
    shape, wanted = x["x"].shape[1:], [True, True, True]
    backward = t.ops.aten.native_layer_norm_backward
    return lambda: backward(x["dy"], x["x"], shape, mean, rstd, w, t.zeros_like(w), wanted)


@call("torch group_norm", "groupnorm", "out")
def _groupnorm(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    values, shape = x["in"].flatten(1, 2), x["in"].shape
    weight, bias = x["weight"].flatten(), x["bias"].flatten()
    return lambda: t.nn.functional.group_norm(values, shape[1], weight, bias, s["eps"]).view(shape)


@call("cuDNN batch_norm", "batchnorm", "out")
def _batchnorm(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    norm = t.nn.functional.batch_norm
    return lambda: norm(x["in"], None, None, x["weight"], x["bias"], training=True, eps=s["eps"])


@compiled("softmax", "out")
@call("cuDNN softmax", "softmax", "out")
def _softmax(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.softmax(x["in"], dim=1)


@compiled("log-softmax", "out")
@call("torch log_softmax", "log-softmax", "out")
def _log_softmax(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.log_softmax(x["in"], dim=1)


@call("torch _softmax_backward_data", "softmax-backward", "dx")
def _softmax_backward(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.ops.aten._softmax_backward_data(x["dy"], x["y"], 1, x["y"].dtype)


@compiled("cross-entropy", "loss")
@call("torch cross_entropy", "cross-entropy", "loss")
def _cross_entropy(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    labels = x["labels"].long()
    return lambda: t.nn.functional.cross_entropy(x["logits"], labels, reduction="none")


@call("torch cross_entropy", "label-smoothing-loss", "loss")
def _smoothed(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    labels, loss = x["labels"].long(), t.nn.functional.cross_entropy
    return lambda: loss(x["logits"].float(), labels, reduction="none", label_smoothing=s["smoothing"])


@compiled("causal-softmax", "out")
def _causal_softmax(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    n = x["in"].shape[-1]
    above = t.ones(n, n, dtype=t.bool, device=x["in"].device).triu(1)
    return lambda: t.softmax((x["in"].float() * s["scale"]).masked_fill(above, -t.inf), -1).half()


@compiled("residual-rmsnorm", "residual out")
def _residual_rmsnorm(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    first = x["residual"].clone()

    def run() -> Any:
        total = (x["x"] + first).float()
        normal = total * t.rsqrt(total.square().mean(1, keepdim=True) + s["eps"])
        return total.half(), (normal * x["weight"].float()).half()

    return run


@compiled("rmsnorm-backward", "dx dweight")
def _rmsnorm_backward(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        values, dy = x["x"].float(), x["dy"].float()
        rstd = t.rsqrt(values.square().mean(1, keepdim=True) + s["eps"])
        normal, wide = values * rstd, dy * x["weight"].float()
        dx = rstd * (wide - normal * (wide * normal).mean(1, keepdim=True))
        return dx.half(), (dy * normal).sum(0)

    return run


@compiled("l2-normalize", "out")
def _l2(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        values = x["x"].float()
        return (values / values.norm(dim=1, keepdim=True).clamp_min(s["eps"])).bfloat16()

    return run


@compiled("row-standardize", "out")
def _standardize(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.nn.functional.layer_norm(x["values"], x["values"].shape[1:], eps=s["eps"])


@compiled("distillation-kl", "loss")
def _distillation(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        heat = s["temperature"]
        student, teacher = (t.log_softmax(x[one].float() / heat, 1) for one in ("student", "teacher"))
        return (teacher.exp() * (teacher - student)).sum(1) * heat * heat

    return run


@compiled("triplet-margin", "loss")
def _triplet(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        near, far = (
            (x["anchor"].float() - x[one].float()).square().sum(1).sqrt() for one in ("positive", "negative")
        )
        return (near - far + s["margin"]).clamp_min(0)

    return run


# Elementwise chains, optimisers, layouts


@compiled("bias-gelu", "out")
def _bias_gelu(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.nn.functional.gelu(x["in"] + x["bias"], approximate="tanh") + x["residual"]


@compiled("swiglu-backward", "dgate dup")
def _swiglu_backward(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        gate, up, dy = (x[name].float() for name in ("gate", "up", "dy"))
        sig = t.sigmoid(gate)
        return (dy * up * sig * (1 + gate * (1 - sig))).bfloat16(), (dy * gate * sig).bfloat16()

    return run


@compiled("quantize-int8-tokens", "out scale")
def _quantize(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        values = x["x"].float()
        scale = values.abs().amax(1) / 127.0
        return t.round(values / scale[:, None]).clamp(-127, 127).to(t.int8), scale

    return run


@compiled("dequantize-int4", "out")
def _dequantize(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    rows, groups = x["scales"].shape

    def run() -> Any:
        low, high = x["packed"] & 15, x["packed"] >> 4
        values = t.stack((low, high), -1).view(rows, groups, 128).half()
        return ((values - x["zeros"][..., None].half()) * x["scales"][..., None]).view(rows, -1)

    return run


@compiled("rmsnorm-fp8", "out scale")
def _rmsnorm_fp8(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        values = x["x"].float()
        normal = values * t.rsqrt(values.square().mean(1, keepdim=True) + s["eps"]) * x["weight"].float()
        scale = normal.abs().amax(1) / 448.0
        return (normal / scale[:, None]).to(t.float8_e4m3fn), scale

    return run


@compiled("rope", "q")
def _rope(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    first = x["q"].clone()

    def run() -> Any:
        low, high = first.chunk(2, -1)
        cos, sin = x["cos"][:, None], x["sin"][:, None]
        return t.cat((low * cos - high * sin, high * cos + low * sin), -1)

    return run


@compiled("merge-attention-splits", "out whole")
def _merge(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        whole = t.logsumexp(x["logs"], 0)
        weights = t.exp(x["logs"] - whole)
        return (weights[..., None] * x["parts"]).sum(0).bfloat16(), whole

    return run


@call("torch fused Adam step", "adam", "weights", gpu_only=True)
def _adam(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    # Two steps were taken, as the problem's corrections 1 - 0.9^3 and 1 - 0.99^3 say.
    step = t.full((), 3.0, device="cuda")
    lists = [[x["weights"]], [x["gradient"]], [x["m"]], [x["v"]], [], [step]]
    rates = {"lr": s["rate"], "beta1": s["beta1"], "beta2": s["beta2"], "eps": s["eps"]}
    rates |= {"weight_decay": s["shrink"]}

    def run() -> Any:
        t._fused_adamw_(*lists, **rates, amsgrad=False, maximize=False)
        return x["weights"]

    return run


@call("torch copy", "transpose", "out")
def _transpose(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: x["in"].t().contiguous()


@call("torch pixel_shuffle", "pixel-shuffle", "out")
def _pixel_shuffle(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.nn.functional.pixel_shuffle(x["in"], 2).contiguous()


@call("torch embedding_bag", "embedding-bag", "out")
def _embedding_bag(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    bag = t.nn.functional.embedding_bag
    return lambda: bag(x["indices"], x["table"], x["offsets"], mode="sum", include_last_offset=True)


@call("torch index_select", "moe-permute", "out")
def _permute(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    choices = x["place"].shape[1]
    order = t.argsort(x["place"].flatten()) // choices
    return lambda: x["hidden"].index_select(0, order)


@compiled("moe-combine", "out")
def _combine(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    def run() -> Any:
        return (x["rows"][x["place"]].float() * x["weights"][..., None]).sum(1).bfloat16()

    return run


# Convolutions, pooling, images


def _nchw(value: Any) -> Any:
    """Channels last in memory, channels first for torch."""
    return value.movedim(-1, 1)


@call("cuDNN fp32", "conv2d-3x3", "out")
def _conv3x3(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.nn.functional.conv2d(x["in"], x["weights"], padding=1)


@call("cuDNN fp32", "conv2d-grouped", "out")
def _grouped_conv(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.nn.functional.conv2d(x["in"], x["weights"], padding=1, groups=z["groups"])


@call("cuDNN fp32", "depthwise-3x3", "out")
def _depthwise(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    weights = x["weights"][:, None].contiguous()
    return lambda: t.nn.functional.conv2d(x["in"], weights, padding=1, groups=len(weights))


@call("cuDNN fp32", "conv3d", "out")
def _conv3d(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.nn.functional.conv3d(x["in"][None], x["weights"], padding=1)[0]


@call("cuDNN bf16, channels last, then ReLU", "conv2d-strided", "out")
def _strided(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    k, _, c = x["weights"].shape
    weights, bias = _nchw(x["weights"].view(k, 3, 3, c)), x["bias"].bfloat16()
    conv = t.nn.functional.conv2d
    return lambda: conv(_nchw(x["in"]), weights, bias, stride=2, padding=1).relu_().movedim(1, -1)


@call("cuDNN bf16, channels last", "conv2d-weight-gradient", "dweights")
def _weight_gradient(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    values, gradient = _nchw(x["in"]), _nchw(x["gradient"])
    shape = (gradient.shape[1], values.shape[1], 3, 3)
    backward = t.nn.grad.conv2d_weight
    return lambda: backward(values, shape, gradient, padding=1).movedim(1, -1).flatten(1, 2)


@call("torch avg over the plane", "average-pool", "out")
def _average(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: x["in"].mean(1)


@call("torch max_pool2d", "maxpool2d-indices", "out")
def _maxpool2d(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    pool = t.nn.functional.max_pool2d_with_indices
    return lambda: pool(x["in"][None], 3, 2, 1)[0][0]


@call("torch max_pool3d", "maxpool3d", "out")
def _maxpool3d(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.nn.functional.max_pool3d(x["in"][None], 2)[0]


@call("torch interpolate", "upsample-bilinear", "out")
def _upsample(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    resize = t.nn.functional.interpolate
    return lambda: resize(x["in"][None], scale_factor=2, mode="bilinear", align_corners=False)[0]


@call("torch conv1d, then SiLU", "causal-conv1d", "out")
def _causal_conv(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    channels, n = x["weight"].shape[0], x["x"].shape[2]
    conv, silu = t.nn.functional.conv1d, t.nn.functional.silu
    weights = x["weight"][:, None]
    return lambda: silu(conv(x["x"], weights, x["bias"], padding=3, groups=channels)[..., :n])


# Reductions, scans, sorting


@call("torch sum (CUB)", "reduce-sum", "total")
def _sum(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: x["values"].sum()


@call("cuBLAS dot", "dot-product", "dot")
def _dot(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.dot(x["x"], x["y"])


@call("torch sum over rows", "bias-gradient", "bias")
def _bias_gradient(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: x["gradient"].sum(0)


@call("torch var_mean", "column-moments", "variance mean")
def _moments(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.var_mean(x["values"], 0, correction=0)


@call("torch max", "argmax", "best")
def _argmax(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: x["values"].max(0).values


@call("torch cumsum", "cumsum-rows", "out")
def _cumsum(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.cumsum(x["in"], 1)


@call("torch cummax", "cummax-rows", "values places")
def _cummax(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: tuple(t.cummax(x["in"], 1))


@call("torch cumsum", "row-prefix-sum", "sums")
def _row_prefix(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.cumsum(x["values"], 1)


def _cupy(value: Any, t: Any) -> Any:
    """The same memory as CuPy sees it, and torch's stream."""
    import cupy

    seen = cupy.from_dlpack(value.view(t.int32) if value.dtype == t.uint32 else value)
    stream = cupy.cuda.ExternalStream(t.cuda.current_stream().cuda_stream)
    return cupy, seen.view(cupy.uint32) if value.dtype == t.uint32 else seen, stream


@call("CuPy cumsum (CUB)", "exclusive-scan", "sums", gpu_only=True)
def _scan(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    cupy, values, stream = _cupy(x["values"], t)
    sums = cupy.zeros(len(values) + 1, values.dtype)

    def run() -> Any:
        with stream:
            cupy.cumsum(values, out=sums[1:])
        return sums[:-1]

    return run


@call("CuPy sort (CUB radix sort)", "radix-sort bitonic-sort", "keys", gpu_only=True)
def _sort(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    cupy, keys, stream = _cupy(x["keys"].clone(), t)

    def run() -> Any:
        with stream:
            return cupy.sort(keys)

    return run


@call("torch sort (CUB segmented sort)", "segment-sort", "ordered")
def _segment_sort(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.sort(x["keys"], 1).values


@call("torch sort", "sort-pairs", "keys")
def _sort_pairs(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    # As signed integers: the same bits in the order of the keys once the sign is turned.
    keys, values = x["keys"].view(t.int32) ^ -(2**31), x["values"].view(t.int32)

    def run() -> Any:
        ordered, places = t.sort(keys, stable=True)
        values.take(places)
        return (ordered ^ -(2**31)).view(t.uint32)

    return run


@call("torch topk", "topk-rows", "best")
def _topk_rows(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.topk(x["values"], 32, 1).values


@call("torch topk", "topk", "values")
def _topk(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.topk(x["in"], 8, 1).values


@call("torch bincount", "histogram256", "counts")
def _histogram(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.bincount(x["bytes"], minlength=256)


@call("CuPy histogram (CUB)", "histogram256", "counts", gpu_only=True)
def _cub_histogram(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    cupy, values, stream = _cupy(x["bytes"], t)
    edges = cupy.arange(257)

    def run() -> Any:
        with stream:
            return cupy.histogram(values, edges)[0]

    return run


@call("torch searchsorted", "lower-bound", "places")
def _lower_bound(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.searchsorted(x["sorted"], x["wanted"], out_int32=True)


@call("torch masked_select", "stream-compaction", "")
@call("torch masked_select", "filter-unordered", "")
def _select(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    # The number of results makes it wait for the device, which a caller waits for too.
    return lambda: x["values"][x["values"] > s["limit"]]


@call("torch kthvalue", "kth-element", "answer")
def _kth(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    values = x["values"].view(t.int32) ^ -(2**31)
    return lambda: (t.kthvalue(values, z["k"] + 1).values ^ -(2**31)).view(t.uint32)


# Sparse matrices, transforms, solvers


@call("cuSPARSE csr", "spmv-csr", "y")
def _spmv(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    rows = x["x"].numel()
    matrix = t.sparse_csr_tensor(x["offsets"], x["columns"], x["values"], size=(rows, rows))
    return lambda: matrix @ x["x"]


@call("cuSPARSE csr", "spmm-csr", "c")
def _spmm(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    rows = len(x["b"])
    matrix = t.sparse_csr_tensor(x["offsets"], x["columns"], x["values"], size=(rows, rows))
    return lambda: matrix @ x["b"]


@call("cuSPARSE coo", "spmv-coo", "y", gpu_only=True)
def _spmv_coo(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    import cupy
    import cupyx.scipy.sparse as sparse

    row, col, values, vector = (cupy.from_dlpack(x[name]) for name in ("row", "col", "values", "x"))
    stream = cupy.cuda.ExternalStream(t.cuda.current_stream().cuda_stream)
    with stream:
        matrix = sparse.coo_matrix((values, (row, col)), shape=(len(vector), len(vector)))

    def run() -> Any:
        with stream:
            return matrix @ vector

    return run


@call("cuSPARSE bsr", "spmv-bsr", "y")
def _spmv_bsr(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    rows = x["x"].numel()
    matrix = t.sparse_bsr_tensor(x["offsets"], x["columns"], x["values"], size=(rows, rows))
    return lambda: (matrix @ x["x"][:, None])[:, 0]


@call("cuFFT", "fft-batched fft-65536", "out")
def _fft(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    values = t.view_as_complex(x["in"])
    return lambda: t.view_as_real(t.fft.fft(values))


@call("cuFFT", "fft2d", "out")
def _fft2d(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    values = t.view_as_complex(x["in"])
    return lambda: t.view_as_real(t.fft.fft2(values))


@call("cuBLAS batched solve", "batched-solve", "x")
def _solve(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.linalg.solve(x["matrices"], x["right"])


@call("cuBLAS batched inverse", "batched-inverse", "inverses")
def _inverse(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.linalg.inv(x["matrices"])


@call("cuSOLVER syevj batched", "batched-eigenvalues", "values")
def _eigenvalues(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    return lambda: t.linalg.eigvalsh(x["matrices"])


@call("cuBLAS geqrf batched", "batched-qr", "")
def _qr(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    first = x["matrices"].clone()
    return lambda: t.geqrf(first)


@call("cuBLAS trsm", "trsm", "b")
def _trsm(x: Inputs, t: Any, s: Mapping[str, float], z: Mapping[str, int]) -> Callable[[], Any]:
    first = x["b"].clone()
    return lambda: t.linalg.solve_triangular(x["l"], first, upper=False)
