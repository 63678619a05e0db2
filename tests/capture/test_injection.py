"""The recorder for GPUs, compiled for real, driven by a CUPTI and a driver of our own (`doubles/player.cpp`).

Not covered: what a real CUPTI and driver do; `benchmarks/capture_own.py` runs them.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kcurate.backends.cuda import nvrtc
from kcurate.backends.emulator import toolchain
from kcurate.capture import building
from kcurate.errors import BackendError, MissingDependencyError
from kcurate.lookup import doctor

PLAYER = Path(__file__).with_name("doubles") / "player.cpp"
SCALE = "_Z5scalePfPKffi"
OTHER = "_ZN2ns5otherIiLi2EEEvPT_"
VARIABLES = """
__constant__ int weights[3] = {1, 2, 3};
static __constant__ int unset[2];
namespace inner { __device__ int state; }
extern "C" __global__ void use(int* out) { out[0] = weights[0] + unset[1] + inner::state++; }
"""


@dataclass(frozen=True)
class Played:
    """What a scenario left: exit code, output, the lines of each process, the folder."""

    code: int
    output: str
    processes: list[list[dict[str, Any]]]
    folder: Path

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Those of the only process."""
        assert len(self.processes) == 1
        return self.processes[0]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]

    @property
    def launches(self) -> list[dict[str, Any]]:
        return self.of("launch")

    @property
    def notes(self) -> dict[str, str]:
        return {line["what"]: line["text"] for line in self.of("note")}

    def contents(self, name: str, kind: str = "f") -> list[float]:
        data = (self.folder / name).read_bytes()
        return list(struct.unpack(f"{len(data) // struct.calcsize(kind)}{kind}", data))


@pytest.fixture(scope="session")
def library() -> Path:
    return building.injection()


@pytest.fixture(scope="session")
def player(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("player") / "player"
    folders, _ = nvrtc.host_folders(nvrtc.CUPTI_HEADERS)
    options = ["-std=c++17", "-rdynamic", "-pthread", *(f"-I{folder}" for folder in folders)]
    command = [*toolchain.find().command, *options, str(PLAYER), "-o", str(made), "-ldl"]
    subprocess.run(command, check=True, timeout=120)
    return made


@pytest.fixture
def play(library: Path, player: Path, tmp_path: Path) -> Any:
    def run(
        scenario: str, *args: str, variables: Mapping[str, str] | None = None, record: bool = True
    ) -> Played:
        folder = tmp_path / f"out{len(list(tmp_path.glob('out*/*.jsonl'))) or ''}"
        environment = {name: text for name, text in os.environ.items() if not name.startswith("KCURATE_")}
        environment["CUDA_INJECTION64_PATH"] = str(library)
        for name, text in (variables or {}).items():
            environment[f"KCURATE_CAPTURE_{name}"] = text
        if record:
            environment["KCURATE_CAPTURE_DIR"] = str(folder)
        command = [str(player), scenario, *args]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
        )
        assert not done.stderr
        files = sorted(folder.glob("*.jsonl"), key=lambda path: int(path.stem.split("-")[1]))
        lines = [[json.loads(line) for line in path.read_text().splitlines()] for path in files]
        return Played(done.returncode, done.stdout, lines, folder)

    return run


def test_distinct_launches_are_forms_and_the_others_are_counted(play: Any) -> None:
    played = play("forms")
    start, end = played.lines[0], played.lines[-1]
    assert (start["event"], start["version"], start["source"]) == ("start", 1, "cupti")
    assert start["device"] == 'Double "1"' and start["program"].endswith("/player")
    assert end == {"event": "end"}
    first, other_scalar, offset = played.launches
    assert (first["kernel"], first["grid"], first["block"]) == (SCALE, [2, 1, 1], [64, 1, 1])
    assert first["cluster"] is None and not first["cooperative"] and first["symbols"] == []
    assert [arg["hex"] for arg in first["args"]] == ["00" * 8, "00" * 8, "00000040", "64000000"]
    assert other_scalar["args"][2]["hex"] == "00004040"
    assert [arg["pointers"] for arg in offset["args"]] == [
        [{"at": 0, "buffer": 0, "offset": 200}], [{"at": 0, "buffer": 1, "offset": 40}], [], [],
    ]  # fmt: skip
    assert played.of("times")[-1] == {"event": "times", "forms": {"0": 2, "1": 1, "2": 2}, "others": {}}
    assert played.of("order") == [{"event": "order", "forms": [0, 0, 1, 2, 2]}]


