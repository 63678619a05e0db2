"""The stage, with a stand-in for ncu that reads the job and prints what ncu prints: no GPU is needed."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from dataset.making import H200, pair, verdict, workspace

from benchmarks.worth import rows as worth_rows
from benchmarks.worth import worth
from kcurate.backends.base import EntryPoint
from kcurate.backends.choice import Place
from kcurate.backends.cuda import recorded_launches
from kcurate.cli import run as cli
from kcurate.core import resources, store
from kcurate.core.workspace import Workspace
from kcurate.dataset.stage import BuildConfig
from kcurate.dataset.stage import run as build
from kcurate.deopt.models.drivers import Counting
from kcurate.errors import BackendError, InputError, MissingDependencyError
from kcurate.hub.published_rows import read_rows
from kcurate.judge.workers import nursery
from kcurate.judge.workers.inside import landlock
from kcurate.judge.workers.nursery import Nursery, run_limited
from kcurate.profiling import label_check, ncu, on_file, stage
from kcurate.profiling import profiler as profiling
from kcurate.profiling.counters import metrics
from kcurate.profiling.profiler import Profiler, hanging, read_log
from kcurate.records import SIDES, Candidate, Outcome, Profile, SideName
from kcurate.report.entries import entry, part

# Prints one launch of our own and three of each side; `broken` sides end it, as `mode` says.
NCU = """#!{python}
import json, sys
from pathlib import Path
if "--version" in sys.argv:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 36400000)")
    sys.exit()
if "--query-metrics" in sys.argv:
    sys.exit()
from kcurate.judge.workers.inside.profiled import binary, sides
from kcurate.profiling import ncu
root = Path(sys.argv[-1])
assert (root / ncu.OWN_FOLDER).is_dir()
mode = Path({mode!r}).read_text()
if mode == "refused":
    sys.exit("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")
print("==PROF== Connected to process 1")
names = sys.argv[sys.argv.index("--metrics") + 1].split(",")
rows, at = [], 0
def recorded(value):
    global at
    for name in names:
        rows.append(f'"{{at}}","1","python","h","k(int, int)","{{name}}","","{{value}}"')
    at += 1
recorded(0)
with (root / "log").open("a", buffering=1) as log:
    for name, load, inputs in sides(json.loads((root / "job.json").read_text())):
        assert inputs.on_device and load.problem.sizes.headline == inputs.sizes
        assert load.side.code == "" and binary(root, name)[:4].tobytes() == b"\\x7fELF"
        print(json.dumps({{"side": name}}), file=log)
        if "broken" in mode and name == "1":
            if mode == "broken faults":
                recorded(1)
                print(json.dumps({{"side": name, "recorded": [1], "failed": "launch_error: x"}}), file=log)
            if mode == "broken ends":
                print("x")
                print("==ERROR== The application returned an error code (9).")
            break
        for _ in range(3):
            recorded(100 + int(name))
        print(json.dumps({{"side": name, "recorded": [1, 1, 2.5], "launches": 7}}), file=log)
print('"ID","Process ID","Process Name","Host Name","Kernel Name","Metric Name","Metric Unit","Metric Value"')
print("\\n".join(rows))
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Profiler]]:
    """A file that says how the stand-in behaves, and a profiler of an H200 that nobody asks anything."""
    root = tmp_path_factory.mktemp("ncu")
    told, tool = root / "mode", root / "ncu"
    tool.write_text(NCU.format(python=sys.executable, mode=str(told)))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", f"{root}:{os.environ['PATH']}")
        patched.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patched.setattr("kcurate.judge.workers.nursery.ENVIRONMENT", ("PATH", "PYTHONPATH"))
        profiler = Profiler(0, metrics(), H200, "sm_90", Nursery("cuda"))
        with contextlib.closing(profiler):
            yield told, profiler


