"""The fast side of a graph: a schedule for each group of nodes, shared functions, one text, one plan."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kcurate.mint.graph import Graph
from kcurate.mint.naive import FIRST, HEADERS, scratch_buffers
from kcurate.mint.schedules import kernels
from kcurate.mint.schedules.choice import Schedule, outer_axes, schedule_of
from kcurate.mint.schedules.fusing import Group, groups
from kcurate.mint.schedules.kernels import Body, Kernel
from kcurate.mint.schedules.products import tiles
from kcurate.records import Side

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


BLOCKS = (128, 256)
LONELY_BLOCK = 1024
# All others are rows.
SCHEDULES: Mapping[Schedule, Callable[[Body], Kernel]] = {
    "elements": kernels.elements, "outputs": kernels.outputs, "tiles": tiles,
    "tensor-cores": tiles, "scan": kernels.scan, "columns": kernels.columns,
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """A fast side and the schedules of its kernels, in the order of its plan."""

    side: Side
    schedules: tuple[str, ...]


def fast_side(graph: Graph, seed: int) -> Answer:
    """The fast side; `seed` chooses among equal schedules."""
    rng = random.Random(f"schedules {seed}")
    joined, inlined = groups(graph)
    scheduled: list[Kernel] = []
    names = set[str]()
    for group in joined:
        stem = "_".join(dict.fromkeys(node.operator for node in (group.root, *group.epilogue)))
        name = next(n for n in (stem, *(f"{stem}_{i}" for i in range(2, 40))) if n not in names)
        names.add(name)
        scheduled.append(_kernel(graph, group, inlined, f"{name}_kernel", rng))
    functions = {name: text for kernel in scheduled for name, text in kernel.needs.functions.items()}
    helpers = helper_text([name for kernel in scheduled for name in kernel.helpers])
    used = {value.dtype for value in graph.values.values()}
    headers = "".join(text for dtype, text in HEADERS.items() if dtype in used)
    if any(kernel.schedule == "tensor-cores" for kernel in scheduled):
        headers += "#include <mma.h>\n"
    code = "\n".join(
        filter(None, (headers, helpers, *functions.values(), *(kernel.text for kernel in scheduled)))
    )
    scratch = scratch_buffers(graph, (group.result for group in joined))
    plan = tuple(kernel.launch for kernel in scheduled)
    return Answer(Side(code, plan, buffers=scratch), tuple(kernel.schedule for kernel in scheduled))


def _kernel(graph: Graph, group: Group, inlined: frozenset[str], name: str, rng: random.Random) -> Kernel:
    """The kernel of a group."""
    body = Body(graph, group, inlined, name, rng.choice(BLOCKS))
    writer = body.writer()
    schedule = schedule_of(graph, writer)
    if schedule in SCHEDULES:
        return SCHEDULES[schedule](body)
    if not outer_axes(writer):
        body.block = LONELY_BLOCK
    return kernels.rows(body, schedule)
