"""Referees on a Ray cluster on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import small
from serve.conftest import Server, write_pairs
from train.asked import WRONG, reply

from kcurate import judge
from kcurate.client import Answer
from kcurate.core import store
from kcurate.errors import InputError
from kcurate.judge.judging import JudgeConfig
from kcurate.judge.referees.local import Referees
from kcurate.judge.referees.ray_cluster import Cluster, cluster
from kcurate.records import Outcome
from kcurate.validate.stage import ValidateConfig, run

ray = pytest.importorskip("ray", reason="needs the extra kcurate[ray]")
pytestmark = pytest.mark.slow  # a cluster takes 10 s to start and end
CONFIG = JudgeConfig(backend="emulator", spares=1)


def test_an_address_where_nothing_listens_is_one_line_at_once() -> None:
    with pytest.raises(InputError, match="nothing answers there"):
        cluster("127.0.0.1:1")


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


def test_validate_judges_on_the_cluster(here: Cluster, tmp_path: Path) -> None:
    store.write_candidate(tmp_path / "pairs" / "right", small.scaled("right"))
    store.write_candidate(tmp_path / "pairs" / "wrong", small.wrong()["wrong_everywhere"][0])
    config = ValidateConfig(tmp_path / "work", (tmp_path / "pairs",), ray="auto")
    assert run(config).items == {"candidates": {"correct": 1, "mismatch": 1}}
    (book,) = (tmp_path / "work" / "verdicts").glob("*.jsonl")
    assert {json.loads(line)["outcome"] for line in book.read_text().splitlines()} == {"correct", "mismatch"}
    assert run(config).items == {"candidates": {"correct": 1, "mismatch": 1}}
    assert len(book.read_text().splitlines()) == 2


def test_a_server_judges_on_the_cluster(here: Cluster, tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs", small.SCALE)
    server = Server(pairs, tmp_path / "work", "--ray", ray.get_runtime_context().gcs_address)
    try:
        job = server.client.judge([Answer("test/scale", text) for text in (reply(), WRONG)])
        assert [one.outcome for one in job.results] == ["correct", "mismatch"]
        assert (server.client.health().backend, server.client.health().gpus) == ("emulator", [])
    finally:
        server.kill()


def test_a_node_that_dies_loses_no_verdict() -> None:
    """Two nodes with one place each; the second is killed while its referee judges."""
    from ray.cluster_utils import Cluster as Nodes

    ray.shutdown()
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = nodes.add_node(num_cpus=1)
    try:
        nodes.wait_for_nodes()
        candidates = [small.scaled(f"s{i}") for i in range(8)]
        with closing(judge.open_referees(CONFIG, jobs=2, ray=nodes.address)) as referees:
            referees.environment()
            pending = [referees.submit(one) for one in candidates]
            pending[1].result()
            nodes.remove_node(second, allow_graceful=False)
            verdicts = [one.result(timeout=120) for one in pending]
        assert [verdict.outcome for verdict in verdicts] == [Outcome.CORRECT] * len(candidates)
        assert [verdict.candidate for verdict in verdicts] == [one.id for one in candidates]
    finally:
        ray.shutdown()
        nodes.shutdown()
