"""What the tests of training share: pairs of our own and a model that has learned one answer by heart."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny import write_pairs

    return write_pairs(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="session")
def model(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once in a run of pytest, by the process that asks first; the others wait for it."""
    from tiny import tasks, write_model

    place = tmp_path_factory.getbasetemp()
    place = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "model"
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            write_model(place.with_suffix(".part"), tasks(pairs)).rename(place)
    return place


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Torch uses one thread; a test that needs no torch does not load it."""
    torch = sys.modules.get("torch")
    if torch is None:
        monkeypatch.setenv("OMP_NUM_THREADS", "1")  # read when torch is loaded
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
