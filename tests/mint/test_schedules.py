"""Fast sides: which nodes share a kernel, which schedule a kernel has, and that short rows are right."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from kcurate.mint.admission import CUDA, Admission, Minting, admit
from kcurate.mint.composer import Composer
from kcurate.mint.graph import OPERATORS, Graph, Input, Node
from kcurate.mint.schedules.fusing import groups
from kcurate.mint.schedules.sides import fast_side
from kcurate.mint.schedules.triton_side import triton_side
from kcurate.records import Expr, Sizes

MATRIX = ("rows", "cols")
WEIGHTS = Input("w", "float32", ("features", "cols"), "weight")


def graph_of(
    *nodes: tuple[str, str, *tuple[str, ...]],
    outputs: tuple[str, ...] = (),
    cols: int = 512,
    shapes: Mapping[str, tuple[Expr, ...]] | None = None,
    dtype: str = "float32",
) -> Graph:
    """A graph of nodes (name, operator, operands) on x, y of rows by cols and weights w."""
    steps = [
        Node(
            name,
            dtype,
            (shapes or {}).get(name, MATRIX),
            operator,
            operands,
            {key: choices[0] for key, choices in OPERATORS[operator].attributes.items()},
        )
        for name, operator, *rest in nodes
        for operands in [tuple(rest)]
    ]
    inputs = [Input("x", dtype, MATRIX), Input("y", dtype, MATRIX), WEIGHTS]
    used = {operand for step in steps for operand in step.operands}
    inputs = [Input(i.name, dtype, i.shape, i.values) for i in inputs if i.name in used]
    test, bench = {"rows": 5, "cols": 33, "features": 17}, {"rows": 64, "cols": cols, "features": 64}
    sizes = Sizes((test,), bench)
    return Graph(dtype, tuple(inputs), tuple(steps), outputs or (steps[-1].name,), sizes)


FEATURES = {"h1": ("rows", "features"), "h2": ("rows", "features"), "h3": ("rows", "features")}
LINEAR = ("h1", "linear", "x", "w")


@pytest.mark.parametrize(
    ("graph", "kernels", "inlined"),
    [
        (graph_of(LINEAR, ("h2", "gelu", "h1"), ("h3", "relu", "h2"), shapes=FEATURES), ["h3"], ""),
        (graph_of(("h1", "relu", "x"), ("h2", "add", "h1", "y"), ("h3", "softmax", "h2")), ["h3"], "h1 h2"),
        # A result in the middle is stored, by the kernel that ends with it.
        (
            graph_of(LINEAR, ("h2", "gelu", "h1"), outputs=("h2", "h1"), shapes=FEATURES),
            ["h1", "h2"],
            "",
        ),
        (graph_of(("h1", "relu", "x"), ("h2", "softmax", "h1"), outputs=("h2", "h1")), ["h1", "h2"], ""),
        # Two readers need the sums' result: neither can be the epilogue.
        (
            graph_of(("h1", "softmax", "x"), ("h2", "relu", "h1"), ("h3", "mul", "h2", "h1")),
            ["h1", "h3"],
            "h2",
        ),
        # A product reads its operand often.
        (
            graph_of(("h1", "relu", "x"), ("h2", "linear", "h1", "w"), shapes={"h2": FEATURES["h1"]}),
            ["h1", "h2"],
            "",
        ),
        # Not element by element.
        (graph_of(("h1", "softmax", "x"), ("h2", "flip", "h1")), ["h1", "h2"], ""),
    ],
)  # fmt: skip
def test_which_nodes_share_a_kernel(graph: Graph, kernels: list[str], inlined: str) -> None:
    joined, computed_where_read = groups(graph)
    assert [group.result.name for group in joined] == kernels
    assert sorted(computed_where_read) == inlined.split()
    side = fast_side(graph, 0).side
    assert len(side.plan) == len(kernels)
    assert set(side.buffers) == set(kernels) - set(graph.outputs)


@pytest.mark.parametrize(
    ("schedule", "graph"),
    [
        ("vectors", graph_of(("h1", "gelu", "x"))),
        ("outputs", graph_of(("h1", "sort_rows", "x"))),
        ("outputs", graph_of(("h1", "softmax", "x"), cols=8)),
        ("warp-row", graph_of(("h1", "row_sum", "x"), shapes={"h1": ("rows",)}, cols=128)),
        ("register-row", graph_of(("h1", "softmax", "x"), cols=128)),
        ("block-row", graph_of(("h1", "row_sum", "x"), shapes={"h1": ("rows",)}, cols=2048)),
        ("cached-row", graph_of(("h1", "softmax", "x"))),
        ("online-row", graph_of(("h1", "logsumexp", "x"), shapes={"h1": ("rows",)})),
        ("row-elements", graph_of(("h1", "flip", "x"))),
        ("elements", graph_of(("h1", "flip", "x"), cols=64)),
        ("columns", graph_of(("h1", "column_softmax", "x"))),
        ("scan", graph_of(("h1", "cumsum", "x"))),
        ("scan", graph_of(("h1", "reverse_cumsum", "x"))),
        ("tiles", graph_of(LINEAR, shapes=FEATURES)),
        ("tensor-cores", graph_of(LINEAR, shapes=FEATURES, dtype="bfloat16")),
    ],
)
def test_the_schedule_follows_from_the_sums_and_sizes(schedule: str, graph: Graph) -> None:
    assert fast_side(graph, 0).schedules == (schedule,)


def test_the_sums_of_a_short_row_are_over_the_row() -> None:
    graph = graph_of(("h1", "relu", "x"), ("h2", "l2_normalize", "h1"), cols=16)
    answer = fast_side(graph, 0)
    assert answer.schedules == ("outputs",)
    minted = admit(Minting(graph, 1, 1))
    assert minted.outcome is Admission.ADMITTED
    assert any(candidate.id.endswith(f"/{CUDA}") for candidate in minted.candidates)


@pytest.mark.parametrize(
    ("graph", "idle"),
    [
        (graph_of(("h1", "add", "x", "y"), ("h2", "sub", "h1", "y")), "y"),
        (graph_of(("h1", "softmax", "x"), ("h2", "row_sum", "h1"), shapes={"h2": ("rows",)}), "x"),
    ],
)
def test_a_graph_whose_result_forgets_an_input_is_refused(graph: Graph, idle: str) -> None:
    minted = admit(Minting(graph, 1, 1))
    assert (minted.outcome, minted.why) == (Admission.WEAK, f"{idle} does not matter")


def texts() -> Iterator[tuple[str, str]]:
    """What stands in the answers to 300 graphs: each function's head and body."""
    for number, graph in enumerate(itertools.islice(Composer(2027).graphs(), 300)):
        cuda, triton = fast_side(graph, number).side, triton_side(graph)
        for code, pattern in (
            (cuda.code, r"__(?:global|device)__ [^(]*(?:\(\d+\))?\s*\w+\((.*)\)\n\{\n((?:    .*\n)*)\}"),
            (triton.side.code if triton else "", r"def \w+\((.*)\):\n((?:    .*\n)*)"),
        ):
            yield from re.findall(pattern, code)


