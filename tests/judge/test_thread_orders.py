"""How many orders of threads are tried: as many as a budget of processor time allows."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from kcurate.judge import thread_orders


@pytest.mark.parametrize(("cpu_s", "orders"), [(0.0, 8), (0.3, 2), (0.5, 1)])
def test_orders_end_by_processor_time_and_not_by_the_clock(
    monkeypatch: pytest.MonkeyPatch, cpu_s: float, orders: int
) -> None:
    worker = SimpleNamespace(cpu_s=0.0)
    side = SimpleNamespace(worker=worker, load=lambda *_: None)
    trials = [SimpleNamespace(slot="test0-nominal"), SimpleNamespace(slot="test1-nominal")]
    verification: Any = SimpleNamespace(
        sides={"slow": side},
        seed=1,
        case=SimpleNamespace(candidate=None),
        answered={trial.slot: {"slow": {}} for trial in trials},
    )
    clock, asked = [0.0], list[object]()

    def reply(*run: object) -> None:
        asked.append(run)
        worker.cpu_s += cpu_s
        clock[0] += 60.0  # a busy machine

    for name in ("monotonic", "perf_counter", "time"):
        monkeypatch.setattr(time, name, lambda: clock[0])
    monkeypatch.setattr(thread_orders, "_trials_to_repeat", lambda _: trials)
    monkeypatch.setattr(thread_orders, "_shared_bytes_available", lambda *_: {})
    monkeypatch.setattr(thread_orders, "_matching_outputs", lambda *_: {})
    monkeypatch.setattr(thread_orders, "_reply", reply)
    compiled: Any = None
    assert thread_orders._finishes_in_all_orders(verification, "slow", compiled, 4)
    assert len(asked) == orders
