"""pairs/README.md is what the pairs and their verdicts say, and the verdicts are of these very pairs."""

from __future__ import annotations

from kcurate import gallery, resources, store
from kcurate.judge import PROTOCOL
from kcurate.records import Outcome


def test_page_is_current() -> None:
    root = resources.pairs_dir()
    assert (root / "README.md").read_text(encoding="utf-8") == gallery.render(root), "run: make docs"


def test_every_built_in_pair_was_confirmed_as_it_is() -> None:
    unproved = []
    for folder in store.find_candidates(resources.pairs_dir()):
        key = store.candidate_key(store.read_candidate(folder), protocol=PROTOCOL)
        verdicts = store.read_verdicts(folder)
        if not any(v.key == key and v.outcome is Outcome.CONFIRMED for v in verdicts):
            unproved.append(folder.name)
    assert not unproved
