"""Several launches become one side by the rule of each counter; what ncu prints is read."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from small import scaled

from kcurate.core import resources
from kcurate.errors import BackendError, MissingDependencyError
from kcurate.profiling import ncu
from kcurate.profiling.counters import BY_NAME, COUNTERS, Counted, Rule, metrics, of_side, shown
from kcurate.profiling.on_file import Profiles, side_key
from kcurate.profiling.technique_counters import CONFLICTS, EXPECTED, LAUNCHES, moves
from kcurate.records import Profile

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)
PRINTED = f"""==PROF== Connected to process 4711 (/usr/bin/python3.12)
==PROF== Profiling "kc_empty": 0%....50%....100% - 6 passes
==PROF== Profiling "scale": 0%....50%....100% - 6 passes
==PROF== Disconnected from process 4711
{HEADER}
"0","4711","python3.12","127.0.0.1","kc_empty()","1","13","(32, 1, 1)","(1, 1, 1)","0","9.0",\
"Command line profiler metrics","gpu__time_duration.sum","ns","1,920"
"1","4711","python3.12","127.0.0.1","scale(const float *, ""q"", int)","1","13","(128, 1, 1)","(4, 1, 1)",\
"0","9.0","Command line profiler metrics","dram__bytes_read.sum","byte","16,777,216"
"1","4711","python3.12","127.0.0.1","scale(const float *, ""q"", int)","1","13","(128, 1, 1)","(4, 1, 1)",\
"0","9.0","Command line profiler metrics","gpu__time_duration.sum","us","12.5"
"1","4711","python3.12","127.0.0.1","scale(const float *, ""q"", int)","1","13","(128, 1, 1)","(4, 1, 1)",\
"0","9.0","Command line profiler metrics","lts__t_sectors.sum","","n/a"
"1","4711","python3.12","127.0.0.1","scale(const float *, ""q"", int)","1","13","(128, 1, 1)","(4, 1, 1)",\
"0","9.0","Command line profiler metrics","sm__warps_active.avg.pct_of_peak_sustained_active","%","nan"
"""


def test_no_share_is_above_the_whole() -> None:
    """Hits and all sectors of L2 are counted in different replays, and the hits can come out higher."""
    names = {"lts__t_sectors_lookup_hit.sum": 106.0, "lts__t_sectors.sum": 100.0}
    assert of_side([Counted(1.0, names)])["l2_hit_pct"] == 100.0
    candidate = scaled("a")
    values, key = {"l2_hit_pct": 106.5, "flops": 3e9}, side_key(candidate, "slow")
    known = Profiles([Profile("a", "slow", key, "GPU", "ncu", 1, 1, values)]).of(candidate, "slow", "GPU")
    assert known is not None and known.counters == {"l2_hit_pct": 100.0, "flops": 3e9}


def test_what_ncu_prints_is_read_in_base_units_by_launch() -> None:
    assert ncu.launches(PRINTED) == [
        {"gpu__time_duration.sum": 1920.0},
        {"dram__bytes_read.sum": 16777216.0, "gpu__time_duration.sum": 12500.0},
    ]
    assert ncu.launches("==ERROR== nothing was profiled\n") == []
    assert ncu.launches('"not","the","table"\n"1","2","3"\n') == []


@pytest.mark.parametrize(
    ("output", "kind", "says"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
            "Counters on the target device 0. For instructions on enabling permissions and to get more "
            "information see https://developer.nvidia.com/ERR_NVGPUCTRPERM\n",
            MissingDependencyError,
            "no permission to read the GPU's performance counters (run as root, or have the driver",
        ),
        (
            "==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n",
            MissingDependencyError,
            "a library of the driver is missing",
        ),
        (
            "==ERROR== Profiling failed because another tool holds the driver's profiler\n",
            MissingDependencyError,
            "in use by another tool (end it",
        ),
        (
            "==PROF== x\n==ERROR== Unknown metric foo__bar\n",
            BackendError,
            "failed: Unknown metric foo__bar (",
        ),
        ("", BackendError, "it printed nothing"),
    ],
)
def test_why_ncu_failed_is_one_line_with_the_remedy(output: str, kind: type[Exception], says: str) -> None:
    error = ncu.failure(output)
    assert isinstance(error, kind)
    assert says in str(error) and "\n" not in str(error)


@pytest.mark.parametrize("form", ["{} Counter byte # of bytes", '"{}","Counter","byte","# of bytes"'])
def test_metrics_that_the_gpu_lacks_are_not_asked_for(form: str) -> None:
    names = [f"unit__metric_{i}" for i in range(150)] + ["gpu__time_duration", "dram__bytes_read"]
    known = ncu.listed("Device NVIDIA H200 (GH100)\n" + "\n".join(form.format(name) for name in names))
    assert metrics(known) == ["gpu__time_duration.sum", "dram__bytes_read.sum"]
    assert ncu.listed("==ERROR== unknown option") == frozenset()
    assert len(metrics()) == len(set(metrics())) > len(COUNTERS)


def counted(weight: float, **values: float) -> Counted:
    """A launch in which every metric is 1, but for those of these counters: each of their metrics has it."""
    found = dict.fromkeys(metrics(), 1.0)
    for name, value in values.items():
        found |= dict.fromkeys(BY_NAME[name].metrics, value)
    return Counted(weight, found)


def test_launches_are_added_or_weighted_by_the_rule_of_each_counter() -> None:
    first = counted(1, time_us=3000, dram_read_bytes=100, load_sectors=8, issue_pct=10, stall_barrier=2)
    other = counted(2, time_us=1000, dram_read_bytes=10, load_sectors=2, issue_pct=60, stall_barrier=5)
    found = of_side([first, other])
    assert set(found) == set(BY_NAME)
    assert found["time_us"] == 5.0  # ns to us, the second launch stands for two
    assert found["dram_read_bytes"] == 120
    assert found["load_sectors"] == (8 + 2 * 2) / 3  # sectors over requests
    assert found["issue_pct"] == (3000 * 10 + 2 * 1000 * 60) / 5000
    assert found["stall_barrier"] == (2 + 2 * 5) / 3  # each launch has one instruction
    assert found["flops"] == 24  # a fused operation counts twice
    assert {one.rule for one in COUNTERS} == set(Rule)


def test_a_counter_without_its_metrics_is_missing_or_has_another() -> None:
    whole = counted(1, tensor_pct=7)
    without = {
        name: value for name, value in whole.metrics.items() if "dram" not in name and "cycles" not in name
    }
    found = of_side([whole, Counted(1, without)])
    assert "dram_read_bytes" not in found and "time_us" in found
    assert found["tensor_pct"] == (7 + 1) / 2  # where the pipe's cycles are not known, its instructions
    none = counted(1)
    idle = Counted(1, {**none.metrics, "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 0.0})
    assert "load_sectors" not in of_side([idle]) and of_side([]) == {}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("dram_read_bytes", 2.5e9, "2.5 GB"),
        ("time_us", 12.5, "12.5 us"),
        ("issue_pct", 33.333, "33.3%"),
        ("instructions", 4.2e6, "4.2M instructions"),
        ("load_sectors", 31.97, "32 sectors"),
        ("atomics", 0, "0 requests"),
    ],
)
def test_counters_are_shown_with_their_unit(name: str, value: float, text: str) -> None:
    assert shown(name, value) == text


def profile(counters: Mapping[str, float], launches: int = 1) -> Profile:
    return Profile("demo/a", "slow", "key", "NVIDIA H200", "ncu 2025.3", launches, launches, counters)


@pytest.mark.parametrize(
    ("technique", "slow", "fast", "right"),
    [
        ("coalesced-access", {"load_sectors": 31.0}, {"load_sectors": 4.0}, True),
        ("coalesced-access", {"load_sectors": 4.0}, {"load_sectors": 4.1}, False),
        ("tensor-cores", {"tensor_pct": 0.0}, {"tensor_pct": 40.0}, True),
        ("tensor-cores", {"tensor_pct": 0.0}, {"tensor_pct": 0.4}, False),
        ("vectorized-access", {"load_sectors": 32.0}, {"load_sectors": 16.0}, True),
        (
            "bank-conflict-padding",
            {"shared_wavefronts": 10.0, "shared_conflicts": 0.0},
            {"shared_wavefronts": 1000.0, "shared_conflicts": 20.0},
            True,
        ),
        ("vectorized-access", {"load_sectors": 4.0}, {"load_sectors": 4.0}, False),
        ("occupancy", {"occupancy_pct": 60.0}, {"occupancy_pct": 30.0}, False),
    ],
)
def test_a_label_is_held_against_its_counters(
    technique: str, slow: dict[str, float], fast: dict[str, float], right: bool
) -> None:
    found = moves(technique, profile(slow), profile(fast))
    assert found and any(move.right for move in found) is right


def test_what_the_slow_side_hardly_has_cannot_fall() -> None:
    few, some = {"stall_barrier": 0.2, "shared_wavefronts": 500.0}, {"stall_barrier": 0.1}
    assert moves("warp-shuffle", profile(few), profile({**some, "shared_wavefronts": 1e6})) == []
    assert moves("kernel-fusion", profile({}), profile({})) == []
    (move,) = moves("warp-shuffle", profile({"stall_barrier": 5.0}), profile(some))
    assert move.right


def test_every_expectation_names_a_technique_and_a_counter() -> None:
    known = json.loads((resources.schemas_dir() / "techniques.json").read_text())
    assert set(EXPECTED) < {one["const"] for one in known["oneOf"]}
    for expected in EXPECTED.values():
        assert all(one[0] in "+-=" and one[1:] in {*BY_NAME, LAUNCHES, CONFLICTS} for one in expected)
    (fused,) = moves("kernel-fusion", profile({}, 4), profile({}, 1))
    assert fused.right and str(fused) == "launches 4 -> 1"
