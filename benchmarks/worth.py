"""What taking a labelled technique away from a built-in fast side costs, from verdicts of what rules made."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from kcurate.core import store
from kcurate.deopt.rules import RULES
from kcurate.records import Candidate

DATA = Path(__file__).resolve().parent.parent / "docs/data"


def rows() -> list[dict[str, Any]]:
    """The verdicts of all GPUs on what rules made of the built-in fast sides as they are."""
    files = sorted(DATA.glob("*/deopt.jsonl.zst"))
    return [json.loads(line) for path in files for line in lines_of(path)]


def forget(pair: str) -> None:
    """Drop the verdicts on what rules made of a pair's fast side, which has been replaced."""
    keep(DATA.glob("*/deopt.jsonl.zst"), lambda row: not row["candidate"].startswith(f"{pair}/deopt-"))


def keep(paths: Iterable[Path], wanted: Callable[[Mapping[str, Any]], bool]) -> None:
    """Drop the rows of JSON Lines files that are not wanted; files that lose none stay untouched."""
    for path in paths:
        lines = lines_of(path)
        left = [line for line in lines if wanted(json.loads(line))]
        if len(left) < len(lines):
            write_lines(path, left)


def lines_of(path: Path) -> list[str]:
    """The lines of a file that may be packed by zstd, as its suffix says."""
    with pa.input_stream(str(path)) as file:
        return [line.decode() for line in file.read().splitlines()]


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write these lines, packed if the suffix says so: everything tracked travels to a machine with a GPU."""
    data = "".join(f"{line}\n" for line in lines).encode()
    if path.suffix == ".zst":
        data = pa.Codec("zstd", compression_level=19).compress(data, asbytes=True)
    store.write_bytes(path, data)


def worth(
    verdicts: Iterable[Mapping[str, Any]], pairs: Mapping[str, Candidate]
) -> Mapping[str, Mapping[str, float]]:
    """By pair and labelled technique: the largest confirmed ratio to the same side without it."""
    removes = {rule.name: rule.technique for rule in RULES}
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in verdicts:
        name, rule = row["candidate"].rsplit("/deopt-", 1)
        pair, technique = pairs.get(name), removes.get(rule)
        if pair is not None and technique in pair.techniques and row["outcome"] == "confirmed":
            assert technique is not None, "it is one of the pair's"
            ratio = round(row["speedup"]["ratio"], 2)
            found[name][technique] = max(ratio, found[name].get(technique, 0.0))
    return found
