"""`--ray`: two nodes, of which one is killed, write what one machine writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from extract.test_shards import PLAIN, content_of, row, write

from kcurate.core import cluster
from kcurate.core.worker_pool import Failure
from kcurate.draft.settings import DraftConfig
from kcurate.draft.stage import draft
from kcurate.errors import InputError
from kcurate.extract import from_shards, shards, stage
from kcurate.extract.settings import ExtractConfig
from kcurate.mint import stage as minting
from kcurate.mint.settings import MintConfig

ray = pytest.importorskip("ray", reason="needs the extra kcurate[ray]")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    from ray.cluster_utils import Cluster as Nodes

    started = Nodes(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        yield started
    finally:
        ray.shutdown()
        started.shutdown()


def test_a_node_that_dies_loses_nothing(nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_shards, "GROUP_BYTES", 2000)
    for shard in range(3):
        rows = [row(PLAIN % (f"k{shard}_{n}", n), f"{n}.cu", f"o/r{(shard * 5 + n) % 17}") for n in range(60)]
        write(tmp_path / "in" / f"{shard}.parquet", rows)
    source = (str(tmp_path / "in"),)
    here = stage.run(ExtractConfig(workspace=tmp_path / "here", shards=source, compile=False, jobs=2))
    second = nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    finished_when_killed: list[int] = []

    def groups() -> int:
        return len(list((tmp_path / "there").glob("shards/*/groups/*.json")))

    def kill() -> None:
        while groups() < 2:
            time.sleep(0.02)
        nodes.remove_node(second, allow_graceful=False)
        finished_when_killed.append(groups())

    killer = threading.Thread(target=kill)
    killer.start()
    settings = ExtractConfig(workspace=tmp_path / "there", shards=source, compile=False, ray=nodes.address)
    there = stage.run(settings)
    killer.join()
    assert 2 <= finished_when_killed[0] < 17, "it was killed after everything was done"
    assert there.counts == here.counts and content_of(tmp_path / "there") == content_of(tmp_path / "here")


def test_drafts_and_minted_problems_are_those_of_one_machine(nodes: Any, tmp_path: Path) -> None:
    shard = write(tmp_path / "s.parquet", [row(PLAIN % (f"k{n}", n), f"{n}.cu", f"o/{n}") for n in range(2)])
    for name, address in (("here", None), ("there", nodes.address)):
        work = tmp_path / name
        stage.run(ExtractConfig(workspace=work, shards=(str(shard),), compile=False, ray=address))
        drafted = draft(DraftConfig(workspace=work, ray=address))
        minted = minting.run(MintConfig(workspace=work, count=2, seed=3, ray=address))
        assert sum(drafted.counts["kernels"].values()) == 2 and minted.counts["problems"]["admitted"] == 2
    assert content_of(tmp_path / "there") == content_of(tmp_path / "here")
    assert list((tmp_path / "there").glob("kernels/**/problem.toml"))


def test_what_ends_a_process_is_its_own_failure_and_the_rest_goes_on(nodes: Any) -> None:
    kill = "__import__('os').kill(__import__('os').getpid(), 9)"
    with cluster.workers(2, (), ray=nodes.address) as pool:
        answers = dict(pool.run(eval, ["1 + 1", kill, "2 + 2"], timeout_s=60.0))
        assert (answers[0], answers[2]) == (2, 4) and isinstance(answers[1], Failure)
        with pytest.raises(InputError, match="no such file"):
            list(pool.run(shards.find_shards, [("nothing",)], timeout_s=60.0))
