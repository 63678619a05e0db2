"""The texts of minted pairs, frozen beside the facts about them.

    python benchmarks/minted_texts.py pack WORKSPACE NAME --commit HASH [--cpu-s S] [--wall-s S] [--problems]
    python benchmarks/minted_texts.py unpack WORKSPACE

`pack` writes docs/data/minted/NAME.parquet from a workspace in which `kcurate mint` ran: a row a pair, in the
order of their ids, so that what the pairs of a graph share is stored once. A problem is there with PyTorch
module, statement and plain side (`minted/<graph>/plain`), an answer if docs/data/*/minted.parquet has facts
about it, and none with --problems; then a line of docs/data/minted/runs.jsonl says what the run composed and
cost.

`unpack` writes all of them into a workspace as ordinary pairs, with the verdicts that the facts are of.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pyarrow as pa
import pyarrow.parquet as pq

from kcurate.core import codec, store
from kcurate.core.workspace import Workspace
from kcurate.judge.timing.statistics import CONFIDENCE
from kcurate.records import SIDES, Candidate, Environment, Outcome, SideReport, Speedup, Verdict
from kcurate.verdicts.keys import PROTOCOL, verdict_key

DATA = Path(__file__).resolve().parent.parent / "docs/data"
TEXTS, RUNS = DATA / "minted", DATA / "minted/runs.jsonl"
# The compilers of all other verdicts under the driver of the facts, which have none.
COMPILERS = {"schedules": "nvrtc 13.0 sm_90a", "triton": "triton 3.6.0 ptxas 12.8.93"}
# What their facts leave out, as other verdicts have it.
DETAILS = {"NVIDIA H200": {"compute_capability": "9.0"}}


def facts() -> Iterator[dict[str, Any]]:
    """What a GPU found of minted answers."""
    for path in sorted(DATA.glob("*/minted.parquet")):
        yield from pq.read_table(path).to_pylist()


def verdict_of(row: dict[str, Any]) -> Verdict:
    """The verdict that a row of facts is of, without its samples; blocks and margin are not on record."""
    speedup = row["speedup"] and Speedup(row["speedup"], *row["interval"], CONFIDENCE, blocks=0, margin=0.0)
    compiler = row.get("compiler") or COMPILERS[row["answer"]]
    return Verdict(
        candidate=f"minted/{row['graph']}/{row['answer']}",
        key=row["key"],
        outcome=Outcome(row["outcome"]),
        environment=Environment(
            "cuda", row["device"], driver=row["driver"], compiler=compiler, details=DETAILS[row["device"]]
        ),
        detail=row["detail"],
        slow=SideReport(median_us=row["slow_us"]),
        fast=SideReport(median_us=row["fast_us"]),
        speedup=speedup,
        timing_method="events" if speedup else None,
        protocol=PROTOCOL,
    )


def candidates(path: Path) -> Iterator[Candidate]:
    """The pairs of a file."""
    for text in pq.read_table(path)["pair"].to_pylist():
        yield codec.from_data(Candidate, json.loads(text), where=str(path))


def text_of(pair: Candidate) -> str:
    """A pair as a row has it."""
    return codec.canonical_json(codec.to_data(pair)).decode()


def text_in(folder: Path) -> str:
    """The text of the pair in a folder, without reading it as a record, which takes longer."""
    data = json.loads((folder / "pair.json").read_bytes())
    del data["schema"]
    for side in SIDES:
        data[side]["code"] = (folder / data[side].pop("file")).read_text("utf-8")
    return codec.canonical_json(data).decode()


def to_bytes(texts: Mapping[str, str]) -> bytes:
    """The pairs by id as Parquet; one page, so that zstd sees what neighbours share."""
    ordered = dict(sorted(texts.items()))
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"id": list(ordered), "pair": list(ordered.values())}),
        sink,
        compression="zstd",
        compression_level=22,
        data_page_size=1 << 30,
        row_group_size=max(1, len(ordered)),
        use_dictionary=False,
        write_statistics=False,
    )
    return sink.getvalue().to_pybytes()


def pack(options: argparse.Namespace) -> None:
    """Write the texts of a run, and a line of what it composed."""
    workspace = Workspace(options.workspace)
    known = set() if options.problems else {row["key"] for row in facts()}
    # Read first, since the run may still go on.
    graphs = [json.loads(text) for text in (workspace.root / "minted.jsonl").read_text().splitlines()]
    texts, packed = {}, set()
    for name in sorted(graph["key"] for graph in graphs if graph["outcome"] == "admitted"):
        graph = workspace.pairs / "minted" / name
        texts[f"minted/{name}/plain"] = text_in(graph / "plain")
        for folder in (graph / name for name in COMPILERS if known and (graph / name / "pair.json").exists()):
            pair = store.read_candidate(folder)
            if (key := verdict_key(pair)) in known:
                packed.add(key)
                texts[pair.id] = text_of(pair)
    path = TEXTS / f"{options.name}.parquet"
    store.write_bytes(path, to_bytes(texts))
    print(f"{len(texts)} pairs in {path.stat().st_size >> 10} KB; {len(known - packed)} facts have no text")
    if not options.problems:
        return
    lines = [json.loads(text) for text in RUNS.read_text().splitlines()] if RUNS.exists() else []
    lines = [line for line in lines if line["name"] != options.name] + [yields(options, graphs)]
    store.write_bytes(RUNS, "".join(json.dumps(line) + "\n" for line in lines).encode())


def yields(options: argparse.Namespace, graphs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a run composed, what became of it, and its cost in CPU seconds (workers, compilers included)."""
    times = sorted(graph["cpu_s"] for graph in graphs if graph["cpu_s"] is not None)
    admitted = [graph for graph in graphs if graph["outcome"] == "admitted"]
    return {
        "name": options.name,
        "commit": options.commit,
        "setting": graphs[0]["setting"],
        "composed": len(graphs),
        "outcomes": dict(Counter(graph["outcome"] for graph in graphs).most_common()),
        "types": dict(Counter(graph["dtype"] for graph in admitted).most_common()),
        "operators": len({name for graph in admitted for name in graph["operators"]}),
        "cpu_s": {
            "sum": round(sum(times), 1),
            "median": times[len(times) // 2],
            "largest": times[-1],
        },
        "run": {"cpu_s": options.cpu_s, "wall_s": options.wall_s},
    }


def unpack(workspace: Workspace) -> list[str]:
    """Write all pairs and verdicts into a workspace; the ids of the pairs.

    A graph that two runs composed is there as the first has it that was judged, else as the first.
    """
    files = {
        path: pq.read_table(path, columns=["id"])["id"].to_pylist()
        for path in sorted(TEXTS.glob("*.parquet"))
    }
    first = dict[str, Path]()
    for plain in (False, True):
        for path, ids in files.items():
            for name in ids:
                if name.endswith("/plain") is plain:
                    first.setdefault(name.split("/")[1], path)
    names = list[str]()
    for path in files:
        for pair in candidates(path):
            if first[pair.id.split("/")[1]] == path:
                names.append(pair.id)
                store.write_candidate(workspace.pairs / pair.id, pair, durable=False)
    lines = (codec.canonical_json(codec.to_data(verdict_of(row))) + b"\n" for row in facts())
    store.write_bytes(workspace.verdicts / "minted.jsonl", b"".join(lines))
    return names


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    packing, unpacking = parts.add_parser("pack"), parts.add_parser("unpack")
    for part in (packing, unpacking):
        part.add_argument("workspace", type=Path)
    packing.add_argument("name")
    packing.add_argument("--commit", required=True, help="of the composer")
    packing.add_argument("--cpu-s", type=float, help="CPU seconds of the whole run")
    packing.add_argument("--wall-s", type=float, help="its seconds")
    packing.add_argument("--problems", action="store_true", help="no answers")
    options = parser.parse_args()
    if options.part == "pack":
        pack(options)
    else:
        print(f"{len(unpack(Workspace(options.workspace)))} pairs")


if __name__ == "__main__":
    main()
