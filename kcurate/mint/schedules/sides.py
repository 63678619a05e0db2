"""The fast side of a graph: a schedule for each group of nodes, shared functions, one text, one plan."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from string import Template

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
# Reductions and scans of warps and blocks, by name; a `string.Template` each.
_HELPERS = dict(
    zip(
        ("warp", "block", "column", "block_scan"),
        files("kcurate.mint.schedules").joinpath("helpers.cu").read_text("utf-8").split("\n\n"),
        strict=True,
    )
)


def helper_text(names: list[str]) -> str:
    """The text of these helper functions (such as `block_sum_float`) and of those that they call, each
    once."""
    texts = dict[str, str]()
    for name in names:
        form, how, kind = name.rsplit("_", 2)
        wanted = ["warp", form] if form == "block" else [form]
        for part in wanted:
            texts.setdefault(f"{part}_{how}_{kind}", _text(part, how, kind))
    return "\n".join(texts.values())


def _text(form: str, how: str, kind: str) -> str:
    combine = _COMBINE[how, kind]
    text = Template(_HELPERS[form].rstrip() + "\n")
    return text.substitute(
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