def test_launches_over_and_over_are_counted_without_asking_again(play: Any) -> None:
    played = play("again")
    assert played.of("times")[-1]["forms"] == {"0": 2, "1": 38}
    assert played.of("order")[0]["forms"] == [0, *[1] * 19, 0, *[1] * 19]
    (text,) = (line for line in played.output.splitlines() if line.endswith(" pointers"))
    assert int(text.split()[0]) == 4  # two of each form's first launch


def test_contents_are_those_before_and_after_and_only_what_changed(play: Any) -> None:
    played = play("forms")
    out, read = played.launches[0]["buffers"]
    assert (out["bytes"], out["memory"], out["changed"]) == (400, "device", True)
    assert played.contents(out["before"]) == list(range(100))
    assert played.contents(out["after"]) == [2 * i for i in range(100)]
    assert read["changed"] is False and read["after"] is None
    assert played.contents(read["before"]) == list(range(100))


def test_pointers_inside_a_struct_are_found_and_a_null_pointer_is_another_form(play: Any) -> None:
    both, one = play("struct").launches
    assert both["args"][0] == {
        "hex": "00" * 8 + "03000000" + "04000000" + "00" * 16,
        "pointers": [{"at": 0, "buffer": 0, "offset": 0}, {"at": 16, "buffer": 1, "offset": 8}],
    }
    assert both["args"][1] == {"hex": "01", "pointers": []}
    assert one["args"][0]["hex"] == both["args"][0]["hex"] and len(one["args"][0]["pointers"]) == 1


def test_arguments_in_one_buffer_are_told_apart(play: Any) -> None:
    (launch,) = play("extra").launches
    assert [arg["hex"] for arg in launch["args"]] == ["00" * 8, "00" * 8, "00000040", "04000000"]
    assert [buffer["changed"] for buffer in launch["buffers"]] == [True, False]


def test_a_kernel_without_parameters_is_not_one_of_unknown_sizes(play: Any) -> None:
    played = play("sizes")
    assert {line["kernel"]: line["args"] for line in played.launches} == {
        "none": [],
        "bare": [],
        "secret": None,
    }
    assert "secret" in played.notes["no_params"]


def test_clusters_come_from_the_launch_or_the_kernel(play: Any) -> None:
    launched, cooperative, demanded = play("cluster").launches
    assert (launched["cluster"], launched["cooperative"], launched["shared"]) == ([2, 1, 1], True, 1024)
    assert (cooperative["cluster"], cooperative["cooperative"]) == (None, True)
    assert (cooperative["grid"], cooperative["block"], cooperative["shared"]) == ([1, 2, 3], [4, 5, 6], 7)
    assert demanded["cluster"] == [4, 1, 1]


@pytest.mark.parametrize(("per_kernel", "looked_at"), [("2", 2), ("0", 0), ("what", 4)])
def test_only_some_forms_of_a_kernel_are_looked_at(play: Any, per_kernel: str, looked_at: int) -> None:
    played = play("many", "6", variables={"PER_KERNEL": per_kernel})
    found = [[buffer["before"] for buffer in line["buffers"]] for line in played.launches]
    assert len(found) == 6
    assert all(all(names) for names in found[:looked_at])
    assert found[looked_at:] == [[None, None]] * (6 - looked_at)
    assert played.output.startswith("0 copies") == (looked_at == 0)


def test_a_kernel_with_a_counter_among_its_arguments_does_not_fill_the_disk(play: Any) -> None:
    played = play("many", "1100", variables={"PER_KERNEL": "0"})
    assert len(played.launches) == 256
    times = played.of("times")[-1]
    assert len(times["forms"]) == 256 and times["others"] == {SCALE: 844}
    assert "after 256" in played.notes["limit"]


def test_the_bytes_of_all_contents_are_limited(play: Any) -> None:
    played = play("many", "4", variables={"BYTES": str(7 << 19)})
    found = [buffer for line in played.launches[:3] for buffer in line["buffers"]]
    # The third launch finds its output changed, and no room; its input is as the first found it.
    assert [bool(buffer["before"]) for buffer in found] == [True, True, True, True, False, True]
    assert [buffer["changed"] for buffer in found] == [False, False, True, False, None, False]
    assert [bool(buffer["after"]) for buffer in found] == [False, False, True, False, False, False]
    assert sum(path.stat().st_size for path in played.folder.glob("*.bin")) == 3 << 20
    assert "KCURATE_CAPTURE_BYTES" in played.notes["limit"]