@pytest.fixture
def mode(shared: tuple[Path, Profiler], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says how the stand-in behaves."""
    told, profiler = shared
    told.write_text("counts")
    monkeypatch.setattr(profiler, "close", lambda: None)
    monkeypatch.setattr(Profiler, "open", lambda *_: profiler)
    monkeypatch.setattr(stage, "choose", lambda *_, **__: Place("cuda"))
    return told


def given(root: Path) -> tuple[Workspace, list[Candidate]]:
    made = [pair("demo/a", 1), pair("demo/b", 2), pair("demo/c", 3)]
    made[2] = replace(made[2], slow=made[0].slow)
    return workspace(root, [(one, Outcome.CONFIRMED) for one in made]), made


def test_both_sides_of_confirmed_pairs_are_profiled_each_content_once(tmp_path: Path, mode: Path) -> None:
    space, (one, _, third) = given(tmp_path)
    store.write_candidate(space.pairs / "demo/d", pair("demo/d", 4))
    summary = stage.run(stage.ProfileConfig(tmp_path))
    assert summary.counts == {"sides": {"profiled": 6, "not_confirmed": 2}}
    path = tmp_path / "profiles" / "nvidia-h200.jsonl"
    lines = path.read_text().splitlines()
    assert len(lines) == 5 and max(map(len, lines)) < 1500
    first = next(iter(store.read_jsonl(path, Profile)))
    assert (first.tool, first.launches, first.profiled) == ("ncu 2025.3.1.0", 7, 3)
    assert first.counters["dram_read_bytes"] == 100 * 4.5
    assert first.compiler is not None and first.compiler.startswith("nvrtc")
    known = on_file.read(space)
    assert known.of(one, "slow", "NVIDIA H200") is known.of(third, "slow", "NVIDIA H200")
    mode.write_text("refused")  # nothing is left to do, so the tool is not asked
    assert stage.run(stage.ProfileConfig(tmp_path)).counts == summary.counts
    assert path.read_text().splitlines() == lines
    changed = replace(one, fast=replace(one.fast, code=one.fast.code + "\n// new\n"))
    assert known.stale(changed, "fast") and not known.stale(changed, "slow")


@pytest.mark.parametrize("how", ["broken faults", "broken ends", "broken hangs"])
def test_a_side_that_ends_the_process_costs_no_other(
    how: str, tmp_path: Path, mode: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "broken hangs":
        monkeypatch.setattr(profiling, "run_limited", killed)
    given(tmp_path)
    mode.write_text(how)
    summary = stage.run(stage.ProfileConfig(tmp_path))
    assert summary.counts == {"sides": {"profiled": 5, "failed": 1}}
    (failed,) = [item for item in summary.results if item.outcome == "failed"]
    says = {
        "faults": "launch_error: x",
        "ends": "it ended the process: x | The application returned an error code (9).",
        "hangs": "it ran into a time limit",
    }
    assert failed.why == says[how.removeprefix("broken ")]


def killed(command: list[str], folder: str, limit_s: float) -> subprocess.CompletedProcess[str] | None:
    """As if the tool had been killed while the side ran that did not end."""
    done = run_limited(command, folder, limit_s)
    hung = any(one.launches is None for one in read_log(Path(folder, "log")).values())
    return None if hung else done


def test_the_tool_is_killed_at_its_time_limit(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    assert run_limited(command, str(tmp_path), 0.2) is None
    done = run_limited([sys.executable, "-c", "print(2)"], str(tmp_path), 60.0)
    assert done is not None and (done.returncode, done.stdout) == (0, "2\n")


def test_what_a_tool_prints_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nursery, "MAX_OUTPUT_BYTES", 1000)
    command = [sys.executable, "-c", "for _ in range(1000): print('x' * 999)"]
    done = run_limited(command, str(tmp_path), 60.0)
    assert done is not None and (done.returncode, len(done.stdout)) == (0, 1000)


def test_a_process_that_leaves_the_group_holds_nobody_up(tmp_path: Path) -> None:
    code = "import os, time\nif not os.fork(): os.setsid(); time.sleep(20); os._exit(0)\ntime.sleep(600)"
    started_s = time.monotonic()
    assert run_limited([sys.executable, "-c", code], str(tmp_path), 1.0) is None
    assert time.monotonic() - started_s < 15


def test_a_gpu_that_refuses_counters_is_one_line_with_the_remedy(
    tmp_path: Path, mode: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given(tmp_path)
    mode.write_text("refused")
    assert cli(["profile", "-w", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "error: no permission to read the GPU's performance counters (run as root, or have the driver loaded "
        "with NVreg_RestrictProfilingToAdminUsers=0)"
    )


def test_without_ncu_it_says_where_ncu_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        MissingDependencyError, match=r"ncu\) is not installed \(it comes with the CUDA toolkit"
    ):
        stage.run(stage.ProfileConfig(tmp_path))


def test_a_tool_that_hangs_before_any_side_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"side": "3"}\nnot json\n{"side": "3", "recorded": [1], "launches": 1}\n')
    with pytest.raises(BackendError, match="time limit"):
        hanging(read_log(path))


def test_the_profiled_process_writes_only_where_the_tool_has_its_lock(tmp_path: Path) -> None:
    if not landlock.abi():
        pytest.skip("this kernel has no Landlock")
    (tmp_path / ncu.OWN_FOLDER).mkdir()
    code = (
        "import sys; from pathlib import Path; from kcurate.judge.workers.inside import isolation; "
        f"isolation.enter('run', 'cuda', also=[Path({ncu.OWN_FOLDER!r})])\n"
        f"for name in ('{ncu.OWN_FOLDER}/lock', 'log', '{tmp_path.parent}/x'):\n"
        "    try: print(Path(name).write_text('x'))\n"
        "    except PermissionError: print('no')"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "no", "no"]


def test_of_many_launches_some_are_recorded_evenly_apart() -> None:
    first, other = EntryPoint("first"), EntryPoint("other")
    few = recorded_launches.spread(Counter({first: 3, other: 2}))
    assert few == {**{(first, i): 1.0 for i in range(3)}, **{(other, i): 1.0 for i in range(2)}}
    many = recorded_launches.spread(Counter({first: 1000, other: 1}))
    assert len(many) == 5 and many[other, 0] == 1.0
    chosen = sorted(number for entry, number in many if entry == first)
    assert chosen == [125, 375, 625, 875] and sum(many.values()) == 1001


def test_the_profiles_of_the_built_in_pairs_are_of_their_sides_as_they_are() -> None:
    pairs = map(store.read_candidate, store.find_candidates(resources.pairs_dir()))
    keys = {on_file.side_key(one, side) for one in pairs for side in SIDES}
    for path in on_file.shipped().glob("*.jsonl"):
        found = list(store.read_jsonl(path, Profile))
        assert len(found) == len(path.read_text().splitlines()) == len({one.key for one in found})
        assert not [one.candidate for one in found if one.key not in keys], "run kcurate profile again"
        assert {Workspace(Path()).profiled(one.device).name for one in found} == {path.name}


def test_no_label_of_a_built_in_pair_lacks_a_counter_and_an_ablation() -> None:
    """Ablations: what the rules removed, judged on a GPU (docs/results/corpus.md)."""
    pairs = {one.id: one for one in map(store.read_candidate, store.find_candidates(resources.pairs_dir()))}
    known = worth(worth_rows(), pairs)
    stale = [one.id for one in pairs.values() if dict(one.worth) != known.get(one.id, {})]
    assert len(known) > 100 and not stale, "run python benchmarks/deopt_docs.py"
    profiles = on_file.read(None)
    found: dict[str, list[str]] = {}
    for one in pairs.values():
        both = label_check.side_profiles(one, profiles)
        for technique in one.techniques:
            outcome, why = label_check.label_outcome(one, technique, both, profiles, {})
            found.setdefault(outcome, []).append(f"{one.id} {technique}: {why}")
    assert not found.get("unsupported") and not found.get("stale")
    assert len(found["supported"]) > 1000 and "ablation" in found


def write(space: Workspace, candidate: Candidate, slow: float, fast: float) -> None:
    both: tuple[tuple[SideName, float], ...] = (("slow", slow), ("fast", fast))
    for side, sectors in both:
        one = Profile(
            candidate.id, side, on_file.side_key(candidate, side), "NVIDIA H200", "ncu 1", 1, 1,
            {"load_sectors": sectors},
        )  # fmt: skip
        store.append_jsonl(space.profiled("NVIDIA H200"), one)


def test_labels_are_listed_whose_counter_does_not_move(tmp_path: Path) -> None:
    named = ("coalesced-access", "cooperative-groups")
    one, two, three, four = (pair(f"demo/{name}", i, techniques=named) for i, name in enumerate("abcd", 1))
    space = workspace(tmp_path, [(made, Outcome.CONFIRMED) for made in (one, two, three, four)])
    config = stage.ProfileConfig(tmp_path)
    if not any(on_file.shipped().glob("*.jsonl")):
        with pytest.raises(InputError, match="no profiles here"):
            label_check.check(config)
    write(space, one, 32, 4)
    write(space, two, 4, 4)
    write(space, replace(three, slow=replace(three.slow, code="old")), 4, 4)
    summary = label_check.check(config)
    assert summary.counts == {
        "labels": {"supported": 1, "unsupported": 1, "no_counter": 4, "not_profiled": 1, "stale": 1}
    }
    (bad,) = [item for item in summary.results if item.outcome == "unsupported"]
    assert (bad.id, bad.why, bad.passed) == (
        "demo/b coalesced-access",
        "load_sectors 4 sectors -> 4 sectors",
        False,
    )
    removed = replace(
        pair("demo/b-without", 7, techniques=named[:1]), origin=replace(two.origin, parent="demo/b")
    )
    workspace(tmp_path, [(removed, Outcome.CONFIRMED)])
    counts = label_check.check(config).counts["labels"]
    assert counts["ablation"] == 1 and "unsupported" not in counts
    in_triton = replace(one, fast=replace(one.fast, language="triton"))
    said = label_check.label_outcome(in_triton, "coalesced-access", None, on_file.Profiles(), {})
    assert said == ("no_counter", "ncu counts no sides in PyTorch or Triton here")


def test_profiles_are_shown_reported_and_published(
    tmp_path: Path, mode: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space, pairs = given(tmp_path)
    stage.run(stage.ProfileConfig(tmp_path))
    assert cli(["show", "demo/a", "-w", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "profiles on NVIDIA H200" in printed and "of other code" not in printed
    assert ["dram_read_bytes", "450", "B", "454", "B"] in [line.split() for line in printed.splitlines()]
    build(BuildConfig(tmp_path))
    (rows,) = read_rows(space.dataset, "profiles").values()
    assert [(row["id"], row["side"]) for row in rows] == [
        (one.id, side) for one in pairs for side in ("slow", "fast")
    ]
    assert rows[0]["device"] == "NVIDIA H200" and rows[0]["instructions"] == 450 and rows[0]["launches"] == 7
    assert {row["license"] for row in rows} == {"MIT"}
    old = replace(pairs[0], slow=replace(pairs[0].slow, code=pairs[0].slow.code + "\n// new\n"))
    store.write_candidate(space.pairs / "demo/a", old)
    assert cli(["show", "demo/a", "-w", str(tmp_path)]) == 0
    assert "of other code than this: run kcurate profile again" in capsys.readouterr().out


def test_the_report_names_the_counters_that_changed_as_the_techniques_predict() -> None:
    one = replace(pair("demo/a"), techniques=("vectorized-access", "atomics-reduction", "kernel-fusion"))
    values = {"time_us": 10.0, "instructions": 8e6, "atomics": 5e3, "load_sectors": 4.0}
    after = {"time_us": 5.0, "instructions": 2e6, "atomics": 0.0, "load_sectors": 4.0}
    both = on_file.Profiles(
        Profile("demo/a", side, on_file.side_key(one, side), "NVIDIA H200", "ncu 1", 1, 1, counted)
        for side, counted in (("slow", values), ("fast", after))
    )
    shown = part(entry(one, [verdict(one)], both))
    assert shown["why"] == [
        (
            "global atomics of warps",
            "5k requests",
            "0 requests",
            "none on one side (less)",
            "atomics-reduction",
        ),
        (
            "warp instructions executed",
            "8M instructions",
            "2M instructions",
            "4.00 times less",
            "vectorized-access",
        ),
    ]
    assert ("duration under the profiler", "10 microseconds", "5 microseconds") in shown["profiles"][
        "NVIDIA H200"
    ]
    assert part(entry(one, [verdict(one)]))["why"] == []


def test_a_search_counts_what_it_may_and_says_once_that_it_cannot(tmp_path: Path, mode: Path) -> None:
    one, notes = pair("demo/a", 1), list[str]()
    counting = Counting(0, notes.append)
    assert counting(one, ("slow", "fast"))["fast"]["dram_read_bytes"] == 101 * 4.5
    assert counting(replace(one, slow=replace(one.slow, language="triton")), ("slow",)) == {}
    mode.write_text("refused")
    assert [counting(one, ("fast",)) for _ in range(2)] == [{}, {}]
    (said,) = notes
    assert said.startswith("prompts have no counters: no permission to read the GPU's performance counters")
