"""Timing uses the GPU exclusively; everything else shares it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from kcurate.judge.gpu_lock import GpuLock, lock_name
from kcurate.records import Environment


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))


def test_exclusive_use_waits_for_others_and_keeps_them_out() -> None:
    events: list[str] = []
    inside = threading.Event()

    def take_times() -> None:
        lock = GpuLock("test")
        with lock.exclusive():
            events.append("alone")
            inside.set()
            time.sleep(0.2)
            events.append("done")
        lock.close()

    user = GpuLock("test")
    with user.shared():
        thread = threading.Thread(target=take_times)
        thread.start()
        assert not inside.wait(0.1)
        events.append("shared")
    assert inside.wait(5)
    with user.shared():
        events.append("after")
    thread.join()
    assert events == ["shared", "alone", "done", "after"]
    user.close()


def test_shared_use_does_not_block() -> None:
    first, second = GpuLock("test"), GpuLock("test")
    with first.shared(), second.shared():
        pass
    first.close()
    second.close()


def test_a_gpu_has_one_lock_whatever_its_index() -> None:
    one = Environment(backend="cuda", device="A", device_uuid="GPU-1", details={"index": 0})
    same = Environment(backend="cuda", device="A", device_uuid="GPU-1", details={"index": 1})
    other = Environment(backend="cuda", device="A", device_uuid="GPU-2")
    assert lock_name(one) == lock_name(same) != lock_name(other)
    assert lock_name(Environment(backend="emulator", device="cpu")) == "emulator"
