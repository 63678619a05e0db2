"""Raw records that `benchmarks/capture_own.py` took on an H200, described and drafted without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kcurate.capture import stage
from kcurate.capture.stage import CaptureConfig
from kcurate.core import store
from kcurate.draft.stage import DraftConfig, draft
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from kcurate.problem.dtypes import numpy_dtype
from kcurate.records import Capture, KnownProblem

HERE = Path(__file__).parent


def played(records: Path, work: Path) -> list[Capture]:
    """The records of a program that only hands over what it was recorded with."""
    work.mkdir(exist_ok=True)
    player = work / "player"
    player.write_text(f'#!/bin/sh\ncp {records}/* "$KCURATE_CAPTURE_DIR"\n')
    player.chmod(0o755)
    stage.run(CaptureConfig((str(player),), workspace=work, recorder="cudart"))
    return [store.read_json(path, Capture) for path in sorted(work.glob("captures/*/*.json"))]


@pytest.mark.parametrize(
    ("program", "kernels"),
    [
        ("driver", {"axpy": 101, "tick": 2}),
        ("graph", {"fill<float>": 101, "fill<int>": 1, "smooth<3>": 101, "smooth<1>": 1}),
        ("runtime", {"scale": 102, "count_odd": 1}),
    ],
)
def test_launches_on_a_gpu_are_counted_and_described(
    tmp_path: Path, program: str, kernels: dict[str, int]
) -> None:
    found = played(HERE / "records" / program, tmp_path / "work")
    times = {}
    for one in found:
        name = one.kernel.replace("(int)", "").split("(")[0].split(" ")[-1]
        times[name] = sum(launch.times for launch in one.launches)
        assert (one.program, one.source, one.device, one.complete) == (program, "cupti", "NVIDIA H200", True)
    assert times == kernels


def test_a_record_of_a_gpu_becomes_an_admitted_problem(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "runtime.cu").write_bytes((HERE / "programs" / "runtime.cu").read_bytes())
    extract(ExtractConfig((tmp_path / "tree",), work, compile=False))
    played(HERE / "records" / "runtime", work)
    assert draft(DraftConfig(work)).items["kernels"] == {"admitted": 1, "single_size": 1}
    problems = {path.parent.name: store.read_json(path, KnownProblem) for path in work.rglob("problem.json")}
    assert {one.source for one in problems.values()} == {"captured"}
    assert set(problems["count_odd"].problem.buffers) == {"data"}


@pytest.mark.parametrize("dtype", ["__nv_bfloat16", "__nv_fp8_e4m3"])
def test_narrow_floats_that_no_generator_makes_are_kept(tmp_path: Path, dtype: str) -> None:
    kind = numpy_dtype({"__nv_bfloat16": "bfloat16"}.get(dtype, "float8_e4m3"))
    values = np.concatenate([np.random.default_rng(0).random(500), [100.0] * 30]).astype(kind)
    buffer = {"bytes": values.nbytes, "memory": "device", "changed": False, "before": "1.bin", "after": None}
    launch = {"event": "launch", "form": 0, "kernel": f"_Z1kP{len(dtype)}{dtype}"}
    launch |= {"grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0, "cooperative": False}
    launch |= {"args": [{"hex": "00" * 8, "pointers": [{"at": 0, "buffer": 0, "offset": 0}]}]}
    start = {"event": "start", "version": 1, "pid": 1, "source": "cupti", "program": "p", "device": "GPU"}
    lines = [start, launch | {"buffers": [buffer]}, {"event": "end"}]
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "1-1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "records" / "1.bin").write_bytes(values.tobytes())
    (one,) = played(tmp_path / "records", tmp_path / "work")
    before = one.launches[0].buffers[0].before
    assert before is not None and before.sample is not None
    assert (tmp_path / f"work/captures/p/data/{before.sample}.bin").read_bytes() == values.tobytes()
