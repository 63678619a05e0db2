"""The problems of Parboil's benchmarks: each binds and can be filled at every size; traps on our own kernels.

The suite's own code is not here: `kcurate validate` judges the pairs that extraction makes of a user's copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from small import candidate, twice

from kcurate.core import resources, store
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.problem import program
from kcurate.problem.inputs import contents
from kcurate.records import (
    Buffer,
    BufferArg,
    Fill,
    For,
    Init,
    KnownProblem,
    KnownSide,
    Launch,
    Outcome,
    PointersArg,
    Problem,
    Scalar,
    Side,
    Sizes,
    StructField,
    Tolerance,
    Upload,
    ValueArg,
    Verdict,
    View,
)
from kcurate.suites import load_manifests
from kcurate.suites.problems import launched

FILES = sorted((resources.sources_dir() / "problems" / "parboil").glob("*.json"))
NAMES = [path.stem for path in FILES]
SIDES = [(path.stem, variant) for path in FILES for variant in store.read_json(path, KnownProblem).sides]
# What a problem may take of a GPU's memory, and of the emulator's.
BENCH_BYTES = 8 << 30
TEST_BYTES = 256 << 20


def known(name: str) -> KnownProblem:
    return store.read_json(resources.sources_dir() / "problems" / "parboil" / f"{name}.json", KnownProblem)


def size_bytes(problem: Problem, side: KnownSide, sizes: dict[str, int]) -> int:
    bound = program.bind(problem, side.side(""), sizes).buffers
    return sum(buffer.size_bytes for buffer in bound.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_problem_belongs_to_a_benchmark_and_to_variants_of_the_layout(name: str) -> None:
    one, manifest = known(name), load_manifests()["parboil"]
    assert one.suite == "parboil" and one.benchmark in manifest.benchmarks
    assert name.startswith(one.benchmark)
    assert set(one.sides) <= set(manifest.layout.variants) and one.sides
    assert all(list(launched(side.plan)) for side in one.sides.values())


def test_every_benchmark_with_a_naive_side_has_a_problem_for_both() -> None:
    rules = [(rule.slow, rule.fast) for rule in load_manifests()["parboil"].layout.pairs]
    paired = {
        one.benchmark
        for one in map(known, NAMES)
        if any(slow in one.sides and fast in one.sides for slow, fast in rules)
    }
    alone = {"mri-q", "pns", "simple_mm"}
    assert paired == set(load_manifests()["parboil"].benchmarks) - alone


@pytest.mark.parametrize(("name", "variant"), SIDES)
def test_a_plan_binds_at_every_size_and_stays_within_memory(name: str, variant: str) -> None:
    one = known(name)
    for sizes in one.problem.sizes.test:
        assert size_bytes(one.problem, one.sides[variant], dict(sizes)) < 2 * TEST_BYTES
    assert size_bytes(one.problem, one.sides[variant], dict(one.problem.sizes.headline)) < BENCH_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_inputs_can_be_made_at_test_sizes_and_depend_on_the_seed(name: str) -> None:
    problem = known(name).problem
    for sizes in problem.sizes.test[1:]:
        assert contents.generate(problem, None, sizes, 7).keys()
    sizes = problem.sizes.test[0]
    first, second = (contents.generate(problem, None, sizes, seed) for seed in (1, 2))
    assert any(first[each].tobytes() != second[each].tobytes() for each in first)


def values(name: str, buffer: str, at: int) -> npt.NDArray[Any]:
    problem = known(name).problem
    return contents.make(buffer, problem.buffers[buffer], problem.sizes.test[at], 3)


def test_spmv_diagonals_start_where_the_longer_ones_before_them_end() -> None:
    for at, sizes in enumerate(known("spmv").problem.sizes.test):
        lengths, starts = values("spmv", "lengths", at), values("spmv", "starts", at)
        wide = [32 * int((lengths > k).sum()) for k in range(sizes["depth"])]
        assert starts.tolist() == np.cumsum([0, *wide])[:-1].tolist()
        assert sum(wide) == values("spmv", "values", at).size and lengths.min() >= 1
        assert 0 <= 32 * lengths.size - sizes["rows"] < 32


@pytest.mark.parametrize("at", [0, 1, 2])
def test_bfs_reaches_exactly_the_frozen_number_of_nodes_at_each_level(at: int) -> None:
    sizes = known("bfs").problem.sizes.test[at]
    nodes, edges = values("bfs", "node_table", at), values("bfs", "edge_table", at)
    cost = values("bfs", "cost", at).astype(np.int64)
    frontier, levels = [0], []
    while frontier:
        levels.append(len(frontier))
        found: dict[int, None] = {}
        for node in frontier:
            start, degree = nodes[node]
            for to, weight in edges[start : start + degree]:
                if cost[node] + weight < cost[to]:
                    cost[to] = cost[node] + weight
                    found[int(to)] = None
        frontier = list(found)
    frozen = [min(4**level, sizes["nodes"] - (4**level - 1) // 3) for level in range(sizes["levels"])]
    assert levels == frozen and sum(levels) == sizes["nodes"]


def test_gridding_samples_lie_in_the_cells_that_the_frozen_sort_says() -> None:
    for at, sizes in enumerate(known("mri-gridding").problem.sizes.test):
        table = values("mri-gridding", "sample_table", at)
        order, starts = values("mri-gridding", "order", at), values("mri-gridding", "starts", at)
        x, y, z = np.floor(table[order][:, 2:5]).astype(np.int64).T
        cells = (z * sizes["gy"] + y) * sizes["gx"] + x
        counts = np.bincount(cells, minlength=starts.size - 1)
        assert np.array_equal(np.cumsum(counts), starts[1:]) and (np.diff(cells) >= 0).all()
        assert sorted(order.tolist()) == list(range(sizes["samples"]))


def test_atoms_of_cutcp_lie_in_their_bins_and_on_no_lattice_point() -> None:
    bins = values("cutcp", "bins", 1)
    places = np.indices(bins.shape[:3])
    for axis in range(3):
        inside = bins[..., axis] / 4 - (places[2 - axis][..., None] - 3)
        assert ((inside > 0) & (inside < 1)).all()
        assert (bins[..., axis] % 0.5 != 0).all()


def test_lbm_flags_are_words_of_two_bits() -> None:
    cells = values("lbm", "source", 0)
    flags = np.ascontiguousarray(cells[..., 19]).view(np.uint32)
    assert set(np.unique(flags).tolist()) == {0, 1, 2, 3}
    assert 0.02 < (flags != 0).mean() < 0.1 and (cells[..., :19] > 0).all()


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    one = Judge(JudgeConfig(backend="emulator"))
    yield one
    one.close()


SIZES = Sizes(({"n": 300}, {"n": 64}), {"n": 4096})
COUNTER = """
__device__ int arrived = 0;
__global__ void number(const int* x, int* y, int n) {
    __shared__ int order;
    if (threadIdx.x == 0) order = atomicAdd(&arrived, 1);
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 3 * x[i] + (order < 0);
}
"""


def integers(**more: Buffer) -> Problem:
    return Problem(
        SIZES,
        {
            "x": Buffer("int32", ("n",), Init("integers", {"high": 1000})),
            "y": Buffer("int32", ("n",), role="out"),
            **more,
        },
    )


EACH = Launch("number", ("ceil_div(n, 64)",), (64,), ("x", "y", "n"))


def test_a_counter_that_no_launch_resets_is_refused_unless_the_plan_sets_it(judge: Judge) -> None:
    what = integers(zero=Buffer("int32", (1,), Init("zeros")))
    refused = judge.judge(twice("counter", what, COUNTER, (EACH,)))
    assert refused.outcome is Outcome.STATIC_REJECT and "arrived" in (refused.detail or "")
    allowed = judge.judge(twice("counter", what, COUNTER, (Upload("arrived", "zero"), EACH)))
    assert allowed.outcome is Outcome.CORRECT, allowed.detail


TALLY = """
__global__ void tally(const int* x, int* y, int n) {
    __shared__ int table[64];
    table[63 - threadIdx.x] = 0;
    BARRIER
    for (int i = threadIdx.x; i < n; i += 64) atomicAdd(&table[x[i] & 63], 1);
    __syncthreads();
    y[threadIdx.x] = table[threadIdx.x];
}
"""


def test_a_barrier_that_the_original_lacks_shows_on_the_emulator(judge: Judge) -> None:
    what = integers()
    what = dataclasses.replace(what, buffers={**what.buffers, "y": Buffer("int32", (64,), role="out")})
    plan = (Launch("tally", (1,), (64,), ("x", "y", "n")),)
    racing, sound = (Side(TALLY.replace("BARRIER", each), plan) for each in ("", "__syncthreads();"))
    verdict = judge.judge(candidate("tally", what, racing, sound))
    assert verdict.outcome is Outcome.MISMATCH
    assert judge.judge(twice("tally", what, sound.code, plan)).outcome is Outcome.CORRECT


TILED = """
struct Sample { float place, weight; };
__constant__ Sample tile[16];
__global__ void add(const float* x, float* y, int first, int count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = first; k < min(first + 16, count); ++k)
        if (i < n) y[i] += tile[k - first].weight * fabsf(x[i] - tile[k - first].place);
}
"""
DIRECT = """
__global__ void add(const float* x, float* y, const float* places, const float* weights, int count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < count; ++k) if (i < n) y[i] += weights[k] * fabsf(x[i] - places[k]);
}
"""


def test_a_constant_can_be_uploaded_in_tiles_from_a_transposed_table(judge: Judge) -> None:
    what = Problem(
        SIZES,
        {
            "x": Buffer("float32", ("n",), Init("normal")),
            "table": Buffer("float32", (2, 37), Init("uniform")),
            "y": Buffer("float32", ("n",), Init("zeros"), "inout", Tolerance(terms=37)),
        },
    )
    grid, block = ("ceil_div(n, 64)",), (64,)
    upload = Upload("tile", "table", "2 * first", count="2 * min(16, 37 - first)")
    launch = Launch("add", grid, block, ("x", "y", "first", ValueArg(37), "n"))
    weights = BufferArg("table", 37)
    slow = Side(DIRECT, (Launch("add", grid, block, ("x", "y", "table", weights, ValueArg(37), "n")),))
    fast = Side(TILED, (For("first", 37, (upload, launch), step=16),), views={"table": View((1, 0))})
    verdict = judge.judge(candidate("tiles", what, slow, fast))
    assert verdict.outcome is Outcome.CORRECT, verdict.detail


FOLD = """
struct Pair { const int* front; int* back; };
__global__ void fold(Pair pair, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) pair.back[i] = pair.front[i] * 2 + pair.front[n - 1 - i];
}
"""


def test_a_struct_of_pointers_reaches_buffers_at_offsets(judge: Judge) -> None:
    what = integers()
    pair = PointersArg((BufferArg("x"), BufferArg("y")))
    launch = Launch("fold", ("ceil_div(n, 64)",), (64,), (pair, "n"))
    assert judge.judge(twice("fold", what, FOLD, (launch,))).outcome is Outcome.CORRECT
    shifted = dataclasses.replace(launch, args=(PointersArg((BufferArg("x"), BufferArg("y", 1))), "n"))
    late = judge.judge(candidate("fold", what, Side(FOLD, (launch,)), Side(FOLD, (Fill("y"), shifted))))
    assert late.outcome is Outcome.MISMATCH
    outside = dataclasses.replace(launch, args=(PointersArg((BufferArg("x", "n + 1"), BufferArg("y"))), "n"))
    assert judge.judge(twice("fold", what, FOLD, (outside,))).outcome is Outcome.MALFORMED
    unknown = dataclasses.replace(launch, args=(PointersArg((BufferArg("z"), BufferArg("y"))), "n"))
    assert judge.judge(twice("fold", what, FOLD, (unknown,))).outcome is Outcome.MALFORMED


VIEWED = """
struct Part { int n; const int* front; char left; int* back; float by; };
__global__ void viewed(Part part) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < part.n && part.left == 7) part.back[i] = part.front[i] * 2 + (int)part.by;
}
"""
PART = tuple(
    StructField(name, dtype)
    for name, dtype in (
        ("n", "int32"), ("front", "uint64"), ("left", "int8"), ("back", "uint64"), ("by", "float32")
    )
)  # fmt: skip


def test_a_struct_may_hold_pointers_and_numbers(judge: Judge) -> None:
    values = {"n": "n", "front": 0, "left": 7, "back": 0, "by": 3.0}
    what = dataclasses.replace(integers(), scalars={"part": Scalar(PART, values)})

    def tried(at: tuple[int, ...], scalar: str = "part") -> Verdict:
        part = PointersArg((BufferArg("x"), BufferArg("y")), at, scalar)
        return judge.judge(
            twice("part", what, VIEWED, (Launch("viewed", ("ceil_div(n, 64)",), (64,), (part,)),))
        )

    assert tried((8, 24)).outcome is Outcome.CORRECT
    for at in ((8,), (8, 12), (-8, 24), (8, 40)):
        verdict = tried(at)
        assert verdict.outcome is Outcome.MALFORMED and f"2 pointers at {list(at)}" in verdict.detail
    assert "unknown scalar 'whole'" in tried((8, 24), "whole").detail
    assert tried((8, 24), "n").outcome is Outcome.MALFORMED


ROWS = """
__global__ void rows(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y += 5 * 8;
    for (int k = 0; k < LAST; ++k) if (i < n) y[i * 8 + k] = k < 6 ? x[i] + k : i * k;
}
"""


def test_values_in_the_padding_of_an_output_are_ignored(judge: Judge) -> None:
    what = integers()
    what = dataclasses.replace(what, buffers={**what.buffers, "y": Buffer("int32", ("n", 6), role="out")})
    launch = Launch("rows", ("ceil_div(n, 64)",), (64,), ("x", "y", "n"))
    padded = {"y": View(pad=((5, 0), (0, 2)))}
    slow, fast = (Side(ROWS.replace("LAST", last), (launch,), views=padded) for last in ("6", "8"))
    verdict = judge.judge(candidate("rows", what, slow, fast))
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
