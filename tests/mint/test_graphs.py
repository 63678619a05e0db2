"""Graphs: the canonical hash, shapes, what the composer makes."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from mint.one_operator import single

from kcurate.errors import InputError
from kcurate.mint.composer import Composer
from kcurate.mint.graph import OPERATORS, Graph, Input, Node
from kcurate.mint.known_graphs import family_of
from kcurate.mint.naive import naive_side
from kcurate.mint.problem import module_text
from kcurate.mint.sizes import BENCH_BYTES, array_bytes
from kcurate.mint.statement import statement
from kcurate.records import Sizes
from kcurate.reward import splits
from kcurate.reward.splits import KERNELBENCH

COUNT = 150


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return list(itertools.islice(Composer(5).graphs(), COUNT))


def graph_of(*nodes: Node, inputs: tuple[str, ...] = ("x", "y")) -> Graph:
    arrays = tuple(Input(name, "float32", ("rows", "cols")) for name in inputs)
    sizes = Sizes(({"rows": 3, "cols": 33},), {"rows": 64, "cols": 512})
    return Graph("float32", arrays, nodes, (nodes[-1].name,), sizes)


def node(name: str, operator: str, *operands: str, **attributes: float) -> Node:
    return Node(name, "float32", ("rows", "cols"), operator, operands, attributes)


def test_the_same_graph_under_other_names_sizes_and_numbers_has_the_same_key() -> None:
    first = graph_of(node("h1", "scale", "x", factor=0.5), node("h2", "add", "h1", "y"))
    other = graph_of(
        node("a", "scale", "second", factor=2.0), node("b", "add", "first", "a"), inputs=("first", "second")
    )
    assert first.key == replace(other, sizes=Sizes((), {"rows": 1, "cols": 2})).key


def test_wiring_types_and_operators_are_in_the_key() -> None:
    product = graph_of(node("h1", "mul", "x", "y"))
    keys = {
        product.key,
        graph_of(node("h1", "mul", "x", "x")).key,
        graph_of(node("h1", "sub", "x", "y")).key,
        graph_of(node("h1", "relu", "x"), node("h2", "mul", "h1", "y")).key,
        graph_of(node("h1", "relu", "x"), node("h2", "mul", "h1", "x")).key,
        replace(product, dtype="bfloat16").key,
    }
    assert len(keys) == 6


def test_operands_that_do_not_commute_keep_their_order() -> None:
    one_way = graph_of(node("h1", "relu", "x"), node("h2", "sub", "h1", "x"))
    other_way = graph_of(node("h1", "relu", "x"), node("h2", "sub", "x", "h1"))
    assert one_way.key != other_way.key


def test_equal_seeds_compose_equal_graphs_and_texts(graphs: list[Graph]) -> None:
    again = list(itertools.islice(Composer(5).graphs(), 40))
    assert again == graphs[:40]
    for seed, graph in enumerate(again):
        assert module_text(graph) == module_text(graphs[seed])
        assert naive_side(graph, seed) == naive_side(graphs[seed], seed)
        assert statement(graph, seed) == statement(graphs[seed], seed)
    assert next(Composer(6).graphs()) != graphs[0]


def test_graphs_are_distinct_and_none_is_over_the_limits(graphs: list[Graph]) -> None:
    assert len({graph.key for graph in graphs}) == COUNT
    uses = Counter(name for graph in graphs for name in {node.operator for node in graph.nodes})
    assert max(uses.values()) < COUNT / 5
    assert {len(graph.nodes) for graph in graphs} == set(range(1, 9))
    assert all(len(graph.sizes.test) == 4 for graph in graphs)
    for graph in graphs:
        headline, *others = graph.sizes.bench
        assert headline.headline and headline.weight == 1.0
        assert all(other.weight < 1.0 for other in others)
        assert all(array_bytes(graph, size.sizes) <= BENCH_BYTES for size in graph.sizes.bench)


def test_masked_scores_go_into_a_softmax() -> None:
    composer = Composer(4, ("scores", "causal_mask", "window_mask", "softmax", "attend", "relu"))
    masked = 0
    for graph in itertools.islice(composer.graphs(), 30):
        for at, step in enumerate(graph.nodes):
            if OPERATORS[step.operator].unfinished:
                masked += 1
                assert step.name not in graph.outputs
                assert graph.nodes[at + 1].operator == "softmax"
    assert masked > 5


@pytest.mark.slow
def test_every_operator_stands_in_one_problem_of_a_hundred() -> None:
    count = 5000
    uses = Counter[str]()
    for graph in itertools.islice(Composer(1).graphs(), count):
        uses.update({node.operator for node in graph.nodes})
    rare = {name: uses[name] for name in OPERATORS if uses[name] < count / 100}
    assert not rare
    assert max(uses.values()) < count / 5


def test_a_count_that_the_operators_cannot_give_is_refused() -> None:
    composer = Composer(1, ("one_hot_scale",), ("float32",))
    with pytest.raises(InputError, match="1 distinct graphs"):
        list(composer.graphs())


@pytest.mark.parametrize("name", ["softmax", "linear_bias", "conv2d", "topk", "cumsum"])
def test_a_statement_names_every_array_and_size(name: str) -> None:
    graph = single(name)
    text = statement(graph, 3)
    for value in graph.inputs:
        assert f"{value.name} ({value.dtype}, " in text
    for size in graph.sizes.headline:
        assert size in text
    assert "rounding" in text


def test_a_statement_gives_the_formula_of_a_row() -> None:
    text = statement(single("softmax", seed=1), 0)
    assert "h1[..., j] = exp(x[..., j] - m) / s, where m = the largest over j < cols of x[..., j]" in text


def test_no_index_or_sum_in_a_formula_has_the_name_of_an_array() -> None:
    arrays = (
        *(Input(name, "float32", ("rows", "cols")) for name in ("x", "p", "q")),
        *(Input(name, "float32", ("rows",)) for name in ("s", "m")),
    )
    steps = node("h1", "mul_rows", "x", "s"), node("h2", "softmax", "h1")
    text = statement(replace(graph_of(*steps), inputs=arrays), 0)
    assert "h1[..., j] = x[..., j] * s[...]" in text
    assert "h2[..., j] = exp(h1[..., j] - z) / f, where z = the largest over j < cols" in text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cumsum", "h1[..., j] = s, where s = the sum over k <= j of x[..., k]"),
        ("reverse_cumsum", "s = the sum over k >= j of x[..., k]"),
        ("max_pool", "h1 (batch x channels x (height // 2) x (width // 2))"),
        ("upsample", "x[n, c, p // 2, q // 2]"),
        ("upsample", "// divides integers and rounds down."),
        ("row_mean", "h1[...] = s / cols, where"),
        ("window_mask", "if j <= i and j > i - "),
    ],
)
def test_a_formula_says_how_far_sums_run_and_which_divisions_round(name: str, says: str) -> None:
    text = statement(single(name), 0)
    assert says in text
    assert ("..." in text) == ("... stands for" in text)
    assert ("//" in text) == ("// divides" in text)


def test_a_statement_says_which_roundings_are_optional_and_how_large_terms_are() -> None:
    graph = next(
        graph
        for graph in Composer(3, ("linear", "relu"), ("bfloat16",)).graphs()
        if [step.dtype for step in graph.nodes] == ["bfloat16", "bfloat16"]
    )
    assert "; h2 is rounded to bfloat16 (h1 may be, as in the reference)." in statement(graph, 0)
    assert "lose of values as large as the root mean square of its row." in statement(graph, 0)
    assert "lose of values as large as 0.25." in statement(graph, 0, {"h2": 0.25})
    assert "Everything is computed in float32." in statement(single("argmax", "bfloat16"), 0)


def test_wordings_and_habits_vary_with_the_seed() -> None:
    graph = single("softmax")
    assert len({statement(graph, seed) for seed in range(40)}) > 4
    assert len({naive_side(graph, seed).code for seed in range(40)}) > 10
    assert len({naive_side(graph, seed).plan for seed in range(40)}) > 3


def test_graphs_of_kernelbench_are_marked_and_those_of_built_in_families_stay_with_them() -> None:
    assert family_of(single("softmax")).startswith(KERNELBENCH)
    linear = node("h1", "linear", "x", "y")
    assert family_of(graph_of(linear, node("h2", "gelu", "h1"), node("h3", "softmax", "h2"))).startswith(
        KERNELBENCH
    )
    rows = [
        {"id": name, "family": name, "slow_code": name, "fast_code": name}
        for name in (family_of(single("gelu")), "own")
    ]
    assert splits.assign(rows) == {rows[0]["id"]: "test", "own": "train"}
    assert family_of(single("swiglu")) == "swiglu"
    assert family_of(graph_of(node("h1", "neg", "x"), node("h2", "sin", "h1"))).startswith("minted-")
