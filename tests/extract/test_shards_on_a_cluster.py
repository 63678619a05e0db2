"""`kcurate extract --from --ray`: two nodes, of which one is killed, write what one machine writes."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from extract.test_shards import PLAIN, content_of, row, write

from kcurate.core import cluster
from kcurate.errors import InputError
from kcurate.extract import from_shards, stage
from kcurate.extract.settings import ExtractConfig

ray = pytest.importorskip("ray", reason="needs the extra kcurate[ray]")
pytestmark = pytest.mark.slow


def test_a_node_that_dies_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.cluster_utils import Cluster as Nodes

    monkeypatch.setattr(from_shards, "GROUP_BYTES", 2000)
    for shard in range(3):
        rows = [row(PLAIN % (f"k{shard}_{n}", n), f"{n}.cu", f"o/r{(shard * 5 + n) % 9}") for n in range(30)]
        write(tmp_path / "in" / f"{shard}.parquet", rows)
    source = (str(tmp_path / "in"),)
    here = stage.run(ExtractConfig(workspace=tmp_path / "here", shards=source, compile=False))
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = nodes.add_node(num_cpus=1)

    def kill() -> None:
        while len(list((tmp_path / "there").glob("shards/*/groups/*.json"))) < 2:
            time.sleep(0.05)
        nodes.remove_node(second, allow_graceful=False)

    try:
        nodes.wait_for_nodes()
        killer = threading.Thread(target=kill)
        killer.start()
        settings = ExtractConfig(
            workspace=tmp_path / "there", shards=source, compile=False, ray=nodes.address
        )
        there = stage.run(settings)
        killer.join()
    finally:
        ray.shutdown()
        nodes.shutdown()
    assert there.counts == here.counts and content_of(tmp_path / "there") == content_of(tmp_path / "here")


def test_an_address_where_nothing_listens_is_one_line_at_once() -> None:
    with pytest.raises(InputError, match="nothing answers there"):
        cluster.connected("127.0.0.1:1")
