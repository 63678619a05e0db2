"""pairs/README.md is what the pairs and their verdicts say, and the verdicts are of these very pairs."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

from kcurate.core import codec, resources, store
from kcurate.records import Outcome
from kcurate.verdicts.keys import verdict_key
from tools import gallery


def test_page_is_current() -> None:
    root = resources.pairs_dir()
    assert (root / "README.md").read_text(encoding="utf-8") == gallery.render(root), "run: make docs"


def test_every_verdict_on_file_confirms_the_pair_as_it_is() -> None:
    """A pair without any verdict awaits a GPU; the page says so, and `build` leaves it out as not judged."""
    unproved = []
    for folder in store.find_candidates(resources.pairs_dir()):
        key = verdict_key(store.read_candidate(folder))
        verdicts = store.read_verdicts(folder)
        if verdicts and not any(v.key == key and v.outcome is Outcome.CONFIRMED for v in verdicts):
            unproved.append(folder.name)
    assert not unproved


def test_a_pair_without_a_verdict_awaits_a_gpu(tmp_path: Path) -> None:
    folder = "reduction-scan/reduce-sum"
    shutil.copytree(resources.pairs_dir() / folder, tmp_path / folder)
    assert "without a verdict" not in gallery.render(tmp_path)
    shutil.rmtree(tmp_path / folder / "verdicts")
    page = gallery.render(tmp_path)
    assert "- 1 without a verdict: they await a GPU." in page
    assert "| awaits a GPU |" in page
    assert "confirmed" not in page


# Larger steps that are one change, see docs/results/corpus.md.
ONE_CHANGE = {"dense-linear-algebra/batched-qr-warp", "deep-learning/moe-align-thread-block"}


def test_large_speedups_have_rungs_between() -> None:
    """Pairs of at most 30x, or without a verdict, lead from the slow to the fast side of a pair above 60x."""
    steps: dict[str, set[str]] = defaultdict(set)
    large: dict[str, tuple[str, str]] = {}
    for pair, verdict, _ in gallery.entries(resources.pairs_dir()):
        slow, fast = (
            codec.canonical_json([pair.family, codec.to_data(side)]) for side in (pair.slow, pair.fast)
        )
        ratio = verdict.speedup.ratio if verdict and verdict.speedup else 0.0
        if ratio <= 30 or pair.id in ONE_CHANGE:
            steps[slow].add(fast)
        if ratio > 60:
            large[pair.id] = slow, fast
    for start, _ in large.values():
        while more := set().union(*(steps[side] for side in steps[start])) - steps[start]:
            steps[start] |= more
    assert [name for name, (slow, fast) in large.items() if fast not in steps[slow]] == []
