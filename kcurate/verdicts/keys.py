"""The key of a verdict: a hash of the candidate's content and the version of the judge's protocol.

Not covered: the hash (`kcurate.core.store`).
"""

from __future__ import annotations

from kcurate.core import store
from kcurate.records import Candidate

# Part of every key, so that a change to what the judge proves invalidates old verdicts.
PROTOCOL = "4"


def verdict_key(candidate: Candidate) -> str:
    """The key of verdicts on exactly this code, these plans and this problem under the current protocol.

    A slow side that a rule or model made is judged more strictly than the same code written by hand, so the
    two have different keys.
    """
    mark = " made slow" if candidate.origin.made == "slow" else ""
    return store.candidate_key(candidate, protocol=f"{PROTOCOL}{mark}")