def twice_in_a_scope(body: str) -> list[str]:
    """Indices that a line computes although one before it, in its scope or around it, has done so."""
    visible: list[tuple[int, str]] = []
    repeated = []
    for line in body.splitlines():
        depth = len(line) - len(line.lstrip())
        visible = [(indent, value) for indent, value in visible if indent <= depth]
        match = re.fullmatch(r" *\w+ = ([\w ()]+[*/%+] [\w ()*/%+]+)", line)
        if match and match[1] in (value for _, value in visible):
            repeated.append(match[1])
        if match:
            visible.append((depth, match[1]))
    return repeated


@pytest.mark.slow
def test_answers_have_nothing_that_is_not_used_nor_an_index_twice() -> None:
    functions = list(texts())
    assert len(functions) > 600
    for head, body in functions:
        parameters = [re.findall(r"\w+", part.partition(": tl")[0])[-1] for part in head.split(",")]
        unused = [name for name in parameters if not re.search(rf"\b{name}\b", body)]
        declared = re.findall(r"^( *)(?:int |float )?(\w+) = (.*?);?$", body, re.MULTILINE)
        copies = [name for _, name, value in declared if name == value]
        assert not unused + copies, (unused, copies, head, body)
        for line in body.splitlines():
            repeated = Counter(place for place in re.findall(r"(?<=\w)\[([^\[\]]* [^\[\]]*)\]", line))
            assert max(repeated.values(), default=0) < 2, (line, body)
        if "tl." in body:
            assert not twice_in_a_scope(body), (twice_in_a_scope(body), body)
