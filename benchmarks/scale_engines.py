"""What it costs to bring the rows of a repository together: our first step, Ray Data, reading with datatrove.

    python -m benchmarks.scale_engines own|ray|datatrove SHARDS     one line: CPU seconds, peak memory

Each reads `content` and `repository` of every row with two workers, and counts the rows that hold a kernel.
`own` also makes the hashes that find copies; datatrove has no step that groups, so it only reads. It is no
dependency: `pip install datatrove` beside kcurate.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.scale import observe

MARK = "__global__"
Counts = dict[str, int]


def count_group(task: tuple[Path, tuple[tuple[int, int], ...], int]) -> tuple[int, int, int]:
    """Rows, repositories and rows with a kernel of one group of our first step."""
    from kcurate.extract import row_groups

    rows = row_groups.read_group(*task)
    marked = sum(MARK.encode() in row.content for row in rows)
    return len(rows), len({row.repository for row in rows}), marked


def own(folder: str, work: Path) -> Counts:
    from kcurate.core.worker_pool import Pool
    from kcurate.extract import from_shards, row_groups, shards

    found = shards.find_shards((folder,))
    groups = from_shards._group_count(found)
    reading = [row_groups.ShardTask(shard, number, (), groups, work) for number, shard in enumerate(found)]
    with Pool(2, (row_groups.__name__,)) as pool:
        reports = dict(pool.run(row_groups.read_shard, reading, timeout_s=600.0, isolate=True))
        chunks = tuple(
            (number, chunk) for number in sorted(reports) for chunk in range(reports[number].chunks)
        )  # type: ignore[union-attr]
        counting = [(work, chunks, group) for group in range(groups)]
        counted = [answer for _, answer in pool.run(count_group, counting, timeout_s=600.0, isolate=True)]
    rows, repositories, marked = (sum(column) for column in zip(*counted, strict=True))  # type: ignore[arg-type]
    return {"rows": rows, "repositories": repositories, "marked": marked}


def ray(folder: str, work: Path) -> Counts:
    import pyarrow as pa
    import ray as engine

    def count(group: Any) -> Any:
        marked = sum(MARK in content for content in group.column("content").to_pylist())
        return pa.table({"rows": [group.num_rows], "marked": [marked]})

    engine.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    rows = engine.data.read_parquet(folder, columns=["content", "repository"])
    counted = rows.groupby("repository").map_groups(count, batch_format="pyarrow").take_all()
    return {
        "rows": sum(group["rows"] for group in counted),
        "repositories": len(counted),
        "marked": sum(group["marked"] for group in counted),
    }


def datatrove(folder: str, work: Path) -> Counts:
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.base import PipelineStep
    from datatrove.pipeline.readers import ParquetReader

    class Count(PipelineStep):  # type: ignore[misc, unused-ignore]
        name = "count"

        def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
            for document in data:
                self.stat_update("rows", *(["marked"] if MARK in document.text else []))
                yield document

    steps = [ParquetReader(folder, text_key="content", id_key="path", batch_size=256), Count()]
    tasks = len(list(Path(folder).glob("*.parquet")))
    executor = LocalPipelineExecutor(
        steps, tasks=tasks, workers=2, logging_dir=str(work), start_method="fork"
    )
    counted = executor.run().stats[1].stats
    return {name: int(counted[name].total) for name in ("rows", "marked")}


def main() -> None:
    engine, folder = sys.argv[1:3]
    if len(sys.argv) > 3:
        print(json.dumps({"own": own, "ray": ray, "datatrove": datatrove}[engine](folder, Path(sys.argv[3]))))
        return
    with tempfile.TemporaryDirectory() as work:
        command = [sys.executable, "-m", "benchmarks.scale_engines", engine, folder, work]
        begun, process = time.monotonic(), subprocess.Popen(command, stdout=subprocess.PIPE)
        peak, ticks = 0, dict[int, int]()
        while process.poll() is None:
            peak = max(peak, observe(process.pid, ticks))
            time.sleep(0.1)
        assert process.stdout is not None
        counts = json.loads(process.stdout.read().splitlines()[-1])
    cpu_s = sum(ticks.values()) / os.sysconf("SC_CLK_TCK")
    line = {
        "engine": engine, **counts, "cpu_s": round(cpu_s, 1), "peak_mb": peak >> 20,
        "wall_s": round(time.monotonic() - begun, 1), "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip
    print(json.dumps(line))


if __name__ == "__main__":
    main()
