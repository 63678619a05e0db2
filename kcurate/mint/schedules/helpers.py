"""Device functions that several kernels of a side share: reductions and scans of warps and blocks."""

from __future__ import annotations

from kcurate.mint.naive import FIRST

_COMBINE = {
    ("sum", "float"): "{0} + {1}", ("sum", "int"): "{0} + {1}",
    ("max", "float"): "fmaxf({0}, {1})", ("max", "int"): "max({0}, {1})",
    ("min", "float"): "fminf({0}, {1})", ("min", "int"): "min({0}, {1})",
}  # fmt: skip
_WARP = """\
// Over all lanes of a warp; every lane gets the result.
__device__ __forceinline__ {kind} warp_{how}_{kind}({kind} value)
{{
    for (int offset = 16; offset > 0; offset >>= 1) {{
        {kind} other = __shfl_xor_sync(0xffffffffu, value, offset);
        value = {both};
    }}
    return value;
}}
"""
_BLOCK = """\
// Over all threads of a block; every thread gets the result.
__device__ __forceinline__ {kind} block_{how}_{kind}({kind} value)
{{
    __shared__ {kind} totals[32];
    value = warp_{how}_{kind}(value);
    if ((threadIdx.x & 31) == 0) totals[threadIdx.x >> 5] = value;
    __syncthreads();
    value = threadIdx.x % 32 < blockDim.x / 32 ? totals[threadIdx.x % 32] : {first};
    value = warp_{how}_{kind}(value);
    __syncthreads();
    return value;
}}
"""
_COLUMN = """\
// Over the eight threads of each column of a block of 32 by 8; all of them get the result.
__device__ __forceinline__ {kind} column_{how}_{kind}({kind} value)
{{
    __shared__ {kind} parts[8][32];
    parts[threadIdx.y][threadIdx.x] = value;
    __syncthreads();
    value = parts[0][threadIdx.x];
    for (int y = 1; y < 8; ++y) {{
        {kind} other = parts[y][threadIdx.x];
        value = {both};
    }}
    __syncthreads();
    return value;
}}
"""
_SCAN = """\
// Inclusive scan over the threads of a block, after `carry`, which becomes the carry for the next tile.
__device__ __forceinline__ {kind} block_scan_{how}_{kind}({kind} value, {kind} *carry)
{{
    __shared__ {kind} totals[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int offset = 1; offset < 32; offset <<= 1) {{
        {kind} other = __shfl_up_sync(0xffffffffu, value, offset);
        if (lane >= offset) value = {both};
    }}
    if (lane == 31) totals[warp] = value;
    __syncthreads();
    {kind} before = *carry;
    for (int w = 0; w < blockDim.x / 32; ++w) {{
        if (w == warp) {{
            {kind} other = before;
            value = {both};
        }}
        {kind} other = totals[w];
        before = {carried};
    }}
    *carry = before;
    __syncthreads();
    return value;
}}
"""
_TEXTS = {"warp": _WARP, "block": _BLOCK, "column": _COLUMN, "block_scan": _SCAN}


def helper_text(names: list[str]) -> str:
    """The functions of these names (`block_sum_float`), each once, with those that they call."""
    texts = dict[str, str]()
    for name in names:
        form, how, kind = name.rsplit("_", 2)
        wanted = ["warp", form] if form == "block" else [form]
        for part in wanted:
            texts.setdefault(f"{part}_{how}_{kind}", _text(part, how, kind))
    return "\n".join(texts.values())


def _text(form: str, how: str, kind: str) -> str:
    combine = _COMBINE[how, kind]
    return _TEXTS[form].format(
        kind=kind,
        how=how,
        both=combine.format("value", "other"),
        carried=combine.format("before", "other"),
        first=FIRST[how][kind == "int"],
    )
