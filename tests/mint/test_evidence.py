"""What a GPU judged is what the seed gives: committed rows have the keys of answers that are made again."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow.parquet as pq

from kcurate.mint.admission import Minting, admit
from kcurate.mint.composer import Composer
from kcurate.verdicts.keys import verdict_key

ROWS = Path(__file__).resolve().parents[2] / "docs/data/nvidia-h200/minted.parquet"
# `Minting.text_seed` of the judged problems.
SEED, SPREAD = 2026, 1_000_003
CHECKED = 2


def test_the_seed_gives_the_answers_that_were_judged() -> None:
    rows = pq.read_table(ROWS, columns=["graph", "answer", "key", "text_seed"]).to_pylist()
    keys = {(row["graph"], row["answer"]): row["key"] for row in rows}
    numbers = sorted({row["text_seed"] - SEED * SPREAD for row in rows})[:CHECKED]
    graphs = list(itertools.islice(Composer(SEED).graphs(), numbers[-1] + 1))
    for number in numbers:
        minted = admit(Minting(graphs[number], SEED, number))
        made = {tuple(pair.id.split("/")[1:]): verdict_key(pair) for pair in minted.candidates}
        judged = {name: key for name, key in keys.items() if name[0] == graphs[number].key}
        assert judged
        assert judged.items() <= made.items()
