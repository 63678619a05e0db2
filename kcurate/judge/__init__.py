"""Candidate in, `Verdict` out: the one place that decides."""

# Part of every verdict's key: a change of what is proved makes old verdicts invalid.
PROTOCOL = "2"
