"""Referees on a Ray cluster on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import small

from kcurate.judge.judging import JudgeConfig
from kcurate.judge.referees.local import Referees
from kcurate.judge.referees.ray_cluster import Cluster, cluster
from kcurate.records import Outcome

ray = pytest.importorskip("ray", reason="needs the extra kcurate[ray]")
pytestmark = pytest.mark.slow  # a cluster takes 10 s to start and end
CONFIG = JudgeConfig(backend="emulator", spares=1)


@pytest.fixture(scope="module")
def here() -> Iterator[Cluster]:
    ray.init(address="local", num_cpus=1, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    yield cluster("auto")
    ray.shutdown()


def test_actors_judge_and_are_replaced_when_they_die(here: Cluster) -> None:
    assert here.places("emulator") == 1
    with closing(Referees(CONFIG, jobs=1, hire=here.hire)) as referees:
        assert referees.environment().backend == "emulator"
        assert referees.submit(small.scaled()).result().outcome is Outcome.CORRECT
        assert referees.submit(small.wrong()["wrong_everywhere"][0]).result().outcome is Outcome.MISMATCH
        referees._running[0].stop(now=True)
        assert referees.submit(small.scaled()).result().outcome is Outcome.CORRECT
        referees._limit_s = 1.0
        endless = small.scaled(fast=small.SCALE.replace("if (i < n)", "while (n) if (i < n)"))
        assert referees.submit(endless).result().outcome is Outcome.HARNESS_ERROR
