"""What taking a labelled technique away from a built-in fast side costs, from verdicts of what rules made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from kcurate.deopt.rules import RULES
from kcurate.records import Candidate


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
