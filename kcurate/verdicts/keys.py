"""What a verdict is filed under: the content of a candidate, and the version of the judge's protocol.

Not covered: how content becomes a hash (`kcurate.store`).
"""

from __future__ import annotations

from kcurate import store
from kcurate.records import Candidate

# Part of every verdict's key: a change of what is proved makes old verdicts invalid.
PROTOCOL = "2"


def verdict_key(candidate: Candidate) -> str:
    """The key of verdicts on exactly this code, plans and problem under today's protocol."""
    return store.candidate_key(candidate, protocol=PROTOCOL)
