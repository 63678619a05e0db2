"""pairs/README.md is what the pairs and their verdicts say, and the verdicts are of these very pairs."""

from __future__ import annotations

from kcurate import gallery, resources, store
from kcurate.records import Outcome
from kcurate.verdicts.keys import verdict_key

# Pairs without a verdict so far. Judged on a GPU, a pair leaves this list.
NOT_JUDGED = {"linear-bf16", "linear-fp8", "linear-gelu", "row-standardize"}


def test_page_is_current() -> None:
    root = resources.pairs_dir()
    assert (root / "README.md").read_text(encoding="utf-8") == gallery.render(root), "run: make docs"


def test_every_built_in_pair_was_confirmed_as_it_is() -> None:
    unproved = set()
    for folder in store.find_candidates(resources.pairs_dir()):
        key = verdict_key(store.read_candidate(folder))
        verdicts = store.read_verdicts(folder)
        if not any(v.key == key and v.outcome is Outcome.CONFIRMED for v in verdicts):
            unproved.add(folder.name)
    assert unproved == NOT_JUDGED