def test_launches_share_the_contents_of_what_has_not_changed(play: Any) -> None:
    played = play("many", "3")
    (out, read), (out_again, read_again), (out_changed, read_third) = (
        [buffer["before"] for buffer in line["buffers"]] for line in played.launches
    )
    assert out == out_again != out_changed and read == read_again == read_third
    # 1 MiB each: the input, the output as it was, after the second and the third launch, before the third.
    assert len(list(played.folder.glob("*.bin"))) == 5


def test_what_changed_is_told_without_the_contents_after_it(play: Any) -> None:
    played = play("many", "2", variables={"AFTER": "0"})
    assert [line["buffers"][0]["changed"] for line in played.launches] == [False, True]
    assert all(buffer["after"] is None for line in played.launches for buffer in line["buffers"])
    assert len(list(played.folder.glob("*.bin"))) == 2


def test_a_large_buffer_is_cut_and_then_unchanged_is_not_known(play: Any) -> None:
    (launch,) = play("many", "1", variables={"BUFFER_BYTES": "4096"}).launches
    out, read = launch["buffers"]
    assert out["bytes"] == read["bytes"] == 1 << 20
    assert (out["changed"], read["changed"], read["after"]) == (None, None, None)
    played = play("forms", variables={"BUFFER_BYTES": "40"})
    assert played.launches[0]["buffers"][0]["changed"] is True
    assert len(played.contents(played.launches[0]["buffers"][0]["after"])) == 10


def test_a_buffer_copied_in_parts_is_whole_and_its_last_byte_counts(play: Any) -> None:
    played = play("large")
    same, changed = (launch["buffers"][0] for launch in played.launches)
    size = (17 << 20) + 3
    assert (same["changed"], changed["changed"]) == (False, True)
    before, after = ((played.folder / changed[when]).read_bytes() for when in ("before", "after"))
    assert before == bytes(i & 255 for i in range(size))
    assert after[:-1] == before[:-1] and after[-1] == before[-1] ^ 1


def test_after_the_time_limit_forms_are_written_without_contents(play: Any) -> None:
    played = play("forms", variables={"SECONDS": "0"})
    assert len(played.launches) == 3
    assert {buffer["before"] for line in played.launches for buffer in line["buffers"]} == {None}
    assert "KCURATE_CAPTURE_SECONDS" in played.notes["limit"]
    assert "limit" not in play("forms", variables={"SECONDS": "1e+06"}).notes
    assert "limit" not in play("forms", variables={"SECONDS": "soon"}).notes


@pytest.mark.parametrize(
    ("name", "forms", "others"), [("scale", {"0": 1}, {OTHER: 3}), ("other", {"0": 3}, {SCALE: 1})]
)
def test_kernels_that_nobody_asked_for_are_counted(
    play: Any, tmp_path: Path, name: str, forms: dict[str, int], others: dict[str, int]
) -> None:
    (tmp_path / "only").write_text(f"missing\n{name}\n")
    played = play("names", variables={"ONLY": str(tmp_path / "only")})
    assert played.of("times")[-1] == {"event": "times", "forms": forms, "others": others}
    assert len(played.launches) == 1


def test_a_crash_loses_nothing_that_was_seen(play: Any) -> None:
    played = play("abort")
    assert played.code == -signal.SIGABRT
    assert [line["event"] for line in played.lines] == ["start", "launch"]
    assert played.contents(played.launches[0]["buffers"][0]["before"]) == [0, 1, 2, 3]


def test_a_forked_child_has_a_file_of_its_own_and_one_that_launches_nothing_has_none(play: Any) -> None:
    parent, child = sorted(play("fork").processes, key=lambda lines: len(lines))
    assert [line["event"] for line in parent] == ["start", "launch", "times", "order", "end"]
    assert [line["event"] for line in child] == ["start", "note", "launch", "times", "order", "end"]
    assert child[0]["pid"] != parent[0]["pid"] and child[1]["what"] == "fork"
    assert (parent[2]["forms"], child[3]["forms"]) == ({"0": 2}, {"0": 2})
    names = [
        line[at]["buffers"][0][when] for line, at in ((parent, 1), (child, 2)) for when in ("before", "after")
    ]
    assert [name.split("-")[0] for name in names if name] == [
        str(parent[0]["pid"]), *[str(child[0]["pid"])] * 2,
    ]  # fmt: skip


