"""Nsight Compute on a real GPU: every counter of a built-in pair."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kcurate.core import resources, store
from kcurate.core.workspace import Workspace
from kcurate.profiling import on_file
from kcurate.profiling.counters import BY_NAME
from kcurate.profiling.stage import ProfileConfig, run
from kcurate.records import SIDES, Profile

pytestmark = pytest.mark.gpu
PAIR = "reduction-scan/reduce-sum"


def test_both_sides_of_a_built_in_pair_have_every_counter(tmp_path: Path) -> None:
    if shutil.which("ncu") is None:
        pytest.skip("ncu is not installed")
    folder = resources.pairs_dir() / PAIR
    assert run(ProfileConfig(tmp_path, (folder,), again=True)).counts == {"sides": {"profiled": 2}}
    # Only what was written now: profiles of other GPUs ship with the package.
    (path,) = Workspace(tmp_path).profiles.glob("*.jsonl")
    (sides,) = (
        on_file.Profiles(store.read_jsonl(path, Profile)).by_device(store.read_candidate(folder)).values()
    )
    assert set(sides) == set(SIDES)
    for profile in sides.values():
        assert set(profile.counters) == set(BY_NAME), set(BY_NAME) - set(profile.counters)
        assert profile.counters["time_us"] > 1 and profile.counters["instructions"] > 0
