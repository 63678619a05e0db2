"""The least work on file is that of the problems, and no side counts as faster than memory."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import roofline as benchmark
from kcurate import roofline
from kcurate.backends import open_compiler, open_device
from kcurate.backends.base import Compiled, EntryPoint
from kcurate.core import resources, store
from kcurate.problem.outputs import logical_bytes
from kcurate.records import BenchSize, Call, Environment, Problem, Reference, Sizes

PROBLEMS: dict[str, Problem] = {}
for _folder in store.find_candidates(resources.pairs_dir()):
    _pair = store.read_candidate(_folder)
    assert _pair.problem is not None
    PROBLEMS[_pair.family] = _pair.problem
DOCS = Path(__file__).parents[1] / "docs"
STANDING = benchmark.standing()


def buffer_bytes(problem: Problem, *roles: str) -> int:
    sizes = problem.sizes.headline
    return sum(logical_bytes(one, sizes) for one in problem.buffers.values() if one.role in roles)


def test_every_family_is_on_file() -> None:
    assert set(roofline.on_file()["families"]) == set(PROBLEMS)


@pytest.mark.parametrize("family", PROBLEMS)
def test_least_bytes_are_those_of_the_buffers(family: str) -> None:
    """Whoever states fewer bytes than the buffers hold says in a note which are not moved."""
    problem, facts = PROBLEMS[family], roofline.on_file()["families"][family]
    least = roofline.least_work(family, problem)
    assert least is not None
    whole = (buffer_bytes(problem, "in", "inout"), buffer_bytes(problem, "out", "inout"))
    stated = (least.read_bytes, least.written_bytes)
    assert 0 <= stated[0] <= whole[0]
    assert 0 < stated[1] <= whole[1]
    assert stated == whole or facts["note"]
    assert all(count > 0 for count in least.operations.values())


def test_only_what_is_needed_counts() -> None:
    """Of the caches and tables that these four are given, they touch a part."""
    for family, part in {
        "penalize-repeats": 0.02, "kv-page-copy": 0.34, "kv-cache-write": 0.41, "paged-decode": 0.6
    }.items():  # fmt: skip
        problem = PROBLEMS[family]
        least = roofline.least_work(family, problem)
        assert least is not None
        whole = buffer_bytes(problem, "in", "inout") + buffer_bytes(problem, "out", "inout")
        assert least.moved_bytes < part * whole


def test_the_longest_time_limits() -> None:
    work = roofline.LeastWork(4_000, 800, 9_600, {"fp32": 134_000})
    times = work.times_us({"bytes": 4.8e9, "fp32": 67e9})
    assert times == {"fp32": pytest.approx(2.0), "bytes": pytest.approx(1.0), "gather": pytest.approx(3.0)}
    assert roofline.least_work("no such family", next(iter(PROBLEMS.values()))) is None
    family, problem = next(iter(PROBLEMS.items()))
    composed = replace(problem, reference=Reference("", Call("Model", (), ())))
    assert roofline.least_work(family, composed) is None, "its types are others"
    named_alike = replace(problem, sizes=Sizes(({"m": 1},), (BenchSize("s", {"m": 1}),)))
    assert roofline.least_work(family, named_alike) is None, "a stranger's problem"


def test_a_target_says_what_it_counts() -> None:
    """It is no bound: a gather may leave most of an input alone, and a cache may answer."""
    words = {
        "spmm-csr": "moving once what must be read and written, and 32 bytes for each gather, takes",
        "sequence-alignment": "the fewest known simple 32-bit operations take",
        "softmax": "moving once what must be read and written takes",
        "nobody's": "reading every input once and writing every output once takes",
    }
    for family, counted in words.items():
        problem = PROBLEMS.get(family) or PROBLEMS["softmax"]
        shown = roofline.target(problem, family, "NVIDIA H200")
        assert re.fullmatch(rf"Target: by the data sheet, {counted} [\d.,]+ us at the bench size\.", shown)
    assert "1,374 us" in roofline.target(PROBLEMS["pagerank"], "pagerank", "NVIDIA H200")
    assert not roofline.target(PROBLEMS["softmax"], "softmax", "no such GPU")


@pytest.mark.parametrize(("stated", "counts"), [(0.9, 0.9), (1.15, 1.15), (2.24, None), (None, None)])
def test_no_side_is_faster_than_memory(stated: float | None, counts: float | None) -> None:
    """A share that no memory reaches says that buffers are not moved whole."""
    assert Environment("cuda", "NVIDIA H200", details={"fast_copy_fraction": stated}).copy_fraction == counts


@pytest.mark.parametrize("gpu", benchmark.MODELS)
def test_who_reaches_little_says_why(gpu: str) -> None:
    low = {one.family for one in STANDING[gpu].values() if one.share < benchmark.LOW}
    facts = roofline.on_file()["families"]
    assert all(facts[family].get("reason") for family in low)


@pytest.mark.parametrize(
    ("reads", "writes"), [(5000, 0), (0, 5000), (4096, 4096), (70_000, 900), (900, 70_000)]
)
def test_the_ceiling_moves_all_bytes_and_no_more(reads: int, writes: int) -> None:
    compiled = open_compiler("emulator").compile(benchmark.MIX, [EntryPoint("mix")])
    assert isinstance(compiled, Compiled)
    device = open_device("emulator")
    try:
        source, to = device.allocate(-(-reads // 16) * 16 or 16), device.allocate(1 << 17)
        ones = np.ones(source.size_bytes // 4, np.float32).view(np.uint8)
        device.write(source, 0, ones)
        device.write(to, 0, np.full(to.size_bytes // 4, 77, np.float32).view(np.uint8))
        device.launch(device.load(compiled), EntryPoint("mix"), *benchmark.mix(reads, writes, source, to))
        got = device.read(to, 0, to.size_bytes).view(np.float32)
    finally:
        device.close()
    written = -(-writes // 16) * 4
    assert np.all(got[:written] != 77)
    assert np.all(got[written:] == 77)


def test_page_and_plots_are_current() -> None:
    rows = {
        gpu: benchmark.rows_of(folder / "roofline.jsonl") for gpu, (_, folder) in benchmark.MODELS.items()
    }
    written = benchmark.page(STANDING, rows)
    assert (DOCS / "results" / "roofline.md").read_text("utf-8") == written, "run benchmarks/roofline.py"
    assert benchmark.LISTED.read_text("utf-8") == benchmark.listed(STANDING, rows)
    for gpu, (_, folder) in benchmark.MODELS.items():
        assert (folder / "roofline.svg").read_text("utf-8") == benchmark.plot(list(STANDING[gpu].values()))


def test_a_gpu_that_has_not_judged_the_newest_side_is_left_out() -> None:
    older = {one.family for one in benchmark.best_sides(benchmark.MODEL)} - set(STANDING["H200"])
    newest = [STANDING["H100"][family] for family in older]
    assert all(not benchmark.judged(one.pair, benchmark.MODEL) for one in newest)


def test_the_ceiling_counts_for_what_it_was_measured_on() -> None:
    one = STANDING["H200"]["reduce-sum"]
    row = {"read_bytes": one.least.read_bytes, "ceiling_us": one.us / 2}
    assert benchmark.of_ceiling(one, row) == pytest.approx(0.5)
    assert benchmark.of_ceiling(one, {**row, "side_us": one.us * 2}) == pytest.approx(0.25)
    assert benchmark.of_ceiling(one, {**row, "read_bytes": 4}) is None
    assert benchmark.of_ceiling(one, None) is None