def test_a_program_that_replaces_itself_keeps_the_contents_of_the_first(play: Any) -> None:
    played = play("exec")
    first, second = played.processes
    assert first[0]["pid"] == second[0]["pid"]
    own, others = (
        {b[w] for line in lines for b in line.get("buffers", ()) for w in ("before", "after") if b[w]}
        for lines in (first, second)
    )
    assert own and others and not own & others
    assert played.contents(first[1]["buffers"][0]["after"]) == [0, 2, 4, 6]


def test_threads_lose_no_launch(play: Any) -> None:
    played = play("threads")
    assert sum(played.of("times")[-1]["forms"].values()) == 10_000
    assert len(played.launches) == 7 and len({line["form"] for line in played.launches}) == 7
    assert [sum(line["forms"].values()) for line in played.of("times")] == [4096, 8192, 10_000]
    assert len(played.of("order")[0]["forms"]) == 4096


def test_kernels_of_a_graph_are_forms_each_time_it_is_launched(play: Any) -> None:
    """Two launches, one with a changed node, one with another disabled; then a graph of one kernel."""
    played = play("graph")
    assert played.of("order")[0]["forms"] == [0, 1, 0, 1, 2, 1, 3, 4]
    scalars = [struct.unpack("f", bytes.fromhex(line["args"][2]["hex"]))[0] for line in played.launches]
    assert scalars == [2, 3, 5, 6, 7]
    looked_at = [[buffer["before"] is not None for buffer in line["buffers"]] for line in played.launches]
    assert looked_at == [[False, False]] * 4 + [[True, True]]
    assert played.launches[4]["buffers"][0]["changed"] is True
    assert "several nodes" in played.notes["graph"]


def test_nothing_is_copied_during_stream_capture(play: Any) -> None:
    played = play("capturing")
    assert played.code == 0  # the double ends a program that copies or waits then
    captured_beside, after, capture_began = played.launches
    assert [line["args"][2]["hex"] for line in (captured_beside, after)] == ["00004040", "00008040"]
    assert [line["buffers"][0]["changed"] for line in (captured_beside, after)] == [None, True]
    assert capture_began["buffers"][0]["before"] and capture_began["buffers"][0]["changed"] is None
    assert "captured" in played.notes["graph"]


def test_a_refused_launch_is_no_launch_and_contents_that_cannot_be_copied_are_missing(play: Any) -> None:
    played = play("failing")
    assert played.of("times")[-1]["forms"] == {"0": 1, "1": 1}
    copied, not_copied = (line["buffers"][0] for line in played.launches)
    assert copied["changed"] is True
    assert (not_copied["before"], not_copied["after"], not_copied["changed"]) == (None, None, None)
    assert "could not be copied" in played.notes["limit"]
    assert {path.name for path in played.folder.glob("*.bin")} == {copied["before"], copied["after"]}


def test_what_cannot_be_trusted_is_noted(play: Any) -> None:
    played = play("notes")
    assert set(played.notes) == {"managed", "unknown_memory", "no_kernel"}
    assert [buffer["memory"] for buffer in played.launches[0]["buffers"]] == ["managed", "host"]
    assert played.launches[1]["args"][1] == {"hex": "90785634127f0000", "pointers": []}


@pytest.mark.parametrize(
    ("held", "written"),
    [
        ({"weights": "1,2,3", "unset": "0,0", "state": "0"}, {}),
        ({"weights": "1,5,3", "unset": "0,0", "state": "0"}, {"weights": [1, 5, 3]}),
        ({"weights": "1,2,3", "unset": "0,7", "state": "4"}, {"unset": [0, 7], "inner::state": [4]}),
        ({"weights": "1,2"}, {}),  # another module's variable of this name
    ],
)
def test_variables_that_hold_something_new_are_recorded(
    play: Any, tmp_path: Path, held: dict[str, str], written: dict[str, list[int]]
) -> None:
    made = nvrtc.compile_cubin(VARIABLES)
    assert made.cubin, made.log
    cubin = tmp_path / "module.cubin"
    cubin.write_bytes(made.cubin)
    mangled = {"weights": "weights", "unset": "unset", "state": "_ZN5inner5stateE"}
    assert all(name.encode() in made.cubin for name in mangled.values())
    args = [word for name, values in held.items() for word in (mangled[name], values)]
    played = play("symbols", str(cubin), "use", *args)
    found, of_driver_api = ({one["name"]: one for one in line["symbols"]} for line in played.launches)
    assert found.keys() == of_driver_api.keys()
    assert {name: played.contents(one["before"], "i") for name, one in found.items()} == written
    assert {name: one["bytes"] for name, one in found.items()} == {n: 4 * len(v) for n, v in written.items()}


