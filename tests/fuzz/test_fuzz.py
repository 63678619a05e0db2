"""Seeds and earlier crashes of the fuzz targets; with `--run-slow`, 12 s of coverage-guided fuzzing each."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcurate.capture import raw
from kcurate.capture.recording import Describer, Texts
from kcurate.errors import RecordError

HARNESS = Path(__file__).with_name("harness.py")
spec = importlib.util.spec_from_file_location("harness", HARNESS)
assert spec is not None and spec.loader is not None
harness = importlib.util.module_from_spec(spec)
spec.loader.exec_module(harness)


@pytest.mark.parametrize("target", harness.TARGETS)
def test_seeds_and_earlier_crashes_raise_nothing(target: str) -> None:
    earlier = [path.read_bytes() for path in sorted(harness.CRASHES.glob(f"{target}-*"))]
    for data in (*harness.seeds(target), *earlier):
        harness.TARGETS[target](data)


def test_an_edit_script_changes_what_it_says() -> None:
    data = {"a": [1, 2], "b": "text"}
    changed = {
        harness.dumped(harness.Edits(bytes([1, first, *range(40)])).apply({**data})) for first in range(64)
    }
    assert len(changed) > 10


@pytest.mark.slow
@pytest.mark.parametrize("target", harness.TARGETS)
def test_fuzzing_finds_no_crash(target: str) -> None:
    pytest.importorskip("atheris")
    root = HARNESS.parent.parent.parent
    done = subprocess.run(
        [sys.executable, str(HARNESS), target, "--seconds", "12"],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False,
        timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(
    "line",
    [
        {"event": "launch", "form": None},
        {"event": "times", "forms": {}},
        {"event": "times", "forms": {"0": 1}, "others": 3},
        {"event": "order", "forms": ["x"]},
        {"event": "launch", "form": 0, "kernel": "k", "args": [{"hex": "00"}], "buffers": []},
    ],
)
def test_lines_that_no_recorder_wrote_are_refused(tmp_path: Path, line: dict[str, object]) -> None:
    """What fuzzing found: these ended in a `KeyError`, `TypeError`, `AttributeError` or `ValueError`."""
    start = {"event": "start", "version": 1, "program": "p", "source": "cupti", "device": "d"}
    (tmp_path / "1.jsonl").write_bytes(harness.dumped(start) + b"\n" + harness.dumped(line))
    with pytest.raises(RecordError, match="not written by a recorder of kcurate"):
        for process in raw.read(tmp_path):
            Describer(tmp_path, Texts({}), tmp_path / "data", keep=False).captures(process)
