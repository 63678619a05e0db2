"""Timing uses the GPU exclusively; everything else shares it."""

from __future__ import annotations

import contextlib
import fcntl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcurate.core.lock_files import held
from kcurate.judge import gpu_lock
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


def test_timings_that_are_ready_together_run_in_a_row_before_the_next_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []
    registered: list[int] = []
    both_registered = threading.Event()
    monkeypatch.setattr(gpu_lock, "PATIENCE_S", 30.0)

    @contextlib.contextmanager
    def watched(handle: int, kind: int) -> Iterator[None]:
        with held(handle, kind):
            if kind == fcntl.LOCK_SH:
                registered.append(handle)
            if len(registered) == 2:
                both_registered.set()
            yield

    monkeypatch.setattr(gpu_lock, "held", watched)

    def take_times(name: str) -> None:
        lock = GpuLock("test")
        with lock.exclusive():
            events.append(f"{name} begins")
            assert both_registered.wait(30)
            events.append(f"{name} ends")
        lock.close()

    def work() -> None:
        lock = GpuLock("test")
        with lock.shared():
            events.append("work")
        lock.close()

    user = GpuLock("test")
    threads = [threading.Thread(target=take_times, args=(name,)) for name in "ab"]
    with user.shared():
        for thread in threads:
            thread.start()
    while not events:
        time.sleep(0.01)
    threads.append(threading.Thread(target=work))
    threads[-1].start()
    for thread in threads:
        thread.join()
    user.close()
    first, second = ("a", "b") if events[0].startswith("a") else ("b", "a")
    assert events == [f"{first} begins", f"{first} ends", f"{second} begins", f"{second} ends", "work"]


def test_a_timing_does_not_wait_for_workers_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that overlap leave no moment without one; a registered timing keeps the next ones out."""
    monkeypatch.setattr(gpu_lock, "PATIENCE_S", 0.2)
    timed = threading.Event()

    def work() -> None:
        lock = GpuLock("test")
        while not timed.is_set():
            with lock.shared():
                time.sleep(0.02)
        lock.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    lock = GpuLock("test")
    with lock.exclusive():
        timed.set()
    for thread in threads:
        thread.join()
    lock.close()


def test_a_gpu_has_one_lock_whatever_its_index() -> None:
    one = Environment(backend="cuda", device="A", device_uuid="GPU-1", details={"index": 0})
    same = Environment(backend="cuda", device="A", device_uuid="GPU-1", details={"index": 1})
    other = Environment(backend="cuda", device="A", device_uuid="GPU-2")
    assert lock_name(one) == lock_name(same) != lock_name(other)
    assert lock_name(Environment(backend="emulator", device="cpu")) == "emulator"