@pytest.mark.parametrize("length", [0, 63, 64, 200, 1000, -100])
def test_a_damaged_cubin_harms_nothing(play: Any, tmp_path: Path, length: int) -> None:
    whole = nvrtc.compile_cubin(VARIABLES).cubin or b""
    (tmp_path / "module.cubin").write_bytes(whole[:length])
    played = play("symbols", str(tmp_path / "module.cubin"), "use", "weights", "9,9,9")
    assert played.code == 0 and len(played.launches) == 2


def test_a_program_that_closes_all_files_keeps_its_own_clean(play: Any, tmp_path: Path) -> None:
    played = play("descriptors", str(tmp_path / "own.txt"))
    assert (tmp_path / "own.txt").read_text() == "own"
    assert len(played.launches) == 2


def test_a_limit_on_file_sizes_does_not_end_the_program(play: Any) -> None:
    played = play("file-size")
    assert played.code == 0 and len(played.launches) == 1
    assert {buffer["before"] for buffer in played.launches[0]["buffers"]} == {None}


def test_a_second_user_of_cupti_is_noted(play: Any) -> None:
    played = play("refused")
    assert [line["event"] for line in played.lines] == ["start", "note", "times", "order", "end"]
    assert "cuptiSubscribe returned" in played.notes["cupti"]


def test_without_a_folder_nothing_happens(play: Any, tmp_path: Path) -> None:
    played = play("many", "2", record=False)
    assert played.output == "0 copies\nmany: 0 subscriptions\n"
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_does_not_harm_the_program(play: Any, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    played = play("many", "1")
    assert played.code == 0 and "many: 1 subscriptions" in played.output


def test_the_library_links_against_no_cuda_and_exports_one_function(library: Path) -> None:
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as file:
        elf = ELFFile(file)
        needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
        symbols = elf.get_section_by_name(".dynsym").iter_symbols()
        exported = [one.name for one in symbols if one["st_shndx"] != "SHN_UNDEF"]
    assert not [name for name in needed if "cu" in name or "stdc++" in name]
    assert exported == ["InitializeInjection"]


def test_a_library_is_built_once_for_the_same_sources(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "run", lambda *_: pytest.fail("compiled again"))
    assert building.injection() == library


def test_missing_headers_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvrtc, "_wheel_folder", lambda *_: None)
    monkeypatch.setattr(nvrtc, "TOOLKIT", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    with pytest.raises(MissingDependencyError, match=r"cupti\.h.*kcurate\[gpu\].*CUDA_HOME"):
        building.injection()
    finding = next(one for one in doctor.examine({}) if one.topic == "capture on a GPU")
    assert not finding.ok and "cupti.h" in finding.detail and "kcurate[gpu]" in (finding.hint or "")


def test_headers_of_a_toolkit_come_before_those_of_wheels(tmp_path: Path) -> None:
    include, extras = tmp_path / "include", tmp_path / "extras" / "CUPTI" / "include"
    for folder, names in ((include, ("cuda.h", "cuda_runtime_api.h", "cuda_fp16.h")), (extras, ("cupti.h",))):
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).touch()
    (include / "crt").mkdir()
    (include / "crt" / "host_defines.h").touch()
    (tmp_path / "extras" / "CUPTI" / "lib64").mkdir()
    folders, libraries = nvrtc.host_folders(nvrtc.CUPTI_HEADERS, {"CUDA_HOME": str(tmp_path)})
    assert folders == (include, extras) and libraries == (extras.parent / "lib64",)


def test_the_machines_own_set_up_can_build_it() -> None:
    finding = next(one for one in doctor.examine({}) if one.topic == "capture on a GPU")
    assert finding.ok, finding.detail


def test_sources_that_do_not_compile_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "recording.h").touch()
    (tmp_path / "injection.cpp").write_text("int broken = ;\nint again = ;\n")
    monkeypatch.setattr(building, "NATIVE", tmp_path)
    with pytest.raises(BackendError, match="does not compile") as caught:
        building.injection()
    assert "\n" not in str(caught.value)


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "native"
    source.mkdir()
    (source / "recording.h").touch()
    (source / "injection.cpp").write_text("int fine;\n")
    monkeypatch.setattr(building, "NATIVE", source)
    with pytest.raises(MissingDependencyError, match="XDG_CACHE_HOME"):
        building.injection()
